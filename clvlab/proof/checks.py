"""The seven checks. Each is recomputed from the sealed bytes and can fail."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
import orjson

from clvlab.errors import EvidenceError
from clvlab.law.gate import PostQuote, PreQuote, bits_of, verdicts
from clvlab.law.lines import NONE, Bools, Categorical, Decisions, Ints, Positions
from clvlab.law.policy import ExecutionMode, PolicyEnvelope
from clvlab.law.positions import proposals
from clvlab.law.schema import Action
from clvlab.proof.anchor import MEMO_PROGRAMS, Anchor, AnchorStatus, AnchorTrust, Seen
from clvlab.proof.closure import audit
from clvlab.proof.events import Receipt, read_receipts
from clvlab.proof.evidence import Evidence
from clvlab.proof.limits import PART_LIMITS
from clvlab.proof.manifest import RunStarted, check_ids
from clvlab.proof.seal import SealedRun

_PIECE_BYTES = 1 << 12
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
    verdict: Verdict
    detail: str


def unreadable(reason: str) -> Check:
    return Check(Verdict.FAIL, f"the evidence can't be read: {reason}")


def evidence_integrity(sealed: str, recomputed: str) -> Check:
    """Compare the sealed hash with the hash of the stored bytes, which were read as canonical lines."""
    if sealed != recomputed:
        return Check(Verdict.FAIL, f"SHA-256 of events.jsonl is {recomputed}, sealed was {sealed}")
    return Check(Verdict.PASS, f"SHA-256 of events.jsonl is the sealed {sealed}")


def llm_boundary(folder: Path | None) -> Check:
    """Check the imports of the trust folders, and look for files that Python would run in place of their sources."""
    found = audit(folder)
    if found:
        return Check(Verdict.FAIL, "; ".join(found[:3]))
    return Check(
        Verdict.PASS,
        "scoring code imports only an allow-list; this stops accidents, not attackers",
    )


def metrics_recomputed(stored: bytes, rederived: bytes) -> Check:
    if stored == rederived:
        rows = rederived.count(b"\n")
        return Check(Verdict.PASS, f"all {rows} score rows re-derived from the evidence are equal")
    ours, theirs = rederived.count(b"\n"), stored.count(b"\n")
    first = first_difference(rederived, stored)
    return Check(Verdict.FAIL, f"{ours} rows re-derived, {theirs} stored; the first difference is row {first}")


def first_difference(one: bytes, other: bytes) -> int:
    """Return the number, from 1, of the first line that differs between two texts, without splitting them."""
    end = min(len(one), len(other))
    piece = next(
        (at for at in range(0, end, _PIECE_BYTES) if one[at : at + _PIECE_BYTES] != other[at : at + _PIECE_BYTES]), end
    )
    byte = next((at for at in range(piece, min(piece + _PIECE_BYTES, end)) if one[at] != other[at]), end)
    return one.count(b"\n", 0, byte) + 1


def manifest_bound(run: SealedRun, rebuilt: bytes, manifest_hash: str, started: RunStarted) -> Check:
    """Compare the rebuilt manifest with the stored one, and derive every id and hash of RUN_STARTED again."""
    # The bytes must equal a manifest rebuilt from the evidence. A manifest of another run, or with one changed field, fails.
    if rebuilt != run.manifest:
        return Check(Verdict.FAIL, f"the manifest {_difference(rebuilt, run.manifest)}")
    try:
        check_ids(started)
    except EvidenceError as error:
        return Check(Verdict.FAIL, str(error))
    if started["run_id"] != run.run_id:
        return Check(Verdict.FAIL, f"run_id is {started['run_id']}, the run goes by {run.run_id}")
    return Check(Verdict.PASS, f"{manifest_hash} binds the run id, the evidence root and the score root")


def _difference(rebuilt: bytes, stored: bytes) -> str:
    if len(stored) > PART_LIMITS["manifest.json"]:
        return f"has {len(stored):,} bytes, the limit is {PART_LIMITS['manifest.json']:,}"
    try:
        ours, theirs = orjson.loads(rebuilt), orjson.loads(stored)
        names = [key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)]
    except (orjson.JSONDecodeError, AttributeError) as error:
        return f"can't be read: {error}"
    if not names:
        return "is not in canonical form"
    key = min(names)
    return f"states {key} {theirs.get(key)!r}, rebuilt it is {ours.get(key)!r}"


def policy_obeyed(evidence: Evidence, placed: Positions, receipts: bytes) -> Check:
    """Judge every BACK again in both phases, and require each receipt to be for an allowed action."""
    (decisions, _), policy = evidence.events.lines, evidence.limits.policy
    back = decisions.action.equals(Action.BACK)
    backs = int(back.sum())
    if backs == 0 and not receipts:
        return Check(Verdict.NOT_APPLICABLE, "the run has no bet")
    judged = verdicts(proposals(decisions, placed), policy)
    phases = ((decisions.pre, judged.pre, PreQuote), (decisions.post, judged.post, PostQuote))
    wrong = np.logical_or.reduce([_bits(stated, reasons) != bits for stated, bits, reasons in phases])
    if wrong.any():
        first = int(placed.seq[np.argmax(wrong)])
        return Check(Verdict.FAIL, f"{wrong.sum()} of {backs} verdicts do not follow from the policy, the first at seq {first}")
    allowed = (judged.pre == 0) & (judged.post == 0)
    try:
        executed = read_receipts(receipts)
    except EvidenceError as error:
        return Check(Verdict.FAIL, f"the receipts can't be read: {error}")
    try:
        checked = _check_executed(executed, decisions, allowed, policy, evidence.started["run_id"])
    except EvidenceError as error:
        return Check(Verdict.FAIL, str(error))
    passing = int(allowed.sum())
    share = f"all {backs:,} bets" if passing == backs else f"{passing:,} of {backs:,} bets"
    return Check(Verdict.PASS, f"{share} pass the policy; {checked}")


def _bits(stated: Categorical[tuple[str, ...]], reasons: type[StrEnum]) -> Ints:
    return stated.map(lambda one: bits_of(one, reasons), default=NONE)


def _check_executed(receipts: list[Receipt], decisions: Decisions, allowed: Bools, policy: PolicyEnvelope, run_id: str) -> str:
    """Return the number of checked executions as text; ``EvidenceError`` for a receipt without an allowed action."""
    is_paper = policy.execution_mode == ExecutionMode.PAPER
    count = int(allowed.sum())
    if not receipts:
        if is_paper and count:
            return "there is no receipt, so no execution was checked"
        return "no bet was to be executed, and there is no receipt"
    if not is_paper:
        raise EvidenceError(f"the run asked no venue ({policy.execution_mode}), and has {len(receipts)} receipts")
    rows = np.flatnonzero(allowed)
    agents, stakes = decisions.agent_id.take(rows).tolist(), decisions.stake[rows].tolist()
    own = dict(zip((rows + 1).tolist(), zip(agents, stakes, strict=True), strict=True))
    seen: set[int] = set()
    wrong = []
    for receipt in receipts:
        agent_id, proposed = own.get(receipt.decision_seq, (None, None))
        # A receipt for more than the proposed stake, or a second receipt, would count money that the gate never allowed.
        if (
            proposed is None
            or (receipt.agent_id, receipt.run_id) != (agent_id, run_id)
            or not 0 <= receipt.stake <= proposed
            or receipt.venue not in policy.venue_allowlist
            or receipt.decision_seq in seen
        ):
            wrong.append(receipt.decision_seq)
        seen.add(receipt.decision_seq)
    if wrong:
        raise EvidenceError(f"{len(wrong)} receipt(s) without an allowed action of that kind, the first for seq {wrong[0]}")
    # Receipts may be lost. The seal proves decisions, not fills, so the verdict does not depend on the number of receipts.
    missing = count - len(receipts)
    without = f", and {missing:,} bets have no receipt, so their execution was not checked" if missing > 0 else ""
    return f"every receipt matches one{without}"


def receipt_separation(evidence: Evidence) -> Check:
    # Kinds and keys are a closed set without receipts. A receipt forged into the evidence makes it unreadable, so it fails.
    return Check(Verdict.PASS, f"no venue receipt is in the evidence of {evidence.count:,} events")


def anchor_check(anchor: Anchor, manifest_hash: str, seen: Seen | None = None, trust: AnchorTrust | None = None) -> Check:
    """Judge an anchor by the chain's answer (``None`` if not asked). It passes only with a trusted key."""
    trust = trust or AnchorTrust()
    if anchor.status == AnchorStatus.NOT_ANCHORED:
        return Check(Verdict.NOT_APPLICABLE, "the run is not anchored")
    if anchor.status == AnchorStatus.FAILED:
        return Check(Verdict.FAIL, f"anchoring on {anchor.cluster} failed")
    if anchor.signature is None:
        return Check(Verdict.PENDING, f"the manifest hash waits to be anchored on {anchor.cluster}")
    if seen is None:
        return Check(Verdict.PENDING, f"{anchor.cluster} could not be asked for {anchor.signature}")
    wrong = _contradiction(anchor, manifest_hash, seen, trust)
    if wrong:
        return Check(Verdict.FAIL, wrong)
    if seen.signature is None:
        return Check(Verdict.PENDING, f"{anchor.cluster} does not hold {anchor.signature} (yet, or any more)")
    if not trust.signers:
        return Check(Verdict.PENDING, f"the memo is on {anchor.cluster}, but no key is trusted to have signed it")
    return Check(Verdict.PASS, f"{manifest_hash} stands on {anchor.cluster} in {seen.signature}, signed by a trusted key")


