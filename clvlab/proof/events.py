"""Lines of decisions, closes, scores and receipts, written and read column by column, without a row loop.

A line is canonical JSON by construction: keys are in byte order, integers are written as integers, and texts are escaped by
RFC 8785 3.2.2.2. The same functions write the columns again after reading. If the bytes are equal, every line was canonical and
had exactly the keys and types of its kind. Otherwise the error names the first faulty line.
``docs/reference/evidence-format.md`` describes the format.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypedDict

import polars as pl
import pyarrow as pa
from pyarrow import json as arrow_json

from clvlab.errors import EvidenceError
from clvlab.law.schema import RECEIPTS, SAFE_INTEGER, SCORES, VERDICTS, Schema
from clvlab.proof.canonical import canonical, parsed
from clvlab.proof.limits import check_lines

_BATCH_ROWS = 8192
_BATCH_BYTES = 8 << 20
_READERS = 2
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_ESCAPES = {chr(code): f"\\u{code:04x}" for code in range(0x20)} | _SHORT
_RISKY = re.compile(r'["\\\x00-\x1f]')

# Templates of lines: <column> stands for its JSON value, and <column?> for a value that may be null.
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

# Schemas for Arrow of each kind of line.
_INT, _TEXT, _BOOL = pa.int64(), pa.string(), pa.bool_()
_SIDES_TYPE = pa.list_(pa.struct([("odds_milli", _INT), ("prob_bps", _INT), ("side", _TEXT)]))
_STATE_FIELDS = [("sides", _SIDES_TYPE), ("suspended", _BOOL), ("tick_seq", _INT), ("ts_ms", _INT)]
_ACTION_FIELDS = [("limit_odds_milli", _INT), ("market_key", _TEXT), ("side", _TEXT), ("stake", _INT), ("type", _TEXT)]
_PHASE_TYPE = pa.struct([("allowed", _BOOL), ("reasons", pa.list_(_TEXT))])
_UNTRUSTED_FIELDS = [("claimed_edge_bps", _INT), ("confidence_ppm", _INT), ("confidence_raw", _TEXT), ("reason", _TEXT)]
_DECISION_FIELDS = [
    ("action", pa.struct(_ACTION_FIELDS)),
    ("agent_id", _TEXT),
    ("fixture_id", _INT),
    ("market_state", pa.struct([("age_ms", _INT), *_STATE_FIELDS])),
    ("policy", pa.struct([("post", _PHASE_TYPE), ("pre", _PHASE_TYPE)])),
    ("tick_seq", _INT),
    ("ts_ms", _INT),
    ("untrusted", pa.struct(_UNTRUSTED_FIELDS)),
]
_CLOSE_FIELDS = [
    ("close_kind", _TEXT),
    ("close_ts_ms", _INT),
    ("closing", pa.struct(_STATE_FIELDS)),
    ("end_seq", _INT),
    ("fixture_id", _INT),
    ("market_key", _TEXT),
]
_RECEIPT_FIELDS = [
    ("agent_id", _TEXT),
    ("decision_seq", _INT),
    ("non_scoring", _BOOL),
    ("odds_milli", _INT),
    ("run_id", _TEXT),
    ("stake", _INT),
    ("status", _TEXT),
    ("ts_ms", _INT),
    ("venue", _TEXT),
]


class Kind(StrEnum):
    RUN_STARTED = "RUN_STARTED"
    DECISION = "DECISION"
    AGENT_ERROR = "AGENT_ERROR"
    MARKET_CLOSE = "MARKET_CLOSE"
    RUN_SEALED = "RUN_SEALED"


class Event(TypedDict):
    """A line of a rare kind, read alone. Its reader checks the payload."""

    kind: str
    payload: Any
    seq: int


# The whole market, in byte order of side.
SIDES = pl.List(pl.Struct({"odds_milli": pl.Int64, "prob_bps": pl.Int64, "side": pl.String}))

# One row per DECISION line, without the verdicts of the gate. The last four columns are null without a market state.
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

# Order by time, then by names. The order of questions to agents must not affect the evidence (evidence-format.md).
SEALED_ORDER = ("ts_ms", "fixture_id", "tick_seq", "agent_id", "market_key", "side", "action")

# One row per MARKET_CLOSE line, with the state as above.
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
    return canonical({"kind": kind.value, "payload": payload, "seq": seq}) + b"\n"


def batches(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield the frame in pieces that fit the processor's cache."""
    yield from frame.iter_slices(_BATCH_ROWS)


