"""The database: SQLite in memory, a SQLite file or PostgreSQL, with read and write transactions."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from math import inf
from pathlib import Path
from secrets import token_hex
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import quote

from sqlalchemy import Column, Engine, NullPool, QueuePool, Select, Table, create_engine, event, text
from sqlalchemy import Connection as Connection  # only the store imports SQLAlchemy
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from clvlab.base.files import StagingPath, file_bytes_or_none, flush, keep_private, name_file, replace_file
from clvlab.errors import MissingExtraError, StoreBusyError, StoreError, StoreFullError, StoreUnreachableError
from clvlab.store.migrations import check, upgrade
from clvlab.store.news import NEWS, Listener, notify
from clvlab.store.url import database_url, public_text, require_there
from clvlab.store.waits import WAITS, Waits, take_time

# Backups: SQLite is copied while it is written to; PostgreSQL has its own tool.


CHECKPOINT = ".checkpoint"
"""Suffix of the file with a backup's checkpoint."""
_MAX_CHECKPOINT_BYTES = 1 << 20


def back_up(url: str, out: Path, checkpoint_file: Path | None = None) -> Path | None:
    """Copy a SQLite database to a file in one consistent state while others write to it; return the copied checkpoint, if any.

    Steps: 1. copy the newest published checkpoint; it comes first, so that the database's copy has all its entries; 2. copy the
    database under a temporary name; 3. give the copy its final name once it is on the disk.
    """
    source = _file_of(url, out, checkpoint_file)
    if os.path.lexists(out):
        raise StoreError(f"{str(out)!r} is there already: a backup is never written over")
    note = None if checkpoint_file is None else file_bytes_or_none(checkpoint_file, _MAX_CHECKPOINT_BYTES)
    with StagingPath(out.parent) as folder:  # a separate folder, so that SQLite leaves no other file
        copy = folder / out.name
        _copied(source, copy)
        shutil.copymode(source, copy)
        flush(copy)
        checkpoint = out.with_name(out.name + CHECKPOINT)
        if note is not None:
            replace_file(checkpoint, note)
        name_file(copy, out)
        flush(out.parent)
    return None if note is None else checkpoint


def _copied(source: Path, copy: Path) -> None:
    try:
        with (
            closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, timeout=30)) as read,
            closing(sqlite3.connect(copy)) as written,
        ):
            read.backup(written)  # all pages in one step, because a copy in several steps restarts after each write
            written.execute("PRAGMA journal_mode=DELETE").fetchall()  # one file, without a write-ahead log
    except sqlite3.Error as error:
        raise StoreUnreachableError(f"{str(source)!r} can't be copied: {error}") from error


def _file_of(url: str, out: Path, checkpoint_file: Path | None) -> Path:
    found = database_url(url)
    if found.get_backend_name() == "postgresql":
        named = found.set(drivername="postgresql")._replace(password=None).render_as_string()
        recipe = f"pg_dump --format=custom --no-owner --file={shlex.quote(str(out))} --dbname={shlex.quote(named)}"
        if checkpoint_file is not None:
            recipe = f"cp {shlex.quote(str(checkpoint_file))} {shlex.quote(str(out) + CHECKPOINT)} && {recipe}"
        raise StoreError(f"PostgreSQL is backed up by its own tool, with the password in PGPASSWORD or ~/.pgpass: {recipe}")
    if found.database in (None, "", ":memory:"):
        raise StoreError("a database in memory has no file to back up")
    require_there(url)
    return Path(str(found.database))


_T = TypeVar("_T")
_MEMORY = URL.create("sqlite+pysqlite")
_WAIT_S = 30
_ENDS = ("-wal", "-shm", "-journal")
_CONNECT_S = 5
_IMMEDIATE, _GUARD = "clvlab_immediate", "clvlab_guard"
_MIGRATION_LOCK = 0x636C766C6162  # any number that no other program uses
_UNUSABLE = tuple(f"SQLITE_{name}" for name in ("BUSY", "LOCKED", "CANTOPEN", "NOTADB", "IOERR", "READONLY", "CORRUPT"))
# PostgreSQL, appendix A: error codes
_DISK_FULL = "53100"
_BUSY = {
    "55P03": "another transaction held a lock for too long",
    "57014": "a statement took too long",
    "40P01": "transactions waited for each other",
}
_AT_ONCE = Waits(lock_s=1, statement_s=1)


