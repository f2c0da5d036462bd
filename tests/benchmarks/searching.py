"""``python -m tests.benchmarks.searching [--rounds 3] [--scale 1] [--json report.json]``: what it takes to judge and to walk.

Families of 62, 250 and 1,000 configurations over 500 fixtures are judged with 5,000 draws; grids of 3, 12 and 50 points are
walked forward over five folds of the season pack. Growth is the time over that of a smaller size times the work: 1 is linear.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import clvlab as cl
from clvlab.statistics import BoundedClusters, estimates, family_of
from tests.benchmarks.measure import Sample, spread
from tests.benchmarks.report import Budget, Figure, growth, machine, table

_CONFIGURATIONS, _FIXTURES, _RESAMPLES = (62, 250, 1_000), 500, 5_000
_COOLDOWNS_S = [0, 60, 300, 600, 900, 1200, 1800, 2400, 3600, 7200]
_GRIDS = (
    {"warmup_ticks": [20], "cooldown_s": [600, 1800, 3600]},
    {"warmup_ticks": [20, 40, 60], "cooldown_s": [600, 1800, 3600, 7200]},
    {"warmup_ticks": [10, 20, 40, 60, 80], "cooldown_s": _COOLDOWNS_S},
)


def main() -> int:
    """Time every size in turn, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.searching", description="Measure searches.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the draws and of the fixtures")
    parser.add_argument("--json", type=Path, metavar="report.json")
    asked = parser.parse_args()
    pack = cl.open_pack("season")
    fixtures = pack.fixture_ids[: max(int(len(pack.fixture_ids) * asked.scale), 25)]
    jobs = {f"{count:,} configurations": judged(count, int(_RESAMPLES * asked.scale)) for count in _CONFIGURATIONS}
    jobs |= {f"{points(grid)} points": walked(pack, grid, fixtures) for grid in _GRIDS}
    samples: dict[str, list[Sample]] = {name: [] for name in jobs}
    for _ in range(asked.rounds):
        for name, job in jobs.items():
            begun = time.perf_counter()
            facts = job()
            samples[name].append(Sample(time.perf_counter() - begun, 0.0, facts))
    figures = [
        *_figures("family judged", samples, {f"{count:,} configurations": count for count in _CONFIGURATIONS}, Budget(5)),
        *_figures(
            "walked forward, five folds", samples, {f"{points(grid)} points": points(grid) for grid in _GRIDS}, Budget(10)
        ),
    ]
    sys.stdout.write(table(figures) + "\n")
    if asked.json:
        asked.json.write_text(json.dumps({"machine": machine(), "figures": [f.payload() for f in figures]}, indent=2) + "\n")
    return 0


def points(grid: dict[str, list[int]]) -> int:
    """Count the points of a grid."""
    return int(np.prod([len(values) for values in grid.values()]))


def judged(configurations: int, resamples: int) -> Callable[[], dict[str, Any]]:
    """Estimate every mean of a family, and what is left of each when all count."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 20, (_FIXTURES, configurations)).astype(np.float64)
    sums = rng.normal(0, 50, counts.shape) * counts
    clusters = BoundedClusters(sums, counts, sums**2, -5_000 * counts, 5_000 * counts)

    def job() -> dict[str, Any]:
        found = family_of(clusters, resamples=resamples)
        return {"estimated": len(estimates(clusters)), "expected_max": found.expected_max}

    return job


def walked(pack: Any, grid: dict[str, list[int]], fixtures: tuple[int, ...]) -> Callable[[], dict[str, Any]]:
    """Walk a grid forward."""

    def job() -> dict[str, Any]:
        found = cl.walk_forward(pack, "cumulative-drift", grid, folds=5, fixtures=fixtures, progress=False)
        return {"decisions": found.sheet.clv.n}

    return job


def _figures(job: str, samples: dict[str, list[Sample]], sizes: dict[str, int], budget: Budget) -> list[Figure]:
    """Return a figure a size, the largest with the budget, the others as what they grow from."""
    names = list(sizes)
    found = []
    for before, name in zip([None, *names], names, strict=False):
        value = spread([sample.seconds for sample in samples[name]])
        if before is None:
            found.append(Figure(job, name, "s", value))
            continue
        grown = growth(samples[name], samples[before], sizes[name] / sizes[before])
        own = budget if name == names[-1] else None
        found.append(Figure(job, name, "s", value, own, f"{before}, growth", grown))
    return found


if __name__ == "__main__":
    raise SystemExit(main())
