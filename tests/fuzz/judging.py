"""One run, judged three times: what package and file say of each check, and the scores by SQL where evidence can be read."""

from __future__ import annotations

import json
from pathlib import Path

from clvlab.errors import EvidenceError
from clvlab.proof import clv_verify
from clvlab.proof.seal import SealedRun
from clvlab.proof.verify import verify
from clvlab.sql import sql_scores

__all__ = ["SHARED", "disagreement", "make_trust_folder", "passes"]

SHARED = ("evidence_integrity", "metrics_recomputed", "manifest_bound", "policy_obeyed", "receipt_separation")


def make_trust_folder(folder: Path) -> None:
    """Make a trust folder with nothing in it to audit: what it finds in the package is the same for every run."""
    for name in ("law", "proof"):
        (folder / "none" / name).mkdir(parents=True)
    (folder / "none" / "errors.py").touch()


def passes(folder: Path) -> bool:
    """Whether the file passes the run that lies in a folder."""
    return not any(clv_verify.verify(folder)["checks"].values())


def disagreement(sealed: SealedRun, receipts: bytes, folder: Path, *, by_sql: bool) -> str | None:
    """Say how the verifiers differ over a run, or null; whatever else they raise is a fault of theirs.

    Parameters
    ----------
    sealed, receipts
        The run, perhaps forged.
    folder
        Where it is written for the file, after ``make_trust_folder``.
    by_sql
        Whether the law in SQL is asked as well.
    """
    for name, content in {"events": sealed.events, "scores": sealed.scores, "receipts": receipts}.items():
        (folder / f"{name}.jsonl").write_bytes(content)
    (folder / "manifest.json").write_bytes(sealed.manifest)
    ours = verify(sealed, receipts, trust_folder=folder / "none")
    alone = clv_verify.verify(folder)
    package = {name: ours.checks[name].verdict.value.replace("not_applicable", "pass") for name in SHARED}
    file = {name: "fail" if alone["checks"][name] else "pass" for name in SHARED}
    if (package, ours.verified) != (file, alone["verified"]):
        why = {name: (ours.checks[name].detail, alone["checks"][name]) for name in SHARED if package[name] != file[name]}
        return f"the package says {package}, the file {file}: {why}"
    if ours.scores is None:
        if by_sql:
            _sql(sealed.events)
        return None
    if ours.manifest_hash != alone["manifest_hash"]:
        return f"the manifest is {ours.manifest_hash} to the package, {alone['manifest_hash']} to the file"
    if by_sql and not ours.scores.equals(sql_scores(sealed.events)):
        return "SQL gives other scores"
    rows = clv_verify.score_rows(clv_verify.read_evidence(sealed.events))
    return None if rows == json.loads(ours.scores.write_json()) else "the scores differ"


def _sql(events: bytes) -> None:
    """Ask SQL about evidence that the others refuse: it may refuse too, and nothing else."""
    try:
        sql_scores(events)
    except EvidenceError:
        return
