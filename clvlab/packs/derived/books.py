"""What another source said of the same fixtures, as a book beside the ticks of the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from clvlab.law.markets import Market, Role
from clvlab.law.schema import BOOK_ROWS
from clvlab.law.tape import Tape
from clvlab.packs.books import STREAM

_WHOLE_BPS = 10_000
_TOLERANCE_BPS = 50

_STATE = ("prob_bps", "odds_milli")


@dataclass(frozen=True, slots=True)
class Joint:
    """A side of a market of the first source, and what says the same in the other one."""

    fixture_id: int
    market_key: str
    side: str
    other_fixture_id: int
    other_market_key: str
    other_side: str


def joints(fixture_id: int, ours: Sequence[Market], other_id: int, theirs: Sequence[Market]) -> list[Joint]:
    """Return which sides of two sources' fixtures are the same; ``theirs`` are turned where the teams are.

    A market with the same roles is taken before several of yes and no, and one of the same name before others, of which main
    lines come first.
    """
    found = []
    for market in ours:
        alike = [one for one in theirs if one.about == market.about]
        alike.sort(key=lambda one: (one.key != market.key, one.alternate, one.key))
        whole = next((one for one in alike if one.no is None and one.roles == market.roles), None)
        yes_no = [one for one in alike if one.no]
        for side, role in market.sides:
            said = _side(role, [whole]) if whole else _side(role, yes_no) or _against(market, role, yes_no)
            if said is not None and market.no is None:
                found.append(Joint(fixture_id, market.key, side, other_id, *said))
    return found


def _side(role: Role, markets: Sequence[Market]) -> tuple[str, str] | None:
    """Return the first market and side that stand for a role."""
    return next(((one.key, side) for one in markets for side, known in one.sides if known is role), None)


def _against(market: Market, role: Role, markets: Sequence[Market]) -> tuple[str, str] | None:
    """Return what says no to the other side of two, where one of them wins."""
    if market.roles != {Role.HOME, Role.AWAY}:
        return None
    (other,) = market.roles - {role}
    return next(((one.key, one.no) for one in markets if one.no and one.roles == {other}), None)


def books_of(first: Tape, second: Tape, joined: Sequence[Joint], book: str) -> tuple[pl.DataFrame, int]:
    """Return what the second source says beside the first as ``BOOK_ROWS``, and how many states came after the last tick.

    A state is known from the first tick of its fixture in the first source on whose time is not before its own, and is carried
    with the number of that tick; of several, the last one counts. A side of which nothing is known has no price. Where
    all sides are priced, and they come of markets of their own, they are made to sum to a whole.
    """
    if not joined:
        return pl.DataFrame(schema=BOOK_ROWS), 0
    links = pl.DataFrame([(*_key(one),) for one in joined], schema=_LINKS, orient="row")
    said = (
        second.ticks()
        .rename({"fixture_id": "other_fixture_id", "market_key": "other_market_key", "side": "other_side"})
        .select("other_fixture_id", "other_market_key", "other_side", *_STATE, heard="tick_seq", said_ms="ts_ms")
        .join(links.lazy(), on=["other_fixture_id", "other_market_key", "other_side"])
        .sort("said_ms")
    )
    ticks = first.messages.unique(["fixture_id", "ts_ms"], keep="first", maintain_order=True).sort("ts_ms")
    own = ticks.lazy().select("fixture_id", "tick_seq", said_ms="ts_ms")
    placed = said.join_asof(own, on="said_ms", by="fixture_id", strategy="forward", check_sortedness=False).collect()
    late = int(placed["tick_seq"].is_null().sum())
    events = (
        placed.filter(pl.col("tick_seq").is_not_null())
        .sort("fixture_id", "market_key", "side", "tick_seq", "said_ms", "heard")
        .unique(["fixture_id", "market_key", "side", "tick_seq"], keep="last", maintain_order=True)
    )
    return _whole(_carried(events, first), book), late


_LINKS = {
    "fixture_id": pl.Int64, "market_key": pl.String, "side": pl.String,
    "other_fixture_id": pl.Int64, "other_market_key": pl.String, "other_side": pl.String,
}  # fmt: skip


def _key(one: Joint) -> tuple[int, str, str, int, str, str]:
    return one.fixture_id, one.market_key, one.side, one.other_fixture_id, one.other_market_key, one.other_side


def _carried(events: pl.DataFrame, first: Tape) -> pl.DataFrame:
    """Return all sides of a market at each tick at which one of them was heard of, the others as they were last."""
    market = ["fixture_id", "market_key"]
    sides = first.series.select(*market, "side")
    at = events.select(*market, "tick_seq").unique().join(sides, on=market)
    heard = events.with_row_index("event").select(*market, "side", "tick_seq", "event")
    rows = at.join(heard, on=[*market, "side", "tick_seq"], how="left").sort(*market, "side", "tick_seq")
    event = rows.select(pl.col("event").forward_fill().over(*market, "side")).to_series()
    return rows.drop("event").with_columns(events[name].gather(event) for name in _STATE)


def _whole(rows: pl.DataFrame, book: str) -> pl.DataFrame:
    message = ["fixture_id", "market_key", "tick_seq"]
    prob = pl.col("prob_bps").cast(pl.Int64)
    total, priced = prob.sum().over(message), prob.count().over(message)
    apart = (priced == pl.len().over(message)) & ((total - _WHOLE_BPS).abs() > _TOLERANCE_BPS) & (total > 0)
    return (
        rows.with_columns(
            book=pl.lit(book),
            suspended=priced == 0,
            prob_bps=pl.when(apart).then((prob * (2 * _WHOLE_BPS) + total) // (2 * total)).otherwise(prob).cast(pl.Int32),
        )
        .select(pl.col(name).cast(dtype) for name, dtype in BOOK_ROWS.items())
        .sort(*STREAM, "tick_seq")
    )
