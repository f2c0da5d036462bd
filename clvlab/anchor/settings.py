"""Which chain anchors go to, and with which key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from clvlab.errors import AnchorError
from clvlab.proof.anchor import GENESIS, AnchorTrust

__all__ = ["AnchorSettings"]

_COMMITMENTS = ("confirmed", "finalized")


@dataclass(frozen=True, slots=True)
class AnchorSettings:
    """How to reach a chain.

    Attributes
    ----------
    rpc_url
        Address of a JSON-RPC node; without one no chain is asked.
    cluster
        Name of the chain; of a name other than the public ones, ``genesis_hash`` must be given.
    keypair
        File of the key that signs, as the Solana tools write it: a JSON array of 64 numbers. Without one nothing is anchored.
    signers
        Public keys that are trusted to anchor, beside the own one.
    commitment
        ``confirmed`` or ``finalized``: how sure the chain must be before an anchor counts.
    priority_fee
        Micro-lamports per compute unit, on top of the base fee.
    patience_s, timeout_s, poll_s
        How long to try to get one anchor on chain, to wait for one answer, and to pause between questions.
    """

    rpc_url: str | None = None
    cluster: str = "devnet"
    keypair: Path | None = None
    signers: frozenset[str] = frozenset()
    genesis_hash: str | None = None
    commitment: str = "confirmed"
    priority_fee: int = 1000
    patience_s: float = 120.0
    timeout_s: float = 10.0
    poll_s: float = 0.5

    def __post_init__(self) -> None:
        if self.commitment not in _COMMITMENTS:
            raise AnchorError(f"commitment {self.commitment!r}: use one of {', '.join(_COMMITMENTS)}")
        if self.cluster in GENESIS and self.genesis_hash not in (None, GENESIS[self.cluster]):
            raise AnchorError(f"{self.cluster} has genesis hash {GENESIS[self.cluster]}, not {self.genesis_hash}")
        if self.rpc_url and self.cluster not in GENESIS and not self.genesis_hash:
            raise AnchorError(f"cluster {self.cluster!r} is none of {', '.join(GENESIS)}: give its genesis hash")
        if not 0 <= self.priority_fee < 2**64:
            raise AnchorError(f"a priority fee of {self.priority_fee} micro-lamports is out of range")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> AnchorSettings:
        """Read ``CLVLAB_ANCHOR_*``: RPC_URL, CLUSTER, GENESIS_HASH, KEYPAIR, SIGNERS, COMMITMENT, PRIORITY_FEE, PATIENCE_S."""
        given = {
            name: environment[f"CLVLAB_ANCHOR_{name}"]
            for name in ("RPC_URL", "CLUSTER", "GENESIS_HASH", "KEYPAIR", "SIGNERS", "COMMITMENT", "PRIORITY_FEE", "PATIENCE_S")
            if environment.get(f"CLVLAB_ANCHOR_{name}")
        }
        try:
            return cls(
                rpc_url=given.get("RPC_URL"),
                cluster=given.get("CLUSTER", "devnet"),
                genesis_hash=given.get("GENESIS_HASH"),
                keypair=Path(given["KEYPAIR"]) if "KEYPAIR" in given else None,
                signers=frozenset(given.get("SIGNERS", "").replace(",", " ").split()),
                commitment=given.get("COMMITMENT", "confirmed"),
                priority_fee=int(given.get("PRIORITY_FEE", "1000")),
                patience_s=float(given.get("PATIENCE_S", "120")),
            )
        except ValueError as error:
            raise AnchorError(f"a setting CLVLAB_ANCHOR_* is no number: {error}") from error

    def trust(self, *own: str) -> AnchorTrust:
        """Return the keys and clusters that are trusted here, an own key among them."""
        genesis = GENESIS | ({self.cluster: self.genesis_hash} if self.genesis_hash else {})
        return AnchorTrust(self.signers | set(own), genesis)
