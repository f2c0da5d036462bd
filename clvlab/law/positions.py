"""Positions: each decision with the two states that score it. They are read from evidence after checks of its coherence.

Every fixture has one sequence of messages, each about one market at one time. A decision names its tick and the market's last
message. A close names the last message inside its window. So the lines of a run constrain each other, and a rewritten line must
still fit all others. The checks compare neighbours in sorted columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from clvlab.errors import EvidenceError
from clvlab.law.closing import LAST_OPEN_MAX_AGE_MS, Window
from clvlab.law.gate import PostQuote, PreQuote
from clvlab.law.lines import (
    NONE,
    Bools,
    Categorical,
    Closes,
    Decisions,
    Ints,
    MarketStates,
    Positions,
    Proposals,
    changes,
    distinct,
    ints_of,
    known,
    spread,
    starts,
    take,
    within,
)
from clvlab.law.schema import ODDS_MILLI, Action, CloseKind, ClosingPolicy, EndRule

_CLOSE_KINDS = {
    EndRule.PRE_MATCH: (CloseKind.IN_RUNNING, CloseKind.KICKOFF, CloseKind.TAPE_END),
    EndRule.FIXED_DURATION: (CloseKind.DURATION,),
    EndRule.MANUAL_STOP: (CloseKind.STOP,),
}
_LAST_TICK = 2**31 - 1
_TICKS = 2**32  # above every tick, so `number * _TICKS + tick` sorts by number, then tick

_OTHER_SIDES = "a market has other sides in another message of its fixture"
_OTHER_MESSAGE = "two states of one tick differ: a tick is one message, about one market"

SEALED_ORDER = ("ts_ms", "fixture_id", "tick_seq", "agent_id", "market_key", "side", "action")
"""Order of decisions, by time, then by names. The order of questions to agents must not affect the evidence."""


def check_values(decisions: Decisions, closes: Closes, window: Window, fixture_ids: Iterable[int]) -> None:
    """Raise ``EvidenceError`` for a line that no run can have, and for decisions out of sealed order or made twice."""
    entry, closing = decisions.states, closes.states
    back, wait = decisions.action.equals(Action.BACK), decisions.action.equals(Action.WAIT)
    stated = spread(np.ones(len(entry.line), dtype=np.bool_), entry.line, len(decisions), default=False)
    kinds = [kind.value for kind in _CLOSE_KINDS[EndRule(window.end_rule)]]
    bad_values = {
        "an action is neither BACK nor WAIT": not (back | wait).all(),
        f"a close_kind is not one of {kinds}, which its end_rule gives": not set(closes.close_kind.values) <= set(kinds),
        # The price after the tick, in place of the price at the tick, would be look-ahead.
        "a market state is later than its decision": (entry.tick_seq > decisions.tick_seq[entry.line]).any()
        or (entry.ts_ms > decisions.ts_ms[entry.line]).any(),
        # A close from play would score a decision by later goals.
        "a closing state is outside its window": (closing.tick_seq >= closes.end_seq[closing.line]).any()
        or (closing.ts_ms > closes.close_ts_ms[closing.line]).any(),
        "a time is negative": not (within(entry.ts_ms, 0) and within(decisions.ts_ms, 0)),
        "a closing time is negative": not (within(closing.ts_ms, 0) and within(closes.close_ts_ms, 0)),
        "a WAIT, or a BACK without a market, has a state": (stated & ~(back & (decisions.market_key.codes >= 0))).any(),
        "a stake is negative": not within(decisions.stake, 0),
        "a limit is negative, or beyond 2**31 - 1": not within(decisions.limit_odds_milli, 0, 2**31 - 1),
        # A missing verdict would hide the refusal of an action.
        "a BACK has no verdict of the policy, or a WAIT has one": ((decisions.pre.codes < 0) != wait).any(),
        "a confidence is no probability": not within(decisions.confidence_ppm, 0, 1_000_000),
        "a decision is on a fixture that is not replayed": not np.isin(decisions.fixture_id, [*fixture_ids]).all(),
    }
    for phase, lists, reasons in (("pre", decisions.pre, PreQuote), ("post", decisions.post, PostQuote)):
        if not {reason for one in lists.values for reason in one} <= set(reasons):
            raise EvidenceError(f"a reason of the {phase}-quote phase is not one of {', '.join(reasons)}")
    for text, is_bad in bad_values.items():
        if is_bad:
            raise EvidenceError(text)
    _check_order(decisions, wait)


def _check_order(decisions: Decisions, wait: Bools) -> None:
    made = decisions
    columns = (made.ts_ms, made.fixture_id, made.tick_seq, made.agent_id, made.market_key, made.side, made.action)
    less, equal = np.zeros(max(len(made) - 1, 0), dtype=np.bool_), np.ones(max(len(made) - 1, 0), dtype=np.bool_)
    for column in columns:
        values = column.codes if isinstance(column, Categorical) else column
        less |= equal & (values[:-1] < values[1:])
        equal &= values[:-1] == values[1:]
    # Without one fixed order the same decisions would have many hashes, and an owner could search for the best one.
    if not (less | equal).all():
        raise EvidenceError(f"decisions are not in the order of {', '.join(SEALED_ORDER)}")
    if equal.any():
        raise EvidenceError("an agent decides twice on the same side of a market at a tick")
    waits = [column[wait] for column in (made.agent_id.codes, made.fixture_id, made.tick_seq)]
    order = np.lexsort(waits)
    if (~np.logical_or.reduce([changes(column[order]) for column in waits])).any():
        raise EvidenceError("an agent waits twice at a tick")


def check_coherence(
    decisions: Decisions, closes: Closes, market: Ints, closing_policy: ClosingPolicy, duration_s: int | None
) -> None:
    """Raise ``EvidenceError`` if well-formed lines contradict each other. ``market`` is the result of ``market_rows``."""
    _check_times(decisions, closes, duration_s)
    messages = _messages(decisions, closes, market)
    _check_messages(messages, closes)
    _check_latest(messages, decisions, market, closes, closing_policy)


def _check_times(decisions: Decisions, closes: Closes, duration_s: int | None) -> None:
    """Require one time for each tick, times that never fall, and windows that end according to these times."""
    another = changes(closes.fixture_id)
    # Otherwise a forger could close each market at the most flattering moment.
    if any((~another & changes(column)).any() for column in (closes.end_seq, closes.close_ts_ms, closes.close_kind.codes)):
        raise EvidenceError("the markets of a fixture close at different ticks")
    ended, end, close = (column[another] for column in (closes.fixture_id, closes.end_seq, closes.close_ts_ms))
    kind = {one: closes.close_kind.equals(one)[another] for one in CloseKind}
    after_last = kind[CloseKind.TAPE_END] | kind[CloseKind.STOP]  # the window ends at the time of its last tick
    at_tick = after_last | kind[CloseKind.IN_RUNNING]
    entry, closing = decisions.states, closes.states
    fixture = np.concatenate(
        [decisions.fixture_id, decisions.fixture_id[entry.line], closes.fixture_id[closing.line], ended[at_tick]]
    )
    tick = np.concatenate([decisions.tick_seq, entry.tick_seq, closing.tick_seq, (end - after_last)[at_tick]])
    ts = np.concatenate([decisions.ts_ms, entry.ts_ms, closing.ts_ms, close[at_tick]])
    if not (within(tick, 0, _LAST_TICK) and within(end, 0, _LAST_TICK + 1)):
        raise EvidenceError("a tick has a number below 0, or of more than 31 bits")

    # From here on fixtures are numbered, and ticks are in order of fixture and tick.
    fixtures, number = np.unique(fixture, return_inverse=True)
    order = np.argsort(number * _TICKS + tick, kind="stable")
    number, tick, ts = number[order], tick[order], ts[order]
    same = number[1:] == number[:-1]
    # A tick with two times, or a time that falls, could move a decision across the horizon or a price before its decision.
    if (same & (tick[1:] == tick[:-1]) & (ts[1:] != ts[:-1])).any():
        raise EvidenceError("one tick has two times")
    if (same & (ts[1:] < ts[:-1])).any():
        raise EvidenceError("time falls from one tick to a later one")

    place = spread(np.arange(len(ended)), np.searchsorted(fixtures, ended), len(fixtures), -1)[number]
    closed = place >= 0  # a fixture without a backed market has no close
    tick, ts, place = tick[closed], ts[closed], place[closed]
    inside, close = tick < end[place], close[place]
    wrong = (
        (after_last[place] & ~inside)
        | (kind[CloseKind.KICKOFF][place] & (inside != (ts < close)))
        | (kind[CloseKind.DURATION][place] & ((inside != (ts <= close)) | (ts < close - 1000 * (duration_s or 0))))
    )
    if wrong.any():
        raise EvidenceError("a window does not end where the times of its ticks say")


@dataclass(frozen=True, slots=True)
class _Messages:
    """The states in evidence, in order of market and tick. A market is given as the row of its close.

    A state has ``size`` prices from ``start`` on in ``side``, ``prob_bps`` and ``odds_milli``, which are in the order of
    lines. ``key`` is market and tick as one number.
    """

    market: Ints
    tick: Ints
    ts_ms: Ints
    suspended: Bools
    size: Ints
    start: Ints
    key: Ints
    side: Ints
    prob_bps: Ints
    odds_milli: Ints

    def latest(self, market: Ints, tick: Ints, of: Bools | None = None) -> Ints:
        """Return the row of each market's last message up to a tick, among all or those ``of`` a kind; -1 without one."""
        rows = np.arange(len(self.key)) if of is None else np.flatnonzero(of)
        found = np.searchsorted(self.key[rows], market * _TICKS + tick, side="right") - 1
        row = take(rows, found, -1)
        return np.where((found >= 0) & (take(self.market, row, -1) == market), row, -1)


