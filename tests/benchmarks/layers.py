"""``python -m tests.benchmarks.layers FOLDER``: how large layers of books are beside the ticks, in archives of The Odds API."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import clvlab as cl


def main() -> int:
    """Import every archive of a folder with its books, and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.layers", description="Measure layers of books.")
    parser.add_argument("folder", type=Path, help="holds NAME_ticks.parquet, each with its NAME_fixtures.csv")
    for path in sorted(parser.parse_args().folder.glob("*_ticks.parquet")):
        with tempfile.TemporaryDirectory(prefix="clvlab-layers-") as name:
            pack = cl.import_odds("the-odds-api", path, Path(name) / "pack", books=True, lenient=True).source
            ticks, books = ((pack.folder / f"{one}.parquet").stat().st_size for one in ("ticks", "books"))
            started = time.perf_counter()
            found = pack.tape().books
            rows = 0 if found is None else found.collect().height
            sys.stdout.write(
                f"{path.name}: {rows:,} rows of books in {books:,} B, {books / ticks:.2f} times the ticks file; "
                f"read in {time.perf_counter() - started:.3f} s\n"
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
