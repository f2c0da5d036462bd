"""Rounding of quotes to integers: half up, or by largest remainder so that the sides of a market sum to the whole."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import lru_cache
from importlib.resources import files
from math import lcm

import numpy as np
import numpy.typing as npt
import polars as pl

# Log-odds come as integers from a committed table, because a logarithm may differ between machines in its last bit.


MICRO = 1_000_000


@lru_cache(maxsize=1)
def micro_logits() -> pl.Series:
    """Return ln(p / (1 - p)) x 10^6, rounded, for p = 0..10000 basis points; 0 and 10000 count as 1 and 9999."""
    text = files("clvlab.odds").joinpath("micro_logits.txt").read_text(encoding="ascii")
    return pl.Series("micro_logit", [int(line) for line in text.split()], dtype=pl.Int32)


@lru_cache(maxsize=1)
def micro_logit_table() -> tuple[int, ...]:
    """Return ``micro_logits`` as plain integers, for single look-ups."""
    return tuple(micro_logits())


def micro_logits_of(prob_bps: pl.Series) -> pl.Series:
    """Return the log-odds of each probability; null stays null."""
    return micro_logits().gather(prob_bps)


# The normal distribution comes as integers from a committed table, because a library's may differ between machines.


Ints = npt.NDArray[np.int64]


@lru_cache(maxsize=1)
def micro_probits() -> Ints:
    """Return the normal quantiles z x 10^6, rounded, at the probabilities (b + 1/2) / 10000, for b = 0..9999."""
    text = files("clvlab.odds").joinpath("micro_probits.txt").read_text(encoding="ascii")
    table = np.array([int(line) for line in text.split()], dtype=np.int64)
    table.setflags(write=False)
    return table


def normal_bps(micro_z: Ints) -> Ints:
    """Return the cumulative normal probability at z (millionths of a standard deviation), in basis points rounded half up.

    Examples
    --------
    >>> normal_bps(np.array([-1_000_000, 0, 1_959_964, 9_000_000])).tolist()
    [1587, 5000, 9750, 10000]
    """
    return np.searchsorted(micro_probits(), micro_z, side="right").astype(np.int64)


WHOLE_BPS = 10_000


def half_up(value: Decimal) -> int:
    """Return an exact decimal rounded to an integer, halves up.

    Examples
    --------
    >>> half_up(Decimal("5970.5")), half_up(Decimal("5970.4999"))
    (5971, 5970)
    """
    return int(value.to_integral_value(ROUND_HALF_UP))


def largest_remainder(weights: Mapping[str, Fraction | Decimal | int], whole: int = WHOLE_BPS) -> dict[str, int]:
    """Return ``whole`` shared in proportion to positive weights, exactly.

    Every side gets the floor of its share. The rest goes to the largest remainders; a tie goes to the first side in byte order.

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
    """Return integers in the same proportion: arithmetic on them is exact, and much faster than on fractions."""
    whole = {side: weight for side, weight in weights.items() if isinstance(weight, int)}
    if len(whole) == len(weights):
        return whole
    exact = {side: Fraction(weight) for side, weight in weights.items()}
    common = lcm(*(weight.denominator for weight in exact.values()))
    return {side: int(weight * common) for side, weight in exact.items()}
