"""Selective disclosure: one decision and its score, proved against the roots in the manifest, without the other decisions.

A disclosure also holds the lines that the law needs: RUN_STARTED, the close of the market, and the counts of RUN_SEALED.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

import polars as pl

from clvlab.errors import EvidenceError
from clvlab.law.clv import scores
from clvlab.law.positions import placed
from clvlab.proof.canonical import JsonObject, canonical, parsed, sha256
from clvlab.proof.events import Kind, event_line, read_single, score_lines
from clvlab.proof.evidence import Evidence, read_evidence
from clvlab.proof.limits import MAX_DISCLOSURE_BYTES, MAX_LINE_BYTES, MAX_STARTED_BYTES, check_lines
from clvlab.proof.manifest import check_ids, manifest
from clvlab.proof.merkle import check_inclusion, inclusion_proof, leaf_hash, leaf_hashes
from clvlab.proof.seal import SealedRun


class _LineProof(TypedDict):
    """A line, its number, the size of its tree, and the RFC 9162 inclusion proof in hex."""

    index: int
    line: str
    proof: list[str]
    size: int


DISCLOSURE_SCHEMA = "clvlab-disclosure/2"
_WITHOUT_CLOSE = "clvlab-disclosure/1"
_KINDS = {
    "started": Kind.RUN_STARTED,
    "decision": Kind.DECISION,
    "close": Kind.MARKET_CLOSE,
    "sealed": Kind.RUN_SEALED,
}
_LINE = {"index": int, "line": str, "proof": list, "size": int}
_STATED = {"commit_index", "evidence_hash", "evidence_root", "event_count", "score_root"}


def disclosure(run: SealedRun, seq: int) -> Mapping[str, object]:
    """Return the disclosure of the decision at event ``seq``: the manifest, and each line with its inclusion proof in hex."""
    evidence = read_evidence(run.events)
    check_lines(run.scores, "scores.jsonl")
    own = evidence.decisions.filter(seq=seq)
    if own.is_empty():
        raise EvidenceError(f"run {run.run_id} has no decision at seq {seq}")
    market = ["fixture_id", "market_key"]
    closes = evidence.closes.join(own.filter(action="BACK"), on=market, how="semi")
    lines, leaves = run.events.split(b"\n")[:-1], leaf_hashes(run.events)
    at = {"started": 0, "decision": seq, "close": next(iter(closes["seq"]), None), "sealed": evidence.count - 1}
    disclosed = {
        "schema": DISCLOSURE_SCHEMA,
        "manifest": run.manifest.decode(),
        "score": _proved(run.scores.split(b"\n")[:-1], leaf_hashes(run.scores), seq - 1),  # decisions are numbered from 1
        **{name: None if index is None else _proved(lines, leaves, index) for name, index in at.items()},
    }
    _check_size(canonical(disclosed))
    return disclosed


def _check_size(text: bytes) -> None:
    if len(text) > MAX_DISCLOSURE_BYTES:
        raise EvidenceError(f"the disclosure has {len(text):,} bytes, the limit is {MAX_DISCLOSURE_BYTES:,}")


def _proved(lines: list[bytes], leaves: list[bytes], index: int) -> _LineProof:
    proof = [value.hex() for value in inclusion_proof(leaves, index)]
    return {"index": index, "line": lines[index].decode(), "proof": proof, "size": len(leaves)}


def check_disclosure(text: bytes) -> str:
    """Check a disclosure and return the manifest's hash; ``EvidenceError`` if a line or the score is not proved."""
    _check_size(text)
    content = parsed(text)
    if isinstance(content, dict) and content.get("schema") == _WITHOUT_CLOSE:
        raise EvidenceError(
            f"{_WITHOUT_CLOSE} shows neither window nor close, so its score can't be judged: ask for {DISCLOSURE_SCHEMA}"
        )
    keys = {"manifest", "schema", "score", *_KINDS}
    if not isinstance(content, dict) or content.keys() != keys or content["schema"] != DISCLOSURE_SCHEMA:
        raise EvidenceError(f"no {DISCLOSURE_SCHEMA}: it has the keys {', '.join(sorted(keys))}")
    lines = {name: content[name] for name in _KINDS if name != "close" or content[name] is not None}
    bound = _manifest(content["manifest"])
    for name, line in lines.items():
        _check_included(name, line, bound["evidence_root"])
    _check_included("score", content["score"], bound["score_root"])
    # A true line at another place could show the score of one decision as the score of another.
    _check_places(lines, content["score"], bound["event_count"])
    evidence = _alone(lines)
    rebuilt = manifest(evidence.started, **{name: bound[name] for name in _STATED})
    if canonical(rebuilt) != content["manifest"].encode():
        raise EvidenceError("the manifest is not about this run")
    check_ids(evidence.started)
    seq = pl.lit(lines["decision"]["index"], pl.Int64)
    positions = placed(*evidence.events.lines, evidence.market)
    row = scores(positions, evidence.window, evidence.max_close_age_s).with_columns(seq=seq)
    if score_lines(row) != content["score"]["line"].encode() + b"\n":
        raise EvidenceError(f"the law scores the decision otherwise: {score_lines(row)[:-1].decode()}")
    return sha256(content["manifest"].encode())


