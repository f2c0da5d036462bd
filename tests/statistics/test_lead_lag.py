"""Leads of two sources: a plain second implementation, feeds of one price that show none, and feeds that do."""

import random

import numpy as np
import pytest

from clvlab.errors import StatisticsError
from clvlab.statistics.lead_lag import MOST_WORK, Series, check_lags, covariances, lead_lag, overlapping
from tests.length import few, length
from tests.simulations.feeds import ALIKE, LATE, LATE_S, Market, announced


def plain(first_ms, first, second_ms, second, lag_ms):
    """Add the products of all changes whose intervals, open below, overlap when the second's are moved back by the lag."""
    total = 0
    for i in range(1, len(first_ms)):
        for j in range(1, len(second_ms)):
            start = max(first_ms[i - 1], second_ms[j - 1] - lag_ms)
            end = min(first_ms[i], second_ms[j] - lag_ms)
            if start < end:
                total += (first[i] - first[i - 1]) * (second[j] - second[j - 1])
    return total


def drawn(draw, most):
    times = sorted(draw.sample(range(most), draw.randint(2, min(25, most))))
    return times, [draw.randint(0, 9) for _ in times]


@pytest.mark.parametrize("seed", range(length(40, 2_000)))
def test_covariances_are_those_of_a_plain_double_loop(seed):
    draw = random.Random(seed)
    most = draw.choice([30, 100, 1_000])
    (first_ms, first), (second_ms, second) = drawn(draw, most), drawn(draw, most)
    lags = [draw.randint(-most, most) for _ in range(8)] + [0]

    found = covariances(*(np.array(one) for one in (first_ms, [[v] for v in first], second_ms, [[v] for v in second], lags)), 7)

    assert found.sum(axis=1).ravel().tolist() == [plain(first_ms, first, second_ms, second, lag) for lag in lags]


@few(2)
@pytest.mark.parametrize("shape", ALIKE)
def test_feeds_of_one_price_seldom_show_a_lead(shape):
    leads, judged = announced(ALIKE[shape], 12)

    assert judged == 12
    assert leads <= 2


@pytest.mark.long
@pytest.mark.parametrize("shape", ALIKE)
def test_feeds_of_one_price_show_a_lead_in_at_most_64_of_1000(shape):
    leads, judged = announced(ALIKE[shape], 1_000)

    assert judged > 900
    assert leads <= 0.064 * judged


@few(2)
@pytest.mark.parametrize("shape", LATE)
def test_a_lag_of_ten_seconds_is_found_within_three(shape):
    market = LATE[shape]
    turned = Market(market.path, market.second, market.first, market.fixtures)

    for sign, own in ((1, market), (-1, turned)):
        for seed in range(length(2, 100)):
            assert own.found(seed).lead_s == pytest.approx(sign * LATE_S, abs=3)


def test_turning_the_sources_round_turns_the_lead_round():
    pairs = LATE["poisson"].pairs(3)
    lags = check_lags(20, 2)

    one, other = (lead_lag(own, lags, draws=99) for own in (pairs, [pair[::-1] for pair in pairs]))

    assert one.lead_s == -other.lead_s
    assert one.interpretations[0].covariance.tolist() == pytest.approx(other.interpretations[0].covariance[::-1].tolist())
    assert one.interpretations[0].asymmetry.tolist() == pytest.approx((-one.interpretations[0].asymmetry[::-1]).tolist())


@pytest.mark.parametrize("same", [False, True], ids=["any number of updates", "as many updates of both"])
@pytest.mark.parametrize("seed", range(6))
def test_draws_too_are_mirrored_when_sources_and_fixtures_are_in_another_order(seed, same):
    rng, lags = np.random.default_rng(seed), check_lags(8, 1)
    pairs = []
    for _ in range(3):
        path, times = np.cumsum(rng.integers(-9, 10, 90)), 1_000 * np.arange(90)
        sizes = [40, 40] if same else rng.integers(20, 80, 2)
        kept = [np.sort(rng.choice(90, size, replace=False)) for size in sizes]
        noisy = [Series.of(times[own], path[own] + rng.integers(-6, 7, len(own))) for own in kept]
        pairs.append(overlapping(*noisy))

    one, other = (lead_lag(own, lags, draws=39) for own in (pairs, [pair[::-1] for pair in reversed(pairs)]))

    assert (one.lead_s, one.p_value) == (other.lead_s and -other.lead_s, other.p_value)
    for name in ("covariance", "correlation", "asymmetry", "low", "high"):
        assert getattr(one.interpretations[0], name).tolist() == getattr(other.interpretations[0], name)[::-1].tolist()


