"""What the engine asks of an agent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

import polars as pl

from clvlab.errors import AgentError, DecisionError
from clvlab.law.actions import MAX_NAME_BYTES, checked
from clvlab.law.schema import Causality
from clvlab.law.tape import Tape

__all__ = ["Agent", "Causality", "Identity", "asked", "causal", "identified"]


_Decide = TypeVar("_Decide", bound=Callable[..., Any])
_CAUSAL: dict[Any, Causality] = {}


def causal(how: Causality) -> Callable[[_Decide], _Decide]:
    """Mark a ``decide`` as causal without an audit. The mark goes with the function: a subclass with another has none."""

    def marked(decide: _Decide) -> _Decide:
        _CAUSAL[decide] = how
        return decide

    return marked


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
    """

    agent_id: str
    strategy: str
    strategy_version: str
    config: dict[str, Any] = field(default_factory=dict)
    proof_mode: str = "reproducible"
    causality: str = Causality.UNCHECKED
    source_sha256: str | None = None

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
        """Give ``DECISIONS`` over the tape; a decision at a tick may use that tick and earlier ones only."""
        ...


def identified(agent: Agent) -> Identity:
    """Give an agent's identity with the causality that its ``decide`` has, whatever it declares."""
    return replace(agent.identity, causality=_CAUSAL.get(type(agent).decide, Causality.UNCHECKED))


def asked(agent: Agent, tape: Tape) -> pl.DataFrame:
    """Give ``DECISIONS`` of an agent as checked by the law; what it does to the frames of the tape does not reach them.

    It sees kickoffs as they were announced: one that was known only afterwards would tell it when the window ends.

    Raises
    ------
    SchemaError, DecisionError
        It returned no frame, or decisions that can't be sealed.
    """
    fixtures = tape.fixtures if tape.announced is None else tape.announced
    own = replace(tape, rows=tape.rows.clone(), series=tape.series.clone(), fixtures=fixtures.clone(), announced=None)
    decided: object = agent.decide(own)
    if not isinstance(decided, pl.DataFrame):
        raise DecisionError(f"agent {agent.identity.agent_id!r} must return a polars DataFrame, not {type(decided).__name__}")
    return checked(decided)
