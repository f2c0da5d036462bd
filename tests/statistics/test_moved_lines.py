"""Lines that moved: keys, the price of a line, the fit beside a grid and beside the truth, and the rule."""

import numpy as np
import pytest
from scipy.stats import norm, poisson, skellam

from clvlab.law.markets import Market, MarketKind, Role
from clvlab.packs.rows import Payout
from clvlab.sources.football_data import handicap, totals
from clvlab.statistics.moved_lines import (
    VERSION,
    LineQuote,
    Model,
    UnquotedLine,
    leave_one_out,
    moved_close,
    moved_closes,
    predicted,
    quotes_of,
    scored_by_goals,
)
from tests import one_by_one
from tests.length import length
from tests.simulations import lines

HANDICAP, TOTAL = "ASIANHANDICAP_PARTICIPANT_GOALS", "OVERUNDER_PARTICIPANT_GOALS"
WON = {Payout.WON: 1, Payout.HALF_WON: 0.5}
LOST = {Payout.LOST: 1, Payout.HALF_LOST: 0.5}


def settled_price(first, second, kind, quarters):
    """What ``part1`` or ``over`` costs: scores settled one by one, by the code that settles bets."""
    won = lost = 0.0
    for home, p in enumerate(poisson.pmf(range(25), first)):
        for away, q in enumerate(poisson.pmf(range(25), second)):
            settled = (
                handicap(home - away, quarters / 4)["part1"]
                if kind is MarketKind.HANDICAP
                else totals(home + away, quarters / 4)["over"]
            )
            won, lost = won + WON.get(settled, 0) * p * q, lost + LOST.get(settled, 0) * p * q
    return won / (won + lost)


def priced(first, second, asked):
    return [
        LineQuote(kind, quarters, settled_price(first, second, kind, quarters), f"{kind}{quarters}") for kind, quarters in asked
    ]


@pytest.mark.parametrize("quarters", range(-10, 11))
def test_a_handicap_costs_what_its_settled_bets_return(quarters):
    (found,) = priced(1.7, 1.1, [(MarketKind.HANDICAP, quarters)])
    known = priced(1.7, 1.1, [(MarketKind.HANDICAP, -2), (MarketKind.HANDICAP, 2), (MarketKind.TOTAL, 10)])

    assert Model.of_goals(known).prob(MarketKind.HANDICAP, quarters) == pytest.approx(found.prob, abs=2e-5)
    assert predicted(MarketKind.HANDICAP, quarters, known, goals=True) == pytest.approx(found.prob, abs=2e-5)


@pytest.mark.parametrize("quarters", range(2, 21))
def test_a_total_costs_what_its_settled_bets_return(quarters):
    (found,) = priced(1.7, 1.1, [(MarketKind.TOTAL, quarters)])

    assert predicted(MarketKind.TOTAL, quarters, priced(1.7, 1.1, [(MarketKind.TOTAL, 10)]), goals=True) == pytest.approx(
        found.prob, abs=2e-5
    )


def test_a_result_is_three_handicaps():
    key = "1X2_PARTICIPANT_RESULT||"
    sides = {Role.HOME: skellam.sf(0, 1.7, 1.1), Role.DRAW: skellam.pmf(0, 1.7, 1.1), Role.AWAY: skellam.cdf(-1, 1.7, 1.1)}

    found = list(quotes_of(Market.parse(key), {side: 1e4 * prob for side, prob in sides.items()}))

    for quote in found:
        assert quote.is_derived
        assert quote.prob == pytest.approx(settled_price(1.7, 1.1, MarketKind.HANDICAP, quote.quarters), abs=1e-9)
    assert [quote.quarters for quote in found] == [-2, 0, 2]


@pytest.mark.parametrize(
    ("key", "sides"),
    [
        ("h2h||", {Role.HOME: 5000}),
        ("h2h||", {Role.HOME: None, Role.AWAY: 5000}),
        ("totals||point=2.5", {Role.OVER: 0, Role.UNDER: 0}),
        ("spreads||point=1", {Role.HOME: 5000, Role.AWAY: 4000, Role.DRAW: 1000}),
        ("spreads||point=1", {Role.OVER: 5000, Role.UNDER: 5000}),
    ],
)
def test_sides_that_are_not_those_of_a_line_quote_nothing(key, sides):
    assert list(quotes_of(Market.parse(key), sides)) == []


