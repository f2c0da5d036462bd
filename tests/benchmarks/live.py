"""``python -m tests.benchmarks.live [--messages 250] [--every-ms 10] [--json report.json]``: from a message to its decisions.

A time begins when the feed hands a message over, and ends when all agents have answered and what they decided is on the disk:
the queue, the sync of the capture, the agents and the sync of the journal are in it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

import polars as pl

import clvlab as cl
from clvlab.agents.registry import template
from clvlab.engine.agent import Agent
from clvlab.packs.manifest import Fixture
from clvlab.packs.reader import load_pack
from clvlab.packs.synthetic import Recipe, build
from clvlab.runs.live.spec import LiveSpec, follow
from clvlab.sources.capture.feed import FeedMessage, Health, Item, Stop
from clvlab.sources.capture.replay import ReplayFeed
from tests.benchmarks.measure import Spread
from tests.benchmarks.report import Budget, Figure, machine, table

_GROWING = (1, 4, 16)


class Riser(cl.TickAgent):
    """Backs what has risen since the message before."""

    def __init__(self) -> None:
        self.before: dict[tuple[str, str], int] = {}

    def on_tick(self, book: cl.Book) -> object:
        for side in book.sides():
            now = book.prob_bps(side)
            then = self.before.get((book.market_key, side))
            if now is not None:
                self.before[book.market_key, side] = now
            if now and then and now > then + 40:
                return book.back(side)
        return None


@cl.strategy
def risers(ticks: pl.LazyFrame) -> pl.LazyFrame:
    """The same, decided anew over each prefix."""
    rise = pl.col("prob_bps") - pl.col("prob_bps").shift(1).over("series")
    return ticks.filter(rise > 40)


@dataclass
class Paced:
    """The messages of a replay, one every so many seconds, and when each was handed over."""

    feed: ReplayFeed
    every_s: float
    given: list[float] = field(default_factory=list)
    name: str = "replay"
    provenance: str = "synthetic-replay"
    health: Health = field(default_factory=Health)

    def fixtures(self) -> Sequence[Fixture]:
        return self.feed.fixtures()

    def listen(self, stop: Stop, fixture_ids: Sequence[int] = (), after: str | None = None) -> Iterator[Item]:
        for item in list(self.feed.listen(Stop(), fixture_ids, after)):
            if stop.wait(self.every_s):
                return
            if isinstance(item, FeedMessage):
                self.given.append(time.perf_counter())
            yield item


def main() -> int:
    """Follow ever longer fixtures, print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.live", description="Measure live decisions.")
    parser.add_argument("--messages", type=int, default=250, help="of a fixture; four and sixteen times as many as well")
    parser.add_argument("--every-ms", type=float, default=10, help="from one message to the next")
    parser.add_argument("--json", type=Path, metavar="report.json")
    asked = parser.parse_args()
    templates = [template(name) for name in ("baseline", "cumulative-drift", "sharp-momentum-v2")]
    rosters: dict[str, list[Agent]] = {
        "four agents, one of them of one's own": [*templates, cl.isolated(Riser())],
        "an agent that decides anew over the prefix": [cl.isolated(risers)],
    }
    figures = []
    with tempfile.TemporaryDirectory(prefix="clvlab-live-") as name:
        for messages in (asked.messages * times for times in _GROWING):
            build(Recipe(seed=1, fixtures=1, messages=messages), Path(name) / f"pack-{messages}")
            for job, agents in rosters.items():
                took = _followed(Path(name), messages, agents, asked.every_ms / 1000)
                budgets = (Budget(5), Budget(50)) if agents[0] is templates[0] else (None, None)
                shown = (("median", median(took)), ("99th percentile", quantiles(took, n=100)[98]))
                figures += [
                    Figure(f"{job}, {messages:,} messages", what, "ms", Spread(value, value, value), budget)
                    for (what, value), budget in zip(shown, budgets, strict=True)
                ]
    sys.stdout.write(table(figures) + "\n")
    if asked.json:
        report = {"machine": machine(), "figures": [figure.payload() for figure in figures]}
        asked.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


def _followed(folder: Path, messages: int, agents: Sequence[Agent], every_s: float) -> list[float]:
    """How long each message took, in ms; the first ones, while processes start, are left out."""
    feed = Paced(ReplayFeed(pack=load_pack(folder / f"pack-{messages}"), speed=1e12, shift=True), every_s)
    (fixture,) = feed.fixtures()
    done: list[float] = []
    plan = LiveSpec(feed=feed, fixture=fixture, agents=agents, origin_id=f"{messages} {len(agents)}")
    with tempfile.TemporaryDirectory(dir=folder) as place:
        follow(plan, Path(place) / "run", Stop(), on_message=lambda *_: done.append(time.perf_counter()))
    took = [1000 * (end - start) for start, end in zip(feed.given, done, strict=False)]
    return took[len(took) // 10 :]


if __name__ == "__main__":
    sys.exit(main())
