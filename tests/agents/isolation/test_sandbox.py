"""What a process that is locked in may still ask the kernel for: nothing that another process could notice."""

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import signal
import site
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from clvlab.agents.isolation.sandbox import can_lock_in, python_folders
from tests.agents.isolation.test_agent import outcomes, reason_of
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(not can_lock_in(), reason="the kernel or libseccomp can't lock a process in")
REFUSED = "Operation not permitted"
LOCK = struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 1, 0)
UPPER_HALF = 1 << 32


def file_of_python():
    return os.open(os.__file__, os.O_RDONLY)


def called(*arguments):
    """Call the kernel past the C library."""
    libc = ctypes.CDLL(None, use_errno=True)
    return "done" if libc.syscall(*arguments) >= 0 else os.strerror(ctypes.get_errno())


def file_sent():
    """Send an open file, which the kernel counts for the user until it is received."""
    one, _ = socket.socketpair()
    one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", 0))])


def woken():
    """Wake whoever waits on a page of a file, which is known by the file."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    at = libc.mmap(None, ctypes.c_size_t(4096), mmap.PROT_READ, mmap.MAP_SHARED, file_of_python(), ctypes.c_long(0))
    return called(202, ctypes.c_void_p(at), 1, 1, None, None, 0)


def test_thread_of_ours_is_locked_in_too(tmp_path):
    """It calls functions by names that the agent may give another meaning."""
    left = tmp_path / "left"

    def given_to_it():
        said, sleep = [], time.sleep

        def ours(seconds):
            if threading.current_thread() is not threading.main_thread() and not said:
                try:
                    left.write_text("out")
                except OSError as error:
                    said.append(error.strerror)
            sleep(seconds)

        time.sleep = ours
        until = time.monotonic() + PATIENCE_S
        while not said and not left.exists() and time.monotonic() < until:
            sleep(0.05)
        return said

    assert reason_of(given_to_it) in ("['Permission denied']", "['No such file or directory']")
    assert not left.exists()


def test_root_has_no_powers_left(tmp_path):
    program = (
        "from clvlab.agents.isolation.sandbox import lock_in; status = open('/proc/self/status'); "
        "print(lock_in([], network=False), *(line.split()[1] for line in status if line.startswith(('CapPrm', 'CapEff'))))"
    )

    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)

    locked, *powers = done.stdout.split()
    assert locked == "True"
    assert [int(power, 16) in (0, 1 << 2) for power in powers] == [True, True]


NOTICEABLE = {
    "lock": lambda: fcntl.fcntl(file_of_python(), fcntl.F_SETLK, LOCK),
    "lock of a description": lambda: fcntl.fcntl(file_of_python(), 37, LOCK),
    "look for a lock": lambda: fcntl.fcntl(file_of_python(), fcntl.F_GETLK, LOCK),
    "lock, upper half set": lambda: called(72, file_of_python(), UPPER_HALF | fcntl.F_SETLK, LOCK),
    "lease": lambda: fcntl.fcntl(file_of_python(), fcntl.F_SETLEASE, fcntl.F_RDLCK),
    "owner": lambda: fcntl.fcntl(file_of_python(), fcntl.F_SETOWN, os.getppid()),
    "signal": lambda: fcntl.fcntl(file_of_python(), fcntl.F_SETSIG, 9),
    "hint": lambda: fcntl.fcntl(file_of_python(), 1036, struct.pack("Q", 3)),
    "flags": lambda: fcntl.ioctl(file_of_python(), 0x80086601, bytes(8)),
    "typing": lambda: fcntl.ioctl(0, 0x5412, b"x"),
    "affinity": lambda: os.sched_setaffinity(os.getppid(), {0}),
    "scheduler": lambda: os.sched_setscheduler(os.getppid(), os.SCHED_IDLE, os.sched_param(0)),
    "datagrams": lambda: socket.socketpair(type=socket.SOCK_DGRAM),
    "packets": lambda: socket.socketpair(type=socket.SOCK_SEQPACKET),
    "name": lambda: socket.socketpair()[0].bind("\0clvlab-test"),
    "inotify": lambda: called(294, 0),
    "fanotify": lambda: called(300, 0, 0),
    "file under way": file_sent,
    "signal that is queued": lambda: signal.pthread_kill(threading.get_ident(), signal.SIGRTMIN + 5),
    "futex of a file": woken,
    "clock of a process": lambda: time.clock_gettime(~os.getpid() << 3 | 2),
    "rest by the clock of a process": lambda: called(230, ~os.getpid() << 3 | 2, 0, bytes(16), None),
    "migration": lambda: called(256, os.getppid(), 0, 0, 0),
}


@pytest.fixture(scope="module")
def answers():
    return outcomes(NOTICEABLE)


@pytest.mark.parametrize("name", NOTICEABLE)
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of calls")
def test_call_that_another_process_could_notice_is_refused(answers, name):
    assert REFUSED in answers[name]
    assert os.strerror(errno.EPERM) == REFUSED


FOREIGN = [
    *("getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr", "setxattr", "readlink", "readlinkat"),
    *(
        "getrusage",
        "sysinfo",
        "mincore",
        "fadvise64",
        "readahead",
        "cachestat",
        "preadv2",
        "memfd_create",
        "memfd_secret",
        "remap_file_pages",
    ),
    *(
        "mlock",
        "mlock2",
        "mlockall",
        "munlock",
        "msync",
        "sync",
        "syncfs",
        "sync_file_range",
        "splice",
        "tee",
        "io_setup",
        "swapon",
    ),
    *("process_vm_readv", "process_vm_writev", "process_madvise", "ptrace", "perf_event_open", "bpf", "userfaultfd", "kcmp"),
    *("io_uring_setup", "inotify_init1", "fanotify_init", "name_to_handle_at", "open_by_handle_at", "mount", "umount2"),
    *("pivot_root", "open_tree", "fsopen", "statmount", "listmount", "statfs", "fstatfs", "keyctl", "add_key", "request_key"),
    *(
        "shmget",
        "semget",
        "msgget",
        "mq_open",
        "unshare",
        "setns",
        "chroot",
        "link",
        "linkat",
        "symlink",
        "symlinkat",
        "rename",
    ),
    *("renameat2", "mkdirat", "unlinkat", "mknodat", "truncate", "flock", "sched_setaffinity", "sched_setattr", "getpriority"),
    *("get_robust_list", "mbind", "move_pages", "personality", "sethostname", "syslog", "seccomp", "umask", "chdir", "getpgid"),
    *("pidfd_open", "kill", "fork", "vfork", "execve", "socket", "bind", "landlock_create_ruleset", "timer_create", "vmsplice"),
]


@pytest.fixture(scope="module")
def refusals():
    import pyseccomp

    numbers = {name: pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name) for name in FOREIGN}
    return outcomes({name: partial(called, number, -1, 0, 0, 0, 0, 0) for name, number in numbers.items() if number >= 0})


@pytest.mark.parametrize("name", FOREIGN)
def test_call_that_computing_does_not_need_is_refused(refusals, name):
    assert refusals.get(name, ["done", REFUSED]) == ["done", REFUSED]  # an architecture may lack it


def test_call_that_no_list_knows_is_refused():
    assert reason_of(lambda: called(1 << 20)) == REFUSED


def test_thread_can_be_waited_for():
    """The C library waits for its end where another process could wake it, which is refused."""

    def joined():
        libc, thread, ran = ctypes.CDLL(None), ctypes.c_ulong(), []
        begun = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda _: ran.append(sum(range(1_000_000))))
        libc.pthread_create(ctypes.byref(thread), None, begun, None)
        return libc.pthread_join(thread, None), len(ran)

    assert reason_of(joined) == "(0, 1)"


def test_memory_of_files_is_neither_read_ahead_nor_dropped():
    def advised():
        with Path(os.__file__).open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            found = []
            for advice in (1, 3, 9, 20, 21, 22):
                with contextlib.suppress(PermissionError):
                    found.append(mapped.madvise(advice))
            mapped.madvise(mmap.MADV_SEQUENTIAL)
            return found

    assert reason_of(advised) == "[]"


def test_limits_of_another_process_can_be_neither_read_nor_set():
    other = os.getpid()

    def tried():
        import resource

        for limits in ((), ((1 << 40, 1 << 40),)):
            with contextlib.suppress(PermissionError):
                return resource.prlimit(other, resource.RLIMIT_AS, *limits)
        return "refused"

    assert reason_of(tried) == "refused"


PRIVATE, SHARED, ANONYMOUS, GROWS_DOWN, LOCKED, HUGE, MUCH = 2, 1, 0x20, 0x100, 0x2000, 0x40000, 2 << 30


def made_writable():
    """Reserve memory, which counts nowhere, and then make it writable."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    at = libc.mmap(None, ctypes.c_size_t(MUCH), 0, PRIVATE | ANONYMOUS, -1, ctypes.c_long(0))
    if libc.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(MUCH), 3):
        raise OSError(ctypes.get_errno(), "not writable")


