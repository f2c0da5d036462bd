"""What orders would have got by taking the offers of a market, level by level; no score, and no part of the law.

An order reaches the market a delay after its decision, and takes the offers of its side at the state that holds then: best
first, at most what each level holds, at no odds below its limit. The rest is not filled. An order never waits in a queue, so
nothing is assumed about who is ahead of it, and nobody's price is bettered on its behalf.

The price of a fill is its whole stake divided by its whole payout. This is the mean of the prices of the levels as
probabilities, weighted by payout. With this weight, and no other, the closing probability less the price is the expected profit
divided by the payout, so steps from the line to the money subtract without a remainder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import polars as pl

from clvlab.errors import StatisticsError
from clvlab.law.lines import NONE, Bools, Ints, changes, ints_of, take
from clvlab.law.schema import Schema
from clvlab.law.tape import Tape

RULE = "clvlab-taking/1"
MAX_AGE_S = 900  # as ``max_quote_age_s`` of a policy
UNKNOWN_SIZE = 2**52  # cents: the size of a quoted price whose size is not known

# Orders for ``offers_of``. A limit of null or 0 does not count. ``close_ts_ms`` is the end of the window of the fixture.
ORDERS: Schema = {
    "seq": pl.Int64,
    "agent_id": pl.String,
    "fixture_id": pl.Int64,
    "market_key": pl.String,
    "side": pl.String,
    "ts_ms": pl.Int64,
    "limit_odds_milli": pl.Int64,
    "close_ts_ms": pl.Int64,
}

# The fill of each order, in order of ``ORDERS``. ``filled_cents`` is the stake that was filled, and ``payout`` what it pays if
# its side wins, in thousandths of a cent, so that both are exact. ``uncertain`` is the sum over levels of stake times one minus
# price, in cents, which fees by ``p (1 - p)`` are charged on. ``mid_prob_bps`` is the line at the execution.
FILLS: Schema = {
    "outcome": pl.String,
    "executed_ts_ms": pl.Int64,
    "age_ms": pl.Int64,
    "mid_prob_bps": pl.Int64,
    "crossed": pl.Boolean,
    "filled_cents": pl.Int64,
    "payout": pl.Int64,
    "uncertain": pl.Float64,
}

_SIDE = ["fixture_id", "market_key", "side"]

Gaps = Mapping[str | None, Sequence[tuple[int, int]]]
"""Spans in which a capture saw nothing, UTC ms from and to, by market key; under ``None`` those of all markets."""


class FillOutcome(StrEnum):
    """What became of an order; the first reason that holds, in this order."""

    PAST_CLOSE = "past_close"  # it arrived at the close of its fixture or later
    IN_PLAY = "in_play"  # the market was in play
    NO_DEPTH = "no_depth"  # the pack keeps no offers of this side
    UNKNOWN = "unknown"  # nothing was known of the market for too long, or a gap of the capture hides it
    SUSPENDED = "suspended"
    NO_OFFER = "no_offer"
    LIMIT = "limit"  # the best offer was below the order's limit
    TAKEN = "taken"  # earlier orders of the same agent had taken the same offers
    PARTLY = "partly_filled"
    FILLED = "filled"


FILLED = (FillOutcome.PARTLY, FillOutcome.FILLED)


@dataclass(frozen=True, slots=True)
class _Times:
    """Ascending times of numbered streams, as one sorted key."""

    key: Ints
    base_ms: int
    bits: int

    @classmethod
    def of(cls, stream: Ints, ts_ms: Ints, base_ms: int, bits: int) -> _Times:
        return cls((stream << bits) | (ts_ms - base_ms), base_ms, bits)

    def latest(self, stream: Ints, ts_ms: Ints) -> Ints:
        """Return the row of the last time of each stream up to a time; -1 without one."""
        if not self.key.size:
            return np.full(len(stream), -1)
        since = np.clip(ts_ms - self.base_ms, -1, 2**self.bits - 1)
        row = np.searchsorted(self.key, (stream << self.bits) + since, side="right") - 1
        return np.where((row >= 0) & (take(self.key, row, 0) >> self.bits == stream), row, -1)

    def times(self, row: Ints) -> Ints:
        """Return the time of each row; ``NONE`` for row -1."""
        return np.where(row >= 0, (take(self.key, row, 0) & (2**self.bits - 1)) + self.base_ms, NONE)


@dataclass(frozen=True, slots=True)
class Offers:
    """Orders with the offers and states of their markets, to be taken with any stake and delay; made by ``offers_of``."""

    place: Ints
    ts_ms: Ints
    close_ms: Ints
    limit: Ints
    levels: int
    series: Ints
    agent: Ints
    market: Ints
    first_series: Ints
    n_sides: Ints
    states: _Times
    prob_bps: Ints
    suspended: Bools
    in_running: Bools
    ladders: _Times
    odds_milli: Ints
    stake_cents: Ints
    has_depth: Bools
    known: _Times
    gaps: tuple[tuple[Ints, Ints, Bools], ...]


def offers_of(tape: Tape, ladders: pl.DataFrame, orders: pl.DataFrame, gaps: Gaps | None = None) -> Offers:
    """Return orders with the offers of their markets.

    Parameters
    ----------
    tape
        Ticks of the orders' fixtures. They say what is suspended or in play, and the line.
    ladders
        ``LADDERS``: ``fixture_id, market_key, side, level, ts_ms, odds_milli, stake_cents``, sorted by the first five; offers
        to back the side, best first, each from its time until the next row of its level; null odds end a level.
    orders
        ``ORDERS``, sorted by ``seq``.
    gaps
        Gaps of the capture.

    Raises
    ------
    StatisticsError
        An order is in a series that the tape does not have, or the tape is too large for one index.
    """
    series = tape.series.with_row_index("series").with_columns(market=pl.struct("fixture_id", "market_key").rle_id())
    placed = orders.with_row_index("place").join(series, on=_SIDE, how="left", maintain_order="left")
    if placed["series"].null_count():
        missing = placed.filter(pl.col("series").is_null()).select(*_SIDE).row(0)
        raise StatisticsError(f"an order is in a series that the tape does not have: {missing}")
    of, market_of = (ints_of(series[name].cast(pl.Int64)) for name in ("series", "market"))
    wanted = np.zeros(series["market"].n_unique(), dtype=np.bool_)
    wanted[ints_of(placed["market"].cast(pl.Int64))] = True

    # 1. the ladders of the orders' markets, with numbers for their series
    number = series_of(tape, ladders)
    kept = (number >= 0) & wanted[take(market_of, number, 0)]
    rows, number = ladders.filter(pl.Series(kept)), number[kept]
    level, ladder_ms = ints_of(rows["level"].cast(pl.Int64)), ints_of(rows["ts_ms"])
    levels = int(level.max(initial=0)) + 1
    row_series, tick_ms = ints_of(tape.rows["series"].cast(pl.Int64)), ints_of(tape.rows["ts_ms"])

    # 2. one key of stream and time for each question
    base_ms = int(min(tick_ms.min(initial=2**62), ladder_ms.min(initial=2**62)))
    last_ms = int(max(tick_ms.max(initial=0), ladder_ms.max(initial=0), base_ms))
    bits = (last_ms - base_ms + 1).bit_length()
    if (len(of) * levels).bit_length() + bits > 62:
        raise StatisticsError(f"{len(of):,} series of {levels} levels over {last_ms - base_ms:,} ms are too many for one index")
    ladder = _Times.of(number * levels + level, ladder_ms, base_ms, bits)
    odds_milli = np.maximum(ints_of(rows["odds_milli"]), 0)
    stake_cents = np.clip(ints_of(rows["stake_cents"]), 0, UNKNOWN_SIZE)
    if (ladder.key[1:] < ladder.key[:-1]).any():
        raise StatisticsError("ladders are not sorted by fixture, market, side, level and time")
    has_depth = np.zeros(len(of), dtype=np.bool_)
    has_depth[number] = True
    known = np.sort(_Times.of(market_of[number], ladder_ms, base_ms, bits).key)

    # 3. the orders, by side and time, as their rows then lie together in memory
    placed = placed.sort("series", "ts_ms", "place")
    market = ints_of(placed["market"].cast(pl.Int64))
    starts_of = np.flatnonzero(changes(market_of))
    return Offers(
        ints_of(placed["place"]), ints_of(placed["ts_ms"]), ints_of(placed["close_ts_ms"]),
        np.maximum(ints_of(placed["limit_odds_milli"]), 0), levels,
        ints_of(placed["series"].cast(pl.Int64)),
        ints_of((placed["agent_id"].rank("dense") - 1).cast(pl.Int64)),
        market, starts_of[market], ints_of(placed["n_sides"]),
        _Times.of(row_series, tick_ms, base_ms, bits), ints_of(tape.rows["prob_bps"].cast(pl.Int64)),
        tape.rows["suspended"].to_numpy(), tape.rows["in_running"].to_numpy(),
        ladder, odds_milli, stake_cents, has_depth, _Times(known, base_ms, bits), _gaps_of(placed, gaps or {}),
    )  # fmt: skip


def series_of(tape: Tape, rows: pl.DataFrame) -> Ints:
    """Return the number of each row's series on a tape, of rows sorted by side; ``NONE`` without ticks."""
    sides, place = _sides_of(rows)
    series = sides.join(tape.series.with_row_index("series"), on=_SIDE, how="left", maintain_order="left")["series"]
    return ints_of(series.cast(pl.Int64))[place]


