"""Evidence lines: how decisions, closes and scores are written, column by column and without a row loop.

A line is canonical JSON by construction: keys stand in byte order, integers are written as integers, and texts are escaped
as RFC 8785 3.2.2.2 says. The same functions write a run and, on reading, show that its bytes could not have been others.
``docs/reference/evidence-format.md`` is the format in words.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import polars as pl

from clvlab.law.schema import SCORES, Schema
from clvlab.proof.canonical import canonical

__all__ = [
    "CLOSE_EVENTS",
    "DECISION_EVENTS",
    "SIDES",
    "Kind",
    "batches",
    "close_lines",
    "decision_lines",
    "event_line",
    "score_lines",
]

_BATCH_ROWS = 65_536
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_ESCAPES = {chr(code): f"\\u{code:04x}" for code in range(0x20)} | _SHORT
_TEXTS = ("action", "agent_id", "close_kind", "confidence_raw", "market_key", "reason", "side")
_RISKY = r'["\\\x00-\x1f]'


class Kind(StrEnum):
    RUN_STARTED = "RUN_STARTED"
    DECISION = "DECISION"
    AGENT_ERROR = "AGENT_ERROR"
    MARKET_CLOSE = "MARKET_CLOSE"
    RUN_SEALED = "RUN_SEALED"


# The whole market, in byte order of side.
SIDES = pl.List(pl.Struct({"odds_milli": pl.Int64, "prob_bps": pl.Int64, "side": pl.String}))

# One row per DECISION line; the four last columns are null without a market state.
DECISION_EVENTS: Schema = {
    "seq": pl.Int64,
    "agent_id": pl.String,
    "fixture_id": pl.Int64,
    "tick_seq": pl.Int64,
    "ts_ms": pl.Int64,
    "action": pl.String,
    "market_key": pl.String,
    "side": pl.String,
    "stake": pl.Int64,
    "limit_odds_milli": pl.Int64,
    "reason": pl.String,
    "confidence_ppm": pl.Int64,
    "confidence_raw": pl.String,
    "claimed_edge_bps": pl.Int64,
    "state_tick_seq": pl.Int64,
    "state_ts_ms": pl.Int64,
    "state_suspended": pl.Boolean,
    "sides": SIDES,
}

# One row per MARKET_CLOSE line; the state as above.
CLOSE_EVENTS: Schema = {
    "seq": pl.Int64,
    "fixture_id": pl.Int64,
    "market_key": pl.String,
    "end_seq": pl.Int64,
    "close_ts_ms": pl.Int64,
    "close_kind": pl.String,
    "state_tick_seq": pl.Int64,
    "state_ts_ms": pl.Int64,
    "state_suspended": pl.Boolean,
    "sides": SIDES,
}


def event_line(kind: Kind, payload: dict[str, Any], seq: int) -> bytes:
    """Write one event as a line, line feed included."""
    return canonical({"kind": kind.value, "payload": payload, "seq": seq}) + b"\n"


def batches(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Cut a frame into pieces that stay in the processor's cache."""
    yield from frame.iter_slices(_BATCH_ROWS)


def _integer(column: str) -> pl.Expr:
    return pl.col(column).cast(pl.String).fill_null("null")


def _boolean(column: str) -> pl.Expr:
    return pl.when(pl.col(column)).then(pl.lit("true")).otherwise(pl.lit("false"))


def _quoted(text: pl.Expr, *, escape: bool) -> pl.Expr:
    escaped = text.str.replace_many(_ESCAPES) if escape else text
    return (pl.lit('"') + escaped + pl.lit('"')).fill_null("null")


def _risky(texts: pl.Series) -> bool:
    return bool(texts.str.contains(_RISKY).any())


def _sides(frame: pl.DataFrame) -> pl.Expr:
    entry = pl.element().struct
    names = frame["sides"].explode().struct.field("side")
    side = pl.concat_str(
        pl.lit('{"odds_milli":'),
        entry.field("odds_milli").cast(pl.String).fill_null("null"),
        pl.lit(',"prob_bps":'),
        entry.field("prob_bps").cast(pl.String).fill_null("null"),
        pl.lit(',"side":'),
        _quoted(entry.field("side"), escape=_risky(names)),
        pl.lit("}"),
    )
    return pl.col("sides").list.eval(side).list.join(",")