def test_the_fit_is_as_good_as_the_best_of_a_grid():
    rng = np.random.default_rng(5)
    for _ in range(4):
        quotes = priced(
            *rng.uniform(0.4, 2.6, 2),
            [(MarketKind.HANDICAP, -2), (MarketKind.HANDICAP, 2), (MarketKind.TOTAL, 10), (MarketKind.TOTAL, 14)],
        )
        off = [
            LineQuote(one.kind, one.quarters, float(np.clip(one.prob + rng.normal(0, 0.02), 0.01, 0.99)), "") for one in quotes
        ]
        first, second = np.meshgrid(np.arange(0.1, 3.6, 0.025), np.arange(0.1, 3.6, 0.025))
        by_hand = [
            skellam.sf(0, first, second),
            skellam.sf(-1, first, second),
            *(poisson.sf(n, first + second) for n in (2, 3)),
        ]
        best = min(sum((prob - one.prob) ** 2 for prob, one in zip(by_hand, off, strict=True)).ravel())

        model = Model.of_goals(off)
        reached = sum((model.prob(one.kind, one.quarters) - one.prob) ** 2 for one in off)

        assert best - 2e-4 < reached <= best + 1e-6


def test_lines_that_are_quoted_are_met_and_those_between_lie_between():
    rng = np.random.default_rng(3)
    for goals in (True, False):
        for _ in range(30):
            known = sorted(rng.choice(np.arange(2, 24), 4, replace=False).tolist())
            probs = np.sort(rng.uniform(0.03, 0.97, 4))[::-1]
            quotes = [
                LineQuote(MarketKind.TOTAL, line, float(prob), str(line)) for line, prob in zip(known, probs, strict=True)
            ]
            at = [predicted(MarketKind.TOTAL, line, quotes, goals=goals) for line in known]
            between = [predicted(MarketKind.TOTAL, line, quotes, goals=goals) for line in range(known[1], known[2] + 1)]

            assert at == pytest.approx(probs, abs=1e-9)
            assert all(probs[2] - 1e-9 <= prob <= probs[1] + 1e-9 for prob in between)


def test_points_beyond_the_last_line_follow_the_normal_distribution():
    known = [LineQuote(MarketKind.TOTAL, 4 * 45 + 2, 0.5, "")]

    found = predicted(MarketKind.TOTAL, 4 * 48 + 2, known, goals=False)

    assert found == pytest.approx(norm.sf(3 / np.sqrt(2.5 * 45.5)), abs=1e-6)


def test_a_margin_of_points_needs_its_spread_from_somewhere():
    run_line = [LineQuote(MarketKind.HANDICAP, -6, 0.4, "a")]

    assert predicted(MarketKind.HANDICAP, 6, run_line, goals=False) is None
    assert moved_close(MarketKind.HANDICAP, 6, run_line, goals=False) is None
    assert 0.4 < predicted(MarketKind.HANDICAP, 6, [*run_line, LineQuote(MarketKind.TOTAL, 34, 0.5, "b")], goals=False) < 1
    assert 0.6 < predicted(MarketKind.HANDICAP, 6, [*run_line, LineQuote(MarketKind.HANDICAP, 0, 0.55, "c")], goals=False) < 0.8


def test_goals_are_told_by_the_key_or_by_a_draw_and_low_totals():
    result, total = Market.parse("h2h||"), Market.parse("totals||point=2.5")

    assert scored_by_goals([(Market.parse(f"{TOTAL}||line=2.5"), False)])
    assert scored_by_goals([(result, True), (total, False)])
    assert not scored_by_goals([(result, False), (total, False)])
    assert not scored_by_goals([(result, True), (Market.parse("totals||point=55.5"), False)])
    assert not scored_by_goals([])


def test_the_same_line_elsewhere_comes_before_any_fit_and_a_handicap_before_a_result():
    quotes = [
        LineQuote(MarketKind.HANDICAP, -2, 0.51, "a result", is_derived=True),
        LineQuote(MarketKind.HANDICAP, -2, 0.5251, "z"),
        LineQuote(MarketKind.HANDICAP, -4, 0.4, "y"),
    ]

    assert moved_close(MarketKind.HANDICAP, -2, quotes, goals=True).rule == f"alternate z, {VERSION}"
    assert moved_close(MarketKind.HANDICAP, -2, quotes, goals=True).prob_bps == 5251
    assert moved_close(MarketKind.HANDICAP, -2, quotes[:1], goals=True).rule == f"alternate a result, {VERSION}"
    assert moved_close(MarketKind.HANDICAP, -2, quotes, goals=True).error_bps is None


