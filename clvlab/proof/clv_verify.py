#!/usr/bin/env python3
"""Check a sealed run with this one file, Python 3.10 or later and its standard library.

    python3 clv_verify.py RUN [--ticks ticks.csv] [--trust keys.json] [--require anchor,log] [--json]

RUN is a run folder, a proof bundle (one file), or the disclosure of one decision. This file shares no code with the program
that made them. One line per check; exit status 0 when all pass, 1 when one fails, 2 when there is nothing to check: evidence
is canonical and has the sealed hash; scores and manifest follow from it; with --ticks, its prices follow from the ticks. A
bundle may hold an anchor (a memo that a key signed for a public chain) and proofs from a log to which the run was committed
before it was made. They count by the keys that you trust, and you say which must be there: its maker can leave them out.

What it can't show: that the ticks are what the market said, that nobody tried other agents and kept silent, and, as it asks
nobody, that the chain still holds the memo. Whoever makes a whole run anew, hashes included, passes without anchor and log.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HASHES = ("run_id", "evidence_hash", "recomputed_evidence_hash", "manifest_hash")
SAFE_INTEGER = 2**53 - 1
LAW_VERSION = "clv-law/1"
MAX_WINDOW_S = (2**53 - 1) // 1_000_000
LAST_OPEN_MAX_AGE_MS = 300_000
MAX_LEVELS = 254
CHECKS = {
    "evidence_integrity": "events.jsonl is canonical, complete, in order, and has the sealed hash",
    "metrics_recomputed": "every score row follows from the evidence",
    "manifest_bound": "the manifest binds this run id, evidence and scores",
    "policy_obeyed": "every verdict follows from the sealed policy, and every receipt is for an allowed action",
    "receipt_separation": "no event is a receipt or has a key of one",
    "states_from_ticks": "every state and close in the evidence follows from the ticks",
    "anchor": "a key you trust signed a memo that is the manifest hash (that the chain holds it, only the chain can say)",
    "log": "a log you trust took the commitment before this result, and its tree holds both",
    "bundle": "every byte of the bundle is accounted for",
    "disclosed": "this decision and its score stand under the roots that the manifest binds",
}
PARTS = ("context.json", "manifest.json", "events.jsonl", "scores.jsonl", "receipts.jsonl", "anchor.json", "log.json")
MEMO_PROGRAMS = (
    "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo", "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr",
    "Memo4c2pN8afCj432Lb7RMVKi9PbQnnW7ewFFaV3oAH",
)  # fmt: skip
CLOSE_KINDS = {"pre_match": ("in_running", "kickoff", "tape_end"), "fixed_duration": ("duration",), "manual_stop": ("stop",)}

# Shapes: a dict has exactly these keys; (shape,) may be null; [shape] is a list of them; a set names the values.
_SIDE = {"odds_milli": (int,), "prob_bps": (int,), "side": str}
_STATE = {"sides": [_SIDE], "suspended": bool, "tick_seq": int, "ts_ms": int}
_PRE = {"allowed": bool, "reasons": [{
    "kill_switch_on", "market_not_allowed", "venue_not_allowed", "warmup", "cooldown_active", "stake_missing", "stake_over_max",
    "prob_out_of_range", "order_cap", "exposure_cap"}]}  # fmt: skip
_LATE = {"quote_missing", "quote_stale", "slippage_over_max", "edge_below_min", "stake_over_max"}
_POST = {"allowed": bool, "reasons": [_LATE]}
_POLICY = {
    "cooldown_s": int, "execution_mode": {"paper", "dry_run"}, "kill_switch": bool, "market_allowlist": [str],
    "max_exposure_per_fixture": (int,), "max_exposure_per_market": (int,), "max_orders": (int,), "max_prob_bps": int,
    "max_quote_age_s": int, "max_slippage_bps": int, "max_stake": int, "min_edge_bps": (int,), "min_prob_bps": int,
    "require_quote": bool, "schema": {"clvlab-policy/1"}, "venue_allowlist": [str], "warmup_ticks": int,
}  # fmt: skip
_RECEIPT = {
    "agent_id": str, "decision_seq": int, "non_scoring": bool, "odds_milli": (int,), "run_id": str, "stake": int, "status": str,
    "ts_ms": int, "venue": str,
}  # fmt: skip
_SHAPES: dict[str, Any] = {
    "RUN_STARTED": {
        "agents": [{
            "agent_id": str, "causality": {"template", "tick-by-tick", "prefix-audit", "unchecked"}, "config": dict,
            "config_hash": str, "proof_mode": str, "source_sha256": (str,), "strategy": str, "strategy_version": str}],
        "binding": {"content_hash": (str,), "fixture_ids": [int], "pack_id": (str,)},
        "kind": str, "law_version": {LAW_VERSION}, "mode_label": {"Backtest"}, "origin_id": (str,), "policy": _POLICY,
        "policy_hash": str, "run_id": str, "schema": {"clvlab-run/1"}, "source_mode": {"replay"},
        "window": {
            "closing_policy": {"last_state", "last_open"}, "duration_s": (int,), "end_rule": set(CLOSE_KINDS),
            "market_allowlist": [str], "min_clv_horizon_s": int, "window_id": str}},
    "DECISION": {
        "action": {
            "limit_odds_milli": (int,), "market_key": (str,), "side": (str,), "stake": (int,), "type": {"BACK", "WAIT"}},
        "agent_id": str, "fixture_id": int, "market_state": ({"age_ms": int, **_STATE},),
        "policy": ({"post": _POST, "pre": _PRE},), "tick_seq": int, "ts_ms": int,
        "untrusted": {"claimed_edge_bps": (int,), "confidence_ppm": (int,), "confidence_raw": (str,), "reason": (str,)}},
    "AGENT_ERROR": {"agent_id": str, "error": str, "fixture_id": (int,), "tick_seq": (int,)},
    "MARKET_CLOSE": {
        "close_kind": str, "close_ts_ms": int, "closing": (_STATE,), "end_seq": int, "fixture_id": int, "market_key": str},
    "RUN_SEALED": {"agent_errors": int, "decisions": int, "market_closes": int},
}  # fmt: skip
_PROVED = {"entry": str, "index": int, "proof": [str]}
_LOG = {
    "checkpoint": str, "commit": _PROVED, "earlier": ({"checkpoint": str, "proof": [str]},), "outcome": _PROVED,
    "schema": {"clvlab-bundle-log/1"},
}  # fmt: skip
_ANCHOR = {"cluster": str, "schema": {"clvlab-bundle-anchor/1"}, "signature": str, "transaction": str}
_HEADER = {"parts": [{"name": str, "sha256": str, "size": int}], "schema": {"clvlab-bundle/1"}}
_LINE = {"index": int, "line": str, "proof": [str], "size": int}
_DISCLOSURE = {"decision": _LINE, "manifest": str, "schema": {"clvlab-disclosure/1"}, "score": _LINE}
NO_TRUST: dict[str, Any] = {
    "anchor_signers": {}, "checkpoint": None, "logs": [], "witness_quorum": 0, "witnesses": [],
}  # fmt: skip
_TRUST = {key: (str,) if value is None else [str] if value == [] else type(value) for key, value in NO_TRUST.items()}


class BrokenError(Exception):
    """The evidence breaks a rule."""


class InputError(Exception):
    """There is no run, or there are no ticks, to check."""


def require(holds: object, text: str) -> None:
    """Raise ``BrokenError`` unless something holds."""
    if not holds:
        raise BrokenError(text)


# Canonical JSON (RFC 8785 with ASCII keys, integers within 2**53 - 1 and no floats) and hashes.


_WRITE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode
_RARE = re.compile(rb"[0-9]{16}|\\u|[\x80-\xff]")  # without one of these, a line has no long integer and no odd key


def canonical(value: object) -> bytes:
    """Write a value in its one canonical form."""
    _check_value(value)
    return _written(value)


def _written(value: object) -> bytes:
    try:
        # Of ASCII keys, the order by code point is the RFC's. So are the escapes: \b \t \n \f \r \" \\ and \u00xx.
        return _WRITE(value).encode("utf-8")
    except UnicodeEncodeError as error:
        raise BrokenError(f"a lone surrogate: {error.reason}") from error


def _check_value(value: object, levels: int = MAX_LEVELS) -> None:
    if isinstance(value, dict):
        require(all(isinstance(key, str) and key.isascii() for key in value), "a key that is no ASCII string")
        value = list(value.values())
    if isinstance(value, list):
        require(levels, f"more than {MAX_LEVELS} levels")
        for item in value:
            _check_value(item, levels - 1)
    elif isinstance(value, int):  # bool is an int to Python, and within bounds
        require(-SAFE_INTEGER <= value <= SAFE_INTEGER, f"an integer beyond 2**53 - 1: {value}")
    else:
        require(value is None or isinstance(value, str), f"a number that is no integer: {value!r}")


def _no_float(text: str) -> None:
    raise BrokenError(f"a number that is no integer: {text}")


def parsed(line: bytes, shape: Any = None, where: str = "an entry") -> Any:
    """Read a line that must be canonical, and of a shape: a repeated key, a space or ``3.0`` would not be written again."""
    try:
        value = json.loads(line.decode("utf-8"), parse_float=_no_float, parse_constant=_no_float)
    except (ValueError, RecursionError) as error:
        raise BrokenError(f"no JSON: {error}") from error
    if _RARE.search(line) or line.count(b"[") + line.count(b"{") > MAX_LEVELS:
        _check_value(value)
    require(_written(value) == line, f"not canonical: {line[:60]!r}")
    if shape is not None:
        fits(value, shape, where)
    return value


def sha256(data: bytes) -> str:
    """Hash bytes to the form ``sha256:<hex>``."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def lines_of(text: bytes) -> list[bytes]:
    """Split a text into its lines, without the line feeds."""
    return text.removesuffix(b"\n").split(b"\n") if text else []


