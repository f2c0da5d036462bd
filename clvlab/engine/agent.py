"""What the engine asks of an agent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import polars as pl

from clvlab.law.tape import Tape

__all__ = ["Agent", "Identity"]


@dataclass(frozen=True, slots=True)
class Identity:
    """Who an agent is, as it stands in RUN_STARTED.

    Attributes
    ----------
    config
        Parameters with defaults filled in; JSON values, fractions as floats (they are sealed as decimal text).
    causality
        How it was shown that no decision used a later tick: ``template`` or ``unchecked``.
    source_sha256
        Digest of a user agent's source; null for templates, which their version names.
    """

    agent_id: str
    strategy: str
    strategy_version: str
    config: dict[str, Any] = field(default_factory=dict)
    proof_mode: str = "reproducible"
    causality: str = "template"
    source_sha256: str | None = None


class Agent(Protocol):
    """A proposer: sees a tape, returns decisions."""

    @property
    def identity(self) -> Identity: ...

    def decide(self, tape: Tape) -> pl.DataFrame:
        """Give ``DECISIONS`` over the tape; a decision at a tick may use that tick and earlier ones only."""
        ...