def _sides_of(rows: pl.DataFrame) -> tuple[pl.DataFrame, Ints]:
    """Return the sides of rows that are sorted by side, and the place of each row's side among them."""
    starts = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift()) for name in _SIDE)
    first = rows.select(starts).to_series()
    return rows.filter(first).select(*_SIDE), np.cumsum(first.to_numpy()) - 1


def _gaps_of(orders: pl.DataFrame, gaps: Gaps) -> tuple[tuple[Ints, Ints, Bools], ...]:
    """Return for each market with gaps their beginnings, their latest ends so far, and the orders that they concern."""
    found = []
    for key, spans in gaps.items():
        ordered = sorted(spans)
        if ordered:
            begins = np.array([begin for begin, _ in ordered], dtype=np.int64)
            ends = np.maximum.accumulate(np.array([end for _, end in ordered], dtype=np.int64))
            own = np.ones(orders.height, dtype=np.bool_) if key is None else (orders["market_key"] == key).to_numpy()
            found.append((begins, ends, own))
    return tuple(found)


def taken(offers: Offers, *, stake_cents: int | Ints, delay_ms: int = 0, max_age_ms: int = 1000 * MAX_AGE_S) -> pl.DataFrame:
    """Return what each order gets for a stake, a delay after its decision.

    An order is executed at the state after all messages of its time. Orders of one agent on one side that meet the same ladder,
    with no row of it in between, share its offers in order of time and ``seq``: what one took, a later one does not find. After
    the next row of that ladder the offers are what the source says, as if nothing had been taken; orders of different agents
    never compete.

    Parameters
    ----------
    offers
        Orders and offers.
    stake_cents
        Stake of the orders, or of each one in the order of ``ORDERS``, in hundredths of the venue's unit.
    delay_ms
        Milliseconds from decision to execution.
    max_age_ms
        A market of which nothing was known for longer is unknown, counted from the last row of its ladders or ticks.

    Returns
    -------
    pl.DataFrame
        ``FILLS``, a row per order.
    """
    now, limit = offers.ts_ms + delay_ms, offers.limit
    stake = np.broadcast_to(stake_cents, now.shape)[offers.place]
    state = offers.states.latest(offers.series, now)
    last_ms = np.maximum(offers.states.times(state), offers.known.times(offers.known.latest(offers.market, now)))
    odds, size, ladder_ms = _levels(offers, now)
    unfilled: dict[FillOutcome, Bools] = {
        FillOutcome.PAST_CLOSE: now >= offers.close_ms,
        FillOutcome.IN_PLAY: take(offers.in_running, state, default=False),
        FillOutcome.NO_DEPTH: ~offers.has_depth[offers.series],
        FillOutcome.UNKNOWN: (state < 0) | (now - last_ms > max_age_ms) | _hidden(offers, last_ms, now),
        FillOutcome.SUSPENDED: take(offers.suspended, state, default=False),
        FillOutcome.NO_OFFER: odds[0] == 0,
        FillOutcome.LIMIT: odds[0] < limit,
    }
    closed = np.logical_or.reduce([*unfilled.values()])
    allowed = np.logical_and.accumulate((odds > 0) & (odds >= limit), axis=0) & ~closed
    size = np.where(allowed, size, 0)
    until = np.cumsum(size, axis=0)
    depth = until[-1]
    begin = _begins(offers, np.flatnonzero(~closed), ladder_ms, depth, stake)
    end = np.maximum(np.minimum(begin + stake, depth), begin)
    parts = np.maximum(np.minimum(end, until) - np.maximum(begin, until - size), 0)
    filled = parts.sum(0)
    unfilled |= {FillOutcome.TAKEN: filled == 0, FillOutcome.PARTLY: filled < stake}
    names = np.array([*unfilled, FillOutcome.FILLED], dtype=object)
    place = np.select([*unfilled.values()], [*range(len(unfilled))], default=len(unfilled))
    columns = {
        "outcome": names[place],
        "executed_ts_ms": now,
        "age_ms": _nulls(np.where(last_ms == NONE, NONE, now - last_ms)),
        "mid_prob_bps": _nulls(take(offers.prob_bps, state, NONE)),
        "crossed": _crossed(offers, now) & (filled > 0),
        "filled_cents": filled,
        "payout": (parts * odds).sum(0),
        "uncertain": (parts * (1 - 1000 / np.maximum(odds, 1))).sum(0),
    }
    return pl.DataFrame(columns, schema_overrides=FILLS)[np.argsort(offers.place)]


