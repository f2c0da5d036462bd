"""Two places for a log: the memory of a process, and an SQLite file."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import RLock

from clvlab.anchor.log import LogRows
from clvlab.errors import LogError

__all__ = ["MemoryLog", "SqliteLog"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    idx INTEGER PRIMARY KEY, kind TEXT NOT NULL, run_id TEXT NOT NULL, owner TEXT NOT NULL, entry BLOB NOT NULL,
    UNIQUE (run_id, kind)
) STRICT;
CREATE TABLE IF NOT EXISTS nodes (
    level INTEGER, idx INTEGER, hash BLOB NOT NULL, PRIMARY KEY (level, idx)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS entries_stay BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER IF NOT EXISTS entries_last BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
"""


class MemoryLog:
    """A log that ends with its process."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._entries: list[bytes] = []
        self._owners: dict[str, Counter[str]] = defaultdict(Counter)
        self._places: dict[tuple[str, str], int] = {}
        self._nodes: dict[tuple[int, int], bytes] = {}

    @contextmanager
    def write(self) -> Iterator[LogRows]:
        with self._lock:
            yield self

    read = write

    def size(self) -> int:
        return len(self._entries)

    def entry(self, index: int) -> bytes:
        return self._entries[index]

    def node(self, level: int, index: int) -> bytes:
        return self._nodes[level, index]

    def find(self, run_id: str, kind: str) -> int | None:
        return self._places.get((run_id, kind))

    def add(self, index: int, kind: str, run_id: str, owner: str, entry: bytes, nodes: dict[tuple[int, int], bytes]) -> None:
        self._places[run_id, kind] = index
        self._entries.append(entry)
        self._owners[owner][kind] += 1
        self._nodes |= nodes

    def tally(self) -> dict[str, dict[str, int]]:
        return {owner: dict(kinds) for owner, kinds in self._owners.items()}


class SqliteLog:
    """A log in an SQLite file, which several processes may write.

    Parameters
    ----------
    path
        The file.
    create
        Make it if it is missing; else a missing file is an error.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        if not create and not path.is_file():
            raise LogError(f"no run log at {str(path)!r}")
        self._path = path
        with self._connected("IMMEDIATE") as connection:
            for statement in _SCHEMA.split(";\n"):
                connection.execute(statement)

    @contextmanager
    def _connected(self, mode: str) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._path, isolation_level=None, timeout=30)) as connection:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute(f"BEGIN {mode}")
                try:
                    yield connection
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            raise LogError(f"the run log {str(self._path)!r} can't be used: {error}") from error

    @contextmanager
    def write(self) -> Iterator[LogRows]:
        with self._connected("IMMEDIATE") as connection:
            yield _Rows(connection)

    @contextmanager
    def read(self) -> Iterator[LogRows]:
        with self._connected("DEFERRED") as connection:
            yield _Rows(connection)


class _Rows:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def size(self) -> int:
        (last,) = self._connection.execute("SELECT max(idx) FROM entries").fetchone()
        return 0 if last is None else int(last) + 1

    def entry(self, index: int) -> bytes:
        return self._blob("SELECT entry FROM entries WHERE idx = ?", (index,))

    def node(self, level: int, index: int) -> bytes:
        return self._blob("SELECT hash FROM nodes WHERE level = ? AND idx = ?", (level, index))

    def _blob(self, query: str, key: tuple[int, ...]) -> bytes:
        row = self._connection.execute(query, key).fetchone()
        if row is None:
            raise LogError(f"the run log lacks row {key}: it was cut or damaged")
        return bytes(row[0])

    def find(self, run_id: str, kind: str) -> int | None:
        row = self._connection.execute("SELECT idx FROM entries WHERE run_id = ? AND kind = ?", (run_id, kind)).fetchone()
        return None if row is None else int(row[0])

    def add(self, index: int, kind: str, run_id: str, owner: str, entry: bytes, nodes: dict[tuple[int, int], bytes]) -> None:
        self._connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", (index, kind, run_id, owner, entry))
        rows = [(level, at, value) for (level, at), value in nodes.items()]
        self._connection.executemany("INSERT INTO nodes VALUES (?, ?, ?)", rows)

    def tally(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = defaultdict(dict)
        for owner, kind, count in self._connection.execute("SELECT owner, kind, count(*) FROM entries GROUP BY owner, kind"):
            found[owner][kind] = count
        return dict(found)
