"""Disclosures, honest and forged, whose lines all stand under the roots of some manifest."""

from __future__ import annotations

import json
from copy import deepcopy
from random import Random
from typing import Any

from clvlab.errors import EvidenceError
from clvlab.proof import clv_verify
from clvlab.proof.canonical import canonical, sha256
from clvlab.proof.disclosure import check_disclosure, disclosure
from clvlab.proof.merkle import inclusion_proof, leaf_hashes, root
from clvlab.proof.seal import SealedRun
from tests.fuzz.runs import ODD, at_place, places

__all__ = ["disclosed", "disclosure_disagreement", "forged_disclosure"]


def disclosed(rng: Random, run: SealedRun) -> bytes | None:
    """The disclosure of one decision of a run that verifies; null of one without decisions."""
    count = run.scores.count(b"\n")
    return canonical(disclosure(run, rng.randint(1, count))) if count else None


def forged_disclosure(rng: Random, run: SealedRun, text: bytes) -> bytes:
    """Change a disclosure: its own values, or a line of it, which is then proved under roots made to fit."""
    shown = json.loads(text)
    if rng.random() < 0.4:
        place = rng.choice(places(shown)[1:])
        at_place(shown, place[:-1])[place[-1]] = deepcopy(rng.choice([*ODD, at_place(shown, rng.choice(places(shown)))]))
        return _written(shown)
    events, scores = run.events.split(b"\n")[:-1], run.scores.split(b"\n")[:-1]
    for _ in range(rng.choice([1, 1, 2])):
        name = rng.choice(["started", "decision", "decision", "close", "sealed", "score", "score"])
        lines = scores if name == "score" else events
        at = shown[name]["index"] if shown[name] else rng.randrange(len(lines))
        event = json.loads(lines[at])
        place = rng.choice(places(event)[1:])
        other = json.loads(rng.choice(lines))
        value = rng.choice([*ODD, _found(other, place), _found(other, place), _found(other, place)])
        at_place(event, place[:-1])[place[-1]] = deepcopy(value)
        lines[at] = rng.choice([_written(event), rng.choice(lines)])
    return _bound(rng, shown, events, scores)


def _found(value: Any, place: tuple[Any, ...]) -> Any:
    try:
        return at_place(value, place)
    except (KeyError, IndexError, TypeError):
        return 1


def _bound(rng: Random, shown: dict[str, Any], events: list[bytes], scores: list[bytes]) -> bytes:
    """Prove the lines at the places of a disclosure, or one beside them, and state the roots in its manifest."""
    bound = json.loads(shown["manifest"])
    trees = {
        name: leaf_hashes(b"\n".join(lines) + b"\n") for name, lines in (("evidence_root", events), ("score_root", scores))
    }
    for name in ("started", "decision", "close", "sealed", "score"):
        if shown[name] is not None:
            lines, leaves = (scores, trees["score_root"]) if name == "score" else (events, trees["evidence_root"])
            index = (shown[name]["index"] + rng.choice([0] * 20 + [-1, 1])) % len(leaves)
            proof = [value.hex() for value in inclusion_proof(leaves, index)]
            line = lines[index].decode(errors="replace")
            shown[name] = {"index": index, "line": line, "proof": proof, "size": len(leaves)}
    bound |= {name: "sha256:" + root(leaves).hex() for name, leaves in trees.items()} | {"event_count": len(events)}
    bound["evidence_hash"] = sha256(b"\n".join(events) + b"\n")
    if rng.random() < 0.1:
        shown["close"] = None
    return _written(shown | {"manifest": _written(bound).decode(errors="replace")})


def _written(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode(errors="replace")


def disclosure_disagreement(text: bytes) -> str | None:
    """Say how package and file differ over a disclosure, or null."""
    result: dict[str, Any] = {}
    alone = clv_verify.fault(clv_verify.check_disclosure, text, result)
    try:
        ours, why = check_disclosure(text), ""
    except EvidenceError as error:
        ours, why = "", str(error)
    if bool(ours) == bool(alone) or (ours and ours != result["manifest_hash"]):
        return f"the package says {ours or why!r}, the file {alone or result!r}"
    return None
