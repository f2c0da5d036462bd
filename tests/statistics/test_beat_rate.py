import numpy as np
import polars as pl
import pytest

from clvlab.statistics import beat_close_rate, cluster_median, wilson_interval
from tests.length import few, length


def test_wilson_solves_its_equation():
    z = 1.959963984540054

    for bound in wilson_interval(0.3, 50):
        assert abs(0.3 - bound) == pytest.approx(z * np.sqrt(bound * (1 - bound) / 50))


def test_ties_stand_apart_and_do_not_move_the_rate():
    moved = [4, 4, -4, 4, 4, 4, -4, 4]
    without, with_ties = (beat_close_rate(pl.Series(moved + [0] * ties), pl.Series(range(8 + ties))) for ties in (0, 5))

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
    five = beat_close_rate(pl.Series([1] * 20), pl.Series(np.repeat(range(5), 4)))

    assert (found.effective_n, found.low, found.high) == (4, None, None)
    # with 4 degrees of freedom 2.776 standard errors are as rare as 1.96 of the normal distribution
    assert five.effective_n == 5
    assert (five.low, five.high) == pytest.approx(wilson_interval(1, 5 * (1.95996 / 2.77645) ** 2), abs=1e-4)


@pytest.mark.parametrize("fixtures", [1, 2, 4])
def test_few_fixtures_have_a_rate_and_a_median_without_an_interval(fixtures):
    clv_bps, ids = pl.Series([1] + [-1] * 48), pl.Series(np.arange(49) % fixtures)

    rate, middle = beat_close_rate(clv_bps, ids), cluster_median(clv_bps, ids)

    assert rate.rate == pytest.approx(1 / 49)
    assert middle.median == -1
    assert (rate.low, rate.high, middle.low, middle.high) == (None,) * 4


@few(1)
@pytest.mark.parametrize("fixtures", [5, 10])
def test_intervals_of_few_fixtures_hold_what_they_say(fixtures):
    rng, rounds, ids = np.random.default_rng(1), length(500, 2_000), np.repeat(range(fixtures), 10)

    held = np.zeros(2)
    for _ in range(rounds):
        clv_bps = pl.Series(np.rint(1_000 * (rng.normal(0, 1, fixtures)[ids] + rng.normal(0, 1, ids.size))).astype(int))
        middle, rate = cluster_median(clv_bps, pl.Series(ids)), beat_close_rate(clv_bps, pl.Series(ids))
        held += [middle.low <= 0 <= middle.high, rate.low <= 0.5 <= rate.high]

    assert np.all(held / rounds >= 0.93)  # normal quantiles hold 0.90 of five, 0.92 of ten


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
