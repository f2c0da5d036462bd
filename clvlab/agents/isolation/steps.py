"""A tape message by message, as bytes, for stepped agents.

A market's name and sides come with its first message: known beforehand they would tell which markets are still to come.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Iterator
from typing import Any

import polars as pl

from clvlab.agents.book import Known, columns_of, known_of
from clvlab.agents.ticks import DECISION_TYPES, TickFollower, in_order
from clvlab.errors import AgentError, AgentFailedError
from clvlab.law.actions import Decision
from clvlab.law.tape import Tape

_MARSHAL = 2  # the last version that looks for no repeated object, which takes as long as all the rest
_TYPES = tuple(DECISION_TYPES.values())
_SLICE = 4_096  # messages in memory as Python values; few, as the time for the last ones would tell their number


def steps(tape: Tape) -> Iterator[tuple[tuple[int, int], bytes]]:
    """Yield each message of a tape in order of time, fixture and tick: (fixture_id, tick_seq), and its bytes."""
    first_sides = tape.series.with_row_index("series").filter(pl.col("side_no") == 0).with_row_index("market")
    messages = in_order(tape, first_sides.select("series", "fixture_id", "market"), "market", "suspended")
    names = tape.series["side"].to_list()
    markets = list(first_sides.select("series", "market_key", "n_sides", "rows").iter_rows())
    known, numbers = known_of(tape), dict[int, int]()
    columns = columns_of(tape)
    probs, odds = columns["prob_bps"], columns["odds_milli"]
    for part in messages.iter_slices(_SLICE):
        for ts_ms, fixture_id, tick_seq, in_running, row, market, suspended in zip(
            *(column.to_list() for column in part), strict=True
        ):
            series, market_key, n_sides, length = markets[market]
            sides = slice(row, row + n_sides * length, length)
            news = None
            if market not in numbers:
                # The market's number on the tape would reveal how many markets are still to come before it.
                numbers[market] = len(numbers)
                news = (market_key, tuple(names[series : series + n_sides]), tuple(known[fixture_id]))
            quoted = (probs[sides].tolist(), odds[sides].tolist())
            message = (fixture_id, tick_seq, ts_ms, in_running, numbers[market], suspended, *quoted, news)
            yield (fixture_id, tick_seq), marshal.dumps(message, _MARSHAL)


class Stepper:
    def __init__(self, follower: TickFollower) -> None:
        self._follower = follower
        self._markets: dict[int, tuple[str, tuple[str, ...]]] = {}

    def take(self, data: bytes) -> bytes:
        fixture_id, tick_seq, ts_ms, in_running, market, suspended, probs, odds, news = marshal.loads(data)  # noqa: S302  by the parent
        if news is not None:
            market_key, sides, known = news
            self._markets[market] = market_key, sides
            self._follower.know(fixture_id, Known(*known))
        market_key, sides = self._markets[market]
        decided = self._follower.move((ts_ms, fixture_id, tick_seq, in_running, market_key), sides, probs, odds, suspended)
        return json.dumps(decided).encode() if decided else b""


def answered(data: bytes, at: tuple[int, int]) -> list[Decision]:
    try:
        stated: Any = json.loads(data)
        decided = [tuple(one) for one in stated]
    except (ValueError, TypeError, RecursionError) as error:
        raise AgentFailedError("GarbledAnswer", f"its process answered with no decisions: {error!r:.300}") from error
    for one in decided:
        if len(one) != len(_TYPES) or not all(type(value) in types for value, types in zip(one, _TYPES, strict=True)):
            raise AgentFailedError("GarbledAnswer", "its process answered with decisions of other types")
        if one[:2] != at:
            # A decision at an earlier message would rest on what came since.
            raise AgentError(f"asked at tick {at[1]} of fixture {at[0]}, it decided at {one[:2]!r:.80}")
    return decided
