"""Closing-line value and edge of every decision, from its two states in evidence.

References
----------
Interface specification, "What the service does" (2) and "InspectorRecord". CLV in probability points decides the ranking. The
value of the price taken at the closing probability ("CLV %") is shown with it, but is not used for ranking.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from clvlab.law.closing import Window
from clvlab.law.lines import NONE, Bools, Categorical, Column, Ints, Positions, frame_of, known, texts_of
from clvlab.law.schema import SCORES, Action, Reason

_REASONS = [reason.value for reason in Reason]  # in the order of the law, ``scored`` last
_VALID = {Reason.SCORED, Reason.WAIT_UNSCORED, Reason.PENDING_HORIZON}


def clv_bps(placed: Positions) -> Ints:
    """Return closing minus entry probability of the side, in basis points. A positive value beats the close."""
    return placed.close_prob_bps - placed.entry_prob_bps


def quoted_edge_bps(prob_bps: Ints, odds_milli: Ints) -> Ints:
    """Return the expected value of a quote at a probability, in basis points, half up."""
    # Only integers are used, because floating point rounds differently between machines, and one digit changes the hash.
    return (2 * prob_bps * odds_milli + 1000) // 2000 - 10_000


def edge_bps(placed: Positions) -> Ints:
    """Return the expected value of the price taken, at the closing probability. Without a quote, use the entry's fair price."""
    close, entry, odds = placed.close_prob_bps, placed.entry_prob_bps, placed.odds_milli
    fair = (2 * close * 10_000 + entry) // (2 * np.maximum(entry, 1)) - 10_000
    return np.where(known(odds), quoted_edge_bps(close, odds), np.where(entry > 0, fair, NONE))


def allowed(market_key: Categorical[str], market_allowlist: tuple[str, ...]) -> Bools:
    """Return where a market key starts with one of the prefixes. The prefix ``""`` allows every market."""
    return market_key.map(lambda key: key.startswith(market_allowlist), default=False)


def reason(placed: Positions, window: Window, max_close_age_s: int | None) -> Ints:
    """Return the first rule that each position fails, or ``scored``, as a place in ``Reason``."""
    # An old quote hides later movement of the market, so it can't be a closing line.
    limit_ms = np.inf if max_close_age_s is None else 1000 * max_close_age_s
    # Rules about the agent (its omissions, time and entry) come before rules about the close. So a bad close never excuses a
    # fault of the agent (law.md, "Reasons").
    rules: dict[Reason, Bools] = {
        # Abstentions would dilute a mean.
        Reason.WAIT_UNSCORED: placed.action.equals(Action.WAIT),
        Reason.MARKET_KEY_MISSING: placed.market_key.codes < 0,
        Reason.SIDE_MISSING: placed.side.codes < 0,
        Reason.MARKET_NOT_ALLOWED: ~allowed(placed.market_key, window.market_allowlist),
        # An agent that acts in play knows goals that the close does not include.
        Reason.OUTSIDE_WINDOW: known(placed.end_seq) & (placed.tick_seq >= placed.end_seq),
        Reason.ENTRY_MARKET_ABSENT: ~placed.entry_present,
        # A price that was withdrawn could not be bet on.
        Reason.ENTRY_SUSPENDED: placed.entry_suspended,
        Reason.ENTRY_SIDE_MISSING: ~known(placed.entry_prob_bps),
        Reason.CLOSING_MARKET_ABSENT: ~placed.closing_present,
        Reason.CLOSING_SUSPENDED: placed.closing_suspended,
        Reason.CLOSING_STALE: closing_age_ms(placed) > limit_ms,
        Reason.CLOSING_SIDE_MISSING: ~known(placed.close_prob_bps),
        # An entry just before the close has a CLV near 0 by construction, and would be a way to pad a count.
        Reason.PENDING_HORIZON: known(placed.close_ts_ms)
        & (placed.close_ts_ms - placed.ts_ms < 1000 * window.min_clv_horizon_s),
    }
    codes = [_REASONS.index(name) for name in rules]
    return np.select(list(rules.values()), codes, default=_REASONS.index(Reason.SCORED)).astype(np.int64)


def closing_age_ms(placed: Positions) -> Ints:
    """Return how old each closing message is at its close; null without one."""
    there = known(placed.close_ts_ms) & known(placed.closing_ts_ms)
    return np.where(there, placed.close_ts_ms - np.where(there, placed.closing_ts_ms, 0), NONE)


def scores(placed: Positions, window: Window, max_close_age_s: int | None) -> pl.DataFrame:
    """Return ``SCORES``, one row per decision in order of ``seq``. ``clv_bps`` and ``edge_bps`` are null unless scored."""
    reasons = reason(placed, window, max_close_age_s)
    scored = reasons == _REASONS.index(Reason.SCORED)
    columns: dict[str, Column] = {
        "seq": placed.seq,
        "agent_id": placed.agent_id,
        "fixture_id": placed.fixture_id,
        "tick_seq": placed.tick_seq,
        "market_key": placed.market_key,
        "side": placed.side,
        "valid": np.isin(reasons, [_REASONS.index(one) for one in _VALID]),
        "reason": Categorical(reasons, _REASONS),
        "entry_prob_bps": placed.entry_prob_bps,
        "odds_milli": placed.odds_milli,
        "close_prob_bps": placed.close_prob_bps,
        "clv_bps": np.where(scored, clv_bps(placed), NONE),
        "edge_bps": np.where(scored, edge_bps(placed), NONE),
        "close_kind": placed.close_kind,
        "closing_age_ms": closing_age_ms(placed),
        "confidence_ppm": placed.confidence_ppm,
    }
    rows = frame_of(columns, SCORES)
    return rows if (placed.seq[1:] > placed.seq[:-1]).all() else rows.sort("seq")


def is_allowed(market_key: pl.Series, market_allowlist: tuple[str, ...]) -> pl.Series:
    """Return ``allowed`` of a column of a frame."""
    return pl.Series(allowed(texts_of(market_key)[0], market_allowlist))
