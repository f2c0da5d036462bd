"""A sealed run as a folder: ``events.jsonl``, ``scores.jsonl`` and ``manifest.json``.

The seal does not cover two further files. ``receipts.jsonl`` has receipts of venues. ``view.json`` has the derivation of a
derived pack; the pack's content hash is sealed. ``sha256sum events.jsonl`` prints the evidence hash and
``sha256sum manifest.json`` the manifest hash.
"""

from __future__ import annotations

from pathlib import Path

import orjson

from clvlab.base.files import MAX_BYTES, StagingPath, file_bytes, file_bytes_or_none, flush, flush_all
from clvlab.errors import EvidenceError, RunConflictError, UnknownRunError
from clvlab.proof.limits import PART_LIMITS, first_line
from clvlab.proof.seal import SealedRun

SEALED_FILES = ("events.jsonl", "scores.jsonl", "manifest.json")
_RECEIPTS = "receipts.jsonl"
_VIEW = "view.json"
UNSEALED_FILES = (_RECEIPTS, _VIEW)


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
    return optional | dict(zip(SEALED_FILES, (run.events, run.scores, run.manifest), strict=True))


def _same(run: SealedRun, target: Path) -> Path:
    stored = read_run(target)
    if (stored.events, stored.scores, stored.manifest) != (run.events, run.scores, run.manifest):
        there, here = held_of(stored.events), held_of(run.events)
        why = "" if there == here else f"there the system restricted {there} of its agents' processes, and here {here}"
        if (stored.events, stored.scores) == (run.events, run.scores):
            why = "only the manifests differ, as by a place in a run log: write this one to another folder"
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
    events, scores, manifest = (_file_of(path, name) if path.is_dir() else None for name in SEALED_FILES)
    if events is None or manifest is None:
        raise not_a_run(path)
    run_id = _stated_run_id(manifest) or path.resolve().name
    return SealedRun(run_id, events, scores or b"", manifest)


def _file_of(run: Path, name: str) -> bytes | None:
    return file_bytes_or_none(run / name, PART_LIMITS.get(name, MAX_BYTES))


def not_a_run(path: Path) -> UnknownRunError:
    """Return the error for a file or folder that is no run; it says what was found instead, as far as that can be told."""
    kind = _kind_of_folder(path) if path.is_dir() else _kind_of_file(path)
    return UnknownRunError(
        f"{str(path)!r:.300} is not a run: {kind}. A run is a bundle, or a folder with {', '.join(SEALED_FILES)}"
    )


def _kind_of_folder(path: Path) -> str:
    if (path / "datapackage.json").is_file():
        return "it is the folder of a pack, which clvlab.open_pack(...) opens and the command 'packs verify' checks"
    missing = [name for name in (SEALED_FILES[0], SEALED_FILES[2]) if not (path / name).is_file()]
    if len(missing) == 1:
        return f"{missing[0]} is missing in the folder"
    if not any(path.iterdir()):
        return "the folder is empty"
    below = sorted(child.name for child in path.iterdir() if (child / SEALED_FILES[0]).is_file())[:3]
    return f"the folder holds runs, such as {', '.join(below)}: name one of them" if below else "the folder holds other files"


_ASK = "without the bytes of its run: ask its sender for the bundle"
_ADVICE = {
    "an image": _ASK,
    "a web page": _ASK,
    "a database": "which the command 'log audit' checks if it is a run log",
    "an archive, to be unpacked first": "with the folder of the run to be named then",
}
_HEAD_BYTES = 1 << 20


def _kind_of_file(path: Path) -> str:
    """Say what a file begins like."""
    from clvlab.proof.clv_verify import no_run

    if not path.exists():
        return "there is no such file or folder"
    if not path.is_file():
        return "it is neither a file nor a folder"
    if path.name in (*SEALED_FILES, *UNSEALED_FILES) and all(
        (path.parent / name).is_file() for name in (SEALED_FILES[0], SEALED_FILES[2])
    ):
        return f"it is one file of a run folder: name the folder {str(path.parent)!r:.300}"
    kind = no_run(file_bytes(path, most=_HEAD_BYTES), path.stat().st_size) or "a file of another kind"
    return ", ".join(filter(None, (f"it is {kind}", _ADVICE.get(kind))))


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
