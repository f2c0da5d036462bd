"""Positions: each decision with the two states that score it. They are read from evidence after checks of its coherence.

Every fixture has one sequence of messages, each about one market at one time. A decision names its tick and the market's last
message. A close names the last message inside its window. So the lines of a run constrain each other, and a rewritten line must
still fit all others. The checks compare neighbours in sorted columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from clvlab.errors import EvidenceError
from clvlab.law.closing import LAST_OPEN_MAX_AGE_MS, Window
from clvlab.law.columns import changes, in_range, neighbours, nulls, repeated, runs, taken, values
from clvlab.law.gate import PostQuote, PreQuote
from clvlab.law.schema import (
    ODDS_MILLI,
    POSITIONS,
    PROPOSALS,
    SAFE_INTEGER,
    Action,
    CloseKind,
    ClosingPolicy,
    EndRule,
    conform,
)

_MARKET = ["fixture_id", "market_key"]
# Columns that are never null. Other columns of a line may be null.
_ENTRY_COLUMNS = {"seq", "agent_id", "fixture_id", "tick_seq", "ts_ms", "action", "end_seq", "close_ts_ms", "close_kind"}
_CLOSE_KINDS = {
    EndRule.PRE_MATCH: (CloseKind.IN_RUNNING, CloseKind.KICKOFF, CloseKind.TAPE_END),
    EndRule.FIXED_DURATION: (CloseKind.DURATION,),
    EndRule.MANUAL_STOP: (CloseKind.STOP,),
}
_LAST_TICK = 2**31 - 1
_TICKS = 2**32  # above every tick, so `number * _TICKS + tick` sorts by number, then tick

_OTHER_SIDES = "a market has other sides in another message of its fixture"
_OTHER_MESSAGE = "two states of one tick differ: a tick is one message, about one market"


def check_values(
    decisions: pl.DataFrame, closes: pl.DataFrame, window: Window, fixture_ids: Iterable[int], order: Sequence[str]
) -> None:
    """Raise ``EvidenceError`` for a line that no run can have, and for decisions out of sealed ``order`` or made twice."""
    for frame in (decisions, closes):  # beyond 2**53 - 1 a reader with doubles sees a number that differs from the hashed one
        if any(frame[column].null_count() for column in frame.columns if column in _ENTRY_COLUMNS):
            raise EvidenceError("null where a value must stand")
        if not all(in_range(column, -SAFE_INTEGER, SAFE_INTEGER) for column in frame if column.dtype == pl.Int64):
            raise EvidenceError("integer beyond 2**53 - 1")
    back, wait = decisions["action"] == Action.BACK, decisions["action"] == Action.WAIT
    stateless, unjudged = decisions["sides"].is_null(), decisions["pre"].is_null()
    kinds = [kind.value for kind in _CLOSE_KINDS[EndRule(window.end_rule)]]
    bad_values = {
        "an action is neither BACK nor WAIT": not (back | wait).all(),
        f"a close_kind is not one of {kinds}, which its end_rule gives": not values(closes["close_kind"]) <= set(kinds),
        # The price after the tick, in place of the price at the tick, would be look-ahead.
        "a market state is later than its decision": (decisions["state_tick_seq"] > decisions["tick_seq"]).any()
        or (decisions["state_ts_ms"] > decisions["ts_ms"]).any(),
        # A close from play would score a decision by later goals.
        "a closing state is outside its window": (closes["state_tick_seq"] >= closes["end_seq"]).any()
        or (closes["state_ts_ms"] > closes["close_ts_ms"]).any(),
        "a time is negative": not (in_range(decisions["state_ts_ms"], 0) and in_range(decisions["ts_ms"], 0)),
        "a closing time is negative": not (in_range(closes["state_ts_ms"], 0) and in_range(closes["close_ts_ms"], 0)),
        "a WAIT, or a BACK without a market, has a state": not (
            stateless | (back & decisions["market_key"].is_not_null())
        ).all(),
        "a stake is negative": not in_range(decisions["stake"], 0),
        "a limit is negative, or beyond 2**31 - 1": not in_range(decisions["limit_odds_milli"], 0, 2**31 - 1),
        # A missing verdict would hide the refusal of an action.
        "a BACK has no verdict of the policy, or a WAIT has one": (unjudged != wait).any(),
        "a confidence is no probability": not in_range(decisions["confidence_ppm"], 0, 1_000_000),
        "a decision is on a fixture that is not replayed": not values(decisions["fixture_id"]) <= set(fixture_ids),
    }
    for phase, known in (("pre", PreQuote), ("post", PostQuote)):
        if not values(decisions[phase].explode()) <= set(known):
            raise EvidenceError(f"a reason of the {phase}-quote phase is not one of {', '.join(known)}")
    for text, is_bad in bad_values.items():
        if is_bad:
            raise EvidenceError(text)
    key = decisions[list(order)]
    # Without one fixed order the same decisions would have many hashes, and an owner could search for the best one.
    if not key.equals(key.sort(order, nulls_last=False)):
        raise EvidenceError(f"decisions are not in the order of {', '.join(order)}")
    first, *others = key.get_columns()
    other = changes(first)
    for column in others:
        other |= changes(column)
    if not other.all():
        raise EvidenceError("an agent decides twice on the same side of a market at a tick")
    waits = key.filter(wait)[["agent_id", "fixture_id", "tick_seq"]]
    if waits.height and waits.is_duplicated().any():
        raise EvidenceError("an agent waits twice at a tick")


def check_coherence(
    decisions: pl.DataFrame, closes: pl.DataFrame, market: pl.Series, closing_policy: ClosingPolicy, duration_s: int | None
) -> None:
    """Raise ``EvidenceError`` if well-formed lines contradict each other. ``market`` is the result of ``market_rows``."""
    _check_times(decisions, closes, duration_s)
    messages, prices = _messages(decisions, closes, market)
    _check_messages(messages, prices, closes)
    _check_latest(messages, decisions, market, closes, closing_policy)


def _check_times(decisions: pl.DataFrame, closes: pl.DataFrame, duration_s: int | None) -> None:
    """Require one time for each tick, times that never fall, and windows that end according to these times."""
    closing = ["end_seq", "close_ts_ms", "close_kind"]
    another = changes(closes["fixture_id"])
    # Otherwise a forger could close each market at the most flattering moment.
    if any((~another & changes(closes[name])).any() for name in closing):
        raise EvidenceError("the markets of a fixture close at different ticks")
    ends = closes[["fixture_id", *closing]].filter(another)
    kind = ends["close_kind"]
    after_last = (kind == CloseKind.TAPE_END) | (kind == CloseKind.STOP)  # the window ends at the time of its last tick
    at_tick = kind == CloseKind.IN_RUNNING
    ticks = ends["end_seq"] - after_last.cast(pl.Int64)
    known = [
        decisions[["fixture_id", "tick_seq", "ts_ms"]],
        decisions[["fixture_id", "state_tick_seq", "state_ts_ms"]],
        closes[["fixture_id", "state_tick_seq", "state_ts_ms"]],
        ends[["fixture_id"]].hstack([ticks, ends["close_ts_ms"]]).filter(after_last | at_tick),
    ]
    fixture, tick, ts = (pl.concat(list(columns)) for columns in zip(*(frame.get_columns() for frame in known), strict=True))
    there = tick.is_not_null()
    fixture, tick, ts = fixture.filter(there), tick.filter(there), ts.filter(there)
    if not (in_range(tick, 0, _LAST_TICK) and in_range(ends["end_seq"], 0, _LAST_TICK + 1)):
        raise EvidenceError("a tick has a number below 0, or of more than 31 bits")

    # From here on fixtures are numbered, and ticks are in order of fixture and tick.
    fixtures = fixture.unique().sort()
    number = fixtures.search_sorted(fixture).cast(pl.Int64)
    order = (number * _TICKS + tick).arg_sort()
    number, tick, ts = taken(number, order), taken(tick, order), taken(ts, order)
    (fixture_a, fixture_b), (tick_a, tick_b), (ts_a, ts_b) = neighbours(number), neighbours(tick), neighbours(ts)
    same = fixture_a == fixture_b
    # A tick with two times, or a time that falls, could move a decision across the horizon or a price before its decision.
    if (same & (tick_a == tick_b) & (ts_a != ts_b)).any():
        raise EvidenceError("one tick has two times")
    if (same & (ts_b < ts_a)).any():
        raise EvidenceError("time falls from one tick to a later one")

    places = {fixture_id: place for place, fixture_id in enumerate(ends["fixture_id"])}
    end = taken(pl.Series([places.get(fixture_id) for fixture_id in fixtures], dtype=pl.UInt32), number)
    inside, close, kind = tick < taken(ends["end_seq"], end), taken(ends["close_ts_ms"], end), taken(ends["close_kind"], end)
    wrong = (
        (taken(after_last, end) & ~inside)
        | ((kind == CloseKind.KICKOFF) & (inside != (ts < close)))
        | ((kind == CloseKind.DURATION) & ((inside != (ts <= close)) | (ts < close - 1000 * (duration_s or 0))))
    )
    if wrong.any():
        raise EvidenceError("a window does not end where the times of its ticks say")


@dataclass(frozen=True, slots=True)
class _Messages:
    """The states in evidence, in order of market and tick. A market is given as the row of its close.

    A state has ``size`` prices from ``start`` on, which stay in the frame that was read. ``key`` is market and tick as one
    number.
    """

    market: pl.Series
    tick: pl.Series
    ts_ms: pl.Series
    suspended: pl.Series
    size: pl.Series
    start: pl.Series
    key: pl.Series

    def open(self) -> _Messages:
        columns = (self.market, self.tick, self.ts_ms, self.suspended, self.size, self.start, self.key)
        return _Messages(*(column.filter(~self.suspended) for column in columns))

    def latest(self, market: pl.Series, tick: pl.Series) -> pl.Series:
        """Return the row of each market's last message up to a tick; null without such a message."""
        first = pl.Series([-_TICKS], dtype=pl.Int64)  # sorts before every key, so that each key has a predecessor
        row = first.append(self.key).search_sorted(market * _TICKS + tick, side="right").cast(pl.Int64) - 2
        row = row.zip_with(row >= 0, nulls(len(row)))
        return row.zip_with(taken(self.market, row) == market, nulls(len(row)))


