"""Who may hold the past stands apart, however it was asked; and what the log says of the others."""

import polars as pl
import pytest

import clvlab as cl
from clvlab.agents.isolation.agent import isolated
from clvlab.arena.competitions.requests import AgentEntry
from clvlab.arena.packs import open_pack
from clvlab.arena.run_store import KeptRuns
from clvlab.lab.laboratory.lists import list_standings
from clvlab.law.schema import Causality
from clvlab.runs import ranking
from clvlab.runs.spec import ReplaySpec, backtest_spec, rename, resolve
from clvlab.store import standings
from clvlab.store.labels import CAUSALITIES, Knowledge, is_hindsight_possible, weakest
from clvlab.store.standings import RowQuery
from tests.factories import ALICE, kept_run, make_competition, write_quotes

FIRST_MS, KICKOFF_MS, OVER_MS = 1_772_359_200_000, 1_772_366_400_000, 1_772_373_600_000  # 2026-03-01 10:00, 12:00, 14:00
BEFORE_MS = FIRST_MS - 86_400_000


def known_sides(pack):
    """Side of each market whose probability rises most until the last tick before kickoff, by fixture and market."""
    ticks = pack.ticks().filter(~pl.col("in_running"), pl.col("prob_bps").is_not_null()).sort("tick_seq")
    moves = ticks.group_by("fixture_id", "market_key", "side").agg(
        move=pl.col("prob_bps").last() - pl.col("prob_bps").first(), at=pl.col("tick_seq").first()
    )
    return moves.sort("move").group_by("fixture_id", "market_key").last()


def transcript_of(pack, fixture_id):
    found = known_sides(pack).filter(pl.col("fixture_id") == fixture_id)
    return [
        {
            "fixture_id": fixture_id,
            "tick_seq": row["at"],
            "action": "BACK",
            "market_key": row["market_key"],
            "side": row["side"],
        }
        for row in found.iter_rows(named=True)
    ]


def odds(folder, name, step=1):
    """A pack of six imported matches on a day."""
    path = write_quotes(folder / f"{name}.csv", [(match, "2026-03-01") for match in range(6)], step)
    return cl.import_odds("csv", path, folder / name).source


@pytest.fixture
def laboratory(tmp_path):
    """Runs that are kept, at a time that the test sets."""
    now = [BEFORE_MS]
    made = KeptRuns(f"sqlite:///{tmp_path / 'kept.db'}", clock=lambda: now[0])
    made.set = lambda ts_ms: now.__setitem__(0, ts_ms)
    yield made
    made.close()


def kept(laboratory, pack, agent="baseline", params=None, **options):
    kept_run(laboratory, backtest_spec(pack, agent, params=params, **options))
    return row_of(laboratory, agent if isinstance(agent, str) else agent.identity.agent_id)


def row_of(laboratory, agent_id):
    return next(row for row in laboratory.leaderboard.rows()["rows"] if row["agent_id"] == agent_id)


def test_a_transcript_of_the_closes_is_never_among_the_first(application):
    pack = cl.open_pack("starter")
    competition_id = make_competition(application, "baseline", "cumulative-drift", fixture_id=90000000, roster_size=3)
    entry = {"agent_id": "a seer", "strategy": "llm", "config": {"transcript": transcript_of(pack, 90000000)}}
    application.competitions.register(ALICE, competition_id, AgentEntry(**entry))
    application.competitions.start(ALICE, competition_id)

    rows = application.leaderboard.rows()["rows"]
    apart = [one.row for one in application.forest.page().rows]

    assert rows[0]["agent_id"] == "a seer"  # by mean alone
    assert (rows[0]["causality"], rows[0]["knowledge"], rows[0]["hindsight_possible"]) == ("transcript", "history", True)
    assert [row["hindsight_possible"] for row in apart] == [False, False, True]
    assert apart[-1]["agent_id"] == "a seer"
    assert [row["rank"] for row in apart] == [1, 2, 3]


