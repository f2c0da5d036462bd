"""Coherence of evidence: whether one tape could have given all of its ticks, states and closes.

Every fixture has one sequence of messages, each about one market and at one time. A decision names its tick and the market's
last message; a close names the last message inside its window. So the lines of a run say much about each other, which whoever
rewrites one of them must keep to.

What is compared are neighbours in sorted columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from clvlab.errors import EvidenceError
from clvlab.law.closing import LAST_OPEN_MAX_AGE_MS
from clvlab.law.columns import changes, in_range, neighbours, nulls, repeated, runs, taken
from clvlab.law.positions import market_rows
from clvlab.law.schema import CloseKind, ClosingPolicy

_LAST_TICK = 2**31 - 1
_TICKS = 2**32  # more than there are ticks: `number * _TICKS + tick` sorts by number, then tick

_OTHER_SIDES = "a market has other sides in another message of its fixture"
_OTHER_MESSAGE = "two states of one tick differ: a tick is one message, about one market"


def check_coherence(
    decisions: pl.DataFrame, closes: pl.DataFrame, closing_policy: ClosingPolicy, duration_s: int | None
) -> None:
    """Refuse evidence that no tape gives.

    Parameters
    ----------
    decisions, closes
        ``DECISION_EVENTS`` and ``CLOSE_EVENTS``, of which every line alone is well-formed.
    closing_policy, duration_s
        As sealed.

    Raises
    ------
    EvidenceError
        Two lines contradict each other; or closes are not as ``positions`` requires.
    """
    market = market_rows(decisions, closes)
    _check_times(decisions, closes, duration_s)
    messages, prices = _messages(decisions, closes, market)
    _check_messages(messages, prices, closes)
    _check_latest(messages, decisions, market, closes, closing_policy)


def _check_times(decisions: pl.DataFrame, closes: pl.DataFrame, duration_s: int | None) -> None:
    """Require one time for each tick, times that never fall, and windows that end where those times say."""
    closing = ["end_seq", "close_ts_ms", "close_kind"]
    another = changes(closes["fixture_id"])
    # Else each market could be closed at the moment that flatters it.
    if any((~another & changes(closes[name])).any() for name in closing):
        raise EvidenceError("the markets of a fixture close at different ticks")
    ends = closes[["fixture_id", *closing]].filter(another)
    after_last, at_tick = _ends_after_last(ends["close_kind"]), ends["close_kind"] == CloseKind.IN_RUNNING
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

    # From here on a fixture is a number, and ticks stand in order of fixture and tick.
    fixtures = fixture.unique().sort()
    number = fixtures.search_sorted(fixture).cast(pl.Int64)
    order = (number * _TICKS + tick).arg_sort()
    number, tick, ts = taken(number, order), taken(tick, order), taken(ts, order)
    (fixture_a, fixture_b), (tick_a, tick_b), (ts_a, ts_b) = neighbours(number), neighbours(tick), neighbours(ts)
    same = fixture_a == fixture_b
    if (same & (tick_a == tick_b) & (ts_a != ts_b)).any():
        raise EvidenceError("one tick has two times")
    if (same & (ts_b < ts_a)).any():
        raise EvidenceError("time falls from one tick to a later one")

    places = {fixture_id: place for place, fixture_id in enumerate(ends["fixture_id"])}
    end = taken(pl.Series([places.get(fixture_id) for fixture_id in fixtures], dtype=pl.UInt32), number)
    inside, close, kind = tick < taken(ends["end_seq"], end), taken(ends["close_ts_ms"], end), taken(ends["close_kind"], end)
    wrong = (
        (_ends_after_last(kind) & ~inside)
        | ((kind == CloseKind.KICKOFF) & (inside != (ts < close)))
        | ((kind == CloseKind.DURATION) & ((inside != (ts <= close)) | (ts < close - 1000 * (duration_s or 0))))
    )
    if wrong.any():
        raise EvidenceError("a window does not end where the times of its ticks say")


def _ends_after_last(kind: pl.Series) -> pl.Series:
    """Tell which windows end after the last tick, at its time."""
    return (kind == CloseKind.TAPE_END) | (kind == CloseKind.STOP)


@dataclass(frozen=True, slots=True)
class _Messages:
    """The states that are there, in order of market and tick; a market is the row of its close.

    Their prices stay where they were read: ``size`` of them from ``start`` on.
    """

    market: pl.Series
    tick: pl.Series
    ts_ms: pl.Series
    suspended: pl.Series
    size: pl.Series
    start: pl.Series

    @property
    def key(self) -> pl.Series:
        """Market and tick as one number, ascending."""
        return self.market * _TICKS + self.tick

    def open(self) -> _Messages:
        """Leave the suspended ones out."""
        columns = (self.market, self.tick, self.ts_ms, self.suspended, self.size, self.start)
        return _Messages(*(column.filter(~self.suspended) for column in columns))

    def latest(self, market: pl.Series, tick: pl.Series) -> pl.Series:
        """Return the row of each market's last message up to a tick; null where there is none."""
        first = pl.Series([-_TICKS], dtype=pl.Int64)  # stands before every key, so that each has something before it
        row = first.append(self.key).search_sorted(market * _TICKS + tick, side="right").cast(pl.Int64) - 2
        row = row.zip_with(row >= 0, nulls(len(row)))
        return row.zip_with(taken(self.market, row) == market, nulls(len(row)))