def decision_lines(frame: pl.DataFrame) -> bytes:
    return _lines(frame, _DECISION, _ENTRY_STATE)


def close_lines(frame: pl.DataFrame) -> bytes:
    return _lines(frame, _CLOSE, _CLOSING_STATE)


def score_lines(frame: pl.DataFrame) -> bytes:
    return _lines(frame, _SCORE)


def receipt_lines(frame: pl.DataFrame) -> bytes:
    """Return ``RECEIPTS`` as lines, which are not evidence."""
    return _lines(frame, _RECEIPT)


def _lines(frame: pl.DataFrame, template: str, state_template: str = "") -> bytes:
    """Fill a template for every row. ``<state>`` is the filled state template, or null if that lacks a value."""
    line = _line(template, state_template, tuple(frame.schema.items()), frozenset(_risky(frame)))
    lines = frame.select(line).to_series()
    if lines.null_count():
        raise EvidenceError("a line needs a value where a null stands")
    # The one text buffer of an array with 64-bit offsets holds the lines end to end.
    buffer = lines.to_arrow(compat_level=pl.CompatLevel.oldest()).buffers()[2]
    return buffer.to_pybytes() if buffer else b""


@lru_cache(maxsize=64)  # building one takes longer than writing a few lines with it
def _line(template: str, state_template: str, columns: tuple[tuple[str, pl.DataType], ...], risky: frozenset[str]) -> pl.Expr:
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
    """Put values into a template's slots, with texts in quotes; ``None`` if a value without ``?`` is ``None``."""
    parts: list[pl.Expr] = []
    for number, piece in enumerate(_SLOT.split(template)):  # literals and slots alternate
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
    return text.str.replace_many(_ESCAPES) if escape else text  # integers have nothing to escape


def _risky(frame: pl.DataFrame) -> Iterator[str]:
    """Yield the columns, ``sides`` among them, with a character that JSON escapes."""
    for column, dtype in frame.schema.items():
        texts = frame[column] if dtype == pl.String else None
        if column == "sides":
            texts = frame[column].explode().struct.unnest()["side"]
        if texts is not None and _RISKY.search("".join(filter(None, texts.unique().to_list()))):
            yield column


def read_receipts(receipts: bytes) -> pl.DataFrame:
    if not receipts:
        return pl.DataFrame(schema=RECEIPTS)
    if not receipts.endswith(b"\n"):
        raise EvidenceError("receipts.jsonl does not end with a line feed")
    check_lines(receipts, "receipts.jsonl")
    frame = read_lines(receipts, 0, len(receipts))
    if frame.select(pl.any_horizontal((~pl.col(pl.Int64).is_between(-SAFE_INTEGER, SAFE_INTEGER)).any())).item():
        raise EvidenceError("integer beyond 2**53 - 1")
    return frame


def read_single(line: bytes, kind: Kind) -> Event:
    event: Event = parsed(line[:-1])
    if not isinstance(event, dict) or event.keys() != {"kind", "payload", "seq"} or event["kind"] != kind:
        raise EvidenceError(f"a {kind} line was expected at {_excerpt(line)}")
    if not isinstance(event["payload"], dict):
        raise EvidenceError(f"the payload is no object in {_excerpt(line)}")
    return event


