"""Anchoring stored runs, and asking the chain about them."""

from __future__ import annotations

from pathlib import Path

from clvlab.anchor.configured import anchorer
from clvlab.anchor.records import AnchorRecord, FolderRecords
from clvlab.anchor.settings import AnchorSettings
from clvlab.errors import AnchorError
from clvlab.proof.anchor import Anchor
from clvlab.proof.verify import Verification, verify
from clvlab.store.folder import read_receipts, read_run

__all__ = ["AnchorSettings", "anchor_run", "anchor_verified", "record_of"]


def anchor_run(path: Path, settings: AnchorSettings) -> Anchor:
    """Anchor a stored run, once however often this is asked, and keep the record in its folder.

    Raises
    ------
    AnchorError
        The run does not verify, no key is set, or the chain refuses; ``AnchorUnavailableError`` when asking later is safe.
    """
    run = read_run(path)
    if not verify(run, read_receipts(path)).passed:
        raise AnchorError(f"run {run.run_id} does not verify: only what holds is anchored")
    chosen = anchorer(settings, FolderRecords(path))
    if not chosen.enabled:
        raise AnchorError("anchoring needs CLVLAB_ANCHOR_KEYPAIR and CLVLAB_ANCHOR_RPC_URL ('clvlab devchain' shows how)")
    return chosen.commit(run.run_id, run.manifest_hash)


def record_of(path: Path, run_id: str) -> AnchorRecord | None:
    """Give what is on record of the anchor of a stored run."""
    return FolderRecords(path).get(run_id)


def anchor_verified(path: Path, settings: AnchorSettings | None = None) -> Verification:
    """Recompute the proof of a stored run, the chain asked about its anchor where settings say how."""
    run, settings = read_run(path), settings or AnchorSettings()
    chosen = anchorer(settings, FolderRecords(path))
    record = record_of(path, run.run_id)
    anchor = record.anchor() if record else Anchor(cluster=settings.cluster)
    return verify(run, read_receipts(path), anchor=anchor, seen=chosen.seen(anchor), trust=chosen.trust)