def test_a_late_feed_of_rare_jumps_recorded_by_its_changes_shows_no_lead():
    """The records of a feed that is ten seconds late are those of one that looked ten seconds later."""
    market = LATE["2 s each"]
    rare = Market("rare jumps", market.first, market.second, 10)

    assert [rare.found(seed).lead_s for seed in range(5)] == [None] * 5


def test_the_band_holds_zero_and_the_data_of_one_price():
    found = ALIKE["2 s and 60 s"].found(5).interpretations[0]

    assert (found.low <= 0).all()
    assert (found.high >= 0).all()
    assert (found.asymmetry <= found.high + 1e-9).all()
    assert found.low.tolist() == pytest.approx((-found.high[::-1]).tolist())


def series(times, probs):
    return Series.of(np.array(times, dtype=np.int64), np.array(probs, dtype=np.int64))


def test_of_several_updates_at_one_time_the_last_counts():
    found = series([1, 1, 2, 5, 5, 5], [10, 20, 30, 40, 50, 60])

    assert (found.ts_ms.tolist(), found.prob_bps.tolist()) == ([1, 2, 5], [20, 30, 60])
    assert len(series([], []).ts_ms) == 0


def test_series_are_compared_in_the_span_that_both_cover():
    first, second = overlapping(series(range(10), range(10)), series(range(4, 20), range(16)))

    assert (first.ts_ms.tolist(), second.ts_ms.tolist()) == (list(range(4, 10)), list(range(4, 10)))
    assert [len(one.ts_ms) for one in overlapping(first, series([], []))] == [0, 0]
    assert [len(one.ts_ms) for one in overlapping(first, series([90, 91], [1, 2]))] == [0, 0]


def test_five_updates_are_judged_and_four_are_not():
    long, five = series(range(0, 60_000, 500), range(120)), series(range(0, 50_000, 10_000), range(5))

    assert lead_lag([(long, five)], check_lags(5, 1), draws=99).lead_s is None
    with pytest.raises(StatisticsError, match="4 updates of a source"):
        lead_lag([(long, five.within(0, 30_000))], check_lags(5, 1))


def test_a_price_that_never_changes_has_no_lag():
    moving, still = series(range(0, 9_000, 1_000), range(9)), series(range(0, 9_000, 1_000), [5] * 9)

    with pytest.raises(StatisticsError, match="second source never changes"):
        lead_lag([(moving, still)], check_lags(5, 1))
    with pytest.raises(StatisticsError, match="first source never changes"):
        lead_lag([(still, moving)], check_lags(5, 1))


def test_too_much_work_is_refused_before_it_begins():
    one = series(range(100_000), [5] * 100_000)

    with pytest.raises(StatisticsError, match=f"more than {MOST_WORK:,}"):
        lead_lag([(one, one)], check_lags(600, 1), draws=10_000)
    with pytest.raises(StatisticsError, match="no fixture"):
        lead_lag([], check_lags(5, 1))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ((3_600, 1), "3,600 lags of 1 s up to 3600 s are more than 600"),
        ((5, 10), "a step of 10 s goes beyond"),
        ((0, 1), "max_lag_s is a number of seconds"),
        ((5, float("nan")), "step_s is a number of seconds"),
        ((5, "1"), "step_s is a number of seconds"),
        ((True, 1), "max_lag_s is a number of seconds"),
    ],
)
def test_wrong_lags_are_refused_by_name(settings, said):
    with pytest.raises(StatisticsError, match=said):
        check_lags(*settings)
