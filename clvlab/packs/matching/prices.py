"""Price differences of two sources at the last time when both were known."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from clvlab.law.markets import Market, Role

Series = dict[tuple[str, str], tuple[list[int], list[int]]]


class PriceGap(NamedTuple):
    """The largest difference of a side's probability, and the number of sides that both price."""

    gap_bps: int
    sides: int


def gap_between(
    first: tuple[Sequence[Market], Series], second: tuple[Sequence[Market], Series], kickoff_ts_ms: int | None
) -> PriceGap | None:
    """Return the gap over all common markets, each at the last time before kickoff with prices of both.

    Winner markets come before totals, which do not depend on the order of teams. ``None`` without a side that both price.
    """
    found = []
    for ours in first[0]:
        for theirs in second[0]:
            if ours.about == theirs.about:
                found += _differences(ours, theirs, first[1], second[1], kickoff_ts_ms)
    gaps = [gap for role, gap in found if role not in (Role.OVER, Role.UNDER)]
    return PriceGap(max(gaps), len(gaps)) if gaps else None


def _differences(ours: Market, theirs: Market, own: Series, other: Series, kickoff_ts_ms: int | None) -> list[tuple[Role, int]]:
    sides = {role: side for side, role in theirs.sides}
    found = []
    if ours.no is None and theirs.no is None and ours.roles != theirs.roles:
        return []  # a market with a draw and one without are two markets
    for side, role in ours.sides:
        if role not in sides:
            continue
        one, two = own.get((ours.key, side)), other.get((theirs.key, sides[role]))
        if not one or not two or not one[0] or not two[0]:
            continue
        at = min(one[0][-1], two[0][-1], *([] if kickoff_ts_ms is None else [kickoff_ts_ms - 1]))
        at = max(at, one[0][0], two[0][0])
        if kickoff_ts_ms is not None and at >= kickoff_ts_ms:
            continue  # a price in play is not comparable
        found.append((role, abs(_state(one, at) - _state(two, at))))
    return found


def _state(series: tuple[list[int], list[int]], at: int) -> int:
    return series[1][bisect_right(series[0], at) - 1]


# A sketch identifies the quotes of a fixture. The margin method does not change it, and a few rows hardly do. A quote is the
# odds of all sides of a market at a time as they were written, without probabilities and names. A sketch keeps the lowest
# hashes; two sources of the same quotes share most of them. A. Z. Broder, "On the resemblance and containment of documents",
# 1997: sketches by the lowest hashes. G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators",
# 2014: the mixing function.


Sketch = tuple[int, ...]

_KEPT = 32
# Where a source quotes all matches at the same seconds, two matches differ only in odds, and odds come in steps. One pair of
# matches in thousands shares four or even eight numbers in a row, and a season has millions of pairs.
_LEAST = 12
_SHARE = 2 / 3
_STEP = 10  # of odds x 1000: formats round the rest away
_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def sketches(rows: pl.DataFrame, series: pl.DataFrame) -> dict[int, Sketch]:
    """Return the sketch of each fixture, ascending, from ``ROWS`` and ``SERIES`` of whole fixtures with odds."""
    market = (series["side_no"] == 0).cum_sum()
    number = rows["series"]
    priced = rows.select(
        "tick_seq",
        "odds_milli",
        second=pl.col("ts_ms") // 1000,
        fixture_id=series["fixture_id"].gather(number),
        market=market.gather(number),
    ).filter(pl.col("odds_milli").is_not_null())
    steps = (priced["odds_milli"] + _STEP // 2) // _STEP
    quotes = (
        priced.with_columns(odds=pl.Series(_mixed(steps) >> np.uint64(12)))
        .group_by("fixture_id", "market", "tick_seq")
        .agg(pl.first("second"), pl.col("odds").sum())
        .sort("market", "tick_seq")
        .filter(pl.col("odds").ne_missing(pl.col("odds").shift().over("market")))
    )
    mixed = _mixed(pl.Series(_mixed(quotes["second"]) ^ quotes["odds"].to_numpy())) >> np.uint64(12)
    found = (
        quotes.select("fixture_id", number=pl.Series(mixed.astype(np.int64)))
        .group_by("fixture_id")
        .agg(pl.col("number").unique().sort().head(_KEPT))
    )
    return {int(fixture_id): tuple(numbers) for fixture_id, numbers in found.iter_rows()}


def are_same_quotes(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether two sketches are of the same quotes but for a few; false if there are too few quotes.

    Examples
    --------
    >>> are_same_quotes(range(16), range(3, 19)), are_same_quotes(range(16), range(6, 22)), are_same_quotes(range(8), range(8))
    (True, False, False)
    """
    shared = len(set(one) & set(other))
    return shared >= _LEAST and shared >= _SHARE * min(len(one), len(other))


def _mixed(values: pl.Series) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return numbers that differ in about half of their bits where the values differ."""
    mixed = values.to_numpy().astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MULTIPLIERS[0]
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MULTIPLIERS[1]
    return mixed ^ (mixed >> np.uint64(31))
