"""Reading sealed evidence: from the bytes of ``events.jsonl`` to the positions that the law scores.

Lines are read into columns, and the columns written again as lines. If the bytes are equal, every line was canonical and had
exactly the keys and types of its kind; if not, the first line at fault is looked up and named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import polars as pl
import pyarrow as pa
from pyarrow import json as arrow_json

from clvlab.errors import EvidenceError, WindowError
from clvlab.law.closing import Window
from clvlab.law.schema import LAW_VERSION, POSITIONS, SAFE_INTEGER, Action, CloseKind, ClosingPolicy, Schema, conform
from clvlab.proof.canonical import canonical, parsed
from clvlab.proof.events import CLOSE_EVENTS, DECISION_EVENTS, Kind, close_lines, decision_lines

__all__ = ["Evidence", "positions", "read_evidence"]

_BATCH_BYTES = 32 << 20
_Types = dict[str, tuple[type, ...]]
_INT, _TEXT, _BOOL = pa.int64(), pa.string(), pa.bool_()
_SIDES = pa.list_(pa.struct([("odds_milli", _INT), ("prob_bps", _INT), ("side", _TEXT)]))
_STATE = [("sides", _SIDES), ("suspended", _BOOL), ("tick_seq", _INT), ("ts_ms", _INT)]
_ACTION = [("limit_odds_milli", _INT), ("market_key", _TEXT), ("side", _TEXT), ("stake", _INT), ("type", _TEXT)]
_UNTRUSTED = [("claimed_edge_bps", _INT), ("confidence_ppm", _INT), ("confidence_raw", _TEXT), ("reason", _TEXT)]
_DECISION = [
    ("action", pa.struct(_ACTION)),
    ("agent_id", _TEXT),
    ("fixture_id", _INT),
    ("market_state", pa.struct([("age_ms", _INT), *_STATE])),
    ("policy", pa.null()),
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
# Keys and types of what is read one by one.
_OPTIONAL_INT, _OPTIONAL_TEXT = (int, type(None)), (str, type(None))
_STARTED: _Types = {
    "agents": (list,), "binding": (dict,), "kind": (str,), "law_version": (str,), "mode_label": (str,),
    "origin_id": _OPTIONAL_TEXT, "policy": (type(None),), "policy_hash": (type(None),), "run_id": (str,), "schema": (str,),
    "source_mode": (str,), "window": (dict,),
}  # fmt: skip
_AGENT: _Types = {
    "agent_id": (str,), "causality": (str,), "config": (dict,), "config_hash": (str,), "proof_mode": (str,),
    "source_sha256": _OPTIONAL_TEXT, "strategy": (str,), "strategy_version": (str,),
}  # fmt: skip
_BINDING: _Types = {"content_hash": _OPTIONAL_TEXT, "fixture_ids": (list,), "pack_id": _OPTIONAL_TEXT}
_ERROR: _Types = {"agent_id": (str,), "error": (str,), "fixture_id": _OPTIONAL_INT, "tick_seq": _OPTIONAL_INT}
# Columns that are never null; the others of a line may be.
_GIVEN = {"seq", "agent_id", "fixture_id", "tick_seq", "ts_ms", "action", "end_seq", "close_ts_ms", "close_kind"}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What stands in a sealed run.

    Attributes
    ----------
    started
        Payload of RUN_STARTED.
    decisions, closes
        ``DECISION_EVENTS`` and ``CLOSE_EVENTS``, in order of ``seq``.
    errors
        Payloads of AGENT_ERROR.
    """

    started: dict[str, Any]
    decisions: pl.DataFrame
    closes: pl.DataFrame
    errors: list[dict[str, Any]]

    @property
    def count(self) -> int:
        """Number of events: of lines."""
        return self.decisions.height + len(self.errors) + self.closes.height + 2

    @property
    def window(self) -> Window:
        """The window as sealed."""
        sealed = self.started["window"]
        return Window(
            window_id=sealed["window_id"],
            end_rule=sealed["end_rule"],
            duration_s=sealed["duration_s"],
            min_clv_horizon_s=sealed["min_clv_horizon_s"],
            market_allowlist=tuple(sealed["market_allowlist"]),
        )


