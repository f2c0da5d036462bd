"""Anchors: what is on record of one, what a public chain says of it, and whom the caller trusts.

What the chain says arrives as a value; nothing here asks it. ``checks.anchor_check`` judges it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

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