def _messages(decisions: pl.DataFrame, closes: pl.DataFrame, market: pl.Series) -> tuple[_Messages, pl.DataFrame]:
    sides = pl.concat([decisions["sides"], closes["sides"]])
    there = sides.is_not_null()
    sides = sides.filter(there)
    size = sides.list.len().cast(pl.Int64)
    if (size < 2).any():
        raise EvidenceError("a market has at least two sides")
    market = pl.concat([market, pl.int_range(closes.height, eager=True)]).filter(there)
    names = ("state_tick_seq", "state_ts_ms", "state_suspended")
    tick, *others = (pl.concat([decisions[name], closes[name]]).filter(there) for name in names)
    key = market * _TICKS + tick
    order = key.arg_sort()
    columns = (market, tick, *others, size, size.cum_sum() - size, key)
    return _Messages(*(taken(column, order) for column in columns)), sides.explode().struct.unnest()


def _check_messages(messages: _Messages, prices: pl.DataFrame, closes: pl.DataFrame) -> None:
    """Require each tick to be one message, and each message of a market to have the same sides."""
    size, of = messages.size, repeated(messages.size)
    number = pl.int_range(len(of), eager=True)
    at = number + taken(messages.start - (size.cum_sum() - size), of)  # the place of each price
    priced = of.filter(taken(prices["prob_bps"].is_not_null(), at))
    if (pl.Series([False]).new_from_index(0, len(size)).scatter(priced, values=True) == messages.suspended).any():
        raise EvidenceError("a state is suspended exactly when it has no probability")
    new_market, new_tick = changes(messages.market), changes(messages.key)
    if (~new_market & changes(size)).any():
        raise EvidenceError(_OTHER_SIDES)
    fixture = taken(runs(changes(closes["fixture_id"])), messages.market)
    shared = (fixture * _TICKS + messages.tick).n_unique() != new_tick.sum()
    # With two prices for one tick, a forger could enter at one and close at the other.
    if shared or (~new_tick & changes(messages.suspended)).any():
        raise EvidenceError(_OTHER_MESSAGE)
    # Prices are compared one by one. In the previous message, the same side is earlier by the number of prices in a message.
    for columns, new, fault in ((["side"], new_market, _OTHER_SIDES), (["odds_milli", "prob_bps"], new_tick, _OTHER_MESSAGE)):
        again = ~taken(new, of)
        here, before = at.filter(again), taken(at, (number - taken(size, of)).filter(again))
        if not all(taken(prices[name], here).equals(taken(prices[name], before), null_equal=True) for name in columns):
            raise EvidenceError(fault)