def _manifest(text: Any) -> JsonObject:
    stated = parsed(text.encode()) if isinstance(text, str) else None
    if not isinstance(stated, dict) or not stated.keys() >= _STATED:
        raise EvidenceError("the manifest lacks what it must state")
    index, texts = stated["commit_index"], [stated[name] for name in ("evidence_hash", "evidence_root", "score_root")]
    counts = [stated["event_count"], *([] if index is None else [index])]
    if any(type(count) is not int or count < 0 for count in counts) or not all(isinstance(value, str) for value in texts):
        raise EvidenceError("the manifest states a count or a hash that is not valid")
    return stated


def _check_included(name: str, line: Any, root: str) -> None:
    if not isinstance(line, dict) or line.keys() != _LINE.keys() or any(type(line[key]) is not _LINE[key] for key in _LINE):
        raise EvidenceError(f"the line of the {name} does not have the keys {', '.join(_LINE)}")
    proof = line["proof"]
    if any(type(text) is not str or len(text) != 64 or set(text) - set("0123456789abcdef") for text in proof):
        raise EvidenceError(f"the proof of the {name} is no list of hashes")
    if not root.startswith("sha256:") or len(root) != 71 or set(root[7:]) - set("0123456789abcdef"):
        raise EvidenceError(f"no root: {root!r:.90}")
    hashes = [bytes.fromhex(text) for text in proof]
    data = line["line"].encode()
    limit = MAX_STARTED_BYTES if name == "started" else MAX_LINE_BYTES
    if len(data) > limit:
        raise EvidenceError(f"the line of the {name} has {len(data):,} bytes, the limit is {limit:,}")
    leaf = leaf_hash(data)
    if not check_inclusion(leaf, line["index"], line["size"], hashes, bytes.fromhex(root[7:])):
        raise EvidenceError(f"the line of the {name} does not stand under its root")


def _check_places(lines: Mapping[str, _LineProof], score: _LineProof, count: int) -> None:
    events = {name: read_single(line["line"].encode() + b"\n", _KINDS[name]) for name, line in lines.items()}
    at = {name: line["index"] for name, line in lines.items()}
    sealed = events["sealed"]["payload"]
    counts = ("agent_errors", "decisions", "market_closes")
    if sealed.keys() - {"content_hash"} != set(counts):
        raise EvidenceError("RUN_SEALED counts something else")
    numbers = [*(sealed[name] for name in counts), *(event["seq"] for event in events.values())]
    if any(type(number) is not int or number < 0 for number in numbers):
        raise EvidenceError("a number or count of a line is not valid")
    decisions, before_closes = sealed["decisions"], sealed["decisions"] + sealed["agent_errors"]
    right = (
        all(event["seq"] == at[name] and lines[name]["size"] == count for name, event in events.items())
        and at["started"] == 0 < at["decision"] <= decisions
        and at.get("close", count) > before_closes
        and at["sealed"] + 1 == count == before_closes + sealed["market_closes"] + 2
        and (score["index"] + 1, score["size"]) == (at["decision"], decisions)
    )
    if not right:
        raise EvidenceError("the lines do not stand where RUN_SEALED counts them")


def _alone(lines: Mapping[str, _LineProof]) -> Evidence:
    """Read the disclosed lines as evidence of one decision, numbered from 0."""
    payloads = {name: parsed(line["line"].encode())["payload"] for name, line in lines.items()}
    payloads["sealed"] |= {"agent_errors": 0, "decisions": 1, "market_closes": int("close" in lines)}
    return read_evidence(
        b"".join(event_line(_KINDS[name], payload, seq) for seq, (name, payload) in enumerate(payloads.items()))
    )
