from dataclasses import asdict

import orjson
import polars as pl
import pytest
from pydantic import TypeAdapter

import clvlab as cl
from clvlab.api.backtests import BacktestStatistics
from clvlab.arena.reports import _finite, statistics_of
from clvlab.errors import StatisticsError
from clvlab.report.tearsheet import TearSheet
from clvlab.statistics.measures import MEASURES

MOVED = {
    "mean CLV of the same decisions in other fixtures",
    "one-sided p of the choice of fixture and side",
    "value of acting now",
    "one-sided p of acting now, no test of skill",
}


@pytest.fixture(scope="module")
def bt():
    return cl.backtest("season", "cumulative-drift", fixtures=list(range(90000000, 90000040)))


@pytest.fixture(scope="module")
def found(bt):
    return statistics_of(bt.source, level=0.9, resamples=500, seed=3)


def test_the_statistics_are_those_of_the_tear_sheet(bt, found):
    sheet = TearSheet(bt.source, 0.9, 500, seed=3, all_scored=True)

    for measure in MEASURES.values():
        shown = asdict(sheet.means[measure.name]) | {"level": 0.9, "sign_flip_p": sheet.sign_flips[measure.name]}
        assert found[measure.column] == {key: shown[key] for key in found[measure.column]}
        assert {"low", "degrees_of_freedom", "p_value", "sign_flip_p"} <= set(found[measure.column])
    assert found["median_clv_bps"]["low"] == sheet.median.low
    assert found["beat_close"]["rate"] == sheet.beat.rate


def test_the_figures_are_the_sheet_s_rows_but_those_of_moved_decisions(bt, found):
    frame = TearSheet(bt.source, 0.9, 500, 5, 3, all_scored=True).frame

    assert set(frame["figure"]) >= MOVED
    assert found["figures"] == frame.filter(~pl.col("figure").is_in(MOVED)).to_dicts()


def test_concentration_is_that_of_scored_decisions_by_fixture(bt, found):
    counts = bt.scores.filter(pl.col("reason") == "scored").group_by("fixture_id").len()["len"].sort(descending=True)

    assert found["effective_clusters"] == pytest.approx(counts.sum() ** 2 / (counts**2).sum())
    assert found["largest_fixture_share"] == pytest.approx(counts[0] / counts.sum())
    assert found["top_five_share"] == pytest.approx(counts.head(5).sum() / counts.sum())


def test_the_same_seed_gives_the_same_statistics_and_another_one_others(bt, found):
    assert statistics_of(bt.source, level=0.9, resamples=500, seed=3) == found
    other = statistics_of(bt.source, level=0.9, resamples=500, seed=4)
    assert other["clv_bps"]["sign_flip_p"] != found["clv_bps"]["sign_flip_p"]


def test_all_that_the_law_scored_counts(bt, found):
    assert found["clv_bps"]["n"] == bt.report["metrics"]["action_count"]
    assert found["clv_bps"]["mean"] == pytest.approx(bt.report["metrics"]["avg_clv_bps"])


@pytest.mark.parametrize("fixtures", [0, 1, 2, 40])
def test_few_fixtures_or_none_give_nulls_and_no_number_that_json_lacks(fixtures):
    window = cl.Window("none", market_allowlist=("NOTHING",)) if not fixtures else None
    played = list(range(90000000, 90000000 + max(fixtures, 1)))

    found = statistics_of(cl.backtest("season", "cumulative-drift", fixtures=played, window=window).source, resamples=50)

    TypeAdapter(BacktestStatistics).validate_python(found, strict=True)
    assert "NaN" not in str(found)
    assert orjson.loads(orjson.dumps(found)) == found
    assert (found["clv_bps"]["low"] is None) == (fixtures < 5)
    assert (found["effective_clusters"] is None) == (fixtures == 0)
    assert all(row["value"] is None for row in found["figures"]) == (fixtures == 0)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), None])
def test_what_json_has_no_number_for_is_null(value):
    assert _finite(value) is None


@pytest.mark.parametrize("settings", [{"level": 95}, {"level": 0}, {"resamples": 0}, {"resamples": 2.5}])
def test_settings_that_make_no_sense_are_refused_by_name(bt, settings):
    with pytest.raises(StatisticsError, match=str(next(iter(settings.values())))):
        statistics_of(bt.source, **settings)
