"""Verifying an upload: a process of its own reads it, with bounds; what it left is then opened here."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import orjson

from clvlab.agents.isolation.sandbox import CLVLAB
from clvlab.application.uploads.limits import UploadLimits
from clvlab.application.uploads.requests import UploadRequest
from clvlab.application.uploads.worker import ANSWER, MADE, SETTINGS
from clvlab.errors import PackError, UploadRefusedError
from clvlab.files import file_bytes_or_none, flush
from clvlab.packs.reader import Pack, load_pack

_WORKER = "clvlab.application.uploads.worker"
_MAX_ANSWER = 1 << 16
_MAX_SAID = 1_000
# What the process is told of the environment: no setting of the service, which may hold a password.
_KEPT = ("LANG", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "SYSTEMROOT", "TZ", "VIRTUAL_ENV")


@dataclass(frozen=True, slots=True)
class Verified:
    """A sound pack in the folder of its upload; ``bytes`` are those of all its files."""

    pack: Pack
    is_genuine: bool
    bytes: int


def verified(folder: Path, request: UploadRequest, limits: UploadLimits) -> Verified:
    """Make a pack of what was received in a folder, and verify it whole. Blocks.

    Raises
    ------
    UploadRefusedError
        What was given is no sound pack, or the limits are too narrow for it; the message says what was wrong.
    """
    answer = _asked(folder, request, limits)
    if answer.get("is_genuine") is None:
        raise UploadRefusedError(str(answer.get("refused"))[:_MAX_SAID])
    made = folder / MADE / (request.pack_id if request.source and request.pack_id else "pack")
    try:
        pack = load_pack(made)
    except PackError as error:
        raise UploadRefusedError("the upload's verification left no sound pack") from error
    files = [path for path in made.rglob("*") if path.is_file()]
    for path in (*files, *{path.parent for path in files}):
        flush(path)
    return Verified(pack, answer["is_genuine"] is True, sum(path.stat().st_size for path in files))


def _asked(folder: Path, request: UploadRequest, limits: UploadLimits) -> dict[str, object]:
    scratch = folder / "scratch"
    scratch.mkdir()
    settings = {
        "request": request.model_dump_json(exclude_unset=True),
        "timeout_s": limits.timeout_s,
        "memory_mb": limits.memory_mb,
        "max_owner_bytes": limits.max_owner_bytes,
        "max_ticks": limits.max_ticks,
    }
    (folder / SETTINGS).write_bytes(orjson.dumps(settings))
    process = subprocess.Popen(  # noqa: S603  this interpreter and a module of ours
        [sys.executable, "-P", "-m", _WORKER],
        cwd=folder,
        env=_environment(scratch),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        status = process.wait(limits.timeout_s)
    except subprocess.TimeoutExpired as error:
        raise UploadRefusedError(f"it could not be verified in {limits.timeout_s} s: send less at a time") from error
    finally:
        process.kill()
        process.wait()
    said = file_bytes_or_none(folder / ANSWER, _MAX_ANSWER) if status == 0 else None
    if said is None:
        raise UploadRefusedError(
            f"its verification ended with status {status}: it is damaged, or needs more than {limits.memory_mb} MB to be read"
        )
    try:
        answer = orjson.loads(said)
    except orjson.JSONDecodeError:
        answer = None
    return answer if isinstance(answer, dict) else {}


def _environment(scratch: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in _KEPT}
    named = [str(Path(name).resolve()) for name in kept.get("PYTHONPATH", "").split(os.pathsep) if name]  # it starts elsewhere
    path = os.pathsep.join([str(CLVLAB.parent), *named])
    few = {"POLARS_MAX_THREADS": "2", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return kept | few | {"PYTHONPATH": path, "TMPDIR": str(scratch.resolve()), "PYTHONDONTWRITEBYTECODE": "1"}
