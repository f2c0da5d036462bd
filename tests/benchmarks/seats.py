"""``python -m tests.benchmarks.seats [--seats 16] [--many 200] [--seconds 10] [--json report.json]``: ticks over HTTP."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any

from clvlab.log.seats import next_head, tick_digest
from tests.benchmarks.measure import spread
from tests.benchmarks.report import Budget, Equality, Figure, machine, table
from tests.benchmarks.serving import Served, serving

_MEDIAN_S, _P99_S = Budget(0.015), Budget(0.050)
_PACK = "played"
_BACKS_EVERY = 5


@dataclass
class Player:
    """A client of one seat in a closed loop, which computes the chain of its seat by itself."""

    port: int
    token: str
    times_s: list[float] = field(default_factory=list)
    ticks: int = 0
    broken: int = 0
    seat_id: str = ""
    head: str = ""
    is_whole: bool = False

    async def play(self, until_s: float, most: int) -> None:
        """Take a seat over the whole pack, and answer its ticks until a time, or until so many are answered."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            body = {"agent_id": "player", "pack_id": _PACK, "fixture_ids": "all", "blind": "aliased"}
            start = await self._ask(reader, writer, "POST", "/arena/seats", body)
            self.seat_id, self.head, tick = start["seat_id"], start["answered"]["head"], start["next"]
            while tick and self.ticks < most and time.perf_counter() < until_s:
                view = tick["view"]
                said = {} if view["tick"] % _BACKS_EVERY else {"action": "BACK", "side": view["sides"][0][0]}
                began = time.perf_counter()
                answer = await self._ask(
                    reader, writer, "POST", f"/arena/seats/{self.seat_id}/actions", {"tick": view["tick"], **said}
                )
                self.times_s.append(time.perf_counter() - began)
                recorded = [{**said, "market": view["market"], "stake": 100}] if said else []
                self.head = next_head(self.head, tick_digest(tick["salt"], view), recorded, missed=False)
                self.broken += self.head != answer["answered"]["head"]
                self.ticks += 1
                tick = answer["next"]
            known = await self._ask(reader, writer, "GET", f"/arena/seats/{self.seat_id}", None)
            self.is_whole = not self.broken and (known["answered"], known["head"]) == (self.ticks, self.head)
        finally:
            writer.close()

    async def _ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, method: str, path: str, body: Any
    ) -> dict[str, Any]:
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.token}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        writer.write(head.encode() + content)
        answer = await reader.readuntil(b"\r\n\r\n")
        size = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        found: dict[str, Any] = json.loads(await reader.readexactly(int(size.partition(b":")[2])))
        if not answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")):
            raise RuntimeError(f"{method} {path}: {found}")
        return found


def main() -> int:
    """Play seats by few and by many clients, print the table; 1 if a decision was lost or doubled."""
    asked = _arguments()
    with tempfile.TemporaryDirectory(prefix="clvlab-seats-") as name:
        store = f"sqlite:///{name}/store.db"
        many = {"CLVLAB_MAX_CLIENT_CONNECTIONS": "1000", "CLVLAB_MAX_OWNER_SEATS": "10000"}
        with serving(Path(name), {_PACK: (20, 300)}, CLVLAB_DATABASE_URL=store, **many) as served:
            before_s = served.processor_s()
            few = asyncio.run(_played(served, asked.seats, asked.seconds, sys.maxsize))
            taken_s = (served.processor_s() - before_s) / sum(player.ticks for player in few)
            crowd = asyncio.run(_played(served, asked.many, 600, asked.ticks))
    few_job = f"{asked.seats} seats"
    figures = [*_figures(few, few_job), Figure(few_job, "processor time of the service for an act", "s", spread([taken_s]))]
    figures = [*figures, *_figures(crowd, f"{asked.many} seats at once", None, None)]
    equality = Equality(f"no decision of {asked.many} seats was lost or doubled", all(one.is_whole for one in [*few, *crowd]))
    sys.stdout.write(table(figures) + f"\n\n{'equal' if equality.holds else 'DIFFERENT'}: {equality.name}\n")
    if asked.json:
        settings = {name: value for name, value in vars(asked).items() if name != "json"}
        report = {"machine": machine(), "settings": settings, "figures": [figure.payload() for figure in figures]}
        asked.json.write_text(json.dumps(report | {"equalities": {equality.name: equality.holds}}, indent=2) + "\n")
    return 0 if equality.holds else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.seats", description="Measure what a tick of a seat takes."
    )
    parser.add_argument("--seats", type=int, default=16, help="clients in a closed loop")
    parser.add_argument("--many", type=int, default=200, help="clients at once, which count what was lost or doubled")
    parser.add_argument("--seconds", type=float, default=10, help="how long the first ones play")
    parser.add_argument("--ticks", type=int, default=50, help="ticks of each of the many")
    parser.add_argument("--json", type=Path, metavar="report.json")
    return parser.parse_args()


async def _played(served: Served, count: int, seconds: float, ticks: int) -> Sequence[Player]:
    players = [Player(served.port, served.token) for _ in range(count)]
    until_s = time.perf_counter() + seconds
    await asyncio.gather(*(player.play(until_s, ticks) for player in players))
    return players


def _figures(
    players: Sequence[Player], job: str, median_s: Budget | None = _MEDIAN_S, p99_s: Budget | None = _P99_S
) -> list[Figure]:
    times = [one for player in players for one in player.times_s]
    cuts = quantiles(times, n=100)
    return [
        Figure(job, "an act and the next tick, median", "s", spread([cuts[49]]), median_s),
        Figure(job, "an act and the next tick, 99th percentile", "s", spread([cuts[98]]), p99_s),
        Figure(job, "ticks answered", "ticks", spread([float(len(times))])),
    ]


if __name__ == "__main__":
    sys.exit(main())
