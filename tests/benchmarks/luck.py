"""Jobs of what is left of a choice, and of a bankroll: splits of many points, and paths of many bets."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from clvlab.statistics import Clusters, Series, bankroll, lead_lag, overfitting
from clvlab.statistics.lead_lag import check_lags

__all__ = ["LEADS", "PATHS", "PLAIN_SPLITS", "POINTS", "SPLITS", "fanned", "leads", "split", "split_plainly"]

POINTS = (100, 1_000)
SPLITS, PLAIN_SPLITS, _BLOCKS, _FIXTURES = 12_870, 400, 16, 400
PATHS = (1_000, 5_000)  # paths, bets
LEADS = (2_000, 8_000, 32_000)  # updates of each of two sources
Job = Callable[[], dict[str, Any]]


def _points(points: str) -> Clusters:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 20, (_FIXTURES, int(points))).astype(np.float64)
    sums = np.rint(rng.normal(0, 50, counts.shape) * counts)
    return Clusters(sums, counts, sums**2)


def split(_: Path, points: str) -> Job:
    """Choose among so many points in all halves of sixteen blocks."""
    clusters = _points(points)

    def job() -> dict[str, Any]:
        found = overfitting(clusters, blocks=_BLOCKS)
        return {"pbo": found.pbo, "ranks": found.ranks[:PLAIN_SPLITS].tolist()}

    return job


def split_plainly(_: Path, points: str) -> Job:
    """Do the first of these splits one by one."""
    clusters = _points(points)

    def job() -> dict[str, Any]:
        sums, counts = (part.reshape(_BLOCKS, -1, int(points)).sum(1) for part in (clusters.sums, clusters.counts))
        ranks = []
        for chosen in islice(combinations(range(_BLOCKS), _BLOCKS // 2), PLAIN_SPLITS):
            inside = np.isin(np.arange(_BLOCKS), chosen)
            one, other = (sums[half].sum(0) / counts[half].sum(0) for half in (inside, ~inside))
            best = other[one.argmax()]
            ranks.append(float(((other < best).sum() + ((other == best).sum() + 1) / 2) / (other.size + 1)))
        return {"ranks": ranks}

    return job


def fanned(_: Path, paths: str, bets: str) -> Job:
    """Follow a bankroll through so many bets on fixtures that are open at once."""
    rng, n = np.random.default_rng(0), int(bets)
    fixture = np.sort(rng.integers(0, 300, n))
    frame = pl.DataFrame(
        {
            "fixture_id": fixture,
            "close_ts_ms": fixture * 3_600_000,
            "to_close_s": rng.integers(60, 86_400, n),
            "share": 0.001,
            "profit": rng.choice([-1.0, 1.0], n),
        }
    )

    def job() -> dict[str, Any]:
        found = bankroll(frame, growing=True, paths=int(paths))
        return {"ruin": found.ruin, "bets": found.n}

    return job


def leads(_: Path, updates: str) -> Job:
    """Compare two sources of so many updates each over lags up to half a minute."""
    rng, n = np.random.default_rng(0), int(updates)
    path = np.cumsum(rng.integers(-9, 10, 2 * n))
    first = Series.of(2_000 * np.arange(n), path[::2])
    second = Series.of(2_000 * np.arange(n) + 900, path[::2])

    def job() -> dict[str, Any]:
        found = lead_lag([(first, second)], check_lags(30, 1), draws=99)
        return {"lead_s": found.lead_s}

    return job