TAKEN = {
    "private": lambda: bytearray(MUCH),
    "made writable": made_writable,
    "shared": lambda: mmap.mmap(-1, MUCH),
    "shared, to read": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ),
    "shared with a check": lambda: mmap.mmap(-1, 4096, flags=3 | ANONYMOUS),
    "a stack": lambda: mmap.mmap(-1, 4096, flags=PRIVATE | ANONYMOUS | GROWS_DOWN),
    "locked": lambda: mmap.mmap(-1, 4096, flags=PRIVATE | ANONYMOUS | LOCKED),
    "huge pages": lambda: mmap.mmap(-1, 2 << 20, flags=PRIVATE | ANONYMOUS | HUGE),
    "without a name": lambda: os.memfd_create("x"),
    "in /dev/shm": lambda: Path("/dev/shm/clvlab").write_bytes(bytes(9)),
    "in /tmp": lambda: tempfile.mkstemp(),
    "in a folder without a name": lambda: os.open("/tmp", os.O_TMPFILE | os.O_RDWR),
    "open files": lambda: [os.pipe() for _ in range(5000)],
}


@pytest.fixture(scope="module")
def taken():
    return outcomes(TAKEN, memory_mb=600)


@pytest.mark.parametrize("name", TAKEN)
def test_memory_is_bounded_of_whatever_kind_it_is(taken, name):
    assert taken[name][0] in ("MemoryError", "OSError", "PermissionError", "FileNotFoundError")


