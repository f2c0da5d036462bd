"""The process that verifies one upload, confined to the folder of that upload.

It runs libraries on untrusted bytes, so that their faults stay in this process. The parent reads only a sentence or a flag from
it, and checks its files.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from clvlab.agents.isolation.sandbox import end_with, limit_memory, lock_in

SETTINGS = Path("settings.json")
MADE = Path("made")
ANSWER = Path("answer.json")
_MAX_REASON = 1_000
_BOOKS_A_TICK = 20  # maximal rows of books per row of ticks
_LADDERS_A_TICK = 50  # maximal rows of ladders per row of ticks


def main() -> None:
    """Verify the upload in this folder by its settings, and write the result.

    Steps: 1. limit and confine the process; 2. load libraries; 3. unpack or import; 4. verify; 5. answer.
    """
    settings = json.loads(SETTINGS.read_bytes())
    folder = Path.cwd()
    _limit(settings)
    lock_in([], network=False, writable=[str(folder)])
    end_with(os.getppid())
    try:
        answer = _verify(settings)
    except MemoryError:
        answer = {"refused": f"it needs more than {settings['memory_mb']} MB to be read"}
    except BaseException as error:  # noqa: BLE001  the boundary of a process: any error means that the pack is not sound
        answer = {"refused": _sentence(error).replace(str(folder), "").replace(f"{MADE}/pack/", "")}
    ANSWER.write_text(json.dumps(answer), encoding="utf-8")


def _limit(settings: dict[str, Any]) -> None:
    limit_memory(settings["memory_mb"])
    if sys.platform == "win32":
        return
    import resource

    seconds = settings["timeout_s"] * 2  # CPU time of two threads
    for which, bound in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_FSIZE, settings["max_owner_bytes"])):
        hard = resource.getrlimit(which)[1]
        bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(which, (bound, bound))


def _sentence(error: BaseException) -> str:
    from clvlab.errors import ClvlabError

    reason = str(error) if isinstance(error, ClvlabError) else f"it can't be read: {type(error).__name__}"
    return reason[:_MAX_REASON].encode(errors="replace").decode()


def _verify(settings: dict[str, Any]) -> dict[str, Any]:
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401

    from clvlab.arena.uploads.archive import unpack
    from clvlab.arena.uploads.requests import UploadRequest
    from clvlab.errors import UploadRefusedError
    from clvlab.packs.verification import verify_pack
    from clvlab.sources.archives import is_archive
    from clvlab.sources.importer import import_source

    request = UploadRequest.model_validate_json(settings["request"])
    source = Path("given", request.stored_name)
    if request.source is None:
        folder = MADE / "pack"
        unpack(source, folder, settings["max_owner_bytes"])
    else:
        if is_archive(source) and request.source != "betfair":  # its reader unpacks a tar while reading, without files
            raise UploadRefusedError(f"{request.stored_name!r} is an archive or compressed with xz: send the source file in it")
        folder = MADE / str(request.pack_id)
        import_source(request.source, [source], folder, request.options())
    check_shape(folder, request.pack_id, settings["max_ticks"])
    pack = verify_pack(folder)
    return {"is_genuine": pack.is_genuine}


def check_shape(folder: Path, pack_id: str | None, max_ticks: int) -> None:
    """Refuse another id, files that no hash covers, and too many ticks, before the ticks are read."""
    import pyarrow.parquet as pq

    from clvlab.arena.uploads.archive import MAX_DESCRIPTOR_BYTES
    from clvlab.errors import PackFormatError, UploadRefusedError
    from clvlab.packs.manifest import BOOKS_FILE, DESCRIPTOR, LADDERS_FILE, TICKS_FILE, pack_files, read_manifest
    from clvlab.packs.rows import unreadable

    if not (folder / DESCRIPTOR).is_file():
        raise UploadRefusedError(f"the archive has no {DESCRIPTOR}")
    if (folder / DESCRIPTOR).stat().st_size > MAX_DESCRIPTOR_BYTES:
        raise UploadRefusedError(f"the pack's {DESCRIPTOR} would have more than {MAX_DESCRIPTOR_BYTES:,} bytes")
    manifest = read_manifest(folder)[0]
    if pack_id not in (None, manifest.pack_id):
        raise UploadRefusedError(f"the archive holds the pack {manifest.pack_id!r}, and pack_id says {pack_id!r}")
    present = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    named = pack_files(manifest)
    strays = sorted(present - {DESCRIPTOR, *named})
    if strays:
        raise UploadRefusedError(f"{strays[0]!r} is not named in {DESCRIPTOR}, so no hash covers it: leave it out")
    limits = {TICKS_FILE: 1, BOOKS_FILE: _BOOKS_A_TICK, LADDERS_FILE: _LADDERS_A_TICK}
    for name, most in ((name, rows_a_tick * max_ticks) for name, rows_a_tick in limits.items()):
        if name not in named:
            continue
        if not (folder / name).is_file():
            raise PackFormatError(f"pack {manifest.pack_id!r} has no {name}")
        try:
            rows = pq.read_metadata(folder / name).num_rows
        except unreadable() as error:
            raise PackFormatError(f"{name} can't be read as Parquet: {str(error).splitlines()[0]}") from error
        if rows > most:
            raise UploadRefusedError(f"{name} has {rows:,} rows, the limit is {most:,}")


if __name__ == "__main__":
    main()
