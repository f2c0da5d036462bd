"""Stored runs: keep, read, show, verify."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clvlab.proof.card import proof_card
from clvlab.proof.inspector import inspect_decision
from clvlab.proof.seal import SealedRun
from clvlab.proof.verify import Verification, verify
from clvlab.store.folder import read_receipts, read_run, write_run

__all__ = ["decision", "inspect_decision", "keep", "load", "proof_card", "receipts", "verified", "verify"]


def keep(run: SealedRun, runs: str | Path = "runs", receipts: bytes = b"") -> Path:
    """Store a sealed run under ``runs/<run_id>``, receipts beside it, and give its folder."""
    return write_run(run, Path(runs), receipts)


def load(path: str | Path) -> SealedRun:
    """Read a stored run, unverified."""
    return read_run(Path(path))


def verified(path: str | Path) -> Verification:
    """Recompute the proof of a stored run."""
    return verify(load(path), receipts(path))


def receipts(path: str | Path) -> bytes:
    """Read what venues said of a stored run: lines that are no evidence."""
    return read_receipts(Path(path))


def decision(path: str | Path, seq: int) -> dict[str, Any]:
    """Give one decision of a stored run, as an inspector record."""
    return inspect_decision(load(path), seq)
