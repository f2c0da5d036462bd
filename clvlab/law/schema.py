"""Schemas of every frame that the law reads or returns: columns, dtypes, keys and order.

Units: ``*_bps`` basis points of probability (0..10000) or of closing-line value, ``*_milli`` thousandths of decimal
odds, ``*_ts_ms`` UTC milliseconds, ``*_ppm`` millionths.
"""

from __future__ import annotations

from enum import StrEnum

import polars as pl

from clvlab.errors import SchemaError

Schema = dict[str, pl.DataType | type[pl.DataType]]

LAW_VERSION = "clv-law/1"
ODDS_MILLI = (1001, 100_000_000)  # the decimal odds that a quote may have, x 1000
SAFE_INTEGER = 2**53 - 1  # RFC 8785 3.2.2.3: integers beyond this lose digits in other languages
MAX_CLOSE_AGE_S = SAFE_INTEGER // 1_000_000  # the largest limit of a pack, as of every span of a window


class Action(StrEnum):
    BACK = "BACK"
    WAIT = "WAIT"


class EndRule(StrEnum):
    PRE_MATCH = "pre_match"
    FIXED_DURATION = "fixed_duration"
    MANUAL_STOP = "manual_stop"


class Causality(StrEnum):
    """The engine's evidence that no decision used a later tick. An agent's own claim never counts."""

    TEMPLATE = "template"  # made by the registry; its tests rule out look-ahead
    TRANSCRIPT = "transcript"  # made by the registry; repeats recorded decisions
    STEPPED = "stepped"  # got each message after its answer to the previous one, in a process without later messages
    STEPPED_BLOCKS = "stepped-blocks"  # the same with blocks of messages, whose cuts it could not know
    ASKED = "asked"  # answered by another system, message by message
    AUDITED_SANDBOX = "audited-sandbox"  # decided the same on prefixes, in processes that could read nothing else
    AUDITED_PROCESS = "audited-process"  # decided the same on prefixes, in processes without a sandbox
    LIVE = "live"  # decided before later messages existed: all live runs, and no others
    UNCHECKED = "unchecked"
    TICK_BY_TICK = "tick-by-tick"  # in older runs: claimed to have seen one message after another
    PREFIX_AUDIT = "prefix-audit"  # in older runs: decided the same on prefixes, in the scoring process


class Held(StrEnum):
    """Resources that the system kept from the process of an agent."""

    CALLS = "calls"  # system calls: all except a list are refused
    FILES = "files"  # all files except Python's own, its tape and permitted files
    LIBRARIES = "libraries"  # Python's own libraries are a private copy
    MEMORY = "memory"  # memory of every kind, limited by the system
    PROCESSES = "processes"  # it sees only its own processes
    ROOT = "root"  # other files have no name, so it can't even look for them


LOCKED_IN = frozenset({Held.CALLS, Held.FILES})
"""Resources that must be kept from a process for it to count as locked in."""


class SourceMode(StrEnum):
    REPLAY = "replay"
    LIVE = "live"


MODE_LABELS = {SourceMode.REPLAY: "Backtest", SourceMode.LIVE: "Live paper"}
"""Labels of runs. A replay is never called live."""


class ClosingPolicy(StrEnum):
    LAST_STATE = "last_state"
    LAST_OPEN = "last_open"


class CloseKind(StrEnum):
    IN_RUNNING = "in_running"
    KICKOFF = "kickoff"
    TAPE_END = "tape_end"
    DURATION = "duration"
    STOP = "stop"


class Reason(StrEnum):
    """Why a decision is scored or not, in the order in which the law asks."""

    WAIT_UNSCORED = "wait_unscored"
    MARKET_KEY_MISSING = "market_key_missing"
    SIDE_MISSING = "side_missing"
    MARKET_NOT_ALLOWED = "market_not_allowed"
    OUTSIDE_WINDOW = "outside_window"
    ENTRY_MARKET_ABSENT = "entry_market_absent"
    ENTRY_SUSPENDED = "entry_suspended"
    ENTRY_SIDE_MISSING = "entry_side_missing"
    CLOSING_MARKET_ABSENT = "closing_market_absent"
    CLOSING_SUSPENDED = "closing_suspended"
    CLOSING_STALE = "closing_stale"
    CLOSING_SIDE_MISSING = "closing_side_missing"
    PENDING_HORIZON = "pending_horizon"
    SCORED = "scored"


