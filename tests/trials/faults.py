"""A peer that freezes, a disk that fills up, and a database that is restored from a backup."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx2

from tests.trials.places import CLVLAB, FIXTURE, PACK, Service, client, services

_OWNER = "did:example:trial"
_STOPS_WITH_THE_LOG = """
import os, signal, sys
from clvlab.errors import StoreError
from clvlab.log.log import commit
from clvlab.store.database import Database
from clvlab.store.runlog import RunLog

database = Database(sys.argv[1])
try:
    with RunLog(database).write() as log:
        commit(log, "run_of_the_frozen", "did:example:frozen", "0" * 64, None, 1)
        os.kill(os.getpid(), signal.SIGSTOP)
    print("appended")
except StoreError:
    print("fenced")
"""


def freeze(folder: Path, url: str) -> dict[str, float | str]:
    """Stop a peer that holds the log's lock, and deploy through another service meanwhile."""
    with services(folder, 1, CLVLAB_DATABASE_URL=url) as (service,):
        command = [sys.executable, "-c", _STOPS_WITH_THE_LOG, url]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as peer:
            os.waitpid(peer.pid, os.WUNTRACED)
            started = time.perf_counter()
            status = _deploy(folder, service, "while it is frozen")
            took_s = time.perf_counter() - started
            again = _deploy(folder, service, "and after that")
            peer.send_signal(signal.SIGCONT)
            said = peer.communicate(timeout=60)[0].strip()
    return {"first answer": status, "after s": round(took_s, 2), "next answer": again, "the frozen one is": said}


def full_disk(folder: Path) -> dict[str, int | str]:
    """Fill the disk of a store with runs, make room, and go on; needs the right to mount a small file system."""
    place = folder / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)], check=False, capture_output=True)
    if mounted.returncode:
        return {"not tried": mounted.stderr.decode().strip()}
    try:
        padding = place / "padding"
        padding.write_bytes(bytes(1 << 20))
        with services(folder, 1, CLVLAB_DATABASE_URL=f"sqlite:///{place / 'store.db'}") as (service,):
            statuses: list[int] = []
            while len(statuses) < 2_000 and statuses[-3:] != [503] * 3:
                statuses.append(_backtest(folder, service, len(statuses)))
            readable = int(httpx2.get(f"{service.url}/runs").status_code)
            padding.unlink()
            after = _until_taken(folder, service)
            verified = _verified(folder, service)
    finally:
        subprocess.run(["umount", str(place)], check=True)
    return {"sealed": statuses.count(201), "refused": statuses.count(503), "read while full": readable} | {
        "after room was made": after,
        "unverified": verified,
    }


def restore(folder: Path) -> dict[str, int | str]:
    """Back a store up, go on, restore it: writes are refused until the operator says so."""
    store, backup = folder / "store.db", folder / "backup.db"
    settings = {"CLVLAB_DATABASE_URL": f"sqlite:///{store}", "CLVLAB_CHECKPOINT_FILE": str(folder / "newest")}
    with services(folder, 1, **settings) as (service,):
        kept = _run_id(folder, service, 0)
        back_up = [*CLVLAB, "service", "backup", "--out", str(backup), "--database-url", settings["CLVLAB_DATABASE_URL"]]
        subprocess.run(back_up, check=True, capture_output=True)
        _run_id(folder, service, 1)
        httpx2.get(f"{service.url}/log/checkpoint").raise_for_status()
    for suffix in ("", "-wal", "-shm"):
        Path(f"{store}{suffix}").unlink(missing_ok=True)
    shutil.copy(backup, store)
    with services(folder, 1, **settings) as (service,):
        refused = _backtest(folder, service, 2)
        readable = httpx2.post(f"{service.url}/runs/{kept}/verify", timeout=60).json()["verified"]
    return {"written after the restore": refused, "a run from before verifies": str(readable)}


def _backtest(folder: Path, service: Service, number: int) -> int:
    with client(folder, service.url, None) as asking:
        return _ask_backtest(asking, number).status_code


def _run_id(folder: Path, service: Service, number: int) -> str:
    with client(folder, service.url, None) as asking:
        return str(_ask_backtest(asking, number).raise_for_status().json()["run_id"])


def _ask_backtest(asking: httpx2.Client, number: int) -> httpx2.Response:
    body = {"pack_id": "starter", "fixture_id": FIXTURE, "window_id": f"number {number}", "market_allowlist": [""]}
    return asking.post("/backtests", json=body)


def _until_taken(folder: Path, service: Service) -> int:
    """Ask again until what was refused is taken, for a minute."""
    status, until = 503, time.monotonic() + 60
    while status == 503 and time.monotonic() < until:
        status = _backtest(folder, service, 5_000)
        time.sleep(0.5)
    return status


def _verified(folder: Path, service: Service) -> int:
    """Count the sealed runs, of the newest hundred, that do not verify."""
    with client(folder, service.url, None) as asking:
        runs = asking.get("/runs", params={"status": "sealed", "limit": 100}).json()["runs"]
        return sum(not asking.post(f"/runs/{run['run_id']}/verify").json()["verified"] for run in runs)


def _deploy(folder: Path, service: Service, key: str) -> str:
    with client(folder, service.url, _OWNER) as asking:
        body = PACK | {"strategy": "baseline", "fixture_id": FIXTURE}
        answer = asking.post("/agents/deploy", json=body, headers={"Idempotency-Key": key})
    later = f", retry after {answer.headers['retry-after']} s" if answer.status_code == 503 else ""
    return f"{answer.status_code}{later}"