def _check_latest(
    messages: _Messages, decisions: pl.DataFrame, market: pl.Series, closes: pl.DataFrame, policy: ClosingPolicy
) -> None:
    """Require each state to be the last message of its market, and each close to be the message that its policy takes."""
    acted = market.is_not_null()
    last = taken(messages.tick, messages.latest(market.filter(acted), decisions["tick_seq"].filter(acted)))
    # With an older state of the market, a decision could enter at a price that had already moved.
    if not decisions["state_tick_seq"].filter(acted).equals(last):
        raise EvidenceError("a state is not the last message of its market that other lines know of")
    own, end = pl.int_range(closes.height, eager=True), closes["end_seq"] - 1
    row = messages.latest(own, end)
    close = taken(messages.tick, row)
    if policy == ClosingPolicy.LAST_OPEN:
        opened = messages.open()
        open_row = opened.latest(own, end)
        young = closes["close_ts_ms"] - taken(opened.ts_ms, open_row) <= LAST_OPEN_MAX_AGE_MS
        close = taken(opened.tick, open_row).zip_with(taken(messages.suspended, row) & young, close)
    if not closes["state_tick_seq"].equals(close):
        raise EvidenceError("a close is not the last message inside its window that other lines know of")


def positions(decisions: pl.DataFrame, closes: pl.DataFrame, market: pl.Series | None = None) -> pl.DataFrame:
    """Return ``POSITIONS`` in order of ``seq``, every decision with the two states that score it."""
    market = market_rows(decisions, closes) if market is None else market
    entries, quotes = _prices(decisions), _prices(closes)
    own = entries["side"] == taken(decisions["side"], entries["row"])  # sides are unique, so each decision matches at most one
    row, unpriced = entries["row"].filter(own), nulls(decisions.height)
    backed = pl.DataFrame({"row": market, "side": decisions["side"]})
    close = backed.join(quotes, on=["row", "side"], how="left", maintain_order="left")
    known = {
        "entry_present": decisions["sides"].is_not_null(),
        "entry_suspended": decisions["state_suspended"],
        "entry_prob_bps": unpriced.clone().scatter(row, entries["prob_bps"].filter(own)),
        "odds_milli": unpriced.scatter(row, entries["odds_milli"].filter(own)),
        "closing_present": taken(closes["sides"].is_not_null(), market),
        "closing_suspended": taken(closes["state_suspended"], market),
        "close_prob_bps": close["prob_bps"],
        "closing_ts_ms": taken(closes["state_ts_ms"], market),
    } | {name: taken(closes[name], market) for name in ("end_seq", "close_ts_ms", "close_kind")}
    frame = pl.DataFrame({name: known[name] if name in known else decisions[name] for name in POSITIONS})
    return conform(frame, POSITIONS, "POSITIONS")


