import polars as pl
import pytest

import clvlab as cl
from clvlab.arena.packs import open_pack
from clvlab.arena.replays import replay_run
from clvlab.cli.output import show_leaderboard, show_pack, show_report
from clvlab.errors import UnknownFixtureError
from clvlab.lab.results.result import Result
from clvlab.law.closing import Window
from clvlab.law.schema import TICKS
from clvlab.packs.manifest import Fixture, PackManifest
from clvlab.packs.verification import verify_pack
from clvlab.packs.writer import write_pack
from clvlab.runs import ranking
from clvlab.runs.execute import execute
from clvlab.runs.run import reopen
from clvlab.runs.run_folder import FolderRecorder
from clvlab.runs.spec import backtest_spec, rename, resolve
from clvlab.store.runlog import RunLog
from tests.factories import message, performed

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def pack():
    return open_pack("starter")


@pytest.fixture
def aged(tmp_path):
    """Make a pack of a market for each age of its close, in milliseconds before the kickoff."""

    def made(ages_ms, max_close_age_s=None, kickoff_s=1_000_000):
        names = [f"M{number:03}|" for number in range(len(ages_ms))]
        closes = sorted(((kickoff_s - age / 1000, name) for name, age in zip(names, ages_ms, strict=True)))
        sides = {"over": (5000, 1950), "under": (5000, 1950)}
        quotes = [*((0, name) for name in names), *closes]
        rows = [row for seq, (ts_s, name) in enumerate(quotes) for row in message(seq, ts_s, sides, market_key=name)]
        fixture = Fixture(fixture_id=1, kickoff_ts_ms=1000 * kickoff_s)
        manifest = PackManifest(pack_id="p", provenance="unknown", fixtures=(fixture,), max_close_age_s=max_close_age_s)
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        write_pack(pl.DataFrame(rows, schema=TICKS, orient="row"), manifest, folder)
        return verify_pack(folder)

    return made


def test_the_report_carries_what_the_interface_names(pack):
    window = Window("w1", market_allowlist=("1X2",))

    report = performed(pack, "baseline", fixture_ids=[90000002], window=window).report

    assert report["mode_label"] == "Backtest"
    assert report["content_hash"] == pack.content_hash
    assert (report["window_id"], report["market_universe"], report["markets_matched"]) == ("w1", ["1X2"], 1)
    assert (report["fixture_id"], report["n_fixtures"]) == (90000002, 1)
    assert report["real_executable_edge_bps"] is None
    assert set(report["checks"]) == {
        "evidence_integrity", "llm_boundary", "metrics_recomputed", "manifest_bound", "policy_obeyed", "receipt_separation",
        "anchor",
    }  # fmt: skip
    assert report["checks"]["evidence_integrity"] == "pass"
    assert report["backtest_id"].removeprefix("bt_") == report["run_id"].removeprefix("run_")
    assert report["closing_age_ms"].keys() == {"median", "max"}


def test_the_report_counts_what_stands_in_the_scores(pack):
    test = performed(pack, "cumulative-drift")

    assert sum(test.report["reasons"].values()) == test.scores.height
    assert test.report["metrics"]["total_clv_bps"] == test.scores["clv_bps"].sum()
    assert test.report["close_kinds"].keys() == {"in_running", "kickoff"}


def test_asking_twice_gives_the_same_bytes_and_asking_differently_another_id(pack):
    asked = [
        performed(pack, "baseline"),
        performed(pack, "baseline"),
        performed(pack, "baseline", params={"stake": 7}),
        performed(pack, "baseline", window=Window("other")),
        performed(pack, "baseline", window=Window(min_clv_horizon_s=61)),
        performed(pack, "baseline", fixture_ids=[90000001]),
        performed(pack, "cumulative-drift"),
    ]

    assert asked[0].sealed == asked[1].sealed
    assert len({test.sealed.run_id for test in asked}) == 6


def test_an_allowlist_that_matches_nothing_scores_nothing_and_says_so(pack):
    report = performed(pack, "baseline", window=Window(market_allowlist=("nothing",))).report

    assert report["markets_matched"] == 0
    assert report["metrics"]["action_count"] == 0
    assert "matches no market" in report["warnings"][0]


OLD, YOUNG = 6 * HOUR_MS + 1, 6 * HOUR_MS


@pytest.mark.parametrize(
    ("old", "young", "warns"),
    [(0, 10, False), (1, 10, False), (1, 9, False), (1, 8, True), (2, 18, False), (3, 17, True), (1, 0, True)],
)
def test_more_than_a_tenth_of_old_closes_is_warned_of(aged, old, young, warns):
    report = performed(aged([OLD] * old + [YOUNG] * young)).report

    assert report["metrics"]["action_count"] == old + young
    assert len(report["warnings"]) == warns


def test_warning_of_old_closes_states_their_share_and_the_oldest_wherever_a_report_is_shown(aged, capsys):
    test = performed(aged([117 * HOUR_MS, 7 * HOUR_MS, 1000, 1000, 1000]))
    shown = "2 of 5 scored decisions (40.0%) have a close older than 6 h. The oldest is 117.0 h old."

    show_report(test.report)

    assert shown in test.report["warnings"][0]
    assert shown in capsys.readouterr().out
    bt = Result.from_run(test)
    assert shown in bt.report._repr_html_()
    assert shown in bt.tear_sheet(resamples=20, draws=2)._repr_html_()


