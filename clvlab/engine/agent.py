"""What the engine asks of an agent."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import polars as pl

from clvlab.errors import AgentError
from clvlab.law.actions import MAX_NAME_BYTES
from clvlab.law.tape import Tape

__all__ = ["Agent", "Causality", "Identity"]


class Causality(StrEnum):
    """How it was shown that no decision used a later tick."""

    TEMPLATE = "template"  # one of ours, held to it by tests
    TICK_BY_TICK = "tick-by-tick"  # saw one message after the other
    PREFIX_AUDIT = "prefix-audit"  # decided alike on prefixes of the tape
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who an agent is, as it stands in RUN_STARTED.

    Attributes
    ----------
    config
        Parameters with defaults filled in; JSON values, fractions as floats (they are sealed as decimal text).
    causality
        How it was shown that no decision used a later tick: a ``Causality``.
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


@runtime_checkable
class Agent(Protocol):
    """A proposer: sees a tape, returns decisions."""

    @property
    def identity(self) -> Identity: ...

    def decide(self, tape: Tape) -> pl.DataFrame:
        """Give ``DECISIONS`` over the tape; a decision at a tick may use that tick and earlier ones only."""
        ...
