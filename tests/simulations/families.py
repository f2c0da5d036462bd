"""Families of 50 configurations of one rule on exact martingales: nothing is to be found, unless it is put there."""

from __future__ import annotations

import numpy as np

from clvlab.statistics import BoundedClusters, cluster_errors, family_of

LOOKBACKS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15)
THRESHOLDS_BPS = (0, 20, 40, 80, 120)
_STEP = 40  # a tick, bps


def martingales(rng: np.random.Generator, fixtures: int, ticks: int) -> np.ndarray:
    """Probability of one of two sides, in whole bps: steps as likely up as down by as much; fixtures differ in them."""
    step = np.rint(_STEP * rng.gamma(4, 0.25, (fixtures, 1))).astype(int) + 1
    steps = step * rng.integers(1, 3, (fixtures, ticks)) * rng.choice([-1, 1], (fixtures, ticks))
    return np.rint(rng.uniform(3500, 6500, (fixtures, 1))).astype(int) + steps.cumsum(1)


def momentum(paths: np.ndarray, lookback: int, threshold_bps: int) -> tuple[np.ndarray, ...]:
    """Back whichever side rose by more than a threshold over the last ticks.

    By fixture: CLV, decisions, and what the CLV would be if the price closed at 0, and at 1.
    """
    rise = paths[:, lookback:-1] - paths[:, : -lookback - 1]
    backed = np.where(rise > threshold_bps, 1, np.where(rise < -threshold_bps, -1, 0))
    made, before = np.abs(backed), paths[:, lookback:-1]
    entry = np.where(backed > 0, before, 10_000 - before) * made
    clv = (paths[:, -1:] - before) * backed
    return tuple(part.sum(1).astype(float) for part in (clv, made, -entry, 10_000 * made - entry))


def family(rng: np.random.Generator, fixtures: int = 120, ticks: int = 60, edge_bps: float = 0.0) -> BoundedClusters:
    """A column a configuration; each decision of the first one gains ``edge_bps`` more than it did."""
    paths = martingales(rng, fixtures, ticks)
    each = [momentum(paths, lookback, threshold) for lookback in LOOKBACKS for threshold in THRESHOLDS_BPS]
    sums, counts, lowest, highest = (np.column_stack(part) for part in zip(*each, strict=True))
    sums[:, 0] += edge_bps * counts[:, 0]
    return BoundedClusters(sums, counts, sums**2, lowest, highest)


def announced(rounds: int, *, fixtures: int = 120, edge_bps: float = 0.0, resamples: int = 999, seed: int = 1) -> int:
    """In how many families an edge is announced at 5 %."""
    rng = np.random.default_rng(seed)
    return sum(
        bool(np.nanmin(family_of(family(rng, fixtures, edge_bps=edge_bps), resamples=resamples, seed=number).p_values) <= 0.05)
        for number in range(rounds)
    )


def best_p_values(rounds: int, seed: int = 1, *, harmful: int = 0) -> np.ndarray:
    """The p of the best of each family; ``harmful`` of its configurations lose 300 bps a decision."""
    rng, found = np.random.default_rng(seed), []
    for number in range(rounds):
        own = family(rng)
        own.sums[:, own.sums.shape[1] - harmful :] -= 300 * own.counts[:, own.sums.shape[1] - harmful :]
        found.append(np.nanmin(family_of(own, resamples=999, seed=number).p_values))
    return np.array(found)


def table(rounds: int) -> str:
    """What is announced where there is nothing, and where there is an edge."""
    lines = [
        f"{announced(rounds)} of {rounds:,} martingale families of 50 configurations over 120 fixtures announce an edge at 5 %"
    ]
    few = max(rounds // 5, 1)
    error = float(cluster_errors(family(np.random.default_rng(1), 300)).errors[0])
    lines += [
        f"{announced(few, fixtures=300, edge_bps=edge)} of {few:,} do over 300 fixtures where one has an edge of {edge} bps "
        f"at an error of {error:.0f}"
        for edge in (5, 10, 34)
    ]
    return "\n".join(lines)
