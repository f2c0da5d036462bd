"""Lines of decisions, closes, scores and receipts.

Lines of decisions and closes are written by the types that read them. What is read is written again: if the bytes are equal,
every line was canonical and had exactly the keys and types of its kind. Otherwise the error names the first faulty line.
Lines of scores and receipts have no nested values. They are written from frames, column by column. A line is canonical JSON by
construction: keys are in byte order, integers are written as integers, and texts are escaped by RFC 8785 3.2.2.2.
``docs/reference/evidence-format.md`` describes the format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Annotated, Any, Literal, TypedDict, TypeVar

import numpy as np
import polars as pl
from msgspec import Meta, MsgspecError, Struct, json

from clvlab.errors import EvidenceError
from clvlab.law.gate import PostQuote, PreQuote
from clvlab.law.lines import (
    NONE,
    Categorical,
    Closes,
    Column,
    ColumnBuilder,
    Decisions,
    Ints,
    MarketStates,
    Names,
    StatesBuilder,
    frame_of,
    spread,
)
from clvlab.law.schema import SAFE_INTEGER, SCORES, SIDES, VERDICTS, Schema
from clvlab.proof.canonical import canonical, parsed
from clvlab.proof.limits import check_lines
from clvlab.proof.merkle import pieces

_BATCH_ROWS = 8192
_LINES_AT_ONCE = 500
_PIECE_BYTES = 1 << 16  # what is decoded at once stays in the processor's cache
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_ESCAPES = {chr(code): f"\\u{code:04x}" for code in range(0x20)} | _SHORT
_RISKY = re.compile(r'["\\\x00-\x1f]')

# Templates of lines without nested values: <column> stands for its JSON value, and <column?> for a value that may be null.
_SLOT = re.compile(r"<(\w+\??)>")
_RECEIPT = (
    '{"agent_id":<agent_id>,"decision_seq":<decision_seq>,"non_scoring":true,"odds_milli":<odds_milli?>,"run_id":<run_id>,'
    '"stake":<stake>,"status":<status>,"ts_ms":<ts_ms>,"venue":<venue>}\n'
)
_SCORE = "{" + ",".join(f'"{column}":<{column}?>' for column in sorted(SCORES)) + "}\n"


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


def score_lines(frame: pl.DataFrame) -> bytes:
    return _lines(frame, _SCORE)


def receipt_lines(frame: pl.DataFrame) -> bytes:
    """Return ``RECEIPTS`` as lines, which are not evidence."""
    return _lines(frame, _RECEIPT)


def _lines(frame: pl.DataFrame, template: str) -> bytes:
    """Fill a template for every row."""
    line = _line(template, tuple(frame.schema.items()), frozenset(_risky(frame)))
    text: str | None = frame.select(line.str.join("", ignore_nulls=False)).item()
    if text is None:
        raise EvidenceError("a line needs a value where a null stands")
    return text.encode()


@lru_cache(maxsize=64)  # building one takes longer than writing a few lines with it
def _line(template: str, columns: tuple[tuple[str, pl.DataType], ...], risky: frozenset[str]) -> pl.Expr:
    """Put values into a template's slots, with texts in quotes; ``None`` if a value without ``?`` is ``None``."""
    texts = {column for column, dtype in columns if dtype == pl.String}
    parts: list[pl.Expr] = []
    for number, piece in enumerate(_SLOT.split(template)):  # literals and slots alternate
        column = piece.removesuffix("?")
        if number % 2 == 0:
            parts.append(pl.lit(piece))
            continue
        value = pl.col(column).cast(pl.String)
        if column in texts:  # integers have nothing to escape
            escaped = value.str.replace_many(_ESCAPES) if column in risky else value
            value = pl.concat_str([pl.lit('"'), escaped, pl.lit('"')])
        parts.append(value.fill_null("null") if piece.endswith("?") else value)
    return pl.concat_str(parts)


def _risky(frame: pl.DataFrame) -> Iterator[str]:
    """Yield the columns with a character that JSON escapes."""
    for column, dtype in frame.schema.items():
        if dtype == pl.String and _RISKY.search("".join(filter(None, {*frame[column].to_list()}))):
            yield column


# Lines of decisions and closes. Keys stand in the order of canonical JSON, so that what is read and written are the same bytes.


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


