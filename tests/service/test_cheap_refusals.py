"""What a refusal costs, by operation: statements, work on threads of a pool, and files opened or made."""

import json
import re
import sys
import threading
from contextlib import contextmanager
from unittest.mock import Mock, patch

import pytest
from clvlab_service.pool import BoundedPool
from sqlalchemy import event
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

from clvlab.errors import BusyError
from tests.service.serving import BACKTEST, BOUND, CONFIG, DEPLOY, api
from tests.service.tokens import ALICE
from tests.waiting import until

MAX_BODY, MAX_UPLOAD = 50_000, 100_000
OPENS = ("open", "os.mkdir")
counted = threading.Event()
opened: list[str] = []


@pytest.fixture(scope="module", autouse=True)
def _heard():
    """Note which files are opened and folders made, because such a hook can't be removed."""

    def note(name, arguments):
        # The framework reads the source of a route once, for messages of its own.
        if counted.is_set() and name in OPENS and not str(arguments[0]).endswith(".py"):
            opened.append(str(arguments[0]))

    sys.addaudithook(note)


@pytest.fixture(scope="module")
def served(keys, tmp_path_factory):
    """A service with an owner at every limit, which performs no jobs."""
    few = {"max_owner_starts": 1, "max_owner_deploys": 1, "max_owner_drafts": 2, "max_client_streams": 1}
    sizes = {"max_body_bytes": MAX_BODY, "max_upload_bytes": MAX_UPLOAD}
    with api(keys, uploads=tmp_path_factory.mktemp("uploads"), **few, **sizes) as found:
        application = found.app.state.application
        application.jobs.stop()
        claimed = found.competition(agents=("baseline",))
        application.competitions.claim(ALICE, claimed)
        found.draft = found.competition(agents=("baseline",))
        found.competition(agents=())
        found.post("/agents/deploy", DEPLOY)
        yield found


@contextmanager
def costs(served):
    """Statements, calls on pools, and files, while this lasts."""
    engine = served.app.state.application._database._engine
    statements, calls = [], []

    def note(*given):
        statements.append(given[2])

    def launch(pool, *given, _launch=BoundedPool._launch):
        calls.append(given)
        return _launch(pool, *given)

    event.listen(engine, "before_cursor_execute", note)
    opened.clear()
    counted.set()
    try:
        with patch.object(BoundedPool, "_launch", launch):
            yield statements, calls, opened
    finally:
        counted.clear()
        event.remove(engine, "before_cursor_execute", note)


def post(path, content=b"{}", *, by="alice", query="", kind="application/json", **headers):
    def ask(served):
        named = {"Content-Type": kind} | {name.replace("_", "-"): value for name, value in headers.items()}
        return getattr(served, by).post(path.format(draft=served.draft) + query, content=content, headers=named)

    return ask


def get(path, by="nobody"):
    return lambda served: getattr(served, by).get(path)


def chunks(*parts):
    yield from parts


