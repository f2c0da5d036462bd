"""``python -m tests.agents.isolation.confined HOW COMMAND...``: run a command where the kernel permits less.

``no-powers`` gives up the power to mount; ``no-namespaces`` does so where there can be no namespaces of users either;
``container`` applies a filter of calls as narrow as the one that container engines apply by default.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path

NEW_USERS = 0x10000000
NAMESPACES = 0x7E020000
_DROP_BOUND, _SYS_ADMIN = 24, 21
# What Docker's default profile refuses to a container without powers (docs.docker.com/engine/security/seccomp), as far as this
# machine has it.
REFUSED = (
    "acct", "add_key", "bpf", "clock_adjtime", "clock_settime", "create_module", "delete_module", "finit_module", "fsconfig",
    "fsmount", "fsopen", "fspick", "get_kernel_syms", "get_mempolicy", "init_module", "io_uring_enter", "io_uring_register",
    "io_uring_setup", "ioperm", "iopl", "kcmp", "kexec_file_load", "kexec_load", "keyctl", "lookup_dcookie", "mbind", "mount",
    "mount_setattr", "move_mount", "move_pages", "nfsservctl", "open_by_handle_at", "open_tree", "perf_event_open",
    "personality", "pivot_root", "process_vm_readv", "process_vm_writev", "ptrace", "query_module", "quotactl", "reboot",
    "request_key", "set_mempolicy", "setns", "settimeofday", "stime", "swapoff", "swapon", "sysfs", "_sysctl", "umount",
    "umount2", "unshare", "uselib", "userfaultfd", "ustat", "vm86", "vm86old",
)  # fmt: skip


def forbid_namespaces() -> None:
    """Enter a namespace of users in which there can be no other, and give up the power to have mounts of one's own."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(NEW_USERS):
        raise OSError(ctypes.get_errno(), "no namespace of users")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        Path("/proc/self", name).write_text(text, encoding="ascii")
    Path("/proc/sys/user/max_user_namespaces").write_text("0", encoding="ascii")
    give_up_powers()


def give_up_powers() -> None:
    """Give up the power to have mounts of one's own, but in a new namespace of users."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() == 0 and libc.prctl(_DROP_BOUND, _SYS_ADMIN, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "a power can't be given up")


def confine() -> None:
    """Refuse calls as a container engine does, for this process and all that it starts."""
    import pyseccomp

    calls = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    refused = pyseccomp.ERRNO(errno.EPERM)
    for name in REFUSED:
        if pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name) >= 0:
            calls.add_rule(refused, name)
    for bit in range(32):
        if NAMESPACES & 1 << bit:
            calls.add_rule(refused, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, 1 << bit, 1 << bit))
    calls.add_rule(pyseccomp.ERRNO(errno.ENOSYS), 435)  # clone3 hides its flags
    calls.load()


if __name__ == "__main__":
    {"no-powers": give_up_powers, "no-namespaces": forbid_namespaces, "container": confine}[sys.argv[1]]()
    os.execv(sys.argv[2], sys.argv[2:])
