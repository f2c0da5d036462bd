"""Folders that are not finished: each is held by the process that works in it, and is gone when that is done with it."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from clvlab.errors import FileError

_PREFIX = ".unfinished-"


class Unfinished:
    """A new folder among the uploads, locked while this process has it open; nothing but ``close`` removes it."""

    def __init__(self, uploads: Path) -> None:
        while True:
            self.path = uploads / f"{_PREFIX}{token_hex(8)}"
            self.path.mkdir(mode=0o700)
            held = _held(self.path)
            if held is not None:  # else another process, which starts, took it for a leftover in between
                self._descriptor = held
                return

    def close(self) -> None:
        """Remove it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._descriptor)


def remove_leftovers(uploads: Path) -> None:
    """Remove the folders of processes that died."""
    for path in uploads.glob(f"{_PREFIX}*"):
        held = _held(path)
        if held is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(held)


def _held(folder: Path) -> int | None:
    """Lock a folder without waiting; null where it is gone, or another process holds it."""
    try:
        import fcntl  # of POSIX systems; what only reads runs without it
    except ImportError as error:
        raise FileError("uploads need a POSIX system, for its file locks") from error
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink:  # not removed in between
            return descriptor
    os.close(descriptor)
    return None
