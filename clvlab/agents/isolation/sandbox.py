"""Sandbox of a process: it reads Python's own files and permitted ones, connects nowhere, starts nothing.

It writes nothing, except in a folder of its own. Landlock rules over files; a seccomp filter refuses all system calls except
the few that computing needs; root drops its capabilities. All three bind the thread that applies them and those that it starts,
so they come before any other.
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
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from clvlab.agents.isolation.root import Resident, enter_root, take_namespaces

if TYPE_CHECKING:
    import pyseccomp


# The calls that a locked-in process may make to the kernel; all others are refused.
#
# The list holds what Python, Polars, NumPy and PyArrow need to read files, compute in threads and wait. It has no call by which
# another process is noticed or notices this one, or by which bytes are kept outside it. Those that write files are listed for a
# process that has a folder for that, to which Landlock keeps it.


_CALLS = (
    # memory; mmap, madvise and prctl by their arguments
    "brk", "munmap", "mprotect", "mremap", "membarrier",
    # files: opening, reading, looking; and writing into what is open
    "open", "openat", "close", "close_range", "read", "readv", "pread64", "preadv", "write", "writev", "pwrite64", "pwritev",
    "lseek", "stat", "lstat", "fstat", "newfstatat", "statx", "access", "faccessat", "faccessat2", "getdents", "getdents64",
    "getcwd", "dup", "dup2", "dup3", "pipe", "pipe2", "sendfile",
    # waiting; futex and clock_nanosleep by their arguments
    "poll", "ppoll", "select", "pselect6", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait",
    "eventfd", "eventfd2", "timerfd_create", "timerfd_settime", "timerfd_gettime", "nanosleep", "restart_syscall", "pause",
    "wait4", "waitid",
    # threads and signals of this process; clone and tgkill by their arguments
    "set_robust_list", "set_tid_address", "rseq", "arch_prctl", "sched_yield", "sched_get_priority_max",
    "sched_get_priority_min", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigtimedwait",
    "rt_sigsuspend", "sigaltstack", "setitimer", "getitimer", "alarm", "exit", "exit_group",
    # who and when one is; clocks by their number
    "getpid", "gettid", "getppid", "getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid", "getgroups", "getrlimit",
    "times", "time", "gettimeofday", "getcpu", "uname", "getrandom",
    # a pair of sockets, which event loops need; no open files go through it, as those under way are counted for each user
    "sendto", "recvfrom", "shutdown", "getsockname", "getpeername", "getsockopt",
)  # fmt: skip
_WRITING = (
    "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "rename", "renameat", "renameat2", "truncate", "ftruncate", "fallocate",
    "fsync", "fdatasync", "copy_file_range", "readlink", "readlinkat",
)  # fmt: skip
_CONNECTING = (
    "socket", "socketpair", "bind", "connect", "listen", "accept", "accept4", "setsockopt", "sendmsg", "recvmsg",
    "sendmmsg", "recvmmsg",
)  # fmt: skip
# The C library does without these calls where they are missing, not where they are refused. The first hides its flags. Those
# that this libseccomp may not know by name have a number, the same on every machine.
_MISSING = (435, 437, 441, 449)  # clone3, openat2, epoll_pwait2, futex_waitv
_UNSIGNED_INT = 0xFFFFFFFF  # the kernel drops the upper half of these arguments, a filter sees it
_CLONE_THREAD = 0x00010000
# A futex on a page of a file is known by the file: by mapping a library, one process could wake another that waits there.
# The C library waits so for a thread to end, and looks again where the number has changed meanwhile.
_FUTEX_PRIVATE, _FUTEX_COMMAND, _FUTEX_WAITS = 128, 127, (0, 9)
_SIGNALS = ~0x1F & _UNSIGNED_INT  # that are not queued: those that are, the kernel counts for each user
_CLOCKS = ~0xF & _UNSIGNED_INT  # of the machine and of this process; others have the number of a process, whose time they tell
_RLIMIT_AS = 9
_AF_UNIX, _SOCK_STREAM, _SOCKET_TYPES = 1, 1, 0xF
# What memory is mapped as: private, or shared where it can't be written and a file holds it. Memory that is shared, or that
# grows as a stack, counts in no limit of what a process writes to; a mapping without a file could be made writable later.
_MAP_KINDS = 0x4212F  # sharing, anonymous, growing down, locked, huge pages
_MAP_SHARED, _MAP_PRIVATE, _MAP_ANONYMOUS, _PROT_WRITE = 1, 2, 0x20, 2
# What concerns this process alone: no hint that reads a file ahead, page by page, or drops what is kept of it.
_ADVICE = (0, 2, 4, 8, 14, 15, 16, 17, 18, 19)
_FCNTL = (0, 1, 2, 3, 4, 1030, 1032)  # duplicates, flags, the length of a pipe; no locks, leases, hints or owners
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # is it a terminal and how large; how much is there; flags
_PRCTL = (15, 16, 0x53564D41)  # the name of a thread, and of memory


def call_filter(*, network: bool, writes: bool) -> pyseccomp.SyscallFilter | None:
    """Return a filter that refuses all system calls except the listed ones; ``None`` where its library is missing."""
    try:
        import pyseccomp
    except (ImportError, RuntimeError, OSError):
        return None
    calls = pyseccomp.SyscallFilter(pyseccomp.ERRNO(errno.EPERM))
    names = (*_CALLS, *(_WRITING if writes else ()), *(_CONNECTING if network else ()))
    rules = [(name, ()) for name in names] + list(_by_arguments())
    for name, arguments in rules:
        if pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name) >= 0:  # an architecture may lack it
            calls.add_rule(pyseccomp.ALLOW, name, *arguments)
    missing = pyseccomp.ERRNO(errno.ENOSYS)
    for number in _MISSING:
        calls.add_rule(missing, number)
    for wait in _FUTEX_WAITS:
        shared = pyseccomp.Arg(1, pyseccomp.MASKED_EQ, _FUTEX_PRIVATE | _FUTEX_COMMAND, wait)
        calls.add_rule(pyseccomp.ERRNO(errno.EAGAIN), "futex", shared)
    calls.add_rule(missing, "sched_getaffinity", pyseccomp.Arg(0, pyseccomp.GT, os.getpid()))  # it asks so for its threads
    return calls


def _by_arguments() -> Iterator[tuple[str, tuple[pyseccomp.Arg, ...]]]:
    import pyseccomp

    def masked(index: int, mask: int, value: int) -> pyseccomp.Arg:
        return pyseccomp.Arg(index, pyseccomp.MASKED_EQ, mask, value)

    for kind in (_MAP_PRIVATE, _MAP_PRIVATE | _MAP_ANONYMOUS):
        yield "mmap", (masked(3, _MAP_KINDS, kind),)
    yield "mmap", (masked(2, _PROT_WRITE, 0), masked(3, _MAP_KINDS, _MAP_SHARED))
    for name, index, values in (("madvise", 2, _ADVICE), ("fcntl", 1, _FCNTL), ("ioctl", 1, _IOCTL), ("prctl", 0, _PRCTL)):
        for value in values:
            yield name, (masked(index, _UNSIGNED_INT, value),)
    yield "futex", (masked(1, _FUTEX_PRIVATE, _FUTEX_PRIVATE),)
    for name in ("clock_gettime", "clock_getres", "clock_nanosleep"):
        yield name, (masked(0, _CLOCKS, 0),)
    yield "clone", (masked(0, _CLONE_THREAD, _CLONE_THREAD),)
    yield "tgkill", (masked(0, _UNSIGNED_INT, os.getpid()), masked(2, _SIGNALS, 0))
    for who in (0, os.getpid()):
        yield "sched_getaffinity", (masked(0, _UNSIGNED_INT, who),)
    yield "prlimit64", (masked(0, _UNSIGNED_INT, 0), pyseccomp.Arg(2, pyseccomp.EQ, 0))
    yield "prlimit64", (masked(0, _UNSIGNED_INT, 0), masked(1, _UNSIGNED_INT, _RLIMIT_AS))
    yield "socketpair", (masked(0, _UNSIGNED_INT, _AF_UNIX), masked(1, _SOCKET_TYPES, _SOCK_STREAM))


CLVLAB = Path(__file__).resolve().parents[2]
_BUNDLED_PACKS = CLVLAB / "packs" / "bundled"  # they hold the closes of a run
_SYSTEM = (
    "/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo", "/usr/lib/locale/C.utf8", "/proc/cpuinfo", "/proc/meminfo",
    *(f"/sys/devices/system/cpu/{name}" for name in ("online", "possible", "present", "cpu0/cache")), "/dev/null",
    "/dev/urandom",
)  # fmt: skip
# Libraries of the system: those that Python's own modules load, those that wheels may take for given (PEP 513, 571 and 599, but
# for windows and pictures), and OpenMP and BLAS, which some do.
_LIBRARY_FOLDERS = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")
_LIBRARIES = {
    "ld-linux-x86-64", "ld-linux-aarch64", "libc", "libm", "libmvec", "libdl", "libpthread", "librt", "libutil", "libresolv",
    "libnsl", "libanl", "libcrypt", "libnss_dns", "libnss_files", "libgcc_s", "libstdc++", "libgomp", "libgfortran",
    "libquadmath", "libatomic", "libz", "libbz2", "liblzma", "libzstd", "libffi", "libssl", "libcrypto", "libsqlite3",
    "libuuid", "libexpat", "libreadline", "libncurses", "libncursesw", "libtinfo", "libpanel", "libpanelw", "libgdbm",
    "libgdbm_compat", "libdb-5", "libmpdec", "libtirpc", "libblas", "liblapack", "libopenblas",
}  # fmt: skip
_UNNEEDED = ("site-packages", "test", "idlelib", "lib2to3", "ensurepip", "turtledemo")  # in the folder of Python's own modules
# In /proc/self, where others tell of the machine's sockets, of faults of pages, and of what a user's processes have queued.
_OF_ITSELF = ("maps", "statm")
_NETWORK = (
    "/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf", "/run/systemd/resolve", "/etc/ssl", "/etc/pki", "/usr/lib/ssl",
)  # fmt: skip
_TRUNCATE_ABI = 3  # older kernels let a locked-in process empty files
_MAX_STACK, _MAX_OPEN = 64 << 20, 1024
_CAP_DAC_READ_SEARCH = 2
_CAPABILITIES_V3 = 0x20080522
_RESIDENT = Resident()


def lock_in(readable: Sequence[str], *, network: bool, writable: Sequence[str] = ()) -> bool:
    """Sandbox this process for good; False where the kernel or a library lacks a part, and only the rest is applied."""
    if sys.platform != "linux":
        return False
    with _libraries_by_name(), Path("/proc/self/status").open(encoding="ascii", errors="replace") as status:
        calls = call_filter(network=network, writes=bool(writable))  # first: loading its library reads files
        files = _files_locked([*readable, *(_NETWORK if network else ())], writable, network=network)
        powers = _powers_dropped()
        return calls is not None and _applied(calls) and files and powers and _is_alone(status)


def enter_own_root(folder: str, reads: Sequence[str], *, network: bool) -> tuple[bool, int]:
    """Hide all processes, and all files except Python's own, ``folder`` and ``reads``, where the kernel permits it.

    Return whether it holds, and the number of the continuing process as its parent knows it. It comes before ``lock_in``.
    """
    if not can_lock_in():
        return False, os.getpid()
    number = take_namespaces()
    if number is None:
        return False, os.getpid()
    own = Path("/proc/self")
    readable = (*_SYSTEM, *(_NETWORK if network else ()), folder, *reads)
    visible = {*_python(), *_libraries(), *map(Path, readable), *(own / name for name in (*_OF_ITSELF, "status"))}
    root = Path(folder, "root")
    root.mkdir(exist_ok=True)  # another process of this agent may have tried before any code was loaded
    return enter_root(root, visible | {path.resolve() for path in visible}, _holes()), number


def begin_resident(reads: Sequence[Path]) -> None:
    """Start ``make_resident`` in parallel the first time, when most is to be read."""
    if not _RESIDENT.has_started:
        threading.Thread(target=make_resident, args=(reads,), daemon=True).start()


def make_resident(reads: Sequence[Path]) -> None:
    """Read all that an agent may read into memory before its code runs: its own reads then change nothing there."""
    _RESIDENT.hold(
        path for path in (*_own_files(), *reads) if not path.is_relative_to("/proc") and not path.is_relative_to("/sys")
    )


def _applied(calls: pyseccomp.SyscallFilter) -> bool:
    try:
        calls.load()
    except OSError:
        return False
    return True


def _powers_dropped() -> bool:
    """Drop root's capabilities, except the one that reads others' files, which Landlock bounds."""
    libc = ctypes.CDLL("libc.so.6", use_errno=True)
    head = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable; the lower 32 bits, then the upper ones
    if libc.capget(head, sets):
        return False
    kept = sets[1] & (1 << _CAP_DAC_READ_SEARCH)
    return bool(libc.capset(head, (ctypes.c_uint32 * 6)(kept, kept)) == 0)


def _is_alone(status: TextIO) -> bool:
    """Check that this thread is the only one: others would not be sandboxed, and could run code for it."""
    return "\nThreads:\t1\n" in status.read()


@contextmanager
def _libraries_by_name() -> Iterator[None]:
    """Name the system's libraries to their loaders, who would otherwise run a compiler to find them: 0.1 s a process."""
    found = ctypes.util.find_library
    names = {"c": "libc.so.6", "seccomp": "libseccomp.so.2"}
    ctypes.util.find_library = lambda name: names.get(name)
    try:
        yield
    finally:
        ctypes.util.find_library = found


