import numpy as np
import polars as pl
import pytest

from clvlab.statistics import beat_close_rate, cluster_median, wilson_interval


def test_wilson_solves_its_equation():
    z = 1.959963984540054

    for bound in wilson_interval(0.3, 50):
        assert abs(0.3 - bound) == pytest.approx(z * np.sqrt(bound * (1 - bound) / 50))


def test_ties_stand_apart_and_do_not_move_the_rate():
    without, with_ties = (beat_close_rate(pl.Series([4, 4, -4, 4] + [0] * ties), pl.Series(range(4 + ties))) for ties in (0, 5))

    assert with_ties.rate == without.rate == 0.75
    assert (with_ties.low, with_ties.high) == pytest.approx((without.low, without.high))
    assert (without.tied, with_ties.tied) == (0, 5)


def test_decisions_of_one_fixture_count_less_than_independent_ones():
    clv_bps = pl.Series([1, 1, 1, 1, -1, -1, -1, -1] * 5)

    apart = beat_close_rate(clv_bps, pl.Series(range(40)))
    together = beat_close_rate(clv_bps, pl.Series(np.repeat(range(10), 4)))

    assert together.effective_n < apart.effective_n <= 40
    assert together.low < apart.low


def test_when_all_beat_the_close_the_fixtures_are_the_sample():
    found = beat_close_rate(pl.Series([1] * 20), pl.Series(np.repeat(range(4), 5)))

    assert found.effective_n == 4
    assert (found.low, found.high) == wilson_interval(1, 4)


@pytest.mark.parametrize("clv_bps", [[], [0, 0]])
def test_without_a_move_there_is_no_rate(clv_bps):
    found = beat_close_rate(pl.Series(clv_bps, dtype=pl.Int64), pl.Series(range(len(clv_bps)), dtype=pl.Int64))

    assert found.rate is None
    assert found.tied == len(clv_bps)


def test_the_median_of_clustered_values_is_held_about_as_often_as_said():
    rng = np.random.default_rng(1)
    rounds = 500
    ids = np.repeat(range(50), 8)

    covered = 0
    for _ in range(rounds):
        values = pl.Series(rng.normal(0, 10, 50)[ids] + rng.normal(5, 10, 400))
        found = cluster_median(values, pl.Series(ids))
        covered += found.low <= 5 <= found.high

    assert 0.91 <= covered / rounds <= 0.98


def test_the_median_of_nothing_is_nothing_and_of_one_fixture_has_no_interval():
    assert cluster_median(pl.Series([], dtype=pl.Int64), pl.Series([], dtype=pl.Int64)).median is None
    assert cluster_median(pl.Series([1, 2, 9]), pl.Series([7, 7, 7])).low is None


@pytest.mark.parametrize(
    ("of_each", "bounds"),
    [([-3, 5], (-3, 5)), ([-3, 5, 5], (5, 5)), ([4], (4, 4)), ([0, 1, 2, 9], (1, 2)), ([-9, 2, 2, 9], (2, 2))],
)
def test_the_interval_holds_the_median_where_every_fixture_has_the_same_values(of_each, bounds):
    found = cluster_median(pl.Series(of_each * 8), pl.Series(np.repeat(range(8), len(of_each))))

    assert found.low <= found.median <= found.high
    assert (found.low, found.high) == bounds
