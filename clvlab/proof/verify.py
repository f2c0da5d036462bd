"""Verification of a sealed run: from its bytes to seven verdicts, without engine, agent, store or pack."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import polars as pl

from clvlab.errors import EvidenceError
from clvlab.law.clv import scores
from clvlab.law.lines import Positions
from clvlab.law.metrics import outcomes
from clvlab.law.positions import placed
from clvlab.proof import checks
from clvlab.proof.anchor import Anchor, AnchorTrust, Seen
from clvlab.proof.canonical import canonical, sha256
from clvlab.proof.checks import Check, Verdict
from clvlab.proof.events import batches, score_lines
from clvlab.proof.evidence import Evidence, read_evidence
from clvlab.proof.limits import MAX_STARTED_BYTES, check_lines
from clvlab.proof.manifest import RunStarted, manifest, stated_hash, stated_index
from clvlab.proof.merkle import Digest, pieces
from clvlab.proof.seal import SealedRun

_Rederived = tuple[Evidence, Positions, pl.DataFrame, bytes]
_SMALL_BYTES = 1 << 20  # below this, a thread takes longer to start than it saves


@dataclass(frozen=True)
class Verification:
    """Outcome of a verification.

    Attributes
    ----------
    verified
        Whether the recomputed evidence hash equals the sealed one. The other checks do not matter here.
    recomputed_evidence_hash
        ``recompute_error:<reason>`` when the evidence can't be read.
    manifest_hash
        Hash of the rebuilt manifest, or of the stored one if it can't be rebuilt.
    checks
        Verdict and explanation of each of the seven checks, by name.
    evidence
        Evidence of the run; ``None`` when it can't be read.
    scores
        ``SCORES``, derived again from the evidence; ``None`` when the evidence can't be read.
    """

    run_id: str
    verified: bool
    evidence_hash: str
    recomputed_evidence_hash: str
    manifest_hash: str
    checks: dict[str, Check]
    evidence: Evidence | None = field(default=None, repr=False)
    scores: pl.DataFrame | None = None
    anchor: Anchor = field(default_factory=Anchor)

    @property
    def started(self) -> RunStarted | None:
        """Payload of RUN_STARTED; ``None`` when the evidence can't be read."""
        return None if self.evidence is None else self.evidence.started

    @cached_property
    def outcomes(self) -> pl.DataFrame | None:
        """``OUTCOMES`` of the derived scores; ``None`` when the evidence can't be read."""
        if self.started is None or self.scores is None:
            return None
        return outcomes(self.scores, tuple(agent["agent_id"] for agent in self.started["agents"]))

    @property
    def passed(self) -> bool:
        """Whether the seal is intact and no check failed."""
        return self.verified and all(check.verdict != Verdict.FAIL for check in self.checks.values())


def verify(
    run: SealedRun,
    receipts: bytes = b"",
    *,
    anchor: Anchor | None = None,
    seen: Seen | None = None,
    trust: AnchorTrust | None = None,
    trust_folder: Path | None = None,
) -> Verification:
    """Verify a sealed run, its receipts, and its anchor. ``seen`` is the chain's answer, ``None`` if it was not asked.

    1. Hash and read the evidence. 2. Derive scores. 3. Rebuild roots and manifest. 4. Judge the seven checks.
    """
    anchor, boundary = anchor or Anchor(), checks.llm_boundary(trust_folder)
    try:
        sealed_hash = stated_hash(run.manifest)
    except EvidenceError as error:
        sealed_hash = f"unreadable:{error}"
    try:
        (evidence, positions, rederived, lines), evidence_digest, score_digest = _read_and_hashed(run)
    except EvidenceError as error:
        others = {"llm_boundary": boundary, "anchor": checks.anchor_check(anchor, run.manifest_hash, seen, trust)}
        return _unreadable(run, sealed_hash, str(error), others, anchor)
    recomputed = evidence_digest.hash()
    if score_digest is None or lines != run.scores:
        score_digest = _digest_of(lines)
    rebuilt = canonical(
        manifest(
            evidence.started,
            evidence_hash=recomputed,
            evidence_root=evidence_digest.root(),
            event_count=evidence.count,
            score_root=score_digest.root(),
            commit_index=stated_index(run.manifest),  # only the log can confirm it
        )
    )
    manifest_hash = sha256(rebuilt)
    return Verification(
        run_id=run.run_id,
        verified=recomputed == sealed_hash,
        evidence_hash=sealed_hash,
        recomputed_evidence_hash=recomputed,
        manifest_hash=manifest_hash,
        checks={
            "evidence_integrity": checks.evidence_integrity(sealed_hash, recomputed),
            "llm_boundary": boundary,
            "metrics_recomputed": checks.metrics_recomputed(run.scores, lines),
            "manifest_bound": checks.manifest_bound(run, rebuilt, manifest_hash, evidence.started),
            "policy_obeyed": checks.policy_obeyed(evidence, positions, receipts),
            "receipt_separation": checks.receipt_separation(evidence),
            "anchor": checks.anchor_check(anchor, manifest_hash, seen, trust),
        },
        evidence=evidence,
        scores=rederived,
        anchor=anchor,
    )


