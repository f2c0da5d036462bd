"""Configuration, identity and decisions, as all templates share them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import polars as pl
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from clvlab.engine.agent import Identity
from clvlab.engine.live import Follower, TapeFollower
from clvlab.errors import AgentError
from clvlab.law.actions import MAX_NAME_BYTES, Decision
from clvlab.law.clv import is_allowed
from clvlab.law.message import Message
from clvlab.law.schema import DECISIONS, SAFE_INTEGER, Action, Causality
from clvlab.law.tape import Tape, last_row_at

Params = Mapping[str, Any]
"""JSON values of an agent's parameters by name. The agent itself checks them."""

# Selection of the markets that an agent sees.


def checked_markets(markets: Sequence[str]) -> tuple[str, ...]:
    """Return market-key prefixes as a tuple. Refuse a single text, which would be read letter by letter."""
    if isinstance(markets, str) or not all(isinstance(prefix, str) for prefix in markets):
        raise AgentError(f"markets must be a tuple of prefixes, such as ('1X2',), not {markets!r:.80}")
    return tuple(markets)


def in_markets(tape: Tape, *prefixes: tuple[str, ...]) -> pl.DataFrame:
    """Return the tape's series whose market starts with a prefix of every group, with the number of each series."""
    return tape.series.with_row_index("series").filter(*(is_allowed(tape.series["market_key"], group) for group in prefixes))


# Fractional Kelly stakes, from the consensus probability and the quote at the action.


@dataclass(frozen=True, slots=True)
class Kelly:
    """A fraction of the Kelly stake on a bankroll.

    Attributes
    ----------
    fraction_bps
        Part of the full Kelly stake, basis points.
    bankroll
        Integer units; it does not change within a run.

    References
    ----------
    Kelly (1956), "A New Interpretation of Information Rate": stake (p o - 1) / (o - 1) of the bankroll at decimal odds o.
    """

    fraction_bps: int
    bankroll: int

    def stake_at(self, message: Message, side: str) -> int:
        at = message.sides.index(side)
        prob_bps, odds_milli = message.prob_bps[at], message.odds_milli[at]
        if prob_bps is None or odds_milli is None:
            return 0
        edge = prob_bps * odds_milli - 10_000_000
        full = self.bankroll * self.fraction_bps * edge // (100_000_000 * (odds_milli - 1000))
        return min(max(full, 0), SAFE_INTEGER)

    def sized(self, tape: Tape, decisions: pl.DataFrame) -> pl.DataFrame:
        """Return ``DECISIONS`` with Kelly stakes for every BACK, rounded down. Without a quote or an edge a stake is 0."""
        key = ["fixture_id", "market_key", "side"]
        series = tape.series.with_row_index("series").select(*key, "series", "start")
        priced = decisions.join(series, on=key, how="left", maintain_order="left")
        row = last_row_at(tape.key, priced["start"], priced["series"], priced["tick_seq"])
        quotes = tape.rows.select(pl.col("prob_bps", "odds_milli").cast(pl.Int128).gather(row))
        # p o - 1 is in units of 10^-7 and o - 1 in units of 10^-3, so their quotient, the full stake, is in units of 10^-4.
        edge = pl.col("prob_bps") * pl.col("odds_milli") - 10_000_000
        full = self.bankroll * self.fraction_bps * edge // (100_000_000 * (pl.col("odds_milli") - 1000))
        bounded = quotes.select(full.clip(0, SAFE_INTEGER).fill_null(0).cast(pl.Int64)).to_series()
        return decisions.with_columns(stake=pl.when(pl.col("action") == Action.BACK).then(bounded).otherwise(pl.col("stake")))


MAX_PREFIXES = 10_000
MAX_SECONDS = SAFE_INTEGER // 1000


def limit(bytes_: int) -> AfterValidator:
    """Refuse a text of more bytes, or a text with a lone surrogate, which UTF-8 can't encode."""

    def checked(text: str | None) -> str | None:
        length = len((text or "").encode())
        if length > bytes_:
            raise ValueError(f"has {length} bytes, the limit is {bytes_}")
        return text

    return AfterValidator(checked)


Prefixes = Annotated[tuple[Annotated[str, limit(MAX_NAME_BYTES)], ...], Field(strict=False, max_length=MAX_PREFIXES)]


class Config(BaseModel):
    """Parameters that every template takes.

    Attributes
    ----------
    by_fixture
        Whether what the template decides about a fixture is the same whichever others it is asked about.
    repeats
        Whether it decides nothing, and repeats what somebody wrote down.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    version: ClassVar[str] = "1"
    by_fixture: ClassVar[bool] = True
    repeats: ClassVar[bool] = False

    markets: Prefixes = Field(
        default=("",), description='Market-key prefixes in which the agent proposes; ``""`` is every market.'
    )
    stake: int = Field(default=100, ge=1, le=SAFE_INTEGER, description="Integer units on each position.")


C = TypeVar("C", bound=Config)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Template(Generic[C]):
    agent_id: str
    strategy: str
    config: C
    rule: Callable[[Tape, C], pl.DataFrame]
    follow: Callable[[C], Follower] | None = None

    @property
    def identity(self) -> Identity:
        # The configuration is made again each time, so a change to a returned value is never sealed.
        config = self.config.model_dump(mode="json")
        causality = Causality.TRANSCRIPT if self.config.repeats else Causality.TEMPLATE
        return Identity(self.agent_id, self.strategy, self.config.version, config, causality=causality)

    def decide(self, tape: Tape) -> pl.DataFrame:
        return self.rule(tape, self.config).with_columns(agent_id=pl.lit(self.agent_id)).select(*DECISIONS)

    def following(self, fixtures: pl.DataFrame) -> AbstractContextManager[Follower]:
        """Return a follower whose decisions, message by message, are those of the rule over the whole tape."""
        return nullcontext(TapeFollower(self, fixtures) if self.follow is None else self.follow(self.config))


def average(alpha: float, newest: float, before: float) -> float:
    """Return the next exponentially weighted average, rounded as Polars rounds it (``ewm_mean`` without adjustment)."""
    return before + alpha * (newest - before)


def begins_with_one(market_key: str, *groups: tuple[str, ...]) -> bool:
    return all(market_key.startswith(group) for group in groups)


def back(message: Message, side: str, stake: int, reason: str, confidence: float | None, edge_bps: int | None) -> Decision:
    at = (message.fixture_id, message.tick_seq)
    return (*at, Action.BACK.value, message.market_key, side, stake, None, reason, confidence, edge_bps)


def cool_down(market: pl.Series, ts_ms: pl.Series, cooldown_s: int) -> pl.Series:
    """Return which candidates, by market and time, are at least the cooldown after the last kept one of their market."""
    kept: list[bool] = []
    current, ready = -1, 0
    for key, ts in zip(market.to_list(), ts_ms.to_list(), strict=True):
        keep = key != current or ts >= ready
        if keep:
            current, ready = key, ts + 1000 * cooldown_s
        kept.append(keep)
    return pl.Series("kept", kept, dtype=pl.Boolean)


def backs(picks: pl.DataFrame, stake: int) -> pl.DataFrame:
    """Make BACK decisions of picks (fixture_id, tick_seq, market_key, side, reason, claimed_edge_bps, confidence)."""
    return picks.with_columns(
        agent_id=pl.lit(None, pl.String),
        action=pl.lit(Action.BACK.value),
        stake=pl.lit(stake, pl.Int64),
        limit_odds_milli=pl.lit(None, pl.Int32),
    ).select(pl.col(column).cast(dtype) for column, dtype in DECISIONS.items())
