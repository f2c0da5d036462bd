"""A service that is asked to stop while it computes."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from clvlab.arena.application import Application
from clvlab.arena.run_jobs import ReplayJobs
from tests.service.serving import BACKTEST, assert_problem, make_settings, stoppable
from tests.waiting import PATIENCE_S, until


@pytest.fixture
def endless(monkeypatch):
    begun, go_on = threading.Event(), threading.Event()

    def perform(*_):
        begun.set()
        assert go_on.wait(PATIENCE_S)

    monkeypatch.setattr(ReplayJobs, "perform", perform)
    yield begun
    go_on.set()


def accepted(served):
    """How many jobs a service has that are not done."""
    told = httpx2.get(f"{served}/metrics", timeout=PATIENCE_S).text
    return sum(float(count) for count in re.findall(r'^clvlab_jobs{status="(?:queued|leased)"} (.+)$', told, re.MULTILINE))


def test_work_that_is_not_done_in_time_goes_back_and_its_client_is_told(keys, tmp_path, endless):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    settings = make_settings(keys, url, shutdown_s=1, public_workers=1)
    with stoppable(settings) as (served, stop), ThreadPoolExecutor(3) as clients:
        bodies = [BACKTEST | {"window_id": f"w{n}"} for n in range(3)]
        asked = [clients.submit(httpx2.post, f"{served}/backtests", json=body, timeout=PATIENCE_S) for body in bodies]
        assert endless.wait(PATIENCE_S)
        until(lambda: accepted(served) == 3)  # a second one may be worked on too, where the first takes long
        took_s = stop()
        answers = [answer.result() for answer in asked]

    assert took_s > 0.9
    for answer in answers:
        assert_problem(answer, 503)
        assert answer.json()["type"] == "urn:clvlab:problem:shutting-down"
        assert int(answer.headers["retry-after"]) > 0
    other = Application(url)
    assert other.jobs.counts() == {"queued": 3, "leased": 0, "done": 0, "failed": 0}
    other.close()


def test_a_service_without_work_waits_for_nothing(keys):
    with stoppable(make_settings(keys, shutdown_s=int(10 * PATIENCE_S))) as (served, stop):
        assert httpx2.get(f"{served}/healthz", timeout=PATIENCE_S).status_code == 200

        stop()


def test_a_body_that_never_comes_does_not_hold_the_end_up(keys):
    stopped = threading.Event()

    def slowly():
        yield b"{"
        stopped.wait()

    with stoppable(make_settings(keys, shutdown_s=1)) as (served, stop), ThreadPoolExecutor(1) as clients:
        headers = {"Content-Type": "application/json"}
        asked = clients.submit(httpx2.post, f"{served}/backtests", content=slowly(), headers=headers)
        time.sleep(0.3)
        stop()
        stopped.set()
        try:
            answer = asked.result()
        except httpx2.TransportError:
            answer = None

    assert answer is None or answer.status_code == 503


BUSY = """
import sys
from clvlab.arena.run_jobs import ReplayJobs
from clvlab.cli import main

def perform(*_):
    print("begun", flush=True)
    while True:
        sum(range(1000))

ReplayJobs.perform = perform
sys.argv = ["clvlab", "service", "serve", "--port", "0"]
main()
"""


@pytest.mark.long
def test_a_process_that_computes_ends_in_time():
    environment = os.environ | {"CLVLAB_SHUTDOWN_S": "1"}
    command = [sys.executable, "-c", BUSY]
    with (
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
        ThreadPoolExecutor(1) as clients,
    ):
        url = next(found[1] for line in process.stderr if (found := re.search(r"serves (http://\S+),", line)))
        asked = clients.submit(httpx2.post, f"{url}/backtests", json=BACKTEST, timeout=PATIENCE_S)
        assert process.stdout.readline() == "begun\n"
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
        took_s = time.monotonic() - started

        assert_problem(asked.result(), 503)
        assert '"event":"stopped"' in process.stderr.read()
    assert took_s > 0.9
