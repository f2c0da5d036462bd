#!/usr/bin/env python3
"""Check a sealed run with this one file, Python 3.10 or later and its standard library.

    python3 clv_verify.py RUN [--trust keys.json] [--policy FILE] [--require anchor,log,seat]
        [--without-witness] [--provider-proofs FILE] [--json]

RUN is a run folder, a proof bundle (one file), or the disclosure of one decision. This file shares no code with the program
that made them. It prints one line per check; exit status 0 when all pass, 1 when one fails, 2 when there is nothing to check.
It checks that the evidence is canonical and has the sealed hash, and that scores, verdicts and manifest follow from it. A
bundle may hold an anchor (a memo that a key signed for a public chain) and proofs from a log that the run was committed to
before its result. They count only by keys that you trust, and only if you require them: the maker of a bundle can leave them
out. A required log needs a witness. A policy (C2SP tlog-policy) names logs and witnesses, and how many must have signed. The
bundle of an agent that answered from elsewhere also holds its seat: a chain of all ticks and decisions, whose heads the log
holds. A file of TxLINE's proofs shows that it gave the prices of all scored entries and closes in batches of these roots;
whether a chain holds the roots is not checked here.

It can't show that no other agents were tried in silence, that the prices are the market's (clv_states.py, next to this file,
derives them from the ticks), or, as it uses no network, that the chain still holds the memo. A whole run that is made up,
hashes included, passes without anchor and log.
"""

from __future__ import annotations

import argparse
import base64
import gc
import hashlib
import json
import os
import re
import stat
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A JSON object. Its keys and their values are those of the shape by which it was read, such as EVENTS or MANIFEST.
Object = dict[str, Any]

PARTS = (
    "context.json", "manifest.json", "events.jsonl", "scores.jsonl", "receipts.jsonl", "anchor.json", "log.json", "seat.json",
    "stamps.json", "commit.tlog-proof", "outcome.tlog-proof", "checkpoint.ots", "earlier.ots",
)  # fmt: skip
MEMO_PROGRAMS = (
    "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo", "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr",
    "Memo4c2pN8afCj432Lb7RMVKi9PbQnnW7ewFFaV3oAH",
)  # fmt: skip
CLOSE_KINDS = {"pre_match": ("in_running", "kickoff", "tape_end"), "fixed_duration": ("duration",), "manual_stop": ("stop",)}
LAST_OPEN_MAX_AGE_MS = 300_000
SAFE_INTEGER = 2**53 - 1
MAX_LEVELS = 254
MAX_SIGNATURES, MAX_POLICY_LINES = 100, 10_000
MAX_BYTES, MAX_KEYS_BYTES, MAX_PROOFS_BYTES = 4 << 30, 1 << 20, 256 << 20
MAX_LINE_BYTES, MAX_STARTED_BYTES, MIN_MEAN_LINE_BYTES = 4 << 20, 32 << 20, 64
PIECE_BYTES = 1 << 20
MAX_DISCLOSURE_BYTES = 2 * (MAX_STARTED_BYTES + 5 * MAX_LINE_BYTES)
PART_LIMITS = {"context.json": MAX_LINE_BYTES, "seat.json": 64 << 20}
PART_LIMITS |= dict.fromkeys(("manifest.json", "anchor.json", "log.json", *PARTS[8:11]), 1 << 20)
PART_LIMITS |= dict.fromkeys(PARTS[11:], 64 << 10)


class BrokenError(Exception):
    """A rule is broken."""


class InputError(Exception):
    """There is nothing to check, or no key to check it by."""


def require(holds: object, text: str) -> None:
    if not holds:
        raise BrokenError(text)


def require_all(rules: dict[str, object], where: object) -> None:
    """Raise ``BrokenError`` that names the rules which do not hold."""
    if not all(rules.values()):
        raise BrokenError(f"{where}: it does not hold that {', that '.join(rule for rule in rules if not rules[rule])}")


# Canonical JSON: RFC 8785 with ASCII keys, integers within 2**53 - 1 and no floats.


_WRITE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode  # escapes as the RFC does


def decoded_text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BrokenError(f"no text: {error}") from error


def canonical(value: object) -> bytes:
    """Return a value in its one canonical form, if it has one."""
    try:
        _check_value(value, MAX_LEVELS)
        return _WRITE(value).encode("utf-8")
    except UnicodeEncodeError as error:
        raise BrokenError(f"a lone surrogate: {error.reason}") from error


def _check_value(value: object, levels: int) -> None:
    if isinstance(value, dict):
        require(all(isinstance(key, str) and key.isascii() for key in value), "a key that is no ASCII string")
        value = list(value.values())
    if isinstance(value, list):
        require(levels, f"more than {MAX_LEVELS} levels")
        for item in value:
            _check_value(item, levels - 1)
    elif isinstance(value, int):  # bool is an int to Python, and within bounds
        require(-SAFE_INTEGER <= value <= SAFE_INTEGER, "an integer beyond 2**53 - 1")
    else:
        require(value is None or isinstance(value, str), f"a number that is no integer: {value!r}")


def parsed(data: bytes) -> Any:
    """Read a value that must be canonical: a repeated key, a space or ``3.0`` would not be written again."""
    try:
        value = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise BrokenError(f"no JSON: {error}") from error
    require(canonical(value) == data, f"not canonical: {data[:60]!r}")
    return value


# Shapes. Of a value whose keys are known, one regular expression matches the canonical form, and nothing else: an object has
# exactly its keys, sorted; a list in a shape is a list of such items; a text in a shape is a regular expression.