def _read_and_hashed(run: SealedRun) -> tuple[_Rederived, Digest, Digest | None]:
    """Read and hash the evidence, and hash the stored scores, ``None`` beyond their limits. A large run uses a thread."""
    if len(run.events) <= _SMALL_BYTES:
        return _rederived(run), _digest_of(run.events), _stored_scores(run)
    check_lines(run.events, "events.jsonl", MAX_STARTED_BYTES)  # checked before a line is hashed
    with ThreadPoolExecutor(1) as pool:  # reading runs outside the interpreter's lock, hashing lines inside
        reading = pool.submit(_rederived, run)
        digests = _digest_of(run.events, reading), _stored_scores(run, reading)
        return reading.result(), *digests


def _stored_scores(run: SealedRun, reading: Future[_Rederived] | None = None) -> Digest | None:
    try:
        check_lines(run.scores, "scores.jsonl")
    except EvidenceError:  # another check compares them with the derived scores
        return None
    if run.scores.count(b"\n") > run.events.count(b"\n"):  # each score belongs to a decision
        return None
    return _digest_of(run.scores, reading)


def _digest_of(lines: bytes, reading: Future[_Rederived] | None = None) -> Digest:
    """Hash lines piece by piece, and stop as soon as ``reading`` raises."""
    digest = Digest()
    for piece in pieces(lines):
        if reading is not None and reading.done():
            reading.result()
            reading = None
        digest.add(piece)
    return digest


def _rederived(run: SealedRun) -> _Rederived:
    evidence = read_evidence(run.events)
    limits = evidence.limits
    positions = placed(*evidence.events.lines, evidence.market)
    rederived = scores(positions, limits.window, limits.max_close_age_s)
    return evidence, positions, rederived, _written(rederived, run.scores)


def _written(rederived: pl.DataFrame, stored: bytes) -> bytes:
    """Return ``SCORES`` as lines. While they equal the stored lines, they are only compared and not held twice."""
    if len(stored) <= _SMALL_BYTES:
        return b"".join(map(score_lines, batches(rederived)))
    end = 0
    with ThreadPoolExecutor(2) as pool:
        for lines in pool.map(score_lines, batches(rederived)):
            if not stored.startswith(lines, end):
                break
            end += len(lines)
        else:
            if end == len(stored):
                return stored
    return b"".join(map(score_lines, batches(rederived)))


def _unreadable(run: SealedRun, sealed_hash: str, reason: str, others: dict[str, Check], anchor: Anchor) -> Verification:
    verdicts = {name: checks.unreadable(reason) for name in checks.CHECKS}
    return Verification(
        run_id=run.run_id,
        verified=False,
        evidence_hash=sealed_hash,
        recomputed_evidence_hash=f"recompute_error:{reason}",
        manifest_hash=run.manifest_hash,
        checks=verdicts | others,
        anchor=anchor,
    )