def node(left: bytes, right: bytes) -> bytes:
    """Hash an inner node of a tree (RFC 9162, section 2.1.1)."""
    return hashlib.sha256(b"\1" + left + right).digest()


def merkle_root(lines: Sequence[bytes]) -> str:
    """Root hash over lines (RFC 9162, section 2.1.1); an odd node at the end of a level rises unchanged."""
    level = [hashlib.sha256(b"\0" + line).digest() for line in lines]
    while len(level) > 1:
        pairs = [node(a, b) for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[len(pairs) * 2 :]
    return "sha256:" + (level[0] if level else hashlib.sha256(b"").digest()).hex()


def _sided(index: int, last: int, proof: Sequence[bytes]) -> list[tuple[bool, bytes]]:
    """Say of every hash on the way from a node up to the root whether it stands on the left."""
    found = []
    for other in proof:
        require(last, "the proof is too long")
        found.append((bool(index & 1) or index == last, other))
        while index and not index & 1 and index == last:
            index, last = index >> 1, last >> 1
        index, last = index >> 1, last >> 1
    require(last == 0, "the proof is too short")
    return found


def included(line: bytes, index: int, size: int, proof: Sequence[bytes]) -> bytes:
    """Give the root of the tree of ``size`` lines in which this proof puts a line (RFC 9162, section 2.1.3.2)."""
    require(0 <= index < size, f"no line {index} among {size}")
    value = hashlib.sha256(b"\0" + line).digest()
    for left, other in _sided(index, size - 1, proof):
        value = node(other, value) if left else node(value, other)
    return value


def check_extends(first: int, old: bytes, second: int, new: bytes, proof: Sequence[bytes]) -> None:
    """Require the tree of ``second`` lines to begin with the one of ``first`` (RFC 9162, section 2.1.4.2)."""
    path = ([old] if first & (first - 1) == 0 and first != second else []) + list(proof)
    require(0 < first <= second and (path or first == second), f"no proof from {first} to {second} entries")
    index, last = first - 1, second - 1
    while index & 1:
        index, last = index >> 1, last >> 1
    before = after = path[0] if path else old
    for left, other in _sided(index, last, path[1:]) if path else []:
        before, after = node(other, before) if left else before, node(other, after) if left else node(after, other)
    require((before, after) == (old, new), "the log forked: it does not begin with its earlier entries")


# Ed25519 signatures (RFC 8032, section 5.1), on points in extended coordinates.

P, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
Point = tuple[int, int, int, int]


def _plus(one: Point, two: Point) -> Point:
    a, b = (one[1] - one[0]) * (two[1] - two[0]) % P, (one[1] + one[0]) * (two[1] + two[0]) % P
    c, d = 2 * one[3] * two[3] * D % P, 2 * one[2] * two[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def _times(number: int, point: Point) -> Point:
    total = (0, 1, 1, 0)
    while number:
        total, point, number = _plus(total, point) if number & 1 else total, _plus(point, point), number >> 1
    return total


def _point(data: bytes) -> Point:
    y, sign = int.from_bytes(data, "little") & (2**255 - 1), data[31] >> 7
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if (x * x - square) % P == 0 else x * pow(2, (P - 1) // 4, P) % P
    require(y < P and (x * x - square) % P == 0 and (x or not sign), "no point of the curve")
    x = x if x & 1 == sign else P - x
    return x, y, 1, x * y % P


def check_signature(public: bytes, message: bytes, signature: bytes, name: str) -> None:
    """Require an Ed25519 signature to hold (RFC 8032, section 5.1.7)."""
    require((len(public), len(signature)) == (32, 64), f"the key or signature of {name} has another length")
    key, commitment, scalar = _point(public), _point(signature[:32]), int.from_bytes(signature[32:], "little")
    digest = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % ORDER
    left, right = _times(scalar, _point(b"\x58" + b"\x66" * 31)), _plus(commitment, _times(digest, key))
    same = all((left[at] * right[2] - right[at] * left[2]) % P == 0 for at in (0, 1))
    require(same and scalar < ORDER, f"the signature by {name} does not hold")


# Reading the evidence.


@dataclass
class Evidence:
    """The payloads of a run, in order; decisions with their ``seq``."""

    started: dict[str, Any]
    decisions: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    closes: dict[tuple[int, str], dict[str, Any]] = field(default_factory=dict)


def fits(value: Any, shape: Any, where: str) -> None:
    """Require a value to have exactly the keys and types of a shape."""
    if isinstance(shape, tuple):
        if value is not None:
            fits(value, shape[0], where)
    elif isinstance(shape, list):
        require(isinstance(value, list), f"{where} is no list")
        for item in value:
            fits(item, shape[0], where)
    elif isinstance(shape, dict):
        if not isinstance(value, dict) or value.keys() != shape.keys():
            raise BrokenError(f"{where} does not have the keys {sorted(shape)}")
        for key, inner in shape.items():
            kind = type(value[key])
            if kind is not inner and not (type(inner) is tuple and (value[key] is None or kind is inner[0])):
                fits(value[key], inner, f"{where}.{key}")
    elif not (isinstance(value, str) and value in shape if isinstance(shape, set) else type(value) is shape):
        raise BrokenError(f"{where} is {value!r}, this file knows {shape}")  # type(), because True is an instance of int


def read_evidence(text: bytes) -> Evidence:
    """Read ``events.jsonl``, or say which rule it breaks first."""
    require(text.endswith(b"\n"), "events.jsonl is empty or does not end with a line feed")
    events = [parsed(line) for line in lines_of(text)]
    kinds = list(_SHAPES)
    for seq, event in enumerate(events):
        fits(event, {"kind": str, "payload": dict, "seq": int}, f"line {seq + 1}")
        require(event["seq"] == seq, f"line {seq + 1} has seq {event['seq']}")
        require(event["kind"] in kinds, f"line {seq + 1} is of unknown kind {event['kind']!r}")
        fits(event["payload"], _SHAPES[event["kind"]], f"line {seq + 1}: {event['kind']}")
    order = [kinds.index(event["kind"]) for event in events]
    require(order == sorted(order) and order.count(0) == order.count(4) == 1, "the kinds of event stand out of order")

    evidence = Evidence(events[0]["payload"])
    counts = {"agent_errors": order.count(2), "decisions": order.count(1), "market_closes": order.count(3)}
    require(events[-1]["payload"] == counts, f"RUN_SEALED counts {events[-1]['payload']}, before it stand {counts}")
    evidence.decisions = [(event["seq"], event["payload"]) for event in events if event["kind"] == "DECISION"]
    closes = [event["payload"] for event in events if event["kind"] == "MARKET_CLOSE"]
    evidence.closes = {(close["fixture_id"], close["market_key"]): close for close in closes}
    require(len(closes) == len(evidence.closes), "a market closes twice")
    _check_window(evidence.started)
    agents = {agent["agent_id"] for agent in evidence.started["agents"]}
    failed = {event["payload"]["agent_id"] for event in events if event["kind"] == "AGENT_ERROR"}
    require(failed <= agents, "a failed agent is not named by RUN_STARTED")
    _check_decisions(evidence)
    _check_closes(evidence)
    return evidence


def _check_window(started: dict[str, Any]) -> None:
    window = started["window"]
    ids = [agent["agent_id"] for agent in started["agents"]]
    require(len(window["market_allowlist"]) <= 1000, "the market_allowlist has over 1000 entries")
    require(ids and ids == sorted(set(ids)), f"agents must be named once and in byte order, not {ids}")
    fixed, duration = window["end_rule"] == "fixed_duration", window["duration_s"]
    require(duration is not None and duration > 0 if fixed else duration is None, f"duration_s is {duration}")
    require(1 <= len(window["window_id"].encode()) <= 200, "window_id must have 1 to 200 bytes")
    require(max(duration or 0, window["min_clv_horizon_s"]) <= MAX_WINDOW_S, "a duration is too long")
    require(window["min_clv_horizon_s"] >= 0, f"min_clv_horizon_s is {window['min_clv_horizon_s']}")
    policy = started["policy"]
    limits = {key: value for key, value in policy.items() if type(value) is int and key != "min_edge_bps"}
    require(min(limits.values()) >= 0, f"a limit of the policy is negative: {limits}")
    require(max(policy["cooldown_s"], policy["max_quote_age_s"]) <= SAFE_INTEGER // 1000, "a duration is too long")
    require(policy["min_prob_bps"] <= policy["max_prob_bps"] <= 10_000, "the range of probabilities of the policy is empty")
    require(policy["max_slippage_bps"] <= 10_000 and (policy["min_edge_bps"] or 0) >= -10_000, "a limit is out of its range")
    require(max(len(policy["market_allowlist"]), len(policy["venue_allowlist"])) <= 1000, "an allowlist has over 1000 entries")


def _check_decisions(evidence: Evidence) -> None:
    agents = {agent["agent_id"] for agent in evidence.started["agents"]}
    fixtures = set(evidence.started["binding"]["fixture_ids"])
    before: tuple[Any, ...] = ()
    waits: set[tuple[Any, ...]] = set()
    for seq, decision in evidence.decisions:
        action, state = decision["action"], decision["market_state"]
        require(decision["agent_id"] in agents, f"seq {seq}: {decision['agent_id']!r} is no agent of this run")
        # Null stands first; of texts, the order by code point is the order of their UTF-8 bytes.
        names = [(text is not None, text or "") for text in (action["market_key"], action["side"])]
        key = (decision["ts_ms"], decision["fixture_id"], decision["tick_seq"], decision["agent_id"], *names, action["type"])
        require(before < key, f"seq {seq}: not after its predecessor by time, fixture, tick, agent, market, side, action")
        before = key
        require(decision["ts_ms"] >= 0 and (action["stake"] or 0) >= 0, f"seq {seq}: a negative time or stake")
        require(0 <= (decision["untrusted"]["confidence_ppm"] or 0) <= 1_000_000, f"seq {seq}: a confidence beyond 1")
        require(0 <= (action["limit_odds_milli"] or 0) < 2**31, f"seq {seq}: a limit out of its range")
        require((decision["policy"] is None) == (action["type"] == "WAIT"), f"seq {seq}: a BACK has verdicts, a WAIT has none")
        phases = (decision["policy"] or {}).values()
        require(all(phase["allowed"] == (not phase["reasons"]) for phase in phases), f"seq {seq}: allowed against a reason")
        require(decision["fixture_id"] in fixtures, f"seq {seq}: fixture {decision['fixture_id']} is not replayed")
        if action["type"] == "WAIT":
            require(key[1:4] not in waits, f"seq {seq}: {decision['agent_id']!r} waits twice at a tick")
            waits.add(key[1:4])
        if state is not None:
            require(action["type"] == "BACK" and action["market_key"] is not None, f"seq {seq}: the state of no market")
            require(state["tick_seq"] <= decision["tick_seq"], f"seq {seq}: a state later than its decision")
            require(0 <= state["ts_ms"] <= decision["ts_ms"], f"seq {seq}: a state later than its decision")
            require(state["age_ms"] == decision["ts_ms"] - state["ts_ms"], f"seq {seq}: age_ms is {state['age_ms']}")
            _check_sides(state, f"seq {seq}")


def _check_closes(evidence: Evidence) -> None:
    backs = [(decision["fixture_id"], decision["action"]) for _, decision in evidence.decisions]
    asked = {(fixture, action["market_key"]) for fixture, action in backs if action["type"] == "BACK"}
    asked = {key for key in asked if key[1] is not None}
    require(list(evidence.closes) == sorted(asked), "there must be one MARKET_CLOSE for every market that a BACK names, sorted")
    kinds = CLOSE_KINDS[evidence.started["window"]["end_rule"]]
    ends: dict[int, tuple[Any, ...]] = {}
    for (fixture_id, market), close in evidence.closes.items():
        end = (close["end_seq"], close["close_ts_ms"], close["close_kind"])
        require(close["close_ts_ms"] >= 0, f"{market} of {fixture_id}: a negative closing time")
        require(close["close_kind"] in kinds, f"{market} of {fixture_id}: unknown close_kind {close['close_kind']!r}")
        require(ends.setdefault(fixture_id, end) == end, f"the markets of {fixture_id} close at different ticks")
        if close["closing"] is not None:
            state = close["closing"]
            inside = state["tick_seq"] < close["end_seq"] and 0 <= state["ts_ms"] <= close["close_ts_ms"]
            require(inside, f"{market} of {fixture_id}: a state after the close")
            _check_sides(close["closing"], f"{market} of {fixture_id}")


def _check_sides(state: dict[str, Any], where: str) -> None:
    names = [side["side"] for side in state["sides"]]
    require(names == sorted(set(names)), f"{where}: the sides must be unique and in byte order")
    for side in state["sides"]:
        prob, odds = side["prob_bps"], side["odds_milli"]
        priced = 0 <= (prob or 0) <= 10_000 and (prob is None or not state["suspended"])
        require(priced, f"{where}: prob_bps {prob} of {side['side']!r}")
        require(odds is None or 1001 <= odds <= 100_000_000, f"{where}: odds_milli {odds} of {side['side']!r}")


# The law, once more: scores from the two states of a decision.


def score(seq: int, decision: dict[str, Any], close: dict[str, Any] | None, window: dict[str, Any]) -> dict[str, Any]:
    """Score a DECISION by the MARKET_CLOSE of its market; null for a WAIT and a decision without a market."""
    action, state = decision["action"], decision["market_state"]
    market, side, closing = action["market_key"], action["side"], close["closing"] if close else None
    entry, final = _price(state, side), _price(closing, side)
    entry_prob, odds, close_prob = entry["prob_bps"], entry["odds_milli"], final["prob_bps"]
    horizon_ms = 1000 * window["min_clv_horizon_s"]
    rules = {  # the first that fails names the reason
        "wait_unscored": action["type"] == "WAIT",
        "market_key_missing": market is None,
        "side_missing": side is None,
        "market_not_allowed": not _starts(market, window["market_allowlist"]),
        "outside_window": close and decision["tick_seq"] >= close["end_seq"],
        "entry_market_absent": state is None,
        "entry_suspended": state and state["suspended"],
        "entry_side_missing": entry_prob is None,
        "closing_market_absent": closing is None,
        "closing_suspended": closing and closing["suspended"],
        "closing_side_missing": close_prob is None,
        "pending_horizon": close and close["close_ts_ms"] - decision["ts_ms"] < horizon_ms,
        "scored": True,
    }
    reason = next(name for name, failed in rules.items() if failed)
    scored = reason == "scored"
    return {
        **{key: decision[key] for key in ("agent_id", "fixture_id", "tick_seq")},
        "seq": seq, "market_key": market, "side": side,
        "valid": reason in ("scored", "wait_unscored", "pending_horizon"), "reason": reason,
        "entry_prob_bps": entry_prob, "odds_milli": odds, "close_prob_bps": close_prob,
        "clv_bps": close_prob - entry_prob if scored else None,
        "edge_bps": edge_bps(entry_prob, odds, close_prob) if scored else None,
        "close_kind": close["close_kind"] if close else None,
        "closing_age_ms": close["close_ts_ms"] - closing["ts_ms"] if close and closing else None,
        "confidence_ppm": decision["untrusted"]["confidence_ppm"],
    }  # fmt: skip


def _price(state: dict[str, Any] | None, name: str | None) -> dict[str, Any]:
    sides = state["sides"] if state else []
    return next((side for side in sides if side["side"] == name), {"prob_bps": None, "odds_milli": None})


def _starts(market: str | None, prefixes: list[str]) -> bool:
    return market is not None and any(market.startswith(prefix) for prefix in prefixes)


def edge_bps(entry_prob_bps: int, odds_milli: int | None, close_prob_bps: int) -> int | None:
    """Value of the price taken at the closing probability, half up; without a quote, of a fair price at the entry."""
    if odds_milli is not None:
        return (2 * close_prob_bps * odds_milli + 1000) // 2000 - 10_000
    if entry_prob_bps > 0:
        return (2 * close_prob_bps * 10_000 + entry_prob_bps) // (2 * entry_prob_bps) - 10_000
    return None


# The policy gate, once more: what was known at the decision, and what was allowed before.


def verdicts(evidence: Evidence) -> list[tuple[int, dict[str, Any]]]:
    """Judge every BACK in both phases, in order; cooldown and caps count what was allowed to the same agent."""
    policy = evidence.started["policy"]
    ready_ms: dict[tuple[Any, ...], int] = {}
    used: dict[tuple[Any, ...], int] = {}  # orders of an agent, stakes on a market and on a fixture
    judged = []
    for seq, decision in evidence.decisions:
        action = decision["action"]
        if action["type"] == "WAIT":
            continue
        agent, fixture, market, stake = decision["agent_id"], decision["fixture_id"], action["market_key"], action["stake"] or 0
        keys = {"max_orders": (agent,), "max_exposure_per_fixture": (agent, fixture)}
        keys["max_exposure_per_market"] = (agent, fixture, market)
        add = {name: 1 if name == "max_orders" else stake for name in keys}
        over = {name: policy[name] is not None and used.get(key, 0) + add[name] > policy[name] for name, key in keys.items()}
        counted = {"cooldown_active": decision["ts_ms"] < ready_ms.get((agent, fixture, market), 0)}
        counted |= {"order_cap": over.pop("max_orders"), "exposure_cap": any(over.values())}
        gate = _gate(decision, policy, counted)
        phases = {name: [reason for reason, broken in rules.items() if broken] for name, rules in gate}
        if not any(phases.values()):
            ready_ms[agent, fixture, market] = decision["ts_ms"] + 1000 * policy["cooldown_s"]
            for name, key in keys.items():
                used[key] = used.get(key, 0) + add[name]
        judged.append((seq, {name: {"allowed": not reasons, "reasons": reasons} for name, reasons in phases.items()}))
    return judged


def _gate(decision: dict[str, Any], policy: dict[str, Any], counted: dict[str, bool]) -> list[tuple[str, dict[str, Any]]]:
    """Say of every rule of the two phases whether a proposal breaks it."""
    action, state = decision["action"], decision["market_state"]
    market, stake, price = action["market_key"], action["stake"] or 0, _price(state, action["side"])
    prob, odds = price["prob_bps"], None if state and state["suspended"] else price["odds_milli"]
    limit, least = action["limit_odds_milli"] or 0, policy["min_edge_bps"]
    edge = None if prob is None or odds is None else edge_bps(prob, odds, prob)
    pre = {
        "kill_switch_on": policy["kill_switch"],
        "market_not_allowed": not _starts(market, policy["market_allowlist"]),
        "venue_not_allowed": "paper" not in policy["venue_allowlist"],
        "warmup": decision["tick_seq"] < policy["warmup_ticks"],
        "cooldown_active": counted["cooldown_active"],
        "stake_missing": stake == 0,
        "stake_over_max": stake > policy["max_stake"],
        "prob_out_of_range": prob is None or not policy["min_prob_bps"] <= prob <= policy["max_prob_bps"],
        "order_cap": counted["order_cap"],
        "exposure_cap": counted["exposure_cap"],
    }
    post = {
        "quote_missing": policy["require_quote"] and odds is None,
        "quote_stale": state and state["age_ms"] > 1000 * policy["max_quote_age_s"],
        "slippage_over_max": limit and odds and max(0, limit - odds) * 10_000 // limit > policy["max_slippage_bps"],
        "edge_below_min": least is not None and (edge is None or edge < least),
        "stake_over_max": stake > policy["max_stake"],
    }
    return [("post", post), ("pre", pre)]


def check_policy(evidence: Evidence, receipts: bytes) -> None:
    """Require the sealed verdicts to be the ones derived, and an allowed action behind every receipt."""
    decisions, started, stakes = dict(evidence.decisions), evidence.started, {}
    for seq, verdict in verdicts(evidence):
        require(decisions[seq]["policy"] == verdict, f"seq {seq}: the policy gives {verdict}")
        if verdict["pre"]["allowed"] and verdict["post"]["allowed"]:
            stakes[seq] = decisions[seq]["action"]["stake"]
    paper = started["policy"]["execution_mode"] == "paper"
    require(not receipts or receipts.endswith(b"\n"), "receipts.jsonl does not end with a line feed")
    for line in lines_of(receipts):
        receipt = parsed(line, _RECEIPT, "a receipt")
        seq = receipt["decision_seq"]
        own = receipt["run_id"] == started["run_id"] and receipt["non_scoring"]
        require(paper and own and seq in stakes, f"a receipt for seq {seq}, which was not allowed to execute")
        require(receipt["agent_id"] == decisions[seq]["agent_id"], f"a receipt for seq {seq} names another agent")
        require(0 <= receipt["stake"] <= stakes.pop(seq), f"a receipt for seq {seq} of another stake than its own")
        require(receipt["venue"] in started["policy"]["venue_allowlist"], f"a receipt for seq {seq} from {receipt['venue']!r}")


def score_rows(evidence: Evidence) -> list[dict[str, Any]]:
    """Score every decision of a run; of a market without a BACK there is no close, and a WAIT is not scored by one."""
    rows = []
    for seq, decision in evidence.decisions:
        action = decision["action"]
        close = evidence.closes.get((decision["fixture_id"], action["market_key"])) if action["type"] == "BACK" else None
        rows.append(score(seq, decision, close, evidence.started["window"]))
    return rows


def rebuilt_manifest(events: bytes, evidence: Evidence, scores: Sequence[bytes], index: Any) -> dict[str, Any]:
    """Assemble the manifest that evidence and scores must have; whether its commit_index is true, the log says."""
    index = index if type(index) is int and 0 <= index <= SAFE_INTEGER else None
    started, agents = evidence.started, evidence.started["agents"]
    roster = sorted([agent["agent_id"], agent["config_hash"]] for agent in agents)
    return {
        "schema": "clvlab-manifest/1", "law_version": LAW_VERSION, "verifier_version": "clvlab-proof/1",
        "run_id": started["run_id"], "content_hash": started["binding"]["content_hash"],
        "config_hash": agents[0]["config_hash"] if len(agents) == 1 else sha256(canonical(roster)),
        "policy_hash": started["policy_hash"], "commit_index": index,
        "evidence_hash": sha256(events), "event_count": len(lines_of(events)),
        "evidence_root": merkle_root(lines_of(events)), "score_root": merkle_root(scores),
    }  # fmt: skip


def check_names(evidence: Evidence) -> None:
    """Derive every config_hash and the run id again from what they name."""
    started = evidence.started
    for agent in started["agents"]:
        named = {"schema": "clvlab-agent-config/1", **{k: agent[k] for k in ("strategy", "strategy_version", "config")}}
        own = sha256(canonical(named))
        require(own == agent["config_hash"], f"config_hash of {agent['agent_id']} is {agent['config_hash']}, not {own}")
    own = sha256(canonical(started["policy"]))
    require(own == started["policy_hash"], f"policy_hash is {started['policy_hash']}, the sealed policy gives {own}")
    own = "run_" + inputs_hash(started)[7:39]
    require(own == started["run_id"], f"run_id is {started['run_id']}, its inputs give {own}")


def inputs_hash(started: dict[str, Any]) -> str:
    """Hash everything that shapes the result of a run."""
    keys = ("agents", "binding", "kind", "law_version", "origin_id", "policy_hash", "schema", "window")
    return sha256(canonical({key: started[key] for key in keys}))


# Ticks: windows and states once more, from the prices themselves.


@dataclass
class Fixture:
    """The messages of a fixture: ``ticks`` as (tick_seq, ts_ms, in_running), and the states of each market; in order."""

    kickoff_ts_ms: int | None = None
    ticks: list[tuple[int, int, bool]] = field(default_factory=list)
    markets: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def fixtures_of(rows: Iterable[dict[str, Any]]) -> dict[int, Fixture]:
    """Group tick rows, one per side of a message and in any order, into fixtures."""
    fixtures: dict[int, Fixture] = {}
    before: dict[int, tuple[Any, ...]] = {}
    for row in sorted(rows, key=lambda row: (row["fixture_id"], row["tick_seq"], row["market_key"], row["side"])):
        fixture = fixtures.setdefault(row["fixture_id"], Fixture(row["kickoff_ts_ms"]))
        states = fixture.markets.setdefault(row["market_key"], [])
        tick = (row["tick_seq"], row["ts_ms"], row["in_running"])
        message = (tick, row["market_key"], row["suspended"], row["kickoff_ts_ms"])
        if not fixture.ticks or fixture.ticks[-1][0] != row["tick_seq"]:
            fixture.ticks.append(tick)
            states.append({"sides": [], "suspended": row["suspended"], "tick_seq": row["tick_seq"], "ts_ms": row["ts_ms"]})
        elif before[row["fixture_id"]] != message:
            raise InputError(f"tick {row['tick_seq']} of fixture {row['fixture_id']} is more than one message")
        before[row["fixture_id"]] = message
        states[-1]["sides"].append({key: row[key] for key in ("odds_milli", "prob_bps", "side")})
    return fixtures


def window_end(fixture: Fixture, window: dict[str, Any]) -> tuple[int, int, str]:
    """Find where the window of a fixture ends: the first tick outside, the time of the close, and its kind."""
    past_last, last_ts = fixture.ticks[-1][0] + 1, fixture.ticks[-1][1]
    if window["end_rule"] == "manual_stop":
        return past_last, last_ts, "stop"
    if window["end_rule"] == "fixed_duration":
        limit = fixture.ticks[0][1] + 1000 * int(window["duration_s"])
        return next((seq for seq, ts, _ in fixture.ticks if ts > limit), past_last), min(limit, last_ts), "duration"
    for seq, ts, in_running in fixture.ticks:
        if in_running:
            return seq, ts, "in_running"
    kickoff = fixture.kickoff_ts_ms
    if kickoff is not None:
        return next((seq for seq, ts, _ in fixture.ticks if ts >= kickoff), past_last), kickoff, "kickoff"
    return past_last, last_ts, "tape_end"


def state_at(states: Sequence[dict[str, Any]], tick_seq: int) -> dict[str, Any] | None:
    """Give the last state of a market at or before a tick, by bisection."""
    low, high = 0, len(states)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if states[middle]["tick_seq"] <= tick_seq else (low, middle)
    return states[low - 1] if low else None


def closing_state(states: Sequence[dict[str, Any]], end_seq: int, close_ts_ms: int, policy: str) -> dict[str, Any] | None:
    """Give the state in which a market closes; ``last_open`` looks behind a suspension for at most 300 s."""
    state = state_at(states, end_seq - 1)
    if policy == "last_open" and state and state["suspended"]:
        opened = [other for other in states if other["tick_seq"] < end_seq and not other["suspended"]]
        if opened and close_ts_ms - opened[-1]["ts_ms"] <= LAST_OPEN_MAX_AGE_MS:
            return opened[-1]
    return state


def check_ticks(evidence: Evidence, fixtures: dict[int, Fixture]) -> None:
    """Derive every state in the evidence again from the ticks."""
    window = evidence.started["window"]
    times = {number: {seq: ts for seq, ts, _ in fixture.ticks} for number, fixture in fixtures.items()}
    for seq, decision in evidence.decisions:
        fixture_id, tick_seq, action = decision["fixture_id"], decision["tick_seq"], decision["action"]
        time = times.get(fixture_id, {}).get(tick_seq)
        require(time == decision["ts_ms"], f"seq {seq}: tick {tick_seq} of {fixture_id} is at {time}, not {decision['ts_ms']}")
        states = fixtures[fixture_id].markets.get(action["market_key"], []) if action["type"] == "BACK" else []
        state = state_at(states, tick_seq)
        expected = {"age_ms": decision["ts_ms"] - state["ts_ms"], **state} if state else None
        require(decision["market_state"] == expected, f"seq {seq}: the ticks say {expected}")
    ends = {number: window_end(fixture, window) for number, fixture in fixtures.items()}
    for (fixture_id, market), close in evidence.closes.items():
        end_seq, close_ts_ms, kind = ends[fixture_id]
        states = fixtures[fixture_id].markets.get(market, [])
        expected = {
            "close_kind": kind, "close_ts_ms": close_ts_ms, "end_seq": end_seq, "fixture_id": fixture_id, "market_key": market,
            "closing": closing_state(states, end_seq, close_ts_ms, window["closing_policy"]),
        }  # fmt: skip
        require(close == expected, f"{market} of {fixture_id}: the ticks say {expected}")


def read_ticks(path: Path) -> dict[int, Fixture]:
    """Read ticks from CSV: the columns of a tick and ``kickoff_ts_ms``; an empty field is null."""
    numbers = ("fixture_id", "tick_seq", "ts_ms", "prob_bps", "odds_milli", "kickoff_ts_ms")
    flags, known = ("in_running", "suspended"), {"true": True, "false": False}
    rows: list[dict[str, Any]] = []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for text in csv.DictReader(file):
                row: dict[str, Any] = {"market_key": text["market_key"], "side": text["side"]}
                row.update({name: int(text[name]) if text[name] else None for name in numbers})
                row.update({name: known[text[name].lower()] for name in flags})
                rows.append(row)
    except (OSError, ValueError, KeyError, AttributeError, csv.Error) as error:
        raise InputError(f"can't read ticks from {path}: {error!r}") from error
    return fixtures_of(rows)


# Anchor and log: what the run's maker can't make alone. Keys come from the caller.


def decoded(text: str) -> bytes:
    """Read base64 that is written in its one canonical way."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise BrokenError(f"no base64: {text[:60]!r}") from error
    require(base64.b64encode(data).decode() == text, f"no canonical base64: {text[:60]!r}")
    return data


def base58(data: bytes) -> str:
    """Write a key or signature as Solana does."""
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"[digit] + text
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + text


def memos(transaction: bytes) -> tuple[str, list[tuple[bytes, list[str]]]]:
    """Read a Solana transaction: its signature, and each memo with the keys that signed it; every signature is checked."""
    rest = transaction

    def take(count: int) -> bytes:
        nonlocal rest
        require(count <= len(rest), "the transaction is cut")
        data, rest = rest[:count], rest[count:]
        return data

    def length(bits: int = 0) -> int:  # "compact-u16": seven bits a byte, lowest first
        require(bits < 21, "a length in the transaction is too long")
        byte = take(1)[0]
        return byte << bits if byte < 128 else (byte & 127) << bits | length(bits + 7)

    signatures = [take(64) for _ in range(length())]
    message = rest
    if rest[:1] == b"\x80":  # version 0; a legacy message begins with the count of its signers
        take(1)
    signed, _, _ = take(3)
    keys = [take(32) for _ in range(length())]
    take(32)  # the hash of a recent block
    require(signatures and len(signatures) == signed <= len(keys), "a transaction has a signature for every signer")
    for key, signature in zip(keys, signatures, strict=False):
        check_signature(key, message, signature, base58(key))
    found = []
    for _ in range(length()):
        program, accounts = take(1)[0], take(length())
        data = take(length())
        if program < len(keys) and base58(keys[program]) in MEMO_PROGRAMS:
            found.append((data, [base58(keys[account]) for account in accounts if account < signed]))
    require(rest == b"" or (message[:1] == b"\x80" and rest == b"\0"), "the transaction names tables or has bytes left over")
    return base58(signatures[0]), found


def check_anchor(record: bytes, manifest_hash: str, trust: dict[str, Any]) -> None:
    """Require a transaction whose memo is the manifest hash, signed by a trusted key."""
    anchor = parsed(record, _ANCHOR, "the anchor")
    signature, found = memos(decoded(anchor["transaction"]))
    require(signature == anchor["signature"], f"the transaction has signature {signature}, on record is {anchor['signature']}")
    signers = [signer for memo, signers in found if memo == manifest_hash.encode() for signer in signers]
    require(signers, f"no memo of the transaction is {manifest_hash}, or nobody signed it")
    trusted = trust["anchor_signers"].get(anchor["cluster"], [])
    require(
        set(signers) & set(trusted), f"{', '.join(signers)} signed, whom you do not trust to anchor on {anchor['cluster']!r}"
    )


def signed_by(note: str, keys: Sequence[str]) -> tuple[str, int]:
    """Open a C2SP signed note: its text, and how many of these keys signed it (Ed25519, and cosignatures with a time)."""
    text, blank, lines = note.rpartition("\n\n")
    parts = [line.split(" ") for line in lines.removesuffix("\n").split("\n")]
    well_formed = blank and lines.endswith("\n") and all(len(part) == 3 and part[0] == "\u2014" and part[1] for part in parts)
    require(well_formed, "no signed note")
    signatures, count = [(name, decoded(encoded)) for _, name, encoded in parts], 0
    for key in sorted(set(keys)):
        name, _, rest = key.partition("+")
        public = decoded(rest.partition("+")[2])
        require(public[:1] in (b"\1", b"\4"), f"no Ed25519 key of a log or witness: {key!r}")
        own = hashlib.sha256(name.encode() + b"\n" + public).digest()[:4]
        for signature in [data[4:] for other, data in signatures if (other, data[:4]) == (name, own)][:1]:
            stamp, signature = (signature[:8], signature[8:]) if public[0] == 4 else (b"", signature)
            stamped = f"cosignature/v1\ntime {int.from_bytes(stamp, 'big')}\n" if stamp else ""
            check_signature(public[1:], f"{stamped}{text}\n".encode(), signature, name)
            count += 1
    return text + "\n", count


def state_of(text: str) -> tuple[str, int, bytes]:
    """Read a checkpoint: the name of a log, its size and its root."""
    origin, size, root, *rest = [*text.split("\n"), "", "", ""]
    number = int(size) if size.isascii() and size.isdigit() and len(size) < 17 else -1
    require(origin and text == f"{origin}\n{number}\n{root}\n" and not any(rest), "no checkpoint of a log")
    return origin, number, decoded(root)


def hashes(texts: Sequence[str]) -> list[bytes]:
    """Read the hashes of a proof."""
    require(all(len(text) == 64 and not set(text) - set("0123456789abcdef") for text in texts), "a proof is no list of hashes")
    return [bytes.fromhex(text) for text in texts]


def check_log(record: bytes, manifest: dict[str, Any], inputs_hash: str, manifest_hash: str, trust: dict[str, Any]) -> None:
    """Require a trusted log to hold the commitment that the manifest names, and after it this result."""
    log = parsed(record, _LOG, "the log proofs")
    text, count = signed_by(log["checkpoint"], trust["logs"])
    require(count, "the checkpoint is signed by no log that you trust")
    _, witnesses = signed_by(log["checkpoint"], trust["witnesses"])
    require(witnesses >= trust["witness_quorum"], f"{witnesses} witnesses signed, you ask for {trust['witness_quorum']}")
    origin, size, root = state_of(text)
    for name in ("commit", "outcome"):
        found = included(log[name]["entry"].encode(), log[name]["index"], size, hashes(log[name]["proof"]))
        require(found == root, f"the {name} does not stand in the log")
    commit, outcome = (parsed(log[name]["entry"].encode(), dict) for name in ("commit", "outcome"))
    index = log["commit"]["index"]
    about = {"kind": "COMMIT", "run_id": manifest["run_id"], "schema": "clvlab-log/1", "inputs_hash": inputs_hash}
    require(about.items() <= commit.items(), f"entry {index} of the log commits to another run: {commit}")
    require(manifest["commit_index"] == index, f"the manifest names entry {manifest['commit_index']}, proved is {index}")
    about = {"kind": "RESULT", "run_id": manifest["run_id"], "schema": "clvlab-log/1", "manifest_hash": manifest_hash}
    require(about.items() <= outcome.items(), f"the log says of this run: {outcome}")
    require(outcome.get("commit_index") == index < log["outcome"]["index"], "the result does not follow its commitment")
    if log["earlier"]:
        earlier, count = signed_by(log["earlier"]["checkpoint"], trust["logs"])
        before, first, old = state_of(earlier)
        require(count and before == origin, "the earlier checkpoint is signed by no log that you trust, or is another log's")
        check_extends(first, old, size, root, hashes(log["earlier"]["proof"]))
    seen = trust["checkpoint"]
    known = [text, earlier] if log["earlier"] else [text]
    shown = seen is None or seen.partition("\n\n")[0].rstrip("\n") + "\n" in known
    require(shown, "no proof from the checkpoint that you have seen")


# The checks.


def read_parts(path: Path) -> dict[str, bytes]:
    """Read a run folder, or take a bundle apart: the listed parts, in order, with these hashes, and nothing else."""
    if path.is_dir():
        names = [name for name in PARTS[1:5] if (path / name).is_file()]
        if not {"manifest.json", "events.jsonl"} <= set(names):
            raise InputError(f"no sealed run at {path}: it must hold {', '.join(PARTS[1:4])}")
        return {name: (path / name).read_bytes() for name in names}
    text = path.read_bytes()
    head, _, rest = text.partition(b"\n")
    header = parsed(head, _HEADER, "the header of the bundle")
    names = [part["name"] for part in header["parts"]]
    ordered = names == [name for name in PARTS if name in names] and set(PARTS[:4]) <= set(names)
    require(ordered, f"a bundle has the parts {', '.join(PARTS)} in order, the first four always, not {names}")
    parts = {}
    for part in header["parts"]:
        data, rest = rest[: max(0, part["size"])], rest[max(0, part["size"]) :]
        require((len(data), sha256(data)) == (part["size"], part["sha256"]), f"{part['name']} is not what the header says")
        parts[part["name"]] = data
    require(not rest, f"{len(rest)} bytes follow the last part")
    return parts


def verify(
    path: Path, ticks: dict[int, Fixture] | None = None, trust: dict[str, Any] | None = None, required: Sequence[str] = ()
) -> dict[str, Any]:
    """Check a run folder or bundle: the hashes, for each check what is wrong, or null, and which proofs count for nothing."""
    try:
        parts = read_parts(path)
    except BrokenError as error:
        return {"verified": False, "checks": {"bundle": str(error)}, "without": {}, **dict.fromkeys(HASHES, "unread")}
    events, manifest, scores = parts["events.jsonl"], parts["manifest.json"], parts.get("scores.jsonl", b"")
    stored = stated(manifest)
    result: dict[str, Any] = {"run_id": stored.get("run_id"), "evidence_hash": stored.get("evidence_hash"), "without": {}}
    try:
        evidence = read_evidence(events)
        lines = [_written(row) for row in score_rows(evidence)]  # of values that were read
    except BrokenError as error:
        names = [*list(CHECKS)[:5], *(["states_from_ticks"] if ticks is not None else [])]
        result |= {"recomputed_evidence_hash": f"recompute_error:{error}", "manifest_hash": sha256(manifest)}
        return result | {"verified": False, "checks": dict.fromkeys(names, f"the evidence can't be read: {error}")}
    rebuilt = rebuilt_manifest(events, evidence, lines, stored.get("commit_index"))
    manifest_hash = sha256(canonical(rebuilt))
    derived = b"".join(line + b"\n" for line in lines)
    other = [key for key in rebuilt if stored.get(key, ...) != rebuilt[key]] or ["bytes"]
    recount = f"the {len(lines)} rows derived from the evidence are not the {len(lines_of(scores))} stored"
    integrity = f"SHA-256 of events.jsonl is {sha256(events)}, sealed was {stored.get('evidence_hash')}"
    binding = f"manifest.json has another {', '.join(other)} than the evidence gives"
    checks: dict[str, str | None] = {
        "evidence_integrity": None if sha256(events) == stored.get("evidence_hash") else integrity,
        "metrics_recomputed": None if derived == scores else recount,
        "manifest_bound": fault(check_names, evidence) if canonical(rebuilt) == manifest else binding,
        "policy_obeyed": fault(check_policy, evidence, parts.get("receipts.jsonl", b"")),
        "receipt_separation": None,  # what has been read has no room for one
    }
    if ticks is not None:
        checks["states_from_ticks"] = fault(check_ticks, evidence, ticks)
    if "context.json" in parts:
        named = {key: evidence.started["binding"][key] for key in ("content_hash", "fixture_ids", "pack_id")}
        named |= {"schema": "clvlab-context/1", "run_id": evidence.started["run_id"], "manifest_hash": sha256(manifest)}
        says = parts["context.json"] == canonical(named)
        checks["bundle"] = None if says else "context.json does not say what the manifest and the evidence say"
    trust = NO_TRUST | (trust or {})
    for name, keys, check, facts in (
        ("anchor", "anchor_signers", check_anchor, (manifest_hash,)),
        ("log", "logs", check_log, (rebuilt, inputs_hash(evidence.started), manifest_hash)),
    ):
        if f"{name}.json" not in parts or not trust[keys]:
            have = "is here, but you trust no key for it" if f"{name}.json" in parts else "is not here"
            (checks if name in required else result["without"])[name] = f"the proof {have}"
        else:
            checks[name] = fault(check, parts[f"{name}.json"], *facts, trust)
    result |= {"recomputed_evidence_hash": sha256(events), "manifest_hash": manifest_hash}
    return result | {"verified": checks["evidence_integrity"] is None, "checks": checks}


def verify_disclosure(path: Path, required: Sequence[str]) -> dict[str, Any]:
    """Check one decision and its score against the roots in a manifest, without the other events."""
    checks: dict[str, str | None] = dict.fromkeys(required, "a disclosure holds no such proof")
    try:
        disclosed = parsed(path.read_bytes(), _DISCLOSURE, "the disclosure")
        text, decision, score_row = (disclosed[name] for name in ("manifest", "decision", "score"))
        manifest = parsed(text.encode(), dict)
        roots = {"event_count", "evidence_hash", "evidence_root", "run_id", "score_root"}
        require(manifest.get("schema") == "clvlab-manifest/1" and roots <= manifest.keys(), "no manifest of clvlab-manifest/1")
        for proved, root in ((decision, "evidence_root"), (score_row, "score_root")):
            found = included(proved["line"].encode(), proved["index"], proved["size"], hashes(proved["proof"]))
            require("sha256:" + found.hex() == manifest[root], f"line {proved['index']} does not stand under the {root}")
        event = parsed(decision["line"].encode(), {"kind": {"DECISION"}, "payload": _SHAPES["DECISION"], "seq": int})
        row = parsed(score_row["line"].encode(), dict)
        same = event["seq"] == decision["index"] == row.get("seq") == score_row["index"] + 1
        require(same, "the two lines are not a decision and its score")
        require(decision["size"] == manifest["event_count"], "the evidence has another number of lines")
    except BrokenError as error:
        return {"verified": False, "checks": checks | {"disclosed": str(error)}, "without": {}} | dict.fromkeys(
            HASHES, "unread"
        )
    own = {"run_id": manifest["run_id"], "evidence_hash": manifest["evidence_hash"], "manifest_hash": sha256(text.encode())}
    own |= {"recomputed_evidence_hash": "not at hand", "verified": False, "without": {}}
    return own | {"checks": checks | {"disclosed": None}}


def stated(manifest: bytes) -> dict[str, Any]:
    """Give what a stored manifest states; nothing if it can't be read."""
    try:
        value = json.loads(manifest)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {}


def fault(check: Callable[..., None], *arguments: object) -> str | None:
    """Run a check; give what is wrong, or null."""
    try:
        check(*arguments)
    except BrokenError as error:
        return str(error)
    return None


def read_trust(path: Path) -> dict[str, Any]:
    """Read whom the caller trusts; what is left out is trusted with nothing."""
    try:
        trust: dict[str, Any] = NO_TRUST | json.loads(path.read_text(encoding="utf-8"))
        fits(trust, _TRUST, "the file")
        fits(list(trust["anchor_signers"].values()), [[str]], "anchor_signers")
    except (OSError, ValueError, TypeError, BrokenError) as error:
        raise InputError(f"can't read keys from {path}: {error}") from error
    return trust


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the run named on the command line; give the exit status."""
    parser = argparse.ArgumentParser(description="Check a sealed run.")
    parser.add_argument("run", type=Path, help="a run folder, a bundle, or the disclosure of a decision")
    parser.add_argument("--ticks", type=Path, metavar="ticks.csv", help="also derive every price in evidence from these ticks")
    parser.add_argument("--trust", type=Path, metavar="keys.json", help="keys of chains, logs and witnesses that you trust")
    parser.add_argument("--require", default="", metavar="anchor,log", help="proofs without which the run fails")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    asked = parser.parse_args(arguments)
    required = [name for name in asked.require.split(",") if name]
    try:
        if set(required) - {"anchor", "log"} or not asked.run.exists():
            raise InputError(f"nothing at {asked.run}, or --require is neither anchor nor log: {asked.require!r}")
        trust = read_trust(asked.trust) if asked.trust else None
        if asked.run.is_file() and asked.run.read_bytes()[:12] == b'{"decision":':
            result = verify_disclosure(asked.run, required)
        else:
            result = verify(asked.run, read_ticks(asked.ticks) if asked.ticks else None, trust, required)
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    verdicts = {name: ("fail", wrong) if wrong else ("pass", CHECKS[name]) for name, wrong in result["checks"].items()}
    if asked.json:
        sys.stdout.write(json.dumps(result | {"checks": verdicts}, indent=2) + "\n")
    else:
        without = {name: ("none", why) for name, why in result["without"].items()}
        sys.stdout.writelines(f"{verdict}  {name}: {why}\n" for name, (verdict, why) in (verdicts | without).items())
        sys.stdout.write(f"evidence {result['recomputed_evidence_hash']}\nmanifest {result['manifest_hash']}\n")
    return 1 if any(result["checks"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