def _nulls(values: Ints) -> pl.Series:
    return pl.select(pl.when(pl.lit(pl.Series(values)) != NONE).then(pl.lit(pl.Series(values)))).to_series()


def _levels(offers: Offers, now: Ints) -> tuple[Ints, Ints, Ints]:
    """Return odds and sizes by level, 0 without an offer, and the time of the last row of each order's ladder."""
    shape = (offers.levels, len(now))
    odds, size = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    last_ms = np.full(len(now), NONE)
    for level in range(offers.levels):
        row = offers.ladders.latest(offers.series * offers.levels + level, now)
        odds[level], size[level] = take(offers.odds_milli, row, 0), take(offers.stake_cents, row, 0)
        last_ms = np.maximum(last_ms, offers.ladders.times(row))
    return odds, size, last_ms


def _hidden(offers: Offers, last_ms: Ints, now: Ints) -> Bools:
    """Return where a gap lies between what was last known of a market and now."""
    hidden = np.zeros(len(now), dtype=np.bool_)
    for begins, ends, own in offers.gaps:
        started = np.searchsorted(begins, now, side="right")
        hidden |= own & (started > 0) & (ends[started - 1] > last_ms)
    return hidden


def _begins(offers: Offers, rows: Ints, ladder_ms: Ints, depth: Ints, stake: Ints) -> Ints:
    """Return how much of its ladder earlier orders of the same agent have taken before each order."""
    begin = np.zeros(len(depth), dtype=np.int64)
    order = rows[np.lexsort((rows, offers.agent[rows], offers.series[rows]))]  # rows of a side are in order of time
    if not order.size:
        return begin
    new = changes(offers.agent[order]) | changes(offers.series[order]) | changes(ladder_ms[order])
    shared = np.flatnonzero(~new | np.append(~new[1:], False))
    position, found = 0, []
    columns = (new[shared].tolist(), depth[order[shared]].tolist(), stake[order[shared]].tolist())
    for is_new, most, size in zip(*columns, strict=True):
        position = 0 if is_new else position
        found.append(position)
        position = max(position, min(position + size, most))
    begin[order[shared]] = found
    return begin


