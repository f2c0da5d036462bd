import numpy as np
import polars as pl
import pytest

from clvlab.errors import StatisticsError
from clvlab.statistics import Staking, kelly_shares, stakes, training_edge

FULL = Staking(fraction=1, most=1)


def bets(*rows):
    """Bets of fixture 1: (market, side, seconds to the close, odds)."""
    schema = {"fixture_id": pl.Int64, "market_key": pl.String, "side": pl.String, "to_close_s": pl.Float64, "odds": pl.Float64}
    return pl.DataFrame([(1, *row) for row in rows], schema=schema, orient="row")


def growth(shares, probabilities, odds):
    """Expected log growth of stakes on sides that exclude each other."""
    left = 1 - shares.sum()
    return (probabilities * np.log(left + shares * odds)).sum() + (1 - probabilities.sum()) * np.log(left)


@pytest.mark.parametrize(("probability", "odds"), [(0.55, 2.0), (0.1, 12.0), (0.95, 1.1), (0.4, 2.0)])
def test_one_side_gets_what_kelly_wrote(probability, odds):
    share = kelly_shares(np.array([probability]), np.array([odds]))

    assert share[0] == pytest.approx(max(0, (probability * odds - 1) / (odds - 1)))


@pytest.mark.parametrize(
    ("probabilities", "odds", "shares"),
    [
        ([0.9, 0.1], [2.0, 2.0], [0.8, 0]),
        ([0.7, 0.09, 0.21], [3.0, 3.0, 3.0], [0.61, 0, 0.12]),
        ([0.5, 0.5], [2.0, 2.0], [0, 0]),
        ([0.08, 0.92], [1.25, 5.0], [0, 0.9]),
    ],
)
def test_the_last_side_of_a_market_without_a_margin_is_never_backed(probabilities, odds, shares):
    assert kelly_shares(np.array(probabilities), np.array(odds)) == pytest.approx(np.array(shares), abs=1e-9)


def test_no_other_stakes_on_sides_of_a_market_grow_faster():
    rng = np.random.default_rng(1)
    for _ in range(40):
        sides = rng.integers(2, 5)
        probabilities = rng.dirichlet(np.full(sides + 1, 2.0))[:sides]
        odds = np.maximum(1.01, 1 / (probabilities * rng.uniform(0.8, 1.15, sides)))
        shares = kelly_shares(probabilities, odds)

        best = growth(shares, probabilities, odds)

        others = np.abs(shares + rng.normal(0, 0.02, (200, sides)) * (rng.random((200, sides)) < 0.5))
        assert 0 <= shares.sum() <= 1
        assert max(growth(other, probabilities, odds) for other in others if other.sum() < 1) <= best + 1e-12


def test_sure_profit_stakes_the_whole_bankroll_and_no_more():
    shares = kelly_shares(np.array([0.5, 0.5]), np.array([2.1, 2.1]))

    assert shares.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("probabilities", "odds", "said"),
    [([0.7, 0.4], [2, 3], "at most 1 together"), ([0.5], [1.0], "above 1"), ([-0.1], [2], "0 or")],
)
def test_what_is_no_probability_or_no_price_is_refused(probabilities, odds, said):
    with pytest.raises(StatisticsError, match=said):
        kelly_shares(np.array(probabilities), np.array(odds, dtype=float))


def test_all_sides_of_a_market_at_once_never_get_more_than_there_is():
    whole = bets(("m", "a", 60, 2.9), ("m", "b", 60, 3.4), ("m", "c", 60, 3.2))

    assert 0 < stakes(whole, FULL, 0.05).sum() <= 1
    assert stakes(bets(("m", "a", 60, 1.9), ("m", "b", 60, 1.9)), FULL, 0.05).to_list() == [0, 0]  # a margin can't be had


def test_a_second_bet_on_a_side_tops_up_and_never_doubles():
    found = stakes(bets(("m", "a", 300, 3.0), ("m", "a", 200, 3.0), ("m", "a", 100, 2.0), ("m", "a", 50, 3.0)), FULL, 0.1)

    assert found.to_list() == pytest.approx([0.05, 0, 0.05, 0])


def test_markets_of_a_fixture_together_get_what_the_best_of_them_would():
    found = stakes(bets(("m", "a", 300, 3.0), ("n", "over", 300, 2.0), ("o", "yes", 100, 2.5)), FULL, 0.1)

    assert found.sum() == pytest.approx(0.1)
    assert found[0] == pytest.approx(0.05)


def test_fixtures_are_staked_apart_and_rows_keep_their_order():
    one, two = bets(("m", "a", 60, 2.0)), bets(("m", "a", 90, 3.0)).with_columns(fixture_id=pl.lit(0, dtype=pl.Int64))

    assert stakes(pl.concat([one, two]), FULL, 0.1).to_list() == pytest.approx([0.1, 0.05])


def test_fraction_cap_and_flat_stakes():
    one = bets(("m", "a", 60, 2.0), ("m", "a", 30, 2.0))

    assert stakes(one, Staking(fraction=0.5, most=1), 0.1).to_list() == pytest.approx([0.05, 0])
    assert stakes(one, Staking(fraction=1, most=0.03), 0.1).to_list() == pytest.approx([0.03, 0])
    assert stakes(one, Staking("flat", flat=0.02)).to_list() == [0.02, 0.02]


@pytest.mark.parametrize("edge", [0.0, -0.05])
def test_without_an_edge_kelly_stakes_nothing(edge):
    assert stakes(bets(("m", "a", 60, 2.0)), FULL, edge).to_list() == [0]


def test_odds_that_are_too_short_for_the_edge_get_nothing():
    assert stakes(bets(("m", "a", 60, 1.02), ("n", "b", 60, 2.0)), FULL, 0.05).to_list() == pytest.approx([0, 0.05])
    assert stakes(bets(("m", "a", 60, 1.0), ("n", "b", 60, 1.0)), FULL, -0.05).to_list() == [0, 0]


@pytest.mark.parametrize("edge", [None, 2.0, "0.02", True, float("nan"), -1.0])
def test_an_edge_is_a_share_of_the_stake(edge):
    with pytest.raises(StatisticsError, match="share of the stake"):
        stakes(bets(("m", "a", 60, 2.0)), FULL, edge)


@pytest.mark.parametrize("options", [{"kind": "martingale"}, {"flat": 0}, {"fraction": -1}, {"most": 1.5}, {"exposure": 2}])
def test_stakings_out_of_range_are_refused(options):
    with pytest.raises(StatisticsError, match=str(next(iter(options.values())))):
        Staking(**options)


def test_an_edge_of_the_fixtures_that_are_bet_on_is_refused():
    edge, fixtures = pl.Series([0.01, 0.03, None]), pl.Series([1, 2, 2])

    assert training_edge(edge, fixtures, pl.Series([3])) == 0.02
    with pytest.raises(StatisticsError, match="fixture 2 is in the training fold and is bet on"):
        training_edge(edge, fixtures, pl.Series([2, 3]))
    with pytest.raises(StatisticsError, match="no scored decision"):
        training_edge(edge.clear(), fixtures.clear(), pl.Series([3]))