def test_own_code_with_a_table_of_closes_is_never_among_the_first(laboratory):
    pack = cl.open_pack("starter")
    table = known_sides(pack).select("fixture_id", "market_key", "side")

    @cl.strategy(agent_id="knows")
    def knows(ticks):
        return ticks.join(table.lazy(), on=["fixture_id", "market_key", "side"], how="semi").unique(
            ["fixture_id", "market_key"], keep="first", maintain_order=True
        )

    plan = ReplaySpec(pack=pack.source, agents=[resolve("baseline"), resolve(knows)])
    done = kept_run(laboratory, plan)

    rows = laboratory.leaderboard.rows()["rows"]
    assert rows[0]["agent_id"] == "knows"
    assert rows[0]["causality"].startswith("audited-")
    assert list_standings(rows, "here").frame["agent_id"].to_list() == ["baseline", "knows"]
    assert ranking.board([done])["agent_id"].to_list() == ["baseline", "knows"]
    knowing = cl.backtest(pack, knows)
    shown = cl.leaderboard([knowing, cl.backtest(pack, "baseline")])
    assert shown.frame.select("agent_id", "rank").rows() == [("baseline", 2), ("knows", 1)]
    assert "baseline is first" in shown._repr_html_()
    assert shown._repr_html_().index("The answers were public when this was run") > shown._repr_html_().index("is first")
    assert "knows first" not in repr(cl.leaderboard([knowing]))


def test_own_code_with_a_table_of_closes_that_is_asked_step_by_step_is_never_among_the_first(laboratory):
    pack = cl.open_pack("starter")
    sides = {row[:2]: row[2] for row in known_sides(pack).select("fixture_id", "market_key", "side").iter_rows()}

    class Knowing(cl.TickAgent):
        agent_id = "knows"

        def on_tick(self, book):
            side = sides.get((book.fixture_id, book.market_key))
            return book.back(side) if side is not None and book.tick_seq <= 3 else None

    done = kept_run(laboratory, ReplaySpec(pack=pack.source, agents=[resolve("baseline"), isolated(Knowing(), stepped=True)]))

    rows = laboratory.leaderboard.rows()["rows"]
    assert (rows[0]["agent_id"], rows[0]["causality"], rows[0]["hindsight_possible"]) == ("knows", "stepped", True)
    assert list_standings(rows, "here").frame["agent_id"].to_list() == ["baseline", "knows"]
    assert ranking.board([done])["agent_id"].to_list() == ["baseline", "knows"]


@pytest.mark.parametrize("causality", [*CAUSALITIES, "stepped", "stepped-blocks", "asked"])
def test_over_history_no_way_of_asking_but_a_template_that_computes_stands_first(causality):
    assert is_hindsight_possible(causality, "history", "sha256:1") is (causality != "template")
    assert not is_hindsight_possible(causality, "live", "sha256:1")
    assert not is_hindsight_possible(causality, "committed-before", "sha256:1")


def test_a_template_with_another_configuration_for_each_fixture_picks_sides_as_a_transcript_does(laboratory):
    pack = open_pack("starter")
    own = kept(laboratory, pack, fixture_ids=[90000000])
    assert (own["hindsight_possible"], own["config_hash"] is None) == (False, False)

    again = kept(laboratory, pack, params={"min_prob_bps": 1}, fixture_ids=[90000000])
    assert again["hindsight_possible"] is False  # it adds nothing

    mixed = kept(laboratory, pack, params={"min_prob_bps": 1}, fixture_ids=[90000001])
    assert (mixed["hindsight_possible"], mixed["config_hash"], mixed["strategy"]) == (True, None, "baseline")


def test_a_template_that_the_log_committed_to_before_the_first_price_is_told_with_its_place(laboratory, tmp_path):
    kept(laboratory, open_pack("starter"), "cumulative-drift", {"warmup_ticks": 1}, fixture_ids=[90000000])
    kept(laboratory, open_pack("starter"), fixture_ids=[90000000])
    laboratory.set(OVER_MS)

    pack = odds(tmp_path, "mine")
    plan = ReplaySpec(pack=pack, agents=[rename(resolve("baseline"), "again"), resolve("cumulative-drift")])
    kept_run(laboratory, plan)

    found = row_of(laboratory, "again")
    assert (found["knowledge"], found["commit_index"]) == ("committed-before", 2)  # 0 and 1 are the other's commit and result
    assert row_of(laboratory, "cumulative-drift")["knowledge"] == "history"  # what was committed to has another configuration
    assert row_of(laboratory, "baseline")["knowledge"] == "history"
    assert laboratory.leaderboard.rebuild() == []
    assert row_of(laboratory, "again") == found


