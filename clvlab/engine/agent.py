"""What the engine asks of an agent, and whose code it asks where."""

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
# The objects that clvlab itself made, by identity: what an object says of itself counts for nothing.
_REGISTERED: WeakValueDictionary[int, Agent] = WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class Identity:
    """Who an agent is, as it stands in RUN_STARTED.

    Attributes
    ----------
    config
        Parameters with defaults filled in; JSON values, fractions as floats (they are sealed as decimal text).
    causality
        How it was shown that no decision used a later tick: a ``Causality``, which the engine finds out and no agent declares.
    source_sha256
        Digest of a user agent's source; null for templates, which their version names.
    reads
        Name and SHA-256 of each file that the agent could read beside its tape.
    network
        Whether the agent could reach a network.
    held
        What the system kept of its process; empty of a template.
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
        """Whether the agent is shown what each book says beside the consensus, as its config states."""
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
    """A proposer: sees a tape, returns decisions."""

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
        """What an audit of these processes shows: how far they are locked in."""

    @property
    @abstractmethod
    def steps(self) -> bool:
        """Whether its process gets each message after its answer to the one before, which needs no audit."""

    @property
    @abstractmethod
    def blocks(self) -> bool:
        """Whether it is asked by blocks of messages, where it is audited at all."""

    @abstractmethod
    def decide(self, tape: Tape) -> pl.DataFrame:
        """Return ``DECISIONS`` over the tape, of a process that may have been asked before."""

    @abstractmethod
    def fresh(self, *, silent: bool = False, grows: bool = False) -> AbstractContextManager[Agent]:
        """Start a process that has seen nothing; it ends with the context.

        ``silent`` drops what it prints; ``grows`` says that each tape it will be asked about begins with the one before.
        """


def register(agent: A) -> A:
    """Note that clvlab made this object: of a template, whose code is clvlab's own, or of an isolated agent.

    The engine calls no other object.
    """
    _REGISTERED[id(agent)] = agent
    return agent


def is_registered(agent: object) -> bool:
    """Whether clvlab made this object."""
    return _REGISTERED.get(id(agent)) is agent


def identify(agent: Agent, *, audit: bool) -> Identity:
    """Return an agent's identity with the causality that a run will seal, whatever it declares.

    Parameters
    ----------
    agent
        A template, or an isolated agent.
    audit
        Whether an isolated agent is audited for look-ahead before the run is sealed.

    Raises
    ------
    AgentError
        An object that clvlab did not make: its code would run in the process that scores.
    """
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
    """Return an agent that has seen nothing: a process of its own, or a template, which keeps nothing."""
    return agent.fresh(silent=silent, grows=grows) if isinstance(agent, ProcessAgent) else nullcontext(agent)


def sealable(identity: Identity) -> dict[str, Any]:
    """Return the config of an identity as it is sealed, fractions as decimal text.

    Raises
    ------
    AgentError
        It has no canonical form.
    """
    try:
        config: dict[str, Any] = without_floats(identity.config)
        canonical(config)
    except EvidenceError as error:
        raise AgentError(f"the config of agent {identity.agent_id!r} can't be sealed: {error}") from error
    return config


def decisions_of(agent: Agent, tape: Tape) -> pl.DataFrame:
    """Return ``DECISIONS`` of an agent as checked by the law; what it does to the frames of the tape does not reach them.

    It sees kickoffs as they were announced: one that was known only afterwards would tell it when the window ends.

    Raises
    ------
    SchemaError, DecisionError
        It returned no frame, or decisions that can't be sealed.
    """
    return check_decisions(unchecked_decisions(agent, tape))


def unchecked_decisions(agent: Agent, tape: Tape) -> pl.DataFrame:
    """Return what an agent decides, of the types of ``DECISIONS``; for comparisons with what was checked.

    Raises
    ------
    AgentError
        It asks for what each book says, which the tape does not have.
    """
    fixtures, asks = tape.fixtures if tape.announced is None else tape.announced, agent.identity.asks_for_books
    if asks and tape.books is None:
        raise AgentError(
            f"agent {agent.identity.agent_id!r} asks for books, and pack {tape.binding.pack_id!r} has the consensus alone: "
            "import it with books=True"
        )
    own = replace(
        tape, rows=tape.rows.clone(), series=tape.series.clone(), fixtures=fixtures.clone(), announced=None,
        books=tape.books if asks else None,
    )  # fmt: skip
    decided: object = agent.decide(own)
    if not isinstance(decided, pl.DataFrame):
        raise DecisionError(f"an agent must return a polars DataFrame, not {type(decided).__name__}")
    return conform(decided, DECISIONS, "DECISIONS")
