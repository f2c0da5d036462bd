import polars as pl
import pytest

from clvlab.application import backtests
from clvlab.application.packs import open_pack
from clvlab.errors import UnknownFixtureError
from clvlab.law.closing import Window
from clvlab.packs.importers.importing import import_source
from clvlab.packs.reader import verify_pack


@pytest.fixture(scope="module")
def pack():
    return open_pack("starter")


def test_the_report_carries_what_the_interface_names(pack):
    window = Window("w1", market_allowlist=("1X2",))

    report = backtests.backtest(pack, "baseline", fixture_ids=[90000002], window=window).report

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
    test = backtests.backtest(pack, "cumulative-drift")

    assert sum(test.report["reasons"].values()) == test.scores.height
    assert test.report["metrics"]["total_clv_bps"] == test.scores["clv_bps"].sum()
    assert test.report["close_kinds"].keys() == {"in_running", "kickoff"}


def test_asking_twice_gives_the_same_bytes_and_asking_differently_another_id(pack):
    asked = [
        backtests.backtest(pack, "baseline"),
        backtests.backtest(pack, "baseline"),
        backtests.backtest(pack, "baseline", params={"stake": 7}),
        backtests.backtest(pack, "baseline", window=Window("other")),
        backtests.backtest(pack, "baseline", window=Window(min_clv_horizon_s=61)),
        backtests.backtest(pack, "baseline", fixture_ids=[90000001]),
        backtests.backtest(pack, "cumulative-drift"),
    ]

    assert asked[0].run == asked[1].run
    assert len({test.run.run_id for test in asked}) == 6


def test_an_allowlist_that_matches_nothing_scores_nothing_and_says_so(pack):
    report = backtests.backtest(pack, "baseline", window=Window(market_allowlist=("nothing",))).report

    assert report["markets_matched"] == 0
    assert report["metrics"]["action_count"] == 0
    assert "matches no market" in report["warnings"][0]


def test_an_unknown_fixture_is_refused(pack):
    with pytest.raises(UnknownFixtureError, match="fixture 1 is not in pack 'starter'"):
        backtests.backtest(pack, "baseline", fixture_ids=[1])


def test_fixtures_score_alike_alone_and_together(pack):
    together = backtests.backtest(pack, "cumulative-drift").scores

    for fixture_id in pack.fixture_ids:
        alone = backtests.backtest(pack, "cumulative-drift", fixture_ids=[fixture_id]).scores
        assert alone.drop("seq").equals(together.filter(pl.col("fixture_id") == fixture_id).drop("seq"))


def test_the_leaderboard_ranks_by_mean_clv(pack):
    board = backtests.leaderboard([backtests.backtest(pack, name) for name in ("baseline", "cumulative-drift")])

    assert board["agent_id"].to_list() == ["cumulative-drift", "baseline"]
    assert board["mean_clv_bps"].is_sorted(descending=True)


@pytest.mark.realdata
@pytest.mark.parametrize(("source", "kinds"), [("polymarket", {"kickoff"}), ("txline", {"tape_end"})])
def test_real_packs_close_where_their_data_say(realdata, tmp_path, source, kinds):
    import_source(source, [realdata / source], tmp_path / source)
    pack = verify_pack(tmp_path / source)

    tests = [backtests.backtest(pack, name) for name in ("baseline", "cumulative-drift")]

    assert all(set(test.report["close_kinds"]) == kinds for test in tests)
    assert all(test.verification.passed for test in tests)
    assert sum(test.report["metrics"]["action_count"] for test in tests) > 20


@pytest.mark.realdata
def test_the_polymarket_close_is_the_last_quote_before_the_true_kickoff(realdata, tmp_path):
    import_source("polymarket", [realdata / "polymarket"], tmp_path / "p")
    pack = verify_pack(tmp_path / "p")

    scores = backtests.backtest(pack, "cumulative-drift").scores.filter(pl.col("clv_bps").is_not_null())

    kickoffs = pack.fixtures.select("fixture_id", "kickoff_ts_ms")
    last = (
        pack.tape().ticks().collect().join(kickoffs, on="fixture_id").filter(pl.col("ts_ms") < pl.col("kickoff_ts_ms"))
        .sort("tick_seq").group_by("fixture_id", "side").agg(pl.last("prob_bps"), pl.last("ts_ms"), pl.last("kickoff_ts_ms"))
    )  # fmt: skip
    joined = scores.join(last, on=["fixture_id", "side"])
    assert joined.height == scores.height
    assert (joined["close_prob_bps"] == joined["prob_bps"]).all()
    assert (joined["closing_age_ms"] == joined["kickoff_ts_ms"] - joined["ts_ms"]).all()