def _messages(decisions: Decisions, closes: Closes, market: Ints) -> _Messages:
    entry, closing = decisions.states, closes.states
    size = np.concatenate([entry.size, closing.size])
    if (size < 2).any():
        raise EvidenceError("a market has at least two sides")
    of = np.concatenate([market[entry.line], closing.line])
    tick = np.concatenate([entry.tick_seq, closing.tick_seq])
    key = of * _TICKS + tick
    order = np.argsort(key, kind="stable")
    return _Messages(
        of[order],
        tick[order],
        np.concatenate([entry.ts_ms, closing.ts_ms])[order],
        np.concatenate([entry.suspended, closing.suspended])[order],
        size[order],
        starts(size)[order],
        key[order],
        np.concatenate([entry.side.codes, closing.side.codes]),
        np.concatenate([entry.prob_bps, closing.prob_bps]),
        np.concatenate([entry.odds_milli, closing.odds_milli]),
    )


def _check_messages(messages: _Messages, closes: Closes) -> None:
    """Require each tick to be one message, and each message of a market to have the same sides."""
    size = messages.size
    of = np.repeat(np.arange(len(size)), size)
    number = np.arange(len(of))
    at = number + (messages.start - starts(size))[of]  # the place of each price
    priced = np.zeros(len(size), dtype=np.bool_)
    priced[of[known(messages.prob_bps[at])]] = True
    if (priced == messages.suspended).any():
        raise EvidenceError("a state is suspended exactly when it has no probability")
    new_market, new_tick = changes(messages.market), changes(messages.key)
    if (~new_market & changes(size)).any():
        raise EvidenceError(_OTHER_SIDES)
    fixture = (np.cumsum(changes(closes.fixture_id)) - 1)[messages.market]
    shared = distinct(fixture * _TICKS + messages.tick) != new_tick.sum()
    # With two prices for one tick, a forger could enter at one and close at the other.
    if shared or (~new_tick & changes(messages.suspended)).any():
        raise EvidenceError(_OTHER_MESSAGE)
    # Prices are compared one by one. In the previous message, the same side is earlier by the number of prices in a message.
    prices = (messages.odds_milli, messages.prob_bps)
    for columns, new, fault in (((messages.side,), new_market, _OTHER_SIDES), (prices, new_tick, _OTHER_MESSAGE)):
        again = ~new[of]
        here, before = at[again], at[(number - size[of])[again]]
        if any((column[here] != column[before]).any() for column in columns):
            raise EvidenceError(fault)


