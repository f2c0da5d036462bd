"""Small files that are written whole or not at all, by one process at a time."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clvlab.errors import AnchorError

__all__ = ["locked", "replace_file"]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep every other process that asks the same out of a folder."""
    try:
        import fcntl  # of POSIX systems; what only reads runs without it
    except ImportError as error:
        raise AnchorError("anchors and witnesses need a POSIX system, for its file locks") from error
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that after a crash it has the old content or the new one."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    Path(name).chmod(0o644)
    Path(name).replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name is durable too
    finally:
        os.close(folder)
