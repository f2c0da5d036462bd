"""``python -m tests.benchmarks.progress [--rounds 15] [--mb 256] [--fixtures 60] [--json FILE]``.

Progress costs a report for each piece of work, and after a second a few pictures a second in a thread. Each job runs in turn
without a listener and with a bar; the ratio is that of processor time, which other processes hardly change.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from clvlab.base.progress import Watch, report
from clvlab.packs.files import file_sha256
from clvlab.packs.synthetic import Recipe, build
from clvlab.packs.verification import verify_pack
from clvlab.report.bars import terminal_bar
from clvlab.report.tearsheet import TearSheet
from tests.benchmarks.report import machine
from tests.factories import performed

_REPORTS = 200_000
Job = Callable[[], object]


def main() -> int:
    """Measure, and print the ratios as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--mb", type=int, default=256, help="size of the file that is hashed")
    parser.add_argument("--fixtures", type=int, default=60)
    parser.add_argument("--json", type=Path, help="file of the figures, besides standard output")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="clvlab-benchmarks-") as name:
        folder = Path(name)
        (folder / "file").write_bytes(bytes(1 << 20) * asked.mb)
        build(Recipe(1, asked.fixtures, 300), folder / "pack")
        pack = verify_pack(folder / "pack")
        jobs: dict[str, Job] = {
            "hash a file": lambda: file_sha256(folder / "file"),
            "verify a pack": lambda: verify_pack(folder / "pack"),
            "backtest": lambda: performed(pack),
            "tear sheet": lambda: TearSheet(performed(pack), resamples=100, draws=10)._repr_html_(),
        }
        found = {name: _ratio(job, asked.rounds) for name, job in jobs.items()}
    text = json.dumps({"machine": machine(), "nanoseconds_of_a_report": _report_ns(), "jobs": found}, indent=2)
    print(text)
    if asked.json is not None:
        asked.json.write_text(text)
    return 0


def _ratio(job: Job, rounds: int) -> Mapping[str, Any]:
    """Run a job both ways in turn, and return the medians of its processor seconds, and of the ratios of each turn."""
    job()
    pairs = [(_seconds(job), _seconds(partial(_watched, job))) for _ in range(rounds)]
    unheard, shown = (median(values) for values in zip(*pairs, strict=True))
    return {"unheard_s": round(unheard, 4), "shown_s": round(shown, 4), "ratio": round(median(b / a for a, b in pairs), 3)}


def _seconds(job: Job) -> float:
    start = time.process_time()
    job()
    return time.process_time() - start


def _watched(job: Job) -> object:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with Watch(lambda: terminal_bar(console, "A benchmark")).watching():
        return job()


def _report_ns() -> Mapping[str, float]:
    def reports() -> None:
        for number in range(_REPORTS):
            report("reading rows", number, _REPORTS)

    unheard, shown = _seconds(reports), _seconds(partial(_watched, reports))
    return {name: round(1e9 * seconds / _REPORTS, 1) for name, seconds in (("unheard", unheard), ("shown", shown))}


if __name__ == "__main__":
    sys.exit(main())
