"""``python -m tests.benchmarks.fixtures [--fixtures 15000] [--rounds 3] [--json report.json]``: packs of many small fixtures.

A fixture has two markets of three messages, so that what is done once a fixture outweighs what is done once a tick. Growth
is shown from a sixteenth to a quarter of the fixtures, and to all of them; 1 of linear growth is as much again for each.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import clvlab as cl
from clvlab.arena import packs
from clvlab.law.schema import TICKS
from clvlab.packs.catalog import Catalog
from clvlab.packs.manifest import Fixture, PackManifest
from clvlab.packs.writer import write_pack
from clvlab.proof.verify import verify
from tests.benchmarks.data import PACK
from tests.benchmarks.measure import Sample, fresh, spread
from tests.benchmarks.report import Budget, Equality, Figure, growth, machine, table
from tests.factories import performed

_FIRST_FIXTURE = 17_000_000
_START_MS = 1_767_225_600_000
_MESSAGES = 6  # of a fixture, its two markets in turn; the last is in play
_GROWTH = (16, 4, 1)
_SHARES = (150, 10, 1)
_STEPS = {
    "by_id": "opened by id", "by_path": "opened by path", "view": "view of a pack, opened", "tape": "tape",
    "sealed": "baseline, sealed and verified",
}  # fmt: skip
_VIEW = Budget(0.2)
_LINEAR = Budget(2, on="ratio")  # the garbage collector doubles the cost of an object from some thousands on; a square gives 16

__all__ = ["JOBS", "write"]

Job = Callable[[], int]  # gives the number of fixtures that it came to
Samples = dict[tuple[str, int], list[Sample]]


def main() -> int:
    """Write packs, run every job in a process of its own, print the table; 1 if a run does not verify whole."""
    asked = _arguments()
    if asked.job:
        return _perform(*asked.job)
    sizes = sorted({1, *(max(1, asked.fixtures // share) for share in (*_GROWTH, *_SHARES))})
    with tempfile.TemporaryDirectory(prefix="clvlab-fixtures-") as name:
        for count in sizes:
            write(Path(name) / str(count), count)
        samples = _measured(Path(name), sizes, asked.rounds)
    figures = list(_figures(samples, asked.fixtures))
    whole = all(sample.facts["fixtures"] == count for (_, count), taken in samples.items() for sample in taken)
    equality = Equality("every fixture is opened, and decided in a run that verifies", whole)
    sys.stdout.write(f"{table(figures)}\n\n{'equal' if whole else 'DIFFERENT'}: {equality.name}\n")
    if asked.json:
        report = {
            "machine": machine(),
            "figures": [figure.payload() for figure in figures],
            "equalities": {equality.name: whole},
        }
        asked.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if whole else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.fixtures", description="Measure packs of many fixtures.")
    parser.add_argument("--fixtures", type=int, default=15_000, help="of the largest pack")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="report.json")
    parser.add_argument("--job", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def write(folder: Path, count: int) -> None:
    """Write a pack of so many fixtures, a minute apart, as the only one of a catalog."""
    prob = np.random.default_rng(7).integers(3000, 7000, count * _MESSAGES)
    number, seq = np.divmod(np.arange(count * _MESSAGES), _MESSAGES)
    messages = pl.DataFrame(
        {
            "fixture_id": _FIRST_FIXTURE + number,
            "tick_seq": seq,
            "ts_ms": _START_MS + number * 60_000 + seq * 120_000,
            "in_running": seq == _MESSAGES - 1,
            "market_key": np.where(seq % 2, "OVERUNDER_PARTICIPANT_GOALS||line=2.5", "OVERUNDER_PARTICIPANT_GOALS||line=1.5"),
            "suspended": np.zeros(count * _MESSAGES, dtype=bool),
        }
    )
    sides = [
        messages.with_columns(side=pl.lit(side), prob_bps=one, odds_milli=9_700_000 // one)
        for side, one in (("over", prob), ("under", 10_000 - prob))
    ]
    ticks = pl.concat(sides).select(pl.col(name).cast(dtype) for name, dtype in TICKS.items())
    fixtures = tuple(Fixture(fixture_id=_FIRST_FIXTURE + n, names=(f"home {n}", f"away {n}")) for n in range(count))
    write_pack(ticks, PackManifest(pack_id=PACK, provenance="synthetic-benchmark", fixtures=fixtures), folder / PACK)
    Catalog(folder).admit(PACK)


def _measured(folder: Path, sizes: list[int], rounds: int) -> Samples:
    samples: Samples = {(job, count): [] for job in JOBS for count in sizes}
    for _ in range(rounds):
        for (job, count), taken in samples.items():
            taken.append(Sample(**fresh(["-m", "tests.benchmarks.fixtures", "--job", job, str(folder / str(count))])))
    return samples


def _figures(samples: Samples, fixtures: int) -> Iterator[Figure]:
    for count in sorted({1, *(max(1, fixtures // share) for share in _SHARES)}):
        for job, name in _STEPS.items():
            taken = samples[job, count]
            budget = _VIEW if job == "view" else None
            yield Figure(f"{count} fixtures", name, "s", spread([sample.seconds for sample in taken]), budget)
    base, *larger = (max(1, fixtures // share) for share in _GROWTH)
    for job, name in _STEPS.items():
        few = samples[job, base]
        yield Figure("growth", f"{name}, {base} fixtures", "s", spread([sample.seconds for sample in few]))
        for count in larger:
            many = samples[job, count]
            seconds, times = spread([sample.seconds for sample in many]), count / base
            linear = growth(many, few, times)
            yield Figure("growth", f"{name}, {count} fixtures", "s", seconds, _LINEAR, f"{times:.0f} x {base}", linear)


def _by_id(folder: Path) -> Job:
    return lambda: len(Catalog(folder).open(PACK).fixture_ids)


def _by_path(folder: Path) -> Job:
    return lambda: len(packs.open_pack(folder / PACK).fixture_ids)


def _view(folder: Path) -> Job:
    pack = cl.open_pack(folder / PACK)

    def job() -> int:
        view = pack.where(markets="OVERUNDER", max_overround=0.2, fixtures=pack.fixture_ids)
        return len(view.fixture_ids) if view.content_hash != pack.content_hash else 0

    return job


def _tape(folder: Path) -> Job:
    pack = Catalog(folder).open(PACK)
    return lambda: pack.tape().series["fixture_id"].n_unique()


def _sealed(folder: Path) -> Job:
    pack = Catalog(folder).open(PACK)

    def job() -> int:
        test = performed(pack, "baseline")
        found = verify(test.sealed, test.receipts)
        return test.scores["fixture_id"].n_unique() if found.passed else 0

    return job


JOBS: dict[str, Callable[[Path], Job]] = {"by_id": _by_id, "by_path": _by_path, "view": _view, "tape": _tape, "sealed": _sealed}


def _perform(name: str, folder: str) -> int:
    job = JOBS[name](Path(folder))
    start = time.perf_counter()
    fixtures = job()
    seconds = time.perf_counter() - start
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    facts: dict[str, Any] = {"fixtures": fixtures}
    sys.stdout.write(json.dumps({"seconds": seconds, "peak_mb": peak_mb, "facts": facts}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
