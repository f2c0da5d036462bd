"""``python -m tests.benchmarks.large [--megabytes 5000] [--points 20] [--folder FOLDER] [--json report.json]``.

Packs of a sixteenth, a quarter and all of so many decoded megabytes: what is backtested, searched and verified a shard at a
time must take no more memory where the pack is larger. Memory is what all processes of a job hold of their own, sampled
(RssAnon); a process that has only imported what it needs is shown beside it. The same for the rows of an import.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

import clvlab as cl
from clvlab.law.tape import Tape
from clvlab.packs.manifest import PackManifest
from clvlab.packs.reader import ROW_BYTES
from clvlab.packs.verification import verify_pack
from clvlab.packs.writer import PackWriter
from clvlab.sources.importer import import_source
from tests.benchmarks.data import feed
from tests.benchmarks.import_data import write_changes
from tests.benchmarks.measure import Sample, fresh, spread
from tests.benchmarks.report import Budget, Figure, growth, machine, table
from tests.benchmarks.sweeping import sampled

_PART_ROWS, _SEEDS = 1_000_000, 8
_SHARES = (16, 4, 1)
_MOST_MB = 512
_IMPORTED_ROWS = 2_400_000
_JOBS = ("nothing", "verify", "backtest", "sweep")


def main() -> int:
    """Write the packs, run each job on each in a process of its own, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.large", description="Measure packs larger than memory.")
    parser.add_argument("--megabytes", type=int, default=5_000, help="of the largest pack, decoded")
    parser.add_argument("--points", type=int, default=20, help="of the sweep")
    parser.add_argument("--folder", type=Path, help="where the packs are kept for another time")
    parser.add_argument("--json", type=Path, metavar="report.json")
    parser.add_argument("--job", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.job:
        sys.stdout.write(json.dumps(performed(*asked.job)))
        return 0
    with tempfile.TemporaryDirectory(prefix="clvlab-large-") as scratch:
        folder = asked.folder or Path(scratch)
        figures = list(_on_packs(folder, asked.megabytes, asked.points)) + list(_imports(Path(scratch)))
    sys.stdout.write(table(figures) + "\n")
    if asked.json:
        asked.json.write_text(json.dumps({"machine": machine(), "figures": [f.payload() for f in figures]}, indent=2) + "\n")
    return 0


def _on_packs(folder: Path, megabytes: int, points: int) -> Iterable[Figure]:
    before: dict[str, Sample] = {}
    for share in _SHARES:
        rows = (megabytes << 20) // ROW_BYTES // share
        pack = folder / str(rows)
        if not pack.exists():
            write(pack, rows)
        for job in _JOBS:
            found = _measured(job, pack, points)
            name = f"{rows / 1e6:,.0f} M ticks, {rows * ROW_BYTES >> 20:,} MB decoded"
            own = {"verify": "packs verify", "sweep": f"sweep of {points} points"}.get(job, job)
            yield from _figures(name, own, found, before.get(job), _SHARES[0] // _SHARES[1])
            before[job] = found


def _imports(folder: Path) -> Iterable[Figure]:
    before = None
    for share in _SHARES:
        made = folder / f"changes-{share}"
        made.mkdir()
        source = write_changes(made, _IMPORTED_ROWS // share, 7)
        found = _measured("import", source, 0)
        yield from _figures(f"{_IMPORTED_ROWS // share:,} changes of prices", "import", found, before, 4)
        before = found


def _measured(job: str, path: Path, points: int) -> Sample:
    return Sample(**fresh(["-m", "tests.benchmarks.large", "--job", job, str(path), str(points)]))


def _figures(name: str, job: str, found: Sample, before: Sample | None, times: float) -> Iterable[Figure]:
    grown = None if before is None else growth([found], [before], times)
    if job != "nothing":
        yield Figure(name, job, "s", spread([found.seconds]), None, None if grown is None else "the size before, growth", grown)
    yield Figure(name, f"{job}, peak memory", "MB", spread([found.peak_mb]), Budget(_MOST_MB))


def write(folder: Path, rows: int) -> None:
    """Write a pack of about so many rows a part at a time; parts of a few seeds in turn, as other fixtures."""
    parts = max(1, rows // _PART_ROWS)
    feeds = {seed: feed(rows // parts, seed) for seed in range(min(parts, _SEEDS))}
    per_part = len(feeds[0][1])
    fixtures = tuple(
        fixture.model_copy(update={"fixture_id": fixture.fixture_id + part * per_part})
        for part in range(parts)
        for fixture in feeds[part % _SEEDS][1]
    )
    with PackWriter(folder, fixtures) as writer:
        for part in range(parts):
            ticks, _ = feeds[part % _SEEDS]
            shifted = ticks.with_columns(pl.col("fixture_id") + part * per_part)
            own = writer.kickoffs.slice(part * per_part, per_part)
            writer.add(Tape.from_ticks(shifted, own))
        writer.finish(PackManifest(pack_id=folder.name, provenance="synthetic-benchmark", fixtures=fixtures))


def performed(job: str, path: str, points: str) -> dict[str, Any]:
    """Do one job, and give its time and the peak of its memory."""
    with sampled() as peak, tempfile.TemporaryDirectory() as scratch:
        start = time.perf_counter()
        facts = _do(job, Path(path), int(points), Path(scratch))
        seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak_mb": max(peak), "facts": facts}


def _do(job: str, path: Path, points: int, scratch: Path) -> dict[str, Any]:
    match job:
        case "verify":
            return {"fixtures": len(verify_pack(path).fixture_ids)}
        case "backtest":
            return {"decisions": cl.backtest(_opened(path), "cumulative-drift").scores.height}
        case "sweep":
            grid = {"warmup_ticks": list(range(20, 20 + points))}
            return {"points": len(cl.sweep(_opened(path), "cumulative-drift", grid, progress=False).sources)}
        case "import":
            return {"ticks": import_source("the-odds-api", [path], scratch / "pack").quality.ticks}
        case _:
            return {}


def _opened(path: Path) -> Any:
    from clvlab.lab.results.pack import Pack
    from clvlab.packs.reader import load_pack

    return Pack(load_pack(path))  # its ticks are not verified here: that is a job of its own


if __name__ == "__main__":
    raise SystemExit(main())
