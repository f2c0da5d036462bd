import threading
from dataclasses import asdict

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clvlab as cl
from clvlab.arena.application import Application
from clvlab.client import ApiError
from clvlab.errors import (
    AgentError,
    AgentFailedError,
    ClvlabError,
    DecisionError,
    PackFormatError,
    PageError,
    PolicyError,
    QueryError,
    ServiceUnreachableError,
    StatisticsError,
    StoreUnreachableError,
    UnknownAgentError,
    UnknownPackError,
    UnknownRunError,
    UnsupportedError,
    WindowError,
)
from clvlab.law.closing import Window
from clvlab.proof.evidence import read_evidence
from clvlab.store.database import Database
from tests.service.serving import BOB, api
from tests.tampering import rewrite

FIXTURE = 90000000
WINDOWS = st.one_of(
    st.builds(Window, st.sampled_from(["full", "é"]), st.sampled_from(["pre_match", "manual_stop"]), st.none(),
              st.integers(0, 3_600), st.sampled_from([("",), ("1X2",), ("1X2", "OVERUNDER")])),
    st.builds(Window, st.just("hour"), st.just("fixed_duration"), st.integers(1, 100_000)),
)  # fmt: skip
BOTH = ["baseline", "cumulative-drift"]
ODDS = (
    "fixture,time,market,side,odds,kickoff,result\n"
    "m1,2026-01-02T12:00Z,1X2||,part1,2.10,2026-01-02T15:00Z,won\n"
    "m1,2026-01-02T12:00Z,1X2||,part2,1.80,2026-01-02T15:00Z,lost\n"
    "m1,2026-01-02T14:00Z,1X2||,part1,1.90,2026-01-02T15:00Z,won\n"
    "m1,2026-01-02T14:00Z,1X2||,part2,2.00,2026-01-02T15:00Z,lost\n"
)


@cl.strategy
def broken(_ticks):
    raise ValueError("no ticks")


@cl.strategy(markets=("1X2",))
def opening(ticks):
    return ticks.filter(pl.col("tick_seq") == 0, pl.col("side") == "part1")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with api(tmp_path_factory.mktemp("keys")) as running:
        yield running


@pytest.fixture(params=["memory", pytest.param("file", marks=pytest.mark.long), "service"])
def lab(request, tmp_path):
    """A laboratory of each kind; that of the service keeps what other tests made in it."""
    if request.param == "service":
        running = request.getfixturevalue("service")
        with cl.Lab(running.url, token=running.token()) as lab:
            yield lab
        return
    with cl.Lab(None if request.param == "memory" else tmp_path / "lab.db") as lab:
        yield lab


@pytest.fixture
def here():
    with cl.Lab() as lab:
        yield lab


