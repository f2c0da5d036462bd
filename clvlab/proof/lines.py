"""Reading evidence lines into columns, strictly and without a row loop.

Columns that were read are written again as lines. If the bytes are equal, every line was canonical and had exactly the keys and
types of its kind; if not, the first line at fault is looked up and named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import polars as pl
import pyarrow as pa
from pyarrow import json as arrow_json

from clvlab.errors import EvidenceError
from clvlab.law.schema import RECEIPTS, SAFE_INTEGER, Schema, conform
from clvlab.proof.canonical import parsed
from clvlab.proof.events import CLOSE_EVENTS, DECISION_EVENTS, Kind, close_lines, decision_lines, receipt_lines
from clvlab.proof.limits import check_lines

_BATCH_BYTES = 8 << 20
_READERS = 2
_INT, _TEXT, _BOOL = pa.int64(), pa.string(), pa.bool_()
_SIDES = pa.list_(pa.struct([("odds_milli", _INT), ("prob_bps", _INT), ("side", _TEXT)]))
_STATE = [("sides", _SIDES), ("suspended", _BOOL), ("tick_seq", _INT), ("ts_ms", _INT)]
_ACTION = [("limit_odds_milli", _INT), ("market_key", _TEXT), ("side", _TEXT), ("stake", _INT), ("type", _TEXT)]
_PHASE = pa.struct([("allowed", _BOOL), ("reasons", pa.list_(_TEXT))])
_UNTRUSTED = [("claimed_edge_bps", _INT), ("confidence_ppm", _INT), ("confidence_raw", _TEXT), ("reason", _TEXT)]
_DECISION = [
    ("action", pa.struct(_ACTION)),
    ("agent_id", _TEXT),
    ("fixture_id", _INT),
    ("market_state", pa.struct([("age_ms", _INT), *_STATE])),
    ("policy", pa.struct([("post", _PHASE), ("pre", _PHASE)])),
    ("tick_seq", _INT),
    ("ts_ms", _INT),
    ("untrusted", pa.struct(_UNTRUSTED)),
]
_CLOSE = [
    ("close_kind", _TEXT),
    ("close_ts_ms", _INT),
    ("closing", pa.struct(_STATE)),
    ("end_seq", _INT),
    ("fixture_id", _INT),
    ("market_key", _TEXT),
]
_RECEIPT = [
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


def read_decisions(events: bytes, start: int, end: int) -> pl.DataFrame:
    """Read the DECISION lines between two offsets as ``DECISION_EVENTS``.

    Raises
    ------
    EvidenceError
        A line that is not canonical, or has other keys or types.
    """
    return _block(events, start, end, _decisions, DECISION_EVENTS)


def read_closes(events: bytes, start: int, end: int) -> pl.DataFrame:
    """Read the MARKET_CLOSE lines between two offsets as ``CLOSE_EVENTS``; refuses as ``read_decisions`` does."""
    return _block(events, start, end, _closes, CLOSE_EVENTS)


def read_receipts(receipts: bytes) -> pl.DataFrame:
    """Read ``receipts.jsonl`` as ``RECEIPTS``; refuses as ``read_decisions`` does."""
    if not receipts:
        return pl.DataFrame(schema=RECEIPTS)
    if not receipts.endswith(b"\n"):
        raise EvidenceError("receipts.jsonl does not end with a line feed")
    check_lines(receipts, "receipts.jsonl")
    frame = _block(receipts, 0, len(receipts), _receipts, RECEIPTS)
    if frame.select(pl.any_horizontal((~pl.col(pl.Int64).is_between(-SAFE_INTEGER, SAFE_INTEGER)).any())).item():
        raise EvidenceError("integer beyond 2**53 - 1")
    return frame


def read_single(line: bytes, kind: Kind) -> dict[str, Any]:
    """Read one line of a kind of which there are few; refuses as ``read_decisions`` does."""
    event = parsed(line[:-1])
    if not isinstance(event, dict) or event.keys() != {"kind", "payload", "seq"} or event["kind"] != kind:
        raise EvidenceError(f"a {kind} line was expected at {_shown(line)}")
    if not isinstance(event["payload"], dict):
        raise EvidenceError(f"the payload is no object in {_shown(line)}")
    return event


def _block(
    events: bytes, start: int, end: int, read: Callable[[bytes], tuple[pl.DataFrame, bytes]], schema: Schema
) -> pl.DataFrame:
    """Read the lines of one kind in batches; what is read must write the same bytes again."""

    def frame_of(cut: tuple[int, int]) -> pl.DataFrame:
        text = events[slice(*cut)]
        try:
            text.decode()  # Arrow does not look whether a text is UTF-8, and Polars relies on it
            frame, again = read(text)
        except (EvidenceError, pa.ArrowException, pl.exceptions.PolarsError, ValueError) as error:
            raise _fault(text, str(error)) from error
        if again != text:
            raise _fault(text, "it does not have exactly the keys and types of its kind")
        return frame

    if end - start <= _BATCH_BYTES:  # one batch at most, for which no thread is worth its start
        return frame_of((start, end)) if start < end else pl.DataFrame(schema=schema)
    with ThreadPoolExecutor(_READERS) as pool:  # the first batch at fault is the one reported
        return pl.concat(pool.map(frame_of, _cuts(events, start, end)))


def _cuts(events: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end:
        stop = events.find(b"\n", min(start + _BATCH_BYTES, end - 1)) + 1
        yield start, stop
        start = stop


def _table(text: bytes, schema: list[tuple[str, pa.DataType]]) -> pl.DataFrame:
    """Read one JSON object a line."""
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
    """Read events of one kind: the payload's columns beside ``seq``."""
    frame = _table(text, [("kind", _TEXT), ("payload", pa.struct(payload)), ("seq", _INT)])
    return {**_fields(frame["payload"]), "seq": frame["seq"]}


