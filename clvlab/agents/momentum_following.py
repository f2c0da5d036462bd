"""``sharp-momentum-v2``, message by message: the same decisions as over the whole tape."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import floor

from clvlab.agents.momentum import MomentumConfig
from clvlab.agents.template import average, back, begins_with_one
from clvlab.law.actions import Decision
from clvlab.law.message import Message
from clvlab.odds.logit import micro_logit_table


@dataclass(slots=True)
class _Side:
    """What is kept of a side: its average level, the sum of the change test and its minimum, and the last movements."""

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
    """Decides as ``momentum.decide`` does."""

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
        """Take a price of a side; return a candidate if its movement meets every condition."""
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
        z_milli = _robust_z_milli(movement, side.last, config.min_scale_micro_logits)
        if z_milli < config.min_z_milli:
            return None
        return _Candidate(z_milli, change, name, movement, ups, last, prob, side.probs[len(side.probs) - 1 - last])


def _robust_z_milli(movement: int, before: Sequence[int], min_scale: int) -> int:
    """Compare a movement with those before it; 1000 x z, rounded down."""
    median2 = _middle_two(sorted(before))
    deviation4 = _middle_two(sorted(abs(2 * one - median2) for one in before))
    scale = max(14_826 * deviation4, 40_000 * min_scale)
    return 20_000_000 * (2 * movement - median2) // scale


def _middle_two(ordered: Sequence[int]) -> int:
    """Return twice the median of sorted values."""
    return ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]