def test_libraries_have_room_in_a_small_limit_of_memory():
    def computed():
        import pyarrow as pa

        frame = pl.DataFrame({"n": range(1_000_000)}).sort("n", descending=True)
        return frame["n"].sum() + pa.array(range(1000)).sum().as_py()

    assert reason_of(computed, memory_mb=512) == str(sum(range(1_000_000)) + sum(range(1000)))


def test_event_loop_runs():
    def looped():
        import asyncio

        return asyncio.run(asyncio.sleep(0, "looped"))

    assert reason_of(looped) == "looped"


def test_a_process_may_write_in_a_folder_that_it_is_given_and_nowhere_else(tmp_path):
    (tmp_path / "secret").write_text("x")
    home = tmp_path / "home"
    home.mkdir()
    program = (
        "import os, socket; from clvlab.agents.isolation.sandbox import lock_in; "
        "print(lock_in([], network=False, writable=[os.getcwd()])); open('own', 'w').close(); os.mkdir('folder')\n"
        "for act in (lambda: open('../secret'), lambda: open('../new', 'w'), lambda: os.rename('own', '../own'), "
        "lambda: os.chmod('own', 0o777), lambda: os.symlink('own', 'link'), socket.socket, os.fork):\n"
        "    try: act(); print('done')\n"
        "    except OSError: print('refused')"
    )

    done = subprocess.run([sys.executable, "-c", program], cwd=home, capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["True", *["refused"] * 7]
    assert sorted(path.name for path in home.iterdir()) == ["folder", "own"]


@pytest.mark.parametrize(("enabled", "on_path", "used"), [(True, True, True), (True, False, False), (None, True, False)])
def test_packages_of_the_user_can_be_read_only_where_the_interpreter_uses_them(enabled, on_path, used, monkeypatch):
    folder = site.getusersitepackages()
    monkeypatch.setattr(site, "ENABLE_USER_SITE", enabled)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != folder] + [folder] * on_path)

    assert (Path(folder) in python_folders()) is used


def test_package_of_the_user_is_found_by_an_agent_as_it_is_here(tmp_path):
    base = {"PYTHONUSERBASE": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    where = [getattr(sys, "_base_executable", sys.executable), "-c"]
    folder = Path(
        subprocess.run(
            [*where, "import site; print(site.getusersitepackages())"], env=base, capture_output=True, text=True, check=True
        ).stdout.strip()
    )
    folder.mkdir(parents=True)
    (folder / "clvlab_of_the_user.py").write_text("NAME = 'found'")
    program = (
        "import os; from clvlab.agents.isolation.process import _environment; import subprocess, sys; "
        "print(subprocess.run([sys.executable, '-c', 'import clvlab_of_the_user as it; print(it.NAME)'], "
        "env=_environment(network=False), capture_output=True, text=True).stdout)"
    )

    done = subprocess.run([*where, program], env=base, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "found"