def test_nothing_is_said_of_the_age_of_closes_where_none_is_scored(aged):
    nothing = performed(aged([OLD] * 9), window=Window(min_clv_horizon_s=2_000_000)).report
    stale = performed(aged([OLD] * 9, max_close_age_s=3600)).report

    assert (nothing["reasons"], stale["reasons"], stale["closing_age_ms"]["max"]) == (
        {"pending_horizon": 9},
        {"closing_stale": 9},
        None,
    )
    for (warning,) in (nothing["warnings"], stale["warnings"]):
        assert warning.startswith("nothing is scored: 9 decisions ")


def test_limit_of_the_pack_holds_wherever_its_runs_are_made_or_scored_again(aged, capsys, tmp_path):
    pack = aged([OLD, YOUNG, 1000], max_close_age_s=21_600)

    test = performed(pack)

    assert test.scores["reason"].to_list() == ["closing_stale", "scored", "scored"]
    assert test.report["window"]["max_close_age_s"] == 21_600
    assert (test.verification.passed, replay_run(test.sealed, test.receipts, pack=pack.folder).agrees) == (True, True)
    assert reopen(pack, test.sealed).scores.equals(test.scores)
    logged = execute(backtest_spec(pack), FolderRecorder(tmp_path / "runs", lambda: 5, RunLog()))
    assert logged.sealed.evidence_hash == test.sealed.evidence_hash
    assert cl.sweep(pack.folder, "baseline", {"warmup_ticks": [0]}).sources[0].scores.drop("at_close").equals(test.scores)
    show_pack(pack)
    assert "last_state, at most 21,600 s old" in capsys.readouterr().out
    assert "last_state, at most 21,600 s old" in cl.open_pack(pack.folder)._repr_html_()


def test_limit_of_the_pack_is_part_of_the_run_id(aged):
    runs = [performed(aged([1000] * 2, limit)).sealed for limit in (None, 21_600, 21_601)]

    assert len({run.run_id for run in runs}) == 3
    assert b"max_close_age_s" not in runs[0].events


def test_an_unknown_fixture_is_refused(pack):
    with pytest.raises(UnknownFixtureError, match="fixture 1 is not in pack 'starter'"):
        performed(pack, "baseline", fixture_ids=[1])


def test_fixtures_score_alike_alone_and_together(pack):
    together = performed(pack, "cumulative-drift").scores

    for fixture_id in pack.fixture_ids:
        alone = performed(pack, "cumulative-drift", fixture_ids=[fixture_id]).scores
        assert alone.drop("seq").equals(together.filter(pl.col("fixture_id") == fixture_id).drop("seq"))


def test_the_leaderboard_ranks_by_mean_clv(pack):
    board = ranking.leaderboard([performed(pack, name) for name in ("cumulative-drift", "baseline")])

    assert board["agent_id"].to_list() == ["baseline", "cumulative-drift"]
    assert board["mean_clv_bps"].is_sorted(descending=True)


@pytest.mark.realdata
@pytest.mark.parametrize(("source", "kinds"), [("polymarket", {"kickoff"}), ("txline", {"tape_end"})])
def test_real_packs_close_where_their_data_say(real_pack, source, kinds):
    tests = [performed(real_pack(source), name) for name in ("baseline", "cumulative-drift")]

    assert all(set(test.report["close_kinds"]) == kinds for test in tests)
    assert all(test.verification.passed for test in tests)
    assert sum(test.report["metrics"]["action_count"] for test in tests) > 20


@pytest.mark.realdata
def test_the_polymarket_close_is_the_last_quote_before_the_true_kickoff(real_pack):
    pack = real_pack("polymarket")

    scores = performed(pack, "cumulative-drift").scores.filter(pl.col("clv_bps").is_not_null())

    kickoffs = pack.fixtures.select("fixture_id", "kickoff_ts_ms")
    last = (
        pack.tape().ticks().collect().join(kickoffs, on="fixture_id").filter(pl.col("ts_ms") < pl.col("kickoff_ts_ms"))
        .sort("tick_seq").group_by("fixture_id", "side").agg(pl.last("prob_bps"), pl.last("ts_ms"), pl.last("kickoff_ts_ms"))
    )  # fmt: skip
    joined = scores.join(last, on=["fixture_id", "side"])
    assert joined.height == scores.height
    assert (joined["close_prob_bps"] == joined["prob_bps"]).all()
    assert (joined["closing_age_ms"] == joined["kickoff_ts_ms"] - joined["ts_ms"]).all()


def test_on_a_board_the_first_stands_for_those_that_decide_alike(pack):
    tests = [
        performed(pack, rename(resolve(strategy), name))
        for strategy, name in (("baseline", "b"), ("cumulative-drift", "c"), ("baseline", "a"))
    ]

    board = ranking.board(tests)

    assert set(board.select("agent_id", "others").rows()) == {("b", 1), ("c", 0)}
    assert ranking.board([]).is_empty()


def test_what_may_hold_the_past_is_printed_under_a_heading_of_its_own(pack, capsys):
    wait = {"fixture_id": pack.fixture_ids[0], "tick_seq": 0, "action": "WAIT"}
    written = resolve("llm", {"transcript": [wait]})
    alike = rename(resolve("baseline"), "again")

    show_leaderboard([performed(pack, written), performed(pack, "baseline"), performed(pack, alike)])

    first, _, last = capsys.readouterr().out.partition("The answers were public when this was run")
    assert "baseline and 1 alike" in first
    assert "llm" in last
    assert "llm" not in first
