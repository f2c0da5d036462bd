"""Two sources of one price, or of a price and the same price some seconds later, as feeds record them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clvlab.statistics.lead_lag import LeadLag, Series, check_lags, lead_lag, overlapping

STEPS_PER_S = 10
LAGS_MS = check_lags(20, 1)

Array = npt.NDArray[np.float64]
Generator = np.random.Generator


def _jumps(rng: Generator, steps: int, every_s: float, size: float) -> Array:
    return rng.normal(0, size, steps) * (rng.random(steps) < 1 / (every_s * STEPS_PER_S))


def _bursts(rng: Generator, steps: int) -> Array:
    states = rng.choice([0.1, 5.0], steps // 300 + 1, p=[0.8, 0.2])
    return rng.normal(0, 0.3, steps) * np.repeat(states, 300)[:steps]


PATHS: dict[str, Callable[[Generator, int], Array]] = {
    "steady": lambda rng, steps: rng.normal(0, 1, steps),
    "slow": lambda rng, steps: rng.normal(0, 0.1, steps),
    "jumps": lambda rng, steps: _jumps(rng, steps, 40, 40),
    "rare jumps": lambda rng, steps: _jumps(rng, steps, 200, 40),
    "both": lambda rng, steps: rng.normal(0, 0.15, steps) + _jumps(rng, steps, 120, 40),
    "bursts": _bursts,
    "rising": lambda rng, steps: rng.normal(0, 1, steps) * (0.2 + 4 * np.linspace(0, 1, steps) ** 6),
}
"""Changes of the true price in bps, ten a second."""


def _even(rng: Generator, every_s: float, span_s: float) -> Array:
    return np.arange(rng.uniform(0, every_s), span_s, every_s)


def _poisson(rng: Generator, every_s: float, span_s: float) -> Array:
    return np.cumsum(rng.exponential(every_s, int(3 * span_s / every_s) + 20))


def _clustered(rng: Generator, every_s: float, span_s: float) -> Array:
    starts = _poisson(rng, 5 * every_s, span_s)
    return np.sort((starts[:, None] + np.cumsum(rng.exponential(1, (len(starts), 5)), axis=1)).ravel())


TIMES: dict[str, Callable[[Generator, float, float], Array]] = {
    "even": _even,
    "together": lambda _, every_s, span_s: np.arange(0, span_s, every_s),
    "poisson": _poisson,
    "clustered": _clustered,
}


@dataclass(frozen=True)
class Feed:
    """How a source looks at the true price and records it.

    Attributes
    ----------
    every_s, times
        Mean time from look to look, and their kind.
    late_s
        The price that it shows is so many seconds old.
    tick_bps, noise_bps, above_bps
        Rounding; noise of its own; a constant difference.
    is_changes_only
        Whether a look is recorded only if the price differs from the last one.
    """

    every_s: float
    times: str = "even"
    late_s: float = 0
    tick_bps: int = 1
    noise_bps: float = 0
    above_bps: int = 0
    is_changes_only: bool = True

    def series(self, rng: Generator, path: Array) -> Series:
        span_s = len(path) / STEPS_PER_S
        looks = TIMES[self.times](rng, self.every_s, span_s)
        looks = looks[(looks < span_s) & (looks >= self.late_s)]
        price = path[((looks - self.late_s) * STEPS_PER_S).astype(np.int64)]
        price = price + self.above_bps + rng.normal(0, self.noise_bps, len(looks))
        prob_bps = (np.rint(price / self.tick_bps) * self.tick_bps).astype(np.int64)
        kept = np.diff(prob_bps, prepend=-1) != 0 if self.is_changes_only else np.ones(len(looks), dtype=bool)
        return Series.of(np.rint(1000 * looks[kept]).astype(np.int64), prob_bps[kept])


@dataclass(frozen=True)
class Market:
    """A true price, and two feeds of it over some fixtures."""

    path: str
    first: Feed
    second: Feed
    fixtures: int = 2
    span_s: int = 1_800

    def pairs(self, seed: int) -> list[tuple[Series, Series]]:
        rng, found = np.random.default_rng(seed), []
        for _ in range(self.fixtures):
            path = np.clip(5_000 + np.cumsum(PATHS[self.path](rng, self.span_s * STEPS_PER_S)), 1, 9_999)
            pair = overlapping(self.first.series(rng, path), self.second.series(rng, path))
            if min(len(one.ts_ms) for one in pair) >= 5 and all(np.ptp(one.prob_bps) for one in pair):
                found.append(pair)
        return found

    def found(self, seed: int, *, draws: int = 99) -> LeadLag | None:
        """Return what one market shows; ``None`` where no fixture has enough updates."""
        pairs = self.pairs(seed)
        return lead_lag(pairs, LAGS_MS, draws=draws, seed=seed) if pairs else None


FAST, SLOW = Feed(2), Feed(60)
ALIKE = {
    "2 s and 60 s": Market("steady", FAST, SLOW),
    "2 s and 60 s, every look": Market("steady", Feed(2, is_changes_only=False), Feed(60, is_changes_only=False)),
    "slow price, every look": Market("slow", Feed(2, is_changes_only=False), Feed(10, is_changes_only=False)),
    "jumps": Market("jumps", FAST, SLOW, 4),
    "rare jumps": Market("rare jumps", FAST, Feed(60, "poisson"), 10),
    "jumps and noise": Market("jumps", FAST, Feed(60, "poisson", noise_bps=20), 6),
    "both": Market("both", FAST, Feed(10, "poisson")),
    "bursts of the price": Market("bursts", FAST, Feed(10)),
    "rising to the close": Market("rising", FAST, SLOW),
    "poisson": Market("steady", Feed(10, "poisson"), Feed(10, "poisson")),
    "bursts of updates": Market("steady", Feed(5, "clustered"), Feed(20, "clustered")),
    "2 s each": Market("steady", FAST, FAST, 1, 900),
    "coarse ticks": Market("steady", FAST, Feed(2, tick_bps=50)),
    "coarse and slow": Market("steady", FAST, Feed(60, tick_bps=50)),
    "two coarse": Market("steady", Feed(2, tick_bps=10), Feed(2, tick_bps=100)),
    "coarse ticks, every look": Market("slow", Feed(2, tick_bps=20, is_changes_only=False), Feed(5, is_changes_only=False)),
    "apart": Market("steady", FAST, Feed(60, above_bps=60)),
    "noise": Market("steady", Feed(10, noise_bps=15), Feed(15, noise_bps=15)),
    "much noise": Market("slow", FAST, Feed(60, noise_bps=30, above_bps=100)),
    "noise at the same times": Market("steady", Feed(2, "together", noise_bps=5), Feed(2, "together", noise_bps=5), 1, 900),
}
"""Feeds of one price, none of which leads."""
LATE_S = 10
LATE = {
    "2 s each": Market("steady", FAST, Feed(2, late_s=LATE_S)),
    "noise": Market("steady", Feed(2, noise_bps=5), Feed(2, late_s=LATE_S, noise_bps=5)),
    "poisson": Market("steady", Feed(5, "poisson"), Feed(5, "poisson", late_s=LATE_S), 4),
    "jumps, every look": Market(
        "jumps", Feed(2, is_changes_only=False), Feed(5, late_s=LATE_S, is_changes_only=False), 8
    ),
    "slow price, every look": Market(
        "slow", Feed(2, is_changes_only=False), Feed(2, late_s=LATE_S, is_changes_only=False), 8
    ),
}  # fmt: skip
"""Feeds of which the second shows what the first did ten seconds before."""


def announced(market: Market, cases: int) -> tuple[int, int]:
    """Return how many of so many cases show a lead, and how many could be judged at all."""
    found = [one for one in map(market.found, range(cases)) if one is not None]
    return sum(one.lead_s is not None for one in found), len(found)
