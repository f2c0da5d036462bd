"""Locking a process in: it reads Python's own files and what it was allowed, writes nothing, connects nowhere, starts nothing.

Landlock (the kernel's) rules over files; a seccomp filter forbids what Landlock lets through: sockets, metadata, other
processes, and the memory that processes share by a key. Both bind the thread that applies them and those that it starts, so
they come before any library that has threads.
"""

from __future__ import annotations

import ctypes.util
import errno
import os
import site
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["CLVLAB", "can_lock_in", "limit_memory", "lock_in", "python_folders"]

CLVLAB = Path(__file__).resolve().parents[2]
_BUNDLED_PACKS = CLVLAB / "packs" / "bundled"  # they hold the closes of a run
_SYSTEM = (
    "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo",
    "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu", "/sys/fs/cgroup", "/dev/null", "/dev/urandom",
)  # fmt: skip
_NETWORK = ("/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf", "/run/systemd/resolve", "/etc/ssl", "/etc/pki")
_TRUNCATE_ABI = 3  # older kernels let a locked-in process empty files
_CLONE_THREAD = 0x00010000
# Denied to every agent. A call that this libseccomp does not know by name has a number, the same on every machine.
_DENIED: tuple[str | int, ...] = (
    # other processes, programs, and what a process may do to itself to get around its limits
    "execve", "execveat", "fork", "vfork", "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_open", "pidfd_getfd",
    "pidfd_send_signal", "kill", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "setrlimit", "setpriority", "ioprio_set",
    "unshare", "setns", "kcmp",
    # metadata of files
    "chmod", "fchmod", "fchmodat", 452, "chown", "fchown", "lchown", "fchownat", "utime", "utimes", "utimensat", "futimesat",
    "setxattr", "lsetxattr", "fsetxattr", 463, "removexattr", "lremovexattr", "fremovexattr", 466, 469, "flock",
    # memory and queues that outlive a process
    "shmget", "shmat", "shmctl", "msgget", "msgsnd", "msgrcv", "msgctl", "semget", "semop", "semtimedop", "semctl", "mq_open",
    "mq_unlink", "add_key", "request_key", "keyctl",
    # the machine, and ways around a filter of calls
    "io_uring_setup", "io_uring_enter", "io_uring_register", "bpf", "perf_event_open", "userfaultfd", "open_by_handle_at",
    "mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen", "fsmount", "fsconfig", 442, "sethostname",
    "setdomainname", "settimeofday", "adjtimex", "clock_settime", "clock_adjtime", "reboot", "swapon", "swapoff", "syslog",
    "init_module", "finit_module", "delete_module", "kexec_load", "acct", "quotactl",
)  # fmt: skip


def lock_in(readable: Sequence[str], *, network: bool) -> bool:
    """Lock this process in for good.

    Parameters
    ----------
    readable
        Folders and files beside Python's own that may be read.
    network
        Whether sockets may be made.

    Returns
    -------
    bool
        Whether all of it holds. Where the kernel or a library lacks a part, what can be applied is.
    """
    if sys.platform != "linux":
        return False
    with _libraries_by_name():
        calls = _calls_locked(network=network)  # first: loading its library reads files
        return _files_locked([*readable, *(_NETWORK if network else ())], network=network) and calls


@contextmanager
def _libraries_by_name() -> Iterator[None]:
    """Name the system's libraries to those that load them, who would run a compiler to find them: 0.1 s a process."""
    found = ctypes.util.find_library
    names = {"c": "libc.so.6", "seccomp": "libseccomp.so.2"}
    ctypes.util.find_library = lambda name: names.get(name)
    try:
        yield
    finally:
        ctypes.util.find_library = found


def can_lock_in() -> bool:
    """Whether this system has what ``lock_in`` needs; nothing is locked."""
    if sys.platform != "linux":
        return False
    try:
        with _libraries_by_name():
            import py_landlock
            import pyseccomp  # noqa: F401  it loads the system's library
    except (ImportError, RuntimeError, OSError):
        return False
    try:
        with _libraries_by_name():
            return bool(py_landlock.get_abi_version() >= _TRUNCATE_ABI)
    except py_landlock.LandlockError:
        return False


def limit_memory(megabytes: int) -> None:
    """Bound the memory that this process may write to; mapped files do not count. Where the system has no such bound, none."""
    if sys.platform != "linux":
        return
    import resource

    for which, bound in ((resource.RLIMIT_DATA, megabytes << 20), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(which)[1]
        bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(which, (bound, bound))


def _files_locked(readable: Sequence[str], *, network: bool) -> bool:
    try:
        import py_landlock
    except ImportError:
        return False
    guard = py_landlock.Landlock(strict=False)
    try:
        if guard.abi_version < _TRUNCATE_ABI:
            return False
        for path in sorted({*_own_files(), *map(Path, readable)}):
            if path.is_dir():
                guard.allow_read(path)
            elif path.exists():
                guard.add_path_rule(path, access=py_landlock.AccessFs.READ_FILE)  # a rule on a file may not name directories
        for folder in _listed():
            guard.add_path_rule(folder, access=py_landlock.AccessFs.READ_DIR)
        if network:
            guard.allow_all_network()
        guard.apply()
    except (py_landlock.LandlockError, OSError):
        return False
    return True


def python_folders() -> set[Path]:
    """Name the folders that Python's own modules and its libraries lie in."""
    paths = sysconfig.get_paths()
    named = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")] + site.getsitepackages()
    return {path for text in (*named, site.getusersitepackages()) for path in (Path(text), Path(text).resolve())}


def _roots() -> set[Path]:
    return {path.resolve() for path in (*python_folders(), CLVLAB, *map(Path, _SYSTEM))}


def _own_files() -> Iterator[Path]:
    """Name the folders and files that Python needs, and no other: packs lie between them."""
    for root in _roots():
        if root.exists():
            yield from _without(root, _BUNDLED_PACKS)


def _listed() -> Iterator[Path]:
    """Name the folders around the packs, which imports list; that reads nothing in them."""
    roots = _roots()
    return (folder for folder in _BUNDLED_PACKS.parents if any(folder == root or root in folder.parents for root in roots))


def _without(folder: Path, hole: Path) -> Iterator[Path]:
    """Cover a folder but for one inside it."""
    if folder == hole:
        return
    if folder not in hole.parents:
        yield folder
        return
    for child in folder.iterdir():
        yield from _without(child, hole)


def _calls_locked(*, network: bool) -> bool:
    try:
        import pyseccomp
    except (ImportError, RuntimeError, OSError):
        return False
    refused = pyseccomp.ERRNO(errno.EPERM)
    denied = [*_DENIED, *(() if network else ("socket",))]
    try:
        calls = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
        for call in denied:
            if isinstance(call, int) or pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, call) >= 0:
                calls.add_rule(refused, call)
        # A thread is a clone that shares its process; clone3 hides its flags, and the C library does without it.
        calls.add_rule(refused, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, _CLONE_THREAD, 0))
        calls.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
        calls.add_rule(refused, "tgkill", pyseccomp.Arg(0, pyseccomp.NE, os.getpid()))
        calls.add_rule(refused, "prlimit64", pyseccomp.Arg(2, pyseccomp.NE, 0))
        calls.load()
    except OSError:
        return False
    return True