def _messages(decisions: pl.DataFrame, closes: pl.DataFrame, market: pl.Series) -> tuple[_Messages, pl.DataFrame]:
    """Put the states of decisions, whose markets these are, and of closes in order, beside their prices."""
    sides = pl.concat([decisions["sides"], closes["sides"]])
    there = sides.is_not_null()
    sides = sides.filter(there)
    size = sides.list.len().cast(pl.Int64)
    if (size < 2).any():
        raise EvidenceError("a market has at least two sides")
    market = pl.concat([market, pl.int_range(closes.height, eager=True)]).filter(there)
    names = ("state_tick_seq", "state_ts_ms", "state_suspended")
    tick, *others = (pl.concat([decisions[name], closes[name]]).filter(there) for name in names)
    order = (market * _TICKS + tick).arg_sort()
    columns = (market, tick, *others, size, size.cum_sum() - size)
    return _Messages(*(taken(column, order) for column in columns)), sides.explode().struct.unnest()


def _check_messages(messages: _Messages, prices: pl.DataFrame, closes: pl.DataFrame) -> None:
    """Require each tick to be one message, with the sides that its market always has."""
    size, of = messages.size, repeated(messages.size)
    number = pl.int_range(len(of), eager=True)
    at = number + taken(messages.start - (size.cum_sum() - size), of)  # where each price stands
    priced = of.filter(taken(prices["prob_bps"].is_not_null(), at))
    if (pl.Series([False]).new_from_index(0, len(size)).scatter(priced, values=True) == messages.suspended).any():
        raise EvidenceError("a state is suspended exactly when it has no probability")
    new_market, new_tick = changes(messages.market), changes(messages.key)
    if (~new_market & changes(size)).any():
        raise EvidenceError(_OTHER_SIDES)
    fixture = taken(runs(changes(closes["fixture_id"])), messages.market)
    shared = (fixture * _TICKS + messages.tick).n_unique() != new_tick.sum()
    if shared or (~new_tick & changes(messages.suspended)).any():
        raise EvidenceError(_OTHER_MESSAGE)
    # Price by price: in the message before, the same side stands as many prices earlier as a message has.
    for columns, new, fault in ((["side"], new_market, _OTHER_SIDES), (["odds_milli", "prob_bps"], new_tick, _OTHER_MESSAGE)):
        again = ~taken(new, of)
        here, before = at.filter(again), taken(at, (number - taken(size, of)).filter(again))
        if not all(taken(prices[name], here).equals(taken(prices[name], before), null_equal=True) for name in columns):
            raise EvidenceError(fault)


def _check_latest(
    messages: _Messages, decisions: pl.DataFrame, market: pl.Series, closes: pl.DataFrame, policy: ClosingPolicy
) -> None:
    """Require each state to be the last message of its market, and each close the one that its policy takes."""
    acted = market.is_not_null()
    last = taken(messages.tick, messages.latest(market.filter(acted), decisions["tick_seq"].filter(acted)))
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
