"""From quotes to integers: half up, and largest remainder where the sides of a market must sum to the whole."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

WHOLE_BPS = 10_000


def half_up(value: Decimal) -> int:
    """Round an exact decimal to an integer, halves up.

    Examples
    --------
    >>> half_up(Decimal("5970.5")), half_up(Decimal("5970.4999"))
    (5971, 5970)
    """
    return int(value.to_integral_value(ROUND_HALF_UP))


def largest_remainder(weights: Mapping[str, Fraction | Decimal | int], whole: int = WHOLE_BPS) -> dict[str, int]:
    """Share ``whole`` in proportion to positive weights so that the shares sum to it exactly.

    Every side gets the floor of its share; what is left goes to the largest remainders, ties by the bytes of the side.

    Examples
    --------
    >>> largest_remainder({"part1": 1, "draw": 1, "part2": 1})
    {'part1': 3333, 'draw': 3334, 'part2': 3333}
    """
    exact = {side: Fraction(weight) for side, weight in weights.items()}
    total = sum(exact.values())
    shares = {side: weight * whole / total for side, weight in exact.items()}
    floors = {side: int(share) for side, share in shares.items()}
    by_remainder = sorted(shares, key=lambda side: (floors[side] - shares[side], side.encode()))
    for side in by_remainder[: whole - sum(floors.values())]:
        floors[side] += 1
    return floors
