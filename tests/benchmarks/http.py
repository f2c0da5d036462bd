"""``python -m tests.benchmarks.http [--seconds 4] [--rounds 3] [--clients 8] [--json report.json]``: the service alone."""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from threading import Event
from typing import Any

from tests.benchmarks.measure import spread
from tests.benchmarks.report import Budget, Figure, machine, table
from tests.benchmarks.serving import Owner, serving

_BUDGET = Budget(0.05)
_DECISIONS = 500
_TICKS_OF_WHOLE = 60
_WHOLE_S = Budget(1.5)  # of the pack in the middle

Ask = tuple[str, str, Any]


@dataclass(frozen=True)
class Load:
    """What a burst of requests came to."""

    answers: int
    per_second: float
    median_s: float
    p99_s: float


def main() -> int:
    """Start the service, fill it, load it, print the table."""
    asked = _arguments()
    with tempfile.TemporaryDirectory(prefix="clvlab-http-") as name, _service(Path(name)) as (port, token):
        figures, sizes = _figures(port, token, asked)
    sys.stdout.write(table(figures) + "\n\n" + "".join(f"{key}: {value}\n" for key, value in sizes.items()))
    if asked.json:
        figured = [figure.payload() for figure in figures]
        settings = {"seconds": asked.seconds, "rounds": asked.rounds, "clients": asked.clients} | sizes
        asked.json.write_text(json.dumps({"machine": machine(), "settings": settings, "figures": figured}, indent=2) + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.http", description="Measure the service under load.")
    parser.add_argument("--seconds", type=float, default=4, help="how long each burst lasts")
    parser.add_argument("--rounds", type=int, default=3, help="bursts of each kind")
    parser.add_argument("--clients", type=int, default=8, help="connections that ask one after the other")
    parser.add_argument("--messages", type=int, default=8000, help="before kickoff, in the large competition's fixture")
    parser.add_argument("--fixtures", type=int, default=300, help="of the pack that is replayed whole")
    parser.add_argument("--json", type=Path, metavar="report.json")
    return parser.parse_args()


@contextmanager
def _service(folder: Path) -> Iterator[tuple[int, str]]:
    messages = _arguments().messages
    whole = {f"whole-{fixtures}": (fixtures, _TICKS_OF_WHOLE) for fixtures in _sizes()}
    packs = {"small": (20, 300), "large": (1, messages), **whole}
    with serving(folder, packs, CLVLAB_PUBLIC_QUEUE="1000") as served:
        yield served.port, served.token


def _figures(port: int, token: str, asked: argparse.Namespace) -> tuple[list[Figure], dict[str, Any]]:
    owner = Owner(port, token)
    small, large = (owner.get(f"/replay-packs/{pack}")["fixtures"] for pack in ("small", "large"))
    run_id, decisions = owner.run_of(_DECISIONS, "small", small[0])
    counter = iter(range(10**9))

    def backtest() -> Ask:
        body = {"pack_id": "small", "fixture_id": small[1], "window_id": f"w{next(counter)}", "market_allowlist": [""]}
        return "POST", "/backtests", body

    jobs: dict[str, tuple[Callable[[], Ask], Budget | None]] = {
        "healthz": (lambda: ("GET", "/healthz", None), None),
        "leaderboard": (lambda: ("GET", "/leaderboard", None), _BUDGET),
        "proof card": (lambda: ("GET", f"/runs/{run_id}", None), _BUDGET),
        "one decision": (lambda: ("GET", f"/runs/{run_id}/actions/1", None), _BUDGET),
        f"verify, {decisions} decisions": (lambda: ("POST", f"/runs/{run_id}/verify", None), None),
        "backtest, one fixture, each a new one": (backtest, None),
    }
    figures = []
    for job, (ask, budget) in jobs.items():
        loads = [burst(port, ask, asked.clients, asked.seconds) for _ in range(asked.rounds)]
        alone = [burst(port, ask, 1, asked.seconds / 2) for _ in range(asked.rounds)]
        figures.append(Figure(job, f"{asked.clients} clients", "requests/s", spread([load.per_second for load in loads])))
        figures.append(Figure(job, f"p99, {asked.clients} clients", "s", spread([load.p99_s for load in loads])))
        figures.append(Figure(job, "p99, one client", "s", spread([load.p99_s for load in alone]), budget))
    for fixtures in _sizes():
        taken = [_whole_s(port, fixtures, next(counter)) for _ in range(asked.rounds + 1)][1:]  # the first opens the pack
        job = f"backtest, {fixtures} fixtures, each a new one"
        figures.append(Figure(job, "one client", "s", spread(taken), _WHOLE_S if fixtures == asked.fixtures else None))
    for_all = _while_packs_are_replayed(port, owner, large[0], asked, counter)
    job = f"healthz while {asked.clients} clients backtest {asked.fixtures} fixtures each and a competition of ten runs"
    figures.append(Figure(job, "p99, one client", "s", spread(for_all), _BUDGET))
    watched, sizes = _while_a_competition_runs(port, owner, large[0], asked.rounds)
    figures.append(Figure("healthz while a competition runs", "p99, one client", "s", spread(watched), _BUDGET))
    return figures, {"decisions of the verified run": decisions} | sizes


def _while_a_competition_runs(port: int, owner: Owner, fixture_id: int, rounds: int) -> tuple[list[float], dict[str, Any]]:
    """The p99 of each round, and how large and long the competitions were."""
    found, seconds, events = [], [], 0
    for _ in range(rounds):
        competition = owner.competition("large", fixture_id, agents=10)
        over = Event()
        with ThreadPoolExecutor(1) as pool:
            watching = pool.submit(_latencies, port, lambda: ("GET", "/healthz", None), over.is_set)
            started = time.perf_counter()
            owner.post(f"/competitions/{competition}/start")
            seconds.append(round(time.perf_counter() - started, 2))
            over.set()
            found.append(_p99(watching.result()))
        events = owner.get(f"/competitions/{competition}")["latest_seq"] + 1
    return found, {"events of the large competition": events, "seconds of it": seconds}


def _sizes() -> tuple[int, ...]:
    """How many fixtures the packs have that are replayed whole: a quarter, as many as asked for, four times as many."""
    middle = _arguments().fixtures
    return max(middle // 4, 1), middle, 4 * middle


def _whole(fixtures: int, number: int) -> Ask:
    body = {"pack_id": f"whole-{fixtures}", "fixture_ids": None, "strategy": "cumulative-drift", "window_id": f"whole {number}"}
    return "POST", "/backtests", body


def _whole_s(port: int, fixtures: int, number: int) -> float:
    """Return the seconds from request to sealed report of a whole pack."""
    asked = iter([False, True])
    return _latencies(port, lambda: _whole(fixtures, number), lambda: next(asked))[0]


def _while_packs_are_replayed(
    port: int, owner: Owner, fixture_id: int, asked: argparse.Namespace, counter: Iterator[int]
) -> list[float]:
    """The p99 of the health in each round, while clients backtest whole packs and a competition runs."""
    found = []
    for _ in range(asked.rounds):
        competition = owner.competition("large", fixture_id, agents=10)
        over = Event()
        with ThreadPoolExecutor(asked.clients + 1) as pool:
            watching = pool.submit(_latencies, port, lambda: ("GET", "/healthz", None), over.is_set)
            for _ in range(asked.clients):
                pool.submit(_latencies, port, lambda: _whole(asked.fixtures, next(counter)), over.is_set)
            owner.post(f"/competitions/{competition}/start")
            over.set()
            found.append(_p99(watching.result()))
    return found


def burst(port: int, ask: Callable[[], Ask], clients: int, seconds: float) -> Load:
    """Ask by so many clients at once for so many seconds."""
    until = time.perf_counter() + seconds
    started = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        bursts = [pool.submit(_latencies, port, ask, lambda: time.perf_counter() >= until) for _ in range(clients)]
        found = [latency for burst in bursts for latency in burst.result()]
    return Load(len(found), len(found) / (time.perf_counter() - started), median(found), _p99(found))


def _latencies(port: int, ask: Callable[[], Ask], over: Callable[[], bool]) -> list[float]:
    """Ask one after the other over one connection, until it is over."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    found = []
    while not over() or not found:
        method, path, body = ask()
        started = time.perf_counter()
        headers = {} if body is None else {"Content-Type": "application/json", "Prefer": "wait=60"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        content = response.read()
        if response.status not in (200, 201):
            raise RuntimeError(f"{method} {path}: {response.status} {content[:500]!r}")
        found.append(time.perf_counter() - started)
    connection.close()
    return found


def _p99(latencies: list[float]) -> float:
    return quantiles(latencies, n=100)[-1] if len(latencies) > 1 else latencies[0]


if __name__ == "__main__":
    sys.exit(main())
