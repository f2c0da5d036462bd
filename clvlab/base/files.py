"""Files: those that somebody else made are read without surprise, our own are written whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from clvlab.errors import FileError, FileLockedError

MAX_BYTES = 4 << 30  # of one file of a run, or of a bundle: some six million decisions
MAX_KEYS_BYTES = 1 << 20
_UNFINISHED = ".unfinished-by-clvlab-"
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


class StagingPath:
    """A new file or folder beside what is to come of it, locked while this process works in it.

    What it becomes is renamed away from it, or linked; ``close`` removes what is left. Of a process that was killed a file or
    folder stays whose lock is free: the next one in the same place removes it.

    Parameters
    ----------
    parent
        Folder that it is made in.
    mode
        Permissions, less those that the process's umask takes away.
    folder
        Make a folder, not a file.

    Attributes
    ----------
    path, descriptor
        Where it is, and what holds its lock.
    """

    def __init__(self, parent: Path, mode: int = 0o700, *, folder: bool = True) -> None:
        remove_leftovers(parent)
        while True:
            self.path = parent / f"{_UNFINISHED}{token_hex(8)}"
            if folder:
                self.path.mkdir(mode)
            try:
                flags = os.O_RDONLY if folder else os.O_RDWR | os.O_CREAT | os.O_EXCL
                self.descriptor = os.open(self.path, flags, mode)
            except FileNotFoundError:
                if not folder:
                    raise
                continue  # another process, which began, took it for a leftover in between
            with suppress(OSError):  # a file system without locks: then nobody removes leftovers either
                if not _locked(self.descriptor):
                    os.close(self.descriptor)
                    continue  # likewise
            return

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove it with all that is in it, if it is still there."""
        _remove(self.path)
        os.close(self.descriptor)


def remove_leftovers(folder: Path, prefix: str = _UNFINISHED) -> None:
    """Remove what processes that were killed left unfinished in a folder; what a process still holds is let be."""
    for path in folder.glob(f"{prefix}*"):
        try:
            descriptor = os.open(path, os.O_RDONLY | _WITHOUT_WAITING | getattr(os, "O_NOFOLLOW", 0))
        except OSError:  # gone, or not ours
            continue
        with suppress(OSError):  # without a lock nothing tells whether it is held
            if _locked(descriptor):
                _remove(path)
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Lock without waiting; False where another process holds it, or has removed it."""
    try:
        import fcntl
    except ImportError as error:
        raise OSError(errno.ENOTSUP, "no file locks") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return os.fstat(descriptor).st_nlink > 0


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def written_file(path: Path, mode: int = 0o666, *, replace: bool = False) -> Iterator[BinaryIO]:
    """Open a new file that gets its name when the context ends without an error: whole, and on the disk.

    Parameters
    ----------
    path
        Its name.
    mode
        Permissions, less those that the process's umask takes away.
    replace
        Put it in the place of a file that is there; else it is an error.

    Raises
    ------
    FileExistsError
        There is something of that name, which was let be.
    OSError
        It can't be written; nothing has changed.
    """
    if not replace and os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    try:
        unfinished = StagingPath(path.parent, mode, folder=False)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    try:
        with os.fdopen(unfinished.descriptor, "r+b", closefd=False) as file:
            yield file
            file.flush()
            os.fsync(unfinished.descriptor)
        if replace:
            unfinished.path.replace(path)
        else:
            name_file(unfinished.path, path)
    finally:
        unfinished.close()
    flush(path.parent)  # the new name is durable too


def name_file(path: Path, name: Path) -> None:
    """Give a file another name, in one step that fails where there is one.

    Raises
    ------
    FileExistsError
    """
    try:
        name.hardlink_to(path)
    except FileExistsError as error:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(name)) from error
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        path.rename(name)  # on a file system without links; nobody had the name a moment ago


def new_file(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a file that is there whole or not at all, and never in the place of another.

    Raises
    ------
    FileExistsError
    """
    with written_file(path, mode) as file:
        file.write(content)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that after a crash it has the old content or the new one."""
    with written_file(path, 0o644, replace=True) as file:
        file.write(content)


def flush(path: Path) -> None:
    """Have a file's content, or the names in a folder, on the disk before anything says that they are there."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_all(folder: Path) -> None:
    """Flush a folder, and all files and folders in it."""
    for path in (*folder.rglob("*"), folder):
        flush(path)
