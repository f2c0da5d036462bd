"""``python -m tests.benchmarks.seasons [--seasons 1 4 16 38] [--json report.json]``: football seasons into a pack.

The seasons are made up, in football-data's shape: 20 teams in even ones, 18 in odd ones, five books before the match and at its
close. Beside each import stands what its files take to be read by ``csv`` alone.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import sys
import tempfile
import time
from datetime import date, timedelta
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import clvlab as cl
from tests.benchmarks.report import machine

_BOOKS = ("B365", "BW", "IW", "PS", "WH")
_MARGIN = 1.05


def write_season(path: Path, number: int) -> int:
    """Write a season, and return the number of its matches."""
    random, teams = Random(number), [f"Town {number:02}-{one:02}" for one in range(20 - 2 * (number % 2))]
    header = ["Div", "Date", "Time", "HomeTeam", "AwayTeam", "FTHG", "FTAG", "FTR"]
    sides = [f"{book}{mark}{side}" for mark in ("", "C") for book in (*_BOOKS, "Max", "Avg") for side in "HDA"]
    totals = [f"{book}{mark}{side}2.5" for mark in ("", "C") for book in ("B365", "P", "Avg") for side in "><"]
    matches = list(permutations(teams, 2))
    random.shuffle(matches)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header + sides + totals)
        for place, (home, away) in enumerate(matches):
            day = date(2000 + number % 25, 8, 1) + timedelta(days=place * 280 // len(matches))
            goals = random.randrange(4), random.randrange(4)
            result = "H" if goals[0] > goals[1] else "A" if goals[0] < goals[1] else "D"
            row: list[object] = [f"Z{number:02}", f"{day:%d/%m/%Y}", "15:00", home, away, *goals, result]
            for _ in range(2 * (len(_BOOKS) + 2)):
                home_prob = random.uniform(0.2, 0.6)
                row += [f"{1 / (prob * _MARGIN):.2f}" for prob in (home_prob, 0.25, 0.75 - home_prob)]
            for _ in range(2 * 3):
                over = random.uniform(0.3, 0.7)
                row += [f"{1 / (prob * _MARGIN):.2f}" for prob in (over, 1 - over)]
            writer.writerow(row)
    return len(matches)


def measured(seasons: int, *, books: bool) -> dict[str, Any]:
    """Make some seasons, import them, and return how long that took beside reading their text."""
    with tempfile.TemporaryDirectory(prefix="clvlab-seasons-") as name:
        folder = Path(name)
        (folder / "files").mkdir()
        matches = sum(write_season(folder / "files" / f"{one:02}.csv", one) for one in range(seasons))
        started = time.perf_counter()
        for path in (folder / "files").iterdir():
            with path.open(newline="") as file:
                sum(1 for _ in csv.DictReader(file))
        read_s = time.perf_counter() - started
        started = time.perf_counter()
        pack = cl.import_odds("football-data", folder / "files", folder / "pack", books=books)
        import_s = time.perf_counter() - started
        ticks, said = (folder / "pack" / f"{one}.parquet" for one in ("ticks", "books"))
        size = said.stat().st_size / ticks.stat().st_size if said.exists() else 0.0
        assert len(pack.fixture_ids) == matches
        shutil.rmtree(folder / "pack")
    return {"seasons": seasons, "matches": matches, "books": books, "read_s": read_s, "import_s": import_s, "size": size}


def main() -> int:
    """Measure every number of seasons, with books and without, and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.seasons", description="Measure imports of seasons.")
    parser.add_argument("--seasons", type=int, nargs="+", default=[1, 4, 16, 38])
    parser.add_argument("--json", type=Path, metavar="report.json")
    asked = parser.parse_args()
    measured(1, books=True)  # what is loaded the first time
    found = [measured(seasons, books=books) for seasons in asked.seasons for books in (False, True)]
    for one in found:
        layer = f", books {one['size']:.2f} times the ticks file" if one["books"] else ""
        sys.stdout.write(
            f"{one['seasons']:>3} seasons, {one['matches']:>6,} matches: {one['import_s']:6.2f} s, "
            f"{one['import_s'] / one['read_s']:.1f} times reading their text{layer}\n"
        )
    if asked.json:
        asked.json.write_text(json.dumps({"machine": machine(), "figures": found}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
