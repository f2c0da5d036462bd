"""A root folder and process numbers of its own for a process, where the kernel permits: hidden files then have no name.

Landlock keeps a process from reading files, but lets it look up any of them. This comes before it, and before any thread.
Numbers of processes and threads restart, as those of the machine would tell how many others were started.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import random
import select
import signal
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

# Library files in memory: all that agents may read is there before any of their code runs.
#
# A page of a file that one process has read answers another faster, so that which pages lie in memory would carry as many bits
# as the libraries have pages. Where all of them do, reading changes nothing. An agent has no call that drops a page, but the
# kernel may when memory is short, so it is looked at again before each process loads its agent.


_COUNTS = Path("/proc/vmstat")
# The kernel's counts of what it let go: pages and names of files to which memory was short, and all of them by command.
_LET_GO = ("pgsteal_file ", "pginodesteal ", "kswapd_inodesteal ", "slabs_scanned ", "drop_pagecache ", "drop_slab ")
_BLOCK = 1 << 17
_SAMPLE = 512  # with 95 % it finds that 0.6 % of the blocks went
_POPULATE_READ = 22  # of madvise, since Linux 5.14; the module has no name for it


@dataclass(slots=True)
class Resident:
    _paths: frozenset[Path] = frozenset()
    _blocks: list[str] = field(default_factory=list)  # a file as often as it has blocks
    _counts: tuple[int, ...] = ()
    _lock: Lock = field(default_factory=Lock)

    @property
    def has_started(self) -> bool:
        return self._lock.locked() or bool(self._blocks)

    def hold(self, paths: Iterable[Path]) -> int:
        """Read files, and folders with their content, into memory, and return how many files had to be read.

        It is 0 where they were read before, the kernel has counted no eviction since, and a sample is still there: some
        evictions are not counted, such as those of a virtual machine's host.
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
    """Return the kernel's eviction counts; empty where it does not tell them."""
    try:
        lines = _COUNTS.read_text(encoding="ascii").splitlines()
    except OSError:
        return ()
    return tuple(int(line.split()[1]) for line in lines if line.startswith(_LET_GO))


def _files(path: Path) -> Iterator[str]:
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
    """Read a file into memory and return its number of blocks; 0 if it can't be read."""
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
    """Return whether some block of a file is in memory; False for a device or a missing file."""
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


_NEW_USERS = 0x10000000
_NEW = 0x00020000 | 0x04000000 | 0x08000000 | 0x20000000  # mounts, names of the machine, shared memory, processes
_SAFE = 2 | 4 | 8  # of a mount: no powers by files, no devices, no programs
_END_WITH_PARENT = 1
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000
_DETACH = 2
_AT_RECURSIVE, _READ_ONLY, _MOUNT_SETATTR = 0x8000, 1, 442
_MACHINE = Path("/proc")  # what it tells of the machine changes with what others do there, so a copy is left
_NAME = b"agent"  # of the machine
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}  # the C library has no name for it


def enter_root(root: Path, visible: Iterable[Path], hidden: Iterable[Path] = ()) -> bool:
    """Leave this process only some folders and files, read-only at their own places; False where the kernel does not permit it.

    Steps: 1. mount this namespace's own process information, and an empty root; 2. bind the visible paths in it, and cover the
    hidden ones; 3. make all of it read-only; 4. enter it and unmount the old one.
    """
    number = _PIVOT_ROOT.get(platform.machine())
    if number is None:
        return False
    libc = ctypes.CDLL("libc.so.6", use_errno=True)
    try:
        _mount(libc, "none", Path("/"), None, _RECURSIVE | _PRIVATE)
        with suppress(OSError):  # a container may cover parts of its own, and then none can be mounted
            _mount(libc, "proc", Path("/proc"), "proc", _SAFE)
        _mount(libc, "none", root, "tmpfs", 0)
        bound: set[Path] = set()
        for path in sorted(visible):
            if path.exists():
                _bind(libc, path, root, bound)
        here = Path.cwd()  # files to read may be named from it
        if bound.isdisjoint([here, *here.parents]):
            _inside(root, here).mkdir(parents=True, exist_ok=True)
        for folder in hidden:
            if _inside(root, folder).is_dir():
                _mount(libc, "none", _inside(root, folder), "tmpfs", 0)
        attributes = struct.pack("QQQQ", _READ_ONLY, 0, 0, 0)
        _called(libc.syscall(_MOUNT_SETATTR, -100, os.fsencode(root), _AT_RECURSIVE, attributes, ctypes.c_size_t(32)))
        os.chdir(root)
        _called(libc.syscall(number, b".", b"."))
        _called(libc.umount2(b".", _DETACH))
        os.chdir(here)
    except OSError:
        return False
    return True


