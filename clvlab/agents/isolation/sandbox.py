"""Locking a process in: it reads Python's own files and what it was allowed, connects nowhere, starts nothing.

It writes nothing, but in a folder that was given to it for that.
Landlock (the kernel's) rules over files; a seccomp filter forbids what Landlock lets through: sockets, metadata, other
processes, and the memory that processes share by a key; root gives up its powers. All three bind the thread that applies them
and those that it starts, so they come before any other thread.
"""

from __future__ import annotations

import ctypes.util
import errno
import os
import site
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

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
    "unshare", "setns", "kcmp", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler", "migrate_pages",
    "move_pages", "inotify_init", "inotify_init1", "fanotify_init",
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
    "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "acct", "quotactl", 443, "iopl", "ioperm",
    "vhangup",
)  # fmt: skip
# A socketpair, which event loops need, could be bound to a name that other processes know, or sent from to one.
_DENIED_OFFLINE = ("socket", "bind", "connect", "listen", "accept", "accept4")
_NAMED_SENDERS = (2, 4)  # bits of the types of sockets that are no streams
# Locks, leases, hints and owners of files: what one process sets another sees, or is sent a signal by.
_DENIED_FCNTL = (5, 6, 7, 8, 10, 12, 13, 14, 15, 36, 37, 38, 1024, 1026, 1036, 1038)
# Files have controls that need no right to write, such as flags that keep them from being removed; those of pipes and
# terminals lie in one range, in which a few are not for agents: to type for the user, and to have signals sent.
_HARMLESS_IOCTL = (0x5401, 0x5460)
_DENIED_IOCTL = (0x5412, 0x541D, 0x5452)
_UNSIGNED_INT = 0xFFFFFFFF  # the kernel drops the upper half of a command, a filter sees it
_CAP_DAC_READ_SEARCH = 2
_CAPABILITIES_V3 = 0x20080522


def lock_in(readable: Sequence[str], *, network: bool, writable: Sequence[str] = ()) -> bool:
    """Lock this process in for good.

    Parameters
    ----------
    readable
        Folders and files beside Python's own that may be read.
    network
        Whether sockets may be made.
    writable
        Folders in which files and folders may be read, made, changed and removed; an agent has none.

    Returns
    -------
    bool
        Whether all of it holds. Where the kernel or a library lacks a part, what can be applied is.
    """
    if sys.platform != "linux":
        return False
    with _libraries_by_name():
        calls = _calls_locked(network=network)  # first: loading its library reads files
        files = _files_locked([*readable, *(_NETWORK if network else ())], writable, network=network)
        return files and calls and _powers_dropped() and _is_alone()


def _powers_dropped() -> bool:
    """Return up root's capabilities, but for the one that reads files of others, which Landlock bounds."""
    libc = ctypes.CDLL("libc.so.6", use_errno=True)
    head = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable; the lower 32 bits, then the upper ones
    if libc.capget(head, sets):
        return False
    kept = sets[1] & (1 << _CAP_DAC_READ_SEARCH)
    return bool(libc.capset(head, (ctypes.c_uint32 * 6)(kept, kept)) == 0)


def _is_alone() -> bool:
    """Tell whether this thread is the only one: the others would not be locked in, and run whatever it gives them."""
    return sum(1 for _ in Path("/proc/self/task").iterdir()) == 1


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


def end_with(parent: int) -> None:
    """Have this process end with its parent, also in the middle of an answer; called once it is locked in."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def limit_memory(megabytes: int) -> None:
    """Bound the memory that this process may write to; mapped files do not count. Where the system has no such bound, none."""
    if sys.platform != "linux":
        return
    import resource

    for which, bound in ((resource.RLIMIT_DATA, megabytes << 20), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(which)[1]
        bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(which, (bound, bound))


def _files_locked(readable: Sequence[str], writable: Sequence[str], *, network: bool) -> bool:
    try:
        import py_landlock
    except ImportError:
        return False
    access = py_landlock.AccessFs
    guard = py_landlock.Landlock(strict=False)
    try:
        if guard.abi_version < _TRUNCATE_ABI:
            return False
        for path in sorted({*_own_files(), *map(Path, readable)}):
            if path.is_dir():
                guard.allow_read(path)
            elif path.exists():
                guard.add_path_rule(path, access=access.READ_FILE)  # a rule on a file may not name directories
        for name in writable:
            guard.add_path_rule(
                name,
                access=access.READ_FILE
                | access.READ_DIR
                | access.WRITE_FILE
                | access.TRUNCATE
                | access.MAKE_REG
                | access.MAKE_DIR
                | access.REMOVE_FILE
                | access.REMOVE_DIR,
            )
        for folder in _listed():
            guard.add_path_rule(folder, access=access.READ_DIR)
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
    own = [site.getusersitepackages()] if uses_user_site() else []
    return {path for text in (*named, *own) for path in (Path(text), Path(text).resolve())}


def uses_user_site() -> bool:
    """Whether this interpreter imports from the user's folder of packages; where it does not, anything may lie there."""
    return site.ENABLE_USER_SITE is True and site.getusersitepackages() in sys.path


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
    denied = [*_DENIED, *(() if network else _DENIED_OFFLINE)]
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
        for bit in () if network else _NAMED_SENDERS:
            calls.add_rule(refused, "socketpair", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, bit, bit))
        for command in _DENIED_FCNTL:
            calls.add_rule(refused, "fcntl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, _UNSIGNED_INT, command))
        least, above = _HARMLESS_IOCTL
        calls.add_rule(refused, "ioctl", pyseccomp.Arg(1, pyseccomp.LT, least))
        calls.add_rule(refused, "ioctl", pyseccomp.Arg(1, pyseccomp.GE, above))
        for command in _DENIED_IOCTL:
            calls.add_rule(refused, "ioctl", pyseccomp.Arg(1, pyseccomp.EQ, command))
        calls.load()
    except OSError:
        return False
    return True
