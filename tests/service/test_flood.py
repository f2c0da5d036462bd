import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx2
import pytest
from clvlab_service.pool import BoundedPool
from clvlab_service.telemetry import RequestMetrics

from clvlab.arena.run_jobs import ReplayJobs
from clvlab.errors import BusyError
from tests.service.serving import BACKTEST, PLAIN, api
from tests.waiting import PATIENCE_S, until

CLIENTS = 64


@pytest.fixture(scope="module")
def served(keys):
    with api(keys, public_workers=2, public_queue=4, proof_workers=2, proof_queue=4) as found:
        yield found


def healthy_looks(url, begun, over):
    """How many looks at the health were answered between two events."""
    found = 0
    with httpx2.Client(base_url=url, **PLAIN) as client:
        assert begun.wait(PATIENCE_S)
        while not over.is_set():
            assert client.get("/healthz").status_code == 200
            found += not over.is_set()
    return found


def asked_at_once(url, ask, begin=None):
    """What so many clients get that ask at the same moment, at which ``begin`` is called."""
    barrier = threading.Barrier(CLIENTS, begin)

    def one(number):
        with httpx2.Client(base_url=url, **PLAIN) as client:
            barrier.wait()
            return ask(client, number)

    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(one, range(CLIENTS)))


def total(served, metric):
    """The sum of the metrics whose name and labels begin so."""
    lines = served.nobody.get("/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(metric))


def pending(served):
    """Computations running or waiting in all pools."""
    return total(served, "clvlab_pool_pending{")


def answered(served):
    """Requests for backtests that were answered, though the client may have left."""
    return total(served, 'clvlab_http_request_seconds_count{method="POST",route="/backtests",')


@pytest.mark.parametrize("kind", ["backtests", "verify"])
def test_a_flood_is_bounded_refused_with_retry_after_and_health_is_told_meanwhile(served, kind):
    run_ids = [served.post("/backtests", BACKTEST | {"window_id": f"v{number}"})["run_id"] for number in range(12)]

    def ask(client, number):
        if kind == "backtests":
            return client.post(
                "/backtests", json=BACKTEST | {"pack_id": "season", "fixture_id": fixture, "window_id": f"w{number}"}
            )
        return client.post(f"/runs/{run_ids[number % len(run_ids)]}/verify")  # of one run, all would wait for the same

    fixture = served.get("/replay-packs/season")["fixtures"][0]
    begun, over = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(healthy_looks, served.url, begun, over)
        answers = asked_at_once(served.url, ask, begun.set)
        over.set()
        looks = watching.result()

    statuses = [answer.status_code for answer in answers]
    done = 201 if kind == "backtests" else 200
    assert set(statuses) <= {done, 503}
    assert statuses.count(done) >= 6, "what has a place is answered"
    assert 503 in statuses
    for answer in answers:
        if answer.status_code == 503:
            assert int(answer.headers["retry-after"]) >= 1
            assert answer.json()["type"] == "urn:clvlab:problem:busy"
    assert looks
    assert pending(served) == 0


def test_identical_backtests_at_once_are_one_computation(served):
    body = BACKTEST | {"window_id": "all the same"}

    answers = asked_at_once(served.url, lambda client, _: client.post("/backtests", json=body))

    assert sorted(answer.status_code for answer in answers) == [*[200] * (len(answers) - 1), 201]
    assert len({answer.json()["backtest_id"] for answer in answers}) == 1


def test_demos_at_once_are_one_computation(served):
    answers = asked_at_once(served.url, lambda client, _: client.post("/demo/run"))

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["run_id"] for answer in answers}) == 1


def test_of_racing_starts_one_wins_and_no_other_waits_for_a_place(keys):
    with api(keys, owner_workers=1, owner_queue=0) as served:
        created = served.competition()
        headers = served.alice.headers

        answers = asked_at_once(served.url, lambda client, _: client.post(f"/competitions/{created}/start", headers=headers))

        assert sorted({answer.status_code for answer in answers}) == [200, 409]
        assert [answer.status_code for answer in answers].count(200) == 1
        assert {answer.json().get("reason") for answer in answers if answer.status_code == 409} == {"not_startable"}


def test_verifications_have_places_that_backtests_can_not_take(keys, monkeypatch):
    with api(keys, public_workers=1, public_queue=0, proof_workers=1, proof_queue=0) as served:
        run_id = served.post("/backtests", BACKTEST)["run_id"]
        go_on, perform = threading.Event(), ReplayJobs.perform
        monkeypatch.setattr(ReplayJobs, "perform", lambda *job: go_on.wait(PATIENCE_S) and perform(*job))

        under_way = served.nobody.post("/backtests", json=BACKTEST | {"window_id": "now"}, headers={"Prefer": "respond-async"})
        refused = served.nobody.post("/backtests", json=BACKTEST | {"window_id": "later"})
        verified = served.nobody.post(f"/runs/{run_id}/verify")
        go_on.set()

        assert [answer.status_code for answer in (under_way, refused, verified)] == [202, 503, 200]


def test_retry_after_is_measured_without_the_wait():
    async def estimate():
        pool = BoundedPool("p", 1, 19, RequestMetrics())
        began = time.monotonic()
        work = [asyncio.create_task(pool.run(time.sleep, 0.05)) for _ in range(20)]
        await asyncio.gather(*work)
        took_s = time.monotonic() - began
        again = [asyncio.create_task(pool.run(time.sleep, 0.05)) for _ in range(20)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError) as refused:
            await pool.run(time.sleep, 0)
        await asyncio.gather(*again)
        await pool.close(0)
        return refused.value.retry_after_s, took_s

    retry_after_s, took_s = asyncio.run(estimate())
    delayed_s = took_s - 20 * 0.05  # by a busy machine; a delay weighs at most a fifth in the mean
    assert retry_after_s <= 3 + 20 / 5 * delayed_s  # with the wait it was more than 10


def test_the_pool_works_on_after_a_client_left(served):
    impatient, before = httpx2.Timeout(60, read=0.001), answered(served)
    with httpx2.Client(base_url=served.url, timeout=impatient, verify=False) as client:
        for number in range(20):
            with suppress(httpx2.ReadTimeout):
                client.post("/backtests", json=BACKTEST | {"window_id": f"left {number}"})

    until(lambda: answered(served) == before + 20)  # the service may read a request long after its client left
    until(lambda: pending(served) == 0)
    assert served.post("/backtests", BACKTEST)["mode_label"] == "Backtest"
