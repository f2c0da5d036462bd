"""Measuring: jobs in fresh processes, in turn, so that a slow minute of the machine falls on all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

__all__ = ["Sample", "Spread", "fresh", "imported", "measured", "prepared", "spread"]

_ROOT = Path(__file__).parents[2]
_THREADS = "2"
_IMPORT = """
import json, sys, time
start = time.perf_counter()
{statement}
seconds = time.perf_counter() - start
print(json.dumps({{"seconds": seconds, "loaded": [name for name in ("duckdb", "fastapi") if name in sys.modules]}}))
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of a job."""

    seconds: float
    peak_mb: float
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Spread:
    """Least, middle and greatest of several runs."""

    min: float
    median: float
    max: float


def spread(values: Sequence[float]) -> Spread:
    return Spread(min(values), median(values), max(values))


def prepared(folder: Path, ticks: int, decisions: int, seed: int) -> dict[str, Any]:
    """Write the data; give the sizes and thresholds it came to."""
    return fresh(["-m", "tests.benchmarks.data", str(folder), *(str(number) for number in (ticks, decisions, seed))])


def measured(jobs: Mapping[str, Sequence[str]], rounds: int, *, here: bool = False) -> dict[str, list[Sample]]:
    """Run every job (name -> job, folder, arguments) once a round, and again, each time in a fresh process, or all here."""
    samples: dict[str, list[Sample]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, command in jobs.items():
            samples[name].append(_here(command) if here else Sample(**fresh(["-m", "tests.benchmarks.worker", *command])))
    return samples


def _here(command: Sequence[str]) -> Sample:
    from tests.benchmarks.worker import worked  # with all that jobs need, which fresh processes import for themselves

    return Sample(**worked(*command))


def imported(statement: str, rounds: int) -> tuple[Spread, list[str]]:
    """Time an import in fresh processes; give also which heavy libraries it loads."""
    runs = [fresh(["-c", _IMPORT.format(statement=statement)]) for _ in range(rounds)]
    return spread([run["seconds"] for run in runs]), runs[0]["loaded"]


def fresh(arguments: Sequence[str], variables: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run Python in a fresh process, with further variables if any, and give the JSON that it prints."""
    environment = os.environ | {"POLARS_MAX_THREADS": _THREADS, "PYTHONPATH": str(_ROOT)} | dict(variables or {})
    done = subprocess.run(
        [sys.executable, *arguments], cwd=_ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout)
