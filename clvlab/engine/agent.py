"""Agents as the engine sees them, and the process that runs each agent's code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, runtime_checkable
from weakref import WeakValueDictionary

import polars as pl

from clvlab.errors import AgentError, DecisionError, EvidenceError
from clvlab.law.actions import MAX_NAME_BYTES, check_decisions
from clvlab.law.schema import DECISIONS, Causality, Held, conform
from clvlab.law.tape import Tape
from clvlab.proof.canonical import canonical, without_floats

A = TypeVar("A", bound="Agent")
# Objects that clvlab itself made, by identity. Any other object could claim to be one, and its code would run here.
_REGISTERED: WeakValueDictionary[int, Agent] = WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of an agent, as sealed in RUN_STARTED.

    Attributes
    ----------
    config
        Parameters as JSON values, with defaults filled in. Fractions are floats here and decimal text in a seal.
    causality
        Kind of proof that no decision used a later tick. The engine determines it, not the agent.
    source_sha256
        Digest of a user agent's source; ``None`` for a template, because its version identifies it.
    reads
        Name and SHA-256 of each file that the agent could read, apart from its tape.
    network
        Whether the agent could reach a network.
    held
        Resources that the system kept from the agent's process; empty for a template.
    """

    agent_id: str
    strategy: str
    strategy_version: str
    config: dict[str, Any] = field(default_factory=dict)
    proof_mode: str = "reproducible"
    causality: str = Causality.UNCHECKED
    source_sha256: str | None = None
    reads: tuple[tuple[str, str], ...] = ()
    network: bool = False
    held: tuple[Held, ...] = ()

    @property
    def asks_for_books(self) -> bool:
        """Whether the config states that the agent sees each book's quotes as well as the consensus."""
        return self.config.get("books") is True

    def __post_init__(self) -> None:
        texts = (
            self.agent_id,
            self.strategy,
            self.strategy_version,
            self.proof_mode,
            self.causality,
            self.source_sha256 or "-",
        )
        if not all(isinstance(text, str) and 1 <= len(text.encode(errors="replace")) <= MAX_NAME_BYTES for text in texts):
            raise AgentError(f"an agent's names must be texts of 1 to {MAX_NAME_BYTES} bytes: {texts!r:.300}")
        if not isinstance(self.config, dict):
            raise AgentError(f"the config of agent {self.agent_id!r} must be a dict, not {type(self.config).__name__}")
        if self.causality not in list(Causality):
            raise AgentError(f"unknown causality {self.causality!r:.80}: use one of {', '.join(Causality)}")


@runtime_checkable
class Agent(Protocol):
    """A strategy, which reads a tape and returns decisions."""

    @property
    def identity(self) -> Identity: ...

    def decide(self, tape: Tape) -> pl.DataFrame:
        """Return ``DECISIONS`` over the tape. A decision at a tick may use only that tick and earlier ticks."""
        ...


class ProcessAgent(ABC):
    """An agent whose code runs only in processes of its own."""

    @property
    @abstractmethod
    def identity(self) -> Identity: ...

    @property
    @abstractmethod
    def audited(self) -> Causality:
        """Causality to seal after an audit. It depends on how far the agent's processes are sandboxed."""

    @property
    @abstractmethod
    def steps(self) -> bool:
        """Whether its process gets each message only after its answer to the previous one. No audit is needed then."""

    @property
    @abstractmethod
    def blocks(self) -> bool:
        """Whether an audit replays blocks of messages."""

    @abstractmethod
    def decide(self, tape: Tape) -> pl.DataFrame:
        """Return ``DECISIONS`` over the tape. The process may have been used before."""

    @abstractmethod
    def end(self) -> None:
        """End the processes that ``fresh`` has started, so that their pending requests fail."""

    @abstractmethod
    def fresh(self, *, silent: bool = False, grows: bool = False) -> AbstractContextManager[Agent]:
        """Start a process without earlier data, which ends with the context.

        ``silent`` drops its output. ``grows`` says that each tape begins with the previous tape.
        """


def register(agent: A) -> A:
    """Record that clvlab made this object, a template or an isolated agent. The engine calls only such objects."""
    _REGISTERED[id(agent)] = agent
    return agent


def is_registered(agent: object) -> bool:
    return _REGISTERED.get(id(agent)) is agent


def identify(agent: Agent, *, audit: bool) -> Identity:
    """Return an agent's identity with the causality to seal; ``AgentError`` for an object that clvlab did not make."""
    if not is_registered(agent):
        raise AgentError(
            f"{type(agent).__name__} is code of your own, which never runs where runs are scored and sealed: "
            "give it to clvlab.isolated(...)"
        )
    identity = agent.identity
    if not isinstance(agent, ProcessAgent):
        keeps = identity.causality in (Causality.TRANSCRIPT, Causality.ASKED)
        return identity if keeps else replace(identity, causality=Causality.TEMPLATE)
    return replace(identity, causality=agent.audited if audit or agent.steps else Causality.UNCHECKED)


def fresh(agent: Agent, *, silent: bool = False, grows: bool = False) -> AbstractContextManager[Agent]:
    """Return an agent without earlier data: a new process, or the template itself, which keeps no state."""
    return agent.fresh(silent=silent, grows=grows) if isinstance(agent, ProcessAgent) else nullcontext(agent)


def sealable(identity: Identity) -> dict[str, Any]:
    """Return the config of an identity as it is sealed; ``AgentError`` if it has no canonical form."""
    try:
        config: dict[str, Any] = without_floats(identity.config)
        canonical(config)
    except EvidenceError as error:
        raise AgentError(f"the config of agent {identity.agent_id!r} can't be sealed: {error}") from error
    return config


def decisions_of(agent: Agent, tape: Tape) -> pl.DataFrame:
    """Return an agent's ``DECISIONS``, checked by the law. The agent gets clones of the tape's frames."""
    return check_decisions(unchecked_decisions(agent, tape))


def unchecked_decisions(agent: Agent, tape: Tape) -> pl.DataFrame:
    """Return an agent's decisions with the types of ``DECISIONS``; ``AgentError`` if it needs books that the tape lacks."""
    return decided_over(agent, seen_by(agent, tape))


def seen_by(agent: Agent, tape: Tape) -> Tape:
    """Return a tape as an agent sees it; ``AgentError`` if it needs books that the tape lacks."""
    fixtures, asks = tape.fixtures if tape.announced is None else tape.announced, agent.identity.asks_for_books
    if asks and tape.books is None:
        raise AgentError(
            f"agent {agent.identity.agent_id!r} asks for books, and pack {tape.binding.pack_id!r} has the consensus alone: "
            "import it with books=True"
        )
    # Frames are cloned, so an agent can't change the prices that score it.
    # Agents see announced kickoffs only, because a kickoff that became known later would reveal the end of the window.
    return replace(
        tape, rows=tape.rows.clone(), series=tape.series.clone(), fixtures=fixtures.clone(), announced=None,
        books=tape.books if asks else None,
    )  # fmt: skip


def decided_over(agent: Agent, seen: Tape) -> pl.DataFrame:
    """Return an agent's decisions over a tape as it sees it, with the types of ``DECISIONS``."""
    decided: object = agent.decide(seen)
    if not isinstance(decided, pl.DataFrame):
        raise DecisionError(f"an agent must return a polars DataFrame, not {type(decided).__name__}")
    return conform(decided, DECISIONS, "DECISIONS")
