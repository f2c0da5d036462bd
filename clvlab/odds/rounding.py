"""From quotes to integers: half up, and largest remainder where the sides of a market must sum to the whole."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from math import lcm

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
    counts = _whole_numbers(weights)
    total = sum(counts.values())
    shares = {side: divmod(count * whole, total) for side, count in counts.items()}
    floors = {side: floor for side, (floor, _) in shares.items()}
    by_remainder = sorted(shares, key=lambda side: (-shares[side][1], side.encode()))
    for side in by_remainder[: whole - sum(floors.values())]:
        floors[side] += 1
    return floors


def _whole_numbers(weights: Mapping[str, Fraction | Decimal | int]) -> dict[str, int]:
    """Return whole numbers in the same proportion: of these the arithmetic is exact, and much faster than of fractions."""
    whole = {side: weight for side, weight in weights.items() if isinstance(weight, int)}
    if len(whole) == len(weights):
        return whole
    exact = {side: Fraction(weight) for side, weight in weights.items()}
    common = lcm(*(weight.denominator for weight in exact.values()))
    return {side: int(weight * common) for side, weight in exact.items()}
