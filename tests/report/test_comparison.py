import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import StatisticsError


@pytest.fixture(scope="module")
def tests():
    drift = cl.backtest("starter", agent="cumulative-drift")
    later = cl.backtest("starter", agent="cumulative-drift", params={"warmup_ticks": 40})
    return drift, later, cl.backtest("starter", agent="baseline")


def test_means_are_those_of_the_backtests_in_the_order_given(tests):
    frame = cl.compare(tests).frame

    assert frame["agent"].to_list() == ["cumulative-drift", "cumulative-drift (2)", "baseline"]
    sheets = [one.tear_sheet() for one in tests]
    assert frame["mean_clv_bps"].to_list() == pytest.approx([sheet.clv.mean for sheet in sheets])
    assert frame["n"].to_list() == [sheet.clv.n for sheet in sheets]


def test_the_difference_is_that_of_the_means(tests):
    found = cl.compare(tests)

    means = found.frame["mean_clv_bps"]
    assert found.differences["mean_clv_bps"].to_list() == pytest.approx([means[1] - means[0], means[2] - means[0]])
    assert found.differences["low"][0] < found.differences["mean_clv_bps"][0] < found.differences["high"][0]


def test_only_settings_that_differ_are_shown(tests):
    settings = cl.compare(tests[:2]).settings

    assert settings.rows() == [("config.warmup_ticks", "6", "40")]


def test_backtests_that_close_otherwise_are_said_to_be_measured_otherwise(tests):
    early = cl.backtest("starter", "cumulative-drift", window=cl.Window(end_rule="fixed_duration", duration_s=3600))

    found = cl.compare([tests[0], early])

    assert cl.compare(tests).yardsticks == ""
    said = "cumulative-drift by the consensus (pre_match, last_state)"
    assert said in found.yardsticks, found.yardsticks
    assert "(2) by the consensus (fixed_duration of 3600 s" in found.yardsticks
    assert "The yardsticks differ" in repr(found)
    assert "The yardsticks differ" in found._repr_html_()


def test_positions_are_counted_once_for_each_side_of_the_pair(tests):
    one, other = tests[:2]
    overlap = cl.compare([one, other]).overlap.row(0, named=True)

    keys = [set(bt.scores.select("fixture_id", "tick_seq", "market_key", "side").iter_rows()) for bt in (one, other)]
    assert overlap["both"] == len(keys[0] & keys[1])
    assert (overlap["first_only"], overlap["second_only"]) == (len(keys[0] - keys[1]), len(keys[1] - keys[0]))
    assert overlap["shared_pct"] == pytest.approx(100 * len(keys[0] & keys[1]) / len(keys[0] | keys[1]))


def test_a_backtest_beside_itself_differs_by_nothing(tests):
    found = cl.compare([tests[0], tests[0]])

    assert found.differences.row(0)[2:] == (0.0, 0.0, 0.0, None, 0.0, 0.0, 0.0)
    assert found.settings.is_empty()
    assert found.overlap["shared_pct"][0] == 100


def test_fixtures_have_the_mean_of_each(tests):
    fixtures = cl.compare(tests).fixtures
    own = (
        tests[0]
        .scores.filter(~pl.col("at_close"))
        .group_by("fixture_id")
        .agg(pl.mean("clv_bps"))
        .drop_nulls()
        .sort("fixture_id")
    )

    assert fixtures.drop_nulls("cumulative-drift").select("fixture_id", pl.col("cumulative-drift").alias("clv_bps")).equals(own)


def test_an_agent_without_a_scored_decision_is_shown_without_a_mean(tests):
    none = cl.backtest("starter", window=cl.Window("none", market_allowlist=("NOTHING",)))

    found = cl.compare([tests[0], none])

    assert found.frame["mean_clv_bps"][1] is None
    assert found.differences["mean_clv_bps"][0] is None
    assert "no difference to estimate" in repr(found)
    assert found._repr_html_()


def test_they_are_compared_by_the_measure_that_is_asked_for(tests):
    by_clv, by_edge = cl.compare(tests), cl.compare(tests, by="edge")

    assert by_edge.frame["mean_edge_pct"].to_list() == pytest.approx([one.tear_sheet().edge.mean for one in tests])
    assert by_edge.frame["t"].to_list() == pytest.approx([one.tear_sheet().edge.t for one in tests])
    assert by_edge.frame["mean_clv_bps"].to_list() == pytest.approx(by_clv.frame["mean_clv_bps"].to_list())
    assert by_edge.differences.columns[2] == "mean_edge_pct"
    assert "would this price have paid" in by_edge._repr_html_()


def test_a_leaderboard_by_edge_keeps_the_rank_of_the_law(tests):
    board = cl.leaderboard(tests, by="edge")
    frame = board.frame

    assert frame["mean_edge_pct"].is_sorted(descending=True)
    assert frame.sort("rank")["mean_clv_bps"].is_sorted(descending=True)
    assert "would this price have paid" in board._repr_html_()


@pytest.mark.parametrize("by", ["roi", "", 3, None])
def test_a_measure_that_there_is_not_is_named(tests, by):
    for verb in (cl.compare, cl.leaderboard):
        with pytest.raises(StatisticsError, match=f"not by {by!r}"):
            verb(tests, by=by)


def test_one_backtest_or_different_packs_are_refused(tests):
    with pytest.raises(StatisticsError, match="at least two backtests, not 1"):
        cl.compare(tests[:1])
    with pytest.raises(StatisticsError, match=r"'starter'.*'season'"):
        cl.compare([tests[0], cl.backtest("season", "baseline", fixtures=[90000000])])


def test_the_leaderboard_ranks_by_mean_and_keeps_the_law_s_figures(tests):
    frame = cl.leaderboard(tests).frame

    assert frame["rank"].to_list() == [1, 2, 3]
    assert frame["mean_clv_bps"].is_sorted(descending=True)
    assert {"valid_pct", "brier", "max_drawdown", "fixtures", "low", "high", "t"} <= set(frame.columns)
    assert cl.leaderboard([]).frame.is_empty()
