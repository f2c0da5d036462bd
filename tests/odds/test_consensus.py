import statistics
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clvlab.errors import OddsError
from clvlab.odds.consensus import PROB_UNIT, BookMessages, Consensus, basis_points, consensus_ticks
from clvlab.odds.integers import largest_remainder


def said(*rows):
    """Messages as (market, second, book, probability of the first of two sides or None, age in seconds)."""
    market, ts, book, prob, age = (np.array(column) for column in zip(*rows, strict=True))
    first = np.array([-1 if p is None else round(p * PROB_UNIT) for p in prob])
    both = np.stack([first, np.where(first < 0, -1, PROB_UNIT - first)], axis=1)
    odds = np.where(both < 0, -1, 1000 * PROB_UNIT // np.maximum(both, 1))
    ts_ms = ts.astype(np.int64) * 1000
    return BookMessages(market.astype(np.int64), ts_ms, book.astype(np.int64), ts_ms - age.astype(np.int64) * 1000, both, odds)


def ticks(messages, weights=(1, 1, 1), **rules):
    return consensus_ticks(messages, np.array(weights, dtype=np.int64), Consensus(**rules))


def test_the_consensus_is_the_median_of_what_books_last_said():
    found = ticks(said((0, 0, 0, 0.50, 0), (0, 0, 1, 0.60, 0), (0, 5, 2, 0.51, 0), (0, 9, 0, 0.70, 0)))

    assert found.prob_bps.tolist() == [[5500, 4500], [5100, 4900], [6000, 4000]]
    assert found.books.tolist() == [2, 3, 3]


def test_the_price_is_the_best_of_the_fresh_books():
    found = ticks(said((0, 0, 0, 0.50, 0), (0, 0, 1, 0.40, 0), (0, 90, 2, 0.45, 0)), max_age_s=60)

    assert found.odds_milli.tolist() == [[2500, 2000], [2222, 1818]]


def test_too_few_fresh_books_suspend_the_market():
    found = ticks(said((0, 0, 0, 0.5, 0), (0, 1, 1, 0.6, 0), (0, 61, 1, 0.6, 0)), min_books=2, max_age_s=60)

    assert found.suspended.tolist() == [True, False, True]
    assert found.prob_bps[2].tolist() == [-1, -1]


def test_age_counts_from_when_the_book_confirmed_its_price():
    found = ticks(said((0, 100, 0, 0.5, 61), (0, 100, 1, 0.6, 60)), max_age_s=60)

    assert found.books.tolist() == [1]


def test_a_withdrawn_quote_no_longer_counts():
    found = ticks(said((0, 0, 0, 0.5, 0), (0, 0, 1, 0.6, 0), (0, 1, 1, None, 0)))

    assert found.prob_bps.tolist() == [[5500, 4500], [5000, 5000]]


def test_markets_do_not_see_each_other():
    found = ticks(said((0, 0, 0, 0.5, 0), (1, 0, 1, 0.6, 0)))

    assert found.prob_bps.tolist() == [[5000, 5000], [6000, 4000]]


def test_weights_move_the_median_and_zero_leaves_a_book_out():
    messages = said((0, 0, 0, 0.5, 0), (0, 0, 1, 0.6, 0), (0, 0, 2, 0.7, 0))

    assert ticks(messages, weights=(3, 1, 1)).prob_bps[0, 0] == 5000
    assert ticks(messages, weights=(0, 1, 1)).prob_bps[0, 0] == 6500
    assert ticks(messages, weights=(0, 0, 0)).suspended.tolist() == [True]


@given(st.lists(st.integers(1, PROB_UNIT - 1), min_size=1, max_size=9))
def test_with_equal_weights_it_is_the_median_of_the_standard_library(values):
    rows = [(0, 0, book, value / PROB_UNIT, 0) for book, value in enumerate(values)]
    messages = said(*rows)
    first = statistics.median(messages.prob[:, 0].tolist())
    second = statistics.median(messages.prob[:, 1].tolist())

    found = ticks(messages, weights=[1] * len(values))

    expected = largest_remainder({"a": Fraction(int(first // 1)), "b": Fraction(int(second // 1))})
    assert found.prob_bps[0].tolist() == [expected["a"], expected["b"]]


@given(st.lists(st.integers(0, PROB_UNIT), min_size=2, max_size=20).filter(any))
def test_basis_points_are_those_of_the_exact_rule(weights):
    sides = [f"s{n:02}" for n in range(len(weights))]

    assert basis_points(np.array([weights]))[0].tolist() == list(
        largest_remainder(dict(zip(sides, weights, strict=True))).values()
    )


@pytest.mark.parametrize("rules", [{"min_books": 0}, {"max_age_s": -1}, {"weights": {"a": -1}}, {"weights": {"a": 0.5}}])
def test_rules_out_of_bounds_are_refused(rules):
    with pytest.raises(OddsError):
        Consensus(**rules)