@pytest.mark.parametrize(
    ("committed_ms", "run_ms", "expected"),
    [
        (BEFORE_MS, OVER_MS, "committed-before"),
        (FIRST_MS + 60_000, OVER_MS, "history"),  # when the first price was there
        (OVER_MS, OVER_MS, "history"),
        (BEFORE_MS, BEFORE_MS + 1, "history"),  # a pack of matches that are still to come is made up
    ],
)
def test_the_commitment_counts_from_its_time_in_the_log(laboratory, tmp_path, committed_ms, run_ms, expected):
    laboratory.set(committed_ms)
    kept(laboratory, open_pack("starter"), fixture_ids=[90000000])
    laboratory.set(run_ms)

    kept_run(laboratory, ReplaySpec(pack=odds(tmp_path, "mine"), agents=[rename(resolve("baseline"), "again")]))

    assert row_of(laboratory, "again")["knowledge"] == expected


def test_times_of_a_synthetic_pack_show_nothing(laboratory):
    laboratory.set(0)
    kept(laboratory, open_pack("season"), fixture_ids=[90000000])
    laboratory.set(2 * OVER_MS)

    kept_run(laboratory, ReplaySpec(pack=open_pack("starter"), agents=[rename(resolve("baseline"), "again")]))

    assert row_of(laboratory, "again")["knowledge"] == "history"


def test_own_code_is_not_committed_to_by_the_digest_of_its_text(laboratory, tmp_path):
    table = pl.DataFrame(schema={"fixture_id": pl.Int64, "side": pl.String})

    def late(ticks):
        return ticks.filter(pl.col("tick_seq") == 3).join(table.lazy(), on=["fixture_id", "side"], how="semi")

    early = cl.strategy(agent_id="late")(late)
    kept(laboratory, open_pack("starter"), resolve(early), fixture_ids=[90000000])
    laboratory.set(OVER_MS)
    pack = odds(tmp_path, "mine")
    table = pack.tape().series.select(fixture_id=pl.lit(1, pl.Int64), side=pl.col("side").cast(pl.String)).head(1)

    found = kept(laboratory, pack, resolve(cl.strategy(agent_id="late")(late)))

    assert (found["knowledge"], found["hindsight_possible"]) == ("history", True)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [("live", "history", "history"), ("committed-before", "live", "committed-before"), ("live", "live", "live")],
)
def test_of_several_runs_the_weakest_knowledge_holds(first, second, expected):
    assert weakest(first, second) == weakest(second, first) == Knowledge(expected)


def test_the_board_is_narrowed_by_causality_and_knowledge(laboratory):
    pack = open_pack("starter")
    kept(laboratory, pack)
    kept(laboratory, pack, "llm", {"transcript": transcript_of(cl.open_pack("starter"), 90000000)}, fixture_ids=[90000000])

    def ids(**wanted):
        return [(row["rank"], row["agent_id"]) for row in laboratory.leaderboard.rows(wanted=RowQuery(**wanted))["rows"]]

    assert ids(causality=Causality.TEMPLATE) == [(1, "baseline")]
    assert ids(causality="transcript", knowledge="history") == [(1, "llm")]
    assert ids(knowledge="live") == []
    assert len(ids(knowledge="history")) == 2


@pytest.mark.parametrize(
    "wanted", [{}, {"grouped": True}, {"apart": True}, {"causality": "x"}, {"knowledge": "x", "grouped": True}]
)
def test_a_page_is_read_along_an_index_and_nothing_is_sorted(laboratory, wanted):
    read = []

    with laboratory.leaderboard.database.read() as connection:
        execute = connection.execute

        def noted(query, *rest):
            bound = query.compile(connection, compile_kwargs={"literal_binds": True})
            read.extend(line[-1] for line in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {bound}"))
            return execute(query, *rest)

        connection.execute = noted
        standings.ranked(connection, RowQuery(**wanted), 0, 10)

    assert any("USING INDEX ix_standings_" in line for line in read)
    assert not any("TEMP B-TREE" in line for line in read)
