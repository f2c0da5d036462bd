"""What all templates share: a configuration, an identity, and the shape of their decisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Generic, TypeVar

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from clvlab.engine.agent import Identity
from clvlab.law.schema import DECISIONS, SAFE_INTEGER, Action
from clvlab.law.tape import Tape

__all__ = ["Config", "Template", "backs", "in_markets"]


class Config(BaseModel):
    """Parameters that every template takes.

    Attributes
    ----------
    markets
        Market-key prefixes in which the agent proposes; ``""`` is every market.
    stake
        Integer units on each position.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    version: ClassVar[str] = "1"

    markets: Annotated[tuple[str, ...], Field(strict=False)] = ("",)
    stake: int = Field(default=100, ge=1, le=SAFE_INTEGER)


C = TypeVar("C", bound=Config)


@dataclass(frozen=True, slots=True)
class Template(Generic[C]):
    """An agent made of a template and its configuration."""

    agent_id: str
    strategy: str
    config: C
    rule: Callable[[Tape, C], pl.DataFrame]

    @property
    def identity(self) -> Identity:
        config = self.config.model_dump(mode="json")
        return Identity(self.agent_id, self.strategy, self.config.version, config, causality="template")

    def decide(self, tape: Tape) -> pl.DataFrame:
        """Give ``DECISIONS`` of the rule, under the agent's id."""
        return self.rule(tape, self.config).with_columns(agent_id=pl.lit(self.agent_id)).select(*DECISIONS)


def in_markets(tape: Tape, prefixes: tuple[str, ...]) -> pl.DataFrame:
    """Give the series of the tape, with their number, whose market starts with one of the prefixes."""
    allowed = pl.any_horizontal(*(pl.col("market_key").str.starts_with(prefix) for prefix in prefixes), pl.lit(value=False))
    return tape.series.with_row_index("series").filter(allowed)


def backs(picks: pl.DataFrame, stake: int) -> pl.DataFrame:
    """Complete picks (fixture_id, tick_seq, market_key, side, reason, claimed_edge_bps, confidence) to BACK decisions."""
    return picks.with_columns(
        agent_id=pl.lit(None, pl.String),
        action=pl.lit(Action.BACK.value),
        stake=pl.lit(stake, pl.Int64),
        limit_odds_milli=pl.lit(None, pl.Int32),
    ).select(pl.col(column).cast(dtype) for column, dtype in DECISIONS.items())
