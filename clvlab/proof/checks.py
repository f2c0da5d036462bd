"""The seven checks: each recomputed from the sealed bytes, each able to fail."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

from clvlab.proof.audit import audit
from clvlab.proof.canonical import sha256
from clvlab.proof.evidence import Evidence
from clvlab.proof.manifest import config_hash, run_id
from clvlab.proof.seal import SealedRun

__all__ = [
    "CHECKS",
    "Check",
    "Verdict",
    "evidence_integrity",
    "llm_boundary",
    "manifest_bound",
    "metrics_recomputed",
    "receipt_separation",
    "unreadable",
]

CHECKS = (
    "evidence_integrity",
    "llm_boundary",
    "metrics_recomputed",
    "manifest_bound",
    "policy_obeyed",
    "receipt_separation",
    "anchor",
)


class Verdict(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    PENDING = "pending"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True, slots=True)
class Check:
    """A verdict and, in a sentence, what it rests on."""

    verdict: Verdict
    detail: str


def _judged(*, passed: bool, good: str, bad: str) -> Check:
    return Check(Verdict.PASS, good) if passed else Check(Verdict.FAIL, bad)


def unreadable(reason: str) -> Check:
    """Fail a check that needs evidence which can't be read."""
    return Check(Verdict.FAIL, f"the evidence can't be read: {reason}")


def evidence_integrity(sealed: str, recomputed: str) -> Check:
    """Compare the hash of the stored bytes, which were read as canonical lines, with the sealed one."""
    return _judged(
        passed=sealed == recomputed,
        good=f"SHA-256 of events.jsonl is the sealed {sealed}",
        bad=f"SHA-256 of events.jsonl is {recomputed}, sealed was {sealed}",
    )


def llm_boundary(folder: Path | None) -> Check:
    """Audit what the trust folders import."""
    found = audit(folder)
    return _judged(
        passed=not found,
        good="law and proof import each other, polars, pyarrow, orjson and part of the standard library only",
        bad="; ".join(found[:3]),
    )


def metrics_recomputed(stored: bytes, rederived: bytes) -> Check:
    """Compare all score lines, as bytes: a row dropped, added or altered fails."""
    if stored == rederived:
        rows = rederived.count(b"\n")
        return Check(Verdict.PASS, f"all {rows} score rows re-derived from the evidence are equal")
    ours, theirs = rederived.split(b"\n")[:-1], stored.split(b"\n")[:-1]
    first = next((n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    return Check(Verdict.FAIL, f"{len(ours)} rows re-derived, {len(theirs)} stored; the first difference is row {first + 1}")


def manifest_bound(run: SealedRun, rebuilt: bytes, started: dict[str, Any]) -> Check:
    """Compare the rebuilt manifest with the stored one, and re-derive every id and hash that RUN_STARTED names."""
    if rebuilt != run.manifest:
        return Check(Verdict.FAIL, f"the manifest {_difference(rebuilt, run.manifest)}")
    for agent in started["agents"]:
        own = config_hash(agent["strategy"], agent["strategy_version"], agent["config"])
        if own != agent["config_hash"]:
            return Check(Verdict.FAIL, f"config_hash of {agent['agent_id']} is {agent['config_hash']}, its config gives {own}")
    derived = run_id(started)
    if not derived == started["run_id"] == run.run_id:
        return Check(Verdict.FAIL, f"run_id is {started['run_id']}, its inputs give {derived}")
    return Check(Verdict.PASS, f"{sha256(rebuilt)} binds the run id, the evidence root and the score root")


def _difference(rebuilt: bytes, stored: bytes) -> str:
    try:
        ours, theirs = orjson.loads(rebuilt), orjson.loads(stored)
        names = [key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)]
    except (orjson.JSONDecodeError, AttributeError) as error:
        return f"can't be read: {error}"
    if not names:
        return "is not in canonical form"
    key = min(names)
    return f"states {key} {theirs.get(key)!r}, rebuilt it is {ours.get(key)!r}"


def receipt_separation(evidence: Evidence) -> Check:
    """Pass evidence that was read: its kinds and keys are a closed set in which no receipt has a place.

    A receipt forged into the evidence makes it unreadable, and this check fail with it.
    """
    return Check(Verdict.PASS, f"none of the {evidence.count} events is a receipt or carries a field of one")
