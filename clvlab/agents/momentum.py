"""``sharp-momentum-v2``: back a side on a sharp upward movement after a change test finds a shift of its level."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import floor

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import Field

from clvlab.agents.template import MAX_SECONDS, Config, Prefixes, average, back, backs, begins_with_one, cool_down, in_markets
from clvlab.law.actions import Decision
from clvlab.law.markets import RESULT_1X2, TOTAL_GOALS
from clvlab.law.message import Message
from clvlab.law.schema import SAFE_INTEGER
from clvlab.law.tape import Tape
from clvlab.odds.integers import micro_logit_table, micro_logits_of

_Ints = npt.NDArray[np.int64]
_CHUNK = 2**22  # cells of the look-back matrix that are held at once
_BEYOND = np.int64(2**62)  # sorts behind every movement


class MomentumConfig(Config):
    """Parameters of ``sharp-momentum-v2``."""

    families: Prefixes = Field(
        default=(RESULT_1X2, TOTAL_GOALS),
        description="Market-key prefixes of the kinds of market in use, in addition to ``markets``: match result and totals.",
    )
    level_alpha: float = Field(
        default=0.5,
        gt=0,
        le=1,
        allow_inf_nan=False,
        description=(
            "Weight of the newest level in the moving average that a movement is measured from; at 1 a "
            "movement is the change since the previous price update."
        ),
    )
    lookback_movements: int = Field(
        default=30,
        ge=2,
        le=500,
        description="Number of earlier movements whose median and median absolute deviation judge the current one.",
    )
    min_movements: int = Field(
        default=6, ge=2, le=SAFE_INTEGER, description="Smallest number of movements of a side before the current one."
    )
    min_z_milli: int = Field(
        default=2_000,
        ge=0,
        le=1_000_000,
        description="Smallest robust z of a sharp movement, in thousandths.",
    )
    min_scale_micro_logits: int = Field(
        default=1_000,
        ge=1,
        le=20_000_000,
        description="Smallest scale of the robust z, because an unchanged side has a deviation of zero.",
    )
    change_allowance_micro_logits: int = Field(
        default=2_000, ge=0, le=20_000_000, description="Part of every movement that the change test ignores."
    )
    change_threshold_micro_logits: int = Field(
        default=20_000,
        ge=1,
        le=SAFE_INTEGER,
        description="Smallest rise of the change test's sum above its minimum that counts as a shift.",
    )
    persistence_movements: int = Field(
        default=5, ge=1, le=500, description="Number of newest movements, with the current one, that measure persistence."
    )
    min_persistence: float = Field(
        default=0.6, ge=0, le=1, allow_inf_nan=False, description="Smallest share of upward ones among these movements."
    )
    warmup_ticks: int = Field(
        default=10, ge=0, le=SAFE_INTEGER, description="Number of price updates of a fixture before the first proposal."
    )
    warmup_s: int = Field(
        default=0, ge=0, le=MAX_SECONDS, description="Seconds from the first price of a side to the first proposal."
    )
    cooldown_s: int = Field(
        default=21_600, ge=0, le=MAX_SECONDS, description="Seconds after a position without another proposal on the market."
    )
    max_prob_bps: int = Field(default=9500, ge=1, le=10_000, description="Largest probability of a backed side, in bps.")


def decide(tape: Tape, config: MomentumConfig) -> pl.DataFrame:
    """Back a side whose newest movement is sharp, upward and persistent, after a shift of its level.

    For each side, over its prices before play, in order:

    1. its level is its log-odds in millionths, from a table of integers;
    2. a movement is the level less the exponentially weighted average of the levels before it, rounded half up
       (``average = alpha x level + (1 - alpha) x average``, begun at the first level);
    3. Page's one-sided test: the sum of all movements, each less an allowance, minus the smallest that the sum has been,
       must reach a threshold. Without a shift a price has no drift, so deviations are from zero, not from a fitted mean;
    4. the share of upward ones among the last movements must reach its minimum;
    5. the movement less the median of the movements before it, over 1.4826 times their median absolute deviation from
       that median, is the robust z, rounded down to thousandths, and must reach its minimum. A median of an even number is
       the mean of the middle two, kept exact in integers.

    Of several sides of a market at one price update the largest z wins, then the largest sum of the change test, then the first
    side in byte order. Everything but the average and the two shares is in integers; these are single IEEE 754 operations in
    a fixed order, so every machine decides alike at any number of threads. Linear in ticks; the z alone costs a sort of the
    look-back, and is computed only where the other conditions hold.

    The claims are unproven. The edge is the rise in probability since the first of the last movements, as if it happened
    again. The confidence is the rule of succession, (upward + 1) / (movements + 2).

    References
    ----------
    E. S. Page, "Continuous inspection schemes", Biometrika 41 (1954) 100-115. F. R. Hampel, "The influence curve and its role
    in robust estimation", JASA 69 (1974) 383-393, for the median absolute deviation.
    """
    series = in_markets(tape, config.markets, config.families).select(
        "series", "fixture_id", "market_key", "side", "market_start"
    )
    walked = _walked(tape, series["series"], config)
    candidates = _candidates(walked, config)
    z_milli = pl.Series("z_milli", _robust_z_milli(walked["movement"].to_numpy(), candidates, config))
    chosen = (
        candidates.with_columns(z_milli)
        .filter(pl.col("z_milli") >= config.min_z_milli)
        .join(series, on="series")
        .sort("market_start", "tick_seq", "z_milli", "change", "side", descending=[False, False, True, True, False])
        .unique(["market_start", "tick_seq"], keep="first", maintain_order=True)
    )
    picks = chosen.filter(cool_down(chosen["market_start"], chosen["ts_ms"], config.cooldown_s)).with_columns(
        reason=pl.format(
            "movement of {} micro-logits, robust z {} thousandths, {} of {} upward", "movement", "z_milli", "ups", "last"
        ),
        claimed_edge_bps=(pl.col("prob_bps") - pl.col("earlier_prob_bps")).cast(pl.Int64),
        confidence=(pl.col("ups") + 1) / (pl.col("last") + 2),
    )
    return backs(picks, config.stake)


def _walked(tape: Tape, series: pl.Series, config: MomentumConfig) -> pl.DataFrame:
    """Return each side's movements, with the change test at each. ``change`` and ``all_ups`` use no later row."""
    rows = tape.rows.filter(
        pl.col("prob_bps").is_not_null(),
        ~pl.col("in_running"),
        _members(series, tape.series.height).gather(tape.rows["series"]),
    ).select("series", "tick_seq", "ts_ms", "prob_bps")
    level = pl.Series("level", micro_logits_of(rows["prob_bps"])).cast(pl.Int64)
    first = (pl.col("series") != pl.col("series").shift(1)).fill_null(value=True)
    average = pl.col("level").cast(pl.Float64).ewm_mean(alpha=config.level_alpha, adjust=False).over("series")
    before = (average.shift(1) + 0.5).floor().cast(pl.Int64)
    # Sums continue from one side to the next, because only differences within a side are used.
    return (
        rows.with_columns(level)
        .lazy()
        .with_row_index("row")
        .with_columns(first=first, movement=pl.when(first).then(0).otherwise(pl.col("level") - before))
        .with_columns(
            start=pl.when("first").then("row").forward_fill(),
            total=pl.when("first").then(0).otherwise(pl.col("movement") - config.change_allowance_micro_logits).cum_sum(),
            all_ups=(pl.col("movement") > 0).cast(pl.Int64).cum_sum(),
        )
        .with_columns(change=pl.col("total") - pl.col("total").cum_min().over("series"))
        .select("series", "tick_seq", "ts_ms", "prob_bps", "row", "start", "movement", "change", "all_ups")
        .collect(engine="in-memory")
    )


