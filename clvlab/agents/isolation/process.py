"""The process of an agent, seen from its parent: its answers are claims, and are never unpickled or run here."""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import pickle
import site
import subprocess
import sys
import sysconfig
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from contextvars import copy_context
from itertools import chain, islice
from pathlib import Path
from threading import Lock, Thread
from typing import Any, BinaryIO, Unpack, cast
from weakref import ref

import polars as pl
import pyarrow as pa

from clvlab import errors
from clvlab.agents.isolation.code import Code
from clvlab.agents.isolation.columns import MAX_AT_MESSAGE, frame_in, most_bytes, most_decisions
from clvlab.agents.isolation.forkserver import ForkProcess, ForkServers
from clvlab.agents.isolation.frames import (
    NO_STEP,
    PROGRESS,
    AgentSetup,
    FrameError,
    FrameKind,
    ProcessSetup,
    Request,
    read_frame,
    read_head,
    write_frame,
    write_step,
)
from clvlab.agents.isolation.limits import ProcessLimits
from clvlab.agents.isolation.sandbox import CLVLAB, begin_resident, make_resident, uses_user_site
from clvlab.agents.isolation.steps import answered, steps
from clvlab.agents.isolation.tapes import write_tape
from clvlab.agents.ticks import fixture_ends
from clvlab.base.files import ScratchFolder
from clvlab.base.progress import ReportClock, is_heard, report
from clvlab.engine.agent import Identity, sealable
from clvlab.errors import AgentError, AgentFailedError, ClvlabError, DecisionError, SchemaError
from clvlab.law.actions import DECISION_COLUMNS, Decision
from clvlab.law.message import Message
from clvlab.law.schema import Held
from clvlab.law.tape import Tape

# Reading what the process of an agent answers: bytes by code that may be hostile, so every one of them is judged.


_MAX_TEXT = 4_000
_MAX_TRACE = 20_000
_MAX_KIND = 100


def identity_in(data: bytes) -> Identity:
    try:
        stated = json.loads(data)
        names = ("agent_id", "strategy", "strategy_version", "proof_mode", "config")
        identity = Identity(**{name: stated[name] for name in names})
        sealable(identity)  # also as deep as a stack allows
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise AgentError(f"the agent's process stated no identity: {error!r:.300}") from error
    return identity


def by_message_in(data: bytes) -> bool:
    return json.loads(data).get("by_message") is True


def decisions_in(data: bytes, most: int) -> pl.DataFrame:
    """Read at most ``most`` ``DECISIONS``, whose values the law checks later; else ``AgentFailedError``."""
    try:
        return frame_in(data, most)
    except (pa.ArrowException, pl.exceptions.PolarsError, ValueError, OverflowError) as error:
        raise AgentFailedError("GarbledAnswer", f"its process answered with no decisions: {error!s:.300}") from error


def failure_in(data: bytes) -> ClvlabError:
    """Read why an agent failed; one of clvlab's errors keeps its class, any other becomes ``AgentFailedError``."""
    try:
        stated: Any = json.loads(data)
        kind, message, trace = (printable(str(stated[name])) for name in ("kind", "message", "trace"))
    except (ValueError, KeyError, TypeError, RecursionError):
        return AgentFailedError("GarbledAnswer", "its process said that it failed, and not how")
    ours = vars(errors).get(kind)
    plain = isinstance(ours, type) and issubclass(ours, AgentError | DecisionError | SchemaError)
    if plain and ours is not None and "__init__" not in vars(ours):
        error: ClvlabError = ours(message[:_MAX_TEXT])
    else:
        name = kind if kind.isidentifier() and len(kind) <= _MAX_KIND else "AgentFailed"
        error = AgentFailedError(name, message[:_MAX_TEXT])
    if trace:
        error.add_note(f"In the agent's process:\n{trace[-_MAX_TRACE:]}")
    return error


def printable(text: str) -> str:
    """Escape characters that would control a terminal: an agent may not overwrite other output."""
    return "".join(char if char.isprintable() or char in "\n\r\t" else repr(char)[1:-1] for char in text)


