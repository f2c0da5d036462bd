"""Files: those that somebody else made are read without surprise, our own are written whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from clvlab.errors import FileError, FileLockedError

MAX_BYTES = 4 << 30  # of one file of a run, or of a bundle: some six million decisions
MAX_KEYS_BYTES = 1 << 20
_WITHOUT_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)  # a pipe would wait for who writes to it


def file_bytes(path: Path, limit: int = MAX_BYTES, most: int | None = None) -> bytes:
    """Read a file whole, or the ``most`` first bytes of it.

    What was opened is what is looked at and read, so nobody can put a pipe or a device in its place in between.

    Raises
    ------
    FileError
        No regular file, more bytes than the limit, or more than memory holds.
    OSError
        It can't be opened or read.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _WITHOUT_WAITING)) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise FileError(f"{str(path)!r} is no regular file")
        if found.st_size > limit:
            raise FileError(f"{str(path)!r} has {found.st_size:,} bytes, the limit is {limit:,}")
        try:
            return file.read(found.st_size if most is None else most)
        except MemoryError as error:
            raise FileError(f"not enough memory for the {found.st_size:,} bytes of {str(path)!r}") from error


def file_bytes_or_none(path: Path, limit: int = MAX_BYTES) -> bytes | None:
    """Read a file as ``file_bytes`` does; null if there is none."""
    try:
        return file_bytes(path, limit)
    except FileNotFoundError:
        return None


@contextmanager
def lock(folder: Path, patience_s: float | None = None) -> Iterator[None]:
    """Keep everybody else who asks the same out of a folder.

    Raises
    ------
    FileLockedError
        Somebody else held it for so long; without ``patience_s`` it is awaited.
    """
    try:
        import fcntl  # of POSIX systems; what only reads runs without it
    except ImportError as error:
        raise FileError("anchors and witnesses need a POSIX system, for its file locks") from error
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if patience_s is None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        else:
            _try_until(lambda: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB), folder, patience_s)
        yield
    finally:
        os.close(descriptor)


def _try_until(take: Callable[[], None], folder: Path, patience_s: float) -> None:
    until = time.monotonic() + patience_s
    while True:
        try:
            return take()
        except BlockingIOError as error:
            if time.monotonic() > until:
                raise FileLockedError(f"another process has held {str(folder)!r} for {patience_s:g} s") from error
        time.sleep(0.02)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that after a crash it has the old content or the new one."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    Path(name).chmod(0o644)
    Path(name).replace(path)
    flush(path.parent)  # the new name is durable too


def flush(path: Path) -> None:
    """Have a file's content, or the names in a folder, on the disk before anything says that they are there."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