# One row per (fixture_id, tick_seq, market_key, side). This is the long form, for ticks written by hand.
TICKS: Schema = {
    "fixture_id": pl.Int64,
    "tick_seq": pl.Int32,
    "ts_ms": pl.Int64,
    "in_running": pl.Boolean,
    "market_key": pl.String,
    "side": pl.String,
    "prob_bps": pl.Int32,
    "odds_milli": pl.Int32,
    "suspended": pl.Boolean,
}

# One row per (fixture_id, market_key, side), in that byte order; row number = series. Ticks of a series are
# tape rows start .. start + rows - 1. ``market_start`` and ``side_no`` place a side among those of its market.
SERIES: Schema = {
    "fixture_id": pl.Int64,
    "market_key": pl.String,
    "side": pl.String,
    "start": pl.Int64,
    "rows": pl.Int64,
    "market_start": pl.Int64,
    "side_no": pl.Int64,
    "n_sides": pl.Int64,
}

FIXTURES: Schema = {"fixture_id": pl.Int64, "kickoff_ts_ms": pl.Int64}

# Facts about a fixture that were known beforehand, without its kickoff; null if the source lacks them. Key: fixture_id.
ABOUT: Schema = {
    "fixture_id": pl.Int64,
    "home": pl.String,
    "away": pl.String,
    "league": pl.String,
    "season": pl.String,
    "source_id": pl.String,
}

# Each book's states of a market, from the first tick at which they were visible, with one row per side and all sides of a
# message. Sorted by the key, (fixture_id, market_key, side, book, tick_seq). ``ts_ms`` is the time of that tick.
BOOKS: Schema = {
    "fixture_id": pl.Int64,
    "market_key": pl.String,
    "side": pl.String,
    "book": pl.String,
    "tick_seq": pl.Int32,
    "ts_ms": pl.Int64,
    "prob_bps": pl.Int32,
    "odds_milli": pl.Int32,
    "suspended": pl.Boolean,
}

# The same as packs store it, without the time, which the tick has.
BOOK_ROWS: Schema = {name: dtype for name, dtype in BOOKS.items() if name != "ts_ms"}

# What an agent returns. Key: (agent_id, fixture_id, tick_seq, market_key, side).
DECISIONS: Schema = {
    "agent_id": pl.String,
    "fixture_id": pl.Int64,
    "tick_seq": pl.Int32,
    "action": pl.String,
    "market_key": pl.String,
    "side": pl.String,
    "stake": pl.Int64,
    "limit_odds_milli": pl.Int32,
    "reason": pl.String,
    "confidence": pl.Float64,
    "claimed_edge_bps": pl.Int64,
}

# End of the window of a fixture. Key: fixture_id. A fixture without ticks has no row.
FIXTURE_CLOSES: Schema = {
    "fixture_id": pl.Int64,
    "end_seq": pl.Int64,
    "close_ts_ms": pl.Int64,
    "close_kind": pl.String,
}

# Close of a market. ``close_row`` is the tape row of its first side, null without a message in the window.
CLOSES: Schema = {
    "fixture_id": pl.Int64,
    "market_key": pl.String,
    "market_start": pl.Int64,
    "n_sides": pl.Int64,
    "close_row": pl.Int64,
    "end_seq": pl.Int64,
    "close_ts_ms": pl.Int64,
    "close_kind": pl.String,
}

