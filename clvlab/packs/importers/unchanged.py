"""Messages of an exchange that say again what the market was already: most of a stream, and nothing to act on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

_EVERY_MS = 60_000
_MARKET = ("event", "market_key")
_STATE = ("prob_bps", "odds_milli", "suspended", "in_running")


class Changes(NamedTuple):
    """The rows that are left, and how many messages went."""

    rows: pl.DataFrame
    dropped: int


def changes(rows: pl.DataFrame, kickoffs: Mapping[str, int | None]) -> Changes:
    """Drop messages that equal the one before, where the market keeps one that is less than a minute older.

    Kept all the same is a market's last message before its own end, before it is suspended, opens or turns in play, before its
    event first turns in play, and before the kickoff: so a market closes by the message that it closed by with all of them.

    Parameters
    ----------
    rows
        Ticks with ``event``, in any order; whole events, and every message with all sides of its market.
    kickoffs
        By event, in UTC milliseconds; null where there is none.
    """
    messages = _messages(rows)
    events = messages.group_by("event").agg(play_ms=pl.col("ts_ms").filter("in_running").min())
    kickoff = pl.col("event").replace_strict(dict(kickoffs), default=None, return_dtype=pl.Int64)
    timed = messages.join(events.with_columns(kickoff_ms=kickoff), on="event", maintain_order="left")
    age = pl.col("ts_ms") - pl.col("ts_ms").first().over("run")
    head = pl.struct("run", age // _EVERY_MS).is_first_distinct()
    following = pl.col("suspended", "in_running").shift(-1).over(*_MARKET)
    turns = pl.any_horizontal(following.ne_missing(pl.col("suspended", "in_running")))  # at its end, too: null follows
    next_ms = pl.col("ts_ms").shift(-1).over(*_MARKET)
    ends = pl.any_horizontal(
        ((pl.col("ts_ms") < end) & (next_ms >= end)) | ((pl.col("ts_ms") <= end) & (next_ms > end))
        for end in map(pl.col, ("play_ms", "kickoff_ms"))
    ).fill_null(value=False)  # one of its own time may be numbered before the end or after it
    kept = timed.filter(head | turns | ends)
    return Changes(rows.join(kept, on=[*_MARKET, "ts_ms"], how="semi", maintain_order="left"), timed.height - kept.height)


def _messages(rows: pl.DataFrame) -> pl.DataFrame:
    """Return a row a message in the order of its market, with the number of the run of equal ones that it is in."""
    ordered = rows.sort(*_MARKET, "side", "ts_ms")
    same = pl.all_horizontal(pl.col(*_MARKET, "side", *_STATE).eq_missing(pl.col(*_MARKET, "side", *_STATE).shift()))
    return (
        ordered.with_columns(new=~same)
        .group_by(*_MARKET, "ts_ms", maintain_order=True)
        .agg(pl.any("new"), pl.first("suspended", "in_running"))
        .with_columns(run=pl.col("new").cum_sum())
    )