def can_lock_in() -> bool:
    """Return whether this system has what ``lock_in`` needs, without applying it."""
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
    """End this process with its parent, even in the middle of an answer; called after sandboxing."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def limit_memory(megabytes: int) -> None:
    """Limit the memory that this process may write to, where the system can; mapped files do not count."""
    if sys.platform != "linux":
        return
    import resource

    _limit(resource.RLIMIT_DATA, megabytes << 20)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_STACK, _MAX_STACK)  # it is memory that the bound on data does not count,
    _limit(resource.RLIMIT_NOFILE, _MAX_OPEN)  # and so is what pipes and sockets hold


def limit_mappings(megabytes: int) -> None:
    """Limit all mappings of this process: its current ones, as much as it may write to, and as much again for files.

    It also covers shared memory, which ``limit_memory`` does not count; called after libraries have reserved theirs.
    """
    if sys.platform != "linux":
        return
    import resource

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    _limit(resource.RLIMIT_AS, pages * resource.getpagesize() + 2 * (megabytes << 20))


def _limit(which: int, bound: int) -> None:
    import resource

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
        itself = Path("/proc/self").resolve()
        for path in sorted({*_own_files(), *(itself / name for name in _OF_ITSELF), *map(Path, readable)}):
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
    paths = sysconfig.get_paths()
    named = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")] + site.getsitepackages()
    own = [site.getusersitepackages()] if uses_user_site() else []
    return {path for text in (*named, *own) for path in (Path(text), Path(text).resolve())}


def uses_user_site() -> bool:
    """Return whether this interpreter imports from the user's folder of packages, which otherwise may hold anything."""
    return site.ENABLE_USER_SITE is True and site.getusersitepackages() in sys.path


