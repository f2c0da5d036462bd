"""``python -m tests.benchmarks.starting [--rounds 9] [--against FOLDER] [--json report.json]``: what people wait for first.

Each job is a fresh process, measured by its processor time, with bytecode that an earlier process wrote. ``--against`` names
another tree of clvlab, whose processes alternate with these.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.benchmarks.measure import Sample, spread
from tests.benchmarks.report import Budget, Figure, machine, ratio, table

_ROOT = Path(__file__).parents[2]
_FIXTURE = 90000000
_POLARS = "import polars alone"
_BUDGETS = {"first backtest of one fixture": Budget(0.65), "clvlab --version": Budget(0.15)}
_JOBS: Mapping[str, tuple[str, ...]] = {
    "Python alone": ("-c", "pass"),
    _POLARS: ("-c", "import polars"),
    "import clvlab": ("-c", "import clvlab"),
    "first backtest of one fixture": (
        "-c",
        f"import clvlab as cl; cl.backtest(cl.open_pack('starter'), 'cumulative-drift', fixtures=[{_FIXTURE}])",
    ),
    "clvlab --version": ("-m", "clvlab", "--version"),
    "clvlab --help": ("-m", "clvlab", "--help"),
    "clvlab verify RUN": ("-m", "clvlab", "verify", "latest"),
}


def main() -> int:
    """Run every job in turn, and print the table."""
    asked = _arguments()
    trees = {"": _ROOT} | ({"there": asked.against.resolve()} if asked.against else {})
    with tempfile.TemporaryDirectory(prefix="clvlab-starting-") as name:
        folder = Path(name)
        words = ("backtest", "starter", "--agent", "cumulative-drift", "--fixture", str(_FIXTURE))
        for place, tree in trees.items():
            (folder / place).mkdir(exist_ok=True)
            _seconds(("-m", "clvlab", *words), folder / place, tree)
        samples: dict[tuple[str, str], list[Sample]] = {}
        for number in range(asked.rounds + 1):
            for job, arguments in _JOBS.items():
                for place, tree in trees.items():
                    taken = Sample(_seconds(arguments, folder / place, tree), 0.0, {})
                    if number:  # the first round writes the bytecode
                        samples.setdefault((job, place), []).append(taken)
    figures = list(_figures(samples))
    sys.stdout.write(table(figures) + "\n")
    if asked.json:
        asked.json.write_text(
            json.dumps({"machine": machine(), "figures": [one.payload() for one in figures]}, indent=2) + "\n"
        )
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.starting", description="Measure first uses.")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="another tree of clvlab, with its own .venv")
    parser.add_argument("--json", type=Path, metavar="report.json")
    return parser.parse_args()


def _seconds(arguments: tuple[str, ...], folder: Path, tree: Path) -> float:
    """Return the processor time of a process of Python that finds clvlab in a tree."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": str(tree), "PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "OPENBLAS_NUM_THREADS": "1"}
    python = sys.executable if tree == _ROOT else str(tree / ".venv" / "bin" / "python")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([python, *arguments], cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _figures(samples: Mapping[tuple[str, str], list[Sample]]) -> Iterator[Figure]:
    for (job, place), taken in samples.items():
        baseline, other = (_POLARS, samples[_POLARS, ""]) if place == "" else (f"{job} here", samples[job, ""])
        name = job if place == "" else f"{job}, {place}"
        budget = _BUDGETS.get(job) if place == "" else None
        yield Figure("start", name, "s", spread([one.seconds for one in taken]), budget, baseline, ratio(taken, other))


if __name__ == "__main__":
    sys.exit(main())
