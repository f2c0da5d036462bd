"""The anchor check: whether a public chain holds this manifest hash, signed by a key that the caller trusts.

What the chain says arrives as a value; nothing here asks it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from clvlab.proof.checks import Check, Verdict

# The memo program has had three addresses; a memo under any of them is one.
MEMO_PROGRAMS = (
    "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo",
    "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr",
    "Memo4c2pN8afCj432Lb7RMVKi9PbQnnW7ewFFaV3oAH",
)
# A cluster is known by the hash of its first block, not by the name that somebody gives it.
GENESIS = {
    "mainnet-beta": "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d",
    "testnet": "4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY",
    "devnet": "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG",
}


class AnchorStatus(StrEnum):
    NOT_ANCHORED = "not_anchored"
    PENDING = "pending"
    ANCHORED = "anchored"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Anchor:
    """Where the manifest hash was committed; ``cluster`` is never null."""

    status: str = "not_anchored"
    signature: str | None = None
    cluster: str = "devnet"
    explorer_url: str | None = None


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction of a transaction: its program, those of its accounts that signed, and its data."""

    program_id: str
    signers: tuple[str, ...]
    data: bytes


@dataclass(frozen=True, slots=True)
class Seen:
    """What a chain says of one transaction.

    Attributes
    ----------
    genesis_hash
        Of the chain that was asked.
    signature
        The transaction's own; null when the chain does not hold the one asked for.
    signed
        Whether every signature over the transaction's bytes was checked here and holds.
    error
        Why the transaction failed; null when it succeeded.
    transaction
        Its bytes, of which the other fields were read.
    """

    genesis_hash: str
    signature: str | None = None
    signed: bool = False
    error: str | None = None
    instructions: tuple[Instruction, ...] = ()
    transaction: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class AnchorTrust:
    """What the caller trusts, never what a run says of itself: the keys that may anchor, and genesis hashes by cluster."""

    signers: frozenset[str] = frozenset()
    genesis: dict[str, str] = field(default_factory=lambda: dict(GENESIS))


def anchor_check(anchor: Anchor, manifest_hash: str, seen: Seen | None = None, trust: AnchorTrust | None = None) -> Check:
    """Judge an anchor by what the chain says.

    Parameters
    ----------
    anchor
        What is on record.
    manifest_hash
        Of the manifest rebuilt from the evidence: the memo must be exactly this text.
    seen
        What the chain says of ``anchor.signature``; null when it could not be asked.
    trust
        Keys and clusters; without a key nothing passes.
    """
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
    """Name what the chain says against the record."""
    expected = trust.genesis.get(anchor.cluster)
    if seen.genesis_hash != expected:
        return f"the chain asked has genesis hash {seen.genesis_hash}, {anchor.cluster} has {expected or 'none that is known'}"
    if seen.signature is None:
        return None
    if seen.signature != anchor.signature or not seen.signed:
        return f"the transaction given for {anchor.signature} does not carry that signature, or it does not hold"
    if seen.error is not None:
        return f"transaction {seen.signature} failed on {anchor.cluster}: {seen.error}"
    memos = [instruction for instruction in seen.instructions if instruction.program_id in MEMO_PROGRAMS]
    if not memos:
        return f"transaction {seen.signature} calls no known memo program"
    if manifest_hash.encode() not in [memo.data for memo in memos]:
        return f"the memo is {memos[0].data[:100]!r}, the manifest hash {manifest_hash}"
    signers = {signer for memo in memos if memo.data == manifest_hash.encode() for signer in memo.signers}
    if trust.signers and not signers & trust.signers:
        return f"the memo is signed by {', '.join(sorted(signers)) or 'nobody'}, which is not trusted"
    return None
