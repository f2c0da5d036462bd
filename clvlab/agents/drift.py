"""``cumulative-drift``: back a side whose log-odds have risen since first sight, and keep rising."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from pydantic import Field

from clvlab.agents.markets import in_markets
from clvlab.agents.template import MAX_SECONDS, Config, average, back, backs, begins_with_one, cool_down
from clvlab.law.actions import Decision
from clvlab.law.message import Message
from clvlab.law.schema import SAFE_INTEGER
from clvlab.law.tape import Tape
from clvlab.odds.logit import micro_logit_table, micro_logits_of


class DriftConfig(Config):
    """Parameters of ``cumulative-drift``."""

    min_drift_micro_logits: int = Field(
        default=100_000,
        ge=1,
        le=20_000_000,
        description="Rise in log-odds since first sight, in millionths, from which a side is backed.",
    )
    persistence_alpha: float = Field(
        default=0.25, gt=0, le=1, allow_inf_nan=False, description="Weight of the newest movement in the average of signs."
    )
    min_persistence: float = Field(
        default=0.3,
        ge=-1,
        le=1,
        allow_inf_nan=False,
        description="The average of signs (+1 up, -1 down, 0 still) must reach this.",
    )
    warmup_ticks: int = Field(default=6, ge=0, le=SAFE_INTEGER, description="Priced messages of the market to let pass first.")
    warmup_s: int = Field(
        default=0, ge=0, le=MAX_SECONDS, description="Seconds since the first price of the market to let pass."
    )
    cooldown_s: int = Field(
        default=43_200, ge=0, le=MAX_SECONDS, description="Seconds after a position in which the market is left alone."
    )
    max_prob_bps: int = Field(default=9500, ge=1, le=10_000, description="A side likelier than this is left alone.")


def decide(tape: Tape, config: DriftConfig) -> pl.DataFrame:
    """Back a side when its drift and the persistence of its movements reach their thresholds.

    Drift is the side's log-odds less those at its first priced message, from a table of integers. Persistence is the
    exponentially weighted mean of the signs of its movements, computed message by message in order, so that every machine
    rounds alike. Of two sides of a market at one message the larger drift wins, ties by byte order. Messages in play are
    not looked at. Linear in ticks.

    What is claimed, unproven: an edge of the rise in probability since first sight, as if it came once more; and as confidence
    the persistence, moved from [-1, 1] to [0, 1].

    References
    ----------
    S. W. Roberts, "Control chart tests based on geometric moving averages", Technometrics 1 (1959) 239-250, for the average.
    """
    series = in_markets(tape, config.markets).select("series", "fixture_id", "market_key", "side", "market_start")
    rows = tape.rows.filter(pl.col("prob_bps").is_not_null(), ~pl.col("in_running")).select(
        "series", "tick_seq", "ts_ms", "prob_bps"
    )
    level = pl.Series("level", micro_logits_of(rows["prob_bps"]))
    same = pl.col("series") == pl.col("series").shift(1)
    move = pl.when(same).then(pl.col("level") - pl.col("level").shift(1)).otherwise(0)
    walked = (
        rows.with_columns(level)
        .lazy()
        .with_columns(sign=move.sign().cast(pl.Float64))
        .with_columns(
            drift=pl.col("level") - pl.col("level").first().over("series"),
            first_prob_bps=pl.col("prob_bps").first().over("series"),
            seen=pl.int_range(pl.len()).over("series"),
            elapsed_ms=pl.col("ts_ms") - pl.col("ts_ms").first().over("series"),
            persistence=pl.col("sign").ewm_mean(alpha=config.persistence_alpha, adjust=False).over("series"),
        )
        .filter(
            pl.col("drift") >= config.min_drift_micro_logits,
            pl.col("persistence") >= config.min_persistence,
            pl.col("seen") >= config.warmup_ticks,
            pl.col("elapsed_ms") >= 1000 * config.warmup_s,
            pl.col("prob_bps") <= config.max_prob_bps,
        )
        .join(series.lazy(), on="series")
        .sort("market_start", "tick_seq", "drift", "side", descending=[False, False, True, False])
        .unique(["market_start", "tick_seq"], keep="first", maintain_order=True)
        .collect(engine="in-memory")
    )
    picks = walked.filter(cool_down(walked["market_start"], walked["ts_ms"], config.cooldown_s)).with_columns(
        reason=pl.format("drift of {} micro-logits over {} messages", "drift", "seen"),
        claimed_edge_bps=pl.col("prob_bps").cast(pl.Int64) - pl.col("first_prob_bps"),
        confidence=(1 + pl.col("persistence")) / 2,
    )
    return backs(picks, config.stake)


@dataclass(slots=True)
class _Side:
    """What is kept of a side: its first priced message, the newest level, the average of signs, and messages since."""

    first_level: int
    first_prob_bps: int
    first_ts_ms: int
    level: int
    persistence: float = 0.0
    seen: int = 0


class DriftFollower:
    """Decides as ``decide`` does, message by message."""

    def __init__(self, config: DriftConfig) -> None:
        self._config, self._levels = config, micro_logit_table()
        self._sides: dict[tuple[int, str, str], _Side] = {}
        self._ready: dict[tuple[int, str], int] = {}

    def take(self, message: Message) -> Sequence[Decision]:
        config, market = self._config, (message.fixture_id, message.market_key)
        if message.in_running or not begins_with_one(message.market_key, config.markets):
            return ()
        best: tuple[int, str, _Side, int] | None = None
        for name, prob in zip(message.sides, message.prob_bps, strict=True):
            if prob is None:
                continue
            side = self._walked(message, name, prob)
            drift = side.level - side.first_level
            if (
                drift >= config.min_drift_micro_logits
                and side.persistence >= config.min_persistence
                and side.seen >= config.warmup_ticks
                and message.ts_ms - side.first_ts_ms >= 1000 * config.warmup_s
                and prob <= config.max_prob_bps
                and (best is None or drift > best[0])
            ):
                best = drift, name, side, prob
        if best is None or message.ts_ms < self._ready.get(market, message.ts_ms):
            return ()
        self._ready[market] = message.ts_ms + 1000 * config.cooldown_s
        drift, name, side, prob = best
        reason = f"drift of {drift} micro-logits over {side.seen} messages"
        return (back(message, name, config.stake, reason, (1 + side.persistence) / 2, prob - side.first_prob_bps),)

    def _walked(self, message: Message, name: str, prob: int) -> _Side:
        key, level = (message.fixture_id, message.market_key, name), self._levels[prob]
        side = self._sides.get(key)
        if side is None:
            side = self._sides[key] = _Side(level, prob, message.ts_ms, level)
            return side
        sign = float((level > side.level) - (level < side.level))
        side.persistence = average(self._config.persistence_alpha, sign, side.persistence)
        side.level, side.seen = level, side.seen + 1
        return side
