"""``python -m tests.benchmarks.ladders [--data FOLDER] [--messages 60000] [--rounds 5]``: what ladders add to an import.

Each stream is imported with and without ladders in turn, in one process. The time is its processor time; the ratio is that of
the shortest of all rounds. The sizes are those of ``ladders.parquet`` and ``ticks.parquet``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from clvlab.sources.importer import import_source
from clvlab.sources.source import Options
from tests.benchmarks.import_data import write_deep_stream, write_stream

MOST_TIME, MOST_SIZE = 1.5, 6.0


def main() -> int:
    """Print a line for each stream, and return 1 if one takes more than the figures allow."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.ladders", description="Measure the layer of ladders.")
    parser.add_argument("--data", type=Path, help="folder with betfair-stream")
    parser.add_argument("--messages", type=int, default=60_000, help="of each generated stream")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    worst = (0.0, 0.0)
    with tempfile.TemporaryDirectory(prefix="clvlab-ladders-") as name:
        folder = Path(name)
        write_deep_stream(folder / "1.200000008.bz2", given.messages, seed=7)
        write_stream(folder / "1.200000009.bz2", given.messages // 3, seed=7)
        streams = {
            "generated, as a real one": [folder / "1.200000008.bz2"],
            "generated, every level changes": [folder / "1.200000009.bz2"],
        }
        real = [] if given.data is None else sorted((given.data / "betfair-stream").glob("1.*.bz2"))
        streams |= {path.name: [path] for path in real} | ({"all of these files": real} if real else {})
        for title, paths in streams.items():
            took, size, rows = _measured(paths, folder / "packs", given.rounds)
            worst = max(worst[0], took), max(worst[1], size)
            sys.stdout.write(f"{title}: {took:.2f} times the import without, {size:.2f} times the ticks file, {rows:,} rows\n")
    sys.stdout.write(f"most: {worst[0]:.2f} of {MOST_TIME} times, {worst[1]:.2f} of {MOST_SIZE} times\n")
    return 0 if worst[0] <= MOST_TIME and worst[1] <= MOST_SIZE else 1


def _measured(paths: list[Path], folder: Path, rounds: int) -> tuple[float, float, int]:
    """Return the ratios of times and sizes, and the rows of the layer."""
    import polars as pl

    times: dict[bool, list[float]] = {False: [], True: []}
    size, rows = 0.0, 0
    for _ in range(rounds + 1):
        for ladders in (False, True):
            with tempfile.TemporaryDirectory(dir=folder.parent) as name:
                pack = Path(name) / "pack"
                start = time.process_time()
                import_source("betfair", paths, pack, Options(lenient=True, ladders=ladders))
                times[ladders].append(time.process_time() - start)
                if ladders:
                    size = (pack / "ladders.parquet").stat().st_size / (pack / "ticks.parquet").stat().st_size
                    rows = pl.scan_parquet(pack / "ladders.parquet").select(pl.len()).collect().item()
    with_, without = (min(times[ladders][1:]) for ladders in (True, False))  # the first round loads
    return with_ / without, size, rows


if __name__ == "__main__":
    raise SystemExit(main())
