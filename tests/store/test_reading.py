"""Logs on files and folders that can't be written."""

import ctypes
import os
import shutil
import sqlite3
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from clvlab.arena.log.operations import log_counts, open_log
from clvlab.cli import main
from clvlab.errors import StoreError, StoreUnreachableError
from clvlab.log.log import commit
from clvlab.store import migrations
from clvlab.store.database import Database, database_to_read
from tests.logs import hashed, run_of

_VERSION_3, _DAC_OVERRIDE = 0x2008_0522, 1 << 1  # of capabilities of Linux

COUNTS = [{"owner": "o", "committed": 1, "sealed": 0, "abandoned": 0, "open": 1}]


@contextmanager
def bound_by_modes():
    """Have this thread write only what the modes of files let it, as root may otherwise write anything.

    It stays root: another user may not even read a clone in a private folder.
    """
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    this_thread, capabilities = (ctypes.c_uint32 * 2)(_VERSION_3, 0), (ctypes.c_uint32 * 6)()

    def hold(effective):
        capabilities[0] = effective
        assert libc.capset(this_thread, capabilities) == 0, os.strerror(ctypes.get_errno())

    assert libc.capget(this_thread, capabilities) == 0, os.strerror(ctypes.get_errno())
    held = capabilities[0]
    hold(held & ~_DAC_OVERRIDE)
    try:
        yield
    finally:
        hold(held)


@pytest.fixture
def folder():
    """A folder that everybody may read; those of pytest are private."""
    path = Path(tempfile.mkdtemp(prefix="clvlab-read-only-"))
    yield path
    path.chmod(0o755)
    shutil.rmtree(path)


@pytest.fixture
def log(folder):
    """A log of one entry, on a file in a folder that can't be written."""
    place = folder / "log %41.db"
    with open_log(place, create=True) as opened, opened.write() as rows:
        commit(rows, run_of(1), "o", hashed(1), None, 5)
    locked(folder)
    return place


def locked(folder):
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)


def test_a_log_that_nobody_can_write_is_shown(log):
    assert list(log.parent.iterdir()) == [log]

    with bound_by_modes(), open_log(log) as opened:
        assert log_counts(opened) == COUNTS
        with pytest.raises(StoreError), opened.write() as rows:
            commit(rows, run_of(2), "o", hashed(2), None, 5)
    assert list(log.parent.iterdir()) == [log]


@pytest.mark.parametrize("command", ["show", "audit"])
def test_the_commands_read_it_too(log, command, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["clvlab", "log", command, str(log), "--json"])

    with bound_by_modes(), pytest.raises(SystemExit) as end:
        main()

    assert end.value.code == 0
    assert '"committed": 1' in capsys.readouterr().out


def test_a_log_in_a_folder_that_can_be_written_is_shown_while_it_is_written(folder):
    place = folder / "log.db"
    with open_log(place, create=True) as writer:
        with writer.write() as rows:
            commit(rows, run_of(1), "o", hashed(1), None, 5)
        assert (folder / "log.db-wal").stat().st_size
        locked(folder)

        with bound_by_modes(), open_log(place) as opened:
            assert log_counts(opened) == COUNTS
        folder.chmod(0o755)
        for path in folder.iterdir():
            path.chmod(0o644)


def test_a_log_without_the_newest_of_its_entries_is_not_shown(folder):
    (folder / "origin").mkdir()
    place = folder / "origin" / "log.db"
    with open_log(place, create=True) as writer:
        with writer.write() as rows:
            commit(rows, run_of(1), "o", hashed(1), None, 5)
        for name in ("log.db", "log.db-wal"):
            shutil.copy(folder / "origin" / name, folder / name)
    locked(folder)

    with bound_by_modes(), pytest.raises(StoreUnreachableError, match="copy both"), open_log(folder / "log.db"):
        pass


def test_a_log_of_an_older_schema_that_nobody_can_write_is_refused(folder):
    place = folder / "log.db"
    Database(f"sqlite:///{place}").close()
    engine = create_engine(f"sqlite:///{place}")
    with engine.begin() as connection:
        migrations.downgrade(connection, "0010")
    engine.dispose()
    locked(folder)

    with bound_by_modes(), pytest.raises(StoreError, match="has schema 0010"):
        database_to_read(f"sqlite:///{place}")


def test_a_file_that_is_no_database_is_no_log(folder):
    (folder / "log.db").write_bytes(b"no database, though it is long enough to look like one" * 100)
    locked(folder)

    with bound_by_modes(), pytest.raises(StoreUnreachableError, match="not a database"), open_log(folder / "log.db"):
        pass


def test_a_log_that_can_be_written_is_migrated_as_ever(tmp_path):
    database_to_read(f"sqlite:///{tmp_path / 'new.db'}").close()

    with sqlite3.connect(tmp_path / "new.db") as connection:
        found = connection.execute("SELECT count(*) FROM log_entries").fetchone()
    connection.close()
    assert found == (0,)
