import gc
import os
import shutil
import sqlite3
import sys
import threading
from collections import defaultdict
from contextlib import closing, nullcontext
from functools import cache
from pathlib import Path
from unittest.mock import patch
from uuid import uuid4

# Before NumPy is imported: workers share the cores, and threads that wait for those of others take many times longer.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import httpcore2
import pytest
from hypothesis import HealthCheck, settings

from clvlab.sources.betfair import history
from clvlab.sources.betfair.history import Changes
from tests.length import OVER_POSTGRESQL, length
from tests.postgres import patient_stores, postgres_server, say
from tests.waiting import PATIENCE_S
from tests.warm import warm_processes

collect_ignore = ["ecosystem/inspect_player.py", "ecosystem/verifiers_player.py"]  # of other environments

# A machine that does other things besides is no failure: nothing that hypothesis draws is held to the clock.
settings.register_profile(
    "clvlab",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=length(30, settings.default.max_examples),
)
settings.load_profile("clvlab")


def pytest_configure(config):
    config.addinivalue_line("markers", "any_store: ends before SQL, so that one store will do")
    config.addinivalue_line("markers", "few(n): of its cases n are short and the others long")


def pytest_collection_modifyitems(items):
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("few") and not item.get_closest_marker("long"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for own in cases.values():
        own.sort(key=lambda item: tuple(item.callspec.indices.values()))
        kept = own[0].get_closest_marker("few").args[0]
        chosen = {number * len(own) // kept for number in range(kept)}
        for number, item in enumerate(own):
            if number not in chosen:
                item.add_marker(pytest.mark.long)
    for folder, modules in OVER_POSTGRESQL.items():
        for item in items:
            params = item.callspec.params if hasattr(item, "callspec") else {}
            over_postgresql = "postgresql" in (params.get("store"), params.get("database_url"))
            decides = item.path.stem in modules and not item.get_closest_marker("any_store")
            if over_postgresql and folder in item.path.parents and not decides:
                item.add_marker(pytest.mark.long)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for no garbage while modules are imported, and never among their million objects, which stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)  # at 700 a tenth of the processor's time looks for garbage
        gc.enable()


def pytest_unconfigure():
    """Let what was imported be freed again: extensions count at exit what nobody freed."""
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def _warm_processes():
    """Fork what verifies uploads from a process that has its libraries: to start another takes half a second of processor."""
    with warm_processes() if sys.platform == "linux" else nullcontext():
        yield


@pytest.fixture(scope="session", autouse=True)
def _certificates():
    """Read the certificates of all the world once: each client of HTTP would take a twenty-fifth of a second to read them."""
    with patch("httpcore2.default_ssl_context", cache(httpcore2.default_ssl_context)):
        yield


@pytest.fixture(autouse=True)
def _umask():
    """Keep the mask of a service that ran in this process from other tests."""
    mask = os.umask(0o077)
    os.umask(mask)
    yield
    os.umask(mask)


@pytest.fixture(scope="session")
def realdata() -> Path:
    """Folder of real odds that are not part of the project."""
    folder = Path(os.environ.get("CLVLAB_REALDATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real odds at {folder}; set CLVLAB_REALDATA")
    return folder


@pytest.fixture(scope="session")
def real_pack(realdata, tmp_path_factory):
    """Make a pack of the real odds of a source, once for all that only read it."""
    from clvlab.packs.verification import verify_pack
    from clvlab.sources.importer import import_source

    @cache
    def made(source):
        folder = tmp_path_factory.mktemp("real") / source
        import_source(source, [realdata / source], folder)
        return verify_pack(folder)

    return made


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """A PostgreSQL server for the session, which waits for no disk: crashes are tried on servers of their own."""
    with postgres_server(tmp_path_factory.mktemp("runtime")) as server, patient_stores():
        unsafe = [f"ALTER SYSTEM SET {setting} = off" for setting in ("fsync", "full_page_writes", "synchronous_commit")]
        say(server.get_uri(), *unsafe, "SELECT pg_reload_conf()")
        yield server


@pytest.fixture
def own_postgres(tmp_path):
    """A PostgreSQL server that the test may stop and start."""
    with postgres_server(tmp_path) as server, patient_stores():
        yield server


@pytest.fixture
def postgres_url(postgres):
    """URL of an empty PostgreSQL database."""
    name = f"test_{uuid4().hex}"
    say(postgres.get_uri(), f"CREATE DATABASE {name}")
    yield postgres.get_uri(database=name)
    say(postgres.get_uri(), f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def _kept_postgres_url(postgres):
    """URL of a PostgreSQL database that has its tables."""
    from clvlab.store.database import Database

    say(postgres.get_uri(), "CREATE DATABASE kept")
    url = postgres.get_uri(database="kept")
    Database(url).close()
    return url


@pytest.fixture
def emptied_postgres_url(postgres, _kept_postgres_url):
    """URL of a PostgreSQL database whose tables are empty: making one anew for every test takes half a second."""
    from clvlab.store.tables import runs

    yield _kept_postgres_url
    tables = ", ".join(table.name for table in runs.metadata.sorted_tables)
    say(postgres.get_uri(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'kept'")
    say(_kept_postgres_url, f"TRUNCATE {tables} RESTART IDENTITY CASCADE")


@pytest.fixture
def local(tmp_path):
    """A chain on loopback, and how to reach it with one key."""
    from tests.chains import local_chain

    with local_chain(tmp_path) as chain:
        yield chain


@pytest.fixture(scope="session")
def tables(tmp_path_factory):
    """A file of SQLite that has its tables and nothing in them: migrating one anew for every test takes a tenth of a second."""
    from clvlab.store.database import Database

    path = tmp_path_factory.mktemp("tables") / "store.db"
    Database(f"sqlite:///{path}").close()
    return path


@pytest.fixture(scope="session")
def tables_in_memory(tables):
    """Databases in memory begin with these tables too, and find nothing to migrate."""
    from sqlalchemy import Engine, event

    def fill(connection, _):
        if isinstance(connection, sqlite3.Connection):
            ((_, _, file),) = connection.execute("PRAGMA database_list")
            if not file:
                made.backup(connection)

    with closing(sqlite3.connect(tables, check_same_thread=False)) as made:
        event.listen(Engine, "connect", fill)
        yield
        event.remove(Engine, "connect", fill)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request, tmp_path):
    """URL of an empty database of each kind that lasts; the service's tests run over one in memory."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("tables"), tmp_path / "store.db")
        return f"sqlite:///{tmp_path / 'store.db'}"
    return request.getfixturevalue("emptied_postgres_url")


@pytest.fixture
def every_message(monkeypatch):
    """Let an import of Betfair's stream keep every message, as a capture does, which can't know what comes next."""
    monkeypatch.setattr(history, "changes", lambda rows, _: Changes(rows, 0))


@pytest.fixture
def halted(monkeypatch):
    """The first run halts before it is made, until the test lets it go on."""
    from clvlab.arena.run_jobs import ReplayJobs

    real, begun, go_on = ReplayJobs.perform, threading.Event(), threading.Event()

    def perform(self, job, tell):
        if not begun.is_set():
            begun.set()
            assert go_on.wait(PATIENCE_S)
        real(self, job, tell)

    monkeypatch.setattr(ReplayJobs, "perform", perform)
    yield begun, go_on
    go_on.set()