def read_lines(events: bytes, start: int, end: int, kind: Kind | None = None) -> pl.DataFrame:
    """Read the lines of one kind (receipts have none) between two offsets; ``EvidenceError`` unless they are canonical."""
    read, schema = _READ[kind]

    def frame_of(cut: tuple[int, int]) -> pl.DataFrame:
        text = events[slice(*cut)]
        try:
            text.decode()  # Arrow does not check UTF-8, and Polars relies on it
            frame, again = read(text)
        except (EvidenceError, pa.ArrowException, pl.exceptions.PolarsError, ValueError) as error:
            raise _fault(text, str(error)) from error
        if again != text:
            raise _fault(text, "it does not have exactly the keys and types of its kind")
        return frame

    if end - start <= _BATCH_BYTES:  # for one batch, a thread takes longer to start than it saves
        return frame_of((start, end)) if start < end else pl.DataFrame(schema=schema)
    with ThreadPoolExecutor(_READERS) as pool:  # the first faulty batch is reported
        return pl.concat(pool.map(frame_of, _cuts(events, start, end)))


def _cuts(events: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end:
        stop = events.find(b"\n", min(start + _BATCH_BYTES, end - 1)) + 1
        yield start, stop
        start = stop


def _table(text: bytes, schema: list[tuple[str, pa.DataType]]) -> pl.DataFrame:
    table = arrow_json.read_json(
        pa.BufferReader(text),
        read_options=arrow_json.ReadOptions(block_size=len(text), use_threads=False),  # the batches are read in parallel
        parse_options=arrow_json.ParseOptions(explicit_schema=pa.schema(schema), unexpected_field_behavior="error"),
    )
    frame = pl.from_arrow(table)
    if not isinstance(frame, pl.DataFrame) or frame.height != text.count(b"\n"):
        raise ValueError("not one JSON object a line")
    return frame


def _events(text: bytes, payload: list[tuple[str, pa.DataType]]) -> dict[str, pl.Series]:
    frame = _table(text, [("kind", _TEXT), ("payload", pa.struct(payload)), ("seq", _INT)])
    return {**_fields(frame["payload"]), "seq": frame["seq"]}


def _fields(column: pl.Series, prefix: str = "") -> dict[str, pl.Series]:
    return {prefix + field.name: field for field in column.struct.unnest()}


def _frame(columns: Mapping[str, pl.Series], schema: Schema) -> pl.DataFrame:
    return pl.DataFrame({column: columns[column] for column in schema}, schema)


def _decisions(text: bytes) -> tuple[pl.DataFrame, bytes]:
    columns = _events(text, _DECISION_FIELDS)
    columns |= _fields(columns["action"]) | _fields(columns["untrusted"]) | _fields(columns["market_state"], "state_")
    columns |= {"action": columns["type"], "sides": columns["state_sides"]}
    columns |= {phase: _fields(verdict)["reasons"] for phase, verdict in _fields(columns["policy"]).items()}
    frame = _frame(columns, DECISION_EVENTS)
    return frame, decision_lines(frame)


def _closes(text: bytes) -> tuple[pl.DataFrame, bytes]:
    columns = _events(text, _CLOSE_FIELDS)
    columns |= _fields(columns["closing"], "state_")
    frame = _frame(columns | {"sides": columns["state_sides"]}, CLOSE_EVENTS)
    return frame, close_lines(frame)


def _receipts(text: bytes) -> tuple[pl.DataFrame, bytes]:
    frame = _frame(_table(text, _RECEIPT_FIELDS).to_dict(), RECEIPTS)
    return frame, receipt_lines(frame)


_READ: Mapping[Kind | None, tuple[Callable[[bytes], tuple[pl.DataFrame, bytes]], Schema]] = {
    Kind.DECISION: (_decisions, DECISION_EVENTS),
    Kind.MARKET_CLOSE: (_closes, CLOSE_EVENTS),
    None: (_receipts, RECEIPTS),
}


def _fault(text: bytes, reason: str) -> EvidenceError:
    """Return an error that names the first line that is not canonical JSON, or otherwise the reason for the whole batch."""
    for line in text[:-1].split(b"\n"):
        try:
            parsed(line)
        except EvidenceError as error:
            return EvidenceError(f"{error} in {_excerpt(line)}")
    return EvidenceError(f"{reason} near {_excerpt(text)}")


def _excerpt(line: bytes) -> str:
    return repr(line[:60].decode("utf-8", "replace"))
