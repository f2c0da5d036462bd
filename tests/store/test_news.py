"""News of what a transaction stored."""

import logging
import threading
from contextlib import closing, contextmanager

import psycopg
import pytest

from clvlab.store import competitions
from clvlab.store.database import Database
from clvlab.store.news import Listener, announce
from tests.postgres import listening
from tests.waiting import PATIENCE_S, until


class Heard(list):
    """Subjects that were told, and a wait for one."""

    def __init__(self):
        super().__init__()
        self._changed = threading.Condition()

    def __call__(self, subject):
        with self._changed:
            self.append(subject)
            self._changed.notify_all()

    def wait_for(self, subject):
        with self._changed:
            assert self._changed.wait_for(lambda: subject in self, PATIENCE_S), f"{subject} was not told of: {self}"


def say(database, *subjects):
    with database.write() as connection:
        for subject in subjects:
            announce(connection, subject)


def roll_back(database):
    def write():
        with database.write() as connection:
            announce(connection, "never stored")
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        write()


@pytest.fixture
def database(database_url):
    with closing(Database(database_url)) as opened:
        yield opened


def test_what_is_announced_is_told_after_the_commit_and_once(database):
    told = []

    def look(subject):
        with database.read() as connection:
            told.append((subject, competitions.row(connection, subject) is not None))

    database.tell(look)
    with database.write() as connection:
        competitions.add(connection, {
            "competition_id": "c", "owner": "o", "status": "draft", "config": {}, "roster_size": 2, "created_ts_ms": 0,
        })  # fmt: skip
        announce(connection, "c")
        announce(connection, "c")
        assert told == []

    assert told == [("c", True)]


def test_of_what_was_rolled_back_nobody_hears(database):
    heard = Heard()
    database.tell(heard)

    roll_back(database)
    say(database, "kept")

    assert heard == ["kept"]


def test_a_transaction_that_reads_announces_nothing(database):
    heard = Heard()
    database.tell(heard)

    with database.read() as connection:
        announce(connection, "c")

    assert heard == []


def test_over_postgresql_other_processes_hear_of_what_is_committed_and_each_subject_once(emptied_postgres_url):
    here, there = Heard(), Heard()
    with closing(Database(emptied_postgres_url)) as one, closing(Database(emptied_postgres_url)) as other:
        for database, heard in ((one, here), (other, there)):
            database.tell(heard)
            database.listen()
        listening(emptied_postgres_url, 2)

        roll_back(one)
        say(one, "a", "b")
        there.wait_for("b")
        say(other, "c")
        here.wait_for("c")

    assert sorted(there) == ["a", "b", "c"]
    assert sorted(here) == ["a", "b", "c"]


def test_a_listener_that_lost_its_connection_says_so_and_hears_again(emptied_postgres_url, caplog):
    heard = Heard()
    with closing(Database(emptied_postgres_url)) as database, listener(database, heard):
        (lost,) = listening(emptied_postgres_url, 1)
        with caplog.at_level(logging.WARNING, "clvlab.store"):
            with psycopg.connect(emptied_postgres_url, autocommit=True) as connection:
                connection.execute("SELECT pg_terminate_backend(%s)", [lost])
            until(lambda: "heard again" in caplog.text)
        say(database, "later")
        heard.wait_for("later")

    assert "not heard" in caplog.text


@contextmanager
def listener(database, heard):
    opened = Listener(database._engine, heard, "somebody else", first_delay_s=0.05)
    with closing(opened):
        yield