def read_evidence(events: bytes) -> Evidence:
    """Read the bytes of a sealed run strictly.

    Steps: 1. cut the bytes into the blocks of the five kinds; 2. read decisions and closes, and write them again; 3. check
    numbering, counts and order.

    Parameters
    ----------
    events
        The whole of ``events.jsonl``.

    Raises
    ------
    EvidenceError
        A line that is not canonical, has other keys or types than its kind, or stands out of order.
    """
    if not events.endswith(b"\n"):
        raise EvidenceError("the evidence is empty or does not end with a line feed")
    first = events.index(b"\n") + 1
    after = _end_of(Kind.DECISION, events, first)
    closes_from = _start_of(Kind.MARKET_CLOSE, events, after)
    closes_to = _end_of(Kind.MARKET_CLOSE, events, closes_from)

    started = _single(events[:first], Kind.RUN_STARTED)
    decisions = _block(events, first, after, _decisions, DECISION_EVENTS)
    errors = [_single(line + b"\n", Kind.AGENT_ERROR) for line in events[after:closes_from].split(b"\n")[:-1]]
    closes = _block(events, closes_from, closes_to, _closes, CLOSE_EVENTS)
    sealed = _single(events[closes_to:], Kind.RUN_SEALED)
    evidence = Evidence(started["payload"], decisions, closes, [event["payload"] for event in errors])
    _check_order(evidence, started, errors, sealed)
    _check_started(evidence)
    return evidence


def _end_of(kind: Kind, events: bytes, start: int) -> int:
    """Give the end of the block of one kind that starts at ``start``: after its last line."""
    last = events.rfind(b'\n{"kind":"%s"' % kind.encode(), start - 1)
    return start if last < 0 else events.index(b"\n", last + 1) + 1


def _start_of(kind: Kind, events: bytes, start: int) -> int:
    """Give the first line of a kind at or after ``start``, or of the last line if there is none."""
    found = events.find(b'\n{"kind":"%s"' % kind.encode(), start - 1)
    return found + 1 if found >= 0 else max(events.rfind(b"\n", start - 1, len(events) - 1) + 1, start)


def _single(line: bytes, kind: Kind) -> dict[str, Any]:
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
    frames = [pl.DataFrame(schema=schema)]
    for position, stop in _cuts(events, start, end):
        text = events[position:stop]
        try:
            text.decode()  # Arrow does not look whether a text is UTF-8, and Polars relies on it
            frame, again = read(text)
        except (pa.ArrowException, pl.exceptions.PolarsError, ValueError) as error:
            raise _fault(text, str(error)) from error
        if again != text:
            raise _fault(text, "it does not have exactly the keys and types of its kind")
        frames.append(frame)
    return pl.concat(frames)


