"""``python -m tests.benchmarks.watching [--watchers 25 100] [--rounds 5] [--json out.json]``: live decisions beside watchers.

A service of this process follows one match after the other, each watched by so many clients of another process. A time begins
when the feed hands a message over, and ends when all agents have answered and what they decided is on the disk.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from clvlab_service.app import create_app
from clvlab_service.dev import AUDIENCE, ISSUER, dev_token, public_key_file
from clvlab_service.server import _bound_socket, _Server
from clvlab_service.settings import Settings
from websockets.asyncio.client import connect

from clvlab.arena import live as live_runs
from clvlab.arena.live import EventWriter
from clvlab.law.message import Message
from clvlab.packs.reader import Pack, load_pack
from clvlab.packs.synthetic import Recipe, build
from clvlab.runs.live.journal import Answers
from clvlab.sources.capture.replay import ReplayFeed
from tests.benchmarks.live import Paced
from tests.benchmarks.measure import spread
from tests.benchmarks.report import Budget, Equality, Figure, machine, table
from tests.benchmarks.serving import Owner

_EAGER = {"cooldown_s": 0, "min_drift_micro_logits": 1, "min_persistence": 0.0, "warmup_ticks": 1}
_LIVE = {"competition_type": "bench", "source_mode": "live", "market_scope": "all", "roster_size": 4}
_READY = "ready"


@dataclass(frozen=True)
class Match:
    """How long each message of a match took, in ms, how much was decided, and whether each watcher had all of the log."""

    took: Sequence[float]
    decisions: int
    whole: bool


class _Timed(EventWriter):
    """Notes when what was decided at a message is on the disk."""

    done: list[float] = []  # noqa: RUF012  of the match that is followed

    def decided(self, message: Message, answers: Answers) -> None:
        self.done.append(time.perf_counter())
        super().decided(message, answers)


class _Matches:
    """Makes the feed of each run, and knows the newest."""

    def __init__(self, pack: Pack, every_s: float) -> None:
        self._pack, self._every_s = pack, every_s
        self.newest = self()

    def __call__(self) -> Paced:
        feed = ReplayFeed(pack=self._pack, speed=1e12, shift=True)
        self.newest = Paced(feed, self._every_s)
        return self.newest


def main() -> int:
    """Follow matches beside ever more watchers, print the table; 1 if one of them missed something."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.watching", description="Measure what watchers cost.")
    parser.add_argument("--watchers", type=int, nargs="+", default=[25, 100], help="clients; none are tried as well")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured")
    parser.add_argument("--messages", type=int, default=250, help="of a match")
    parser.add_argument("--every-ms", type=float, default=40, help="from one message to the next")
    parser.add_argument("--json", type=Path, metavar="report.json")
    parser.add_argument("--watch", nargs=2, metavar=("URL", "COUNT"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.watch:
        return asyncio.run(_watch(asked.watch[0], int(asked.watch[1])))
    matches: dict[int, list[Match]] = {count: [] for count in (0, *asked.watchers)}
    with tempfile.TemporaryDirectory(prefix="clvlab-watching-") as name:
        build(Recipe(seed=1, fixtures=1, messages=asked.messages), Path(name) / "pack")
        with _serving(Path(name), asked.every_ms / 1000) as (owner, feeds, url):
            _match(owner, feeds, url, 0)  # the first loads what the others find loaded
            for _ in range(asked.rounds):
                for count, found in matches.items():
                    found.append(_match(owner, feeds, url, count))
    figures = [figure for count in matches for figure in _figures(count, matches)]
    whole = Equality("every watcher was sent the log", all(match.whole for found in matches.values() for match in found))
    sys.stdout.write(table(figures) + f"\n\n{'equal' if whole.holds else 'DIFFERENT'}: {whole.name}\n")
    if asked.json:
        settings = {"messages": asked.messages, "decisions of a match": matches[0][0].decisions, "every_ms": asked.every_ms}
        report = {"machine": machine(), "settings": settings, "figures": [figure.payload() for figure in figures]}
        asked.json.write_text(json.dumps(report | {"equalities": {whole.name: whole.holds}}, indent=2) + "\n")
    return 0 if whole.holds else 1


def _figures(count: int, matches: dict[int, list[Match]]) -> Iterator[Figure]:
    for name, figure_of, budget in (("median", median, Budget(1.1, "ratio")), ("99th percentile", _p99, None)):
        values = [figure_of(match.took) for match in matches[count]]
        if count == 0:
            yield Figure("0 watchers", name, "ms", spread(values))
            continue
        alone = [figure_of(match.took) for match in matches[0]]
        slower = spread([one / other for one, other in zip(values, alone, strict=True)])
        yield Figure(f"{count} watchers", name, "ms", spread(values), budget, "0 watchers", slower)


def _p99(took: Sequence[float]) -> float:
    return quantiles(took, n=100)[98]


@contextmanager
def _serving(folder: Path, every_s: float) -> Iterator[tuple[Owner, _Matches, str]]:
    trust = {"jwt_public_key_file": public_key_file(folder), "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}
    streams = {"max_streams": 10_000, "max_client_streams": 10_000}
    streams |= {"max_connections": 20_000, "max_client_connections": 20_000}
    settings = Settings(log_level="error", devfeed=True, live_folder=folder / "live", **trust, **streams)
    app = create_app(settings)
    sock, ready = _bound_socket("127.0.0.1", 0), threading.Event()
    server = _Server(app, settings, ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    port = sock.getsockname()[1]
    feeds = _Matches(load_pack(folder / "pack"), every_s)
    live_runs.EventWriter = _Timed  # type: ignore[misc]
    try:
        ready.wait()
        live = app.state.application.live
        live.settings = replace(live.settings, new_feed=feeds)
        yield Owner(port, dev_token(folder, "did:example:bench", 3600)), feeds, f"ws://127.0.0.1:{port}"
    finally:
        live_runs.EventWriter = EventWriter  # type: ignore[misc]
        server.should_exit = True
        thread.join()
        sock.close()


def _match(owner: Owner, feeds: _Matches, url: str, count: int) -> Match:
    """Follow a match to its end beside so many watchers; the first messages, while all begins, are left out."""
    created = owner.post("/competitions", _LIVE)["competition_id"]
    for name, config in (("baseline", {}), ("cumulative-drift", _EAGER), ("sharp-momentum-v2", {})):
        entry = {"agent_id": name, "strategy": name, "config": config, "proof_mode": "reproducible"}
        owner.post(f"/competitions/{created}/agents", entry)
    watch = [sys.executable, "-m", __spec__.name, "--watch", f"{url}/competitions/{created}/arena", str(count)]
    with subprocess.Popen(watch, stdout=subprocess.PIPE, text=True) as watchers:
        assert watchers.stdout is not None
        watchers.stdout.readline()
        _Timed.done.clear()
        owner.post(f"/competitions/{created}/start", expect=202)
        while (state := owner.get(f"/competitions/{created}"))["status"] == "running":
            time.sleep(0.5)
        lengths = json.loads(watchers.stdout.readline())
    took = [1000 * (end - start) for start, end in zip(feeds.newest.given, _Timed.done, strict=False)]
    decisions: int = sum(agent["valid_count"] for agent in owner.get(f"/runs/{state['run_id']}")["metrics"]["agents"])
    return Match(took[len(took) // 10 :], decisions, lengths == [state["latest_seq"] + 1] * count)


async def _watch(url: str, count: int) -> int:
    """Watch until the log is complete; says when all watch, and how much each was sent."""
    streams: list[Any] = [await connect(url) for _ in range(count)]
    sys.stdout.write(f"{_READY}\n")
    sys.stdout.flush()

    async def length(stream: Any) -> int:
        return len([json.loads(message)["seq"] async for message in stream])

    sys.stdout.write(json.dumps(await asyncio.gather(*map(length, streams))) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