def _fields(column: pl.Series) -> dict[str, pl.Series]:
    return {field.name: field for field in column.struct.unnest()}


def _states(column: pl.Series) -> dict[str, pl.Series]:
    """Return the columns of a market's state under the names that they have in a frame."""
    return {name if name == "sides" else f"state_{name}": field for name, field in _fields(column).items()}


def _frame(columns: Mapping[str, pl.Series], schema: Schema, name: str) -> pl.DataFrame:
    return conform(pl.DataFrame({column: columns[column] for column in schema}), schema, name)


def _decisions(text: bytes) -> tuple[pl.DataFrame, bytes]:
    columns = _events(text, _DECISION)
    columns |= _fields(columns["action"]) | _fields(columns["untrusted"]) | _states(columns["market_state"])
    columns["action"] = columns["type"]
    columns |= {phase: _fields(verdict)["reasons"] for phase, verdict in _fields(columns["policy"]).items()}
    frame = _frame(columns, DECISION_EVENTS, "DECISION")
    return frame, decision_lines(frame)


def _closes(text: bytes) -> tuple[pl.DataFrame, bytes]:
    columns = _events(text, _CLOSE)
    frame = _frame(columns | _states(columns["closing"]), CLOSE_EVENTS, "MARKET_CLOSE")
    return frame, close_lines(frame)


def _receipts(text: bytes) -> tuple[pl.DataFrame, bytes]:
    frame = conform(_table(text, _RECEIPT).drop("non_scoring"), RECEIPTS, "a receipt")
    return frame, receipt_lines(frame)


def _fault(text: bytes, reason: str) -> EvidenceError:
    """Name the first line that is no canonical JSON; without one, the reason stands for the whole batch."""
    for line in text[:-1].split(b"\n"):
        try:
            parsed(line)
        except EvidenceError as error:
            return EvidenceError(f"{error} in {_shown(line)}")
    return EvidenceError(f"{reason} near {_shown(text)}")


def _shown(line: bytes) -> str:
    return repr(line[:60].decode("utf-8", "replace"))
