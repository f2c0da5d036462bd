import sys
from math import exp, log

import numpy as np
import polars as pl
import pytest

from clvlab.errors import StatisticsError
from clvlab.statistics import Staking, bankroll, stakes

DAY_MS = 86_400_000


def coin_bets(share, *, n=400, probability=0.55, odds=2.0, seed=0):
    """One bet a fixture, a fixture a day, which wins with that probability."""
    won = np.random.default_rng(seed).random(n) < probability
    return pl.DataFrame(
        {
            "fixture_id": np.arange(n),
            "close_ts_ms": np.arange(n) * DAY_MS,
            "to_close_s": 60.0,
            "share": float(share),
            "profit": np.where(won, odds - 1, -1.0),
        }
    )


def crowded(seed, n=150, fixtures=30):
    """Bets of all sizes on fixtures that are open at once."""
    rng = np.random.default_rng(seed)
    fixture = np.sort(rng.integers(0, fixtures, n))
    return pl.DataFrame(
        {
            "fixture_id": fixture,
            "close_ts_ms": rng.integers(0, 10, fixtures)[fixture] * 3_600_000,
            "to_close_s": rng.integers(0, 40, n) * 600.0,
            "share": rng.choice([0.0, 0.02, 0.1, 0.4], n),
            "profit": rng.choice([-1.0, -0.5, 0.0, 0.4, 1.5], n),
        }
    )


def by_hand(bets, *, growing, exposure, open_s):
    """One path, event by event."""
    rows = bets.filter(pl.col("share") > 0).rows(named=True)
    fixtures = {(row["close_ts_ms"], row["fixture_id"]) for row in rows}
    events = [(row["close_ts_ms"] - 1000 * row["to_close_s"], 1, row["close_ts_ms"], row["fixture_id"], row) for row in rows]
    events += [(close + 1000 * open_s, 0, close, fixture, None) for close, fixture in fixtures]
    cash, slips, path = 1.0, {}, [1.0]
    for _, _, _, fixture, bet in sorted(events, key=lambda event: event[:4]):
        wealth = cash + sum(stake for own in slips.values() for stake, _ in own)
        if bet is None:
            cash += sum(stake * (1 + profit) for stake, profit in slips.pop(fixture, []))
            path.append(cash + sum(stake for own in slips.values() for stake, _ in own))
            continue
        stake = min(bet["share"] * (wealth if growing else 1), max(0, exposure * wealth - (wealth - cash)))
        cash -= stake
        slips.setdefault(fixture, []).append((stake, bet["profit"]))
    return path


@pytest.mark.parametrize("growing", [True, False])
@pytest.mark.parametrize("exposure", [1.0, 0.3])
def test_the_path_is_that_of_an_account_book(growing, exposure):
    for seed in range(10):
        bets = crowded(seed)

        found = bankroll(bets, growing=growing, exposure=exposure, open_s=5400, paths=1)

        assert found.path == pytest.approx(by_hand(bets, growing=growing, exposure=exposure, open_s=5400))


def test_bets_that_are_open_together_share_the_bankroll():
    together = coin_bets(0.4, n=5).with_columns(close_ts_ms=pl.lit(0))
    lost = together.with_columns(profit=pl.lit(-1.0))

    found = bankroll(lost, growing=True, paths=5)

    assert (found.path[-1], found.turnover, found.cut) == (pytest.approx(0), pytest.approx(1), 3)
    assert bankroll(lost, growing=True, exposure=0.5, paths=5).path[-1] == pytest.approx(0.5)
    assert bankroll(lost.with_columns(close_ts_ms=pl.col("fixture_id") * DAY_MS), growing=True, paths=5).cut == 0


@pytest.mark.parametrize(("probability", "odds"), [(0.55, 2.0), (0.3, 4.0)])
def test_growth_peaks_at_full_kelly_and_is_that_of_the_formula(probability, odds):
    kelly, n = (probability * odds - 1) / (odds - 1), 2_000
    rng = np.random.default_rng(1)
    # as many wins as the probability says: the formula without luck
    wins = rng.permutation(np.arange(n) < probability * n)
    found = {}
    for times in (0.5, 0.9, 1.0, 1.1, 2.0, 3.0):
        bets = coin_bets(times * kelly, n=n, odds=odds).with_columns(profit=pl.Series(np.where(wins, odds - 1, -1.0)))
        found[times] = bankroll(bets, growing=True, paths=1).growth.mean
        share = times * kelly
        expected = probability * log(1 + share * (odds - 1)) + (1 - probability) * log(1 - share)
        assert found[times] == pytest.approx(expected)

    assert max(found, key=found.get) == 1.0
    assert found[0.5] > 0.7 * found[1.0]
    assert found[3.0] < 0


@pytest.mark.parametrize("together", [5, 9, 20, 50])
def test_stakes_that_just_fill_the_bankroll_are_not_cut(together):
    bets = coin_bets(1 / together, n=together).with_columns(close_ts_ms=pl.lit(DAY_MS))

    assert bankroll(bets, growing=True, paths=2).cut == 0
    assert bankroll(bets, growing=True, exposure=0.9, paths=2).cut > 0


def test_stakes_of_a_known_edge_are_those_of_the_peak():
    n = 50
    asked = pl.DataFrame({"fixture_id": range(n), "market_key": "m", "side": "a", "to_close_s": [60.0] * n, "odds": [2.0] * n})

    assert set(stakes(asked, Staking(fraction=1, most=1), 0.1).round(9)) == {0.1}


