"""``python -m tests.benchmarks.sweeping [--points 1 62 250 1000] [--fixtures 300] [--rounds 1] [--own] [--json report.json]``.

Sweeps of the season pack in fresh processes: in one with one Polars thread, in one with all, and over all cores. The figure
that counts is how much of a linear speed-up the cores give; what is found must be the same, bit for bit.

``--own`` is an agent of one's own in one process instead, with the rows of the tape scored once and with the decisions of each
point scored: seconds of processor time of all processes, those of the agent too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import psutil

import clvlab as cl
from clvlab.base.parallel import workers
from clvlab.runs.search import scorer
from tests.benchmarks.measure import Sample, fresh, spread
from tests.benchmarks.memory import sampled
from tests.benchmarks.report import Budget, Equality, Figure, growth, machine, ratio, table

_AGENT = "cumulative-drift"
_LEAST_SHARE = 0.8  # of a linear speed-up
_SCORED = ("decisions", "rows")
_WAYS = {
    "one thread": {"CLVLAB_WORKERS": "1", "POLARS_MAX_THREADS": "1"},
    "one process": {"CLVLAB_WORKERS": "1"},
    "all cores": {},
}


def main() -> int:
    """Time every size in every way, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.sweeping", description="Measure sweeps.")
    parser.add_argument("--points", type=int, nargs="+", default=[1, 62, 250, 1000])
    parser.add_argument("--fixtures", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="report.json")
    parser.add_argument(
        "--own", action="store_true", help="sweep an agent of one's own in one process, and measure processor time"
    )
    parser.add_argument("--scored", choices=_SCORED, help="with --alone --own: what is scored")
    parser.add_argument("--alone", action="store_true", help="sweep once in this process, and print what was measured as JSON")
    asked = parser.parse_args()
    if asked.alone:
        size = asked.points[0], asked.fixtures
        sys.stdout.write(json.dumps(swept_own(*size, asked.scored) if asked.own else swept(*size)))
        return 0
    if asked.own:
        return _own(asked.points, asked.fixtures, asked.rounds)
    samples: dict[tuple[int, str], list[Sample]] = {(points, way): [] for points in asked.points for way in _WAYS}
    for _ in range(asked.rounds):
        for points, way in samples:
            command = ["-m", "tests.benchmarks.sweeping", "--alone", "--points", str(points), "--fixtures", str(asked.fixtures)]
            samples[points, way].append(Sample(**fresh(command, _WAYS[way])))
    figures, equal = [], []
    for before, points in zip([None, *asked.points], asked.points, strict=False):
        job, own = f"sweep of {points:,} points", {way: samples[points, way] for way in _WAYS}
        for way, found in own.items():
            grown = None if before is None else growth(found, samples[before, way], points / before)
            named = None if before is None else f"{before:,} points, growth"
            figures.append(Figure(job, way, "s", spread([one.seconds for one in found]), None, named, grown))
        budget = Budget(1 / (_LEAST_SHARE * workers()), "ratio") if points == max(asked.points) else None
        cores = spread([one.seconds for one in own["all cores"]])
        share = ratio(own["all cores"], own["one thread"])
        figures.append(Figure(job, f"on {workers()} cores", "s", cores, budget, "one thread", share))
        peak = spread([one.peak_mb for one in own["all cores"]])
        figures.append(Figure(job, "peak memory of all processes", "MB", peak))
        digests = {one.facts["sha256"] for found in own.values() for one in found}
        equal.append(Equality(f"{points:,} points: the same sums in every way", len(digests) == 1))
    sys.stdout.write(table(figures) + "\n")
    sys.stdout.writelines(f"{one.name}: {'yes' if one.holds else 'NO'}\n" for one in equal)
    if asked.json:
        asked.json.write_text(json.dumps({"machine": machine(), "figures": [f.payload() for f in figures]}, indent=2) + "\n")
    return 0 if all(one.holds for one in equal) else 1


def swept(points: int, fixtures: int) -> dict[str, Any]:
    """Sweep once; the digest is over what every point measured in every fixture."""
    grid = {
        "warmup_ticks": list(range(5, 5 + -(-points // 10))),
        "cooldown_s": [60 * minute for minute in range(1, 11)][:points],
    }
    chosen = cl.open_pack("season").source.fixture_ids[:fixtures]
    with sampled() as peak:
        start = time.perf_counter()
        found = cl.sweep("season", _AGENT, grid, fixtures=chosen, progress=False)
        found.frame  # noqa: B018
        seconds = time.perf_counter() - start
    digest = hashlib.sha256()
    for trial in found.sources:
        digest.update(trial.sums.write_csv().encode())
    return {"seconds": seconds, "peak_mb": max(peak), "facts": {"points": len(found.sources), "sha256": digest.hexdigest()}}


def _own(sizes: list[int], fixtures: int, rounds: int) -> int:
    """Sweep an agent of one's own in both ways in turn, and print the table."""
    figures, equal = [], True
    for points in sizes:
        samples: dict[str, list[Sample]] = {way: [] for way in _SCORED}
        command = ["-m", "tests.benchmarks.sweeping", "--alone", "--own", "--points", str(points), "--fixtures", str(fixtures)]
        for _ in range(rounds):
            for way, found in samples.items():
                found.append(Sample(**fresh([*command, "--scored", way], _WAYS["one process"])))
        for way, found in samples.items():
            share = None if way == "decisions" else ratio(found, samples["decisions"])
            beside = None if way == "decisions" else "decisions"
            job = f"own agent, {points:,} points"
            figures.append(Figure(job, way, "s", spread([one.seconds for one in found]), None, beside, share))
        equal &= len({one.facts["sha256"] for found in samples.values() for one in found}) == 1
    sys.stdout.write(f"{table(figures)}\nthe same sums in both ways: {'yes' if equal else 'NO'}\n")
    return 0 if equal else 1


def swept_own(points: int, fixtures: int, scored: str) -> dict[str, Any]:
    """Sweep an agent of one's own once; seconds are processor time, of the processes of the agent too."""
    from tests.benchmarks.field.scripts.clvlab_momentum import momentum

    if scored == "decisions":
        scorer._MOST_ROWS = 0
    chosen = cl.open_pack("season").source.fixture_ids[:fixtures]
    start = _processor_s()
    with sampled() as peak:
        found = cl.sweep("season", momentum, {"threshold": list(range(60, 60 + points))}, fixtures=chosen, progress=False)
    seconds = _processor_s() - start
    digest = hashlib.sha256(b"".join(trial.sums.write_csv().encode() for trial in found.sources))
    return {"seconds": seconds, "peak_mb": max(peak), "facts": {"points": points, "sha256": digest.hexdigest()}}


def _processor_s() -> float:
    own = psutil.Process()
    return sum(one.user + one.system for one in (process.cpu_times() for process in (own, *own.children(recursive=True))))


if __name__ == "__main__":
    raise SystemExit(main())