@dataclass(frozen=True)
class Events:
    """The decisions and closes of a run, as columns for the law and as frames for people, and the ``seq`` of each."""

    decisions: Decisions
    closes: Closes
    claims: Claims
    decision_seqs: Ints
    close_seqs: Ints

    @property
    def lines(self) -> tuple[Decisions, Closes]:
        return self.decisions, self.closes

    @cached_property
    def frames(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """``DECISION_EVENTS`` and ``CLOSE_EVENTS``."""
        return _decision_frame(self), _close_frame(self)


def read_events(events: bytes, decided: tuple[int, int], closed: tuple[int, int]) -> Events:
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
    return Events(
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


def decision_lines(events: Events) -> Iterator[bytes]:
    """Yield the lines of decisions in pieces; ``EvidenceError`` if a value is missing that a line needs."""
    made, claims, states = events.decisions, events.claims, _SealedStates(events.decisions.states)
    policies = _Policies(made)
    for start in range(0, len(made), _LINES_AT_ONCE):
        rows = slice(start, min(start + _LINES_AT_ONCE, len(made)))
        ts_ms = _values(made.ts_ms, rows)
        entries = [
            state and _EntryState(at_ms - state.ts_ms, state.sides, state.suspended, state.tick_seq, state.ts_ms)
            for at_ms, state in zip(ts_ms, states.of(rows), strict=True)
        ]
        actions = map(
            _Action,
            _nullable(made.limit_odds_milli, rows),
            _nullable_texts(made.market_key, rows),
            _nullable_texts(made.side, rows),
            _nullable(made.stake, rows),
            _texts(made.action, rows),
        )
        untrusted = map(
            _UntrustedClaims,
            _nullable(claims.claimed_edge_bps, rows),
            _nullable(made.confidence_ppm, rows),
            claims.confidence_raw[rows],
            claims.reason[rows],
        )
        payloads = map(
            _Decision,
            actions,
            _texts(made.agent_id, rows),
            _values(made.fixture_id, rows),
            entries,
            policies.of(rows),
            _values(made.tick_seq, rows),
            ts_ms,
            untrusted,
        )
        numbered = zip(payloads, _values(events.decision_seqs, rows), strict=True)
        yield _WRITER.encode_lines([_DecisionLine("DECISION", payload, seq) for payload, seq in numbered])


def close_lines(events: Events) -> Iterator[bytes]:
    """Yield the lines of closes in pieces; ``EvidenceError`` if a value is missing that a line needs."""
    closes, states = events.closes, _SealedStates(events.closes.states)
    for start in range(0, len(closes), _LINES_AT_ONCE):
        rows = slice(start, min(start + _LINES_AT_ONCE, len(closes)))
        payloads = map(
            _Close,
            _texts(closes.close_kind, rows),
            _values(closes.close_ts_ms, rows),
            states.of(rows),
            _values(closes.end_seq, rows),
            _values(closes.fixture_id, rows),
            _texts(closes.market_key, rows),
        )
        numbered = zip(payloads, _values(events.close_seqs, rows), strict=True)
        yield _WRITER.encode_lines([_CloseLine("MARKET_CLOSE", payload, seq) for payload, seq in numbered])


def _values(column: Ints, rows: slice) -> list[int]:
    part = column[rows]
    if (part == NONE).any():
        raise EvidenceError("a line needs a value where a null stands")
    values: list[int] = part.tolist()
    return values


def _nullable(column: Ints, rows: slice) -> list[int | None]:
    return [None if value == NONE else value for value in column[rows].tolist()]


def _texts(column: Categorical[str], rows: slice) -> list[str]:
    if (column.codes[rows] < 0).any():
        raise EvidenceError("a line needs a value where a null stands")
    values = column.values
    return [values[code] for code in column.codes[rows].tolist()]


def _nullable_texts(column: Categorical[str], rows: slice) -> list[str | None]:
    values = column.values
    return [None if code < 0 else values[code] for code in column.codes[rows].tolist()]


class _SealedStates:
    """The market states of lines, as they are sealed."""

    def __init__(self, states: MarketStates) -> None:
        self._states, self._ends = states, np.cumsum(states.size)

    def of(self, lines: slice) -> list[_ClosingState | None]:
        """Return the state of each of some lines."""
        states = self._states
        first, last = np.searchsorted(states.line, (lines.start, lines.stop)).tolist()
        ends = [int(self._ends[first - 1]) if first else 0, *self._ends[first:last].tolist()]
        own, prices = slice(first, last), slice(ends[0], ends[-1])
        columns = (_nullable(states.odds_milli, prices), _nullable(states.prob_bps, prices), _texts(states.side, prices))
        sides = list(map(_SealedSide, *columns))
        listed = [sides[start - ends[0] : end - ends[0]] for start, end in pairwise(ends)]
        message = (states.suspended[own].tolist(), _values(states.tick_seq, own), _values(states.ts_ms, own))
        found: list[_ClosingState | None] = [None] * (lines.stop - lines.start)
        for line, state in zip((states.line[own] - lines.start).tolist(), map(_ClosingState, listed, *message), strict=True):
            found[line] = state
        return found


class _Policies:
    """The verdicts of the gate, as they are sealed. Equal ones are one object."""

    def __init__(self, decisions: Decisions) -> None:
        self._pre, self._post = decisions.pre, decisions.post
        self._known: dict[tuple[int, int], _Policy | None] = {}

    def of(self, rows: slice) -> Iterator[_Policy | None]:
        for key in zip(self._pre.codes[rows].tolist(), self._post.codes[rows].tolist(), strict=True):
            if key not in self._known:
                self._known[key] = self._policy(*key)
            yield self._known[key]

    def _policy(self, pre: int, post: int) -> _Policy | None:
        if pre < 0:
            return None
        phases = [self._post.values[post], self._pre.values[pre]]
        return _Policy(*(_Phase(not reasons, list(reasons)) for reasons in phases))


# Frames of the lines, for people.


def _decision_frame(events: Events) -> pl.DataFrame:
    made, claims = events.decisions, events.claims
    columns: dict[str, Column] = {
        "seq": events.decision_seqs,
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
    return frame_of(columns | _state_columns(made.states, len(made)), DECISION_EVENTS)


def _close_frame(events: Events) -> pl.DataFrame:
    closes = events.closes
    columns: dict[str, Column] = {
        "seq": events.close_seqs,
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
        "sides": _listed_sides(prices, states.size)[place],
    }


def _listed_sides(prices: pl.DataFrame, size: Ints) -> pl.Series:
    """Return ``SIDES`` of states whose prices stand end to end, and a null at the end."""
    state = np.repeat(np.arange(len(size)), size)
    rows = pl.DataFrame({"state": state, "sides": prices.to_struct()})
    return rows.group_by("state", maintain_order=True).agg("sides")["sides"].cast(SIDES).extend(pl.Series([None], dtype=SIDES))
