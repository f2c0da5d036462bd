"""Requests that perform their jobs themselves, and clients that leave them."""

import socket
from concurrent.futures import ThreadPoolExecutor

import httpx2

from clvlab.arena.application import Application
from tests.service.serving import BACKTEST, make_settings, stoppable
from tests.waiting import PATIENCE_S, until

CLIENT = {"timeout": PATIENCE_S}


def sent(served, body):
    """Send a request over a socket of its own, without reading the answer."""
    host, port = served.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)))
    content = httpx2.Request("POST", served, json=body).content
    head = (
        f"POST /backtests HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    connection.sendall(head.encode() + content)
    return connection


def jobs_of(url):
    application = Application(url, workers=0)
    try:
        return application.jobs.counts()
    finally:
        application.close()


def test_the_run_of_a_client_that_leaves_is_sealed_once_and_answers_the_next_one(keys, tmp_path, halted):
    begun, go_on = halted
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with stoppable(make_settings(keys, url)) as (served, _):
        leaving = sent(served, BACKTEST)
        assert begun.wait(PATIENCE_S)
        leaving.close()
        during = jobs_of(url)
        go_on.set()
        until(lambda: jobs_of(url)["done"] == 1)
        answer = httpx2.post(f"{served}/backtests", json=BACKTEST, **CLIENT)

    assert during == {"queued": 0, "leased": 1, "done": 0, "failed": 0}
    assert answer.status_code == 200
    assert jobs_of(url) == {"queued": 0, "leased": 0, "done": 1, "failed": 0}


def test_a_request_that_finds_no_free_thread_is_stored_as_queued_for_other_processes(keys, tmp_path, halted):
    begun, go_on = halted
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with stoppable(make_settings(keys, url, public_workers=1)) as (served, _), ThreadPoolExecutor(2) as clients:
        asked = [clients.submit(httpx2.post, f"{served}/backtests", json=BACKTEST, **CLIENT)]
        assert begun.wait(PATIENCE_S)
        asked.append(clients.submit(httpx2.post, f"{served}/backtests", json=BACKTEST | {"window_id": "w"}, **CLIENT))
        until(lambda: jobs_of(url) == {"queued": 1, "leased": 1, "done": 0, "failed": 0})
        go_on.set()

        assert [answer.result().status_code for answer in asked] == [201, 201]
    assert jobs_of(url) == {"queued": 0, "leased": 0, "done": 2, "failed": 0}


def test_what_a_request_has_stored_is_given_back_when_the_service_stops(keys, tmp_path, halted):
    begun, go_on = halted
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with stoppable(make_settings(keys, url, shutdown_s=1)) as (served, stop), ThreadPoolExecutor(1) as clients:
        asked = clients.submit(httpx2.post, f"{served}/backtests", json=BACKTEST, **CLIENT)
        assert begun.wait(PATIENCE_S)
        stop()
        after = jobs_of(url)
        go_on.set()

        assert asked.result().status_code == 503
    assert after == {"queued": 1, "leased": 0, "done": 0, "failed": 0}
    other = Application(url)
    assert other.jobs.run_one()
    other.close()