LARGE = b"x" * (MAX_UPLOAD + 1)
BACKTESTS, UPLOADS = "/backtests", "/me/packs"
# operation, what is wrong; request; status; most statements
REFUSALS = {
    "upload: empty": (post(UPLOADS, b""), 400, 0),
    "upload: empty in chunks": (lambda served: served.alice.post(UPLOADS, content=chunks()), 400, 0),
    "upload: empty source": (post(UPLOADS, b"", query="?source=csv&pack_id=x"), 400, 0),
    "upload: too large": (post(UPLOADS, LARGE), 413, 0),
    "upload: unknown option": (post(UPLOADS, b"PK", query="?sauce=csv"), 422, 0),
    "upload: without a token": (post(UPLOADS, b"PK", by="nobody"), 401, 0),
    "delete upload: unknown": (lambda served: served.alice.delete(f"{UPLOADS}/x"), 404, 2),
    "backtest: too large": (post(BACKTESTS, LARGE, by="nobody"), 413, 0),
    "backtest: too large in chunks": (
        lambda served: served.nobody.post(BACKTESTS, content=chunks(LARGE), headers={"Content-Type": "application/json"}),
        413,
        0,
    ),
    "backtest: other type": (post(BACKTESTS, b"{}", by="nobody", kind="text/plain"), 415, 0),
    "backtest: no JSON": (post(BACKTESTS, b"{", by="nobody"), 400, 0),
    "backtest: unknown field": (post(BACKTESTS, json.dumps(BACKTEST | {"x": 1}).encode(), by="nobody"), 422, 0),
    "backtest: too long a key": (
        post(BACKTESTS, json.dumps(BACKTEST).encode(), by="nobody", Idempotency_Key="k" * 256),
        422,
        0,
    ),
    "create: without a token": (post("/competitions", json.dumps(BOUND).encode(), by="nobody"), 401, 0),
    "create: too large": (post("/competitions", LARGE), 413, 0),
    "create: too many drafts": (post("/competitions", json.dumps(BOUND).encode()), 429, 1),
    "deploy: too many": (post("/agents/deploy", json.dumps(DEPLOY).encode()), 429, 1),
    "deploy: too many, by a new key": (post("/agents/deploy", json.dumps(DEPLOY).encode(), Idempotency_Key="new"), 429, 2),
    "start: too many": (post("/competitions/{draft}/start", b""), 429, 2),
    "start: of another owner": (post("/competitions/{draft}/start", b"", by="bob"), 403, 1),
    "register: too large": (post("/competitions/{draft}/agents", LARGE), 413, 0),
    "runs: bad limit": (get("/runs?limit=1000"), 422, 0),
    "competitions: bad status": (get("/competitions?status=x"), 422, 0),
    "leaderboard: unknown parameter": (get("/leaderboard?x=1"), 422, 0),
    "log entries: negative": (get("/log/entries?since=-1"), 422, 0),
    "instances: without a token": (get("/agents/instances"), 401, 0),
    "long head": (get("/runs?cursor=" + "x" * 20_000), 431, 0),
    "no such path": (get("/nowhere"), 404, 0),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_comes_before_the_work(served, name):
    ask, status, most = REFUSALS[name]
    with costs(served) as (statements, calls, files):
        answer = ask(served)
        spent = [text for text in statements if text != "BEGIN"]

    assert answer.status_code == status, answer.text
    assert len(spent) <= most, spent
    assert all(text.lstrip().startswith("SELECT") for text in spent) or "delete" in name
    assert (calls, files) == ([], [])


def test_what_is_wrong_with_any_operation_is_found_before_its_work(served):
    document, spent = served.get("/openapi.json"), {}
    operations = [
        (method.upper(), re.sub(r"{\w+}", "1", path), operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    for method, path, operation in operations:
        asks = {"an unknown parameter": ("alice", "?x=1", None, 422)}
        if operation.get("security"):
            asks["no token"] = ("nobody", "", None, 401)
        if "requestBody" in operation:
            asks["a body over the limit"] = ("alice", "", LARGE, 413)
        for wrong, (by, query, content, status) in asks.items():
            kind = {} if content is None else {"Content-Type": "application/json"}
            with costs(served) as found:
                answer = getattr(served, by).request(method, path + query, content=content, headers=kind)
                if any(found) or answer.status_code != status:
                    spent[method, path, wrong] = answer.status_code, *map(list, found)

    assert spent == {}
    assert len(operations) > 40


FULL = {
    "upload": (lambda served: served.alice.post(UPLOADS, content=b"PK"), 0),
    "verify": (post("/runs/x/verify", by="nobody"), 0),
    "tear sheet": (get("/backtests/x/tear-sheet"), 0),
    "executable": (get("/runs/x/executable"), 0),
    "demo": (post("/demo/run", by="nobody"), 0),
    "decisions": (get("/runs/x/decisions"), 0),
    "evidence": (get("/runs/x/evidence"), 0),
    "bundle": (get("/runs/x/bundle"), 0),
    "fixtures": (get("/replay-packs/starter/fixtures"), 0),
    "events": (get("/competitions/x/events"), 0),
    "log": (get("/log"), 0),
    "log entries": (get("/log/entries"), 0),
    "runtime events": (get("/agents/instances/x/runtime-events", by="alice"), 0),
}


@pytest.mark.parametrize("name", FULL)
def test_a_caller_without_a_place_costs_nothing(served, name):
    ask, most = FULL[name]

    full = Mock(side_effect=BusyError(7))
    places = served.app.state.application.uploads._places
    with (
        patch.object(BoundedPool, "_require_room", full),
        patch.object(places, "_require", full),
        costs(served) as (statements, calls, files),
    ):
        answer = ask(served)

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "7"), answer.text
    assert (len(statements), calls, files) == (most, [], [])


def test_a_stream_without_a_place_costs_no_look(served):
    url = f"{served.url.replace('http', 'ws', 1)}/competitions/{{}}/arena"
    with connect(url.format(served.draft)):
        until(lambda: "clvlab_streams_open 1.0" in served.nobody.get("/metrics").text)
        with (
            costs(served) as (statements, calls, files),
            connect(url.format("unknown")) as refused,
            pytest.raises(ConnectionClosedError) as closed,
        ):
            refused.recv()

    assert closed.value.rcvd.code == 1013
    assert (statements, calls, files) == ([], [], [])


def test_a_live_start_beyond_a_limit_asks_no_feed(keys, tmp_path):
    with api(keys, devfeed=True, live_folder=tmp_path, max_owner_live=1, max_owner_deploys=5) as served:
        served.app.state.application.jobs.stop()
        live = {"strategy": "baseline", "source_mode": "live"}
        served.post("/agents/deploy", live)
        created = served.competition(
            {name: value for name, value in CONFIG.items() if name not in ("pack_id", "fixture_id")} | {"source_mode": "live"},
            agents=("baseline",),
        )
        feed = served.app.state.application.live
        with patch.object(type(feed), "fixture", side_effect=AssertionError), costs(served) as (_, calls, files):
            answers = [
                served.alice.post("/agents/deploy", json=live),
                served.alice.post(f"/competitions/{created}/start"),
            ]

    assert [answer.status_code for answer in answers] == [429, 429], [answer.text for answer in answers]
    assert (calls, files) == ([], [])