def market_rows(decisions: pl.DataFrame, closes: pl.DataFrame) -> pl.Series:
    """Return the row in ``closes`` of each decision's market, null without one; ``EvidenceError`` as for ``positions``."""
    # A missing close would drop a losing decision from the mean. A spare close would give a choice between two.
    wrong = EvidenceError("there must be one MARKET_CLOSE for every market that a BACK names, sorted")
    (fixture, later_fixture), (key, later_key) = neighbours(closes["fixture_id"]), neighbours(closes["market_key"])
    if not ((later_fixture > fixture) | ((later_fixture == fixture) & (later_key > key))).all():
        raise wrong
    row = pl.int_range(closes.height, eager=True).alias("row")
    found = decisions[_MARKET].join(closes[_MARKET].hstack([row]), on=_MARKET, how="left", maintain_order="left")["row"]
    back = decisions["action"] == Action.BACK
    found = found.zip_with(back, nulls(decisions.height))
    backed = found.filter(back & decisions["market_key"].is_not_null())
    if backed.null_count() or backed.n_unique() != closes.height:
        raise wrong
    return found


def proposals(decisions: pl.DataFrame, placed: pl.DataFrame) -> pl.DataFrame:
    """Return ``PROPOSALS`` in order of ``seq``, decisions with the quote to take. A suspended market has no quote."""
    own = {
        "stake": decisions["stake"],
        "limit_odds_milli": decisions["limit_odds_milli"],
        "odds_milli": placed["odds_milli"].zip_with(~placed["entry_suspended"], nulls(placed.height)),
        "quote_age_ms": decisions["ts_ms"] - decisions["state_ts_ms"],
    }
    return conform(
        pl.DataFrame({name: own[name] if name in own else placed[name] for name in PROPOSALS}), PROPOSALS, "PROPOSALS"
    )


def _prices(events: pl.DataFrame) -> pl.DataFrame:
    """Return one row per side of every state: (row of the event, side, prob_bps, odds_milli)."""
    size = events["sides"].list.len().cast(pl.Int64)
    there = size > 0
    size, suspended = size.filter(there), events["state_suspended"].filter(there)
    state = repeated(size)
    prices = events["sides"].filter(there).explode().struct.unnest()
    if prices["side"].null_count():
        raise EvidenceError("a side without a name")
    check_prices(prices.hstack([taken(suspended, state).alias("suspended")]))
    side, later = neighbours(prices["side"])
    if (~changes(state).slice(1) & (later <= side)).any():
        raise EvidenceError("the sides of a market must be unique and in byte order")
    rows = pl.int_range(events.height, eager=True).filter(there)
    return prices.hstack([taken(rows, state).alias("row")])


def check_prices(prices: pl.DataFrame) -> None:
    """Raise ``EvidenceError`` for prices (``prob_bps``, ``odds_milli``, ``suspended``) that no market has."""
    prob, odds = prices["prob_bps"], prices["odds_milli"]
    possible = in_range(prob, 0, 10_000) and in_range(odds, *ODDS_MILLI)
    if not possible or (prices["suspended"] & prob.is_not_null()).any():
        raise EvidenceError("a price out of range, or a probability in a suspended market")
