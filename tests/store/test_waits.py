"""A peer that stops in mid-transaction, and how long others wait for it."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import psutil
import pytest

from clvlab.errors import StoreBusyError, StoreUnreachableError
from clvlab.log.log import commit
from clvlab.store.database import Database
from clvlab.store.runlog import RunLog
from clvlab.store.waits import Waits, take_time
from tests.postgres import frozen
from tests.waiting import PATIENCE_S

QUICK = Waits(lock_s=1.5, log_s=0.5, idle_s=5)
PEER = """
import os, signal, sys
from sqlalchemy import text
from clvlab.errors import StoreError
from clvlab.log.log import commit
from clvlab.store.database import Database
from clvlab.store.runlog import RunLog
from clvlab.store.waits import Waits

database = Database(sys.argv[1], Waits(lock_s=1.5, log_s=float(sys.argv[2]), idle_s=5))
try:
    with RunLog(database).write() as log:
        commit(log, "stopped", "did:x:peer", "0" * 64, None, 1)
        os.kill(os.getpid(), signal.SIGSTOP)
    print("appended")
except StoreError as error:
    print(type(error).__name__)
"""


@contextmanager
def stopped_peer(url, log_s):
    """Run a process that stops while it holds the run log; what it says once it goes on is its output."""
    with subprocess.Popen([sys.executable, "-c", PEER, url, str(log_s)], stdout=subprocess.PIPE, text=True) as process:
        assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
        yield process
        process.kill()


def append(database, run_id):
    with RunLog(database).write() as log:
        return commit(log, run_id, "did:x:other", "0" * 64, None, 2)


def test_peer_that_stops_while_it_holds_the_log_is_cut_off_and_its_entry_is_gone(emptied_postgres_url):
    database = Database(emptied_postgres_url, QUICK)
    with stopped_peer(emptied_postgres_url, QUICK.log_s) as peer:
        index = append(database, "going")
        os.kill(peer.pid, signal.SIGCONT)
        said = peer.communicate(timeout=PATIENCE_S)[0].strip()

    assert (index, said) == (0, "StoreUnreachableError")
    database.close()


def test_writer_that_waits_for_too_long_is_refused_and_nothing_is_kept(emptied_postgres_url):
    database = Database(emptied_postgres_url, QUICK)
    with stopped_peer(emptied_postgres_url, 60):
        started = time.monotonic()
        with pytest.raises(StoreBusyError, match="held a lock for too long"):
            append(database, "refused")
        waited = time.monotonic() - started
        database.ask()

    assert waited >= QUICK.lock_s
    assert append(database, "next") == 0
    database.close()


def test_database_that_stopped_does_not_answer(own_postgres):
    database = Database(own_postgres.get_uri(), Waits(peer_s=1))
    own_postgres.cleanup()

    with pytest.raises(StoreUnreachableError):
        database.ask()
    database.close()


def test_frozen_server_is_given_up_within_a_statement(own_postgres):
    database = Database(own_postgres.get_uri(), Waits(answer_s=0.2))
    given_up = pytest.raises(StoreUnreachableError, match=r"has not answered for 0\.2 s, and accepts no connection")
    with given_up, database.read() as connection, frozen(own_postgres):
        connection.exec_driver_sql("SELECT 1")
    database.close()


def test_server_that_did_not_answer_is_not_tried_by_the_next_caller_but_after_a_pause(own_postgres):
    database = Database(own_postgres.get_uri(), Waits(answer_s=PATIENCE_S))
    with frozen(own_postgres):
        database._engine.dispose()
        with pytest.raises(StoreUnreachableError, match="timeout"), database.read():
            pass
    with pytest.raises(StoreUnreachableError, match="another transaction has just given up"), database.read():
        pass
    database._silent_until_s = 0.0
    with database.write() as connection:
        assert connection.exec_driver_sql("SELECT 1").scalar() == 1
    database.close()


def test_statement_that_takes_long_is_not_cut_while_the_server_is_there(emptied_postgres_url):
    database = Database(emptied_postgres_url, Waits(answer_s=0.2))
    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT 1 FROM pg_sleep(1)").scalar() == 1
    database.close()


@contextmanager
def stopped_backend(connection, lasting_s):
    """Stop the server's process of a connection, at most for so long."""
    process = psutil.Process(connection.exec_driver_sql("SELECT pg_backend_pid()").scalar())
    process.suspend()
    going_on = threading.Timer(lasting_s, process.resume)
    going_on.start()
    try:
        yield
    finally:
        going_on.cancel()
        process.resume()


def test_connection_whose_own_server_process_is_stopped_is_given_up(emptied_postgres_url):
    database = Database(emptied_postgres_url, Waits(answer_s=0.2, statement_s=0.5))
    given_up = pytest.raises(StoreUnreachableError, match="it has not answered for")
    with given_up, database.read() as connection, stopped_backend(connection, PATIENCE_S):
        connection.exec_driver_sql("SELECT 1")
    database.close()


def test_transaction_that_has_time_outlasts_a_stopped_server_process_and_the_next_one_has_none(emptied_postgres_url):
    database = Database(emptied_postgres_url, Waits(answer_s=0.2, statement_s=0.5))
    with database.write() as connection:
        take_time(connection)
        with stopped_backend(connection, 2):
            assert connection.exec_driver_sql("SELECT 1").scalar() == 1
    with pytest.raises(StoreUnreachableError), database.read() as connection, stopped_backend(connection, PATIENCE_S):
        connection.exec_driver_sql("SELECT 1")
    database.close()


def test_options_of_the_operator_win(emptied_postgres_url):
    database = Database(
        f"{emptied_postgres_url}{'&' if '?' in emptied_postgres_url else '?'}options=-c%20lock_timeout%3D7", QUICK
    )
    with database.read() as connection:
        found = [connection.exec_driver_sql(f"SHOW {name}").scalar() for name in ("lock_timeout", "statement_timeout")]
    database.close()

    assert found == ["7ms", "1min"]


def test_locked_sqlite_still_answers_a_probe(tmp_path):
    database = Database(f"sqlite:///{tmp_path / 'store.db'}")
    with database.write():
        database.ask()
    database.close()