def between(low: int, high: int) -> str:
    """Return a pattern of the integers from ``low`` to ``high`` as they are written: no leading zero, no ``-0``."""
    if low < 0:
        return f"-(?:{between(1, -low)})|{between(0, high)}"
    found = ["0"] if low == 0 else []
    if low <= 1:  # every number with fewer digits than high + 1
        digits = len(str(high + 1)) - 1
        low, found = 10**digits, [*found, f"[1-9][0-9]{{0,{digits - 1}}}"]
    while low <= high:  # then the largest block that begins at ``low`` and in which one digit varies, and all after it
        free = next(n for n in range(len(str(low)), -1, -1) if low % 10**n == 0 and low + 10**n <= high + 1)
        head, digit = divmod(low // 10**free, 10)
        last = min(9, digit + (high + 1 - low) // 10**free - 1)
        found.append(f"{head or ''}[{digit}-{last}][0-9]{{{free}}}")
        low += (last - digit + 1) * 10**free
    return "|".join(found)


def pattern(shape: Any) -> str:
    """Return the regular expression of a shape; keys with a question mark may be missing, but not all of an object."""
    if isinstance(shape, dict):
        items = [(key, f'"{key.removesuffix("?")}":{pattern(shape[key])}') for key in sorted(shape)]
        sure = next(place for place, (key, _) in enumerate(items) if key[-1] != "?")
        before = "".join(f"(?:{item},)?" for _, item in items[:sure])
        after = "".join(f"(?:,{item})?" if key[-1] == "?" else f",{item}" for key, item in items[sure + 1 :])
        return rf"\{{{before}{items[sure][1]}{after}\}}"
    if isinstance(shape, list):
        return rf"\[(?:{pattern(shape[0])}(?:,{pattern(shape[0])})*)?\]"
    return f"(?:{shape})"


def null_or(shape: Any) -> str:
    return f"null|{pattern(shape)}"


def one_of(*texts: str) -> str:
    return "|".join(f'"{re.escape(text)}"' for text in texts)


# A text: characters without an escape. The escapes that have no shorter or other form are taken out of a line before it
# is matched, or the expression would keep a state for each of them.
TEXT = r'"[^"\\\x00-\x1f]*"'
CONTROLS = [f"u{code:04x}" for code in range(32) if chr(code) not in "\b\f\n\r\t"]
ESCAPES = [f"\\{char}" for char in ("\\", '"', *"bfnrt", *CONTROLS)]  # a backslash first: it may precede any other
HASH = r'"sha256:[0-9a-f]{64}"'
BOOL, INT, COUNT = "true|false", between(-SAFE_INTEGER, SAFE_INTEGER), between(0, SAFE_INTEGER)
SECONDS, MAX_WINDOW_S, PROBABILITY = between(0, SAFE_INTEGER // 1000), SAFE_INTEGER // 1_000_000, between(0, 10_000)
SIDE = {"odds_milli": null_or(between(1001, 100_000_000)), "prob_bps": null_or(PROBABILITY), "side": TEXT}
STATE = {"sides": [SIDE], "suspended": BOOL, "tick_seq": INT, "ts_ms": COUNT}
EARLY = ("kill_switch_on", "market_not_allowed", "venue_not_allowed", "warmup", "cooldown_active", "stake_missing",
         "stake_over_max", "prob_out_of_range", "order_cap", "exposure_cap")  # fmt: skip
LATE = ("quote_missing", "quote_stale", "slippage_over_max", "edge_below_min", "stake_over_max")
PHASES = {"post": {"allowed": BOOL, "reasons": [one_of(*LATE)]}, "pre": {"allowed": BOOL, "reasons": [one_of(*EARLY)]}}
POLICY = {
    "cooldown_s": SECONDS, "execution_mode": one_of("paper", "dry_run"), "kill_switch": BOOL, "market_allowlist": [TEXT],
    "max_exposure_per_fixture": null_or(COUNT), "max_exposure_per_market": null_or(COUNT), "max_orders": null_or(COUNT),
    "max_prob_bps": PROBABILITY, "max_quote_age_s": SECONDS, "max_slippage_bps": PROBABILITY, "max_stake": COUNT,
    "min_edge_bps": null_or(between(-10_000, SAFE_INTEGER)), "min_prob_bps": PROBABILITY, "require_quote": BOOL,
    "schema": one_of("clvlab-policy/1"), "venue_allowlist": [TEXT], "warmup_ticks": COUNT,
}  # fmt: skip
MODES = {"replay": "Backtest", "live": "Live paper"}
SINCE_TWO = ("transcript", "stepped", "stepped-blocks", "asked")
LABELS = ("template", "audited-sandbox", "audited-process", "unchecked", "tick-by-tick", "prefix-audit", "live", *SINCE_TWO)
HELD = ("calls", "files", "libraries", "memory", "processes", "root")
AGENT = {
    "agent_id": TEXT, "causality": one_of(*LABELS), "config": r"\{\}", "config_hash": TEXT, "network?": "true",
    "proof_mode": TEXT, "reads?": [{"name": TEXT, "sha256": TEXT}], "source_sha256": null_or(TEXT), "strategy": TEXT,
    "strategy_version": TEXT,
}  # fmt: skip
WINDOW = {
    "close_source?": TEXT, "closing_policy": one_of("last_state", "last_open"), "duration_s": null_or(between(1, MAX_WINDOW_S)),
    "end_rule": one_of(*CLOSE_KINDS), "market_allowlist": [TEXT], "max_close_age_s?": between(1, MAX_WINDOW_S),
    "min_clv_horizon_s": between(0, MAX_WINDOW_S), "window_id": TEXT,
}  # fmt: skip
EVENTS: Object = {
    "RUN_STARTED": {
        "agents": [AGENT], "binding": {"content_hash": null_or(TEXT), "fixture_ids": [INT], "pack_id": null_or(TEXT)},
        "isolation?": [{"agent_id": TEXT, "held": [one_of(*HELD)]}], "kind": TEXT, "law_version": one_of("clv-law/1"),
        "mode_label": one_of(*MODES.values()), "origin_id": null_or(TEXT),
        "policy": POLICY, "policy_hash": TEXT, "run_id": TEXT, "schema": one_of("clvlab-run/1", "clvlab-run/2"),
        "source_mode": one_of(*MODES), "window": WINDOW},
    "DECISION": {
        "action": {
            "limit_odds_milli": null_or(between(0, 2**31 - 1)), "market_key": null_or(TEXT), "side": null_or(TEXT),
            "stake": null_or(COUNT), "type": one_of("BACK", "WAIT")},
        "agent_id": TEXT, "fixture_id": INT, "market_state": null_or({"age_ms": COUNT, **STATE}), "policy": null_or(PHASES),
        "tick_seq": INT, "ts_ms": COUNT,
        "untrusted": {
            "claimed_edge_bps": null_or(INT), "confidence_ppm": null_or(between(0, 1_000_000)),
            "confidence_raw": null_or(TEXT), "reason": null_or(TEXT)}},
    "AGENT_ERROR": {"agent_id": TEXT, "error": TEXT, "fixture_id": null_or(INT), "tick_seq": null_or(INT)},
    "MARKET_CLOSE": {
        "close_kind": TEXT, "close_ts_ms": COUNT, "closing": null_or(STATE), "end_seq": INT, "fixture_id": INT,
        "market_key": TEXT},
    "RUN_SEALED": {"agent_errors": COUNT, "content_hash?": HASH, "decisions": COUNT, "market_closes": COUNT},
}  # fmt: skip
RECEIPT = {
    "agent_id": TEXT, "decision_seq": INT, "non_scoring": "true", "odds_milli": null_or(INT), "run_id": TEXT, "stake": COUNT,
    "status": TEXT, "ts_ms": INT, "venue": TEXT,
}  # fmt: skip
SCORE = {
    **dict.fromkeys(("agent_id", "reason"), TEXT), **dict.fromkeys(("market_key", "side", "close_kind"), null_or(TEXT)),
    **dict.fromkeys(("fixture_id", "seq", "tick_seq"), INT), "valid": BOOL,
    **dict.fromkeys(("clv_bps", "close_prob_bps", "closing_age_ms", "confidence_ppm", "edge_bps"), null_or(INT)),
    **dict.fromkeys(("entry_prob_bps", "odds_milli"), null_or(INT)),
}  # fmt: skip
MANIFEST = {
    **dict.fromkeys(("config_hash", "evidence_hash", "evidence_root", "policy_hash", "run_id", "score_root"), TEXT),
    "commit_index": null_or(COUNT), "content_hash": null_or(TEXT), "event_count": COUNT, "law_version": one_of("clv-law/1"),
    "schema": one_of("clvlab-manifest/1"), "verifier_version": one_of("clvlab-proof/1"),
}  # fmt: skip
HEADER = {"parts": [{"name": one_of(*PARTS), "sha256": TEXT, "size": COUNT}], "schema": one_of("clvlab-bundle/1")}
ANCHOR = {"cluster": TEXT, "schema": one_of("clvlab-bundle-anchor/1"), "signature": TEXT, "transaction": TEXT}
PROOF = [r'"[0-9a-f]{64}"']
PROVED = {"entry": TEXT, "index": COUNT, "proof": PROOF}
LOG = {"checkpoint": TEXT, "commit": PROVED, "earlier": null_or({"checkpoint": TEXT, "proof": PROOF}), "outcome": PROVED}
CLAIM = dict.fromkeys(("abandoned", "earlier", "later", "unknown_pack"), COUNT)
LOGS = "|".join(
    pattern(LOG | {"schema": one_of(f"clvlab-bundle-log/{version}"), **claim})
    for version, claim in ((1, {}), (2, {"claim": CLAIM}))
)
PACK = {"content_hash": null_or(TEXT)}
COMMIT = {"run_id": TEXT, "ts_ms": COUNT, "kind": one_of("COMMIT"), "inputs_hash": TEXT, "owner": TEXT}
COMMITS = "|".join(
    pattern(COMMIT | {"schema": one_of(f"clvlab-log/{version}"), **pack})
    for version, pack in ((1, {}), (2, PACK), (6, PACK | {"sources_hash": TEXT}))
)
RESULT = {"run_id": TEXT, "ts_ms": COUNT, "kind": one_of("RESULT"), "commit_index": COUNT, "manifest_hash": TEXT}
RESULTS = "|".join(
    pattern(RESULT | {"schema": one_of(*(f"clvlab-log/{version}" for version in versions)), **pack})
    for versions, pack in (((1, 2), {}), ((6,), PACK))
)
CLAIMS = {"claimed_edge_bps?": INT, "confidence?": TEXT, "reason?": TEXT}
SEAT_BACK = {"action": one_of("BACK"), "limit_odds_milli?": COUNT, "market": TEXT, "side": TEXT, "stake": COUNT, **CLAIMS}
SEAT_DECISIONS = f"{pattern(SEAT_BACK)}|{pattern({'action': one_of('WAIT'), **CLAIMS})}"
SEAT_HEADER = {"schema": one_of("clvlab-seat/1"), **dict.fromkeys(("agent_id", "blind_commitment", "run_id", "seat"), TEXT)}
SEAT = {
    "blind": one_of("open", "aliased", "held-back", "live"), "entries": [PROVED], "header": SEAT_HEADER,
    "held?": [PROVED], "schema": one_of("clvlab-seat-chain/1"), "secret": r'"[0-9a-f]{64}"',
    "ticks": [{"decisions": [SEAT_DECISIONS], "head": HASH, "missed": BOOL, "tick": HASH}],
}  # fmt: skip
SEAT_ENTRY = {
    "commit_index": COUNT, "head": HASH, "kind": one_of("SEAT"), "run_id": TEXT, "schema": one_of("clvlab-log/8"),
    "ticks": COUNT, "ts_ms": COUNT,
}  # fmt: skip
HELD_ENTRY = {
    "content_hash": HASH, "fixtures": COUNT, "fixtures_hash": HASH, "kind": one_of("HELD"), "schema": one_of("clvlab-log/9"),
    "ts_ms": COUNT,
}  # fmt: skip
RELEASED_ENTRY = {
    "content_hash": HASH, "held_index": COUNT, "kind": one_of("RELEASED"), "schema": one_of("clvlab-log/9"), "ts_ms": COUNT,
}  # fmt: skip
LINE = {"index": COUNT, "line": TEXT, "proof": PROOF, "size": COUNT}
DISCLOSURE = {
    "close": null_or(LINE), "decision": LINE, "manifest": TEXT, "schema": one_of("clvlab-disclosure/2"), "score": LINE,
    "sealed": LINE, "started": LINE,
}  # fmt: skip
TRUST = {
    "anchor_signers": r"\{\}", "checkpoint": null_or(TEXT), "logs": [TEXT], "witness_quorum": COUNT, "witnesses": [TEXT],
}  # fmt: skip
NO_TRUST: Object = {"anchor_signers": {}, "checkpoint": None, "logs": [], "witness_quorum": 0, "witnesses": []}
OF_KIND = {
    kind: re.compile(pattern({"kind": one_of(kind), "payload": payload, "seq": COUNT})) for kind, payload in EVENTS.items()
}


def unescaped(text: str) -> str:
    for escape in ESCAPES if "\\" in text else ():
        text = text.replace(escape, "~")
    return text


def shaped(data: bytes, shape: Any, where: str) -> Any:
    text = decoded_text(data)
    require(
        re.fullmatch(pattern(shape), unescaped(text)), f"{where} is not canonical, or has other keys or values than its kind"
    )
    return json.loads(text)


def check_lines(text: bytes, name: str, first: int = MAX_LINE_BYTES) -> None:
    """Require the number and length of lines to be within the limits, without splitting them."""
    count, at = text.count(b"\n"), text.find(b"\n", 0, first + 1) + 1
    require(count * MIN_MEAN_LINE_BYTES <= len(text), f"{name} has {count:,} lines in {len(text):,} bytes: too many")
    require(at or not text, f"line 1 of {name} has more than {first:,} bytes")
    while at < len(text):  # up to the last line feed in reach: every line before it is short enough
        at = text.rfind(b"\n", at, at + MAX_LINE_BYTES + 1) + 1
        require(at, f"a line of {name} has more than {MAX_LINE_BYTES:,} bytes")


# Hashes and Merkle trees (RFC 9162, section 2.1).


def sha256(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def lines_of(text: bytes) -> list[bytes]:
    return text.removesuffix(b"\n").split(b"\n") if text else []


def decoded_lines(text: bytes) -> Iterator[str]:
    """Yield lines one by one, so that not all are in memory: the first may be refused."""
    at = 0
    while at < len(text):
        end = text.find(b"\n", at + PIECE_BYTES) + 1 or len(text)
        yield from decoded_text(text[at:end]).removesuffix("\n").split("\n")
        at = end


def node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def leaf(line: bytes) -> bytes:
    return hashlib.sha256(b"\0" + line).digest()


def merkle_root(lines: Sequence[bytes]) -> str:
    """Return the root hash over lines; an odd node at the end of a level rises unchanged."""
    level = [leaf(line) for line in lines]
    while len(level) > 1:
        pairs = [node(a, b) for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[len(pairs) * 2 :]
    return "sha256:" + (level[0] if level else hashlib.sha256(b"").digest()).hex()


def included(value: bytes, index: int, size: int, proof: Sequence[bytes]) -> bytes:
    """Return the root of the tree of ``size`` leaves that this proof puts a leaf in (section 2.1.3.1, backwards)."""
    require(0 <= index < size and bool(proof) == (size > 1), f"no proof of leaf {index} among {size}")
    if size == 1:
        return value
    *rest, other = proof
    left = 1 << (size - 1).bit_length() - 1  # the largest power of two below the size
    if index < left:
        return node(included(value, index, left, rest), other)
    return node(other, included(value, index - left, size - left, rest))


def extended(first: int, size: int, proof: Sequence[bytes], old: bytes | None) -> tuple[bytes, bytes]:
    """Return the roots of the trees of ``first`` and ``size`` leaves that this proof joins (section 2.1.4.1, backwards)."""
    *rest, other = proof or [b""]
    if first == size:  # this subtree is the whole first tree, whose root is known, or is in the proof
        require(len(proof) == (old is None), "the proof has another length")
        return (other, other) if old is None else (old, old)
    require(0 < first < size and proof, f"no proof from {first} to {size} entries")
    left = 1 << (size - 1).bit_length() - 1
    if first <= left:
        before, after = extended(first, left, rest, old)
        return before, node(after, other)
    before, after = extended(first - left, size - left, rest, None)
    return node(other, before), node(other, after)


# Ed25519 signatures (RFC 8032, section 5.1), on points in extended coordinates.

P, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
EIGHTH = int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little")
SMALL_ORDER = {0, 1, P - 1, EIGHTH, P - EIGHTH}  # y of the points of small order: anybody can sign under such a key
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
    """Require an Ed25519 signature to be valid (section 5.1.7), by a key of large order."""
    require((len(public), len(signature)) == (32, 64), f"the key or signature of {name} has another length")
    key, commitment, scalar = _point(public), _point(signature[:32]), int.from_bytes(signature[32:], "little")
    require(_times(8, key)[0], f"the key of {name} is of small order")
    digest = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % ORDER
    left, right = _times(scalar, _point(b"\x58" + b"\x66" * 31)), _plus(commitment, _times(digest, key))
    same = all((left[at] * right[2] - right[at] * left[2]) % P == 0 for at in (0, 1))
    require(same and scalar < ORDER, f"the signature by {name} does not hold")


# Reading the evidence.


@dataclass
class Evidence:
    """The payloads of a run, in order; decisions with their ``seq``, closes by fixture and market."""

    started: Object
    decisions: list[tuple[int, Object]]
    closes: dict[tuple[int, str], Object]


def read_evidence(data: bytes) -> Evidence:
    require(data.endswith(b"\n"), "events.jsonl is empty or does not end with a line feed")
    check_lines(data, "events.jsonl", MAX_STARTED_BYTES)
    lines = decoded_lines(data)
    payloads: dict[str, list[Any]] = {kind: [] for kind in EVENTS}
    payloads["RUN_STARTED"].append(_read_started(next(lines)))
    order, kind = list(EVENTS), "DECISION"
    for seq, line in enumerate(lines, 1):
        plain = unescaped(line)
        if not OF_KIND[kind].fullmatch(plain):
            kind = next((name for name in order[order.index(kind) :] if OF_KIND[name].fullmatch(plain)), "")
            require(kind, f"line {seq + 1} is not canonical, of no kind, or out of order: {line[:60]!r}")
        event = json.loads(line)
        if event["seq"] != seq:
            raise BrokenError(f"line {seq + 1} has seq {event['seq']}")
        payloads[kind].append((seq, event["payload"]) if kind == "DECISION" else event["payload"])
        failed = kind == "AGENT_ERROR" and len(payloads[kind]) > len(payloads["RUN_STARTED"][0]["agents"])
        require(not failed, "more agents failed than RUN_STARTED names")
    counts = {f"{name}s".lower(): len(payloads[name.upper()]) for name in ("agent_error", "decision", "market_close")}
    sealed = payloads["RUN_SEALED"] or [{}]
    captured = "content_hash" in sealed[0]
    found = [{name: value for name, value in each.items() if name != "content_hash"} for each in sealed]
    require(found == [counts], f"RUN_SEALED must stand once, and count {counts}")
    closes = {(close["fixture_id"], close["market_key"]): close for close in payloads["MARKET_CLOSE"]}
    require(len(closes) == counts["market_closes"], "a market closes twice")
    evidence = Evidence(payloads["RUN_STARTED"][0], payloads["DECISION"], closes)
    agents = {agent["agent_id"] for agent in evidence.started["agents"]}
    _check_started(evidence.started, captured=captured)
    _check_errors([error["agent_id"] for error in payloads["AGENT_ERROR"]], evidence, agents)
    _check_decisions(evidence, agents)
    _check_closes(evidence)
    _check_coherence(evidence)
    return evidence


def _read_started(line: str) -> Object:
    """Read RUN_STARTED: an agent's ``config`` is any canonical object, all else has a shape."""
    event = parsed(line.encode())
    try:
        agents = [agent | {"config": agent["config"] and {}} for agent in event["payload"]["agents"]]
        known = event | {"payload": event["payload"] | {"agents": agents}}
        objects = all(type(agent["config"]) is dict for agent in event["payload"]["agents"])
    except (KeyError, TypeError) as error:
        raise BrokenError(f"line 1 is no RUN_STARTED: {error!r}") from error
    bare = canonical(known)
    require(
        len(bare) <= MAX_LINE_BYTES, f"RUN_STARTED has more than {MAX_LINE_BYTES:,} bytes without its agents' configurations"
    )
    fits = objects and OF_KIND["RUN_STARTED"].fullmatch(unescaped(bare.decode())) and event["seq"] == 0
    require(fits, "line 1 is no RUN_STARTED with exactly its keys and values")
    payload: Object = event["payload"]
    return payload


def _check_started(started: Object, *, captured: bool) -> None:
    """Check the rules of RUN_STARTED beyond its shape; ``captured`` is whether RUN_SEALED names a pack."""
    binding, live = started["binding"], started["source_mode"] == "live"
    window, policy, ids = started["window"], started["policy"], [agent["agent_id"] for agent in started["agents"]]
    allowlists = (window["market_allowlist"], policy["market_allowlist"], policy["venue_allowlist"])
    rules: dict[str, object] = {
        "agents are named once, in byte order": ids and ids == sorted(set(ids)),
        "duration_s goes with fixed_duration": (window["duration_s"] is None) == (window["end_rule"] != "fixed_duration"),
        "window_id has 1 to 200 bytes": 1 <= len(window["window_id"].encode()) <= 200,
        "close_source has 1 to 200 bytes": 1 <= len(window.get("close_source", "-").encode()) <= 200,
        "an allowlist has at most 1000 entries": max(map(len, allowlists)) <= 1000,
        "files that an agent could read are named in order": all(map(_in_order, started["agents"])),
        "a run is labelled as what it is fed with": started["mode_label"] == MODES[started["source_mode"]],
        "a live run is bound to no pack before it began": not live or binding["pack_id"] is binding["content_hash"] is None,
        "RUN_SEALED names the pack that was captured of a live run, and of no other": captured == live,
        "agents of a live run decided live, and no others": all(
            (agent["causality"] == "live") == live for agent in started["agents"]
        ),
        "a run is of the first schema that has words for it": started["schema"]
        == f"clvlab-run/{2 if _says_more(started) else 1}",
        "what was held of agents is named in order, and of all that were asked step by step": _is_held(started),
        "some probability is allowed": policy["min_prob_bps"] <= policy["max_prob_bps"],
    }
    require_all(rules, "RUN_STARTED")


def _says_more(started: Object) -> bool:
    """Return whether RUN_STARTED uses labels that the first schema lacks."""
    return "isolation" in started or _has_new_label(started)


def _has_new_label(started: Object) -> bool:
    return any(agent["causality"] in SINCE_TWO for agent in started["agents"])


def _is_held(started: Object) -> bool:
    """Check that ``isolation`` names agents of the run and resources held, each once, in order, and never empty."""
    stated = started.get("isolation", [])
    held = {one["agent_id"]: one["held"] for one in stated}
    agents = {agent["agent_id"] for agent in started["agents"]}
    stepped = [agent["agent_id"] for agent in started["agents"] if agent["causality"] in ("stepped", "stepped-blocks")]
    return (
        [one["agent_id"] for one in stated] == sorted(held.keys() & agents)
        and ("isolation" not in started or len(held) > 0)
        and all(names and names == sorted(set(names)) for names in held.values())
        and all({"calls", "files"} <= set(held.get(agent_id, ())) for agent_id in stepped)
    )


def _in_order(agent: Object) -> bool:
    """Check that an agent's readable files, if listed, are sorted by name and hash, and not empty."""
    named = [(read["name"], read["sha256"]) for read in agent.get("reads", [{"name": "", "sha256": ""}])]
    return bool(named) and named == sorted(named)


def _check_errors(failed: list[str], evidence: Evidence, agents: set[str]) -> None:
    rules: dict[str, object] = {
        "failed agents are named by RUN_STARTED, and not all of them": set(failed) < agents,
        "an agent fails once, in byte order": failed == sorted(set(failed)),
        "an agent that failed decided nothing": not {line["agent_id"] for _, line in evidence.decisions} & set(failed),
    }
    require_all(rules, "AGENT_ERROR")


def _check_decisions(evidence: Evidence, agents: set[str]) -> None:
    fixtures, waits = set(evidence.started["binding"]["fixture_ids"]), set()
    before: tuple[Any, ...] = ()
    for seq, decision in evidence.decisions:
        action, state, policy, ts_ms = decision["action"], decision["market_state"], decision["policy"], decision["ts_ms"]
        market, side, back = action["market_key"], action["side"], action["type"] == "BACK"
        tick = decision["fixture_id"], decision["tick_seq"], decision["agent_id"]
        # Null comes first; of texts, the order by code point is the order of their UTF-8 bytes.
        key = (ts_ms, *tick, market is not None, market or "", side is not None, side or "", action["type"])
        rules = {
            "it stands after its predecessor by time, fixture, tick, agent, market, side and action": before < key,
            "an agent waits once at a tick": back or tick not in waits,
            "its agent is of this run": tick[2] in agents,
            "its fixture is replayed": tick[0] in fixtures,
            "a BACK has verdicts, a WAIT has none": (policy is not None) == back,
            "a phase is allowed that has no reason": all(p["allowed"] != bool(p["reasons"]) for p in (policy or {}).values()),
            "its state is of a market that it backs": not state or (back and market is not None),
            "its state is of no later tick": not state or state["tick_seq"] <= tick[1],
            "its state is as old as it says": not state or state["ts_ms"] == ts_ms - state["age_ms"],
            "the sides of its state are in order, and of a suspended market without a probability": _ordered(state),
        }
        require_all(rules, f"seq {seq}")
        before = key
        if not back:
            waits.add(tick)


def _ordered(state: Object | None) -> bool:
    """Check that sides are unique, in byte order, and without a probability if the market is suspended."""
    names = [side["side"] for side in state["sides"]] if state else []
    priced = state and state["suspended"] and any(side["prob_bps"] is not None for side in state["sides"])
    return not priced and names == sorted(set(names))


def _check_closes(evidence: Evidence) -> None:
    backs = [(decision["fixture_id"], decision["action"]) for _, decision in evidence.decisions]
    named = {(fixture, action["market_key"]) for fixture, action in backs if action["type"] == "BACK"}
    named = {key for key in named if key[1] is not None}
    require(list(evidence.closes) == sorted(named), "there must be one MARKET_CLOSE for every market that a BACK names, sorted")
    ends: dict[int, tuple[Any, ...]] = {}
    for key, close in evidence.closes.items():
        state, end = close["closing"], (close["end_seq"], close["close_ts_ms"], close["close_kind"])
        rules = {
            "its kind is one of its end rule": end[2] in CLOSE_KINDS[evidence.started["window"]["end_rule"]],
            "its window ends at a tick of 31 bits": 0 <= end[0] <= 2**31,
            "all markets of a fixture close together": ends.setdefault(key[0], end) == end,
            "its state lies inside the window": not state or (state["tick_seq"] < end[0] and state["ts_ms"] <= end[1]),
            "its sides are in order and priced as its suspension says": _ordered(state),
        }
        require_all(rules, f"the close of {key}")


# Consistency between lines. A fixture has one sequence of messages, each about one market and at one time, and a state is
# the last message of its market: all lines together must be what one tape could have given.

Tick = tuple[int, int]  # a fixture, and the number of a message in it


def _check_coherence(evidence: Evidence) -> None:
    messages, policy = _messages(evidence), evidence.started["window"]["closing_policy"]
    _check_times(evidence, messages)
    known: dict[tuple[int, str], tuple[list[int], list[int]]] = {}  # of each market all messages, and those that are open
    for (fixture, number), (market, state) in messages.items():
        every, opened = known.setdefault((fixture, market), ([], []))
        every.append(number)
        if not state["suspended"]:
            opened.append(number)
    for every, opened in known.values():
        every.sort()
        opened.sort()
    for seq, decision in evidence.decisions:
        market, state = decision["action"]["market_key"], decision["market_state"]
        if decision["action"]["type"] == "BACK" and market is not None:
            last = _last(known.get((decision["fixture_id"], market), ([], []))[0], decision["tick_seq"])
            if last != (state["tick_seq"] if state else None):
                raise BrokenError(f"seq {seq}: the last message of its market by then is {last}, and not its state")
    for (fixture, market), close in evidence.closes.items():
        every, opened = known.get((fixture, market), ([], []))
        last, last_open = _last(every, close["end_seq"] - 1), _last(opened, close["end_seq"] - 1)
        if policy == "last_open" and last_open is not None:  # then the last message is open itself, or a suspension
            age_ms = close["close_ts_ms"] - messages[fixture, last_open][1]["ts_ms"]
            last = last_open if age_ms <= LAST_OPEN_MAX_AGE_MS else last
        found = close["closing"]["tick_seq"] if close["closing"] else None
        require(found == last, f"{market} of {fixture} closes with message {found}, inside the window it had message {last}")


def _last(numbers: list[int], at: int) -> int | None:
    count = bisect_right(numbers, at)
    return numbers[count - 1] if count else None


def _messages(evidence: Evidence) -> dict[Tick, tuple[str, Object]]:
    messages: dict[Tick, tuple[str, Object]] = {}
    names: dict[tuple[int, str], list[str]] = {}
    states = [(line["fixture_id"], line["action"]["market_key"], line["market_state"]) for _, line in evidence.decisions]
    for fixture, market, state in states + [(*key, close["closing"]) for key, close in evidence.closes.items()]:
        if state:
            own = [side["side"] for side in state["sides"]]
            always = names.setdefault((fixture, market), own)
            first = messages.setdefault((fixture, state["tick_seq"]), (market, state))
            one = first[1] is state or all(first[1][name] == state[name] for name in ("sides", "suspended", "ts_ms"))
            priced = state["suspended"] or any(side["prob_bps"] is not None for side in state["sides"])
            if not (one and first[0] == market and own == always and len(own) > 1 and priced):
                raise BrokenError(
                    f"tick {state['tick_seq']} of fixture {fixture} must be one message about one market, which always has the "
                    "same sides, two at least, and is suspended if it has no probability"
                )
    return messages


def _check_times(evidence: Evidence, messages: dict[Tick, tuple[str, Object]]) -> None:
    """Require one time for each tick, times that never fall, and windows that end where those times say."""
    ends = {key[0]: (line["close_kind"], line["end_seq"], line["close_ts_ms"]) for key, line in evidence.closes.items()}
    times: dict[int, dict[int, int]] = {fixture: {} for fixture in evidence.started["binding"]["fixture_ids"]}
    for (fixture, number), (_, state) in messages.items():
        times[fixture][number] = state["ts_ms"]
    stated = [((fixture, end), close) for fixture, (kind, end, close) in ends.items() if kind == "in_running"]
    stated += [((fixture, end - 1), close) for fixture, (kind, end, close) in ends.items() if kind in ("tape_end", "stop")]
    stated += [((line["fixture_id"], line["tick_seq"]), line["ts_ms"]) for _, line in evidence.decisions]
    for (fixture, number), ts_ms in stated:
        if times[fixture].setdefault(number, ts_ms) != ts_ms:
            raise BrokenError(f"tick {number} of fixture {fixture} has two times")
    duration_ms = 1000 * (evidence.started["window"]["duration_s"] or 0)
    for fixture, ticks in times.items():
        (kind, end, close), before_ms = ends.get(fixture, ("", 0, 0)), 0
        for number in sorted(ticks):
            ts_ms, inside = ticks[number], number < end
            fits = (
                kind in ("", "in_running")
                or (kind == "kickoff" and inside == (ts_ms < close))
                or (kind == "duration" and inside == (ts_ms <= close) and close - duration_ms <= ts_ms)
                or (kind in ("tape_end", "stop") and inside)
            )
            if not (fits and 0 <= number < 2**31 and before_ms <= ts_ms):
                raise BrokenError(
                    f"tick {number} of fixture {fixture} must have 31 bits, be no earlier than the one before, and be "
                    f"inside or outside its window as the {kind} close says"
                )
            before_ms = ts_ms


# The law, once more: scores from the two states of a decision.


def score_rows(evidence: Evidence) -> list[Object]:
    """Score every decision by the MARKET_CLOSE of its market; a WAIT, or a decision without a market, has none."""
    window, rows = evidence.started["window"], []
    finals = {  # looked up, as one close may have as many sides as there are decisions
        key: {side["side"]: side["prob_bps"] for side in close["closing"]["sides"]}
        for key, close in evidence.closes.items() if close["closing"]
    }  # fmt: skip
    for seq, decision in evidence.decisions:
        action = decision["action"]
        key = decision["fixture_id"], action["market_key"]
        close = evidence.closes.get(key) if action["type"] == "BACK" else None
        close_prob = finals.get(key, {}).get(action["side"]) if close else None
        rows.append(_score(seq, decision, close, close_prob, window))
    return rows


def _score(seq: int, decision: Object, close: Object | None, close_prob: Any, window: Object) -> Object:
    action, state, closing = decision["action"], decision["market_state"], close["closing"] if close else None
    market, side = action["market_key"], action["side"]
    age_ms, limit_s = close["close_ts_ms"] - closing["ts_ms"] if close and closing else None, window.get("max_close_age_s")
    entry_prob, odds = _price(state, side)
    rules = {  # the first that holds names the reason
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
        "closing_stale": limit_s is not None and age_ms is not None and age_ms > 1000 * limit_s,
        "closing_side_missing": close_prob is None,
        "pending_horizon": close and close["close_ts_ms"] - decision["ts_ms"] < 1000 * window["min_clv_horizon_s"],
        "scored": True,
    }
    reason = next(name for name, holds in rules.items() if holds)
    scored = reason == "scored"
    return {
        "agent_id": decision["agent_id"], "clv_bps": close_prob - entry_prob if scored else None,
        "close_kind": close["close_kind"] if close else None, "close_prob_bps": close_prob,
        "closing_age_ms": age_ms,
        "confidence_ppm": decision["untrusted"]["confidence_ppm"],
        "edge_bps": edge_bps(entry_prob, odds, close_prob) if scored else None,
        "entry_prob_bps": entry_prob, "fixture_id": decision["fixture_id"], "market_key": market, "odds_milli": odds,
        "reason": reason, "seq": seq, "side": side, "tick_seq": decision["tick_seq"],
        "valid": reason in ("scored", "wait_unscored", "pending_horizon"),
    }  # fmt: skip


def _price(state: Object | None, name: str | None) -> tuple[Any, Any]:
    for side in state["sides"] if state else ():
        if side["side"] == name:
            return side["prob_bps"], side["odds_milli"]
    return None, None


def _starts(market: str | None, prefixes: list[str]) -> bool:
    return market is not None and market.startswith(tuple(prefixes))


def edge_bps(entry_prob_bps: int, odds_milli: int | None, close_prob_bps: int) -> int | None:
    """Return the value of the price taken at the closing probability, half up; without a quote, of a fair price at entry."""
    if odds_milli is not None:
        return (2 * close_prob_bps * odds_milli + 1000) // 2000 - 10_000
    if entry_prob_bps > 0:
        return (2 * close_prob_bps * 10_000 + entry_prob_bps) // (2 * entry_prob_bps) - 10_000
    return None


# The policy gate, once more: what was known at the decision, and what was allowed before.


def verdicts(evidence: Evidence) -> list[tuple[int, Object]]:
    """Judge every BACK in both phases, in order; cooldown and caps count the actions allowed to the same agent."""
    policy, used, ready_ms = evidence.started["policy"], Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
    judged = []
    for seq, decision in evidence.decisions:
        action = decision["action"]
        if action["type"] == "WAIT":
            continue
        agent, fixture, stake = decision["agent_id"], decision["fixture_id"], action["stake"] or 0
        on_fixture, on_market = (agent, fixture), (agent, fixture, action["market_key"])
        exposed = ((on_fixture, "max_exposure_per_fixture"), (on_market, "max_exposure_per_market"))
        counted = {
            "cooldown_active": decision["ts_ms"] < ready_ms[on_market],
            "order_cap": _over(used[agent,] + 1, policy["max_orders"]),
            "exposure_cap": any(_over(used[key] + stake, policy[cap]) for key, cap in exposed),
        }
        phases = {
            name: [reason for reason, broken in rules.items() if broken]
            for name, rules in zip(("post", "pre"), _gate(decision, policy, counted), strict=True)
        }
        if not any(phases.values()):
            ready_ms[on_market] = decision["ts_ms"] + 1000 * policy["cooldown_s"]
            used.update({(agent,): 1, on_fixture: stake, on_market: stake})
        judged.append((seq, {name: {"allowed": not reasons, "reasons": reasons} for name, reasons in phases.items()}))
    return judged


def _over(number: int, limit: int | None) -> bool:
    return limit is not None and number > limit


def _gate(decision: Object, policy: Object, counted: dict[str, bool]) -> tuple[Object, Object]:
    """Return for every rule of the two phases, the late one first, whether a proposal breaks it."""
    action, state = decision["action"], decision["market_state"]
    stake, limit, least = action["stake"] or 0, action["limit_odds_milli"] or 0, policy["min_edge_bps"]
    prob, odds = _price(state, action["side"])
    odds = None if state and state["suspended"] else odds
    edge = None if least is None or prob is None or odds is None else edge_bps(prob, odds, prob)
    post = {
        "quote_missing": policy["require_quote"] and odds is None,
        "quote_stale": state and state["age_ms"] > 1000 * policy["max_quote_age_s"],
        "slippage_over_max": limit and odds and max(0, limit - odds) * 10_000 // limit > policy["max_slippage_bps"],
        "edge_below_min": least is not None and (edge is None or edge < least),
        "stake_over_max": stake > policy["max_stake"],
    }
    pre = {
        "kill_switch_on": policy["kill_switch"],
        "market_not_allowed": not _starts(action["market_key"], policy["market_allowlist"]),
        "venue_not_allowed": "paper" not in policy["venue_allowlist"],
        "warmup": decision["tick_seq"] < policy["warmup_ticks"],
        "cooldown_active": counted["cooldown_active"],
        "stake_missing": stake == 0,
        "stake_over_max": stake > policy["max_stake"],
        "prob_out_of_range": prob is None or not policy["min_prob_bps"] <= prob <= policy["max_prob_bps"],
        "order_cap": counted["order_cap"],
        "exposure_cap": counted["exposure_cap"],
    }
    return post, pre


# The checks of a whole run.


@dataclass
class Run:
    """A run as received, what follows from its evidence, and the caller's trust."""

    parts: dict[str, bytes]
    stated: Object
    evidence: Evidence
    scores: list[bytes]
    manifest: Object
    trust: Object
    standing: Object | None = None  # in the log, once that has passed
    unsigned: dict[str, int] | None = None  # claims of the bundle, without proof

    @property
    def manifest_hash(self) -> str:
        return sha256(canonical(self.manifest))


def rebuilt_manifest(events: bytes, evidence: Evidence, scores: Sequence[bytes], index: Any) -> Object:
    """Return the manifest that evidence and scores must have; only the log can confirm its commit_index."""
    lines = lines_of(events)
    return named_by(evidence.started) | {
        "schema": "clvlab-manifest/1", "law_version": "clv-law/1", "verifier_version": "clvlab-proof/1",
        "commit_index": index if type(index) is int and 0 <= index <= SAFE_INTEGER else None,
        "evidence_hash": sha256(events), "event_count": len(lines),
        "evidence_root": merkle_root(lines), "score_root": merkle_root(scores),
    }  # fmt: skip


def named_by(started: Object) -> Object:
    roster = sorted([agent["agent_id"], agent["config_hash"]] for agent in started["agents"])
    return {
        "run_id": started["run_id"], "content_hash": started["binding"]["content_hash"], "policy_hash": started["policy_hash"],
        "config_hash": roster[0][1] if len(roster) == 1 else sha256(canonical(roster)),
    }  # fmt: skip


def inputs_hash(started: Object) -> str:
    keys = ("agents", "binding", "kind", "law_version", "origin_id", "policy_hash", "window")
    schema = f"clvlab-run/{2 if _has_new_label(started) else 1}"
    return sha256(canonical({"schema": schema, **{key: started[key] for key in keys}}))


def check_integrity(run: Run) -> None:
    found, sealed = run.manifest["evidence_hash"], run.stated.get("evidence_hash")
    require(found == sealed, f"SHA-256 of events.jsonl is {found}, sealed was {sealed}")


def check_scores(run: Run) -> None:
    """Require the stored score lines to be the derived ones: none altered, dropped or added."""
    stored = run.parts.get("scores.jsonl", b"")
    derived = b"".join(line + b"\n" for line in run.scores)
    rows = stored.count(b"\n")
    require(stored == derived, f"the {len(run.scores)} rows derived from the evidence are not the {rows} stored")


def check_manifest(run: Run) -> None:
    """Require the manifest to be the rebuilt one, and every id and hash in it to be derivable."""
    other = [key for key, value in run.manifest.items() if run.stated.get(key, ...) != value] or ["bytes"]
    same = canonical(run.manifest) == run.parts["manifest.json"]
    require(same, f"manifest.json has another {', '.join(other)} than the evidence gives")
    check_ids(run.evidence.started)


def check_ids(started: Object) -> None:
    """Require every config_hash, the policy_hash and the run id to match their content."""
    for agent in started["agents"]:
        named = {"schema": "clvlab-agent-config/1", **{key: agent[key] for key in ("strategy", "strategy_version", "config")}}
        own = sha256(canonical(named))
        require(own == agent["config_hash"], f"config_hash of {agent['agent_id']} is {agent['config_hash']}, not {own}")
    for name, own in (("policy_hash", sha256(canonical(started["policy"]))), ("run_id", "run_" + inputs_hash(started)[7:39])):
        require(own == started[name], f"{name} is {started[name]}, what it names gives {own}")


def check_policy(run: Run) -> None:
    """Require the sealed verdicts to be the derived ones, and each receipt to be for an allowed action."""
    decisions, started, stakes = dict(run.evidence.decisions), run.evidence.started, {}
    for seq, verdict in verdicts(run.evidence):
        if decisions[seq]["policy"] != verdict:
            raise BrokenError(f"seq {seq}: the policy gives {verdict}")
        if verdict["pre"]["allowed"] and verdict["post"]["allowed"]:
            stakes[seq] = decisions[seq]["action"]["stake"]
    receipts = run.parts.get("receipts.jsonl", b"")
    require(receipts[-1:] in (b"", b"\n"), "receipts.jsonl does not end with a line feed")
    check_lines(receipts, "receipts.jsonl")
    for line in decoded_lines(receipts):
        receipt = shaped(line.encode(), RECEIPT, "a receipt")
        seq, venues = receipt["decision_seq"], started["policy"]["venue_allowlist"]
        rules = {
            "the run asks a venue": started["policy"]["execution_mode"] == "paper",
            "it is of this run": receipt["run_id"] == started["run_id"],
            "its action was allowed, and has no other receipt": seq in stakes,
            "it is of the same agent": seq in stakes and receipt["agent_id"] == decisions[seq]["agent_id"],
            "its stake is at most the action's": receipt["stake"] <= stakes.pop(seq, -1),
            "its venue is allowed": receipt["venue"] in venues,
        }
        require_all(rules, f"a receipt for seq {seq}")


def check_context(run: Run) -> None:
    """Require the context of a bundle to repeat the manifest and the evidence, and files of proofs those in log.json."""
    started = run.evidence.started
    named = {"schema": "clvlab-context/1", "run_id": started["run_id"], "manifest_hash": sha256(run.parts["manifest.json"])}
    same = run.parts["context.json"] == canonical(named | started["binding"])
    require(same, "context.json does not say what the manifest and the evidence say")
    for name in PARTS[9:11]:
        if name in run.parts:
            require("log.json" in run.parts, f"{name} is here, and log.json is not")
            same = run.parts[name] == proof_file(parsed(run.parts["log.json"]), name.removesuffix(".tlog-proof"))
            require(same, f"{name} is not the proof in log.json")


def proof_file(log: Any, name: str) -> bytes:
    """Return the proof of an entry as a file of C2SP tlog-proof."""
    proved = log.get(name) if isinstance(log, dict) else None
    index, proof = (proved.get("index"), proved.get("proof")) if isinstance(proved, dict) else (None, None)
    hashes = isinstance(proof, list) and all(isinstance(one, str) and re.fullmatch("[0-9a-f]{64}", one) for one in proof)
    whole = hashes and type(index) is int and index >= 0 and isinstance(log.get("checkpoint"), str)
    require(whole, f"log.json has no proof of the {name}")
    lines = "".join(f"{base64.b64encode(value).decode()}\n" for value in _hashes(proof or []))
    return f"c2sp.org/tlog-proof@v1\nindex {index}\n{lines}\n{log['checkpoint']}".encode()


# Anchor and log: proofs that the run's maker can't make alone. Keys come from the caller.


def decoded(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise BrokenError(f"no base64: {text[:60]!r}") from error
    require(base64.b64encode(data).decode() == text, f"no canonical base64: {text[:60]!r}")
    return data


def base58(data: bytes) -> str:
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"[digit] + text
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + text


class Transaction:
    """A Solana transaction: its first signature, and each memo with the keys that signed it; every signature is checked."""

    def __init__(self, data: bytes) -> None:
        require(len(data) <= 1232, "no transaction is so long")
        self._rest = data
        signatures = [self._take(64) for _ in range(self._length())]
        message = self._rest
        versioned = message[:1] == b"\x80"  # version 0; a legacy message begins with the count of its signers
        signed, frozen_signers, frozen_others = self._take(3 + versioned)[versioned:]  # the latter two write to no account
        keys = [self._take(32) for _ in range(self._length())]
        self._take(32)  # the hash of a recent block
        whole = frozen_signers < signed == len(signatures) and signed + frozen_others <= len(keys)
        require(whole, "a transaction has a signature for every signer that its header counts, and a key for each")
        for key, signature in zip(keys, signatures, strict=False):
            check_signature(key, message, signature, base58(key))
            # Nodes refuse a commitment of small order, so no chain holds such a signature.
            require(_times(8, _point(signature[:32]))[0], f"the signature by {base58(key)} commits to nothing")
        self.signature, self.memos = base58(signatures[0]), []
        for _ in range(self._length()):
            program, accounts, memo = self._take(1)[0], self._take(self._length()), self._take(self._length())
            named = 0 < program < len(keys) and all(account < len(keys) for account in accounts)
            require(named, "an instruction calls the payer, or names a key that is not there")
            if base58(keys[program]) in MEMO_PROGRAMS:
                self.memos.append((memo, [base58(keys[account]) for account in accounts if account < signed]))
        require(self._rest == b"\0" * versioned, "the transaction names tables or has bytes left over")

    def _take(self, count: int) -> bytes:
        require(count <= len(self._rest), "the transaction is cut")
        data, self._rest = self._rest[:count], self._rest[count:]
        return data

    def _length(self) -> int:
        """Read a "compact-u16": seven bits a byte, lowest first."""
        length = 0
        for bits in (0, 7, 14):
            byte = self._take(1)[0]
            length |= (byte & 127) << bits
            if byte < 128:
                require(length < 65_536 and (byte or not bits), "a length in the transaction has another form")
                return length
        raise BrokenError("a length in the transaction is too long")


def check_anchor(run: Run) -> None:
    """Require a transaction whose memo is the manifest hash, signed by a trusted key."""
    anchor = shaped(run.parts["anchor.json"], ANCHOR, "the anchor")
    sent, cluster = Transaction(decoded(anchor["transaction"])), anchor["cluster"]
    require(sent.signature == anchor["signature"], f"the transaction is {sent.signature}, on record is {anchor['signature']}")
    signers = {signer for memo, signers in sent.memos if memo == run.manifest_hash.encode() for signer in signers}
    require(signers, f"no memo of the transaction is {run.manifest_hash}, or nobody signed it")
    trusted = signers & set(run.trust["anchor_signers"].get(cluster, []))
    require(trusted, f"{', '.join(sorted(signers))} signed, whom you do not trust to anchor on {cluster!r}")


def trusted_keys(trust: Object) -> dict[str, tuple[str, bytes]]:
    """Read keys ``<name>+<key id>+<base64 of type and key>`` of logs (type 1) and witnesses (type 4): name, type and key."""
    found: dict[str, tuple[str, bytes]] = {}
    names: dict[bytes, tuple[str, bytes]] = {}
    for role, kind in (("logs", b"\1"), ("witnesses", b"\4")):
        for text in trust[role]:
            name, stated, encoded = (*text.split("+", 2), "", "")[:3]
            public = decoded(encoded)
            plain = name and all(char.isprintable() and not char.isspace() for char in name)
            own = hashlib.sha256(name.encode() + b"\n" + public).hexdigest()[:8]
            require(plain and (public[:1], len(public), stated) == (kind, 33, own), f"no key of {role}: {text!r}")
            y = int.from_bytes(public[1:], "little") & (2**255 - 1)
            require(y < P and y not in SMALL_ORDER, f"the key of {name} is no point of the curve, or of small order")
            twice = f"the key of {name} stands under another name, or as a log and as a witness"
            require(names.setdefault(public[1:], (name, kind)) == (name, kind), twice)
            found[text] = (name, public)
    return found


def _policy_key(text: str, kind: int) -> tuple[str, bytes] | None:
    """Return name and public key of a key in a policy; null for one of a type that is not read here."""
    name, stated, encoded = (*text.split("+", 2), "", "")[:3]
    require(not re.search("[\ud800-\udfff]", text), "a key that is no UTF-8 text")
    public = decoded(encoded)
    other = len(public) > 1 and public[0] not in (1, 4) and re.fullmatch("[0-9a-f]{8}", stated)
    if other and name and not any(char.isspace() for char in name):
        return None
    own = hashlib.sha256(name.encode() + b"\n" + public).hexdigest()[:8]
    plain = name and all(char.isprintable() and not char.isspace() for char in name)
    require(plain and (public[:1], len(public), stated) == (bytes([kind]), 33, own), f"no key of type {kind}: {text!r:.120}")
    return name, public[1:]


class Quorum:
    """Which logs and witnesses count, and how many of them, as C2SP tlog-policy writes it."""

    def __init__(self, data: bytes) -> None:
        self.logs: list[str] = []
        self.witnesses: dict[str, str] = {}  # keys of witnesses by name in the policy
        self._signers: dict[str, str] = {}  # names of keys by name in the policy
        self._groups: dict[str, tuple[int, list[str]]] = {}
        self._quorum, self._seen = "", set[tuple[str, ...]]()
        lines = data.decode("utf-8", "surrogateescape").split("\n")  # names are bytes, of which keys alone must be text
        require(len(lines) <= MAX_POLICY_LINES, f"a policy of {len(lines):,} lines, more than {MAX_POLICY_LINES:,}")
        for number, line in enumerate(lines, 1):
            words = [word for word in line.replace("\t", " ").split(" ") if word]
            try:
                require(not re.search("[\x00-\x08\x0b-\x1f\x7f]", line), "a control character")
                if words and words[0][0] != "#":
                    self._read(*words)
            except BrokenError as error:
                raise BrokenError(f"line {number} of the policy: {error}") from error
        require(self._quorum, "the policy has no line 'quorum NAME'")

    def _read(self, kind: str, *words: str) -> None:
        if kind == "log" and len(words) in (1, 2):
            self.logs += [words[0]] if self._key(words[0], "log") else []
        elif kind == "witness" and len(words) in (2, 3):
            self._once("name", words[0])
            found = self._key(words[1], "witness")
            if found:
                self._once("signer", found[0])  # signers are told apart by the names of their keys
                self.witnesses[words[0]], self._signers[words[0]] = words[1], found[0]
        elif kind == "group" and len(words) > 2:
            name, least, *members = words
            number = {"all": str(len(members)), "any": "1"}.get(least, least)
            require(re.fullmatch("[1-9][0-9]{0,4}", number) and int(number) <= len(members), f"{least!r} of {len(members)}")
            for member in members:
                require(("name", member) in self._seen, f"{member!r} is not defined before it")
                self._once("member", member)
            self._once("name", name)
            self._groups[name] = int(number), members
        else:
            require(kind == "quorum" and len(words) == 1 and not self._quorum, "no line of a policy")
            require(words[0] == "none" or ("name", words[0]) in self._seen, f"{words[0]!r} is not defined before it")
            self._quorum = words[0]

    def _key(self, text: str, role: str) -> tuple[str, bytes] | None:
        found = _policy_key(text, 1 if role == "log" else 4)
        self._once(role, found[1].hex() if found else text.split("+", 2)[2])
        return found

    def _once(self, *what: str) -> None:
        require(what not in self._seen and what != ("name", "none"), f"a second {what[0]} {what[1][:60]!r}")
        self._seen.add(what)

    def fault(self, signed: set[str]) -> str | None:
        """Say why keys with these names are no quorum, or null; members precede their group, so no depth is too great."""
        counted = {name: signer in signed for name, signer in self._signers.items()}
        for name, (least, members) in self._groups.items():
            counted[name] = sum(counted.get(member, False) for member in members) >= least
        if self._quorum == "none" or counted.get(self._quorum):
            return None
        own = [name for name, signer in self._signers.items() if signer in signed]
        return f"no quorum {self._quorum!r} of the policy: of its witnesses signed {', '.join(own) or 'none'}"


def signed_by(note: str, keys: dict[str, tuple[str, bytes]]) -> tuple[str, list[tuple[str, bool]]]:
    """Return the text of a C2SP signed note, and the names of ``keys`` that signed it, each with whether it is a witness."""
    text, blank, lines = note.rpartition("\n\n")
    parts = [line.split(" ") for line in lines.removesuffix("\n").split("\n")]
    well_formed = blank and lines.endswith("\n") and all(len(part) == 3 and part[0] == "\u2014" and part[1] for part in parts)
    require(well_formed and not re.search(r"[\0-\x09\x0b-\x1f]", note), "no signed note")
    require(len(parts) <= MAX_SIGNATURES, f"a note with {len(parts)} signatures, more than {MAX_SIGNATURES}")
    plain = all("+" not in name and not any(char.isspace() for char in name) for _, name, _ in parts)
    require(plain, "no signed note: a signature is under a name that no key can have")
    signatures, found = [(name, decoded(encoded)) for _, name, encoded in parts], []
    require(all(len(data) > 4 for _, data in signatures), "no signed note: a signature is cut")
    for name, public in keys.values():
        own = hashlib.sha256(name.encode() + b"\n" + public).digest()[:4]
        for signature in [data[4:] for other, data in signatures if (other, data[:4]) == (name, own)][:1]:
            stamp, signature = (signature[:8], signature[8:]) if public[0] == 4 else (b"", signature)
            require(stamp[:1] < b"\x80", f"the signature by {name} is of a time that no clock shows")
            stamped = f"cosignature/v1\ntime {int.from_bytes(stamp, 'big')}\n" if public[0] == 4 else ""
            check_signature(public[1:], f"{stamped}{text}\n".encode(), signature, name)
            found.append((name, public[0] == 4))
    return text + "\n", found


def state_of(text: str) -> tuple[str, int, bytes]:
    """Read a checkpoint: name, size and root of a log."""
    found = re.fullmatch(rf"([^\n]+)\n({COUNT})\n([^\n]+)\n(?:[^\n]+\n)*", text)  # the last ones are extension lines
    if not found:
        raise BrokenError("no checkpoint of a log")
    root = decoded(found[3])
    require(len(root) == 32, "the root in the checkpoint is no SHA-256")
    return found[1], int(found[2]), root


def _checkpoint(note: str, keys: dict[str, tuple[str, bytes]]) -> tuple[str, int, bytes, set[str]]:
    """Read a checkpoint signed by a trusted log, and the names of trusted witnesses that signed it."""
    text, signers = signed_by(note, keys)
    state = state_of(text)
    own = (state[0], False) in signers
    require(own, f"the checkpoint of {state[0]!r} is not signed by that log, or you do not trust its key")
    return *state, {name for name, is_witness in signers if is_witness}


def _require_quorum(witnesses: set[str], trust: Object) -> None:
    least, policy = trust["witness_quorum"], trust.get("policy")
    fault = policy.fault(witnesses) if policy else None
    require(fault is None, fault or "")
    require(len(witnesses) >= least, f"{len(witnesses)} trusted witnesses signed the checkpoint, {least} must")


def check_log(run: Run) -> None:
    """Require a trusted log to hold the commitment that the manifest names, and after it this result."""
    keys, known = trusted_keys(run.trust), run.trust["checkpoint"]
    log = shaped(run.parts["log.json"], LOGS, "the log proofs")
    origin, size, root, witnesses = _checkpoint(log["checkpoint"], keys)
    _require_quorum(witnesses, run.trust)
    for name in ("commit", "outcome"):
        found = included(leaf(log[name]["entry"].encode()), log[name]["index"], size, _hashes(log[name]["proof"]))
        require(found == root, f"the {name} does not stand in the log")
    commit = shaped(log["commit"]["entry"].encode(), COMMITS, "the commitment in the log")
    outcome = shaped(log["outcome"]["entry"].encode(), RESULTS, "the result in the log")
    index, run_id = log["commit"]["index"], run.manifest["run_id"]
    pack = run.evidence.started["binding"]["content_hash"]
    sources = sha256(canonical([agent["source_sha256"] for agent in run.evidence.started["agents"]]))
    rules = {
        "both are about this run": commit["run_id"] == outcome["run_id"] == run_id,
        "it commits to the inputs of this run": commit["inputs_hash"] == inputs_hash(run.evidence.started),
        "it commits to a run over this pack": commit.get("content_hash", pack) == pack,
        "it commits to the sources of its agents": commit.get("sources_hash", sources) == sources,
        "its result is over this pack": outcome.get("content_hash", pack) == pack,
        "its result is this manifest": outcome["manifest_hash"] == run.manifest_hash,
        "the manifest and the result name the commitment": run.manifest["commit_index"] == outcome["commit_index"] == index,
        "the result follows its commitment": index < log["outcome"]["index"],
    }
    require_all(rules, f"entries {index} and {log['outcome']['index']} of the log")
    notes = [log["checkpoint"]]
    if log["earlier"]:
        notes.append(log["earlier"]["checkpoint"])
        before, first, old, _ = _checkpoint(notes[1], keys)
        require(before == origin, "the earlier checkpoint is another log's")
        joined = extended(first, size, _hashes(log["earlier"]["proof"]), old)
        require(joined == (old, root), "the log forked: it does not begin with its earlier entries")
    notes = [note.rpartition("\n\n")[0] for note in notes]
    seen = known is None or known.partition("\n\n")[0].rstrip("\n") in notes
    require(seen, "no proof from the checkpoint that you have seen")
    run.standing = {
        "owner": commit["owner"], "content_hash": commit.get("content_hash"), "commit_index": index, "tree_size": size,
        "origin": origin, "witnesses": len(witnesses), "witness_names": sorted(witnesses),
    }  # fmt: skip
    run.unsigned = log.get("claim")


# The seat of an agent that answered from elsewhere: each link of its chain hashes the one before, a tick and its decisions.


def check_seat(run: Run) -> None:
    """Require the chain of a seat to be that of this run, and a trusted log to hold its heads from the start to the end."""
    seat, log = check_statements(run)
    origin, size, root, witnesses = _checkpoint(log["checkpoint"], trusted_keys(run.trust))
    _require_quorum(witnesses, run.trust)
    for one in [*seat.get("held", []), *seat["entries"]]:
        found = included(leaf(one["entry"].encode()), one["index"], size, _hashes(one["proof"]))
        require(found == root, f"entry {one['index']} of the seat does not stand in the log of {origin!a}")
    if seat["blind"] == "held-back":
        check_held(seat["held"], run.manifest)


def check_statements(run: Run) -> tuple[Object, Object]:
    """Require chain, evidence and entries of the log to say the same, and return seat and log; no key has a part in this."""
    seat = check_chain(run)
    log = shaped(run.parts["log.json"], LOGS, "the log proofs") if "log.json" in run.parts else {}
    heads, before, ticks = _heads(seat), run.manifest["commit_index"], -1
    require(seat["entries"] or not log, "the log holds no entry of the seat")
    require(before is not None or not seat["entries"], "the run has no commitment, and its seat has entries of the log")
    for one in seat["entries"]:
        index = one["index"]
        entry = shaped(one["entry"].encode(), SEAT_ENTRY, f"entry {index} of the seat")
        rules = {
            "it is of this run": (entry["run_id"], entry["commit_index"])
            == (run.manifest["run_id"], run.manifest["commit_index"]),
            "it stands between the commitment and the result": before < index and (not log or index < log["outcome"]["index"]),
            "the first is of no tick": (ticks >= 0) == (entry["ticks"] > 0),
            "it has more ticks than the one before": ticks < entry["ticks"],
            "it is of no tick after the last": entry["ticks"] < len(heads),
            "it has the head of the chain": entry["head"] == heads[min(entry["ticks"], len(heads) - 1)],
        }
        require_all(rules, f"entry {index} of the seat")
        before, ticks = index, entry["ticks"]
    over = ticks == len(heads) - 1 or not seat["entries"]
    require(over, f"the last entry of the seat is of {ticks} ticks, the chain has {len(heads) - 1}")
    return seat, log


def check_held(held: list[Object], manifest: Object) -> None:
    """Require the log to hold back the pack of a seat before its commitment, and to open the list of fixtures after it."""
    require(len(held) in (1, 2), f"the seat names {len(held)} entries that hold its pack back or open its list")
    shapes = (HELD_ENTRY, RELEASED_ENTRY)
    entries = [shaped(one["entry"].encode(), shape, "an entry of its pack") for one, shape in zip(held, shapes, strict=False)]
    committed, (index, *opened) = manifest["commit_index"], (one["index"] for one in held)
    rules = {
        "the entries are about its pack": {one["content_hash"] for one in entries} == {manifest["content_hash"]},
        "it was held back before": index < committed,
        "its list was opened afterwards": all(one > committed for one in opened),
        "that list is the one of the entry": all(one["held_index"] == index for one in entries[1:]),
    }
    require_all(rules, "the pack that the seat says was held back")


def check_chain(run: Run) -> Object:
    """Require the chain of a seat to say what the evidence says, and return it; no key has a part in this."""
    seat: Object = shaped(run.parts["seat.json"], SEAT, "the seat")
    started, secret, header = run.evidence.started, bytes.fromhex(seat["secret"]), seat["header"]
    commitment = sha256(b"clvlab-seat-blind/1\0" + secret)
    own = {"seat": header["seat"], "blind": seat["blind"], "blind_commitment": commitment}
    agent = started["agents"][0]
    competition = {name: value for name, value in agent["config"].items() if name == "competition"}
    config = own | {"run_salt": _derived(secret, b"run")} | competition
    causality = "live" if seat["blind"] == "live" else "asked"
    rules = {
        "the run is that of a seat": (started["kind"], agent["strategy"], agent["causality"]) == ("seat", "seat", causality),
        "it is that of this seat": started["origin_id"] == header["seat"] and [agent["config"]] == [config],
        "its competition, if it has one, is named by a text": all(isinstance(one, str) for one in competition.values()),
        "it has one agent": [agent["agent_id"] for agent in started["agents"]] == [header["agent_id"]],
        "it names who held its pack back, if it was": ("held" in seat) == (seat["blind"] == "held-back"),
        "the chain is about it": (header["run_id"], header["blind_commitment"]) == (started["run_id"], commitment),
    }
    require_all(rules, f"the seat {header['seat']!a}")
    heads = _heads(seat)
    for number, (tick, head) in enumerate(zip(seat["ticks"], heads[1:], strict=True), 1):
        require(tick["head"] == head, f"tick {number} of the seat has another head than its chain")
        require(not (tick["missed"] and tick["decisions"]), f"tick {number} of the seat was missed, and has decisions")
    sealed_rows: dict[Tick, list[Any]] = {}
    for _, decision in run.evidence.decisions:
        sealed_rows.setdefault((decision["fixture_id"], decision["tick_seq"]), []).append(_sealed_in(decision, seat, secret))
    recorded = [[_recorded(one) for one in tick["decisions"]] for tick in seat["ticks"] if tick["decisions"]]
    require(len(recorded) == len(sealed_rows), f"the seat decided at {len(recorded)} ticks, the evidence at {len(sealed_rows)}")
    for own_tick, (tick, rows) in zip(recorded, sealed_rows.items(), strict=True):
        require(sorted(own_tick, key=repr) == sorted(rows, key=repr), f"the seat decided otherwise than the evidence at {tick}")
    return seat


def _heads(seat: Object) -> list[str]:
    """Return the heads of a chain, from before its first tick on."""
    heads = [sha256(canonical(seat["header"]))]
    for tick in seat["ticks"]:
        heads.append(sha256(canonical({"before": heads[-1], **{name: tick[name] for name in ("tick", "decisions", "missed")}})))
    return heads


def _recorded(decision: Object) -> tuple[Any, ...]:
    names = ("action", "market", "side", "stake", "limit_odds_milli", "reason", "claimed_edge_bps", "confidence")
    return (*(decision.get(name) for name in names[:-1]), *_stated_confidence(decision.get("confidence")))


def _stated_confidence(text: str | None) -> tuple[int | None, str | None]:
    """Return a confidence as evidence states it: in millionths if it is a probability, otherwise its text."""
    try:
        number = None if text is None else float(text)
    except ValueError as error:
        raise BrokenError(f"a confidence that is no number: {text!a}") from error
    return (int(number * 1_000_000 + 0.5), None) if number is not None and 0 <= number <= 1 else (None, text)


def _sealed_in(decision: Object, seat: Object, secret: bytes) -> tuple[Any, ...]:
    """Return a decision of the evidence with the names that the seat showed."""
    action, untrusted, fixture_id = decision["action"], decision["untrusted"], decision["fixture_id"]
    market, side = action["market_key"], action["side"]
    if seat["blind"] in ("aliased", "held-back") and market is not None:
        side = _alias(secret, "side", fixture_id, market, side)
        market = _alias(secret, "market", fixture_id, market)
    claims = untrusted["reason"], untrusted["claimed_edge_bps"], untrusted["confidence_ppm"], untrusted["confidence_raw"]
    return (action["type"], market, side, action["stake"], action["limit_odds_milli"], *claims)


def _alias(secret: bytes, *names: object) -> str:
    return f"{str(names[0])[0]}-{_derived(secret, canonical([*names]))[:16]}"


def _derived(secret: bytes, message: bytes) -> str:
    """Return HMAC-SHA256 (RFC 2104) under a secret of 32 bytes, which is shorter than a block."""
    inner, outer = (bytes(byte ^ pad for byte in secret.ljust(64, b"\0")) for pad in (0x36, 0x5C))
    return hashlib.sha256(outer + hashlib.sha256(inner + message).digest()).hexdigest()


# Prices proved by their provider, TxLINE: a leaf is the SHA-256 of a message in Borsh, a node that of its two children.

PROVIDER_HEADER = b'{"provider":"txline","schema":"clvlab-provider-proofs/1"}'
STABLE_PRICE, MAX_PATH = "TXLineStablePriceDemargined", 64
UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)


def _number(value: int, size: int) -> bytes:
    return value.to_bytes(size, "little", signed=True)


def _string(text: str) -> bytes:
    return _number(len(text.encode()), 4) + text.encode()


def _maybe(text: str | None) -> bytes:
    return b"\0" if text is None else b"\1" + _string(text)


def message_leaf(odds: Object) -> bytes:
    """Return the leaf of a message; its probabilities, ``Pct``, are not in it."""
    names, prices = odds["PriceNames"], odds["Prices"]
    head = _number(odds["FixtureId"], 8) + _string(odds["MessageId"]) + _number(odds["Ts"], 8) + _string(odds["Bookmaker"])
    kind = _number(odds["BookmakerId"], 4) + _string(odds["SuperOddsType"]) + _maybe(odds["GameState"])
    market = _number(odds["InRunning"], 1) + _maybe(odds["MarketParameters"]) + _maybe(odds["MarketPeriod"])
    quotes = [_number(len(names), 4), *map(_string, names), _number(len(prices), 4), *(_number(price, 4) for price in prices)]
    return hashlib.sha256(head + kind + market + b"".join(quotes)).digest()


def provider_states(run: Run) -> dict[Tick, tuple[str, Any, str]]:
    """Return of each scored entry and its close the market, the state and a name, by the message that gave it."""
    found: dict[Tick, tuple[str, Any, str]] = {}  # a scored entry has both states
    for (seq, decision), line in zip(run.evidence.decisions, run.scores, strict=True):
        if json.loads(line)["reason"] == "scored":
            fixture, market = decision["fixture_id"], decision["action"]["market_key"]
            closing = run.evidence.closes[fixture, market]["closing"]
            states: list[tuple[Any, str]] = [
                (decision["market_state"], f"the entry of seq {seq}"), (closing, f"the close of {market!a}"),
            ]  # fmt: skip
            for state, name in states:
                found.setdefault((fixture, state["tick_seq"]), (market, state, name))
    return found


def check_prices(run: Run, lines: bytes) -> str:
    """Require a provider's proof of every price that scores rest on; return what the proofs show."""
    head, *rest = lines.split(b"\n")
    require(head == PROVIDER_HEADER, "no proofs of clvlab-provider-proofs/1")
    states, proved, roots, moved_ms = provider_states(run), dict[Tick, bool](), set[bytes](), 0
    pre_match = run.evidence.started["window"]["end_rule"] == "pre_match"
    for number, line in enumerate(rest, 2):
        try:
            own: Any = json.loads(line) if line else {"fixture_id": None, "tick_seq": None}
            tick = own["fixture_id"], own["tick_seq"]
            if tick in states:
                market, state, name = states[tick]
                where = f"line {number} of the proofs, {name} (fixture {tick[0]}, tick {tick[1]})"
                proved[tick] = _check_price(own, market, state, where, pre_match=pre_match)
                roots.add(bytes(own["proof"]["summary"]["oddsSubTreeRoot"]))
                moved_ms = max(moved_ms, state["ts_ms"] - own["proof"]["odds"]["Ts"])
        except UNREADABLE as error:
            raise BrokenError(f"line {number} of the proofs can't be read: {error!r}") from error
    missing = [states[tick][2] for tick in states if tick not in proved]
    require(not missing, f"{len(missing)} of {len(states)} messages have no proof, first that of {(missing or [''])[0]}")
    count, whole = sum(proved.values()), len(states)
    rest_of = f"; of {whole - count:,} the price is proved, the probability not" if count < whole else ""
    moved = f"; sealed times are up to {moved_ms:,} ms later than the provider's" if moved_ms else ""
    return (
        f"TxLINE's proofs of the {whole:,} messages of scored entries and closes lead to {len(roots):,} roots of its batches; "
        f"of {count:,} the probability follows from the price{rest_of}{moved}; no chain was asked for the roots"
    )


def _check_price(own: Object, market: str, state: Object, where: str, *, pre_match: bool) -> bool:
    """Require one proof to be of a state's prices; return whether its probabilities follow from them."""
    odds, summary, path = own["proof"]["odds"], own["proof"]["summary"], own["proof"]["subTreeProof"]
    value, times = message_leaf(odds), summary["updateStats"]
    require(own["leaf"] == value.hex(), f"{where}: its message has the leaf {value.hex()}, not {own['leaf']!a:.80}")
    require(len(path) <= MAX_PATH and all(len(bytes(step["hash"])) == 32 for step in path), f"{where}: no path of hashes")
    for step in path:
        pair = value + bytes(step["hash"]) if step["isRightSibling"] is True else bytes(step["hash"]) + value
        value = hashlib.sha256(pair).digest()
    quotes = dict(zip(odds["PriceNames"], odds["Prices"], strict=True))
    sealed = {side["side"]: side["odds_milli"] for side in state["sides"]}
    rules = {
        "leaf and siblings lead to oddsSubTreeRoot": value == bytes(summary["oddsSubTreeRoot"]),
        "it is of TxLINE's stable price": odds["Bookmaker"] == STABLE_PRICE,
        "it is of this fixture": odds["FixtureId"] == own["fixture_id"] == summary["fixtureId"],
        "it is of this market":
            market == f"{odds['SuperOddsType']}|{odds['MarketPeriod'] or ''}|{odds['MarketParameters'] or ''}",
        "its prices are the sealed ones": quotes == sealed and len(odds["PriceNames"]) == len(sealed),
        "it lies inside its batch": times["minTimestamp"] <= odds["Ts"] <= times["maxTimestamp"],
        "it is not later than the sealed time": odds["Ts"] <= state["ts_ms"],
        "it did not come in play": not (pre_match and odds["InRunning"]),
    }  # fmt: skip
    require_all(rules, where)
    return all(side["prob_bps"] == implied_bps(side["odds_milli"]) for side in state["sides"])


def implied_bps(price: int) -> int:
    """Return 100 / odds in hundredths of a percent, rounded half up to thousandths first, as TxLINE's ``Pct``."""
    thousandths = (2 * 10**8 + price) // (2 * price)
    return (thousandths + 5) // 10


def standing_text(at: Object, claim: dict[str, int] | None) -> str:
    """Return what a log proves of a run, and what log and bundle only state."""
    names = f" ({', '.join(map(ascii, at['witness_names']))})" if at["witnesses"] else ""
    proved = (
        f"proved: entry {at['commit_index']} of {at['tree_size']} that {at['origin']!a} signed commits to this run, ahead of "
        f"the entry of its result; trusted witnesses that signed: {at['witnesses']}{names}; by that log's word its owner is "
        f"{at['owner']!a}"
    )
    if claim is None:
        return f"{proved}; the bundle states nothing of this owner's other runs"
    other = f"; {claim['unknown_pack']} more name no pack" if claim["unknown_pack"] else ""
    return (
        f"{proved}; the bundle states, unsigned: {claim['earlier']} earlier and {claim['later']} later commitments over "
        f"this pack by this owner, {claim['abandoned']} abandoned{other}; 'clvlab log audit --bundle' counts them"
    )


def _hashes(texts: Sequence[str]) -> list[bytes]:
    return [bytes.fromhex(text) for text in texts]


# From the command line to the checks.

# Each check, its text when it passes, and for a proof the keys by which it counts.
Check = tuple[Callable[["Run"], None], str, str]
CHECKS: dict[str, Check] = {
    "evidence_integrity": (check_integrity, "events.jsonl is canonical, complete, in order, and has the sealed hash", ""),
    "metrics_recomputed": (check_scores, "every score row follows from the evidence", ""),
    "manifest_bound": (check_manifest, "the manifest binds this run id, evidence and scores", ""),
    "policy_obeyed": (check_policy, "every verdict follows from the policy, and every receipt is for an allowed action", ""),
    "receipt_separation": (lambda _: None, "no event is a receipt or has a key of one: it could not have been read", ""),
}
BUNDLED: Check = (check_context, "every byte of the bundle is accounted for", "")
PROOFS: dict[str, Check] = {
    "anchor": (check_anchor, "a key you trust signed the manifest hash as a memo, for the chain to take", "anchor_signers"),
    "log": (check_log, "a log you trust holds the commitment to this run, and after it this result", "logs"),
    "seat": (check_seat, "a log you trust holds the chain of the seat, which has every decision in order", "logs"),
}  # fmt: skip
DISCLOSED = "the score follows from this decision and its close, and all stand under the roots that the manifest binds"
EVENT_OF = {"started": "RUN_STARTED", "decision": "DECISION", "close": "MARKET_CLOSE", "sealed": "RUN_SEALED"}
HASHES = ("run_id", "evidence_hash", "recomputed_evidence_hash", "manifest_hash")
UNREAD = dict.fromkeys(HASHES, "unread") | dict.fromkeys(("log", "bundle_states_unsigned"))


def fault(check: Callable[..., Any], *arguments: object) -> str | None:
    try:
        check(*arguments)
    except BrokenError as error:
        return str(error)
    return None


def read_file(path: Path, limit: int = MAX_BYTES, most: int | None = None) -> bytes:
    """Read a regular file of bounded size, or its ``most`` first bytes, never waiting for a pipe or a device."""
    flags = os.O_NONBLOCK | os.O_NOCTTY if hasattr(os, "O_NONBLOCK") else 0
    try:
        with open(path, "rb", opener=lambda name, mode: os.open(name, mode | flags)) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > limit:
                raise InputError(f"{path} is no regular file, or has more than {limit:,} bytes")
            return file.read(found.st_size if most is None else most)
    except OSError as error:
        raise InputError(f"can't read {path}: {error.strerror}") from error


# Files of other kinds by their first bytes, for a reader who chose the wrong one. The page for a browser has the same.
OTHER_KINDS = (
    (b"\x89PNG", "an image"), (b"\xff\xd8\xff", "an image"), (b"GIF8", "an image"), (b"<svg", "an image"),
    (b"PAR1", "a table of a pack"), (b'{\n  "$schema": "https://datapackage.org', "the description of a pack"),
    (b"PK\x03\x04", "an archive, to be unpacked first"), (b"\x1f\x8b", "an archive, to be unpacked first"), (b"%PDF", "a PDF"),
    (b"SQLite format 3", "a database"), (b"<!doctype html", "a web page"), (b"<html", "a web page"),
    (b'{"kind":"RUN_STARTED"', "the events of a run without its other files"),
    (b'{"type":"urn:', "an error answer of a service"),
)  # fmt: skip
CUT = "a bundle that is cut short"


def no_run(head: bytes, size: int) -> str | None:
    """Say what a file of ``size`` bytes is, by its first ones, if it is no bundle; ``None`` for a bundle, whole as it seems."""
    if not size:
        return "an empty file"
    if not head.startswith(b'{"parts":'[:size]):
        start = head.lstrip()
        known = (kind for first, kind in OTHER_KINDS if start[: len(first)].lower() == first.lower())
        return next(known, "a file of another kind")
    line, feed, _ = head.partition(b"\n")
    if not feed:
        return CUT if len(head) == size else None
    try:
        sizes = [part["size"] for part in json.loads(line)["parts"]]
        whole = len(line) + 1 + sum(sizes) if all(type(one) is int for one in sizes) else 0
    except (ValueError, RecursionError, KeyError, TypeError):
        return None  # a bundle, whose header is broken
    return f"{CUT}, with {size:,} of {whole:,} bytes" if size < whole else None


def read_parts(path: Path) -> dict[str, bytes]:
    if path.is_dir():
        parts = {
            name: read_file(path / name, PART_LIMITS.get(name, MAX_BYTES)) for name in PARTS[1:5] if (path / name).exists()
        }
        if not {"manifest.json", "events.jsonl"} <= parts.keys():
            if (path / "datapackage.json").exists():
                raise InputError(f"{path} is not a run: it is the folder of a pack")
            raise InputError(f"no sealed run at {path}: it must hold {', '.join(PARTS[1:4])}")
        return parts
    return taken_apart(read_file(path))


def taken_apart(bundle: bytes) -> dict[str, bytes]:
    """Read a bundle: the listed parts, in order, with these hashes, and nothing else."""
    at = bundle.find(b"\n", 0, MAX_KEYS_BYTES) + 1
    listed = shaped(bundle[: max(at - 1, 0)], HEADER, "the header of the bundle")["parts"]
    names, parts = [part["name"] for part in listed], {}
    ordered = names == [name for name in PARTS if name in names] and set(PARTS[:4]) <= set(names)
    require(ordered, f"a bundle has the parts {', '.join(PARTS)} in order, the first four always, not {names}")
    for part in listed:
        limit = PART_LIMITS.get(part["name"], MAX_BYTES)
        require(part["size"] <= limit, f"{part['name']} has {part['size']:,} bytes, the limit is {limit:,}")
        data, at = bundle[at : at + part["size"]], at + part["size"]
        require((len(data), sha256(data)) == (part["size"], part["sha256"]), f"{part['name']} is not what the header says")
        parts[part["name"]] = data
    require(at == len(bundle), f"{len(bundle) - at} bytes follow the last part")
    if "anchor.json" in parts:
        shaped(parts["anchor.json"], ANCHOR, "the anchor")
    return parts


def verify(
    path: Path, trust: Object | None = None, required: Sequence[str] = (), *, without_witness: bool = False,
    provider_proofs: bytes | None = None,
) -> Object:  # fmt: skip
    """Check a run folder or bundle; return its hashes, the fault of each check or ``None``, and proofs that do not count."""
    without: dict[str, str] = {}
    result: Object = UNREAD | {"verified": False, "without": without}
    try:
        parts = read_parts(path)
    except BrokenError as error:
        return result | {"checks": {"bundle": str(error)}}
    stated, events = _stated(parts["manifest.json"]), parts["events.jsonl"]
    result |= {"run_id": stated.get("run_id"), "evidence_hash": stated.get("evidence_hash")}
    try:
        evidence = read_evidence(events)
    except BrokenError as error:
        result |= {"recomputed_evidence_hash": f"recompute_error:{error}", "manifest_hash": sha256(parts["manifest.json"])}
        return result | {"checks": dict.fromkeys(CHECKS, f"the evidence can't be read: {error}")}
    scores = [_WRITE(row).encode() for row in score_rows(evidence)]
    manifest = rebuilt_manifest(events, evidence, scores, stated.get("commit_index"))
    whom = NO_TRUST | (trust or {})
    # Without a witness the operator of a log can keep two, one for each reader.
    witnesses = max(whom["witness_quorum"], int(bool({"log", "seat"} & {*required}) and not without_witness))
    run = Run(parts, stated, evidence, scores, manifest, whom | {"witness_quorum": witnesses})
    chosen = CHECKS | ({"bundle": BUNDLED} if "context.json" in parts else {})
    for name, (_, _, keys) in PROOFS.items():
        here = f"{name}.json" in parts
        if name == "seat" and not here and name not in required and evidence.started["kind"] != "seat":
            continue  # nobody expects a seat of another run
        if here and run.trust[keys] and (name != "seat" or "log.json" in parts):
            chosen |= {name: PROOFS[name]}
        else:
            without[name] = "the proof is here, but you trust no key for it" if here else "the proof is not here"
    if "stamps.json" in parts:
        without["stamps"] = "stamps are here, and this file does not check them: clvlab verify --tsa-roots does"
    if not {"checkpoint.ots", "earlier.ots"}.isdisjoint(parts):
        without["opentimestamps"] = "proofs of OpenTimestamps are here, and clvlab verify reads them"
    if "seat" in without and "seat.json" in parts and (wrong := fault(check_statements, run)):  # a contradiction needs no key
        without["seat"], required = wrong, [*required, "seat"]
    checks = {name: fault(check, run) for name, (check, _, _) in chosen.items()}
    checks |= {name: without.pop(name) for name in required if name in without}
    if provider_proofs is not None:
        result["provider"] = None
        try:
            result["provider"], checks["provider"] = check_prices(run, provider_proofs), None
        except BrokenError as error:
            checks["provider"] = str(error)
    result |= {"recomputed_evidence_hash": manifest["evidence_hash"], "manifest_hash": run.manifest_hash, "log": run.standing}
    result["bundle_states_unsigned"] = run.unsigned
    return result | {"verified": checks["evidence_integrity"] is None, "checks": checks}


def _stated(manifest: bytes) -> Object:
    try:
        value = json.loads(manifest.decode())
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {}


def check_disclosure(data: bytes, result: Object) -> None:
    """Require lines under the roots in a manifest, put into ``result``, and the decision's score to follow from them."""
    old = _stated(data).get("schema") == "clvlab-disclosure/1"
    require(
        not old, "clvlab-disclosure/1 shows neither window nor close, so its score can't be judged: ask for clvlab-disclosure/2"
    )
    disclosed = shaped(data, DISCLOSURE, "the disclosure")
    manifest = shaped(disclosed["manifest"].encode(), MANIFEST, "the manifest")
    lines = {name: disclosed[name] for name in EVENT_OF if disclosed[name]}
    for name, line in (*lines.items(), ("score", disclosed["score"])):
        limit = MAX_STARTED_BYTES if name == "started" else MAX_LINE_BYTES
        require(len(line["line"].encode()) <= limit, f"the line of the {name} has more than {limit:,} bytes")
        root, leaves = ("score_root", line["size"]) if name == "score" else ("evidence_root", manifest["event_count"])
        found = included(leaf(line["line"].encode()), line["index"], line["size"], _hashes(line["proof"]))
        same = line["size"] == leaves and "sha256:" + found.hex() == manifest[root]
        require(same, f"the line of the {name} does not stand under the {root}")
    started, payloads = _read_started(lines["started"]["line"]), {}
    for name, kind in list(EVENT_OF.items())[1:]:
        if name in lines:
            require(
                OF_KIND[kind].fullmatch(unescaped(lines[name]["line"])),
                f"the {name} is not canonical, or has other keys than a {kind}",
            )
            event = json.loads(lines[name]["line"])
            require(event["seq"] == lines[name]["index"], f"the {name} has another seq than its place")
            payloads[name] = event["payload"]
    decision, close, sealed = payloads["decision"], payloads.get("close"), payloads["sealed"]
    closes = {(close["fixture_id"], close["market_key"]): close} if close else {}
    seq, last_decision, errors = lines["decision"]["index"], sealed["decisions"], sealed["agent_errors"]
    evidence = Evidence(started, [(seq, decision)], closes)
    _check_started(started, captured="content_hash" in sealed)
    _check_decisions(evidence, {agent["agent_id"] for agent in started["agents"]})
    _check_closes(evidence)
    _check_coherence(evidence)
    check_ids(started)
    rules = {
        "the manifest is about this run": named_by(started).items() <= manifest.items(),
        "RUN_STARTED is the first line, RUN_SEALED the last, and it counts all":
            lines["started"]["index"] == 0 and lines["sealed"]["index"] + 1 == manifest["event_count"]
            == 2 + last_decision + errors + sealed["market_closes"],
        "decisions stand first, and closes last": seq <= last_decision
            and (not close or lines["close"]["index"] > last_decision + errors),
        "its score is the one that the law gives": disclosed["score"]["line"] == _WRITE(score_rows(evidence)[0]),
        "there is a score for every decision, in their order":
            (disclosed["score"]["index"] + 1, disclosed["score"]["size"]) == (seq, last_decision),
    }  # fmt: skip
    require_all(rules, f"the disclosure of seq {seq}")
    result |= {key: manifest[key] for key in HASHES[:2]} | {"recomputed_evidence_hash": "not at hand"}
    result["manifest_hash"] = sha256(disclosed["manifest"].encode())


def verify_disclosure(path: Path, required: Sequence[str] = ()) -> Object:
    """Check the disclosure of one decision, which has neither anchor nor log; the rest of its run is not judged."""
    result: Object = UNREAD | {"verified": False, "without": {}}
    checks: dict[str, str | None] = dict.fromkeys(required, "a disclosure holds no such proof")
    checks["disclosed"] = fault(check_disclosure, read_file(path, MAX_DISCLOSURE_BYTES), result)
    return result | {"checks": checks}


def read_trust(path: Path) -> Object:
    """Read trusted keys, as JSON or as a policy."""
    data = read_file(path, MAX_KEYS_BYTES)
    if data.lstrip()[:1] not in (b"{", b""):
        return trust_under(path)
    try:
        trust: Object = NO_TRUST | json.loads(data.decode("utf-8"))
        shaped(canonical(trust | {"anchor_signers": trust["anchor_signers"] and {}}), TRUST, "the file")
        shaped(canonical(list(trust["anchor_signers"].values())), [[TEXT]], "anchor_signers")
    except (ValueError, TypeError, AttributeError, RecursionError, BrokenError) as error:
        raise InputError(f"can't read keys from {path}: {error}") from error
    return trust


def trust_under(path: Path, trust: Object = NO_TRUST) -> Object:
    """Return trust in the logs and witnesses of a policy, with the chains and the checkpoint of ``trust``."""
    if trust["logs"] or trust["witnesses"]:
        raise InputError("--policy names logs and witnesses, so the file of --trust can't name others")
    try:
        policy = Quorum(read_file(path, MAX_KEYS_BYTES))
    except BrokenError as error:
        raise InputError(f"can't read a policy from {path}: {error}") from error
    return {**trust, "logs": policy.logs, "witnesses": list(policy.witnesses.values()), "policy": policy}


def printable(text: object) -> str:
    """Escape all but plain characters."""
    # Names are the maker's: unescaped, one could print lines that look like verdicts, or move the cursor.
    return "".join(char if " " <= char <= "~" else ascii(char)[1:-1] for char in str(text))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Check a sealed run.")
    parser.add_argument("run", type=Path, help="a run folder, a bundle, or the disclosure of a decision")
    parser.add_argument("--trust", type=Path, metavar="keys.json", help="keys of chains, logs and witnesses that you trust")
    parser.add_argument("--policy", type=Path, metavar="FILE", help="logs and witnesses you trust, as C2SP tlog-policy")
    parser.add_argument("--require", default="", metavar="anchor,log,seat", help="proofs without which the run fails")
    parser.add_argument("--without-witness", action="store_true", help="let a required log do without a trusted witness")
    parser.add_argument("--provider-proofs", type=Path, metavar="FILE", help="the provider's proofs of the prices of a run")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    required = [name for name in options.require.split(",") if name]
    gc.disable()  # nothing here is cyclic, and looking for cycles takes a third of the time
    try:
        if not set(required) <= PROOFS.keys() or not options.run.exists():
            raise InputError(f"nothing at {options.run}, or --require names none of {', '.join(PROOFS)}: {options.require!r}")
        trust = read_trust(options.trust) if options.trust else None
        trust = trust_under(options.policy, trust or NO_TRUST) if options.policy else trust
        prices = read_file(options.provider_proofs, MAX_PROOFS_BYTES) if options.provider_proofs else None
        head = b"" if options.run.is_dir() else read_file(options.run, most=MAX_KEYS_BYTES)
        if head.startswith((b'{"close":', b'{"decision":')):
            if prices is not None:
                raise InputError("--provider-proofs goes with runs and bundles, not disclosures")
            result = verify_disclosure(options.run, required)
        elif not options.run.is_dir() and (other := no_run(head, options.run.stat().st_size)):
            raise InputError(f"{options.run} is not a run: it is {other}")
        else:
            witnessed = {"without_witness": options.without_witness, "provider_proofs": prices}
            result = verify(options.run, trust, required, **witnessed)
    except (InputError, OSError, MemoryError) as error:
        sys.stderr.write(f"{printable(error) or 'there is not enough memory'}\n")
        return 2
    finally:
        gc.enable()
    passed = {name: good for name, (_, good, _) in (CHECKS | {"bundle": BUNDLED} | PROOFS).items()} | {"disclosed": DISCLOSED}
    passed["provider"] = result.get("provider") or ""
    if result["log"]:
        passed["log"] = standing_text(result["log"], result["bundle_states_unsigned"])
    verdicts = {name: ("fail", wrong) if wrong else ("pass", passed[name]) for name, wrong in result["checks"].items()}
    if options.json:
        sys.stdout.write(json.dumps(result | {"checks": verdicts}, indent=2) + "\n")
    else:
        without = {name: ("none", why) for name, why in result["without"].items()}
        sys.stdout.writelines(f"{verdict}  {name}: {printable(why)}\n" for name, (verdict, why) in (verdicts | without).items())
        sys.stdout.write(f"evidence {printable(result['recomputed_evidence_hash'])}\nmanifest {result['manifest_hash']}\n")
    return 1 if any(result["checks"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
