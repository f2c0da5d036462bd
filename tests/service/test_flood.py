import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from statistics import quantiles

import httpx2
import pytest

from tests.service.serving import BACKTEST, api

CLIENTS = 64


@pytest.fixture(scope="module")
def served(keys):
    with api(keys, public_workers=2, public_queue=4, proof_workers=2, proof_queue=4) as found:
        yield found


def health_seconds(url, until):
    """How long each look at the health took, until told to stop."""
    found = []
    with httpx2.Client(base_url=url, timeout=60) as client:
        while not until.is_set():
            started = time.perf_counter()
            assert client.get("/healthz").status_code == 200
            found.append(time.perf_counter() - started)
            time.sleep(0.005)
    return found


def asked_at_once(url, ask):
    """What so many clients get that ask at the same moment."""
    barrier = threading.Barrier(CLIENTS)

    def one(number):
        with httpx2.Client(base_url=url, timeout=120) as client:
            barrier.wait()
            return ask(client, number)

    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(one, range(CLIENTS)))


def gauge(served, name):
    lines = served.nobody.get("/metrics").text.splitlines()
    return float(next(line.rpartition(" ")[2] for line in lines if line.startswith(name)))


@pytest.mark.parametrize("kind", ["backtests", "verify", "demo"])
def test_a_flood_is_bounded_refused_with_retry_after_and_felt_by_nobody_else(served, kind):
    run_id = served.post("/backtests", BACKTEST)["run_id"]

    def ask(client, number):
        if kind == "backtests":
            return client.post(
                "/backtests", json=BACKTEST | {"pack_id": "season", "fixture_id": fixture, "window_id": f"w{number}"}
            )
        return client.post(f"/runs/{run_id}/verify" if kind == "verify" else "/demo/run")

    fixture = served.get("/replay-packs/season")["fixtures"][0]
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(health_seconds, served.url, stop)
        answers = asked_at_once(served.url, ask)
        stop.set()
        seconds = watching.result()

    statuses = [answer.status_code for answer in answers]
    assert set(statuses) <= {200, 503}
    assert statuses.count(200) >= 6, "what has a place is answered"
    assert 503 in statuses
    for answer in answers:
        if answer.status_code == 503:
            assert int(answer.headers["retry-after"]) >= 1
            assert answer.json()["type"] == "urn:clvlab:problem:busy"
    assert len(seconds) == 1 or quantiles(seconds, n=20)[-1] < 1
    assert gauge(served, 'clvlab_pool_pending{pool="public"}') == 0


def test_the_pool_works_on_after_a_client_left(served):
    impatient = httpx2.Timeout(60, read=0.001)
    with httpx2.Client(base_url=served.url, timeout=impatient) as client:
        for number in range(20):
            with suppress(httpx2.ReadTimeout):
                client.post("/backtests", json=BACKTEST | {"window_id": f"left {number}"})

    for _ in range(200):
        if gauge(served, 'clvlab_pool_pending{pool="public"}') == 0:
            break
        time.sleep(0.05)
    assert served.post("/backtests", BACKTEST)["mode_label"] == "Backtest"
