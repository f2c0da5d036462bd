"""Library files in memory: all that agents may read lies there before any of their code runs.

A page of a file that one process has read answers another faster, so that which pages lie in memory would carry as many bits as
the libraries have pages. Where all of them do, reading changes nothing. An agent has no call that drops a page, but the kernel
may when memory is short, so it is looked at again before each process loads its agent.
"""

from __future__ import annotations

import mmap
import os
import random
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

_COUNTS = Path("/proc/vmstat")
# The kernel's counts of what it let go: pages and names of files to which memory was short, and all of them by command.
_LET_GO = ("pgsteal_file ", "pginodesteal ", "kswapd_inodesteal ", "slabs_scanned ", "drop_pagecache ", "drop_slab ")
_BLOCK = 1 << 17
_SAMPLE = 512  # with 95 % it finds that 0.6 % of the blocks went
_POPULATE_READ = 22  # of madvise, since Linux 5.14; the module has no name for it


@dataclass(slots=True)
class Resident:
    """Files that lie in memory, as far as this process knows."""

    _paths: frozenset[Path] = frozenset()
    _blocks: list[str] = field(default_factory=list)  # a file as often as it has blocks
    _counts: tuple[int, ...] = ()
    _lock: Lock = field(default_factory=Lock)

    @property
    def begun(self) -> bool:
        """Whether anything has been brought in, or is being."""
        return self._lock.locked() or bool(self._blocks)

    def hold(self, paths: Iterable[Path]) -> int:
        """Bring files, and folders with all that is in them, into memory, and return how many files had to be read.

        None has to where they were read before, the kernel counts nothing that it let go since, and a sample is still there:
        some let go uncounted, as of a virtual machine whose host takes memory back.
        """
        if sys.platform != "linux":
            return 0
        with self._lock:
            due, counts = frozenset(paths), _let_go()
            if due <= self._paths and counts and counts == self._counts and self._is_sampled():
                return 0
            self._counts = counts  # from before: what goes meanwhile is read the next time
            self._paths = due if counts else frozenset()
            self._blocks.clear()
            number = 0
            for name in {name for path in due for name in _files(path)}:
                blocks = _read(name)
                self._blocks += [name] * blocks
                number += blocks > 0
            return number

    def _is_sampled(self) -> bool:
        return all(_is_resident(name) for name in random.sample(self._blocks, min(_SAMPLE, len(self._blocks))))


def _let_go() -> tuple[int, ...]:
    """Return the kernel's counts, none where it does not tell them."""
    try:
        lines = _COUNTS.read_text(encoding="ascii").splitlines()
    except OSError:
        return ()
    return tuple(int(line.split()[1]) for line in lines if line.startswith(_LET_GO))


def _files(path: Path) -> Iterator[str]:
    """Name a file, or all in a folder; listing brings in the names themselves."""
    if not path.is_dir():
        yield os.fspath(path)
        return
    folders = [os.fspath(path)]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif entry.is_file():
                        yield entry.path
        except (FileNotFoundError, PermissionError):  # what is not to be read here is not in a process of an agent
            continue


def _read(name: str) -> int:
    """Bring a file into memory and return how many blocks it has; one that is gone or can't be read has none."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return 0
    try:
        if len(os.read(file, _BLOCK)) < _BLOCK:
            return 1
        with mmap.mmap(file, 0, prot=mmap.PROT_READ) as mapped:
            try:
                mapped.madvise(_POPULATE_READ)
            except OSError:  # an older kernel
                while os.read(file, _BLOCK):
                    pass
            return -(-len(mapped) // _BLOCK)
    except (OSError, ValueError):
        return 0
    finally:
        os.close(file)


def _is_resident(name: str) -> bool:
    """Tell whether some block of a file can be read without a wait for the disk; a device or a file that is gone has none."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return True
    try:
        size = os.fstat(file).st_size
        start = random.randrange(0, max(1, size), _BLOCK)  # noqa: S311  no agent sees what it draws
        length = min(_BLOCK, size - start)
        return length <= 0 or os.preadv(file, [bytearray(length)], start, os.RWF_NOWAIT) == length
    except BlockingIOError:
        return False
    except OSError:  # a file system that can't tell
        return True
    finally:
        os.close(file)