def _cuts(events: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end:
        stop = events.find(b"\n", min(start + _BATCH_BYTES, end - 1)) + 1
        yield start, stop
        start = stop


def _table(text: bytes, payload: list[tuple[str, pa.DataType]]) -> pl.DataFrame:
    """Read lines of one kind: the payload's columns beside ``seq``."""
    schema = pa.schema([("kind", _TEXT), ("payload", pa.struct(payload)), ("seq", _INT)])
    table = arrow_json.read_json(
        BytesIO(text),
        read_options=arrow_json.ReadOptions(block_size=max(1 << 20, len(text) if text.count(b"\n") == 1 else 0)),
        parse_options=arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
    )
    frame = pl.from_arrow(table)
    if not isinstance(frame, pl.DataFrame) or frame.height != text.count(b"\n"):
        raise ValueError("not one JSON object a line")
    return frame.drop("kind").unnest("payload")


def _decisions(text: bytes) -> tuple[pl.DataFrame, bytes]:
    table = _table(text, _DECISION)
    state = pl.col("market_state").struct
    action = pl.col("action").struct
    frame = table.select(
        "seq", "agent_id", "fixture_id", "tick_seq", "ts_ms",
        action.field("type").alias("action"), action.field("market_key", "side", "stake", "limit_odds_milli"),
        pl.col("untrusted").struct.field("reason", "confidence_ppm", "confidence_raw", "claimed_edge_bps"),
        state.field("tick_seq", "ts_ms", "suspended").name.prefix("state_"), state.field("sides"),
    )  # fmt: skip
    frame = conform(frame, DECISION_EVENTS, "DECISION")
    return frame, decision_lines(frame)


def _closes(text: bytes) -> tuple[pl.DataFrame, bytes]:
    state = pl.col("closing").struct
    frame = _table(text, _CLOSE).select(
        "seq", "fixture_id", "market_key", "end_seq", "close_ts_ms", "close_kind",
        state.field("tick_seq", "ts_ms", "suspended").name.prefix("state_"), state.field("sides"),
    )  # fmt: skip
    frame = conform(frame, CLOSE_EVENTS, "MARKET_CLOSE")
    return frame, close_lines(frame)


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


def _check_order(evidence: Evidence, started: dict[str, Any], errors: list[dict[str, Any]], sealed: dict[str, Any]) -> None:
    n, m, k = evidence.decisions.height, len(errors), evidence.closes.height
    seqs = [started["seq"], *(event["seq"] for event in errors), sealed["seq"]]
    counted = (evidence.decisions["seq"] == pl.int_range(1, n + 1, eager=True)).all() and (
        evidence.closes["seq"] == pl.int_range(n + m + 1, n + m + k + 1, eager=True)
    ).all()
    if not counted or seqs != [0, *range(n + 1, n + m + 1), n + m + k + 1]:
        raise EvidenceError("seq must count the lines from 0")
    if sealed["payload"] != {"agent_errors": m, "decisions": n, "market_closes": k}:
        raise EvidenceError(f"RUN_SEALED counts {sealed['payload']}, before it stand {n} decisions, {m} errors, {k} closes")
    bad_values = {
        "an action is neither BACK nor WAIT": ~evidence.decisions["action"].is_in([action.value for action in Action]),
        "a close_kind is unknown": ~evidence.closes["close_kind"].is_in([kind.value for kind in CloseKind]),
        "a market state is later than its decision": evidence.decisions["state_tick_seq"] > evidence.decisions["tick_seq"],
        "a closing state is outside its window": evidence.closes["state_tick_seq"] >= evidence.closes["end_seq"],
    }
    for text, bad in bad_values.items():
        if bad.any():
            raise EvidenceError(text)
    for frame in (evidence.decisions, evidence.closes):
        if any(frame[column].null_count() for column in frame.columns if column in _GIVEN):
            raise EvidenceError("null where a value must stand")
        if frame.select(pl.any_horizontal((pl.col(pl.Int64).abs() > SAFE_INTEGER).any())).item():
            raise EvidenceError("integer beyond 2**53 - 1")
    sorted_by = ["ts_ms", "fixture_id", "tick_seq", "agent_id", "market_key", "side", "action"]
    key = evidence.decisions.select(sorted_by)
    if not key.equals(key.sort(sorted_by, nulls_last=False)):
        raise EvidenceError("decisions are not in the order of time, fixture, tick, agent, market, side, action")
    if key.select(pl.all_horizontal(pl.all().eq_missing(pl.all().shift(1))).any()).item():
        raise EvidenceError("an agent decides twice on the same side of a market at a tick")
    ends = evidence.closes.select("fixture_id", "end_seq", "close_ts_ms", "close_kind").unique()
    if ends["fixture_id"].n_unique() != ends.height:
        raise EvidenceError("the markets of a fixture close at different ticks")


def _check_started(evidence: Evidence) -> None:
    started = evidence.started
    _check_types(started, _STARTED, "RUN_STARTED")
    _check_types(started["binding"], _BINDING, "the binding")
    for agent in started["agents"]:
        _check_types(agent, _AGENT, "an agent")
    for error in evidence.errors:
        _check_types(error, _ERROR, "AGENT_ERROR")
    if started["law_version"] != LAW_VERSION:
        raise EvidenceError(f"the run was sealed under the law {started['law_version']!r}, this is {LAW_VERSION}")
    if any(type(number) is not int for number in started["binding"]["fixture_ids"]):
        raise EvidenceError("a fixture id is no integer")
    agents = pl.Series([agent["agent_id"] for agent in started["agents"]], dtype=pl.String)
    if not evidence.decisions["agent_id"].is_in(agents.implode()).all():
        raise EvidenceError("a decision is by an agent that RUN_STARTED does not name")
    try:
        policy = ClosingPolicy(started["window"]["closing_policy"])
        if canonical(started["window"]) != canonical(evidence.window.payload() | {"closing_policy": policy.value}):
            raise EvidenceError("the sealed window has other keys than a window")
    except (AttributeError, KeyError, TypeError, ValueError, WindowError) as error:
        raise EvidenceError(f"RUN_STARTED is malformed: {error!r}") from error


def _check_types(value: Any, types: _Types, name: str) -> None:
    """Require exactly these keys, each of one of its types; True is no integer."""
    if not isinstance(value, dict) or value.keys() != types.keys():
        raise EvidenceError(f"{name} does not have the keys {sorted(types)}")
    for key, allowed in types.items():
        if type(value[key]) not in allowed:
            raise EvidenceError(f"{key} of {name} is {value[key]!r}")


def positions(decisions: pl.DataFrame, closes: pl.DataFrame) -> pl.DataFrame:
    """Put every decision beside the two states that score it.

    Parameters
    ----------
    decisions, closes
        ``DECISION_EVENTS`` and ``CLOSE_EVENTS``: exactly what stands in evidence.

    Returns
    -------
    pl.DataFrame
        ``POSITIONS``, in order of ``seq``.

    Raises
    ------
    EvidenceError
        Not exactly one close for every market that a BACK names, sorted by (fixture_id, market_key); or sides of a state
        that are not sorted and unique.
    """
    market = ["fixture_id", "market_key"]
    named = decisions.filter(pl.col("action") == Action.BACK, pl.col("market_key").is_not_null())
    if not closes.select(market).equals(named.select(market).unique().sort(market)):
        raise EvidenceError("there must be one MARKET_CLOSE for every market that a BACK names, sorted")
    entries, quotes = _prices(decisions, ["seq"]), _prices(closes, market)
    own = decisions.select("seq", "side").join(entries, on=["seq", "side"])
    asked = decisions.with_columns(
        market=pl.when(pl.col("action") == Action.BACK).then("market_key"),
        entry_present=pl.col("sides").is_not_null(),
        entry_suspended="state_suspended",
    )
    return conform(
        asked.lazy()
        .join(own.lazy().select("seq", entry_prob_bps="prob_bps", odds_milli="odds_milli"), on="seq", how="left")
        .join(
            closes.lazy().select(
                "fixture_id", "end_seq", "close_ts_ms", "close_kind",
                market="market_key",
                closing_present=pl.col("sides").is_not_null(),
                closing_suspended="state_suspended",
                closing_ts_ms="state_ts_ms",
            ),
            on=["fixture_id", "market"],
            how="left",
        )
        .join(
            quotes.lazy().select("fixture_id", "side", market="market_key", close_prob_bps="prob_bps"),
            on=["fixture_id", "market", "side"],
            how="left",
        )
        .sort("seq")
        .select(*POSITIONS)
        .collect(engine="in-memory"),
        POSITIONS,
        "POSITIONS",
    )  # fmt: skip


def _prices(events: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """Give one row per key and side of every state: (key, side, prob_bps, odds_milli)."""
    states = events.filter(pl.col("sides").list.len() > 0).select(*key, "sides")
    prices = states.explode("sides").unnest("sides")
    beyond = pl.any_horizontal(pl.col("prob_bps", "odds_milli").abs() > SAFE_INTEGER)
    if prices.select((pl.col("side").is_null() | beyond).any()).item():
        raise EvidenceError("a side without a name, or an integer beyond 2**53 - 1")
    same = pl.all_horizontal(pl.col(column) == pl.col(column).shift(1) for column in key)
    if prices.select((same & (pl.col("side") <= pl.col("side").shift(1))).any()).item():
        raise EvidenceError("the sides of a market must be unique and in byte order")
    return prices
