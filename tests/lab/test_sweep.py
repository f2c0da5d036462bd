import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

import clvlab as cl
from clvlab.errors import AgentError, ExecutorError, StatisticsError
from clvlab.report.headline import headline_of
from clvlab.statistics import cluster_mean
from clvlab.statistics.measures import MEASURES
from tests.factories import AUDITED
from tests.length import length

mpl.use("Agg")

FIXTURES = range(90_000_000, 90_000_012)  # of the starter pack
GRID = {"warmup_ticks": [10, 20, 40], "cooldown_s": [0, 3600]}


@pytest.fixture(scope="module")
def found():
    return cl.sweep("starter", "cumulative-drift", GRID, resamples=1_000)


def test_points_are_in_order_of_the_grid_with_the_means_of_backtests(found):
    row = found.frame.row(3, named=True)
    bt = cl.backtest("starter", "cumulative-drift", params={"warmup_ticks": 20, "cooldown_s": 3600})

    assert found.frame.select(*GRID).rows() == [(10, 0), (10, 3600), (20, 0), (20, 3600), (40, 0), (40, 3600)]
    sheet = bt.tear_sheet()
    assert [row[name] for name in ("mean_clv_bps", "low", "t")] == pytest.approx([sheet.clv.mean, sheet.clv.low, sheet.clv.t])
    assert row["n"] == sheet.clv.n


def test_p_values_of_the_family_are_never_below_those_alone(found):
    frame = found.frame

    assert (frame["p_family"] >= frame["p_alone"] - 0.05).all()  # one is drawn, the other is not


def test_the_best_point_seals_to_the_scores_of_the_trial(found):
    best = found.best()

    sealed = best.seal()

    assert found.frame["mean_clv_bps"][best.number] == found.frame["mean_clv_bps"].max()
    assert sealed.scores.drop("in_gap").equals(best.scores)
    assert sealed.run.verify().passed


@settings(max_examples=length(10, 150))
@given(st.data())
def test_a_trial_and_its_sealed_run_have_one_mean_and_the_law_s_differs_by_entries_at_the_closing_message_alone(data):
    template, name = data.draw(st.sampled_from([("cumulative-drift", "cooldown_s"), ("baseline", "warmup_ticks")]))
    grid = {name: data.draw(st.lists(st.integers(1, 4000), min_size=1, max_size=2, unique=True))}
    fixtures = data.draw(st.none() | st.lists(st.sampled_from(FIXTURES), min_size=1, unique=True))
    markets = st.sampled_from([("",), ("1X2",), ("OVERUNDER", "1X2")])
    window = cl.Window(min_clv_horizon_s=data.draw(st.sampled_from([0, 60, 3600])), market_allowlist=data.draw(markets))
    policy = cl.PolicyEnvelope(market_allowlist=data.draw(markets), max_orders=data.draw(st.none() | st.integers(1, 9)))

    found = cl.sweep("starter", template, grid, fixtures=fixtures, window=window, policy=policy, progress=False)

    for row, trial in zip(found.frame.iter_rows(named=True), found.sources, strict=True):
        sealed = trial.seal()
        headline, law = headline_of(sealed.source), sealed.report["metrics"]
        assert (row["mean_clv_bps"], row["n"]) == (headline.clv.mean, headline.clv.n)
        left = law["action_count"] - row["n"]
        assert left == sealed.scores.filter(pl.col("reason") == "scored", "at_close").height
        assert (law["avg_clv_bps"] or 0) * law["action_count"] == pytest.approx((row["mean_clv_bps"] or 0) * row["n"], abs=1e-6)


def test_earlier_trials_are_on_record_and_deflate(found):
    more = cl.sweep("starter", "cumulative-drift", GRID, resamples=1_000, earlier_trials=500)

    assert (found.trials, more.trials) == (6, 506)
    assert more.family.expected_max > found.family.expected_max
    assert np.all(more.family.p_values >= found.family.p_values)
    assert "506 trials on record" in repr(more)


@pytest.mark.parametrize(("by", "column"), [("edge", "edge_pct"), ("price_ratio", "price_ratio_pct")])
def test_points_are_judged_by_what_is_asked_for(by, column):
    found = cl.sweep("starter", "cumulative-drift", GRID, by=by)

    scored = found.sources[2].seal().tear_sheet().scored
    assert found.frame[f"mean_{column}"][2] == pytest.approx(scored[column].mean())
    assert found.frame["t"][2] == pytest.approx(cluster_mean(scored[column], scored["fixture_id"]).t)
    assert found.best().number == found.frame[f"mean_{column}"].arg_max()
    assert found.best("clv").number == found.frame["mean_clv_bps"].arg_max()
    assert MEASURES[by].question in found._repr_html_()


