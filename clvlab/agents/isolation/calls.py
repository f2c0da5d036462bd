"""The calls that a locked-in process may make to the kernel; all others are refused.

The list holds what Python, Polars, NumPy and PyArrow need to read files, compute in threads and wait. It has no call by which
another process is noticed or notices this one, or by which bytes are kept outside it. Those that write files are listed for a
process that has a folder for that, to which Landlock keeps it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyseccomp

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
# A futex on a page of a file is known by the file: whoever maps a library could wake a process that waits in the same place.
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
    """Build the filter that refuses all calls but the listed ones; ``None`` where a library for that is missing.

    Parameters
    ----------
    network
        Whether sockets may be made.
    writes
        Whether files may be made, changed and removed, where Landlock lets them.
    """
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
    """Name the calls that are allowed with some arguments only."""
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
