"""Many who ask at once, and what others feel of them."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from threading import Event

import httpx2

from tests.trials.places import FIXTURE, PACK, Service, client, services

_READERS = 48
_STARTS = 16
_NOISY, _OTHER = "did:example:noisy", "did:example:other"


def noisy_neighbour(folder: Path, url: str, seconds: float) -> dict[str, float]:
    """Read in bulk, start sixteen competitions of one owner and freeze a peer, while another owner asks."""
    settings = {"CLVLAB_DATABASE_URL": url, "CLVLAB_MAX_OWNER_STARTS": str(_STARTS)}
    with services(folder, 2, **settings) as (service, peer), client(folder, service.url, _NOISY) as noisy:
        long = _competition(noisy, 20)
        noisy.post(f"/competitions/{long}/start").raise_for_status()
        whole = f"/competitions/{long}/events?since_seq=-1"
        events = len(noisy.get(whole).json())
        others = [_competition(noisy, 2) for _ in range(_STARTS)]
        over = Event()
        with ThreadPoolExecutor(_READERS + _STARTS + 2) as threads, _held_up(threads, over):
            for _ in range(_READERS):
                threads.submit(_until, over, service, lambda asking: asking.get(whole))
            for created in others:
                threads.submit(_start, folder, service, created)
            peer.send(signal.SIGSTOP)
            ready = threads.submit(_seconds, over, service.url, lambda asking: asking.get("/readyz"))
            with client(folder, service.url, _OTHER) as other:
                took = _asked_as_another(other, seconds)
            peer.send(signal.SIGCONT)
        probes = ready.result()
    return {
        "events read": events,
        "calls": len(took),
        "median s": round(median(took), 3),
        "slowest s": round(max(took), 2),
        "readyz slowest s": round(max(probes), 3),
    }


def flood(folder: Path, url: str, seconds: float) -> dict[str, float]:
    """Ask for other backtests without end, from many clients; then see how much memory the service has."""
    with services(folder, 1, CLVLAB_DATABASE_URL=url) as (service,):
        over, grown = Event(), []
        with ThreadPoolExecutor(40) as threads, _held_up(threads, over):
            for number in range(32):
                threads.submit(_until, over, service, _other_backtest(number))
            probes = threads.submit(_seconds, over, service.url, lambda asking: asking.get("/healthz"))
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                grown.append(service.process.memory_info().rss / 1e6)
                time.sleep(seconds / 20)
        found = probes.result()
        lines = dict(line.rpartition(" ")[::2] for line in httpx2.get(f"{service.url}/metrics").text.splitlines())
    runs, half = round(float(lines['clvlab_jobs{status="done"}'])), len(grown) // 2
    return {
        "runs sealed": runs,
        "stored bytes a run": round(float(lines['clvlab_stored_bytes{of="public"}']) / runs),
        "healthz p99 s": round(quantiles(found, n=100)[98], 3),
        "RSS MB at half time": round(max(grown[:half])),
        "RSS MB at the end": round(max(grown[half:])),
    }


@contextmanager
def _held_up(threads: ThreadPoolExecutor, over: Event) -> Iterator[None]:
    """Have those who ask without end stop when the trial is over, however it ends."""
    try:
        yield
    finally:
        over.set()
        threads.shutdown(wait=True)


def _competition(asking: httpx2.Client, agents: int) -> str:
    config = {"competition_type": "trial", "source_mode": "replay", "market_scope": "all", "roster_size": max(2, agents)}
    created = asking.post("/competitions", json=config | {"pack_id": "starter", "fixture_id": FIXTURE}).raise_for_status()
    competition_id = str(created.json()["competition_id"])
    for number in range(agents):
        entry = {"agent_id": f"drift-{number}", "strategy": "cumulative-drift", "config": {}, "proof_mode": "reproducible"}
        asking.post(f"/competitions/{competition_id}/agents", json=entry).raise_for_status()
    return competition_id


def _start(folder: Path, service: Service, created: str) -> None:
    with client(folder, service.url, _NOISY) as asking:
        asking.post(f"/competitions/{created}/start")


def _asked_as_another(asking: httpx2.Client, seconds: float) -> list[float]:
    """How long each call of another owner takes: a deploy, and a look at it, in turn."""
    took, until, number = [], time.monotonic() + seconds, 0
    while time.monotonic() < until:
        number += 1
        started = time.perf_counter()
        key = {"Idempotency-Key": f"call {number}"}
        asking.post("/agents/deploy", json=PACK | {"strategy": "baseline", "fixture_id": FIXTURE}, headers=key)
        took.append(time.perf_counter() - started)
        started = time.perf_counter()
        asking.get("/agents/instances", params={"limit": 5}).raise_for_status()
        took.append(time.perf_counter() - started)
        time.sleep(0.1)
    return took


def _other_backtest(client_number: int) -> Callable[[httpx2.Client], httpx2.Response]:
    asked = 0

    def ask(asking: httpx2.Client) -> httpx2.Response:
        nonlocal asked
        asked += 1
        window = f"client {client_number}, number {asked}"
        body = {"pack_id": "starter", "fixture_id": FIXTURE, "window_id": window, "market_allowlist": [""]}
        return asking.post("/backtests", json=body)

    return ask


def _until(over: Event, service: Service, ask: Callable[[httpx2.Client], httpx2.Response]) -> None:
    """Ask without end; wait as long as a refusal says."""
    with httpx2.Client(base_url=service.url, timeout=120) as asking:
        while not over.is_set():
            try:
                answer = ask(asking)
            except httpx2.HTTPError:
                continue
            if answer.status_code == 503:
                over.wait(min(2.0, float(answer.headers.get("retry-after", "1"))))


def _seconds(over: Event, url: str, ask: Callable[[httpx2.Client], httpx2.Response]) -> list[float]:
    took = []
    with httpx2.Client(base_url=url, timeout=60) as asking:
        while not over.is_set():
            started = time.perf_counter()
            ask(asking)
            took.append(time.perf_counter() - started)
            over.wait(0.05)
    return took
