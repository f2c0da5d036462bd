"""``baseline``: back the favourite at first sight, once a market."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from pydantic import Field

from clvlab.agents.markets import in_markets
from clvlab.agents.template import Config, back, backs, begins_with_one
from clvlab.law.actions import Decision
from clvlab.law.message import Message
from clvlab.law.schema import SAFE_INTEGER
from clvlab.law.tape import Tape


class BaselineConfig(Config):
    """Parameters of ``baseline``."""

    warmup_ticks: int = Field(default=0, ge=0, le=SAFE_INTEGER, description="Messages of a fixture to let pass first.")
    min_prob_bps: int = Field(default=5000, ge=1, le=10_000, description="The likeliest side must be at least this likely.")


def decide(tape: Tape, config: BaselineConfig) -> pl.DataFrame:
    """Back the likeliest side of each market at its first priced message after the warm-up, if it is likely enough.

    Ties go to the side that comes first in byte order. Messages in play are not looked at. Linear in
    ticks. Nothing is claimed: no edge and no confidence.

    References
    ----------
    The interface specification, "POST /backtests": one deterministic offline agent. A favourite at first sight is the plain
    yardstick, and backs without looking at any movement.
    """
    series = in_markets(tape, config.markets).select("series", "fixture_id", "market_key", "side", "market_start")
    first = (
        tape.rows.lazy()
        .filter(pl.col("prob_bps").is_not_null(), ~pl.col("in_running"), pl.col("tick_seq") >= config.warmup_ticks)
        .select("series", "tick_seq", "prob_bps")
        .join(series.lazy(), on="series")
        .filter(pl.col("tick_seq") == pl.col("tick_seq").min().over("market_start"))
        .sort("market_start", "prob_bps", "side", descending=[False, True, False])
        .unique("market_start", keep="first", maintain_order=True)
        .filter(pl.col("prob_bps") >= config.min_prob_bps)
        .with_columns(
            reason=pl.format("likeliest side at first sight, {} bps", "prob_bps"),
            claimed_edge_bps=pl.lit(None, pl.Int64),
            confidence=pl.lit(None, pl.Float64),
        )
        .collect(engine="in-memory")
    )
    return backs(first, config.stake)


class BaselineFollower:
    """Decides as ``decide`` does, message by message."""

    def __init__(self, config: BaselineConfig) -> None:
        self._config = config
        self._seen: set[tuple[int, str]] = set()

    def take(self, message: Message) -> Sequence[Decision]:
        market, config = (message.fixture_id, message.market_key), self._config
        if (
            message.in_running
            or message.suspended
            or message.tick_seq < config.warmup_ticks
            or market in self._seen
            or not begins_with_one(message.market_key, config.markets)
        ):
            return ()
        self._seen.add(market)
        prob, side = min((-prob, side) for side, prob in zip(message.sides, message.prob_bps, strict=True) if prob is not None)
        if -prob < config.min_prob_bps:
            return ()
        return (back(message, side, config.stake, f"likeliest side at first sight, {-prob} bps", None, None),)