@pytest.mark.long
def test_the_interval_of_growth_and_the_fan_hold_the_truth_about_as_often_as_they_say():
    share, n, rounds = 0.1, 100, 250
    truth = 0.55 * log(1 + share) + 0.45 * log(1 - share)

    inside = fanned = 0
    for seed in range(rounds):
        found = bankroll(coin_bets(share, n=n, seed=seed), growing=True, paths=100, seed=seed)
        inside += found.growth.low <= truth <= found.growth.high
        fanned += found.fan[0, -1] <= exp(n * truth) <= found.fan[-1, -1]

    assert 0.92 <= inside / rounds <= 0.98
    assert 0.84 <= fanned / rounds <= 0.95


def test_the_fan_of_one_day_is_that_of_its_coin():
    found = bankroll(coin_bets(0.1, n=1_000), growing=True, paths=2_000)

    steps = found.fan[:, 1]
    assert steps == pytest.approx([0.9, 0.9, 1.1, 1.1, 1.1])
    assert (found.fan[:, 0] == 1).all()
    assert (np.diff(found.fan, axis=0) >= 0).all()


def test_ruin_without_an_edge_is_as_often_as_a_martingale_says():
    """A fair game of small stakes comes down to half before it doubles as often as not; given time it falls to half."""
    fair = [bankroll(coin_bets(0.1, n=400, probability=0.5, seed=s), growing=True, paths=200, seed=s) for s in range(20)]

    assert np.mean([one.growth.mean for one in fair]) == pytest.approx(0.5 * log(1.1) + 0.5 * log(0.9), abs=0.003)
    assert np.mean([one.growth.mean for one in fair]) < 0
    assert np.mean([one.ruin for one in fair]) > 0.7


def test_ruin_and_drawdown_of_flat_stakes_are_those_of_a_random_walk():
    """A fair stake of 5 % a day: how often 100 days come down by ten stakes is known by reflection."""
    bets = coin_bets(0.05, n=100).with_columns(profit=pl.when(pl.col("fixture_id") % 2 == 0).then(1.0).otherwise(-1.0))

    found = bankroll(bets, growing=False, ruin_below=0.525, paths=4_000)

    # P(lowest of 100 fair steps <= -10) = 2 P(S <= -10) - P(S = -10)
    assert found.ruin == pytest.approx(0.3197, abs=0.03)
    assert found.drawdowns == tuple(sorted(found.drawdowns))


def test_a_bankroll_never_falls_below_nothing_and_then_has_no_growth():
    found = bankroll(coin_bets(1.0, n=30, probability=0), growing=True, paths=20)

    assert (found.path[-1], found.ruin, found.growth.mean) == (0, 1, None)
    assert found.fan.min() == 0


def test_bets_of_a_fixture_stay_together():
    """Two bets a fixture that always win or lose together swing twice as far as ones apart."""
    once = coin_bets(0.004, n=300, probability=0.5)
    twice = pl.concat([once, once])
    apart = twice.with_columns(fixture_id=pl.int_range(600), profit=pl.concat([once["profit"], -once["profit"]]))

    together, split = (bankroll(one, growing=False, paths=1_000) for one in (twice, apart))

    widths = [one.fan[-1, -1] - one.fan[0, -1] for one in (together, split)]
    assert widths[0] / widths[1] == pytest.approx(2**0.5, rel=0.1)


def test_the_same_seed_gives_the_same_fan():
    one, again, other = (bankroll(coin_bets(0.1), growing=True, paths=50, seed=seed) for seed in (1, 1, 2))

    assert (one.fan == again.fan).all()
    assert (one.fan != other.fan).any()


def test_paths_in_blocks_are_those_at_once(monkeypatch):
    bets = crowded(3)
    whole = bankroll(bets, growing=True, paths=40)

    monkeypatch.setattr(sys.modules["clvlab.statistics.bankroll"], "_CELLS", 500)

    assert (bankroll(bets, growing=True, paths=40).fan == whole.fan).all()


def test_stakes_of_nothing_leave_the_bankroll_as_it_was():
    found = bankroll(coin_bets(0.0, n=20), growing=True, paths=10)

    assert (found.fan == 1).all()
    assert (found.n, found.growth.mean, found.ruin) == (0, 0, 0)


@pytest.mark.parametrize(
    ("column", "value", "options", "said"),
    [
        ("profit", -1.5, {}, "profit of a bet .* -1.5"),
        ("share", float("nan"), {}, "share of a bet"),
        ("to_close_s", -5.0, {}, "to_close_s of a bet .* -5"),
        ("share", 0.1, {"exposure": 1.5}, "exposure .* 1.5"),
        ("share", 0.1, {"ruin_below": 0}, "ruin_below .* 0"),
        ("share", 0.1, {"open_s": 0}, "open_s .* 0"),
        ("share", 0.1, {"paths": 0}, "paths .* 0"),
        ("share", 0.1, {"level": 95}, "level .* 95"),
    ],
)
def test_values_out_of_range_are_refused(column, value, options, said):
    with pytest.raises(StatisticsError, match=said):
        bankroll(coin_bets(0.1, n=5).with_columns(pl.lit(value).alias(column)), growing=True, **options)


def test_without_a_bet_there_is_no_path():
    with pytest.raises(StatisticsError, match="no settled bet"):
        bankroll(coin_bets(0.1).clear(), growing=True)
