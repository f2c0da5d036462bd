"""Selective disclosure: one decision and its score, proved against the roots in the manifest, without the other events."""

from __future__ import annotations

from typing import Any

from clvlab.errors import EvidenceError
from clvlab.proof.canonical import parsed
from clvlab.proof.events import Kind
from clvlab.proof.merkle import inclusion_proof, leaf_hashes
from clvlab.proof.seal import SealedRun

__all__ = ["DISCLOSURE_SCHEMA", "disclosure"]

DISCLOSURE_SCHEMA = "clvlab-disclosure/1"


def disclosure(run: SealedRun, seq: int) -> dict[str, Any]:
    """Prove the decision at event ``seq`` and its score row.

    Returns
    -------
    dict
        JSON value: the manifest as it is hashed, and for each of the two lines its text, number, tree size and RFC 9162
        inclusion proof in hex. ``clv_verify.py`` checks it.

    Raises
    ------
    EvidenceError
        No decision at ``seq``.
    """
    lines = run.events.split(b"\n")[:-1]
    if not 0 <= seq < len(lines) or parsed(lines[seq]).get("kind") != Kind.DECISION:
        raise EvidenceError(f"run {run.run_id} has no decision at seq {seq}")
    return {
        "schema": DISCLOSURE_SCHEMA,
        "manifest": run.manifest.decode(),
        "decision": _proved(run.events, seq),
        "score": _proved(run.scores, seq - 1),  # decisions are numbered from 1
    }


def _proved(text: bytes, index: int) -> dict[str, Any]:
    leaves = leaf_hashes(text)
    proof = [value.hex() for value in inclusion_proof(leaves, index)]
    return {"index": index, "line": text.split(b"\n", index + 1)[index].decode(), "proof": proof, "size": len(leaves)}
