"""Proof bundles and disclosures of stored runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clvlab.anchor.anchorer import NullAnchor
from clvlab.anchor.records import AnchorRecord
from clvlab.application.anchors import AnchorSettings, record_of
from clvlab.errors import BundleError
from clvlab.proof import clv_verify
from clvlab.proof.anchor import Anchor, AnchorStatus
from clvlab.proof.bundle import bundle, read_bundle, run_of
from clvlab.proof.canonical import canonical, parsed
from clvlab.proof.disclosure import disclosure
from clvlab.proof.seal import SealedRun
from clvlab.proof.verify import Verification, verify
from clvlab.store.folder import read_receipts, read_run

__all__ = ["anchor_part", "bundle_run", "bundle_verified", "disclosed", "stored", "verifier_source"]


def bundle_run(path: Path, *, log: dict[str, Any] | None = None) -> bytes:
    """Put everything about a stored run into one file: evidence, scores, manifest, receipts, anchor, log proofs.

    Parameters
    ----------
    path
        A run folder.
    log
        Proofs of the run's entries in a run log; needed if the manifest names a commitment.
    """
    run = read_run(path)
    if run.commit_index is not None and log is None:
        raise BundleError(f"run {run.run_id} was committed to in a log: name the log, to prove it")
    return bundle(run, read_receipts(path), anchor=anchor_part(record_of(path, run.run_id)), log=log)


def anchor_part(record: AnchorRecord | None) -> dict[str, Any] | None:
    """Give what a bundle says of an anchor that is on the chain; null of any other."""
    if record is None or record.status != AnchorStatus.ANCHORED:
        return None
    signed = {"signature": str(record.signature), "transaction": str(record.transaction)}
    return {"schema": "clvlab-bundle-anchor/1", "cluster": record.cluster} | signed


def bundle_verified(path: Path, settings: AnchorSettings | None = None) -> Verification:
    """Recompute the proof of a bundled run, the chain asked about its anchor where settings say how."""
    contents = read_bundle(path.read_bytes())
    asker = NullAnchor(settings)
    stated: dict[str, Any] = parsed(contents.get("anchor.json", b"null")) or {}
    anchor = Anchor(cluster=asker.cluster)
    if stated:
        anchor = Anchor(AnchorStatus.ANCHORED.value, str(stated.get("signature")), str(stated.get("cluster")))
    receipts = contents.get("receipts.jsonl", b"")
    return verify(run_of(contents), receipts, anchor=anchor, seen=asker.seen(anchor), trust=asker.trust)


def stored(path: Path) -> tuple[SealedRun, bytes]:
    """Read a run and its receipts, unverified, from a run folder or a bundle."""
    if path.is_file():
        contents = read_bundle(path.read_bytes())
        return run_of(contents), contents.get("receipts.jsonl", b"")
    return read_run(path), read_receipts(path)


def disclosed(path: Path, seq: int) -> bytes:
    """Prove one decision of a stored run, and its score, without the others: canonical JSON."""
    return canonical(disclosure(read_run(path), seq))


def verifier_source() -> bytes:
    """Give the stand-alone verifier: one file that needs plain Python."""
    return Path(clv_verify.__file__).read_bytes()