class Database:
    """Transactions on one database, which is migrated to the newest schema if it is writable; without ``url`` it is in memory.

    ``guard`` is called with the rows of the run log before an entry is added; its exception refuses the transaction.

    Raises
    ------
    StoreUnreachableError
        The database does not answer, or (``DatabaseUrlError``) the URL can't be read.
    """

    def __init__(
        self, url: str | None = None, waits: Waits | None = None, *, guard: Callable[[Any], None] | None = None
    ) -> None:
        self._guard, self._closed = guard, False
        place = _MEMORY if url is None else database_url(url)
        self.place = public_text(place)
        waits = waits or Waits()
        self._answer_s, self._silent_until_s = waits.answer_s, -inf
        is_file = place.get_backend_name() == "sqlite" and not _is_in_memory(place) and not place.query
        self._file = Path(str(place.database)) if is_file else None
        if self._file is not None:
            _create_private(self._file)
        self._engine = _engine(place, waits)
        self._release = weakref.finalize(self, self._engine.dispose)  # for a database that nobody closed
        self._release.atexit = False
        self._apart = None if _is_in_memory(place) else _engine(place, _AT_ONCE, kept=False)
        self._on_subject: Callable[[str], None] = lambda subject: None  # noqa: ARG005
        self._listener: Listener | None = None
        self._teller = token_hex(8)
        try:
            if _is_read_only(place):
                with self.read() as connection:
                    self.schema_version = check(connection)
                return
            with self.write() as connection:
                take_time(connection)
                if connection.dialect.name == "postgresql":  # two services may start at once; SQLite's transaction is enough
                    connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _MIGRATION_LOCK})
                self.schema_version = upgrade(connection)
        except BaseException:
            self.close()
            raise

    @property
    def kind(self) -> str:
        """``sqlite`` (also for one in memory) or ``postgresql``."""
        return self._engine.dialect.name

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a read-only transaction that sees one state of the database."""
        with self._transaction(immediate=False) as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a transaction, which keeps all its writes or none.

        Raises
        ------
        StoreFullError, StoreUnreachableError, StoreBusyError, StoreError
            The database refused, and no write was kept.
        """
        with self._transaction(immediate=True) as connection:
            yield connection
            announced: set[str] = connection.get_execution_options()[NEWS]
            notify(connection, self._teller, announced)
        for subject in announced:
            self._on_subject(subject)

    def tell(self, listener: Callable[[str], None]) -> None:
        """Call ``listener`` with every subject announced by a transaction of this process, after its commit."""
        self._on_subject = listener

    def listen(self) -> None:
        """Also announce subjects of other processes, which only PostgreSQL supports; idempotent."""
        if self._listener is None and self._engine.dialect.name == "postgresql":
            self._listener = Listener(self._engine, self._on_subject, self._teller)

    @contextmanager
    def _transaction(self, *, immediate: bool) -> Iterator[Connection]:
        options: dict[str, Any] = {_IMMEDIATE: immediate, _GUARD: self._guard} | ({NEWS: set[str]()} if immediate else {})
        if self._engine.dialect.name == "postgresql" and not immediate:
            options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        if monotonic() < self._silent_until_s:  # callers who wait in a queue need not each find out again
            raise StoreUnreachableError("the database does not answer: another transaction has just given up on it")
        try:
            with self._engine.connect().execution_options(**options) as connection:
                try:
                    with connection.begin():
                        yield connection
                finally:
                    if self._closed and not connection.invalidated:
                        connection.detach()  # the pool that would close it is gone
        except DBAPIError as error:
            if type(error.orig).__name__ == "ConnectionTimeout":  # of a driver that need not be installed
                self._silent_until_s = monotonic() + self._answer_s
            raise _translated(error) from error
        except PoolTimeoutError as error:
            raise StoreBusyError("no connection to the database was free in time: too many wait for it") from error

    def keep_private(self) -> Iterator[str]:
        """Take all rights of other users from the files of SQLite; yield what was wrong."""
        file = self._file
        for path in () if file is None else (file, *(file.with_name(file.name + end) for end in _ENDS)):
            yield from keep_private(path)

    def ask(self) -> None:
        """Check that the database answers, on a new connection without waiting for others; in memory this does nothing."""
        if self._apart is not None:
            try:
                with self._apart.connect() as connection:
                    connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
            except DBAPIError as error:
                raise _translated(error) from error

    def close(self) -> None:
        """Close all connections; one in use is closed when its transaction ends. A database in memory is lost."""
        self._closed = True
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self._release()


def _create_private(file: Path) -> None:
    """Create the file of a database, so that only its owner may read it; SQLite's other files get the same mode."""
    with suppress(OSError):  # it exists, or SQLite says why it can't be created
        os.close(os.open(file, os.O_CREAT | os.O_EXCL, 0o600))


def guard_of(connection: Connection) -> Callable[[Any], None] | None:
    found: Callable[[Any], None] | None = connection.get_execution_options().get(_GUARD)
    return found


