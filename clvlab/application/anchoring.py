"""What the use cases ask of an anchor, and the anchor that does nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from clvlab.proof.checks import Check, Verdict
from clvlab.proof.verify import Anchor

__all__ = ["Anchorer", "NullAnchorer"]


class Anchorer(Protocol):
    """Commits manifest hashes somewhere public."""

    @property
    def cluster(self) -> str:
        """Name of the network, never null."""
        ...

    @property
    def enabled(self) -> bool:
        """Whether sealed runs are to be anchored at all."""
        ...

    def commit(self, manifest_hash: str) -> Anchor:
        """Anchor a hash; gives the outcome with status ``anchored`` or ``failed``. May take seconds; called by a job."""
        ...

    def check(self, anchor: Anchor, manifest_hash: str) -> Check:
        """Judge a recorded anchor against what the network says."""
        ...


@dataclass(frozen=True, slots=True)
class NullAnchorer:
    """Anchors nothing."""

    cluster: str = "devnet"
    enabled: bool = False

    def commit(self, manifest_hash: str) -> Anchor:  # noqa: ARG002
        return Anchor(cluster=self.cluster)

    def check(self, anchor: Anchor, manifest_hash: str) -> Check:  # noqa: ARG002
        return Check(Verdict.NOT_APPLICABLE, "the run is not anchored")