def _crossed(offers: Offers, now: Ints) -> Bools:
    """Return where the best offers of all sides together cost less than they pay."""
    total, offered = np.zeros(len(now)), np.ones(len(now), dtype=np.bool_)
    for side in range(int(offers.n_sides.max(initial=0))):
        there = side < offers.n_sides
        row = offers.ladders.latest(np.where(there, offers.first_series + side, -1) * offers.levels, now)
        odds = take(offers.odds_milli, row, 0)
        offered &= ~there | (odds > 0)
        total += np.where(there & (odds > 0), 1000 / np.maximum(odds, 1), 0)
    crossed: Bools = offered & (total < 1 - 1e-12)
    return crossed


def quoted_ladders(tape: Tape, books: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return the best prices quoted as ``LADDERS`` of one level of unknown size.

    Parameters
    ----------
    tape
        Ticks with ``odds_milli``, which count on sides that no book prices.
    books
        ``BOOKS`` of the same fixtures: of these, the best open price of each side at each time, on sides that a book prices.
    """
    series = tape.series.with_row_index("series").select("series", *_SIDE)
    rows = tape.rows.join(series, on="series", maintain_order="left").select(*_SIDE, "ts_ms", "odds_milli", "suspended")
    best = rows.unique([*_SIDE, "ts_ms"], keep="last", maintain_order=True).select(
        *_SIDE, "ts_ms", odds_milli=pl.when(~pl.col("suspended")).then("odds_milli")
    )
    if books is not None:
        priced = books.filter(pl.col("odds_milli").is_not_null()).select(_SIDE).unique()
        of_books = _best_of_books(books).select(best.columns).join(priced, on=_SIDE, how="semi")
        best = pl.concat([best.join(priced, on=_SIDE, how="anti"), of_books.cast(best.schema)])
    return best.select(
        *_SIDE, "ts_ms", "odds_milli", level=pl.lit(0, pl.Int8),
        stake_cents=pl.when(pl.col("odds_milli").is_not_null()).then(pl.lit(UNKNOWN_SIZE)),
    ).sort(*_SIDE, "ts_ms")  # fmt: skip


def _best_of_books(books: pl.DataFrame) -> pl.DataFrame:
    """Return the best open price of each side at each time of a message, null without one."""
    sides, series = _sides_of(books)
    ts_ms, numbers = ints_of(books["ts_ms"]), books["book"].cast(pl.Categorical).to_physical()
    base_ms = int(ts_ms.min(initial=2**62))
    bits = max(int(ts_ms.max(initial=0)) - base_ms, 0).bit_length() + 1
    key, event = np.unique((series << bits) | (ts_ms - base_ms), return_inverse=True)
    odds = np.where(books["suspended"].to_numpy(), 0, np.maximum(ints_of(books["odds_milli"]), 0))
    of, best = key >> bits, np.zeros(len(key), dtype=np.int64)
    by_book = np.argsort(ints_of(numbers), kind="stable")
    for own in np.split(by_book, np.flatnonzero(changes(ints_of(numbers)[by_book]))[1:]):  # a matrix of all may not fit
        row = np.full(len(key), -1)
        row[event[own]] = own  # of two messages at one time the last one counts
        row = np.maximum.accumulate(row)  # sides follow each other, so a row of another side is an earlier row
        best = np.maximum(best, np.where(take(series, row, -1) == of, take(odds, row, 0), 0))
    columns = {"ts_ms": (key & (2**bits - 1)) + base_ms, "odds_milli": _nulls(np.where(best > 0, best, NONE))}
    return sides.select(pl.all().gather(of)).hstack(pl.DataFrame(columns))
