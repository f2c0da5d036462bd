"""Decisions that an agent may propose, and checks that refuse others before anything is sealed."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from clvlab.errors import AgentError, DecisionError
from clvlab.law.schema import DECISIONS, SAFE_INTEGER, Action, conform

# A row of DECISIONS without agent_id.
Decision = tuple[int, int, str, str | None, str | None, int | None, int | None, str | None, float | None, int | None]
DECISION_COLUMNS = {column: dtype for column, dtype in DECISIONS.items() if column != "agent_id"}
MAX_REASON_BYTES = 2000
MAX_NAME_BYTES = 200
_KEY = ["agent_id", "fixture_id", "tick_seq", "market_key", "side"]


def decisions_of(decided: Iterable[Decision], agent_id: str) -> pl.DataFrame:
    """Return ``DECISIONS`` of an agent, unchecked; ``AgentError`` if a number does not fit its column."""
    try:
        frame = pl.DataFrame(list(decided), schema=DECISION_COLUMNS, orient="row")
    except (OverflowError, pl.exceptions.PolarsError) as error:
        raise AgentError(f"{agent_id} decided with a number that does not fit: {error}") from error
    return frame.with_columns(agent_id=pl.lit(agent_id)).select(*DECISIONS)


def check_decisions(decisions: pl.DataFrame) -> pl.DataFrame:
    """Return the decisions as ``DECISIONS``; ``SchemaError`` for wrong columns or dtypes, ``DecisionError`` for a bad row."""
    decisions = conform(decisions, DECISIONS, "DECISIONS")
    name = pl.col("market_key", "side")
    rules = {
        "agent_id, fixture_id, tick_seq and action must not be null": pl.any_horizontal(
            pl.col("agent_id", "fixture_id", "tick_seq", "action").is_null()
        ),
        "action must be BACK or WAIT": ~pl.col("action").is_in([a.value for a in Action]),
        f"agent_id must have 1 to {MAX_NAME_BYTES} bytes": ~pl.col("agent_id").str.len_bytes().is_between(1, MAX_NAME_BYTES),
        f"market_key and side have a limit of {MAX_NAME_BYTES} bytes": pl.any_horizontal(name.str.len_bytes() > MAX_NAME_BYTES),
        f"reason has a limit of {MAX_REASON_BYTES} bytes": pl.col("reason").str.len_bytes() > MAX_REASON_BYTES,
        "stake must be 0 to 2**53 - 1": ~pl.col("stake").is_between(0, SAFE_INTEGER),
        "limit_odds_milli must not be negative": pl.col("limit_odds_milli") < 0,
        "claimed_edge_bps must be within 2**53 - 1": ~pl.col("claimed_edge_bps").is_between(-SAFE_INTEGER, SAFE_INTEGER),
        "fixture_id must be within 2**53 - 1": ~pl.col("fixture_id").is_between(-SAFE_INTEGER, SAFE_INTEGER),
    }
    keys = {Action.BACK: _KEY, Action.WAIT: _KEY[:3]}
    of = {action: pl.col("action") == action for action in keys}
    repeated = {action: pl.struct(key).filter(of[action]).n_unique() != of[action].sum() for action, key in keys.items()}
    broken, *doubled = decisions.select(pl.any_horizontal(rules.values()).any(), **repeated).row(0)
    for text, rule in rules.items() if broken else ():
        refused = decisions.filter(rule)
        if refused.height:
            raise DecisionError(f"{text}: {refused.height} decision(s), the first is {_first_row(refused)}")
    for action, is_doubled in zip(keys, doubled, strict=True):
        if is_doubled:
            twice = decisions.filter(of[action]).filter(pl.struct(keys[action]).is_duplicated())
            raise DecisionError(f"more than one decision for the same {', '.join(keys[action])}: {_first_row(twice)}")
    return decisions


def _first_row(decisions: pl.DataFrame) -> str:
    first = decisions.row(0, named=True)
    return str(
        {
            column: value if len(str(value)) <= 80 else f"{str(value)[:80]}..."
            for column, value in first.items()
            if value is not None
        }
    )