def test_a_market_that_closed_is_no_line_that_moved():
    result = [
        LineQuote(MarketKind.HANDICAP, -2, 0.5, "r", is_derived=True),
        LineQuote(MarketKind.HANDICAP, 2, 0.8, "r", is_derived=True),
    ]

    assert moved_close(MarketKind.HANDICAP, -4, result, goals=True) is None
    assert moved_close(MarketKind.TOTAL, 10, result, goals=True) is None
    assert moved_close(MarketKind.TOTAL, 10, [], goals=True) is None


def test_the_error_is_that_of_the_other_lines_each_hidden_in_turn():
    alone = [LineQuote(MarketKind.TOTAL, 12, 0.4, "a")]
    three = [*alone, LineQuote(MarketKind.TOTAL, 10, 0.57, "b"), LineQuote(MarketKind.TOTAL, 14, 0.31, "c")]

    found = moved_close(MarketKind.TOTAL, 11, three, goals=True)
    off = [
        predicted(MarketKind.TOTAL, hidden.quarters, [one for one in three if one is not hidden], goals=True) - hidden.prob
        for hidden in three
    ]

    assert moved_close(MarketKind.TOTAL, 11, alone, goals=True).error_bps is None
    assert found.rule == f"fitted goals, {VERSION}"
    assert found.error_bps == pytest.approx(1e4 * np.sqrt(np.mean(np.square(off))))
    assert [quote.market_key for quote, _ in leave_one_out(MarketKind.TOTAL, three, goals=True)] == ["a", "b", "c"]


def test_extreme_prices_give_a_price():
    for probs in ((0.0, 0.0), (1.0, 1.0), (1.0, 0.0), (0.9999, 0.0001)):
        quotes = [LineQuote(MarketKind.TOTAL, 6, probs[0], "a"), LineQuote(MarketKind.HANDICAP, 2, probs[1], "b")]
        for goals in (True, False):
            found = predicted(MarketKind.TOTAL, 10, quotes, goals=goals)
            assert found is None or 0 <= found <= 1


def test_where_goals_are_independent_a_hidden_line_is_known_to_a_few_points():
    rng = np.random.default_rng(2)
    found = lines.errors_of([lines.simulated(rng, points=False, goals=50_000) for _ in range(10)], goals=True)

    for errors in found.values():
        off, near = np.abs(errors).T
        assert off.mean() < 15
        assert near.mean() > 300


@pytest.mark.realdata
def test_hidden_lines_of_txline_are_known_as_the_docs_say(realdata):
    lines_of = dict(lines.real(realdata, only="TxLINE"))["TxLINE"]

    documented = lines.REFERENCE.read_text(encoding="utf-8").splitlines()
    assert list(lines.rows("TxLINE", lines_of)) == [line for line in documented if line.startswith("TxLINE,")]


def drawn_lines(rng):
    """Quotes of a fixture, some of them absurd, and one or two lines to price by them."""
    kinds, scale = (MarketKind.HANDICAP, MarketKind.TOTAL), int(rng.choice([1, 1, 20]))
    quotes = [
        LineQuote(
            kinds[rng.integers(2)],
            int(rng.integers(-12, 13)) * scale,
            float(rng.choice([0.0, 1.0, 0.5, 1e-9, *rng.random(4)])),
            str(rng.integers(3)),
            is_derived=bool(rng.random() < 0.2),
        )
        for _ in range(rng.integers(9))
    ]
    goals = bool(rng.random() < 0.7)
    return [UnquotedLine(kinds[rng.integers(2)], int(rng.integers(-12, 13)), quotes, goals) for _ in range(rng.integers(1, 3))]


def test_fits_in_step_are_the_fits_of_each_fixture_alone_bit_for_bit():
    rng = np.random.default_rng(4)
    asked = [line for _ in range(length(60, 2_000)) for line in drawn_lines(rng)]

    together = [None if one is None else (one.prob_bps, one.rule.split()[0], one.error_bps) for one in moved_closes(asked)]

    alone = [one_by_one.priced(line.kind, line.quarters, line.quotes, goals=line.goals) for line in asked]
    assert together == alone
    assert {one[1] for one in alone if one} == {"alternate", "fitted"}
    assert any(one and one[2] for one in alone)
    assert moved_closes([]) == []
