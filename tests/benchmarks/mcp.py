"""``python -m tests.benchmarks.mcp [--clients 16] [--many 200] [--seconds 10] [--json report.json]``: ticks over MCP.

An empty tool of the SDK, served by the SDK alone, gets the same clients: what it takes is the protocol's own part.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from clvlab.log.seats import next_head, tick_digest
from tests.benchmarks.measure import spread
from tests.benchmarks.report import Budget, Equality, Figure, machine, table
from tests.benchmarks.serving import serving

_PACK = "played"
_BACKS_EVERY = 5
_VIEW = ("tick", "fixture", "market", "sides", "suspended", "in_running", "time_ms")
_RATIO = Budget(1.5)
_EMPTY = """
import sys, uvicorn
from mcp.server.mcpserver import MCPServer
server = MCPServer("empty", log_level="ERROR")
@server.tool()
async def nothing(tick: int) -> dict[str, int]:
    return {"tick": tick}
uvicorn.run(server.streamable_http_app(json_response=True, stateless_http=True), port=int(sys.argv[1]), log_level="error")
"""


@asynccontextmanager
async def _session(url: str, token: str | None = None) -> AsyncIterator[Client]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=600, verify=False) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


async def _calls(client: Client, until_s: float, most: int) -> list[float]:
    """Call the empty tool, in a closed loop; gives the seconds of each call."""
    times = []
    while len(times) < most and time.perf_counter() < until_s:
        began = time.perf_counter()
        await client.call_tool("nothing", {"tick": len(times)})
        times.append(time.perf_counter() - began)
    return times


async def _ticks(client: Client, until_s: float, most: int) -> tuple[list[float], bool]:
    """Take a seat and answer its ticks; gives the seconds of each, and whether the chain is the one that was computed here."""
    times: list[float] = []
    broken = False
    tick = await _call(client, "enter", {"agent": "player", "pack_id": _PACK, "fixture_ids": "all"})
    seat, head = tick["seat"], tick["head"]
    while not tick["done"] and len(times) < most and time.perf_counter() < until_s:
        said = {} if tick["tick"] % _BACKS_EVERY else {"action": "BACK", "side": tick["sides"][0][0]}
        began = time.perf_counter()
        following = await _call(client, "act", {"seat": seat, "tick": tick["tick"], **said})
        times.append(time.perf_counter() - began)
        digest = tick_digest(tick["salt"], {name: tick[name] for name in _VIEW})
        head = next_head(head, digest, [{**said, "market": tick["market"], "stake": 100}] if said else [], missed=False)
        broken |= head != following["head"]
        tick = following
    place = await _call(client, "standing", {"seat": seat})
    return times, not broken and (place["answered"], place["head"]) == (len(times), head)


async def _call(client: Client, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    made = await client.call_tool(name, arguments)
    if made.is_error:
        raise RuntimeError(f"{name}: {made.structured_content}")
    return dict(made.structured_content or {})


async def _together(
    play: Callable[[Client, float, int], Any], url: str, token: str | None, clients: int, seconds: float, most: int
) -> list[Any]:
    """Let so many clients, all of them connected before, play at once."""
    gate = asyncio.Barrier(clients)

    async def one() -> Any:
        async with _session(url, token) as client:
            await client.list_tools()
            await client.call_tool("nothing", {"tick": 0})  # the arena refuses it; a client's first call takes longest
            await gate.wait()
            return await play(client, time.perf_counter() + seconds, most)

    return await asyncio.gather(*(one() for _ in range(clients)))


@contextmanager
def _empty() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([sys.executable, "-c", _EMPTY, str(port)], env=os.environ) as served:
        try:
            for _ in range(600):
                with socket.socket() as tried:
                    if not tried.connect_ex(("127.0.0.1", port)):
                        break
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            served.terminate()


def main() -> int:
    """Measure both, print the table; 1 if a decision was lost or doubled."""
    asked = _arguments()
    loop = asked.clients, asked.seconds, sys.maxsize
    with _empty() as url:
        empty = asyncio.run(_together(_calls, url, None, *loop))
    with tempfile.TemporaryDirectory(prefix="clvlab-mcp-") as name:
        settings = {
            "CLVLAB_DATABASE_URL": f"sqlite:///{name}/store.db",
            "CLVLAB_MAX_CLIENT_CONNECTIONS": "1000",
            "CLVLAB_MAX_OWNER_SEATS": "10000",
        }
        with serving(Path(name), {_PACK: (20, 300)}, **settings) as served:
            url = f"http://127.0.0.1:{served.port}/mcp"
            few = asyncio.run(_together(_ticks, url, served.token, *loop))
            crowd = asyncio.run(_together(_ticks, url, served.token, asked.many, 600, asked.ticks))
    figures = _figures(f"{asked.clients} clients", empty, [times for times, _ in few])
    is_whole = all(whole for _, whole in [*few, *crowd])
    equality = Equality(f"no decision of {asked.many} seats over MCP was lost or doubled", is_whole)
    sys.stdout.write(table(figures) + f"\n\n{'equal' if equality.holds else 'DIFFERENT'}: {equality.name}\n")
    if asked.json:
        settings_said = {name: value for name, value in vars(asked).items() if name != "json"}
        report = {"machine": machine(), "settings": settings_said, "figures": [figure.payload() for figure in figures]}
        asked.json.write_text(json.dumps(report | {"equalities": {equality.name: equality.holds}}, indent=2) + "\n")
    return 0 if equality.holds else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.mcp", description="Measure what a tick takes over MCP.")
    parser.add_argument("--clients", type=int, default=16, help="clients in a closed loop")
    parser.add_argument("--many", type=int, default=200, help="clients at once, which count what was lost or doubled")
    parser.add_argument("--seconds", type=float, default=10, help="how long the first ones play")
    parser.add_argument("--ticks", type=int, default=20, help="ticks of each of the many")
    parser.add_argument("--json", type=Path, metavar="report.json")
    return parser.parse_args()


def _figures(job: str, empty: Sequence[Sequence[float]], acts: Sequence[Sequence[float]]) -> list[Figure]:
    cuts = [quantiles([one for times in found for one in times], n=100) for found in (empty, acts)]
    found = []
    for name, at in (("median", 49), ("99th percentile", 98)):
        nothing, act = (own[at] for own in cuts)
        found += [
            Figure(job, f"an empty tool of the SDK, {name}", "s", spread([nothing])),
            Figure(job, f"an act and the next tick, {name}", "s", spread([act])),
            Figure(job, f"their ratio, {name}", "times", spread([act / nothing]), _RATIO),
        ]
    return found


if __name__ == "__main__":
    sys.exit(main())
