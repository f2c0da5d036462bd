"""``isolated``: a user's agent as the engine sees it, with processes that run its code."""

from __future__ import annotations

import atexit
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import polars as pl

from clvlab.agents.coercion import as_agent
from clvlab.agents.isolation.code import Code, code_in_file, code_of
from clvlab.agents.isolation.frames import AgentSetup
from clvlab.agents.isolation.limits import ProcessLimits
from clvlab.agents.isolation.process import AgentProcess
from clvlab.agents.template import Params
from clvlab.engine.agent import Agent, Identity, ProcessAgent, register
from clvlab.engine.live import Follower
from clvlab.errors import AgentError
from clvlab.law.actions import Decision, decisions_of
from clvlab.law.message import Message
from clvlab.law.schema import LOCKED_IN, Causality
from clvlab.law.tape import Tape

_MAX_WARM = 4
_LIVE_TIMEOUT_S = 30.0
_Key = tuple[Code, ProcessLimits, str | None]
_RUNNING: dict[AgentProcess, IsolatedAgent] = {}  # processes of their own, until their contexts end


@dataclass(frozen=True, eq=False)
class IsolatedAgent(ProcessAgent):
    """An agent whose code runs in processes of its own; made by ``clvlab.isolated()``.

    Attributes
    ----------
    code, limits
        Code and limits of the processes.
    params
        Parameters of a strategy that differ from its defaults.
    agent_id
        Name of the agent, where it is not its own.
    sealed
        Config of a sealed run that is repeated; then ``params`` is empty.
    stepped
        Whether it gets the tape step by step, or by blocks of messages if it decides over frames.
    scope
        Name of the fixtures that a kept process sees: a process of another scope has not seen them.
    """

    code: Code
    limits: ProcessLimits
    params: Params = field(default_factory=dict)
    agent_id: str | None = None
    sealed: Params | None = None
    scope: str | None = None
    stepped: bool = False

    def __init_subclass__(cls) -> None:
        """Refuse a subclass, whose methods would run in this process and be trusted."""
        raise AgentError(f"{cls.__name__} can't extend IsolatedAgent: give the agent to clvlab.isolated(...)")

    @property
    def identity(self) -> Identity:
        """Identity that the agent states, with its source, readable files and network as known here."""
        return self._stated[0]

    @property
    def steps(self) -> bool:
        return self.stepped and self._stated[1]

    @property
    def blocks(self) -> bool:
        return self.stepped and not self._stated[1]

    @cached_property
    def _stated(self) -> tuple[Identity, bool]:
        with _WARM.process(self.code, self.limits, self.scope) as process:
            (stated, by_message), held = process.identity(**self.configured), process.held
        reads, network = self.limits.digests(), self.limits.network
        return replace(stated, source_sha256=self.code.source_sha256, reads=reads, network=network, held=held), by_message

    @cached_property
    def audited(self) -> Causality:
        locked_in = set(self.identity.held) >= LOCKED_IN
        if self.stepped and not locked_in:
            raise AgentError("step by step an agent is asked only where the system can lock its process in, as this one can't")
        if self.stepped:
            return Causality.STEPPED if self.steps else Causality.STEPPED_BLOCKS
        return Causality.AUDITED_SANDBOX if locked_in else Causality.AUDITED_PROCESS

    def answer_of(self, process: AgentProcess, tape: Tape) -> pl.DataFrame:
        """Return a process's decisions over a tape, all at once or step by step."""
        if not self.steps:
            return process.decisions(tape, **self.configured)
        return decisions_of(process.stepped(tape, **self.configured), self.identity.agent_id)

    def decide(self, tape: Tape) -> pl.DataFrame:
        """Return ``DECISIONS`` of a kept process, which may remember earlier tapes of its scope: never sealed."""
        with _WARM.process(self.code, self.limits, self.scope) as process:
            return self.answer_of(process, tape)

    @contextmanager
    def fresh(self, *, silent: bool = False, grows: bool = False) -> Iterator[Agent]:
        _WARM.end_those_that_saw()
        with self._alone(AgentProcess(self.code, self.limits, silent=silent, grows=grows)) as process:
            yield _Fresh(process, self)

    @contextmanager
    def following(self, fixtures: pl.DataFrame) -> Iterator[Follower]:
        """Follow messages with a process of its own, as they come."""
        # A slow agent holds up all agents of the run, so its time is short. An interrupt must not reach it: its death would be
        # sealed as its own failure.
        hurried = replace(self.limits, timeout_s=min(self.limits.timeout_s, _LIVE_TIMEOUT_S))
        with self._alone(AgentProcess(self.code, hurried, shielded=True)) as process:
            process.identity(**self.configured)  # loads its code: no message waits for that
            yield _LiveProcess(process, self.configured, list(fixtures.iter_rows()))

    def end(self) -> None:
        for process in [process for process, agent in list(_RUNNING.items()) if agent is self]:
            process.end()

    @contextmanager
    def _alone(self, process: AgentProcess) -> Iterator[AgentProcess]:
        """End a process with the context, in which no file that it may read has changed."""
        _RUNNING[process] = self
        try:
            yield process
        finally:
            del _RUNNING[process]
            process.close()
        if self.limits.digests() != self.identity.reads:
            raise AgentError("a file that the agent may read changed while it was asked: ask again")

    def check_held(self, process: AgentProcess) -> None:
        """Require a process to be sandboxed like the first one."""
        if process.held != self.identity.held:
            raise AgentError("two processes of one agent are locked in differently: ask again")

    def __repr__(self) -> str:
        where = "of this session" if self.code.file is None else ":".join(self.code.file)
        return f"Isolated agent {where}; next: clvlab.backtest(pack, agent)"

    def with_params(self, agent_id: str | None = None, **params: Any) -> IsolatedAgent:
        """Return the same agent with other values of its parameters; its process says whether it has them."""
        return register(replace(self, agent_id=agent_id or self.agent_id, params=dict(self.params) | params))

    def as_sealed(self, agent_id: str, config: Mapping[str, Any]) -> IsolatedAgent:
        """Return the same agent under the name and with the parameters of a sealed run."""
        return register(replace(self, agent_id=agent_id, params={}, sealed=config))

    @property
    def configured(self) -> AgentSetup:
        """Configuration that a process gets with every request."""
        return {"params": dict(self.params), "agent_id": self.agent_id, "sealed": self.sealed}


