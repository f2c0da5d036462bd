"""The service on a socket of its own, over a store of each kind."""

import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass

import httpx2
import uvicorn
from clvlab_service.app import create_app
from clvlab_service.dev import AUDIENCE, ISSUER, dev_token, public_key_file
from clvlab_service.server import _bound_socket, _Server
from clvlab_service.settings import Settings
from fastapi import FastAPI

from tests.postgres import PATIENT
from tests.service.tokens import ALICE, BOB
from tests.waiting import PATIENCE_S, settled

FIXTURE = 90000000
CONFIG = {"competition_type": "arena", "source_mode": "replay", "market_scope": "all", "roster_size": 3}
BOUND = CONFIG | {"pack_id": "starter", "fixture_id": FIXTURE}
BACKTEST = {"pack_id": "starter", "fixture_id": FIXTURE, "window_id": "full", "market_allowlist": [""]}
PLAIN = {"verify": False, "timeout": PATIENCE_S}  # of plain HTTP: reading the certificates of all the world takes 25 ms
DEPLOY = {"strategy": "cumulative-drift", "source_mode": "replay", "pack_id": "starter", "fixture_id": FIXTURE}


@contextmanager
def running(app, send_buffer=None):
    """Serve an application from a thread; gives its URL."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.bind(("127.0.0.1", 0))
    if send_buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)  # its connections inherit it
    options = {"log_level": "error", "access_log": False, "lifespan": "on", "proxy_headers": False}
    # No client on a busy machine finds that its idle connection was just closed.
    server = uvicorn.Server(uvicorn.Config(app, timeout_keep_alive=PATIENCE_S, **options))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the service did not start"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        sock.close()


def make_settings(keys, database_url=None, **settings):
    """Settings that trust the key pair in the folder ``keys``."""
    trust = {"jwt_public_key_file": public_key_file(keys), "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}
    waits = {f"database_{name}": seconds for name, seconds in PATIENT.items()}
    return Settings(database_url=database_url, log_level="error", **trust, **waits | settings)


@contextmanager
def stoppable(settings):
    """The server of ``clvlab service serve`` on a thread; gives its URL and what ends it, which returns how long that took."""
    app = create_app(settings)
    sock, ready = _bound_socket("127.0.0.1", 0), threading.Event()
    server = _Server(app, settings, ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()

    def stop():
        started = time.monotonic()
        server.should_exit = True
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        return time.monotonic() - started

    try:
        assert ready.wait(PATIENCE_S)
        yield f"http://127.0.0.1:{sock.getsockname()[1]}", stop
    finally:
        stop()
        sock.close()


@dataclass
class Api:
    """A running service with an owner, another principal, and nobody."""

    url: str
    keys: object
    alice: httpx2.Client
    bob: httpx2.Client
    nobody: httpx2.Client
    app: FastAPI

    def token(self, did=ALICE):
        return dev_token(self.keys, did, 600)

    def post(self, path, body=None, *, by=None, expect=None, **options):
        """What a request answers that succeeds at once, or with the status ``expect``."""
        response = (by or self.alice).post(path, json=body, **options)
        assert response.status_code in ((200, 201) if expect is None else (expect,)), response.text[:1000]
        return response.json()

    def get(self, path, *, by=None, expect=200, **params):
        response = (by or self.nobody).get(path, params=params)
        assert response.status_code == expect, response.text[:1000]
        return response.json()

    def competition(self, config=BOUND, agents=("baseline", "cumulative-drift")):
        """Id of a new competition of Alice's with a roster."""
        created = self.post("/competitions", config)["competition_id"]
        for strategy in agents:
            self.post(f"/competitions/{created}/agents", make_entry(strategy))
        return created

    def quiet(self):
        """Wait for the jobs of other tests, so that two answers can be compared."""
        settled(self.app.state.application)

    def started(self, **options):
        """A competition that was run: its id, and what start answered."""
        created = self.competition(**options)
        return created, self.post(f"/competitions/{created}/start")


def make_entry(strategy="baseline", **fields):
    return {"agent_id": strategy, "strategy": strategy, "config": {}, "proof_mode": "reproducible"} | fields


@contextmanager
def api(keys, database_url=None, *, send_buffer=None, **settings):
    """A running service and its clients."""
    app = create_app(make_settings(keys, database_url, **settings))
    with running(app, send_buffer) as url:
        headers = [{"Authorization": f"Bearer {dev_token(keys, did, 3600)}"} for did in (ALICE, BOB)]
        with (
            httpx2.Client(base_url=url, headers=headers[0], **PLAIN) as alice,
            httpx2.Client(base_url=url, headers=headers[1], **PLAIN) as bob,
            httpx2.Client(base_url=url, **PLAIN) as nobody,
        ):
            yield Api(url, keys, alice, bob, nobody, app)


def assert_problem(response, status):
    """The problem of a response that must be one."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == status
    assert problem["request_id"] == response.headers["x-request-id"]
    return problem
