"""What is asked after the tear sheet, where the truth is known: the choice among equals, and the slopes of fair prices."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import polars as pl
from scipy.special import ndtr

from clvlab.statistics import path_slopes
from clvlab.statistics.paths import LEGS

FEW = (2, 3, 10)  # points
BLOCKS = (2, 4, 16)  # fixtures in each
FIXTURES = (20, 40, 80, 150)
_POINTS, _DAY, _BLOCKS = 20, 6, 8


def pbo(clv_bps: np.ndarray, blocks: int) -> float:
    """PBO of a column a point and a row a fixture, by its definition and for as few of either as there are."""
    parts = clv_bps.reshape(blocks, -1, clv_bps.shape[1]).sum(1)
    below = []
    for half in combinations(range(blocks), blocks // 2):
        inside = parts[list(half)].sum(0)
        outside = parts.sum(0) - inside
        rank = 1 + np.count_nonzero(outside < outside[inside.argmax()])
        below.append(2 * rank <= clv_bps.shape[1] + 1)
    return float(np.mean(below))


def of_equals(rng: np.random.Generator, points: int, fixtures: int, *, days: bool = False) -> np.ndarray:
    """CLV of points that don't differ; with days, the fixtures of one share half of what they vary by."""
    own = rng.normal(0, 1, (fixtures, points))
    if not days:
        return own
    shared = rng.normal(0, 1, (fixtures // _DAY + 1, points))
    return own + np.repeat(shared, _DAY, axis=0)[:fixtures]


def of_few(rounds: int, points: int, seed: int = 1) -> np.ndarray:
    """PBO of samples of 80 fixtures in 8 blocks."""
    rng = np.random.default_rng(seed)
    return np.array([pbo(of_equals(rng, points, 80), _BLOCKS) for _ in range(rounds)])


def of_days(rounds: int, each: int, seed: int = 1) -> np.ndarray:
    """PBO of 20 points over days of six fixtures, in 8 blocks of so many."""
    rng = np.random.default_rng(seed)
    return np.array([pbo(of_equals(rng, _POINTS, _BLOCKS * each, days=True), _BLOCKS) for _ in range(rounds)])


def fair(rng: np.random.Generator, fixtures: int, before: float = 0.5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A price that follows a random walk to its result, ``before`` of it before the close: opening, close and result."""
    start = rng.normal(0, 0.7, fixtures)
    middle = start + rng.normal(0, np.sqrt(before), fixtures)
    result = middle + rng.normal(0, np.sqrt(1 - before), fixtures)
    return ndtr(start), ndtr(middle / np.sqrt(1 - before)), (result > 0).astype(float)


def points_of(first: np.ndarray, last: np.ndarray, won: np.ndarray) -> pl.DataFrame:
    """``POINTS`` with results of one side of two: the other one says the same."""
    return pl.DataFrame({"fixture_id": range(len(first)), "n_sides": 2, "open": first, "close": last, "won": won})


def rejected(rounds: int, fixtures: int, seed: int = 1) -> list[float]:
    """How often each leg rejects fair prices at 5 %."""
    rng = np.random.default_rng(seed)
    p_values = [path_slopes(points_of(*fair(rng, fixtures)))["p_value"].to_numpy() for _ in range(rounds)]
    return [float(share) for share in np.mean(np.array(p_values) <= 0.05, axis=0)]


def table(rounds: int) -> str:
    """PBO of equals, and the size of the slopes."""
    lines = [f"{rounds:,} samples of points that don't differ | mean PBO | below 0.1 | below 0.2 | above 0.8"]
    for points in (*FEW, _POINTS):
        found = of_few(rounds, points)
        shares = (np.mean(found < 0.1), np.mean(found < 0.2), np.mean(found > 0.8))
        lines.append(
            f"{points} points, 80 fixtures in 8 blocks | {found.mean():.2f} | " + " | ".join(f"{s:.2f}" for s in shares)
        )
    days = ", ".join(f"{of_days(rounds, each).mean():.2f} with {each}" for each in BLOCKS)
    lines.append(f"mean PBO of 20 of them over days of six fixtures, by fixtures in each of 8 blocks: {days}")
    lines.append(f"fair prices rejected at 5 % | {' | '.join(leg.name for leg in LEGS)}")
    lines += [
        f"{fixtures} fixtures | " + " | ".join(f"{share:.3f}" for share in rejected(2 * rounds, fixtures))
        for fixtures in FIXTURES
    ]
    return "\n".join(lines)
