"""Agents as the engine sees them, and the process in which each one's code runs."""

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
# Objects that clvlab itself made, by identity: an object could claim anything about itself, and its code would run here.
_REGISTERED: WeakValueDictionary[int, Agent] = WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of an agent, as sealed in RUN_STARTED.

    Attributes
    ----------
    config
        Parameters with defaults filled in; JSON values, fractions as floats (they are sealed as decimal text).
    causality
        How it was shown that no decision used a later tick; the engine finds it out, and no agent declares it.
    source_sha256
        Digest of a user agent's source; ``None`` for templates, which their version identifies.
    reads
        Name and SHA-256 of each file that the agent could read, apart from its tape.
    network
        Whether the agent could reach a network.
    held
        Resources that the system kept from its process; empty for a template.
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
        """Whether the agent is shown each book's quotes as well as the consensus, as its config states."""
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
    """A strategy: reads a tape, returns decisions."""

    @property
    def identity(self) -> Identity: ...

    def decide(self, tape: Tape) -> pl.DataFrame:
        """Return ``DECISIONS`` over the tape; a decision at a tick may use that tick and earlier ones only."""
        ...


class ProcessAgent(ABC):
    """An agent whose code runs in processes of its own, never in this one."""

    @property
    @abstractmethod
    def identity(self) -> Identity: ...

    @property
    @abstractmethod
    def audited(self) -> Causality:
        """Causality that an audit of these processes shows: how far they are sandboxed."""

    @property
    @abstractmethod
    def steps(self) -> bool:
        """Whether its process gets each message only after its answer to the one before, which needs no audit."""

    @property
    @abstractmethod
    def blocks(self) -> bool:
        """Whether an audit replays blocks of messages."""

    @abstractmethod
    def decide(self, tape: Tape) -> pl.DataFrame:
        """Return ``DECISIONS`` over the tape, from a process that may have been used before."""

    @abstractmethod
    def fresh(self, *, silent: bool = False, grows: bool = False) -> AbstractContextManager[Agent]:
        """Start a process that has seen nothing; it ends with the context.

        ``silent`` drops its output; ``grows`` says that each tape begins with the one before.
        """


def register(agent: A) -> A:
    """Record that clvlab made this object, a template or an isolated agent; the engine calls no other."""
    _REGISTERED[id(agent)] = agent
    return agent


def is_registered(agent: object) -> bool:
    return _REGISTERED.get(id(agent)) is agent


def identify(agent: Agent, *, audit: bool) -> Identity:
    """Return an agent's identity with the causality to seal, or raise ``AgentError`` for an object that clvlab did not make."""
    if not is_registered(agent):
        raise AgentError(
            f"{type(agent).__name__} is code of your own, which never runs where runs are scored and sealed: "
            "give it to clvlab.isolated(...)"
        )
    identity = agent.identity
    if not isinstance(agent, ProcessAgent):
        repeats = identity.causality == Causality.TRANSCRIPT
        return replace(identity, causality=Causality.TRANSCRIPT if repeats else Causality.TEMPLATE)
    return replace(identity, causality=agent.audited if audit or agent.steps else Causality.UNCHECKED)


def fresh(agent: Agent, *, silent: bool = False, grows: bool = False) -> AbstractContextManager[Agent]:
    """Return an agent that has seen nothing: a new process, or a template, which keeps no state."""
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
    """Return an agent's ``DECISIONS``, checked by the law; changes it makes to the tape's frames do not reach them."""
    return check_decisions(unchecked_decisions(agent, tape))


def unchecked_decisions(agent: Agent, tape: Tape) -> pl.DataFrame:
    """Return an agent's decisions with the types of ``DECISIONS``; ``AgentError`` if it needs books that the tape lacks."""
    fixtures, asks = tape.fixtures if tape.announced is None else tape.announced, agent.identity.asks_for_books
    if asks and tape.books is None:
        raise AgentError(
            f"agent {agent.identity.agent_id!r} asks for books, and pack {tape.binding.pack_id!r} has the consensus alone: "
            "import it with books=True"
        )
    # Frames are cloned, so that an agent can't change the prices that it is scored by.
    # Agents see kickoffs as announced: one that was known only afterwards would tell them when the window ends.
    own = replace(
        tape, rows=tape.rows.clone(), series=tape.series.clone(), fixtures=fixtures.clone(), announced=None,
        books=tape.books if asks else None,
    )  # fmt: skip
    decided: object = agent.decide(own)
    if not isinstance(decided, pl.DataFrame):
        raise DecisionError(f"an agent must return a polars DataFrame, not {type(decided).__name__}")
    return conform(decided, DECISIONS, "DECISIONS")