_WORKER = "clvlab.agents.isolation.worker"
_MAX_JSON = 1 << 20  # parsed, it takes some twenty times as much memory
_LIMITS = dict.fromkeys(FrameKind, _MAX_JSON)
_MAX_PRINTED = 1 << 20  # for each question, all its steps together
_PATIENCE_S = 1
_SERVERS = ForkServers()
atexit.register(_SERVERS.close)
# The whole environment of an agent: any other variable would be input that no seal names.
_ENVIRONMENT = {
    "HOME": "/",
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",  # sums of fractions depend on it
    "OPENBLAS_NUM_THREADS": "1",
    "PATH": os.defpath,
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",  # a set has one order, in every process
    "TZ": "UTC",
}
_OF_WINDOWS = ("PATH", "SYSTEMROOT")  # libraries are found by them, and nothing is locked in there


class AgentProcess:
    """A process that runs one agent's code; used by one thread at a time.

    ``silent`` drops its output. ``grows`` says that each tape begins with the one before. ``shielded`` keeps Ctrl-C and a
    notebook's interrupt, which reach a process group, from it. ``held`` is what the system keeps from it, stated before any
    code of the agent is loaded; ``has_seen`` is whether it saw a tape.
    """

    def __init__(
        self, code: Code, limits: ProcessLimits, *, silent: bool = False, grows: bool = False, shielded: bool = False
    ) -> None:
        self._code, self._limits = code, limits
        self._folder = ScratchFolder("clvlab-agent-")
        self._lock, self._loaded = Lock(), False
        self._talk: Thread | None = None
        self._left = self.has_seen = False
        self.silent = silent
        self._written: tuple[ref[Tape], Path] | None = None
        settings: ProcessSetup = {
            "grows": grows,
            "folder": str(self._folder.path.resolve()),
            "memory_mb": limits.memory_mb,
            "network": limits.network,
            "reads": [str(path) for path in (*limits.reads, *limits.named)],
        }
        self._settings, self._shielded = json.dumps(settings), shielded
        begin_resident(limits.reads)  # while the process starts
        forked = None if limits.network else _SERVERS.fork(_environment(network=False), self._settings, other=grows)
        self._use(forked or self._started())
        self._held: tuple[Held, ...] | None = None
        self._answered = self._printed = 0

    def _started(self) -> subprocess.Popen[bytes]:
        # -P: a file of the agent's folder must not replace a library.
        return subprocess.Popen(  # noqa: S603  this interpreter and a module of ours
            [sys.executable, "-P", "-m", _WORKER, self._settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(network=self._limits.network),
            process_group=0 if self._shielded else None,
        )

    def _use(self, process: subprocess.Popen[bytes] | ForkProcess) -> None:
        self._process = process
        self._requests, self._answers = cast(BinaryIO, process.stdin), cast(BinaryIO, process.stdout)

    @property
    def held(self) -> tuple[Held, ...]:
        if self._held is None:
            with self._lock:
                ready = json.loads(self._ready())
                locked = (Held.CALLS, Held.FILES) if ready["sandbox"] is True else ()
                self._first = int(ready["process"])  # where the agent runs; it may be one that this one has started
                self._held = (*locked, *((Held.PROCESSES, Held.ROOT) if ready["namespace"] is True else ()))
        return self._held

    def _ready(self) -> bytes:
        try:
            return self._in_time(lambda: self._answer(FrameKind.READY))
        except AgentFailedError as error:
            if error.kind != "ProcessEnded" or not isinstance(self._process, ForkProcess):
                raise
        self._close_pipes()
        self._use(self._started())  # before any code of the agent was loaded; a forked one may not be locked in
        return self._in_time(lambda: self._answer(FrameKind.READY))

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def identity(self, **configured: Unpack[AgentSetup]) -> tuple[Identity, bool]:
        """Return the agent's stated identity, and whether it decides message by message; it can't state its causality."""
        stated = self._request(None, FrameKind.IDENTITY, {"configured": configured})
        return identity_in(stated), by_message_in(stated)

    def decisions(self, tape: Tape, **configured: Unpack[AgentSetup]) -> pl.DataFrame:
        most = most_decisions(tape)
        return decisions_in(self._request(tape, FrameKind.DECISIONS, {"configured": configured}, most_bytes(most)), most)

    def followed(
        self, messages: Sequence[Message], fixtures: Sequence[tuple[int, int | None]], **configured: Unpack[AgentSetup]
    ) -> Sequence[Decision]:
        rows = [tuple(message) for message in messages]
        request: Request = {"configured": configured, "messages": rows, "fixtures": list(fixtures)}
        most = len(messages) * MAX_AT_MESSAGE
        answer = self._request(None, FrameKind.DECISIONS, request, most_bytes(most))
        return list(decisions_in(answer, most).select(*DECISION_COLUMNS).iter_rows()) if answer else []

    def stepped(self, tape: Tape, **configured: Unpack[AgentSetup]) -> list[Decision]:
        """Return the agent's decisions at each message, sent after its answer to the one before."""
        most, decided = most_decisions(tape), list[Decision]()
        walk = steps(tape)
        first = list(islice(walk, 1))  # before any code of the agent runs: how long that takes tells how long the tape is
        self._request(None, FrameKind.STEP, {"configured": configured, "steps": True})

        is_due, before = ReportClock(), self._answered
        ends = fixture_ends(tape) if is_heard() and not self.silent else []

        def talk() -> bytes:
            size = 0
            with _on_one_core(self._first):
                for at, step in chain(first, walk):
                    if answer := self._step(step):
                        size += len(answer)
                        decided.extend(answered(answer, at))
                        if len(decided) > most or size > most_bytes(most):
                            raise self._garbled(f"{len(decided):,} decisions in {size:,} bytes, more than there can be")
                    if ends and is_due():
                        self._progressed(bisect_right(ends, self._answered - before), len(ends))
                return self._step(b"")

        with self._lock:
            self._in_time(talk, lambda: self._answered)
        return decided

    def _step(self, step: bytes) -> bytes:
        try:
            write_step(self._requests, step)
            head = read_head(self._answers)
        except (BrokenPipeError, EOFError) as error:
            raise self._ended() from error
        answer = b"" if head == NO_STEP else self._answer(FrameKind.STEP, head=head)
        self._answered += 1
        return answer

    @staticmethod
    def _progressed(done: int, total: int) -> None:
        report("fixtures decided", min(done, total), total)

    def end(self) -> None:
        """End the process; what it is asked fails."""
        self._process.kill()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._talk is not None:
            self._talk.join(_PATIENCE_S)
        self._left = True
        if self._talk is None or not self._talk.is_alive():
            self._close_pipes()
        self._folder.close()

    def _close_pipes(self) -> None:
        for pipe in (self._requests, self._answers):
            try:
                pipe.close()
            except BrokenPipeError:  # the rest is not needed any more
                continue

    def _request(self, tape: Tape | None, kind: FrameKind, request: Request, limit: int = _MAX_JSON) -> bytes:
        """Send a request and return its answer of at most ``limit`` bytes; a process without an answer is not used again."""
        _ = self.held  # nothing is sent before the process is locked in
        self.has_seen |= kind is not FrameKind.IDENTITY
        with self._lock:
            self._printed = 0
            request["tape"] = None if tape is None else str(self._handed(tape))
            request["progress"] = is_heard() and not self.silent
            if not self._loaded:
                make_resident(self._limits.reads)  # again: memory may have been short since
                request |= {"code": self._code.content, "file": self._code.file}

            def exchange() -> bytes:
                try:
                    write_frame(self._requests, FrameKind.ASK, pickle.dumps(request))
                except BrokenPipeError as error:
                    raise self._ended() from error
                return self._answer(kind, limit)

            answer = self._in_time(exchange)
            self._loaded = True
            return answer

    def _handed(self, tape: Tape) -> Path:
        if self._written is not None and self._written[0]() is tape:
            return self._written[1]
        folder = Path(tempfile.mkdtemp(dir=self._folder.path))
        write_tape(tape, folder)
        if self._written is not None:
            for file in self._written[1].iterdir():
                file.unlink()
        self._written = ref(tape), folder
        return folder

    def _answer(self, kind: FrameKind, limit: int = _MAX_JSON, head: bytes | None = None) -> bytes:
        limits = _LIMITS | {kind: limit}
        while True:
            try:
                found, data = read_frame(self._answers, limits, head)
                head = None
            except EOFError as error:
                raise self._ended() from error
            except FrameError as error:
                raise self._garbled(str(error)) from error
            if found in (FrameKind.OUT, FrameKind.ERR):
                self._printed += len(data)
                if self._printed <= _MAX_PRINTED and not self.silent:
                    (sys.stdout if found is FrameKind.OUT else sys.stderr).write(printable(data.decode(errors="replace")))
            elif found is FrameKind.FAILURE:
                raise failure_in(data)
            elif found is kind:
                return data
            elif found is FrameKind.PROGRESS and len(data) == PROGRESS.size:
                self._progressed(*PROGRESS.unpack(data))
            else:
                raise self._garbled(f"{found.name} where {kind.name} was due")

    def _in_time(self, talk: Callable[[], bytes], answers: Callable[[], int] = lambda: 0) -> bytes:
        """Talk with the process in a thread that is abandoned when the time is up, unless there were ``answers`` meanwhile."""
        done: Future[bytes] = Future()

        def run() -> None:
            try:
                done.set_result(talk())
            except BaseException as error:  # noqa: BLE001  it is raised where the answer is awaited
                done.set_exception(error)
            # A process that the agent started may outlive it where it is not sandboxed, and keep its pipes open.
            if self._left:  # a pipe that is waited for can't be closed
                self._close_pipes()

        self._talk = Thread(target=copy_context().run, args=(run,), daemon=True)
        self._talk.start()
        try:
            while True:
                before = answers()
                wait([done], self._limits.timeout_s)
                if done.done():
                    return done.result()
                if answers() == before:
                    self._process.kill()
                    what = f"it gave no answer in {self._limits.timeout_s:g} s and was ended"
                    raise AgentFailedError("TimedOut", what)
        except AgentFailedError as error:
            if error.kind in ("ProcessEnded", "GarbledAnswer"):
                self._process.kill()
            raise
        except KeyboardInterrupt:
            self._process.kill()  # its answer to this request must not become the next one's
            raise

    def _ended(self) -> AgentFailedError:
        with suppress(subprocess.TimeoutExpired):  # the process that waits for the agent's ends after it
            self._process.wait(_PATIENCE_S)
        self._process.kill()  # it may have closed its pipes, and live
        return AgentFailedError("ProcessEnded", f"its process ended with status {self._process.wait()}")

    def _garbled(self, detail: str) -> AgentFailedError:
        return AgentFailedError("GarbledAnswer", f"its process answered with {detail}")


@contextmanager
def _on_one_core(process: int) -> Iterator[None]:
    """Keep this thread and a process's first one on one core, where a message takes a tenth of the time."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    own = os.sched_getaffinity(0)
    core = {ctypes.CDLL(None).sched_getcpu()} & own or {min(own)}
    try:
        os.sched_setaffinity(process, core)
        os.sched_setaffinity(0, core)
    except OSError:  # it has ended; its missing answer will show that
        yield
        return
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def _environment(*, network: bool) -> dict[str, str]:
    """Return the environment of an agent; one with network access gets ours too, as it may need keys."""
    kept = os.environ if network else {}
    if sys.platform == "win32":
        kept = {name: os.environ[name] for name in _OF_WINDOWS if name in os.environ} | dict(kept)
    user_site = {"PYTHONUSERBASE": site.getuserbase()} if uses_user_site() else {"PYTHONNOUSERSITE": "1"}
    threads = min(pl.thread_pool_size(), os.cpu_count() or 1)  # one of several processes may have few
    known = {"PYTHONPATH": str(CLVLAB.parent), "POLARS_MAX_THREADS": str(threads)}
    libraries = str(sysconfig.get_config_var("LIBDIR"))
    if libraries in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):  # the interpreter itself may lie there
        known["LD_LIBRARY_PATH"] = libraries
    return _ENVIRONMENT | dict(kept) | user_site | known | {"PYTHONHASHSEED": "0"}
