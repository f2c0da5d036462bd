"""Processes that verify uploads, forked from one that has their libraries: most of what a process takes to start."""

import array
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Condition, Lock, Thread
from types import SimpleNamespace
from unittest.mock import patch

MAX_BYTES = 1 << 16
# A fork has no thread but its own: allocators begin none. Polars has one that cleans up what did not fit in memory.
NO_THREADS = dict.fromkeys(("_RJEM_MALLOC_CONF", "JE_ARROW_MALLOC_CONF"), "background_thread:false")
LEFT_BEHIND = {"polars-ooc-clea"}


class Nursery:
    """A process that forks those of uploads, in one environment."""

    def __init__(self, environment):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-P", __file__, str(theirs.fileno())]
        own = {"env": environment | NO_THREADS, "pass_fds": [theirs.fileno()], "stdin": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, **own)
        theirs.close()
        self._socket, self._told, self._changed = ours, {}, Condition()
        self._begun, self._closed = [], False
        self._forking = Lock()  # numbers come in the order of what was asked for, by one thread at a time
        Thread(target=self._listen, daemon=True).start()

    def fork(self, work):
        requests, answers = os.pipe(), os.pipe()
        files = array.array("i", [requests[0], answers[1]])
        with self._forking, self._changed:
            self._socket.sendmsg([json.dumps(work).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
            self._changed.wait_for(lambda: self._begun or self._closed)
            assert self._begun, "the process that forks others has ended: its errors say why"
            pid = self._begun.pop()
        for file in files:
            os.close(file)
        return Forked(self, pid, os.fdopen(requests[1], "wb"), os.fdopen(answers[0], "rb"))

    def status(self, pid, timeout_s):
        with self._changed:
            if not self._changed.wait_for(lambda: pid in self._told or self._closed, timeout_s):
                return None
            return self._told.get(pid, -signal.SIGKILL)  # what is left ends with the nursery

    def _listen(self):
        with suppress(ConnectionResetError):  # it has ended, and left a message unread
            while message := self._socket.recv(MAX_BYTES):
                pid, status = json.loads(message)
                with self._changed:
                    if status is None:
                        self._told.pop(pid, None)  # the number of one that has ended may come again
                        self._begun.append(pid)
                    else:
                        self._told[pid] = status
                    self._changed.notify_all()
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._process.wait()
        self._socket.close()


class Forked:
    """A forked process, by the part of ``subprocess.Popen`` that its parent uses."""

    def __init__(self, nursery, pid, stdin, stdout):
        self._nursery, self.pid, self.stdin, self.stdout = nursery, pid, stdin, stdout
        self._status = None

    def poll(self):
        return self._ended(0)

    def wait(self, timeout=None):
        status = self._ended(timeout)
        if status is None:
            raise subprocess.TimeoutExpired("a forked process", timeout)
        return status

    def kill(self):
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _ended(self, timeout_s):
        if self._status is None:
            self._status = self._nursery.status(self.pid, timeout_s)
        return self._status


@contextmanager
def warm_processes():
    """Fork the processes that verify uploads."""
    from clvlab.arena.uploads import uploads

    nurseries, starting = {}, Lock()

    def nursery(env):
        key = tuple(sorted(env.items()))
        with starting:
            if key not in nurseries:
                nurseries[key] = Nursery(env)
        return nurseries[key]

    def start_upload(_, *, cwd, env, **_pipes):
        own = {"TMPDIR": env["TMPDIR"]}
        forked = nursery({name: value for name, value in env.items() if name not in own}).fork([str(cwd), own])
        for pipe in (forked.stdin, forked.stdout):
            pipe.close()
        return forked

    standing_in = SimpleNamespace(**vars(subprocess) | {"Popen": start_upload})
    try:
        with patch.object(uploads, "subprocess", standing_in):
            yield
    finally:
        for nursery in nurseries.values():
            nursery.close()


def upload():
    import pyarrow.parquet  # noqa: F401

    import clvlab.arena.uploads.archive
    import clvlab.arena.uploads.requests
    import clvlab.packs.verification
    import clvlab.sources.importer  # noqa: F401
    from clvlab.arena.uploads.worker import main

    def run(work):
        folder, environment = work
        for file in (0, 1):
            os.dup2(os.open(os.devnull, os.O_RDWR), file)
        os.chdir(folder)
        os.environ.update(environment)
        main()

    return run


def main(run, number):
    """Fork a process for each message, tell its number, and later how it ended."""
    import gc
    import selectors

    tasks = Path("/proc/self/task")
    others = [(task / "comm").read_text().strip() for task in tasks.iterdir() if task.name != str(os.getpid())]
    assert set(others) <= LEFT_BEHIND, f"these threads would not be forked: {others}"
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = socket.socket(fileno=number)
    wakes, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    ready = selectors.DefaultSelector()
    for file in (channel, wakes):
        ready.register(file, selectors.EVENT_READ)
    while True:
        for key, _ in ready.select():
            if key.fileobj == wakes:
                os.read(wakes, MAX_BYTES)
                tell_ended(channel)
                continue
            message, files, _, _ = socket.recv_fds(channel, MAX_BYTES, 2)
            if not message:
                os._exit(0)
            work = json.loads(message)
            if pid := os.fork():
                for file in files:
                    os.close(file)
                channel.send(json.dumps([pid, None]).encode())
                continue
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            become(run, work, *files)


def tell_ended(channel):
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        channel.send(json.dumps([pid, os.waitstatus_to_exitcode(status)]).encode())


def become(run, work, requests, answers):
    """Run as a process that was started with these two pipes and nothing else that is open."""
    os.dup2(requests, 0)
    os.dup2(answers, 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    for name in NO_THREADS:
        del os.environ[name]
    status = 1
    try:
        run(work)
        status = 0
    finally:
        os._exit(status)


if __name__ == "__main__":
    main(upload(), int(sys.argv[1]))
