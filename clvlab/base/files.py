"""Files: strict reading of files that others wrote, and atomic writing of our own."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import BinaryIO

from clvlab.errors import FileError, FileLockedError

MAX_BYTES = 4 << 30  # of a bundle or of one file of a run: about six million decisions
MAX_KEYS_BYTES = 1 << 20
_OF_OTHERS = 0o077
_UNFINISHED = ".unfinished-by-clvlab-"
_HELD: set[Path] = set()  # unfinished files and folders of this process
_DISK_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # the system names no file at a write or flush
_RUST_FAULT = re.compile(r"\(os error ([0-9]+)\)")
_WITHOUT_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)  # opening a pipe would wait for a writer


def file_bytes(path: Path, limit: int = MAX_BYTES, most: int | None = None) -> bytes:
    """Read a regular file, or its first ``most`` bytes; ``FileError`` for another kind of file, or one beyond the limit."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _WITHOUT_WAITING)) as file:
        # The open file is checked instead of its path, so that nobody can swap in a pipe or device in between.
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise FileError(f"{str(path)!r} is not a regular file")
        if found.st_size > limit:
            raise FileError(f"{str(path)!r} has {found.st_size:,} bytes, the limit is {limit:,}")
        try:
            return file.read(found.st_size if most is None else most)
        except MemoryError as error:
            raise FileError(f"not enough memory for the {found.st_size:,} bytes of {str(path)!r}") from error


def file_bytes_or_none(path: Path, limit: int = MAX_BYTES) -> bytes | None:
    try:
        return file_bytes(path, limit)
    except FileNotFoundError:
        return None


def is_writable(path: Path) -> bool:
    """Whether this process may write a file, or make files in a folder; false on a read-only file system."""
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


@contextmanager
def lock(folder: Path, patience_s: float | None = None) -> Iterator[None]:
    """Lock a folder against other callers; ``FileLockedError`` after ``patience_s`` seconds. ``None`` waits without limit."""
    try:
        import fcntl  # POSIX only; readers work without it
    except ImportError as error:
        raise FileError("anchors and witnesses need a POSIX system, for its file locks") from error
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            if patience_s is None:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            else:
                _try_until(lambda: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB), folder, patience_s)
        except OSError as error:  # of a file system without locks; the system does not name the folder
            raise OSError(error.errno, error.strerror, str(folder)) from error
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
    """A new file or folder next to its target, locked while this process works in it.

    It is renamed or linked to its target, and ``close`` removes the rest. A killed process leaves a file or folder with a free
    lock, and the next process in the same place removes that. ``mode`` is subject to the umask. ``descriptor`` holds the lock.
    """

    def __init__(self, parent: Path, mode: int = 0o700, *, folder: bool = True) -> None:
        remove_leftovers(parent)
        while True:
            self.path = parent / f"{_UNFINISHED}{token_hex(8)}"
            if folder:
                try:
                    self.path.mkdir(mode)
                except OSError as error:
                    raise OSError(error.errno, error.strerror, str(parent)) from error
            try:
                flags = os.O_RDONLY if folder else os.O_RDWR | os.O_CREAT | os.O_EXCL
                self.descriptor = os.open(self.path, flags, mode)
            except FileNotFoundError:
                if not folder:
                    raise
                continue  # another process that just started removed it as a leftover
            with suppress(OSError):  # on a file system without locks, leftovers are not removed either
                if not _locked(self.descriptor):
                    os.close(self.descriptor)
                    continue  # removed as a leftover in the same way
            _HELD.add(self.path)
            return

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is not None:
                _name(error, self.path.parent)
        finally:
            self.close()

    def close(self) -> None:
        _HELD.discard(self.path)
        _remove(self.path)
        os.close(self.descriptor)


