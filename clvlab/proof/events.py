"""Evidence lines: how decisions, closes and scores are written, column by column and without a row loop.

A line is canonical JSON by construction: keys stand in byte order, integers are written as integers, and texts are escaped
as RFC 8785 3.2.2.2 says. The same functions write a run and, on reading, show that its bytes could not have been others.
``docs/reference/evidence-format.md`` is the format in words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any

import polars as pl

from clvlab.errors import EvidenceError
from clvlab.law.schema import SCORES, VERDICTS, Schema
from clvlab.proof.canonical import canonical

_BATCH_ROWS = 8192
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_ESCAPES = {chr(code): f"\\u{code:04x}" for code in range(0x20)} | _SHORT
_RISKY = re.compile(r'["\\\x00-\x1f]')

# Lines as templates: <column> stands for its JSON value, <column?> for one that may be null.
_SLOT = re.compile(r"<(\w+\??)>")
_DECISION = (
    '{"kind":"DECISION","payload":{"action":{"limit_odds_milli":<limit_odds_milli?>,"market_key":<market_key?>,"side":<side?>,'
    '"stake":<stake?>,"type":<action>},"agent_id":<agent_id>,"fixture_id":<fixture_id>,"market_state":<state>,"policy":<verdict?>,'
    '"tick_seq":<tick_seq>,"ts_ms":<ts_ms>,"untrusted":{"claimed_edge_bps":<claimed_edge_bps?>,'
    '"confidence_ppm":<confidence_ppm?>,"confidence_raw":<confidence_raw?>,"reason":<reason?>}},"seq":<seq>}\n'
)
_CLOSE = (
    '{"kind":"MARKET_CLOSE","payload":{"close_kind":<close_kind>,"close_ts_ms":<close_ts_ms>,"closing":<state>,'
    '"end_seq":<end_seq>,"fixture_id":<fixture_id>,"market_key":<market_key>},"seq":<seq>}\n'
)
_RECEIPT = (
    '{"agent_id":<agent_id>,"decision_seq":<decision_seq>,"non_scoring":true,"odds_milli":<odds_milli?>,"run_id":<run_id>,'
    '"stake":<stake>,"status":<status>,"ts_ms":<ts_ms>,"venue":<venue>}\n'
)
_SCORE = "{" + ",".join(f'"{column}":<{column}?>' for column in sorted(SCORES)) + "}\n"
_STATE = '"sides":[<sides>],"suspended":<state_suspended>,"tick_seq":<state_tick_seq>,"ts_ms":<state_ts_ms>}'
_ENTRY_STATE, _CLOSING_STATE = '{"age_ms":<age_ms>,' + _STATE, "{" + _STATE
_VERDICT = '{"post":{"allowed":<post_allowed>,"reasons":[<post>]},"pre":{"allowed":<pre_allowed>,"reasons":[<pre>]}}'
_SIDE = '{"odds_milli":<odds_milli?>,"prob_bps":<prob_bps?>,"side":<side>}'


class Kind(StrEnum):
    RUN_STARTED = "RUN_STARTED"
    DECISION = "DECISION"
    AGENT_ERROR = "AGENT_ERROR"
    MARKET_CLOSE = "MARKET_CLOSE"
    RUN_SEALED = "RUN_SEALED"


# The whole market, in byte order of side.
SIDES = pl.List(pl.Struct({"odds_milli": pl.Int64, "prob_bps": pl.Int64, "side": pl.String}))

# One row per DECISION line but for the verdicts of the gate; the four last columns are null without a market state.
PROPOSAL_EVENTS: Schema = {
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

# One row per DECISION line.
DECISION_EVENTS: Schema = PROPOSAL_EVENTS | VERDICTS

# By time, then by names: who was asked first must shape no byte of the evidence (evidence-format.md).
SEALED_ORDER = ("ts_ms", "fixture_id", "tick_seq", "agent_id", "market_key", "side", "action")

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


def event_line(kind: Kind, payload: Mapping[str, Any], seq: int) -> bytes:
    """Write one event as a line, line feed included."""
    return canonical({"kind": kind.value, "payload": payload, "seq": seq}) + b"\n"


def batches(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Cut a frame into pieces that stay in the processor's cache."""
    yield from frame.iter_slices(_BATCH_ROWS)


