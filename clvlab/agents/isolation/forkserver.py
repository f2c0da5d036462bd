"""A fork server: processes of agents are forked from one that has imported their libraries, which is most of a start.

A fork inherits all that its parent has, so the server has nothing: it was started as a new interpreter with the environment
of an agent, has only imported libraries, has one thread, and is told nothing about the agents that it forks. Where that does
not hold it ends, and a process is started as a new interpreter.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import BinaryIO
from weakref import finalize

_MODULE = "clvlab.agents.isolation.forkserver"
_START_S = 60.0
_MESSAGE = 64
# Of the server alone. Allocators would start threads; a fork gets none of them, and would wait for them.
_NO_THREADS = dict.fromkeys(("_RJEM_MALLOC_CONF", "JE_ARROW_MALLOC_CONF"), "background_thread:false")
_SPILL_CLEANER = "polars-ooc-clea"  # thread of Polars that deletes what did not fit in memory; no agent may write such files
_OWN = Path("/proc/self")
_TASKS, _MAPS = _OWN / "task", _OWN / "maps"
_FILES = 4  # of a message
_ASLEEP_S = 0.002
_END_WITH_PARENT = 1  # of prctl
_UMASK = 0o022
# What a process has from its parent and could notice, besides its environment: a server that has other values is replaced.
_INHERITED = ("Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:", "Seccomp", "Cpus_allowed:", "Mems_allowed:")


class ForkProcess:
    """A forked process, by the part of ``subprocess.Popen`` that its parent uses; it may be still to come.

    ``life`` is a socket to the process that waits for it, which first tells its number, and at last how it ended.
    """

    def __init__(self, life: socket.socket, stdin: BinaryIO, stdout: BinaryIO) -> None:
        self._life, self.stdin, self.stdout = life, stdin, stdout
        self._lock = Lock()
        self._status: int | None = None
        finalize(self, life.close).atexit = False  # others still end the process then

    @property
    def pid(self) -> int | None:
        return self._known[0]

    @cached_property
    def _known(self) -> tuple[int, int] | tuple[None, None]:
        with suppress(OSError):  # it never came
            number, handles, _, _ = socket.recv_fds(self._life, _MESSAGE, 1)
            if handles:
                finalize(self, os.close, handles[0]).atexit = False
                return int(number), handles[0]
        return None, None

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._ended(timeout)
        if status is None:
            raise subprocess.TimeoutExpired("a forked process", timeout or 0)
        return status

    def kill(self) -> None:
        with self._lock:
            handle = self._known[1]
        with suppress(OSError):  # it has ended
            if handle is None:
                self._life.shutdown(socket.SHUT_RDWR)  # it ends if it comes
            else:
                signal.pidfd_send_signal(handle, signal.SIGKILL)

    def _ended(self, timeout_s: float | None) -> int | None:
        with self._lock:
            lives = self._status is None and self._known[1] is not None
        if lives:
            waits = select.poll()
            waits.register(self._life, select.POLLIN)
            if not waits.poll(None if timeout_s is None else timeout_s * 1000):
                return None
        with self._lock:
            if self._status is None:
                self._status = int((lives and self._life.recv(_MESSAGE)) or -signal.SIGKILL)
            return self._status


class ForkServer:
    """A server in one environment. It ends with this object, and with this process however that ends."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # A group of its own: Ctrl-C reaches this process, which ends those that it asks.
            self._process = subprocess.Popen(  # noqa: S603  this interpreter and this module
                [sys.executable, "-P", "-m", _MODULE],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**environment, **_NO_THREADS},
                cwd="/",
                umask=_UMASK,
                process_group=0,
            )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def fork(self, settings: str) -> ForkProcess:
        """Return a process that works in this one's folder; it never comes if the server ends before."""
        folder = os.open(".", os.O_PATH)
        requests, answers = os.pipe(), os.pipe()
        life, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        life.settimeout(_START_S)
        theirs = [requests[0], answers[1], other.detach(), folder]
        stdin = os.fdopen(requests[1], "wb")
        try:
            socket.send_fds(self._control, [b"fork"], theirs)
            stdin.write(settings.encode() + b"\n")  # past the server, whose memory every fork has
            stdin.flush()
        except OSError:  # the server has ended
            pass
        finally:
            for file in theirs:
                os.close(file)
        return ForkProcess(life, stdin, os.fdopen(answers[0], "rb"))

    def close(self) -> None:
        self._control.close()
        self._process.kill()  # it may still import; what it forked goes on
        self._process.wait()

    def forget(self) -> None:
        """Close the copy of a server that a fork of this process has: it ends with the process that started it."""
        self._control.close()
        self._process.returncode = 0


