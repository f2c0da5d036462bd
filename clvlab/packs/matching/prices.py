"""How far the prices of two sources are apart when both were known last."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from clvlab.law.markets import Market, Role

Series = dict[tuple[str, str], tuple[list[int], list[int]]]


class Gap(NamedTuple):
    """The largest difference of a side's probability, and in how many sides both have one."""

    gap_bps: int
    sides: int


def gap_between(
    first: tuple[Sequence[Market], Series], second: tuple[Sequence[Market], Series], kickoff_ts_ms: int | None
) -> Gap | None:
    """Return the gap over all markets that both have, each at the last time before the kickoff at which both had prices.

    Winners are asked before totals, which say nothing of an order. Null without a side that both price.
    """
    found = []
    for ours in first[0]:
        for theirs in second[0]:
            if ours.about == theirs.about:
                found += _differences(ours, theirs, first[1], second[1], kickoff_ts_ms)
    telling = [gap for role, gap in found if role not in (Role.OVER, Role.UNDER)]
    return Gap(max(telling), len(telling)) if telling else None


def _differences(ours: Market, theirs: Market, own: Series, other: Series, kickoff_ts_ms: int | None) -> list[tuple[Role, int]]:
    sides = {role: side for side, role in theirs.sides}
    found = []
    if ours.no is None and theirs.no is None and ours.roles != theirs.roles:
        return []  # with and without a draw are two markets
    for side, role in ours.sides:
        if role not in sides:
            continue
        one, two = own.get((ours.key, side)), other.get((theirs.key, sides[role]))
        if not one or not two or not one[0] or not two[0]:
            continue
        at = min(one[0][-1], two[0][-1], *([] if kickoff_ts_ms is None else [kickoff_ts_ms - 1]))
        at = max(at, one[0][0], two[0][0])
        if kickoff_ts_ms is not None and at >= kickoff_ts_ms:
            continue  # a price in play is not that of before
        found.append((role, abs(_state(one, at) - _state(two, at))))
    return found


def _state(series: tuple[list[int], list[int]], at: int) -> int:
    return series[1][bisect_right(series[0], at) - 1]
