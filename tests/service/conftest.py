from unittest.mock import patch
from uuid import uuid4

import pytest
from clvlab_service.routers import operations

from tests.postgres import say
from tests.service.serving import api as serve_api
from tests.waiting import PATIENCE_S


@pytest.fixture(scope="session", autouse=True)
def _tables(tables_in_memory):
    """Every test here may open a store in memory."""


@pytest.fixture(scope="session", autouse=True)
def _patient_health():
    """Let the health of a busy machine's service take its time; a test of a frozen store says how long."""
    with patch.object(operations, "_DEADLINE_S", PATIENCE_S):
        yield


@pytest.fixture(scope="session")
def keys(tmp_path_factory):
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="session", params=["memory", "postgresql"])
def store(request):
    """URL of an empty store of each kind; null is memory."""
    if request.param == "memory":
        yield None
        return
    server, name = request.getfixturevalue("postgres"), f"service_{uuid4().hex}"
    say(server.get_uri(), f"CREATE DATABASE {name}")
    yield server.get_uri(database=name)
    say(server.get_uri(), f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def api_in_memory(keys):
    """A running service over memory alone, for what no store has a part in."""
    with serve_api(keys) as found:
        yield found


@pytest.fixture(scope="session")
def api(store, keys):
    """A running service over each kind of store; what tests make in it stays, so they look at their own."""
    with serve_api(keys, store) as found:
        yield found
