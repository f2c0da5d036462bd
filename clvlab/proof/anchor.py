"""Anchors: an anchor's record, a public chain's answer about it, and the keys that the caller trusts.

The chain's answer is passed in as a value, because this module does no I/O. ``checks.anchor_check`` judges it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

# The memo program has had three addresses. A memo under any of them counts.
MEMO_PROGRAMS = (
    "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo",
    "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr",
    "Memo4c2pN8afCj432Lb7RMVKi9PbQnnW7ewFFaV3oAH",
)
# The hash of its first block identifies a cluster, because anybody can give a chain any name.
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
    """Record of the commitment of a manifest hash on a chain. ``cluster`` is never ``None``."""

    status: str = "not_anchored"
    signature: str | None = None
    cluster: str = "devnet"
    explorer_url: str | None = None


@dataclass(frozen=True, slots=True)
class Instruction:
    program_id: str
    signers: tuple[str, ...]
    data: bytes


@dataclass(frozen=True, slots=True)
class Seen:
    """A chain's answer about one transaction. ``signature`` is ``None`` if the chain does not hold the transaction.

    All other fields come from the bytes in ``transaction``. ``signed`` is whether every signature over these bytes was checked
    and is valid.
    """

    genesis_hash: str
    signature: str | None = None
    signed: bool = False
    error: str | None = None
    instructions: tuple[Instruction, ...] = ()
    transaction: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class AnchorTrust:
    """Keys that may anchor, and genesis hashes by cluster. They come from the caller, never from the run."""

    signers: frozenset[str] = frozenset()
    genesis: dict[str, str] = field(default_factory=lambda: dict(GENESIS))