def take_namespaces() -> int | None:
    """Continue as the first process of new namespaces, while the caller waits and ends with it.

    Return the caller's number of this process; ``None`` where the kernel does not permit it, and this is still the caller.
    """
    import resource  # here, as the root changes for both

    libc = ctypes.CDLL("libc.so.6", use_errno=True)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        _unshare(libc)
    except OSError:
        return None
    libc.sethostname(_NAME, ctypes.c_size_t(len(_NAME)))  # permitted, as the name space is its own
    ends, lives = os.pipe()
    if child := os.fork():
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            _wait_for(child, lives, most)
        finally:
            os._exit(1)
    libc.prctl(_END_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    os.close(lives)
    gone = select.poll()
    gone.register(ends, select.POLLHUP)
    if gone.poll(0):
        os._exit(1)
    os.close(ends)
    return int(Path("/proc/self").readlink().name)  # mounted where this process has the number that it has outside


def _unshare(libc: ctypes.CDLL) -> None:
    """Take namespaces; an ordinary user first becomes root of a user namespace of its own."""
    if libc.unshare(_NEW) == 0:
        return
    user, group = os.geteuid(), os.getegid()
    _called(libc.unshare(_NEW_USERS | _NEW))
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path("/proc/self", name).write_text(text, encoding="ascii")


def _wait_for(child: int, lives: int, most: int) -> None:
    """Close everything except the child's handle, and end with the child's status; the kernel permits no thread here."""
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    os.closerange(0, lives)
    os.closerange(lives + 1, most)
    while os.getppid() == parent:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            if code < 0:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                os.kill(os.getpid(), -code)
            os._exit(code)
        signal.sigtimedwait({signal.SIGCHLD}, 1)


def _bind(libc: ctypes.CDLL, path: Path, root: Path, bound: set[Path]) -> None:
    if not bound.isdisjoint([path, *path.parents]):
        return
    place = _inside(root, path)
    link = next((part for part in (*reversed(path.parents), path) if part.is_symlink()), None)
    if link is not None:
        _make_link(link, root)
        target = os.path.normpath(link.parent / link.readlink())
        _bind(libc, Path(target) / path.relative_to(link), root, bound)
    elif path.is_dir():
        place.mkdir(parents=True, exist_ok=True)
        # The folder that the root is in, without anything mounted there.
        _mount(libc, str(path), place, None, _BIND if path in root.parents else _BIND | _RECURSIVE)
        bound.add(path)
    elif path.parent == _MACHINE:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(path.read_bytes())
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
        _mount(libc, str(path), place, None, _BIND)
        bound.add(path)


def _make_link(link: Path, root: Path) -> None:
    place = _inside(root, link)
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.is_symlink():
        place.symlink_to(link.readlink())


def _inside(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def _mount(libc: ctypes.CDLL, source: str, place: Path, kind: str | None, flags: int) -> None:
    named = None if kind is None else kind.encode()
    _called(libc.mount(os.fsencode(source), os.fsencode(place), named, ctypes.c_ulong(flags), None))


def _called(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
