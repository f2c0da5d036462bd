"""Services and workers that are killed while clients ask: what was accepted is not lost, done twice, or said in two ways."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from threading import Event

import httpx2
from sqlalchemy import func, select

from clvlab.arena.application import Application
from clvlab.arena.log.audit import audit
from clvlab.log.bundles import Trust
from clvlab.log.note import read_signer
from clvlab.proof.canonical import parsed
from clvlab.store.database import Database
from clvlab.store.runlog import RunLog
from clvlab.store.tables import jobs
from tests.trials.places import FIXTURE, PACK, Service, Worker, client, running, services, start, with_key

_OWNERS = [f"did:example:trial-{number}" for number in range(3)]
_SETTLED_S = 1800  # jobs that were killed often rest for minutes


def trial(folder: Path, url: str, count: int, kills: int, seed: int) -> dict[str, int]:
    """Kill services so often while clients ask, and count what was lost, doubled or forked; all must be nought."""
    chance, load = random.Random(seed), Load(folder)
    with services(folder, count, **_settings(folder, url)) as served:
        with load.on(served):
            for _ in range(kills):
                time.sleep(chance.uniform(0.05, 1.2))
                killed = chance.choice(served)
                killed.kill()
                time.sleep(chance.uniform(0, 0.2))
                killed.start()
        _settle(served[0].url)
    return {"kills": kills} | _judged(folder, url, load)


def trial_of_workers(folder: Path, url: str, rounds: int, clients: int, seed: int) -> dict[str, int]:
    """Kill one of two services that only answer and one of two workers at once, so often, while clients ask.

    Besides, each run that was committed to must be sealed, also of those whose client was told nothing any more.
    """
    chance, load = random.Random(seed), Load(folder, clients)
    settings = with_key(folder, _settings(folder, url) | {"CLVLAB_JOB_LEASE_S": "2"})
    answering = [Service(folder, settings | {"CLVLAB_JOB_WORKERS": "0"}) for _ in range(2)]
    workers = [Worker(folder, settings) for _ in range(2)]
    with running([*workers, *answering]):
        with load.on(answering):
            for _ in range(rounds):
                time.sleep(chance.uniform(0.5, 2))
                killed = [chance.choice(answering), chance.choice(workers)]
                for process in killed:
                    process.kill()
                time.sleep(chance.uniform(0, 0.5))  # the others go on alone
                start(killed)
        _settle(answering[0].url)
    return {"kills": 2 * rounds} | _judged(folder, url, load) | _left(url)


def _settings(folder: Path, url: str) -> dict[str, str]:
    return {"CLVLAB_DATABASE_URL": url, "CLVLAB_CHECKPOINT_FILE": str(folder / "checkpoint")}


@dataclass
class Load:
    """Clients that ask without end, and what they were told.

    Attributes
    ----------
    clients
        How many; they deploy, backtest and compete in turn.
    accepted
        Idempotency key and run id of what was accepted.
    checkpoints
        Those that were read meanwhile.
    """

    folder: Path
    clients: int = 6
    accepted: list[tuple[str, str]] = field(default_factory=list)
    checkpoints: list[str] = field(default_factory=list)

    @contextmanager
    def on(self, running: Sequence[Service]) -> Iterator[None]:
        """Ask services in turn while the context lasts."""
        over = Event()
        with ThreadPoolExecutor(self.clients + 1) as threads:
            asking = [
                threads.submit(_ask_until, over, self.folder, running, number, ask, self.accepted)
                for number, ask in zip(range(self.clients), cycle((_deploy, _backtest, _compete)), strict=False)
            ]
            asking.append(threads.submit(_read_checkpoints, over, self.folder, running, self.checkpoints))
            try:
                yield
            finally:
                over.set()
            for done in asking:
                done.result()


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


def _judged(folder: Path, url: str, load: Load) -> dict[str, int]:
    accepted = load.accepted
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
    checkpoints = dict.fromkeys(load.checkpoints)
    judged = audit(url, trust=trust, checkpoints={str(n): text for n, text in enumerate(checkpoints)})
    return {
        "accepted": len(accepted),
        "sealed": len(set(sealed)),
        "lost": len(accepted) - len(sealed),
        "doubled": sum(count > 1 for count in results.values()) + len(rebuilt),
        "forked": int(not judged.sound),
        "checkpoints": len(checkpoints),
    }


def _left(url: str) -> dict[str, int]:
    """Count the runs that were committed to and not sealed, and the jobs that others took up from who was killed."""
    application = Application(url)
    try:
        unsealed = sum(of["committed"] - of["sealed"] for of in application.log.state()["owners"])
    finally:
        application.close()
    database = Database(url)
    with database.read() as connection:
        taken_up = connection.execute(select(func.count()).select_from(jobs).where(jobs.c.attempt > 1)).scalar_one()
    database.close()
    return {"unsealed": unsealed, "taken up again": taken_up}