# A decision with the two states that score it: the only input of the scoring law.
POSITIONS: Schema = {
    "seq": pl.Int64,
    "agent_id": pl.String,
    "fixture_id": pl.Int64,
    "tick_seq": pl.Int64,
    "ts_ms": pl.Int64,
    "action": pl.String,
    "market_key": pl.String,
    "side": pl.String,
    "confidence_ppm": pl.Int64,
    "entry_present": pl.Boolean,
    "entry_suspended": pl.Boolean,
    "entry_prob_bps": pl.Int64,
    "odds_milli": pl.Int64,
    "closing_present": pl.Boolean,
    "closing_suspended": pl.Boolean,
    "close_prob_bps": pl.Int64,
    "closing_ts_ms": pl.Int64,
    "end_seq": pl.Int64,
    "close_ts_ms": pl.Int64,
    "close_kind": pl.String,
}

# The whole market, in byte order of side.
SIDES = pl.List(pl.Struct({"odds_milli": pl.Int64, "prob_bps": pl.Int64, "side": pl.String}))

# The policy gate's reasons against each proposal, before and after the quote. Both are null for a WAIT.
REASONS = pl.List(pl.String)
VERDICTS: Schema = {"pre": REASONS, "post": REASONS}

# A venue's answer to an allowed action. Key: decision_seq. It is neither evidence nor scored.
RECEIPTS: Schema = {
    "run_id": pl.String,
    "decision_seq": pl.Int64,
    "agent_id": pl.String,
    "ts_ms": pl.Int64,
    "venue": pl.String,
    "status": pl.String,
    "stake": pl.Int64,
    "odds_milli": pl.Int64,
}

# One row per decision, abstentions and invalid ones included, in order of ``seq``.
SCORES: Schema = {
    "seq": pl.Int64,
    "agent_id": pl.String,
    "fixture_id": pl.Int64,
    "tick_seq": pl.Int64,
    "market_key": pl.String,
    "side": pl.String,
    "valid": pl.Boolean,
    "reason": pl.String,
    "entry_prob_bps": pl.Int64,
    "odds_milli": pl.Int64,
    "close_prob_bps": pl.Int64,
    "clv_bps": pl.Int64,
    "edge_bps": pl.Int64,
    "close_kind": pl.String,
    "closing_age_ms": pl.Int64,
    "confidence_ppm": pl.Int64,
}

# Published results of a run, one row per agent.
OUTCOMES: Schema = {
    "agent_id": pl.String,
    "action_count": pl.Int64,
    "valid_count": pl.Int64,
    "invalid_count": pl.Int64,
    "abstention_count": pl.Int64,
    "pending_count": pl.Int64,
    "valid_pct": pl.Float64,
    "total_clv_bps": pl.Int64,
    "mean_clv_bps": pl.Float64,
    "sim_pnl": pl.Int64,
    "brier": pl.Float64,
    "max_drawdown": pl.Float64,
}


def conform(frame: pl.DataFrame, schema: Schema, name: str) -> pl.DataFrame:
    """Return the frame in the schema's column order, with nulls and integer widths cast; ``SchemaError`` if that fails."""
    found = dict(frame.schema)
    if list(found.items()) == list(schema.items()):
        return frame
    missing = [column for column in schema if column not in found]
    unknown = [column for column in found if column not in schema]
    if missing or unknown:
        raise SchemaError(f"{name} must have the columns {list(schema)}: missing {missing}, unknown {unknown}")
    wrong = [
        f"{column} is {found[column]}, not {dtype}" for column, dtype in schema.items() if not _converts(found[column], dtype)
    ]
    if wrong:
        raise SchemaError(f"{name}: " + "; ".join(wrong))
    try:
        return frame.select(pl.col(column).cast(dtype) for column, dtype in schema.items())
    except pl.exceptions.InvalidOperationError as error:
        raise SchemaError(f"{name}: {error}") from error


def _converts(found: pl.DataType, wanted: pl.DataType | type[pl.DataType]) -> bool:
    """Check that a cast keeps values: same dtype, only nulls, or another width of integer. The cast refuses overflow."""
    return found in (wanted, pl.Null) or (found.is_integer() and wanted.is_integer())
