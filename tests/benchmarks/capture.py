"""``python -m tests.benchmarks.capture [--messages 20000] [--rounds 3] [--json report.json]``: what captures cost."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path

import orjson

from clvlab.packs.lookup import open_pack
from clvlab.packs.manifest import Fixture
from clvlab.runs.live.watch import Monitor
from clvlab.sources.capture.feed import FeedMessage, Health, Item, Stop
from clvlab.sources.capture.recorder import CaptureRecorder
from clvlab.sources.capture.records import Header
from clvlab.sources.capture.replay import ReplayFeed
from tests.benchmarks.measure import fresh, spread
from tests.benchmarks.report import Budget, Equality, Figure, machine, table

_GROWING = (1, 4, 16)
_SIZES = (200, 2_000)
_PER_S = 100  # messages of the simulated hour


class Ready:
    """A feed whose messages are in memory already, as fast as they are taken."""

    name, provenance = "replay", "synthetic-replay"

    def __init__(self, texts: Sequence[bytes], count: int) -> None:
        self.health, self._texts, self._count = Health(), texts, count

    def fixtures(self) -> Sequence[Fixture]:
        return []

    def listen(self, _stop: Stop, _fixture_ids: Sequence[int] = (), _after: str | None = None) -> Iterator[Item]:
        for number, text in enumerate(islice(cycle(self._texts), self._count)):
            received = FeedMessage(text, 1_700_000_000_000 + number, mark=str(number))
            self.health.note(received)
            yield received


def main() -> int:
    """Write messages of two sizes, ever more of them, and an hour's; print the table; 1 if something was not written."""
    asked = _arguments()
    if asked.work:
        count, *size = asked.work
        sys.stdout.write(json.dumps(_written(count, *size) if size else _hour(count)))
        return 0
    figures, whole = [], True
    for size in _SIZES:
        counts = [asked.messages * times for times in _GROWING]
        done = {count: [_fresh(count, size) for _ in range(asked.rounds)] for count in counts}
        whole = whole and all(one["records"] == count for count, found in done.items() for one in found)
        for count, found in done.items():
            rates = [count / one["seconds"] for one in found]
            budget = Budget(20_000, at="least")
            figures.append(
                Figure("written and synced, one core", f"{count:,} of {size:,} B", "messages/s", spread(rates), budget)
            )
    hours = [_fresh(3600 * _PER_S // asked.shorter) for _ in range(asked.rounds)]
    halves, ends = ([one[name] for one in hours] for name in ("half_mb", "end_mb"))
    more = spread([end / half for end, half in zip(ends, halves, strict=True)])
    job = f"resident memory, {hours[0]['records']:,} messages"
    figures += [
        Figure(job, "at half", "MB", spread(halves)),
        Figure(job, "at the end", "MB", spread(ends), Budget(1.05, on="ratio"), "at half", more),
    ]
    equality = Equality("every message was written", whole)
    sys.stdout.write(table(figures) + f"\n\n{'equal' if equality.holds else 'DIFFERENT'}: {equality.name}\n")
    if asked.json:
        settings = {"messages": asked.messages, "rounds": asked.rounds}
        report = {"machine": machine(), "settings": settings, "figures": [figure.payload() for figure in figures]}
        asked.json.write_text(json.dumps(report | {"equalities": {equality.name: equality.holds}}, indent=2) + "\n")
    return 0 if equality.holds else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.capture", description="Measure captures.")
    parser.add_argument("--messages", type=int, default=20_000, help="four and sixteen times as many are written as well")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured")
    parser.add_argument("--shorter", type=int, default=1, help="take such a part of the hour only")
    parser.add_argument("--json", type=Path, metavar="report.json")
    parser.add_argument("--work", type=int, nargs="+", help=argparse.SUPPRESS)
    return parser.parse_args()


def _fresh(*work: int) -> dict[str, float]:
    return fresh(["-m", "tests.benchmarks.capture", "--work", *map(str, work)])


def _written(count: int, size: int) -> dict[str, float]:
    """Capture messages of a size, on one core, and close the capture: all of it is on the disk in the end."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    texts = [orjson.dumps({"n": number, "pad": "x" * (size - 20)}) for number in range(100)]
    with tempfile.TemporaryDirectory(prefix="clvlab-capture-") as name:
        feed = Ready(texts, count)
        capturing = CaptureRecorder(Path(name) / "c", feed, Header(feed.name, feed.provenance, "cap", 1, None))
        begun = time.perf_counter()
        records = sum(record is not None for record in capturing.records(Stop()))
        capturing.segments.close()
        return {"seconds": time.perf_counter() - begun, "records": records}


def _hour(count: int) -> dict[str, float]:
    """Capture the messages of an hour, watched as ``clvlab capture`` watches them."""
    feed = ReplayFeed(pack=open_pack("starter"), speed=float("inf"))
    texts = [item.text for item in feed.listen(Stop()) if isinstance(item, FeedMessage)]
    with tempfile.TemporaryDirectory(prefix="clvlab-capture-") as name:
        ready = Ready(texts, count)
        capturing = CaptureRecorder(Path(name) / "c", ready, Header(ready.name, ready.provenance, "cap", 1, None))
        watch, records, half_mb = Monitor(ready, capturing.segments, lambda: 0), 0, 0.0
        for record in capturing.records(Stop()):
            if record is not None:
                watch.take(record)
                records += 1
                half_mb = _resident_mb() if records == count // 2 else half_mb
        end_mb = _resident_mb()
        capturing.segments.close()
    return {"half_mb": half_mb, "end_mb": end_mb, "records": records}


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    sys.exit(main())
