"""A root folder of a process's own, where the kernel permits one: what is not in it has no name, size or time to look up.

Landlock keeps a process from reading files, and lets it look at any of them. This comes before it, and before any thread.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Iterable
from pathlib import Path

_NEW_USERS, _NEW_MOUNTS = 0x10000000, 0x00020000
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000
_DETACH = 2
_AT_RECURSIVE, _READ_ONLY, _MOUNT_SETATTR = 0x8000, 1, 442
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}  # the C library has no name for it


def enter_root(root: Path, visible: Iterable[Path], hidden: Iterable[Path] = ()) -> bool:
    """Leave this process nothing but some folders and files, at their own places, not to be written to.

    Steps: 1. take mounts of one's own; 2. mount an empty root; 3. bind what is visible in it, and cover what is hidden;
    4. make all of it read-only; 5. enter it and let go of the old one.

    Parameters
    ----------
    root
        An empty folder to mount it on.
    visible, hidden
        Folders and files to keep, and folders in them to cover; those that do not exist are passed over.

    Returns
    -------
    bool
        Whether it holds. Where the kernel does not permit it, everything stays where it was.
    """
    number = _PIVOT_ROOT.get(platform.machine())
    if number is None:
        return False
    libc = ctypes.CDLL("libc.so.6", use_errno=True)
    try:
        _take_mounts(libc)
        _mount(libc, "none", Path("/"), None, _RECURSIVE | _PRIVATE)
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


def _take_mounts(libc: ctypes.CDLL) -> None:
    """Unshare the mounts; whoever is not root may do so as root of users of its own, who are itself alone."""
    if libc.unshare(_NEW_MOUNTS) == 0:
        return
    user, group = os.geteuid(), os.getegid()
    _called(libc.unshare(_NEW_USERS | _NEW_MOUNTS))
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path("/proc/self", name).write_text(text, encoding="ascii")


def _bind(libc: ctypes.CDLL, path: Path, root: Path, bound: set[Path]) -> None:
    """Make the links that lead to a path, and bind what they lead to."""
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
        # Of the folder that the root lies in without what is mounted there.
        _mount(libc, str(path), place, None, _BIND if path in root.parents else _BIND | _RECURSIVE)
        bound.add(path)
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