class ForkServers:
    """Two fork servers, replaced where a process that is started now would inherit something else.

    All forks of a server have its addresses in memory, by which an agent could draw lots that look like a rule. Those of the
    other server have other ones.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._key: object = None
        self._servers: list[ForkServer] = []
        if sys.platform == "linux":
            os.register_at_fork(after_in_child=self._forget)

    def fork(self, environment: Mapping[str, str], settings: str, *, other: bool) -> ForkProcess | None:
        """Return a fork of one server or of the other; ``None`` where the system has no safe one."""
        if sys.platform != "linux":
            return None
        with self._lock:
            key = sorted(environment.items()), _inherited()
            if key != self._key:
                self._close()
                self._key, self._servers = key, [ForkServer(environment), ForkServer(environment)]
            server = self._servers[other]
            try:
                return server.fork(settings) if server.alive else None
            except OSError:  # a process that is started may do with less, or says what is missing
                return None

    def close(self) -> None:
        with self._lock:
            self._close()
            self._key = None

    def _close(self) -> None:
        for server in self._servers:
            server.close()
        self._servers = []

    def _forget(self) -> None:
        for server in self._servers:
            server.forget()
        self._lock, self._key, self._servers = Lock(), None, []


def _inherited() -> tuple[object, ...]:
    own = Path("/proc/thread-self")
    try:
        status = (own / "status").read_text(errors="replace").splitlines()
        files = [(own / name).read_text(errors="replace") for name in ("limits", "cgroup")]
        places = [(own / "ns/mnt").readlink(), Path("/").stat().st_ino]
    except OSError:  # a server could not be sure of itself without them either
        return ()
    return (*(line for line in status if line.startswith(_INHERITED)), *files, *places, os.getpriority(os.PRIO_PROCESS, 0))


# The server. Its steps: 1. become what a started process is; 2. import libraries; 3. leave their threads behind; 4. fork.


def _import_libraries() -> None:
    """Import what any agent needs and what starts no threads, computes nothing and draws nothing at random."""
    import cloudpickle
    import numpy as np
    import polars as pl
    import py_landlock
    import pyarrow as pa
    import pyseccomp

    import clvlab.agents.columnar
    import clvlab.agents.files
    import clvlab.agents.isolation.tapes
    import clvlab.agents.ticks
    import clvlab.engine.live  # noqa: F401

    _ = cloudpickle, np, pa, pl, py_landlock, pyseccomp


def main() -> None:
    """Fork a process for each message from the parent, until it ends or closes its end.

    Steps: 1. import libraries, if agents can be locked in here; 2. leave the threads that they started; 3. fork for each
    message; 4. become the process of an agent, in a fork.
    """
    control, ends = socket.socket(fileno=os.dup(0)), os.pidfd_open(os.getppid())
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:  # these are ignored by Python itself
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    from clvlab.agents.isolation.sandbox import can_lock_in
    from clvlab.agents.isolation.worker import answer_all, pipes

    if not can_lock_in():  # an agent that is not locked in could reach this process, and by it all others
        return
    _import_libraries()
    _leave_threads(control, ends)
    requests_file, answers_file, life, folder = _next_fork(control, ends)
    control.detach()  # what is closed by number may not be closed again
    _become(requests_file, answers_file, life, folder, ends)
    requests, answers = pipes()
    answer_all(json.loads(requests.readline()), requests, answers, forked=True)


def _leave_threads(control: socket.socket, ends: int) -> None:
    """Continue in a fork, which has this thread alone; the caller waits for its end.

    The one thread that Polars starts with its import must be asleep, where it holds no lock.
    """
    before: list[str] = []
    while (others := _other_threads()) != before:
        before = others
        time.sleep(_ASLEEP_S)
    if any(f"Name:\t{_SPILL_CLEANER}\n" not in thread or "State:\tS" not in thread for thread in others):
        os._exit(1)
    parent = os.getpid()
    if server := os.fork():
        control.close()
        os.close(ends)
        os.waitpid(server, 0)
        os._exit(0)
    _end_with(parent)


def _other_threads() -> list[str]:
    """Return the states of other threads, which change where one runs in between."""
    return [(task / "status").read_text() for task in _TASKS.iterdir() if task.name != str(os.getpid())]


def _end_with(parent: int) -> None:
    ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _next_fork(control: socket.socket, ends: int) -> list[int]:
    """Return in a fork, with the open files of its message; the server keeps nothing of either."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # a process that ended is nobody's
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    waits = select.poll()
    for file in (control.fileno(), ends):
        waits.register(file, select.POLLIN)
    while True:
        ready = [file for file, _ in waits.poll()]
        message, files, _, _ = (b"", [], 0, 0) if ends in ready else socket.recv_fds(control, _MESSAGE, _FILES)
        if not message or len(list(_TASKS.iterdir())) != 1 or _shares_memory():
            os._exit(0)
        with suppress(OSError):  # no process can be started, as the one who waits for it learns
            if len(files) == _FILES and os.fork() == 0:
                return files
        for file in files:
            os.close(file)


def _shares_memory() -> bool:
    """Return whether a fork could write to memory that others see."""
    return any(line.split()[1].endswith("s") and "w" in line.split()[1] for line in _MAPS.read_text().splitlines())


def _become(requests: int, answers: int, life: int, folder: int, ends: int) -> None:
    """Continue in a fork as a process that was started in this folder with these pipes; the caller waits for it.

    It reports on ``life``, and ends the process when nobody listens there any more, or when the user's process ends.
    """
    os.fchdir(folder)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    parent = os.getpid()
    if child := os.fork():
        _report(child, life, ends)
    _end_with(parent)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(requests, 0)
    os.dup2(answers, 1)
    _close_all_but(0, 1, 2)
    for name, setting in _NO_THREADS.items():  # Polars adds it to settings of its own
        if rest := os.environ.pop(name, "").removesuffix(setting).removesuffix(","):
            os.environ[name] = rest


def _report(child: int, life: int, ends: int) -> None:
    handle = os.pidfd_open(child)
    parent = socket.socket(fileno=life)
    socket.send_fds(parent, [b"%d" % child], [handle])
    _close_all_but(life, ends, handle)
    waits = select.poll()
    waits.register(parent, 0)  # closed at the other end
    for file in (handle, ends):
        waits.register(file, select.POLLIN)
    if handle not in dict(waits.poll()):
        os.kill(child, signal.SIGKILL)  # its number is its own as long as it is not waited for
    parent.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os._exit(0)


def _close_all_but(*kept: int) -> None:
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  of numbers
        if int(name) not in kept:
            with suppress(OSError):  # the one that this list was read from is closed
                os.close(int(name))


if __name__ == "__main__":
    main()