def test_an_unknown_measure_is_named(found):
    with pytest.raises(StatisticsError, match="'roi'"):
        found.best("roi")
    with pytest.raises(StatisticsError, match="'roi'"):
        cl.sweep("starter", "cumulative-drift", GRID, by="roi")


def test_progress_is_told_after_every_point():
    told = []

    cl.sweep("starter", "baseline", {"warmup_ticks": [0, 5, 10]}, progress=lambda done, total: told.append((done, total)))

    assert told == [(1, 3), (2, 3), (3, 3)]


def test_an_agent_of_one_s_own_is_swept_and_sealed_with_an_audit():
    @cl.strategy
    def above(ticks, *, prob_bps=6000):
        return ticks.filter(pl.col("prob_bps") >= prob_bps, ~pl.col("in_running"))

    found = cl.sweep("starter", above, {"prob_bps": [6000, 7000]}, resamples=1_000)

    sealed = found.best().seal()
    assert sealed.report["agent"]["causality"] == AUDITED
    assert sealed.report["agent"]["config"]["prob_bps"] == found.best().params["prob_bps"]


def test_a_point_that_fails_is_named():
    with pytest.raises(AgentError) as raised:
        cl.sweep("starter", "cumulative-drift", {"warmup_ticks": [10, -1]})

    assert raised.value.__notes__ == ["at the setting warmup_ticks=-1"]


@pytest.mark.parametrize("grid", [{}, {"warmup_ticks": []}, {"warmup_ticks": "10"}])
def test_a_grid_without_values_is_refused(grid):
    with pytest.raises(StatisticsError, match="a grid needs parameters"):
        cl.sweep("starter", "baseline", grid)


def test_a_best_point_needs_fixtures_and_a_known_figure(found):
    few = cl.sweep("starter", "baseline", {"warmup_ticks": [0]}, fixtures=[90000000, 90000001])

    with pytest.raises(StatisticsError, match="too few fixtures"):
        few.best()
    with pytest.raises(StatisticsError, match="not by 'profit'"):
        found.best("profit")
    with pytest.raises(StatisticsError, match="-1"):
        cl.sweep("starter", "baseline", {"warmup_ticks": [0]}, earlier_trials=-1)


class TestHeatmap:
    def test_shows_the_means_along_the_axes_asked_for(self, found):
        across, upright = (found.heatmap(*names, ax=Figure().add_subplot()) for names in ((), ("cooldown_s", "warmup_ticks")))

        assert (across.get_xlabel(), across.get_ylabel()) == ("warmup_ticks", "cooldown_s")
        assert [label.get_text() for label in across.get_xticklabels()] == ["10", "20", "40"]
        means = [f"{mean:+.0f}" for mean in found.frame["mean_clv_bps"]]
        assert [text.get_text() for text in upright.texts] == means
        assert [text.get_text() for text in across.texts] == means[::2] + means[1::2]

    def test_of_one_parameter_has_one_row_and_averages_over_the_others(self):
        alone = cl.sweep("starter", "baseline", {"warmup_ticks": [0, 5]}, resamples=1_000)

        ax = alone.heatmap(ax=Figure().add_subplot())

        assert len(ax.texts) == 2
        assert not ax.get_ylabel()

    def test_over_fewer_parameters_than_the_grid_says_that_it_averages(self):
        wide = cl.sweep(
            "starter", "baseline", {"warmup_ticks": [0, 5], "stake": [1, 2], "min_prob_bps": [5000]}, resamples=1_000
        )

        ax = wide.heatmap("warmup_ticks", "min_prob_bps", ax=Figure().add_subplot())

        assert "means over the other parameters" in ax.get_title()
        assert ax.texts[0].get_text() == f"{wide.frame['mean_clv_bps'][0]:+.0f}"

    def test_of_an_unknown_parameter_is_refused(self, found):
        with pytest.raises(StatisticsError, match="no parameter 'colour'; it has: warmup_ticks, cooldown_s"):
            found.heatmap("colour", ax=Figure().add_subplot())


def test_what_is_no_executor_is_refused():
    with pytest.raises(ExecutorError, match="not 'dask'"):
        cl.sweep("starter", "baseline", {"stake": [1]}, executor="dask")
