"""``python -m tests.benchmarks.streams [--watchers 10] [--rounds 3] [--json report.json]``: what watchers cost."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from websockets.asyncio.client import connect

from tests.benchmarks.measure import spread
from tests.benchmarks.report import Equality, Figure, machine, table
from tests.benchmarks.serving import Owner, Served, serving

_GROWING = (1, 4, 16)
_PACK = "watched"


@dataclass(frozen=True)
class Start:
    """How long a start took, until its watchers had all of its log, and whether each had."""

    seconds: float
    followed_s: float
    whole: bool


def main() -> int:
    """Watch competitions by ever more clients, print the table; 1 if one of them missed something."""
    asked = _arguments()
    with (
        tempfile.TemporaryDirectory(prefix="clvlab-streams-") as name,
        serving(
            Path(name), {_PACK: (1, asked.messages)}, CLVLAB_MAX_STREAMS="10000", CLVLAB_MAX_CLIENT_STREAMS="10000"
        ) as served,
    ):
        figures, equality = asyncio.run(_measured(served, asked))
    sys.stdout.write(table(figures) + f"\n\n{'equal' if equality.holds else 'DIFFERENT'}: {equality.name}\n")
    if asked.json:
        settings = {"watchers": asked.watchers, "rounds": asked.rounds, "seconds": asked.seconds, "messages": asked.messages}
        report = {"machine": machine(), "settings": settings, "figures": [figure.payload() for figure in figures]}
        asked.json.write_text(json.dumps(report | {"equalities": {equality.name: equality.holds}}, indent=2) + "\n")
    return 0 if equality.holds else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.streams", description="Measure what streams cost.")
    parser.add_argument("--watchers", type=int, default=10, help="clients; four and sixteen times as many are tried as well")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured")
    parser.add_argument("--seconds", type=float, default=4, help="how long idle streams are watched")
    parser.add_argument("--messages", type=int, default=400, help="before kickoff, in the fixture of the competition")
    parser.add_argument("--json", type=Path, metavar="report.json")
    return parser.parse_args()


async def _measured(served: Served, asked: argparse.Namespace) -> tuple[list[Figure], Equality]:
    owner = Owner(served.port, served.token)
    fixture_id = owner.get(f"/replay-packs/{_PACK}")["fixtures"][0]

    async def created() -> str:
        return await asyncio.to_thread(owner.competition, _PACK, fixture_id, 2)

    draft, counts = await created(), [asked.watchers * times for times in _GROWING]
    idle: dict[int, list[float]] = {count: [] for count in (0, *counts)}
    starts: dict[int, list[Start]] = {count: [] for count in (0, *counts)}
    for count, shares in idle.items():
        shares += [100 * await _idle_share(served, draft, count, asked.seconds) for _ in range(asked.rounds)]
    await _start(served, owner, await created(), 0)  # the first opens the pack
    for _ in range(asked.rounds):
        for count in starts:
            starts[count].append(await _start(served, owner, await created(), count))
    figures = [Figure("idle streams on a draft", f"{count}", "% of a core", spread(shares)) for count, shares in idle.items()]
    alone = [start.seconds for start in starts[0]]
    figures.append(Figure("start", "0 watchers", "s", spread(alone)))
    for count in counts:
        seconds = [start.seconds for start in starts[count]]
        slower = spread([one / other for one, other in zip(seconds, alone, strict=True)])
        figures.append(Figure("start", f"{count} watchers", "s", spread(seconds), None, "0 watchers", slower))
        followed = spread([start.followed_s for start in starts[count]])
        figures.append(Figure("until all have all of it", f"{count} watchers", "s", followed))
    return figures, Equality("every watcher was sent the log", all(start.whole for found in starts.values() for start in found))


@asynccontextmanager
async def _watching(served: Served, competition: str, count: int) -> AsyncIterator[list[asyncio.Task[list[int]]]]:
    """Watch a competition by so many clients; gives what will tell the ``seq`` of all that each was sent."""
    url = f"ws://127.0.0.1:{served.port}/competitions/{competition}/arena"
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(connect(url)) for _ in range(count)]

        async def follow(number: int) -> list[int]:
            return [json.loads(message)["seq"] async for message in streams[number]]

        tasks = [asyncio.create_task(follow(number)) for number in range(count)]
        yield tasks
        for task in tasks:
            task.cancel()


async def _idle_share(served: Served, competition: str, count: int, seconds: float) -> float:
    """Return the share of a core that the service takes while clients watch and nothing happens."""
    async with _watching(served, competition, count):
        await asyncio.sleep(0.5)
        before, started = _cpu_s(served.pid), time.perf_counter()
        await asyncio.sleep(seconds)
        return (_cpu_s(served.pid) - before) / (time.perf_counter() - started)


async def _start(served: Served, owner: Owner, competition: str, count: int) -> Start:
    async with _watching(served, competition, count) as tasks:
        await asyncio.sleep(0.2)
        started = time.perf_counter()
        await asyncio.to_thread(owner.post, f"/competitions/{competition}/start")
        seconds = time.perf_counter() - started
        sent = await asyncio.gather(*tasks)
        followed_s = time.perf_counter() - started
    length = (await asyncio.to_thread(owner.get, f"/competitions/{competition}"))["latest_seq"] + 1
    return Start(seconds, followed_s, all(seqs == list(range(length)) for seqs in sent))


def _cpu_s(pid: int) -> float:
    """Return the processor seconds of a process, of user and system (proc(5), /proc/pid/stat, fields 14 and 15)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