def insert(connection: Connection, table: Any) -> sqlite.Insert | postgresql.Insert:
    """Return an insert with ``on_conflict_do_nothing`` and ``on_conflict_do_update``, which both databases share."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


def columns(table: Table, kind: type[object]) -> list[Column[Any]]:
    return [table.c[name] for name in kind.__annotations__]


def first(connection: Connection, query: Select[Any], kind: Callable[..., _T], **bound: object) -> _T | None:
    found = connection.execute(query, bound)
    names, row = map(str, found.keys()), found.first()
    return None if row is None else kind(zip(names, row, strict=True))


def rows(connection: Connection, query: Select[Any], kind: Callable[..., _T], **bound: object) -> list[_T]:
    found = connection.execute(query, bound)
    names = list(map(str, found.keys()))  # the library's own type of names can't be written as JSON
    return [kind(zip(names, row, strict=True)) for row in found]


def _is_in_memory(url: URL) -> bool:
    return url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:")


def _is_read_only(url: URL) -> bool:
    return url.get_backend_name() == "sqlite" and url.query.get("mode") == "ro"


def _engine(url: URL, waits: Waits, *, kept: bool = True) -> Engine:
    """Return an engine, which keeps connections unless ``kept`` is false."""
    pool: dict[str, Any] = {"pool_size": 8, "pool_timeout": waits.lock_s} if kept else {"poolclass": NullPool}
    try:
        if url.get_backend_name() == "postgresql":
            options = {WAITS: waits}
            arguments = {"connect_timeout": _CONNECT_S} | waits.connect_args(str(url.query.get("options", "")))
            engine = create_engine(url, pool_pre_ping=kept, connect_args=arguments, execution_options=options, **pool)
            from clvlab.store.answers import watch_answers  # imported here: the driver is not needed for SQLite

            watch_answers(engine, waits)
            return engine
        if kept:  # a database in memory is one connection, and its users take turns
            size = (1, 0) if _is_in_memory(url) else (8, 8)
            pool = {"poolclass": QueuePool, "pool_size": size[0], "max_overflow": size[1], "pool_timeout": _WAIT_S}
        engine = create_engine(url, connect_args={"check_same_thread": False, "timeout": _WAIT_S}, **pool)
    except ImportError as error:
        raise MissingExtraError("service", error.name) from error
    event.listen(engine, "connect", _configure_to_read if _is_read_only(url) else _configure)
    event.listen(engine, "begin", _begin)
    return engine


def _configure(connection: sqlite3.Connection, record: object) -> None:  # noqa: ARG001
    connection.isolation_level = None  # transactions begin at explicit statements, not at the driver's choice
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _configure_to_read(connection: sqlite3.Connection, record: object) -> None:  # noqa: ARG001
    connection.isolation_level = None


def _begin(connection: Connection) -> None:
    # A transaction that reads first and writes later could not wait for another writer, and would fail with "locked".
    immediate = connection.get_execution_options().get(_IMMEDIATE)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _translated(error: DBAPIError) -> StoreError:
    cause = error.orig
    if isinstance(cause, sqlite3.Error):
        name = getattr(cause, "sqlite_errorname", "")
        if name == "SQLITE_FULL":
            return StoreFullError(f"the database is full: {cause}; nothing of the transaction was kept")
        if name.startswith(_UNUSABLE):
            return StoreUnreachableError(f"the database can't be used: {cause}")
        return StoreError(f"the database refused: {cause}")
    state = getattr(cause, "sqlstate", None)
    if state in _BUSY:
        return StoreBusyError(f"the database is busy: {_BUSY[state]}; nothing of the transaction was kept")
    if state == _DISK_FULL:
        return StoreFullError(f"the database is full: {cause}; nothing of the transaction was kept")
    if error.connection_invalidated or isinstance(error, InterfaceError | OperationalError):
        return StoreUnreachableError(f"the database does not answer: {str(cause).splitlines()[0]}")
    return StoreError(f"the database refused: {cause}")


# Reading a database that can't be written: a read-only file or mount, or an archive.


def database_to_read(url: str) -> Database:
    """Open a database for reading; a SQLite file that can't be written is opened read-only.

    Raises
    ------
    StoreUnreachableError
        The database can't be read, or has a write-ahead log, and only a writable database can merge that.
    StoreError
        The database can't be written, and has an older schema.
    """
    try:
        return Database(url)
    except StoreUnreachableError:
        place = database_url(url)
        file = Path(place.database or "")
        if place.get_backend_name() != "sqlite" or place.query or not file.is_file():
            raise
    read_only = f"sqlite:///file:{quote(quote(str(file.absolute())))}?uri=true&mode=ro"
    try:
        return Database(read_only)
    except StoreUnreachableError as error:
        log = file.with_name(f"{file.name}-wal")
        if log.is_file() and log.stat().st_size:
            detail = f"{str(file)!r} can't be read without {log.name!r} next to it: copy both to where they can be written"
            raise StoreUnreachableError(detail) from error
    return Database(f"{read_only}&immutable=1")  # SQLite creates no other file, not even to coordinate with writers