def _members(series: pl.Series, n_series: int) -> pl.Series:
    return pl.select(pl.int_range(n_series, dtype=pl.UInt32).is_in(series.implode())).to_series()


def _candidates(walked: pl.DataFrame, config: MomentumConfig) -> pl.DataFrame:
    """Return the movements that meet every condition except the robust z. ``before`` counts the earlier movements."""
    before = pl.col("row").cast(pl.Int64) - pl.col("start") - 1
    found = walked.filter(
        pl.col("movement") > 0,
        pl.col("change") >= config.change_threshold_micro_logits,
        before >= config.min_movements,
        pl.col("tick_seq") >= config.warmup_ticks,
        pl.col("prob_bps") <= config.max_prob_bps,
    ).with_columns(before=before, last=pl.min_horizontal(before + 1, config.persistence_movements))
    earlier = found["row"] - found["last"]
    return found.with_columns(
        ups=found["all_ups"] - walked["all_ups"].gather(earlier),
        earlier_prob_bps=walked["prob_bps"].gather(earlier),
        elapsed_ms=found["ts_ms"] - walked["ts_ms"].gather(found["start"]),
    ).filter(
        pl.col("ups") / pl.col("last") >= config.min_persistence,
        pl.col("elapsed_ms") >= 1000 * config.warmup_s,
    )


