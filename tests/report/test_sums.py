import polars as pl
import pytest

import clvlab as cl
from clvlab.statistics.measures import FIXTURE_SUMS, MEASURES, counted, fixture_sums, stacked


@pytest.fixture(scope="module")
def scores():
    run = cl.backtest("season", "cumulative-drift", params={"cooldown_s": 60}).source
    return run.scores.with_columns(run.at_close)


def test_sums_are_those_of_the_decisions_that_count(scores):
    found = fixture_sums(scores)

    assert dict(found.schema) == FIXTURE_SUMS
    assert found["fixture_id"].to_list() == sorted(scores.filter(counted())["fixture_id"].unique())
    for name, measure in MEASURES.items():
        values = scores.filter(counted()).select("fixture_id", value=measure.value).drop_nulls()
        expected = values.group_by("fixture_id").agg(pl.len(), pl.sum("value"), squares=pl.col("value").pow(2).sum())
        for row in expected.sort("fixture_id").iter_rows(named=True):
            own = found.row(by_predicate=pl.col("fixture_id") == row["fixture_id"], named=True)
            assert own[f"{name}_counts"] == row["len"]
            assert (own[f"{name}_sums"], own[f"{name}_squares"]) == pytest.approx((row["value"], row["squares"]))


def test_fixtures_in_which_nobody_decided_have_no_row(scores):
    first, last = scores["fixture_id"].min(), scores["fixture_id"].max()
    each = [fixture_sums(scores.filter(pl.col("fixture_id") == one)) for one in (last, first)]

    clusters, fixtures = stacked([*each, fixture_sums(scores.clear())], MEASURES["clv"])

    assert fixtures.to_list() == [first, last]
    assert [[count > 0 for count in row] for row in clusters.counts] == [[False, True, False], [True, False, False]]
