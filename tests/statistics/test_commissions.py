import re
from itertools import product

import numpy as np
import pytest

from clvlab.errors import StatisticsError
from clvlab.statistics.commissions import VENUES, Commission, Fills, commission_of, expected_charges, settled_charges


def filled(*rows):
    market, side, stake, odds = (np.array(column) for column in zip(*rows, strict=True))
    payout = stake * odds
    return Fills(market, side, stake.astype(float), payout, stake * (1 - 1 / odds))


def test_fees_are_those_of_the_venues_own_examples():
    # 100 contracts at 50 cents pay 1.75 dollars, 10 at 50 cents 18 cents, and one 2 cents
    one = filled((0, 0, 5000, 2.0), (0, 0, 500, 2.0), (0, 0, 50, 2.0))
    assert settled_charges(one, np.zeros(3), VENUES["kalshi"]).tolist() == [175, 18, 2]
    # 100 shares at 40 cents: 100 x 0.03 x 0.4 x 0.6 = 0.72 dollars
    assert settled_charges(filled((0, 0, 4000, 2.5)), np.zeros(1), VENUES["polymarket"]).tolist() == pytest.approx([72])
    # 50 at odds of 3, won: net winnings of 100, of which 5 % are 5
    assert settled_charges(filled((0, 0, 5000, 3.0)), np.array([10_000.0]), VENUES["betfair"]).tolist() == [500]


def test_net_winnings_are_netted_in_a_market_and_their_charge_is_shared_by_who_won():
    bets = filled((0, 0, 1000, 3.0), (0, 1, 500, 2.0), (0, 0, 1000, 2.0), (1, 2, 1000, 2.0))
    profit = np.array([2000.0, -500.0, 1000.0, 1000.0])

    found = settled_charges(bets, profit, commission_of(0.1))

    assert found.tolist() == pytest.approx([250 * 2 / 3, 0, 250 / 3, 100])
    assert settled_charges(bets, -abs(profit), commission_of(0.1)).tolist() == [0] * 4
    unknown = settled_charges(bets, np.array([np.nan, -500, 1000, np.nan]), commission_of(0.1))
    assert unknown.tolist() == pytest.approx([0, 0, 50, 0])


def test_an_expected_charge_is_the_mean_over_every_way_that_markets_end():
    rng = np.random.default_rng(3)
    for _ in range(50):
        rows = [(m, 3 * m + int(rng.integers(3)), int(rng.integers(1, 900)), 1 + 4 * rng.random()) for m in (0, 0, 0, 1, 1)]
        bets, chances = filled(*rows), {m: rng.dirichlet([1, 1, 1]) for m in (0, 1)}
        prob = np.array([chances[m][side - 3 * m] for m, side, *_ in rows])
        mean = np.zeros(len(rows))
        for ends in product(range(3), repeat=2):
            won = np.array([side - 3 * m == ends[m] for m, side, *_ in rows])
            weight = chances[0][ends[0]] * chances[1][ends[1]]
            mean += weight * settled_charges(bets, np.where(won, bets.payout - bets.stake, -bets.stake), commission_of(0.05))

        assert expected_charges(bets, prob, commission_of(0.05)) == pytest.approx(mean)


@pytest.mark.parametrize("stated", [-0.01, 1, 1.5, float("nan"), True, None, "betfare", ""])
def test_other_commissions_are_refused(stated):
    with pytest.raises(StatisticsError, match="a commission is a rate"):
        commission_of(stated)


def test_every_venue_says_where_its_formula_stands_and_since_when():
    assert all(isinstance(one, Commission) and one.source.startswith("https://") for one in VENUES.values())
    assert [name for name, one in VENUES.items() if not re.fullmatch(r"20\d\d-\d\d-\d\d", one.since)] == ["betfair"]  # undated