@dataclass(frozen=True)
class _Fresh:
    process: AgentProcess
    agent: IsolatedAgent

    @cached_property
    def identity(self) -> Identity:
        return self.agent.identity

    def decide(self, tape: Tape) -> pl.DataFrame:
        self.agent.check_held(self.process)
        return self.agent.answer_of(self.process, tape)


@dataclass(frozen=True)
class _LiveProcess:
    process: AgentProcess
    configured: AgentSetup
    fixtures: Sequence[tuple[int, int | None]]

    def take(self, message: Message) -> Sequence[Decision]:
        return self.process.followed([message], self.fixtures, **self.configured)


class _WarmProcesses:
    """A few kept processes, since starting one takes longer than most answers."""

    def __init__(self) -> None:
        self._kept: OrderedDict[_Key, AgentProcess] = OrderedDict()
        self._lent: Counter[_Key] = Counter()
        self._lock = Lock()

    @contextmanager
    def process(self, code: Code, limits: ProcessLimits, scope: str | None = None) -> Iterator[AgentProcess]:
        key = code, limits, scope
        with self._lock:
            process = self._kept.pop(key, None)
            if process is not None and not process.alive:
                process.close()
                process = None
            self._kept[key] = process = process or AgentProcess(code, limits)
            self._lent[key] += 1
            for idle in [other for other in self._kept if not self._lent[other]][: max(0, len(self._kept) - _MAX_WARM)]:
                self._kept.pop(idle).close()
        try:
            yield process
        finally:
            with self._lock:
                self._lent[key] -= 1

    def end_those_that_saw(self) -> None:
        """End the free processes that know a tape, as they could signal it to a process that has seen less."""
        with self._lock:
            for key in [key for key, process in self._kept.items() if process.has_seen and not self._lent[key]]:
                self._kept.pop(key).close()

    def close(self) -> None:
        with self._lock:
            while self._kept:
                self._kept.popitem()[1].close()


_WARM = _WarmProcesses()
atexit.register(_WARM.close)


def isolated(
    agent: object,
    *,
    params: Mapping[str, Any] | None = None,
    reads: Sequence[str | Path] = (),
    network: bool = False,
    stepped: bool = False,
    memory_mb: int | None = None,
    timeout_s: float | None = None,
) -> IsolatedAgent:
    """Return a user's agent with limits other than the default ones; without this call an agent is isolated too.

    Its code runs in processes that can't write or connect, and read only Python's own files and the tape, where the
    system can sandbox them so (Linux with Landlock and seccomp); elsewhere in plain processes. The label ``causality`` in a run
    says which.

    Parameters
    ----------
    agent
        A function under ``@clvlab.strategy``, or a plain one of ``ticks``; a ``clvlab.TickAgent``; any other object with
        ``identity`` and ``decide``; or ``file.py:name`` of one of these.
    params
        Parameters of a strategy that differ from its defaults.
    reads
        Files that it may read besides its tape, such as a model; their names and hashes are sealed.
    network
        Whether it may connect to a network, for example to use a model; sealed too.
    stepped
        Whether a ``clvlab.TickAgent`` gets each message only after its answer to the one before, which needs no audit. Any
        other agent gets blocks of messages, cut where it could not know. Only where the system can sandbox it.
    memory_mb, timeout_s
        Limits of a process and of each of its answers; ``CLVLAB_AGENT_MEMORY_MB`` (8192) and ``CLVLAB_AGENT_TIMEOUT_S`` (600)
        by default.

    Raises
    ------
    UnknownAgentError
        There is no such file.
    AgentError
        The object can't be pickled, or a limit is out of its range.

    Examples
    --------
    >>> import clvlab as cl, polars as pl
    >>> @cl.strategy
    ... def favourites(ticks):
    ...     return ticks.filter(pl.col("prob_bps") >= 6000).unique("series", keep="first", maintain_order=True)
    >>> cl.backtest("starter", cl.isolated(favourites, timeout_s=30)).run.verify().passed
    True
    """
    limits = ProcessLimits.of(memory_mb, timeout_s, reads, network=network)
    if isinstance(agent, IsolatedAgent):
        return register(
            replace(agent, limits=limits, params=dict(agent.params) | dict(params or {}), stepped=stepped or agent.stepped)
        )
    if isinstance(agent, str):
        path, colon, name = agent.rpartition(":")
        if not colon or not path.endswith(".py"):
            raise AgentError(f"an agent in a file is named as file.py:name, not {agent!r}; a template needs no isolation")
        return register(IsolatedAgent(code_in_file(path, name), limits, dict(params or {}), stepped=stepped))
    return register(IsolatedAgent(code_of(as_agent(agent)), limits, dict(params or {}), stepped=stepped))


def step_by_step(agent: object) -> IsolatedAgent:
    own = agent if isinstance(agent, IsolatedAgent) else isolated(agent)
    return register(replace(own, stepped=True))


def code_name(agent: Agent) -> str | None:
    """Return an identifier of an agent's code; ``None`` for a template."""
    # Agents without a sealed source count as different ones, or many trials would count as one.
    return agent.code.name if isinstance(agent, IsolatedAgent) else agent.identity.source_sha256
