import polars as pl
import pytest

from clvlab.statistics import cluster_mean
from clvlab.statistics.by_date import cumulative


def test_the_last_band_is_the_interval_of_the_mean():
    clv = pl.Series([10, 30, -4, 6, 1, -3, 5, 12])
    fixtures, ends = pl.Series([1, 1, 2, 3, 4, 5, 6, 6]), pl.Series([50, 50, 20, 30, 40, 10, 60, 60])

    last, mean = cumulative(clv, fixtures, ends).row(-1, named=True), cluster_mean(clv, fixtures)

    assert last["total"] == pytest.approx(clv.sum())
    assert (last["low"], last["high"]) == pytest.approx((mean.low * 8, mean.high * 8))
    assert (last["n"], last["fixtures"]) == (8, 6)


def test_every_date_counts_what_had_closed_by_then():
    found = cumulative(pl.Series([1, 2, 4]), pl.Series([1, 2, 3]), pl.Series([30, 10, 10]))

    assert found.select("time_ms", "fixtures", "total").rows() == [(10, 2, 6.0), (30, 3, 7.0)]
    assert found["low"].null_count() == 2  # too few fixtures for a band


def test_many_dates_are_thinned_and_the_last_one_stays():
    n = 5_000

    found = cumulative(pl.Series([1.0] * n), pl.Series(range(n)), pl.Series(range(n)))

    assert found.height <= 120
    assert found["total"][-1] == n


def test_nothing_has_no_dates():
    assert cumulative(pl.Series([], dtype=pl.Int64), pl.Series([], dtype=pl.Int64), pl.Series([], dtype=pl.Int64)).is_empty()
