import json
import time
from uuid import uuid4

import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

from tests.service.serving import BACKTEST, BOUND, api, assert_problem


@pytest.fixture
def lost(postgres, keys):
    """A service whose database went away while a stream was open: it, the stream, and a run it had."""
    name = f"lost_{uuid4().hex}"
    postgres.psql(f"CREATE DATABASE {name}")
    with api(keys, postgres.get_uri(database=name), stream_poll_s=0.05) as served:
        created, started = served.competition(), served.started()[1]["run_id"]
        with connect(f"{served.url.replace('http', 'ws', 1)}/competitions/{created}/arena") as stream:
            time.sleep(0.2)
            postgres.psql(f"DROP DATABASE {name} WITH (FORCE)")
            yield served, stream, started


def test_a_lost_database_is_503_with_retry_after_and_the_process_is_alive(lost):
    served, stream, run_id = lost

    with pytest.raises(ConnectionClosedError) as closed:
        stream.recv(timeout=20)
    assert closed.value.rcvd.code == 1011
    for response in (
        served.nobody.get("/readyz"),
        served.nobody.get("/leaderboard"),
        served.nobody.get("/metrics"),
        served.nobody.get(f"/runs/{run_id}"),
        served.nobody.post(f"/runs/{run_id}/verify"),
        served.nobody.post("/backtests", json=BACKTEST),
        served.alice.post("/competitions", json=BOUND),
    ):
        problem = assert_problem(response, 503)
        assert int(response.headers["retry-after"]) >= 1
        assert "lost_" not in json.dumps(problem), "a problem does not name the database"
    assert served.get("/healthz") == {"status": "ok"}