@pytest.fixture
def odds(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(ODDS)
    return path


class TestEveryLab:
    def test_lists_the_packs_that_can_be_named(self, lab):
        packs = lab.packs()

        assert packs.frame.select("pack_id", "fixtures").rows() == [("season", 300), ("starter", 12)]
        assert "next: lab.backtest(" in repr(packs)

    def test_keeps_a_backtest_that_can_be_verified_and_read_again(self, lab):
        made = lab.backtest("starter", "baseline", fixtures=[FIXTURE])
        run_id = made.run.run_id

        again = lab.open_run(run_id)
        assert lab.verify(run_id).passed
        assert again.verify().passed
        assert again.run.evidence_hash == made.run.evidence_hash
        assert again.run.receipts
        assert again.run.receipts == cl.backtest("starter", "baseline", fixtures=[FIXTURE]).run.receipts
        assert pl.DataFrame(again.scores).equals(pl.DataFrame(made.scores))
        assert run_id in lab.runs(None).frame["run_id"]

    @settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(WINDOWS)
    def test_seals_every_field_of_a_window_as_it_was_asked_for(self, lab, window):
        sealed = lab.backtest("starter", "baseline", fixtures=[FIXTURE], window=window).run.source.events
        stated = read_evidence(sealed).started["window"]

        asked = asdict(window) | {"market_allowlist": list(window.market_allowlist)}
        assert {name: stated.get(name) for name in asked} == asked

    def test_refuses_a_close_by_a_book_that_the_pack_has_not(self, lab):
        with pytest.raises((ClvlabError, ApiError), match="no-such-book"):
            lab.backtest("starter", "baseline", fixtures=[FIXTURE], close="no-such-book")

    def test_lets_several_agents_decide_on_one_tape(self, lab):
        entries = {"first": "baseline", "early": ("cumulative-drift", {"warmup_ticks": 10})}

        found = lab.compete("starter", entries, fixtures=[FIXTURE])

        assert sorted(found.agent_ids) == ["early", "first"]
        assert found.frame["rank"].to_list() == [1, 2]
        assert found.compare().names == ["early", "first"]
        assert lab.verify(found).passed
        row = lab.runs().frame.row(by_predicate=pl.col("run_id") == found.run_id, named=True)
        assert (row["kind"], row["status"], row["agents"]) == ("competition", "sealed", "early, first")

    def test_gives_a_tear_sheet_of_one_agent_of_several(self, lab):
        found = lab.compete("starter", BOTH, fixtures=[FIXTURE])
        alone = cl.backtest("starter", "cumulative-drift", fixtures=[FIXTURE]).tear_sheet(resamples=1_000, draws=5)

        sheet = found.tear_sheet("cumulative-drift", resamples=1_000, draws=5)

        assert sheet.clv == alone.clv
        assert sheet.frame.equals(alone.frame)
        assert sheet.agent_id == "cumulative-drift"
        with pytest.raises(UnknownAgentError, match="name one of baseline, cumulative-drift"):
            found.tear_sheet()

    def test_answers_sql_over_its_runs(self, lab):
        found = lab.compete("starter", BOTH, fixtures=[FIXTURE])

        answer = lab.sql(
            "select agent_id, count(*) as n, sum(s.clv_bps) as total, min(d.stake) as stake "
            "from scores s join decisions d using (run_id, seq, agent_id) join agents a using (run_id, agent_id) "
            f"join runs r using (run_id) where run_id = '{found.run_id}' group by all order by 1"
        )

        own = found.scores.group_by("agent_id").agg(n=pl.len(), total=pl.sum("clv_bps")).sort("agent_id")
        assert answer.frame.select("agent_id", "n", "total").rows() == own.rows()
        assert answer.frame["stake"].to_list() == [100, 100]

    def test_ranks_agents_over_all_runs(self, lab):
        lab.compete("starter", BOTH, fixtures=[FIXTURE])

        board = lab.leaderboard().frame

        assert set(BOTH) <= set(board["agent_id"])
        # agents that may know past prices are listed last, whatever their rank
        assert sorted(board["rank"]) == list(range(1, board.height + 1))

    def test_compares_runs_by_their_ids(self, lab):
        first, second = (lab.compete("starter", [name], fixtures=[FIXTURE]).run_id for name in BOTH)

        found = lab.compare([first, second])

        assert found.names == BOTH
        assert found.overlap["both"].len() == 1

    def test_names_what_it_does_not_have(self, lab):
        with pytest.raises(UnknownRunError, match="run_0000"):
            lab.verify("run_0000")
        with pytest.raises(UnknownRunError, match="run_0000"):
            lab.open_run("run_0000")
        with pytest.raises(QueryError, match="nowhere"):
            lab.sql("select * from nowhere")

    def test_shows_every_table_as_html_that_escapes_text(self, lab):
        forged = '<span class="pass">pass</span>'
        lab.compete("starter", {"<b>bold</b>": "baseline", forged: "baseline"}, fixtures=[FIXTURE])

        for listing in (lab.packs(), lab.runs(), lab.leaderboard(), lab.sql("select agent_id from scores")):
            page = listing._repr_html_()
            assert "<b>" not in page
            assert forged not in page
            assert listing.title.split()[0] in page


class TestALabHere:
    def test_from_odds_to_a_tear_sheet(self, here, odds):
        pack = here.import_odds("csv", odds)
        sheet = here.backtest(pack, opening).tear_sheet(resamples=1_000, draws=5)

        assert pack.pack_id == "mine"
        assert sheet.clv.n == 1
        assert here.sql("select pack_id, side, result from results where pack_id = 'mine' order by side").frame.rows() == [
            ("mine", "part1", "won"), ("mine", "part2", "lost"),
        ]  # fmt: skip
        assert here.sql("select count(*) from ticks where pack_id = 'mine'").frame.item() == 4
        assert here.sql("select names from fixtures where pack_id = 'mine'").frame.height == 1

    def test_the_same_odds_again_are_the_same_pack_and_others_need_another_name(self, here, odds):
        first = here.import_odds("csv", odds)

        again = here.import_odds("csv", odds)
        odds.write_text(ODDS.replace("2.10", "2.20"))
        with pytest.raises(PackFormatError, match=f"'mine' is here as {first.content_hash}"):
            here.import_odds("csv", odds)

        assert again.content_hash == first.content_hash
        assert here.import_odds("csv", odds, "other").content_hash != first.content_hash
        assert here.packs().frame["pack_id"].to_list() == ["mine", "other", "season", "starter"]

    def test_a_limit_on_the_age_of_a_close_is_kept_in_the_pack(self, here, odds):
        pack = here.import_odds("csv", odds, "bound", max_close_age_s=60)

        assert "last_state, at most 60 s old" in pack._repr_html_()
        assert here.backtest(pack, opening, audit=False).report["window"]["max_close_age_s"] == 60

    def test_a_bundled_pack_keeps_its_name(self, here, odds):
        with pytest.raises(PackFormatError, match="'starter' is a pack that comes with clvlab"):
            here.import_odds("csv", odds, "starter")

    def test_the_same_backtest_again_changes_nothing(self, here):
        one, two = (here.backtest("starter", "baseline").run for _ in range(2))

        assert one.manifest_hash == two.manifest_hash
        assert here.runs().frame.height == 1
        assert here.leaderboard().frame["runs"].to_list() == [1]

    def test_agents_of_ones_own_compete(self, here):
        found = here.compete("starter", {"mine": opening, "theirs": "baseline"}, fixtures=[FIXTURE], audit=False)

        assert found.agent_ids == ["mine", "theirs"]
        with pytest.raises(DecisionError, match="unique ids"):
            here.compete("starter", ["baseline", "baseline"])
        with pytest.raises(DecisionError, match="unique ids"):
            here.compete("starter", [])

    def test_an_agent_that_fails_alone_leaves_an_abandoned_commitment_and_no_run(self, here):
        with pytest.raises(AgentFailedError, match="ValueError: no ticks"):
            here.backtest("starter", broken)

        assert here.runs().frame["status"].to_list() == ["failed"]
        assert here.leaderboard().frame.is_empty()

    def test_an_agent_that_fails_beside_others_is_on_the_record_of_their_run(self, here):
        found = here.compete("starter", [broken, "baseline"])

        assert here.runs().frame["status"].to_list() == ["sealed"]
        assert found.run.verify().passed
        assert b'"error":"ValueError"' in found.run.source.events

    def test_an_agent_that_can_t_be_renamed_says_so(self, here):
        class Silent(cl.TickAgent):
            agent_id = "silent"

            def on_tick(self, book):
                return None if book else []

        with pytest.raises(AgentError, match="Silent can't be entered as 'other'"):
            here.compete("starter", {"other": Silent()})

    def test_every_trial_over_a_pack_is_on_record_once(self, here):
        grid = {"warmup_ticks": [10, 20]}
        one = here.sweep("starter", "cumulative-drift", grid, resamples=1_000)
        again = here.sweep("starter", "cumulative-drift", grid, resamples=1_000)
        here.backtest("starter", "cumulative-drift", params={"warmup_ticks": 40})
        more = here.sweep("starter", "cumulative-drift", {"warmup_ticks": [20, 80]}, resamples=1_000, earlier_trials=100)
        sealed = more.best().seal()

        assert [one.trials, again.trials, more.trials] == [2, 2, 104]
        assert here.runs().frame["run_id"].to_list().count(sealed.run.run_id) == 1
        assert here.sweep("season", "cumulative-drift", {"warmup_ticks": [20]}, fixtures=[FIXTURE], resamples=1_000).trials == 1

    def test_every_agent_of_a_competition_is_a_trial_whatever_it_is_called_and_limited_by(self, here):
        entries = {"one": ("cumulative-drift", {"warmup_ticks": 10}), "two": ("cumulative-drift", {"warmup_ticks": 30})}
        here.compete("starter", entries)
        here.backtest("starter", "cumulative-drift", params={"warmup_ticks": 30}, policy=cl.PolicyEnvelope(max_orders=1))

        assert here.sweep("starter", "cumulative-drift", {"warmup_ticks": [30, 50]}, resamples=1_000).trials == 3

    def test_the_seal_of_a_trial_of_ones_own_is_that_trial(self, here):
        parametrised = cl.strategy(agent_id="seq")(lambda ticks, *, seq=0: ticks.filter(pl.col("tick_seq") == seq))
        first = here.sweep("starter", parametrised, {"seq": [0, 1]}, resamples=1_000)
        first.sources[1].seal()

        assert here.sweep("starter", parametrised, {"seq": [0]}, resamples=1_000).trials == 2

    @pytest.mark.parametrize("grid", [{}, {"stake": "100"}, {"stake": []}, {"stake": 100}])
    def test_a_grid_without_values_is_refused(self, here, grid):
        with pytest.raises(StatisticsError, match="a grid needs parameters"):
            here.sweep("starter", "baseline", grid)

    @pytest.mark.parametrize("values", [[30, 30], [20, 30, 30.0]])
    def test_a_grid_with_a_value_twice_is_refused(self, here, values):
        with pytest.raises(StatisticsError, match=r"warmup_ticks=30.* twice"):
            here.sweep("starter", "cumulative-drift", {"warmup_ticks": values})

    def test_a_grid_may_come_from_a_generator(self, here):
        grid = {"warmup_ticks": (ticks for ticks in (10, 20))}

        assert here.sweep("starter", "cumulative-drift", grid, resamples=1_000).trials == 2

    @pytest.mark.parametrize("settings", [{"level": 9}, {"level": "x"}, {"resamples": 0}])
    def test_a_sweep_with_a_wrong_setting_leaves_no_trial(self, here, settings):
        with pytest.raises(StatisticsError):
            here.sweep("starter", "baseline", {"stake": [1, 2]}, **settings)

        assert here.sweep("starter", "baseline", {"stake": [3]}, resamples=1_000).trials == 1

    def test_sql_reaches_neither_files_nor_settings(self, here, odds):
        for statement in (f"select * from read_csv('{odds}')", f"copy (select 1) to '{odds}'", "set threads = 1", ""):
            with pytest.raises(QueryError):
                here.sql(statement)

        assert odds.read_text() == ODDS

    @pytest.mark.parametrize(
        ("ask", "error", "said"),
        [
            (lambda lab: lab.compete("starter", None), AgentError, "not None"),
            (lambda lab: lab.compete("starter", {"a": ("baseline", {}, 1)}), AgentError, "'baseline', {}, 1"),
            (lambda lab: lab.backtest("starter", fixtures=[FIXTURE, "x"]), PackFormatError, "not 'x'"),
            (lambda lab: lab.backtest("starter", fixtures=[1.5]), PackFormatError, "not 1.5"),
            (lambda lab: lab.backtest("starter", fixtures=FIXTURE), PackFormatError, "not 90000000"),
            (lambda lab: lab.backtest("starter", fixtures=[]), PackFormatError, "at least one fixture"),
            (lambda lab: lab.backtest("starter", params="x"), AgentError, "'x'"),
            (lambda lab: lab.backtest("starter", None), AgentError, "not None"),
            (lambda lab: lab.backtest("starter", window="x"), WindowError, "not 'x'"),
            (lambda lab: lab.backtest("starter", policy={}), PolicyError, "not {}"),
            (lambda lab: lab.backtest(None), UnknownPackError, "not None"),
            (lambda lab: lab.sweep("starter", "baseline", 5), StatisticsError, "not 5"),
            (lambda lab: lab.compare(None), StatisticsError, "not None"),
            (lambda lab: lab.open_run(5), UnknownRunError, "not 5"),
            (lambda lab: lab.runs("x"), PageError, "not 'x'"),
            (lambda lab: lab.runs(-1), PageError, "not -1"),
            (lambda lab: lab.verify(5), UnknownRunError, "not 5"),
            (lambda lab: lab.compare([5, 6]), StatisticsError, "not 5"),
            (lambda lab: lab.compare([]), StatisticsError, "not 0"),
            (lambda lab: lab.sql(None), QueryError, "not None"),
            (lambda lab: lab.sweep("starter", "baseline", {"stake": [1]}, earlier_trials=True), StatisticsError, "True"),
            (lambda lab: lab.import_odds("csv", "mine.csv", "../out"), PackFormatError, r"'\.\./out'"),
        ],
    )
    def test_odd_arguments_are_refused_by_their_value(self, here, ask, error, said):
        with pytest.raises(error, match=said):
            ask(here)

        assert here.runs().frame.is_empty()

    @pytest.mark.parametrize("where", ["", "ftp://example", "postgresql://localhost/runs", 5])
    def test_what_is_neither_file_nor_service_is_refused(self, where):
        with pytest.raises(UnsupportedError, match="a file, or a service"):
            cl.Lab(where)

    def test_a_closed_laboratory_says_so(self):
        lab = cl.Lab()
        lab.close()
        lab.close()

        with pytest.raises(UnsupportedError, match="was closed"):
            lab.runs()
        assert "closed" in repr(lab)

    def test_a_closed_laboratory_seals_no_trial_of_a_sweep_that_was_kept(self, tmp_path):
        with cl.Lab(tmp_path / "lab.db") as lab:
            best = lab.sweep("starter", "cumulative-drift", {"warmup_ticks": [10]}, resamples=1_000).best()

        with pytest.raises(UnsupportedError, match="was closed"):
            best.seal()

    def test_a_token_is_for_a_service(self):
        with pytest.raises(UnsupportedError, match=r"'lab\.db' is not a service"):
            cl.Lab("lab.db", token="secret")


class TestAFile:
    def test_keeps_runs_packs_and_trials_for_the_next_session(self, tmp_path, odds):
        with cl.Lab(tmp_path / "lab.db") as first:
            pack = first.import_odds("csv", odds)
            run_id = first.backtest(pack, opening, audit=False).run.run_id
            first.sweep("mine", "baseline", {"stake": [1, 2, 3]}, resamples=1_000)

        with cl.Lab(tmp_path / "lab.db") as later:
            assert later.packs().frame["pack_id"].to_list() == ["mine", "season", "starter"]
            assert later.open_run(run_id).tear_sheet(resamples=1_000, draws=5).clv.n == 1
            assert later.sweep("mine", "baseline", {"stake": [3, 4]}, resamples=1_000).trials == 5
        assert sorted(path.name for path in tmp_path.iterdir()) == ["lab.db", "lab.packs", "lab.sums", "mine.csv"]

    def test_is_one_for_two_labs_at_once(self, tmp_path, odds):
        labs = [cl.Lab(tmp_path / "lab.db") for _ in range(2)]

        def work(lab, name):
            lab.import_odds("csv", odds, name)
            lab.import_odds("csv", odds, "common")
            lab.backtest("starter", name)

        threads = [threading.Thread(target=work, args=each) for each in zip(labs, BOTH, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        for lab in labs:
            assert set(lab.packs().frame["pack_id"]) == {*BOTH, "common", "season", "starter"}
            assert sorted(lab.runs().frame["agents"]) == BOTH
            lab.close()

    def test_is_served_and_verified_by_a_service_over_it(self, tmp_path):
        with cl.Lab(tmp_path / "lab.db") as lab:
            run_id = lab.backtest("starter", "cumulative-drift").run.run_id

        application = Application(f"sqlite:///{tmp_path / 'lab.db'}")
        assert application.runs.verify(run_id)["verified"]
        assert [row["agent_id"] for row in application.leaderboard.rows()["rows"]] == ["cumulative-drift"]
        application.close()

    def test_shows_a_run_whose_bytes_were_changed(self, tmp_path):
        with cl.Lab(tmp_path / "lab.db") as lab:
            run_id = lab.backtest("starter", "baseline", fixtures=[FIXTURE]).run.run_id
            database = Database(f"sqlite:///{tmp_path / 'lab.db'}")
            with database.write() as connection:
                rewrite(connection, run_id, lambda lines: lines.replace(b'"stake":100', b'"stake":900', 1), part="events")
            database.close()

            assert not lab.verify(run_id).verified
            assert lab.open_run(run_id).verify().checks["evidence_integrity"] == "fail"
            assert "fail" in lab.open_run(run_id)._repr_html_()

    @pytest.mark.parametrize("name", ["a?b.db", "50%20.db", "my lab.sqlite", "#.db"])
    def test_has_the_name_that_was_given(self, tmp_path, name):
        cl.Lab(tmp_path / name).close()

        assert [path.name for path in tmp_path.iterdir()] == [name]

    @pytest.mark.parametrize("content", [b"no database" * 1000, None])
    def test_that_is_no_database_is_refused(self, tmp_path, content):
        path = tmp_path / "lab.db"
        path.mkdir() if content is None else path.write_bytes(content)

        with pytest.raises(StoreUnreachableError):
            cl.Lab(path)


class TestAService:
    @pytest.fixture
    def remote(self, service):
        with cl.Lab(service.url, token=service.token(BOB)) as lab:
            yield lab

    def test_refuses_what_it_can_t_do_and_says_what_to_do(self, remote, odds):
        refused = {
            "'opening' is code of yours: backtest": lambda: remote.backtest("starter", opening),
            "'opening' is code of yours: backtest in a Lab": lambda: remote.backtest("starter", opening, stepped=True),
            "backtests no transcript": lambda: remote.backtest("starter", "llm"),
            "grades no bets": lambda: remote.grade_bets(odds, "starter"),
            "'mine.py:agent' is code of yours: deploy": lambda: remote.deploy("starter", "mine.py:agent", fixture=FIXTURE),
            "'opening' is code of yours": lambda: remote.compete("starter", [opening], fixtures=[FIXTURE]),
            "'mine.py:agent' is code of yours": lambda: remote.compete("starter", ["mine.py:agent"], fixtures=[FIXTURE]),
            "its own window": lambda: remote.compete("starter", BOTH, window=cl.Window(min_clv_horizon_s=5)),
            "packs of its operator": lambda: remote.import_odds("csv", odds),
            "scores no grids": lambda: remote.sweep("starter", "baseline", {"stake": [1]}),
        }

        for said, ask in refused.items():
            with pytest.raises(UnsupportedError, match=said):
                ask()

    @pytest.mark.parametrize(
        ("agents", "given", "error", "said"),
        [
            ({"a": ("cumulative-drift", {"warmup_tick": 5}), "b": "baseline"}, {}, AgentError, "warmup_tick"),
            ([], {}, DecisionError, "unique ids"),
            (["baseline", "baseline"], {}, DecisionError, "unique ids"),
            (BOTH, {"fixtures": []}, PackFormatError, "at least one fixture"),
            (BOTH, {"audit": False}, UnsupportedError, "audit=False"),
        ],
    )
    def test_refuses_a_competition_before_it_is_made(self, remote, monkeypatch, agents, given, error, said):
        monkeypatch.setattr(cl.client.Client, "create_competition", lambda *_, **__: pytest.fail("it was made"))

        with pytest.raises(error, match=said):
            remote.compete("starter", agents, **{"fixtures": [FIXTURE]} | given)

    def test_knows_packs_by_their_id_only(self, remote, tmp_path):
        with pytest.raises(UnknownPackError, match="by id, not by path"):
            remote.backtest(tmp_path, fixtures=[FIXTURE])

    def test_backtests_any_template_over_all_fixtures_as_a_lab_here_does(self, remote):
        window, policy = cl.Window("mine", min_clv_horizon_s=30), cl.PolicyEnvelope(max_orders=3, venue_allowlist=())
        asked = {"params": {"stake": 7}, "window": window, "policy": policy}

        there = remote.backtest("starter", "cumulative-drift", **asked)
        here = cl.Lab().backtest("starter", "cumulative-drift", **asked)

        assert there.run_id == here.run_id
        assert there.run.evidence_hash == here.run.evidence_hash
        assert there.report["n_fixtures"] == 12
        assert there.tear_sheet().clv == here.tear_sheet().clv

    def test_deploys_a_template_and_returns_its_sealed_run(self, remote):
        found = remote.deploy("starter", "cumulative-drift", fixture=FIXTURE, params={"stake": 7}, max_orders=2)

        assert found.verify().passed
        assert found.agent_ids == ["cumulative-drift"]
        with pytest.raises(cl.client.ApiError, match="max_orders"):
            remote.deploy("starter", "cumulative-drift", fixture=FIXTURE, max_orders=-1)

    def test_has_no_ticks_for_sql(self, remote):
        with pytest.raises(QueryError, match="the tables are: packs, runs, agents, scores, decisions"):
            remote.sql("select * from ticks")

    def test_that_refuses_or_is_gone_says_so(self, service, tmp_path):
        with cl.Lab(service.url) as lab, pytest.raises(cl.errors.ClvlabError, match="401"):
            lab.compete("starter", BOTH, fixtures=[FIXTURE])
        with api(tmp_path) as other:
            gone = cl.Lab(other.url)
        with gone, pytest.raises(ServiceUnreachableError, match="can't be reached"):
            gone.leaderboard()


def test_points_of_a_search_that_broke_off_are_on_record():
    lab = cl.Lab()

    def broken(done, total):
        raise RuntimeError(f"{done} of {total}")

    with pytest.raises(RuntimeError, match="1 of 3"):
        lab.sweep("starter", "baseline", {"stake": [1, 2, 3]}, progress=broken)

    assert lab.sweep("starter", "baseline", {"stake": [4]}, resamples=1_000).trials == 4
