"""Lines of decisions, closes, scores and receipts.

Frames are written column by column. A line is canonical JSON by construction: keys are in byte order, integers are written as
integers, and texts are escaped by RFC 8785 3.2.2.2. Lines are read by the types of their kind and written again. If the bytes
are equal, every line was canonical and had exactly the keys and types of its kind. Otherwise the error names the first faulty
line.
``docs/reference/evidence-format.md`` describes the format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, Literal, TypedDict, TypeVar

import numpy as np
import polars as pl
from msgspec import Meta, MsgspecError, Struct, json

from clvlab.errors import EvidenceError
from clvlab.law.gate import PostQuote, PreQuote
from clvlab.law.lines import (
    NONE,
    Closes,
    Column,
    ColumnBuilder,
    Decisions,
    Ints,
    MarketStates,
    Names,
    StatesBuilder,
    frame_of,
    listed_sides,
    spread,
)
from clvlab.law.schema import SAFE_INTEGER, SCORES, SIDES, VERDICTS, Schema
from clvlab.proof.canonical import canonical, parsed
from clvlab.proof.limits import check_lines
from clvlab.proof.merkle import pieces

_BATCH_ROWS = 8192
_PIECE_BYTES = 1 << 16  # what is decoded at once stays in the processor's cache
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
    text: str | None = frame.select(line.str.join("", ignore_nulls=False)).item()
    if text is None:
        raise EvidenceError("a line needs a value where a null stands")
    return text.encode()


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
        if column == "sides":
            texts = frame.select(pl.col(column).explode().struct.field("side").unique()).to_series().to_list()
        else:
            texts = frame[column].to_list() if dtype == pl.String else []
        if _RISKY.search("".join(filter(None, {*texts}))):
            yield column


# Lines as they are read. Keys stand in the order of canonical JSON, so that what is written again are the same bytes.


class _Struct(Struct, forbid_unknown_fields=True, gc=False):
    pass


_Int = Annotated[int, Meta(ge=-SAFE_INTEGER, le=SAFE_INTEGER)]


class _SealedSide(_Struct):
    odds_milli: _Int | None
    prob_bps: _Int | None
    side: str


class _ClosingState(_Struct):
    sides: list[_SealedSide]
    suspended: bool
    tick_seq: _Int
    ts_ms: _Int


class _EntryState(_Struct):
    age_ms: _Int
    sides: list[_SealedSide]
    suspended: bool
    tick_seq: _Int
    ts_ms: _Int


class _Action(_Struct):
    limit_odds_milli: _Int | None
    market_key: str | None
    side: str | None
    stake: _Int | None
    type: str


class _Phase(_Struct):
    allowed: bool
    reasons: list[str]


class _Policy(_Struct):
    post: _Phase
    pre: _Phase


class _UntrustedClaims(_Struct):
    claimed_edge_bps: _Int | None
    confidence_ppm: _Int | None
    confidence_raw: str | None
    reason: str | None


class _Decision(_Struct):
    action: _Action
    agent_id: str
    fixture_id: _Int
    market_state: _EntryState | None
    policy: _Policy | None
    tick_seq: _Int
    ts_ms: _Int
    untrusted: _UntrustedClaims


class _Close(_Struct):
    close_kind: str
    close_ts_ms: _Int
    closing: _ClosingState | None
    end_seq: _Int
    fixture_id: _Int
    market_key: str


class _DecisionLine(_Struct):
    kind: Literal["DECISION"]
    payload: _Decision
    seq: _Int


class _CloseLine(_Struct):
    kind: Literal["MARKET_CLOSE"]
    payload: _Close
    seq: _Int


class Receipt(_Struct):
    """A line of ``receipts.jsonl``."""

    agent_id: str
    decision_seq: _Int
    non_scoring: bool
    odds_milli: _Int | None
    run_id: str
    stake: _Int
    status: str
    ts_ms: _Int
    venue: str


# Reasons are kept as these texts: their own would take 17 times the bytes of a line, before a forged one is refused.
_REASONS = {reason.value: reason.value for reasons in (PreQuote, PostQuote) for reason in reasons}
_DECISIONS, _CLOSES, _RECEIPTS = json.Decoder(_DecisionLine), json.Decoder(_CloseLine), json.Decoder(Receipt)
_WRITER = json.Encoder()
_Line = TypeVar("_Line", bound=_Struct)


def read_lines(text: bytes, decoder: json.Decoder[_Line], start: int = 0, stop: int | None = None) -> Iterator[list[_Line]]:
    """Read lines in pieces; ``EvidenceError`` unless each has the keys and types of its kind and is canonical."""
    for piece in pieces(text, _PIECE_BYTES, start, stop):
        try:
            read = decoder.decode_lines(piece)
        except (MsgspecError, UnicodeDecodeError) as error:
            raise _fault(piece, decoder) from error
        if _WRITER.encode_lines(read) != piece:
            raise _fault(piece, decoder)
        yield read


def _fault(piece: bytes, decoder: json.Decoder[_Line]) -> EvidenceError:
    """Return an error that names the first faulty line and its fault."""
    for line in piece[:-1].split(b"\n"):
        try:
            parsed(line)
            decoder.decode(line)
        except (EvidenceError, MsgspecError) as error:
            return EvidenceError(f"{error} in {_excerpt(line)}")
    return EvidenceError(f"it does not have exactly the keys and types of its kind near {_excerpt(piece)}")


def read_receipts(receipts: bytes) -> list[Receipt]:
    """Read ``receipts.jsonl``, which is not evidence."""
    if receipts and not receipts.endswith(b"\n"):
        raise EvidenceError("receipts.jsonl does not end with a line feed")
    check_lines(receipts, "receipts.jsonl")
    read = [receipt for piece in read_lines(receipts, _RECEIPTS) for receipt in piece]
    if not all(receipt.non_scoring for receipt in read):
        raise EvidenceError("a receipt must be non_scoring")
    return read


def read_single(line: bytes, kind: Kind) -> Event:
    event: Event = parsed(line[:-1])
    if not isinstance(event, dict) or event.keys() != {"kind", "payload", "seq"} or event["kind"] != kind:
        raise EvidenceError(f"a {kind} line was expected at {_excerpt(line)}")
    if not isinstance(event["payload"], dict):
        raise EvidenceError(f"the payload is no object in {_excerpt(line)}")
    return event


def _excerpt(line: bytes) -> str:
    return repr(line[:60].decode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class Claims:
    """What agents say about their decisions, which the law does not read."""

    reason: list[str | None]
    confidence_raw: list[str | None]
    claimed_edge_bps: Ints


@dataclass(frozen=True, slots=True)
class ReadLines:
    """The lines of decisions and closes as columns, and the ``seq`` of each."""

    decisions: Decisions
    closes: Closes
    claims: Claims
    decision_seqs: Ints
    close_seqs: Ints


def read_events(events: bytes, decided: tuple[int, int], closed: tuple[int, int]) -> ReadLines:
    """Read the lines of decisions and of closes, which stand between two places each; ``EvidenceError`` as ``read_lines``."""
    keys, sides, agents, actions, kinds = (Names[str]() for _ in range(5))
    pre, post = Names[tuple[str, ...]](), Names[tuple[str, ...]]()
    columns, entry, claims = ColumnBuilder(), StatesBuilder(sides), Claims([], [], np.empty(0, dtype=np.int64))
    for lines in read_lines(events, _DECISIONS, *decided):
        _check_derived(lines)
        made = [line.payload for line in lines]
        columns["seq"].fromlist([line.seq for line in lines])
        columns["agent_id"].fromlist(agents.codes([one.agent_id for one in made]))
        columns["fixture_id"].fromlist([one.fixture_id for one in made])
        columns["tick_seq"].fromlist([one.tick_seq for one in made])
        columns["ts_ms"].fromlist([one.ts_ms for one in made])
        actions_of = [one.action for one in made]
        columns["action"].fromlist(actions.codes([one.type for one in actions_of]))
        columns["market_key"].fromlist(keys.codes([one.market_key for one in actions_of]))
        columns["side"].fromlist(sides.codes([one.side for one in actions_of]))
        columns.add_nullable("stake", [one.stake for one in actions_of])
        columns.add_nullable("limit_odds_milli", [one.limit_odds_milli for one in actions_of])
        untrusted = [one.untrusted for one in made]
        columns.add_nullable("confidence_ppm", [one.confidence_ppm for one in untrusted])
        columns.add_nullable("claimed_edge_bps", [one.claimed_edge_bps for one in untrusted])
        claims.reason.extend([one.reason for one in untrusted])
        claims.confidence_raw.extend([one.confidence_raw for one in untrusted])
        states = [one.market_state for one in made]
        entry.add(states)
        judged = [one.policy for one in made]
        columns["pre"].fromlist(pre.codes([None if one is None else _reasons(one.pre) for one in judged]))
        columns["post"].fromlist(post.codes([None if one is None else _reasons(one.post) for one in judged]))
    closes, closing = ColumnBuilder(), StatesBuilder(sides)
    for lines_of_closes in read_lines(events, _CLOSES, *closed):
        ended = [line.payload for line in lines_of_closes]
        closes["seq"].fromlist([line.seq for line in lines_of_closes])
        closes["fixture_id"].fromlist([one.fixture_id for one in ended])
        closes["market_key"].fromlist(keys.codes([one.market_key for one in ended]))
        closes["end_seq"].fromlist([one.end_seq for one in ended])
        closes["close_ts_ms"].fromlist([one.close_ts_ms for one in ended])
        closes["close_kind"].fromlist(kinds.codes([one.close_kind for one in ended]))
        closing.add([one.closing for one in ended])
    return ReadLines(
        Decisions(
            agents.coded(columns["agent_id"]),
            columns.ints("fixture_id"),
            columns.ints("tick_seq"),
            columns.ints("ts_ms"),
            actions.coded(columns["action"]),
            keys.coded(columns["market_key"]),
            sides.coded(columns["side"]),
            columns.ints("stake"),
            columns.ints("limit_odds_milli"),
            columns.ints("confidence_ppm"),
            entry.states(),
            pre.coded(columns["pre"]),
            post.coded(columns["post"]),
        ),
        Closes(
            closes.ints("fixture_id"),
            keys.coded(closes["market_key"]),
            closes.ints("end_seq"),
            closes.ints("close_ts_ms"),
            kinds.coded(closes["close_kind"]),
            closing.states(),
        ),
        replace(claims, claimed_edge_bps=columns.ints("claimed_edge_bps")),
        columns.ints("seq"),
        closes.ints("seq"),
    )


def _reasons(phase: _Phase) -> tuple[str, ...]:
    return tuple([_REASONS[reason] for reason in phase.reasons]) if phase.reasons else ()


def _check_derived(lines: Sequence[_DecisionLine]) -> None:
    """Refuse a line in which a value contradicts another that says the same."""
    for line in lines:
        made, state, policy = line.payload, line.payload.market_state, line.payload.policy
        if state is not None and state.age_ms != made.ts_ms - state.ts_ms:
            raise EvidenceError(f"age_ms is {state.age_ms} at seq {line.seq}, not {made.ts_ms - state.ts_ms} as its times say")
        if policy is None:
            continue
        for unknown in (reason for reason in policy.pre.reasons + policy.post.reasons if reason not in _REASONS):
            raise EvidenceError(f"{unknown!r:.80} at seq {line.seq} is not a reason of the policy")
        if policy.pre.allowed is bool(policy.pre.reasons) or policy.post.allowed is bool(policy.post.reasons):
            raise EvidenceError(f"a phase of the policy at seq {line.seq} must be allowed exactly when it has no reason")


# Frames of the lines, for people.


def decision_frame(made: Decisions, claims: Claims) -> pl.DataFrame:
    """Return ``DECISION_EVENTS``."""
    count = len(made)
    columns: dict[str, Column] = {
        "seq": np.arange(1, count + 1),
        "agent_id": made.agent_id,
        "fixture_id": made.fixture_id,
        "tick_seq": made.tick_seq,
        "ts_ms": made.ts_ms,
        "action": made.action,
        "market_key": made.market_key,
        "side": made.side,
        "stake": made.stake,
        "limit_odds_milli": made.limit_odds_milli,
        "reason": pl.Series(claims.reason, dtype=pl.String),
        "confidence_ppm": made.confidence_ppm,
        "confidence_raw": pl.Series(claims.confidence_raw, dtype=pl.String),
        "claimed_edge_bps": claims.claimed_edge_bps,
        "pre": made.pre,
        "post": made.post,
    }
    return frame_of(columns | _state_columns(made.states, count), DECISION_EVENTS)


def close_frame(closes: Closes, first_seq: int) -> pl.DataFrame:
    """Return ``CLOSE_EVENTS`` of closes that are numbered from ``first_seq``."""
    columns: dict[str, Column] = {
        "seq": np.arange(first_seq, first_seq + len(closes)),
        "fixture_id": closes.fixture_id,
        "market_key": closes.market_key,
        "end_seq": closes.end_seq,
        "close_ts_ms": closes.close_ts_ms,
        "close_kind": closes.close_kind,
    }
    return frame_of(columns | _state_columns(closes.states, len(closes)), CLOSE_EVENTS)


def _state_columns(states: MarketStates, count: int) -> dict[str, Column]:
    side: dict[str, Column] = {"odds_milli": states.odds_milli, "prob_bps": states.prob_bps, "side": states.side}
    prices = frame_of(side, {"odds_milli": pl.Int64, "prob_bps": pl.Int64, "side": pl.String})
    place = spread(np.arange(len(states.line)), states.line, count, len(states.line))  # of the null at the end
    return {
        "state_tick_seq": spread(states.tick_seq, states.line, count, NONE),
        "state_ts_ms": spread(states.ts_ms, states.line, count, NONE),
        "state_suspended": pl.Series([*states.suspended.tolist(), None], dtype=pl.Boolean)[place],
        "sides": listed_sides(prices, states.size)[place],
    }