def _python() -> set[Path]:
    return {*python_folders(), CLVLAB}


def _holes() -> set[Path]:
    """Return folders among these that agents do not need, or must not read, such as packs between modules."""
    used = python_folders()
    unneeded = {Path(sysconfig.get_path("stdlib"), name).resolve() for name in _UNNEEDED}
    return {_BUNDLED_PACKS, *(hole for hole in unneeded if not any(path.is_relative_to(hole) for path in used))}


def _libraries() -> set[Path]:
    """Return the system's shared libraries that modules need; folders that are the same repeat one name only."""
    triple = str(sysconfig.get_config_var("MULTIARCH"))
    named = {name: None for folder in (*_LIBRARY_FOLDERS, f"{sys.base_prefix}/lib") for name in (folder, f"{folder}/{triple}")}
    found: dict[Path, list[Path]] = {}
    again: list[Path] = []
    for folder in map(Path, named):
        if (real := folder.resolve()) in found:
            again += [folder / path.name for path in found[real][:1]]
        elif folder.is_dir():
            names = [name for name in os.listdir(folder) if ".so." in name and name.partition(".")[0] in _LIBRARIES]  # noqa: PTH208
            found[real] = [folder / name for name in names]
    return {path for paths in (*found.values(), again) for path in paths}


def _own_files() -> Iterator[Path]:
    roots, holes = {path.resolve() for path in (*_python(), *_libraries(), *map(Path, _SYSTEM))}, _holes()
    around = {folder for hole in holes for folder in hole.parents}
    for root in roots:
        if root.exists() and roots.isdisjoint(root.parents):
            yield from _without(root, holes, around)


def _listed() -> set[Path]:
    """Return the folders around hidden ones, which imports list without reading anything in them."""
    roots = {path.resolve() for path in _python()}
    return {folder for hole in _holes() for folder in hole.parents if not roots.isdisjoint([folder, *folder.parents])}


def _without(folder: Path, holes: Set[Path], around: Set[Path]) -> Iterator[Path]:
    if folder in holes:
        return
    if folder not in around:
        yield folder
        return
    for child in folder.iterdir():
        yield from _without(child, holes, around)