def decision_lines(frame: pl.DataFrame) -> bytes:
    """Write ``DECISION_EVENTS`` as lines."""
    return _lines(frame, _DECISION, _ENTRY_STATE)


def close_lines(frame: pl.DataFrame) -> bytes:
    """Write ``CLOSE_EVENTS`` as lines."""
    return _lines(frame, _CLOSE, _CLOSING_STATE)


def score_lines(frame: pl.DataFrame) -> bytes:
    """Write ``SCORES`` as lines."""
    return _lines(frame, _SCORE)


def receipt_lines(frame: pl.DataFrame) -> bytes:
    """Write ``RECEIPTS`` as lines, which are no evidence."""
    return _lines(frame, _RECEIPT)


def _lines(frame: pl.DataFrame, template: str, state_template: str = "") -> bytes:
    """Fill a template for every row; ``<state>`` in it is the filled state template, or null where that lacks a value.

    Raises
    ------
    EvidenceError
        A null in a column that must have a value.
    """
    line = _line(template, state_template, tuple(frame.schema.items()), frozenset(_risky(frame)))
    lines = frame.select(line).to_series()
    if lines.null_count():
        raise EvidenceError("a line needs a value where a null stands")
    # The one text buffer of an array with 64-bit offsets holds the lines end to end.
    buffer = lines.to_arrow(compat_level=pl.CompatLevel.oldest()).buffers()[2]
    return buffer.to_pybytes() if buffer else b""


@lru_cache(maxsize=64)  # to put one together takes longer than to write a few lines by it
def _line(template: str, state_template: str, columns: tuple[tuple[str, pl.DataType], ...], risky: frozenset[str]) -> pl.Expr:
    """Return the filled template of a row of these columns, of which some have a character that JSON escapes."""
    texts = {column for column, dtype in columns if dtype == pl.String}
    values = {column: _value(pl.col(column), escape=column in risky) for column, dtype in columns if not dtype.is_nested()}
    if state_template:
        entry = pl.element().struct
        side = {column: _value(entry.field(column), escape="sides" in risky) for column in ("odds_milli", "prob_bps", "side")}
        values["sides"] = pl.col("sides").list.eval(_filled(_SIDE, side, {"side"})).list.join(",")
        values["age_ms"] = (pl.col("ts_ms") - pl.col("state_ts_ms")).cast(pl.String)
        values["state"] = _filled(state_template, values, texts).fill_null("null")
    if "<verdict" in template:
        for phase in VERDICTS:
            reasons = pl.col(phase)
            values[phase] = pl.format('"{}"', reasons.list.join('","'))
            values[phase] = pl.when(reasons.list.len() > 0).then(values[phase]).otherwise(reasons.list.join(""))
            values[f"{phase}_allowed"] = (reasons.list.len() == 0).cast(pl.String)
        values["verdict"] = _filled(_VERDICT, values, texts)
    return _filled(template, values, texts)


def _filled(template: str, values: dict[str, pl.Expr], texts: set[str]) -> pl.Expr:
    """Put values into the slots of a template, texts in quotes; null where a value without ``?`` is null."""
    parts: list[pl.Expr] = []
    for number, piece in enumerate(_SLOT.split(template)):  # literals and slots take turns
        column = piece.removesuffix("?")
        if number % 2 == 0:
            parts.append(pl.lit(piece))
        elif column not in texts:
            parts.append(values[column].fill_null("null") if piece.endswith("?") else values[column])
        else:
            quoted = [pl.lit('"'), values[column], pl.lit('"')]
            parts += [pl.concat_str(quoted).fill_null("null")] if piece.endswith("?") else quoted
    return pl.concat_str(parts)


def _value(column: pl.Expr, *, escape: bool) -> pl.Expr:
    text = column.cast(pl.String)
    return text.str.replace_many(_ESCAPES) if escape else text  # which leaves integers as they are


def _risky(frame: pl.DataFrame) -> Iterator[str]:
    """Name the columns, ``sides`` among them, with a character that JSON escapes."""
    for column, dtype in frame.schema.items():
        texts = frame[column] if dtype == pl.String else None
        if column == "sides":
            texts = frame[column].explode().struct.unnest()["side"]
        if texts is not None and _RISKY.search("".join(filter(None, texts.unique().to_list()))):
            yield column