def _robust_z_milli(movement: _Ints, candidates: pl.DataFrame, config: MomentumConfig) -> _Ints:
    """Return 1000 x z of each candidate against the movements before it, rounded down."""
    rows = candidates["row"].to_numpy().astype(np.int64)
    widths = np.minimum(candidates["before"].to_numpy(), config.lookback_movements)
    back = np.arange(1, config.lookback_movements + 1)
    step = max(1, _CHUNK // config.lookback_movements)
    found = [np.empty(0, np.int64)]
    for at in range(0, rows.size, step):
        row, width = rows[at : at + step, None], widths[at : at + step, None]
        inside = back <= width
        window = np.where(inside, movement[np.maximum(row - back, 0)], _BEYOND)
        median2 = _middle_two(window, width)
        deviation2 = np.where(inside, np.abs(2 * window - median2), _BEYOND)  # sorted: the first ``width`` are inside
        scale = np.maximum(14_826 * _middle_two(deviation2, width), 40_000 * config.min_scale_micro_logits)  # x 40 000
        found.append((20_000_000 * (2 * movement[row] - median2) // scale)[:, 0])
    return np.concatenate(found)


def _middle_two(window: _Ints, width: _Ints) -> _Ints:
    """Sort each row in place and return twice the median of its first ``width`` values."""
    window.sort(axis=1)
    low, high = (width - 1) // 2, width // 2
    return np.asarray(np.take_along_axis(window, low, 1) + np.take_along_axis(window, high, 1), dtype=np.int64)


# ``sharp-momentum-v2`` message by message, with the same decisions as over the whole tape.


@dataclass(slots=True)
class _Side:
    first_ts_ms: int
    average: float
    total: int = 0
    lowest: int = 0
    movements: int = 0
    last: deque[int] = field(default_factory=deque)
    ups: deque[bool] = field(default_factory=deque)
    probs: deque[int] = field(default_factory=deque)


@dataclass(frozen=True, slots=True)
class _Candidate:
    z_milli: int
    change: int
    name: str
    movement: int
    ups: int
    last: int
    prob_bps: int
    earlier_prob_bps: int


class MomentumFollower:
    def __init__(self, config: MomentumConfig) -> None:
        self._config, self._levels = config, micro_logit_table()
        self._sides: dict[tuple[int, str, str], _Side] = {}
        self._ready: dict[tuple[int, str], int] = {}

    def take(self, message: Message) -> Sequence[Decision]:
        config, market = self._config, (message.fixture_id, message.market_key)
        if message.in_running or not begins_with_one(message.market_key, config.markets, config.families):
            return ()
        walked = [
            self._walked(message, name, prob)
            for name, prob in zip(message.sides, message.prob_bps, strict=True)
            if prob is not None
        ]
        found = [candidate for candidate in walked if candidate is not None]
        if not found or message.ts_ms < self._ready.get(market, message.ts_ms):
            return ()
        self._ready[market] = message.ts_ms + 1000 * config.cooldown_s
        best = min(found, key=lambda one: (-one.z_milli, -one.change, one.name))
        reason = (
            f"movement of {best.movement} micro-logits, robust z {best.z_milli} thousandths, {best.ups} of {best.last} upward"
        )
        confidence = (best.ups + 1) / (best.last + 2)
        return (back(message, best.name, config.stake, reason, confidence, best.prob_bps - best.earlier_prob_bps),)

    def _walked(self, message: Message, name: str, prob: int) -> _Candidate | None:
        """Take a price of a side, and return a candidate if its movement meets every condition."""
        config, key, level = self._config, (message.fixture_id, message.market_key, name), self._levels[prob]
        side = self._sides.get(key)
        if side is None:
            width = config.persistence_movements
            side = self._sides[key] = _Side(message.ts_ms, float(level))
            side.last, side.ups = deque(maxlen=config.lookback_movements), deque(maxlen=width)
            side.probs = deque([prob], maxlen=width + 1)
            return None
        movement = level - floor(side.average + 0.5)
        side.average = average(config.level_alpha, float(level), side.average)
        side.total += movement - config.change_allowance_micro_logits
        side.lowest = min(side.lowest, side.total)
        side.ups.append(movement > 0)
        side.probs.append(prob)
        candidate = self._judged(message, name, side, movement, prob)
        side.last.append(movement)
        side.movements += 1
        return candidate

    def _judged(self, message: Message, name: str, side: _Side, movement: int, prob: int) -> _Candidate | None:
        config, change = self._config, side.total - side.lowest
        before = side.movements
        last = min(before + 1, config.persistence_movements)
        if (
            movement <= 0
            or change < config.change_threshold_micro_logits
            or before < config.min_movements
            or message.tick_seq < config.warmup_ticks
            or prob > config.max_prob_bps
            or message.ts_ms - side.first_ts_ms < 1000 * config.warmup_s
        ):
            return None
        ups = sum(islice(side.ups, len(side.ups) - last, None))
        if ups / last < config.min_persistence:
            return None
        z_milli = _robust_z_milli_of_one(movement, side.last, config.min_scale_micro_logits)
        if z_milli < config.min_z_milli:
            return None
        return _Candidate(z_milli, change, name, movement, ups, last, prob, side.probs[len(side.probs) - 1 - last])


def _robust_z_milli_of_one(movement: int, before: Sequence[int], min_scale: int) -> int:
    median2 = _middle_two_of_one(sorted(before))
    deviation4 = _middle_two_of_one(sorted(abs(2 * one - median2) for one in before))
    scale = max(14_826 * deviation4, 40_000 * min_scale)
    return 20_000_000 * (2 * movement - median2) // scale


def _middle_two_of_one(ordered: Sequence[int]) -> int:
    return ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]