def _contradiction(anchor: Anchor, manifest_hash: str, seen: Seen, trust: AnchorTrust) -> str | None:
    # Anybody can run a private chain and call it mainnet. The first block reveals it.
    expected = trust.genesis.get(anchor.cluster)
    if seen.genesis_hash != expected:
        return f"the chain asked has genesis hash {seen.genesis_hash}, {anchor.cluster} has {expected or 'none that is known'}"
    if seen.signature is None:
        return None
    if seen.signature != anchor.signature or not seen.signed:
        return f"the transaction given for {anchor.signature} does not carry that signature, or it does not hold"
    if seen.error is not None:
        return f"transaction {seen.signature} failed on {anchor.cluster}: {seen.error}"
    # The key commits only to a hash in a memo that it signed, not to a hash elsewhere in a transaction.
    memos = [instruction for instruction in seen.instructions if instruction.program_id in MEMO_PROGRAMS]
    if not memos:
        return f"transaction {seen.signature} calls no known memo program"
    if manifest_hash.encode() not in [memo.data for memo in memos]:
        return f"the memo is {memos[0].data[:100]!r}, the manifest hash {manifest_hash}"
    signers = {signer for memo in memos if memo.data == manifest_hash.encode() for signer in memo.signers}
    if trust.signers and not signers & trust.signers:
        return f"the memo is signed by {', '.join(sorted(signers)) or 'nobody'}, which is not trusted"
    return None
