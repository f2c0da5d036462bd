"""A sealed run as a folder: ``events.jsonl``, ``scores.jsonl`` and ``manifest.json``.

The seal does not cover two further files. ``receipts.jsonl`` has receipts of venues. ``view.json`` has the derivation of a
derived pack; the pack's content hash is sealed. ``sha256sum events.jsonl`` prints the evidence hash and
``sha256sum manifest.json`` the manifest hash.
"""

from __future__ import annotations

from pathlib import Path

import orjson

from clvlab.base.files import MAX_BYTES, StagingPath, file_bytes_or_none, flush, flush_all
from clvlab.errors import EvidenceError, RunConflictError, UnknownRunError
from clvlab.proof.limits import PART_LIMITS, first_line
from clvlab.proof.seal import SealedRun

_FILES = ("events.jsonl", "scores.jsonl", "manifest.json")
_RECEIPTS = "receipts.jsonl"
_VIEW = "view.json"


def write_run(run: SealedRun, runs: Path, receipts: bytes = b"", view: bytes = b"") -> Path:
    """Store a run under ``runs/<run_id>``, with its receipts and view, if any; repeating changes nothing.

    Raises
    ------
    RunConflictError
        A run of this id is stored with other bytes.
    """
    target = runs / run.run_id
    if target.exists():
        return _same(run, target)
    runs.mkdir(parents=True, exist_ok=True)
    with StagingPath(runs, 0o755) as unfinished:
        for name, content in run_files(run, receipts, view).items():
            (unfinished / name).write_bytes(content)
        flush_all(unfinished)
        try:
            unfinished.rename(target)
        except OSError:
            if target.exists():  # another process was first
                return _same(run, target)
            raise
    flush(runs)
    return target


def run_files(run: SealedRun, receipts: bytes = b"", view: bytes = b"") -> dict[str, bytes]:
    """Return the files of a run by name, the manifest last."""
    optional = {name: content for name, content in ((_RECEIPTS, receipts), (_VIEW, view)) if content}
    return optional | dict(zip(_FILES, (run.events, run.scores, run.manifest), strict=True))


def _same(run: SealedRun, target: Path) -> Path:
    stored = read_run(target)
    if (stored.events, stored.scores, stored.manifest) != (run.events, run.scores, run.manifest):
        there, here = held_of(stored.events), held_of(run.events)
        why = "" if there == here else f"there the system restricted {there} of its agents' processes, and here {here}"
        raise RunConflictError(run.run_id, stored.manifest_hash, run.manifest_hash, why)
    return target


def held_of(events: bytes) -> str:
    """Return how the system confined agents' processes: ``isolation`` of RUN_STARTED, which the run id does not cover."""
    try:
        stated = orjson.loads(first_line(events))["payload"].get("isolation", [])
        names = sorted({str(name) for one in stated for name in one["held"]})
    except (EvidenceError, orjson.JSONDecodeError, AttributeError, KeyError, TypeError):
        return "what can't be read"
    return ", ".join(names) or "nothing"


def read_run(path: Path) -> SealedRun:
    """Read a stored run, unverified; a missing ``scores.jsonl`` reads as empty.

    The manifest states the run id, so a folder may have any name.
    """
    events, scores, manifest = (_file_of(path, name) if path.is_dir() else None for name in _FILES)
    if events is None or manifest is None:
        raise UnknownRunError(f"no sealed run at {str(path)!r}: a run folder holds {', '.join(_FILES)}{_hint(path)}")
    run_id = _stated_run_id(manifest) or path.resolve().name
    return SealedRun(run_id, events, scores or b"", manifest)


def _file_of(run: Path, name: str) -> bytes | None:
    return file_bytes_or_none(run / name, PART_LIMITS.get(name, MAX_BYTES))


def _hint(path: Path) -> str:
    if path.is_file():
        return "; that is a file: unpack an archive first, and name the folder"
    if not path.is_dir():
        return ""
    if (path / "datapackage.json").is_file():
        return "; that is the folder of a pack: clvlab.open_pack(...) opens it"
    below = sorted(child.name for child in path.iterdir() if (child / _FILES[0]).is_file())[:3]
    return f"; runs lie one level below: {', '.join(below)}" if below else ""


def read_receipts(path: Path) -> bytes:
    return file_bytes_or_none(path / _RECEIPTS) or b""


def read_view(path: Path) -> bytes:
    """Read the view file of a stored run; empty unless its pack is derived."""
    return file_bytes_or_none(path / _VIEW) or b"" if path.is_dir() else b""


def _stated_run_id(manifest: bytes) -> str | None:
    try:
        stated = orjson.loads(manifest)
    except orjson.JSONDecodeError:  # verification reports the damage; here only the name is missing
        return None
    run_id = stated.get("run_id") if isinstance(stated, dict) else None
    return run_id if isinstance(run_id, str) else None