def _check_latest(messages: _Messages, decisions: Decisions, market: Ints, closes: Closes, policy: ClosingPolicy) -> None:
    """Require each state to be the last message of its market, and each close to be the message that its policy takes."""
    entry, closing = decisions.states, closes.states
    acted = market >= 0
    last = take(messages.tick, messages.latest(market[acted], decisions.tick_seq[acted]), NONE)
    # With an older state of the market, a decision could enter at a price that had already moved.
    if (spread(entry.tick_seq, entry.line, len(decisions), NONE)[acted] != last).any():
        raise EvidenceError("a state is not the last message of its market that other lines know of")
    own = np.arange(len(closes))
    row = messages.latest(own, closes.end_seq - 1)
    if policy == ClosingPolicy.LAST_OPEN:
        opened = messages.latest(own, closes.end_seq - 1, ~messages.suspended)
        young = (opened >= 0) & (closes.close_ts_ms - take(messages.ts_ms, opened, 0) <= LAST_OPEN_MAX_AGE_MS)
        row = np.where(take(messages.suspended, row, default=False) & young, opened, row)
    if (spread(closing.tick_seq, closing.line, len(closes), NONE) != take(messages.tick, row, NONE)).any():
        raise EvidenceError("a close is not the last message inside its window that other lines know of")


def positions(decisions: Decisions, closes: Closes) -> Positions:
    """Return every decision with the two states that score it; ``EvidenceError`` as ``market_rows``."""
    return placed(decisions, closes, market_rows(decisions, closes))


