import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from unittest.mock import patch
from uuid import uuid4

import httpx2
import pytest
from clvlab_service.routers import operations
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

from tests.postgres import frozen, say
from tests.service.serving import BACKTEST, BOUND, api, assert_problem
from tests.waiting import PATIENCE_S, until


@pytest.fixture
def lost(postgres, keys):
    """A service whose database went away while a stream was open: it, the stream, and a run it had."""
    name = f"lost_{uuid4().hex}"
    say(postgres.get_uri(), f"CREATE DATABASE {name}")
    with api(keys, postgres.get_uri(database=name), stream_poll_s=0.05) as served:
        created, started = served.competition(), served.started()[1]["run_id"]
        with connect(f"{served.url.replace('http', 'ws', 1)}/competitions/{created}/arena") as stream:
            time.sleep(0.2)
            say(postgres.get_uri(), f"DROP DATABASE {name} WITH (FORCE)")
            yield served, stream, started


def test_a_lost_database_is_503_with_retry_after_and_the_process_is_alive(lost):
    served, stream, run_id = lost

    with pytest.raises(ConnectionClosedError) as closed:
        stream.recv(timeout=PATIENCE_S)
    assert closed.value.rcvd.code == 1011
    for response in (
        served.nobody.get("/readyz"),
        served.nobody.get("/leaderboard"),
        served.nobody.get(f"/runs/{run_id}"),
        served.nobody.post(f"/runs/{run_id}/verify"),
        served.nobody.post("/backtests", json=BACKTEST),
        served.alice.post("/competitions", json=BOUND),
    ):
        problem = assert_problem(response, 503)
        assert int(response.headers["retry-after"]) >= 1
        assert "lost_" not in json.dumps(problem), "a problem does not name the database"
    assert served.get("/healthz") == {"status": "ok"}
    measured = served.nobody.get("/metrics").text
    assert "clvlab_store_up 0.0" in measured
    assert "clvlab_jobs{" not in measured


def test_health_tells_the_truth_of_a_frozen_database_while_all_else_waits(own_postgres, keys):
    with api(keys, own_postgres.get_uri()) as served:
        before = served.get("/readyz")
        with ThreadPoolExecutor(4) as threads, frozen(own_postgres), patch.object(operations, "_DEADLINE_S", 1):
            stuck = [threads.submit(served.nobody.get, "/leaderboard") for _ in range(4)]
            for path, status in (("/readyz", 503), ("/healthz", 200), ("/readyz", 503)):
                assert served.nobody.get(path).status_code == status
            assert not any(one.done() for one in stuck), "the database was not frozen"
        assert [one.result().status_code for one in stuck] == [200] * 4
        assert served.get("/readyz") == before


def test_no_call_waits_for_a_frozen_database(own_postgres, keys):
    with api(keys, own_postgres.get_uri(), database_answer_s=0.5) as served:
        created, run_id = served.started()[0], served.started()[1]["run_id"]
        calls = [
            (served.nobody, "GET", "/leaderboard", None),
            (served.nobody, "GET", "/competitions", None),
            (served.nobody, "GET", f"/competitions/{created}/events", None),
            (served.nobody, "GET", f"/runs/{run_id}", None),
            (served.nobody, "GET", f"/runs/{run_id}/decisions", None),
            (served.nobody, "GET", "/log/entries?since=0", None),
            (served.nobody, "POST", f"/runs/{run_id}/verify", None),
            (served.nobody, "POST", "/backtests", BACKTEST | {"window_id": "new"}),
            (served.alice, "GET", "/me", None),
            (served.alice, "POST", "/competitions", BOUND),
        ]
        with ThreadPoolExecutor(len(calls)) as threads, frozen(own_postgres):
            asked = [threads.submit(client.request, method, path, json=body) for client, method, path, body in calls]
            for (_, method, path, _), one in zip(calls, asked, strict=True):
                assert one.result().status_code == 503, (method, path)
                assert "retry-after" in one.result().headers

        until(lambda: served.nobody.get("/leaderboard").is_success)
        served.post("/competitions", BOUND)


def test_health_needs_no_thread_that_other_requests_can_take(store, keys):
    with api(keys, store) as served, ThreadPoolExecutor(50) as threads:
        gate, application = threading.Event(), served.app.state.application
        application.leaderboard = SimpleNamespace(revision=lambda: gate.wait(PATIENCE_S), rows=lambda *_: {"rows": []})
        stuck = [threads.submit(httpx2.get, f"{served.url}/leaderboard", timeout=PATIENCE_S) for _ in range(45)]
        time.sleep(0.5)
        found = [served.nobody.get(path).status_code for path in ("/readyz", "/healthz")]
        gate.set()

    assert found == [200, 200]
    assert len(stuck) == 45
