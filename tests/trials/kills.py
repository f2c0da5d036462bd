"""Services that are killed while clients ask: nothing that was accepted is lost, done twice, or said in two ways."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import httpx2

from clvlab.application.application import Application
from clvlab.application.log.auditing import audit
from clvlab.proof.canonical import parsed
from clvlab.runlog.bundled import Trust
from clvlab.runlog.note import read_signer
from clvlab.store.database import Database
from clvlab.store.runlog import RunLog
from tests.trials.places import FIXTURE, PACK, Service, client, services

_OWNERS = [f"did:example:trial-{number}" for number in range(3)]
_SETTLED_S = 1800  # jobs that were killed often rest for minutes


def trial(folder: Path, url: str, count: int, kills: int, seed: int) -> dict[str, int]:
    """Kill services so often while clients ask, and count what was lost, doubled or forked; all must be nought."""
    settings = {"CLVLAB_DATABASE_URL": url, "CLVLAB_CHECKPOINT_FILE": str(folder / "checkpoint")}
    accepted: list[tuple[str, str]] = []  # idempotency key, run id
    checkpoints: list[str] = []
    chance, over = random.Random(seed), Event()
    with services(folder, count, **settings) as running:
        with ThreadPoolExecutor(8) as threads:
            asking = [
                threads.submit(_ask_until, over, folder, running, number, ask, accepted)
                for number, ask in enumerate((_deploy, _backtest, _compete) * 2)
            ]
            asking.append(threads.submit(_read_checkpoints, over, folder, running, checkpoints))
            try:
                for _ in range(kills):
                    time.sleep(chance.uniform(0.05, 1.2))
                    killed = chance.choice(running)
                    killed.kill()
                    time.sleep(chance.uniform(0, 0.2))
                    killed.start()
            finally:
                over.set()
            for done in asking:
                done.result()
        _settle(running[0].url)
    return {"kills": kills, "accepted": len(accepted)} | _judged(folder, url, accepted, checkpoints)


def _ask_until(
    over: Event,
    folder: Path,
    running: Sequence[Service],
    number: int,
    ask: Callable[[httpx2.Client, str], str],
    accepted: list[tuple[str, str]],
) -> None:
    asked = 0
    while not over.is_set():
        service = running[asked % len(running)]
        asked += 1
        key = f"{ask.__name__}-{number}-{asked}"
        try:
            with client(folder, service.url, _OWNERS[number % len(_OWNERS)], 20) as asking:
                accepted.append((key, ask(asking, key)))
        except (httpx2.HTTPError, KeyError):  # it was killed, is busy, or has not started yet: nothing was accepted
            time.sleep(0.05)


def _deploy(asking: httpx2.Client, key: str) -> str:
    body = PACK | {"strategy": "cumulative-drift", "fixture_id": FIXTURE + len(key) % 4}
    answer = asking.post("/agents/deploy", json=body, headers={"Idempotency-Key": key})
    answer.raise_for_status()
    return str(answer.json()["run_id"])


def _backtest(asking: httpx2.Client, key: str) -> str:
    body = {"pack_id": "starter", "fixture_id": FIXTURE, "window_id": key, "market_allowlist": [""]}
    answer = asking.post("/backtests", json=body)
    answer.raise_for_status()
    return str(answer.json()["run_id"])


def _compete(asking: httpx2.Client, key: str) -> str:
    config = {"competition_type": key, "source_mode": "replay", "market_scope": "all", "roster_size": 2}
    created = asking.post("/competitions", json=config | {"pack_id": "starter", "fixture_id": FIXTURE})
    competition_id = created.raise_for_status().json()["competition_id"]
    entry = {"agent_id": "drift", "strategy": "cumulative-drift", "config": {}, "proof_mode": "reproducible"}
    asking.post(f"/competitions/{competition_id}/agents", json=entry).raise_for_status()
    return str(asking.post(f"/competitions/{competition_id}/start").raise_for_status().json()["run_id"])


def _read_checkpoints(over: Event, folder: Path, running: Sequence[Service], found: list[str]) -> None:
    while not over.wait(0.5):
        try:
            with client(folder, running[-1].url, None, 5) as asking:
                found.append(asking.get("/log/checkpoint").raise_for_status().text)
        except httpx2.HTTPError:
            continue


def _settle(url: str) -> None:
    """Wait until nothing is queued or leased."""
    until = time.monotonic() + _SETTLED_S
    while time.monotonic() < until:
        lines = httpx2.get(f"{url}/metrics", timeout=30).text.splitlines()
        waiting = [line for line in lines if line.startswith(('clvlab_jobs{status="queued"}', 'clvlab_jobs{status="leased"}'))]
        if waiting and all(float(line.rpartition(" ")[2]) == 0 for line in waiting):
            return
        time.sleep(1)
    raise RuntimeError("jobs are left over")


def _judged(folder: Path, url: str, accepted: Sequence[tuple[str, str]], checkpoints: Sequence[str]) -> dict[str, int]:
    application = Application(url)
    try:
        sealed = [run_id for _, run_id in accepted if application.runs.verify(run_id)["verified"]]
        rebuilt = application.leaderboard.rebuild()
    finally:
        application.close()
    results, database = Counter[str](), Database(url)
    with RunLog(database).read() as log:
        for _, entry in log.page(0, 10_000_000):
            told = parsed(entry)
            results[told["run_id"]] += told["kind"] == "RESULT"
    database.close()
    trust = Trust(logs=[str(read_signer(folder / "log.key").verifier)])
    judged = audit(url, trust=trust, checkpoints={str(n): text for n, text in enumerate(dict.fromkeys(checkpoints))})
    return {
        "sealed": len(set(sealed)),
        "lost": len(accepted) - len(sealed),
        "doubled": sum(count > 1 for count in results.values()) + len(rebuilt),
        "forked": int(not judged.sound),
        "checkpoints": len(set(checkpoints)),
    }