def placed(decisions: Decisions, closes: Closes, market: Ints) -> Positions:
    """Return every decision with the two states that score it. ``market`` is the result of ``market_rows``."""
    entry, closing = decisions.states, closes.states
    for states in (entry, closing):
        _check_prices(states)
    count = len(decisions)
    of = np.repeat(entry.line, entry.size)
    own = np.flatnonzero(entry.side.codes == decisions.side.codes[of])  # sides are unique, so a decision matches at most one
    quoted = np.repeat(closing.line, closing.size)
    sides = len(closing.side.values) + 1
    keys, wanted = quoted * sides + closing.side.codes, np.where(market >= 0, market * sides + decisions.side.codes, -1)
    found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)  # prices stand in order of close and side
    matched = (wanted >= 0) & (decisions.side.codes >= 0) & (take(keys, found, -1) == wanted)
    state = spread(np.arange(len(closing.line)), closing.line, len(closes), -1)
    close = take(state, market, -1)
    return Positions(
        np.arange(1, count + 1),
        decisions.agent_id,
        decisions.fixture_id,
        decisions.tick_seq,
        decisions.ts_ms,
        decisions.action,
        decisions.market_key,
        decisions.side,
        decisions.confidence_ppm,
        entry_present=spread(np.ones(len(entry.line), dtype=np.bool_), entry.line, count, default=False),
        entry_suspended=spread(entry.suspended, entry.line, count, default=False),
        entry_prob_bps=spread(entry.prob_bps[own], of[own], count, NONE),
        odds_milli=spread(entry.odds_milli[own], of[own], count, NONE),
        closing_present=close >= 0,
        closing_suspended=take(closing.suspended, close, default=False),
        close_prob_bps=np.where(matched, take(closing.prob_bps, found, NONE), NONE),
        closing_ts_ms=take(closing.ts_ms, close, NONE),
        end_seq=take(closes.end_seq, market, NONE),
        close_ts_ms=take(closes.close_ts_ms, market, NONE),
        close_kind=closes.close_kind.take(market),
    )


def market_rows(decisions: Decisions, closes: Closes) -> Ints:
    """Return the row in ``closes`` of each decision's market; -1 for a decision that backs no market.

    Raises
    ------
    EvidenceError
        The closes are not sorted, or not exactly one per market that a BACK names.
    """
    # A missing close would drop a losing decision from the mean. A spare close would give a choice between two.
    wrong = EvidenceError("there must be one MARKET_CLOSE for every market that a BACK names, sorted")
    number = np.unique(np.concatenate([decisions.fixture_id, closes.fixture_id]), return_inverse=True)[1]
    keys = len(closes.market_key.values) + 1
    wanted = number[: len(decisions)] * keys + decisions.market_key.codes
    closed = number[len(decisions) :] * keys + closes.market_key.codes
    if (closed[1:] <= closed[:-1]).any():
        raise wrong
    backed = decisions.action.equals(Action.BACK) & (decisions.market_key.codes >= 0)
    row = np.minimum(np.searchsorted(closed, wanted), len(closed) - 1)
    found = np.where(backed & (take(closed, row, -1) == wanted), row, -1)
    if (found[backed] < 0).any() or distinct(found[backed]) != len(closes):
        raise wrong
    return found


def proposals(decisions: Decisions, placed: Positions) -> Proposals:
    """Return what the gate judges: decisions with the quote to take. A suspended market has no quote."""
    entry = decisions.states
    age_ms = decisions.ts_ms[entry.line] - entry.ts_ms
    return Proposals(
        decisions.agent_id,
        decisions.fixture_id,
        decisions.tick_seq,
        decisions.ts_ms,
        decisions.action,
        decisions.market_key,
        decisions.stake,
        decisions.limit_odds_milli,
        placed.entry_prob_bps,
        odds_milli=np.where(placed.entry_suspended, NONE, placed.odds_milli),
        quote_age_ms=spread(age_ms, entry.line, len(decisions), NONE),
    )


def _check_prices(states: MarketStates) -> None:
    priced = known(states.prob_bps)
    possible = within(states.prob_bps, 0, 10_000) and within(states.odds_milli, *ODDS_MILLI)
    of = np.repeat(np.arange(len(states.size)), states.size)
    if not possible or (states.suspended[of] & priced).any():
        raise EvidenceError("a price out of range, or a probability in a suspended market")
    side = states.side.codes
    if (~changes(of)[1:] & (side[1:] <= side[:-1])).any():
        raise EvidenceError("the sides of a market must be unique and in byte order")


def check_prices(prices: pl.DataFrame) -> None:
    """Raise ``EvidenceError`` for prices (``prob_bps``, ``odds_milli``, ``suspended``) that no market has."""
    prob, odds = ints_of(prices["prob_bps"]), ints_of(prices["odds_milli"])
    if not (within(prob, 0, 10_000) and within(odds, *ODDS_MILLI)) or (prices["suspended"].to_numpy() & known(prob)).any():
        raise EvidenceError("a price out of range, or a probability in a suspended market")