class ScratchFolder:
    """A folder outside of all results, which is removed when it is closed, or with this process."""

    def __init__(self, prefix: str = "clvlab-") -> None:
        self._folder = TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
        self.path = Path(self._folder.name)
        _HELD.add(self.path)

    def close(self) -> None:
        _HELD.discard(self.path)
        self._folder.cleanup()


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder outside of all results, which is removed with the context."""
    with closing(ScratchFolder()) as made:
        yield made.path


def remove_unfinished() -> None:
    """Remove the unfinished files of this process, which is about to end while other threads write them."""
    for path in list(_HELD):
        gone = path.with_name(f"{path.name}-gone")
        with suppress(OSError):  # it has just been given its name, or was removed
            path.rename(gone)  # nothing new gets into a folder that is renamed
            _remove(gone)


def remove_leftovers(folder: Path, prefix: str = _UNFINISHED) -> None:
    """Remove unfinished, unlocked files of killed processes from a folder."""
    for path in folder.glob(f"{prefix}*"):
        try:
            descriptor = os.open(path, os.O_RDONLY | _WITHOUT_WAITING | getattr(os, "O_NOFOLLOW", 0))
        except OSError:  # removed, or another user's
            continue
        with suppress(OSError):  # without locks, a file in use can't be recognised
            if _locked(descriptor):
                _remove(path)
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Lock a file without waiting; False if another process holds the lock, or has removed the file."""
    try:
        import fcntl
    except ImportError as error:
        raise OSError(errno.ENOTSUP, "no file locks") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return os.fstat(descriptor).st_nlink > 0


def _name(error: BaseException, path: Path) -> None:
    """Name the place of a disk's fault, if the system did not; libraries in Rust have errors of their own for one."""
    if isinstance(error, OSError):
        if error.errno in _DISK_FAULTS and error.filename is None:
            error.filename = str(path)
    elif (found := _RUST_FAULT.search(str(error))) and int(found[1]) in _DISK_FAULTS:
        raise OSError(int(found[1]), os.strerror(int(found[1])), str(path)) from error


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def written_file(path: Path, mode: int = 0o666, *, replace: bool = False) -> Iterator[BinaryIO]:
    """Open a new file, which gets its name when the context ends without an error. It is then whole and on the disk.

    Without ``replace``, an existing file is kept and ``FileExistsError`` raised.
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
    except OSError as error:
        _name(error, path)
        raise
    finally:
        unfinished.close()
    flush(path.parent)  # the new name is durable too


def name_file(path: Path, name: Path) -> None:
    """Name a file in one step; ``FileExistsError`` if the name is taken."""
    try:
        name.hardlink_to(path)
    except FileExistsError as error:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(name)) from error
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        path.rename(name)  # for a file system without links; the name was free a moment ago


def new_file(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a new file whole or not at all; ``FileExistsError`` if the name is taken."""
    with written_file(path, mode) as file:
        file.write(content)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that after a crash it has either the old or the new content."""
    with written_file(path, 0o644, replace=True) as file:
        file.write(content)


def keep_private(path: Path) -> Iterator[str]:
    """Take all rights of other users from a file, or from a folder and all in it; yield what was wrong, if anything was."""
    for one in (path, *(path.rglob("*") if path.is_dir() else ())):
        try:
            mode = one.lstat().st_mode
            if stat.S_ISLNK(mode) or not mode & _OF_OTHERS:
                continue
            one.chmod(stat.S_IMODE(mode) & ~_OF_OTHERS)
            yield f"{str(one)!r} had the mode {stat.S_IMODE(mode):04o}, which other users could use: now it is private"
        except FileNotFoundError:
            continue
        except OSError as error:
            yield f"{str(one)!r} has rights of other users, which can't be taken from them: {error.strerror}"


def keep_private_in(folder: Path, names: str) -> Iterator[str]:
    """Take all rights of other users from files and folders of some names; of their folder, only say what others may do.

    A user named that folder, and it may be one with other files.
    """
    mode = stat.S_IMODE(folder.stat().st_mode) if folder.is_dir() else 0
    if mode & _OF_OTHERS:
        yield f"{str(folder)!r} has the mode {mode:04o}, which others can use: chmod it to 0700, if it has no other purpose"
    for path in folder.glob(names):
        yield from keep_private(path)


def flush(path: Path) -> None:
    """Flush a file's content, or a folder's names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_all(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        flush(path)
