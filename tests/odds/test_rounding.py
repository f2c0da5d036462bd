from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clvlab.odds.integers import half_up, largest_remainder


@pytest.mark.parametrize(("value", "expected"), [("0.5", 1), ("1.5", 2), ("2.4999", 2), ("5970.05", 5970), ("0", 0)])
def test_halves_round_up(value, expected):
    assert half_up(Decimal(value)) == expected


def test_ties_of_remainders_go_by_the_bytes_of_the_side():
    shares = largest_remainder({"b": 1, "a": 1, "c": 1}, whole=10)

    assert shares == {"a": 4, "b": 3, "c": 3}


@given(st.dictionaries(st.text(min_size=1, max_size=3), st.integers(1, 10**9), min_size=1, max_size=40))
def test_shares_sum_to_the_whole_and_stay_within_one_of_their_proportion(weights):
    shares = largest_remainder(weights)

    assert sum(shares.values()) == 10_000
    total = sum(weights.values())
    assert all(abs(shares[side] * total - 10_000 * weight) < total for side, weight in weights.items())
