"""A process of an agent, as its parent sees it: what it says is a claim, and nothing of it is unpickled or run here."""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import site
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
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
from clvlab.agents.isolation.frames import (
    NO_STEP,
    AgentSetup,
    FrameError,
    FrameKind,
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
    """Read an identity: the names and the config that the agent states.

    Raises
    ------
    AgentError
        They can't stand in a run.
    """
    try:
        stated = json.loads(data)
        names = ("agent_id", "strategy", "strategy_version", "proof_mode", "config")
        identity = Identity(**{name: stated[name] for name in names})
        sealable(identity)  # also as deep as a stack allows
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise AgentError(f"the agent's process stated no identity: {error!r:.300}") from error
    return identity


def by_message_in(data: bytes) -> bool:
    """Read from an identity whether the agent says that it decides message by message; asked so, it can't do otherwise."""
    return json.loads(data).get("by_message") is True


def decisions_in(data: bytes, most: int) -> pl.DataFrame:
    """Read ``DECISIONS``, so many at most; their values are for the law to check.

    Raises
    ------
    AgentFailedError
        The bytes are no frame of these columns, or too much for what was asked.
    """
    try:
        return frame_in(data, most)
    except (pa.ArrowException, pl.exceptions.PolarsError, ValueError, OverflowError) as error:
        raise AgentFailedError("GarbledAnswer", f"its process answered with no decisions: {error!s:.300}") from error


def failure_in(data: bytes) -> ClvlabError:
    """Read why an agent failed; an error of ours keeps its class, any other is ``AgentFailedError``."""
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
    """Spell out what would steer a terminal, or can't be encoded: an agent may not overwrite what others print."""
    return "".join(char if char.isprintable() or char in "\n\r\t" else repr(char)[1:-1] for char in text)


_WORKER = "clvlab.agents.isolation.worker"
_MAX_JSON = 1 << 20  # which takes some twenty times as much memory
_LIMITS = dict.fromkeys(FrameKind, _MAX_JSON)
_MAX_PRINTED = 1 << 20  # for each question, all its steps together
_PATIENCE_S = 1
# All that an agent finds in its environment, as variables of ours are input that no seal names.
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
    """A process that runs one agent's code; asked by one thread at a time.

    Parameters
    ----------
    code
        What it loads.
    limits
        What it may use.
    silent
        Whether what it prints is dropped.
    grows
        Whether each tape that it is asked about begins with the one before.
    shielded
        Whether Ctrl-C in the terminal, and an interrupt of a notebook, which reach a group of processes, do not reach it.

    Attributes
    ----------
    held
        What the system keeps of it: it said so before it loaded any code of the agent.
    has_seen
        Whether it was asked about a tape.
    """

    def __init__(
        self, code: Code, limits: ProcessLimits, *, silent: bool = False, grows: bool = False, shielded: bool = False
    ) -> None:
        self._code, self._limits = code, limits
        self._folder = tempfile.TemporaryDirectory(prefix="clvlab-agent-")
        self._lock, self._loaded = Lock(), False
        self._talk: Thread | None = None
        self._left = self.has_seen = False
        self.silent = silent
        self._written: tuple[ref[Tape], Path] | None = None
        settings = {
            "grows": grows,
            "folder": str(Path(self._folder.name).resolve()),
            "memory_mb": limits.memory_mb,
            "network": limits.network,
            "reads": [str(path) for path in (*limits.reads, *limits.named)],
        }
        # -P: a file of the agent's folder must not stand in for a library.
        self._process = subprocess.Popen(  # noqa: S603  this interpreter and a module of ours
            [sys.executable, "-P", "-m", _WORKER, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(network=limits.network),
            process_group=0 if shielded else None,
        )
        begin_resident(limits.reads)  # while the process starts
        self._requests, self._answers = cast(BinaryIO, self._process.stdin), cast(BinaryIO, self._process.stdout)
        self._held: tuple[Held, ...] | None = None
        self._first = self._process.pid  # where the agent runs; it may be one that this one has started
        self._answered = self._printed = 0

    @property
    def held(self) -> tuple[Held, ...]:
        if self._held is None:
            with self._lock:
                ready = json.loads(self._in_time(lambda: self._answer(FrameKind.READY)))
                locked = (Held.CALLS, Held.FILES) if ready["sandbox"] is True else ()
                self._first = int(ready["process"])
                self._held = (*locked, *((Held.PROCESSES, Held.ROOT) if ready["namespace"] is True else ()))
        return self._held

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def identity(self, **configured: Unpack[AgentSetup]) -> tuple[Identity, bool]:
        """Return who the agent says it is, and whether it decides message by message; causality is not its to say."""
        stated = self._asked(None, FrameKind.IDENTITY, {"configured": configured})
        return identity_in(stated), by_message_in(stated)

    def decisions(self, tape: Tape, **configured: Unpack[AgentSetup]) -> pl.DataFrame:
        """Return what the agent decides over a tape, of the types of ``DECISIONS`` and not yet checked further."""
        most = most_decisions(tape)
        return decisions_in(self._asked(tape, FrameKind.DECISIONS, {"configured": configured}, most_bytes(most)), most)

    def followed(
        self, messages: Sequence[Message], fixtures: Sequence[tuple[int, int | None]], **configured: Unpack[AgentSetup]
    ) -> Sequence[Decision]:
        """Return what the agent decides at messages, which follow all that it was told before; not yet checked further."""
        told = [tuple(message) for message in messages]
        request: Request = {"configured": configured, "messages": told, "fixtures": list(fixtures)}
        most = len(messages) * MAX_AT_MESSAGE
        answer = self._asked(None, FrameKind.DECISIONS, request, most_bytes(most))
        return list(decisions_in(answer, most).select(*DECISION_COLUMNS).iter_rows()) if answer else []

    def stepped(self, tape: Tape, **configured: Unpack[AgentSetup]) -> list[Decision]:
        """Return what the agent decides at each message of a tape, of which it gets one after its answer to the one before.

        Nothing else of the tape is where the process could read it, and what it answers counts at that message alone.
        """
        most, decided = most_decisions(tape), list[Decision]()
        walk = steps(tape)
        first = list(islice(walk, 1))  # before any code of the agent runs: how long that takes tells how long the tape is
        self._asked(None, FrameKind.STEP, {"configured": configured, "steps": True})

        def talk() -> bytes:
            size = 0
            with _on_one_core(self._first):
                for at, step in chain(first, walk):
                    if answer := self._step(step):
                        size += len(answer)
                        decided.extend(answered(answer, at))
                        if len(decided) > most or size > most_bytes(most):
                            raise self._garbled(f"{len(decided):,} decisions in {size:,} bytes, more than there can be")
                return self._step(b"")

        with self._lock:
            self._in_time(talk, lambda: self._answered)
        return decided

    def _step(self, step: bytes) -> bytes:
        """Send one step and wait for the answer to it."""
        try:
            write_step(self._requests, step)
            head = read_head(self._answers)
        except (BrokenPipeError, EOFError) as error:
            raise self._ended() from error
        answer = b"" if head == NO_STEP else self._answer(FrameKind.STEP, head=head)
        self._answered += 1
        return answer

    def close(self) -> None:
        """End the process and remove what it was given."""
        self._process.kill()
        self._process.wait()
        if self._talk is not None:
            self._talk.join(_PATIENCE_S)
        self._left = True
        if self._talk is None or not self._talk.is_alive():
            self._close_pipes()
        self._folder.cleanup()

    def _close_pipes(self) -> None:
        for pipe in (self._requests, self._answers):
            try:
                pipe.close()
            except BrokenPipeError:  # what was not sent yet is not needed any more
                continue

    def _asked(self, tape: Tape | None, kind: FrameKind, request: Request, limit: int = _MAX_JSON) -> bytes:
        """Send a request and wait for its answer, of so many bytes at most; a process that gave none is not asked again."""
        _ = self.held  # nothing is sent before the process is locked in
        self.has_seen |= kind is not FrameKind.IDENTITY
        with self._lock:
            self._printed = 0
            request["tape"] = None if tape is None else str(self._handed(tape))
            if not self._loaded:
                make_resident(self._limits.reads)  # again: memory may have been short since
                request |= {"code": self._code.content, "file": self._code.file}

            def asked() -> bytes:
                try:
                    write_frame(self._requests, FrameKind.ASK, pickle.dumps(request))
                except BrokenPipeError as error:
                    raise self._ended() from error
                return self._answer(kind, limit)

            answer = self._in_time(asked)
            self._loaded = True
            return answer

    def _handed(self, tape: Tape) -> Path:
        """Write a tape where the process can read it; the same tape stays where it is."""
        if self._written is not None and self._written[0]() is tape:
            return self._written[1]
        folder = Path(tempfile.mkdtemp(dir=self._folder.name))
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
            else:
                raise self._garbled(f"{found.name} where {kind.name} was due")

    def _in_time(self, talk: Callable[[], bytes], answers: Callable[[], int] = lambda: 0) -> bytes:
        """Talk with the process in a thread that is left alone when the time is up, unless there were ``answers`` meanwhile.

        What the process has started may outlive it, where it is not locked in, and keep its pipes open.
        """
        done: Future[bytes] = Future()

        def run() -> None:
            try:
                done.set_result(talk())
            except BaseException as error:  # noqa: BLE001  it is raised where the answer is awaited
                done.set_exception(error)
            if self._left:  # a pipe that is waited for can't be closed
                self._close_pipes()

        self._talk = Thread(target=run, daemon=True)
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
            self._process.kill()  # its answer to this question must not become that to the next
            raise

    def _ended(self) -> AgentFailedError:
        with suppress(subprocess.TimeoutExpired):  # what waits for the agent's process ends after it
            self._process.wait(_PATIENCE_S)
        self._process.kill()  # it may have closed its pipes, and live
        return AgentFailedError("ProcessEnded", f"its process ended with status {self._process.wait()}")

    def _garbled(self, detail: str) -> AgentFailedError:
        return AgentFailedError("GarbledAnswer", f"its process answered with {detail}")


@contextmanager
def _on_one_core(process: int) -> Iterator[None]:
    """Keep this thread and the first one of a process on one core, where a word takes a tenth of the time between two.

    It is the core that this thread runs on, which the system found idle enough.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    own = os.sched_getaffinity(0)
    core = {ctypes.CDLL(None).sched_getcpu()} & own or {min(own)}
    try:
        os.sched_setaffinity(process, core)
        os.sched_setaffinity(0, core)
    except OSError:  # it has ended, which its answer will tell
        yield
        return
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def _environment(*, network: bool) -> dict[str, str]:
    """Build the environment of an agent; one that may connect to anything has ours too, for it may need keys."""
    given = os.environ if network else {}
    if sys.platform == "win32":
        given = {name: os.environ[name] for name in _OF_WINDOWS if name in os.environ} | dict(given)
    user_site = {"PYTHONUSERBASE": site.getuserbase()} if uses_user_site() else {"PYTHONNOUSERSITE": "1"}
    threads = min(pl.thread_pool_size(), os.cpu_count() or 1)  # one of several processes may have few
    known = {"PYTHONPATH": str(CLVLAB.parent), "POLARS_MAX_THREADS": str(threads)}
    libraries = str(sysconfig.get_config_var("LIBDIR"))
    if libraries in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):  # the interpreter itself may lie there
        known["LD_LIBRARY_PATH"] = libraries
    return _ENVIRONMENT | dict(given) | user_site | known | {"PYTHONHASHSEED": "0"}