def _state(frame: pl.DataFrame, *, with_age: bool) -> pl.Expr:
    age = [pl.lit('"age_ms":'), (pl.col("ts_ms") - pl.col("state_ts_ms")).cast(pl.String), pl.lit(",")] if with_age else []
    state = pl.concat_str(
        pl.lit("{"),
        *age,
        pl.lit('"sides":['),
        _sides(frame),
        pl.lit('],"suspended":'),
        _boolean("state_suspended"),
        pl.lit(',"tick_seq":'),
        pl.col("state_tick_seq").cast(pl.String),
        pl.lit(',"ts_ms":'),
        pl.col("state_ts_ms").cast(pl.String),
        pl.lit("}"),
    )
    return state.fill_null("null")


def _lines(frame: pl.DataFrame, parts: list[str | pl.Expr]) -> bytes:
    """Join literal and column parts into lines; text columns of the frame are quoted first."""
    texts = [column for column in _TEXTS if column in frame.columns]
    quoted = frame.with_columns(_quoted(pl.col(column), escape=_risky(frame[column])).alias(column) for column in texts)
    line = pl.concat_str(pl.lit(part) if isinstance(part, str) else part for part in parts)
    joined: bytes = quoted.select(line.str.join("").cast(pl.Binary)).item()  # as bytes: a str would be copied twice
    return joined


def decision_lines(frame: pl.DataFrame) -> bytes:
    """Write ``DECISION_EVENTS`` as lines."""
    parts: list[str | pl.Expr] = [
        '{"kind":"DECISION","payload":{"action":{"limit_odds_milli":',
        _integer("limit_odds_milli"),
        ',"market_key":',
        pl.col("market_key"),
        ',"side":',
        pl.col("side"),
        ',"stake":',
        _integer("stake"),
        ',"type":',
        pl.col("action"),
        '},"agent_id":',
        pl.col("agent_id"),
        ',"fixture_id":',
        _integer("fixture_id"),
        ',"market_state":',
        _state(frame, with_age=True),
        ',"policy":null,"tick_seq":',
        _integer("tick_seq"),
        ',"ts_ms":',
        _integer("ts_ms"),
        ',"untrusted":{"claimed_edge_bps":',
        _integer("claimed_edge_bps"),
        ',"confidence_ppm":',
        _integer("confidence_ppm"),
        ',"confidence_raw":',
        pl.col("confidence_raw"),
        ',"reason":',
        pl.col("reason"),
        '}},"seq":',
        _integer("seq"),
        "}\n",
    ]
    return _lines(frame, parts)


def close_lines(frame: pl.DataFrame) -> bytes:
    """Write ``CLOSE_EVENTS`` as lines."""
    parts: list[str | pl.Expr] = [
        '{"kind":"MARKET_CLOSE","payload":{"close_kind":',
        pl.col("close_kind"),
        ',"close_ts_ms":',
        _integer("close_ts_ms"),
        ',"closing":',
        _state(frame, with_age=False),
        ',"end_seq":',
        _integer("end_seq"),
        ',"fixture_id":',
        _integer("fixture_id"),
        ',"market_key":',
        pl.col("market_key"),
        '},"seq":',
        _integer("seq"),
        "}\n",
    ]
    return _lines(frame, parts)


def score_lines(frame: pl.DataFrame) -> bytes:
    """Write ``SCORES`` as lines."""
    parts: list[str | pl.Expr] = []
    for number, column in enumerate(sorted(SCORES)):
        parts.append(("{" if number == 0 else ",") + f'"{column}":')
        dtype = SCORES[column]
        parts.append(pl.col(column) if dtype == pl.String else _boolean(column) if dtype == pl.Boolean else _integer(column))
    return _lines(frame, [*parts, "}\n"])
