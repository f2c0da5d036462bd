"""The database: SQLite in memory, a SQLite file or PostgreSQL, with read and write transactions."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import sqlite3
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from math import inf
from pathlib import Path
from secrets import token_hex
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import quote

from sqlalchemy import Column, Engine, NullPool, QueuePool, Select, Table, create_engine, event, text
from sqlalchemy import Connection as Connection  # only the store imports SQLAlchemy
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, ExceptionContext
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from clvlab.base.files import StagingPath, file_bytes_or_none, flush, is_writable, keep_private, name_file, replace_file
from clvlab.errors import MissingExtraError, StoreBusyError, StoreError, StoreFullError, StoreUnreachableError
from clvlab.store.migrations import check, upgrade
from clvlab.store.news import NEWS, Listener, notify
from clvlab.store.tables import UnreadableValueError
from clvlab.store.url import database_url, public_text, require_there, spoken
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
            [found] = written.execute("PRAGMA quick_check(1)").fetchone()  # pages are copied unread, damaged ones too
    except sqlite3.Error as error:
        if (code := _code_of(error)) == "SQLITE_FULL":
            raise StoreFullError(f"{str(source)!r} can't be copied to {str(copy.parent.parent)!r}: {error}") from error
        reason, remedy = _fault_of(code) or _FAULTS["SQLITE_IOERR"]
        raise DatabaseFaultError(reason, f"{str(source)!r} can't be copied: {error}; {remedy}") from error
    if found != "ok":
        raise DatabaseFaultError(
            "damaged", f"{str(source)!r} can't be copied: {found.splitlines()[-1]}; it is damaged: restore an earlier backup"
        )


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
_DAMAGED = "it is damaged: restore a backup, or move it away to begin with an empty one"
_NO_UNICODE = "a text in it is no Unicode"
_READ_ONLY = "make it and its folder writable, or copy it to where it can be written"
_PLACE = "it must be a file, in a folder that exists and can be written"
_NO_LOCKS = "its file system has no file locks: keep it on a local disk"
# SQLite, "Result and Extended Result Codes", by the beginning of their names; the first that fits
_FAULTS = {
    "SQLITE_CORRUPT": ("damaged", _DAMAGED),
    "SQLITE_NOTADB": ("damaged", _DAMAGED),
    "SQLITE_READONLY": ("read_only", _READ_ONLY),
    "SQLITE_CANTOPEN": ("not_opened", _PLACE),
    "SQLITE_PROTOCOL": ("no_locks", _NO_LOCKS),
    **{f"SQLITE_IOERR_{name}": ("no_locks", _NO_LOCKS) for name in ("LOCK", "RDLOCK", "UNLOCK", "CHECKRESERVEDLOCK", "SHM")},
    "SQLITE_IOERR": ("disk", "look at its disk, and restore a backup if the file was damaged"),
}
_SHORTEST = 100  # bytes of the header of SQLite's files
# PostgreSQL, appendix A: error codes
_DISK_FULL = "53100"
_BUSY = {
    "55P03": "another transaction held a lock for too long",
    "57014": "a statement took too long",
    "40P01": "transactions waited for each other",
}
_AT_ONCE = Waits(lock_s=1, statement_s=1)


def _code_of(error: sqlite3.Error) -> str:
    """Return SQLite's name of an error; empty for one of the driver."""
    return getattr(error, "sqlite_errorname", "")


def _fault_of(code: str) -> tuple[str, str] | None:
    """Return the reason and the remedy of an error; ``None`` if the file is not at fault."""
    return next((fault for begins, fault in _FAULTS.items() if code.startswith(begins)), None)


class DatabaseFaultError(StoreUnreachableError):
    """A database file that can't be used; ``reason`` is a stable key.

    ``reason`` is ``damaged``, ``read_only``, ``not_opened``, ``no_locks`` or ``disk``.
    """

    service_exit_code = 2  # a restart does not help

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class Database:
    """Transactions on one database, which is migrated to the newest schema if it is writable; without ``url`` it is in memory.

    ``guard`` is called with the rows of the run log before an entry is added; its exception refuses the transaction.

    Raises
    ------
    StoreUnreachableError
        The database does not answer, its file is damaged, or (``DatabaseUrlError``) the URL can't be read.
    """

    def __init__(
        self, url: str | None = None, waits: Waits | None = None, *, guard: Callable[[Any], None] | None = None
    ) -> None:
        self._guard, self._closed = guard, False
        place = _MEMORY if url is None else database_url(url)
        self.place, self._spoken = public_text(place), spoken(place)
        waits = waits or Waits()
        self._answer_s, self._silent_until_s = waits.answer_s, -inf
        is_file = place.get_backend_name() == "sqlite" and not _is_in_memory(place) and not place.query
        self.file = Path(str(place.database)) if is_file else None
        self._damage: DatabaseFaultError | None = None
        if self.file is not None and not os.path.lexists(self.file):
            self._create(place, self.file)
        if self.file is not None:
            self._require_whole(self.file)
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

    def _create(self, place: URL, file: Path) -> None:
        """Make a file with all tables under another name first, so that no process ever finds a part of one."""
        try:
            with StagingPath(file.parent) as folder:
                made = folder / file.name
                _create_private(made)
                engine = _engine(place.set(database=str(made)), _AT_ONCE, kept=False)
                with self._known_errors(), engine.begin() as connection:
                    upgrade(connection)
                flush(made)
                with suppress(FileExistsError):  # another process was first
                    name_file(made, file)
            flush(file.parent)
        except OSError as error:
            kind = StoreFullError if error.errno == errno.ENOSPC else partial(DatabaseFaultError, "not_opened")
            raise kind(f"{self._spoken} can't be made: {error.strerror}; {_PLACE}") from error

    def _require_whole(self, file: Path) -> None:
        """Refuse a file that was cut short.

        SQLite would take an empty one for a new database, and read the missing part of a last page as zeros. A file next to
        it may have the rest: a log or journal that SQLite applies.
        """
        size = _size_of(file)
        if size is None or any(_size_of(file.with_name(file.name + suffix)) for suffix in ("-wal", "-journal")):
            return
        if size >= _SHORTEST:
            with file.open("rb") as opened:
                head = opened.read(18)
            page = int.from_bytes(head[16:18])
            if not head.startswith(b"SQLite format 3\0") or size % (page if page > 1 else 1 << 16) == 0:
                return  # whole, or not a database, as SQLite says itself
        cut = "it is empty" if not size else f"it has {size:,} bytes, and its end is missing"
        raise DatabaseFaultError("damaged", f"{self._spoken} can't be used: {cut}; {_DAMAGED}")

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
            raise StoreUnreachableError(f"{self._spoken} does not answer: another transaction has just given up on it")
        with self._known_errors(), self._engine.connect().execution_options(**options) as connection:
            try:
                with connection.begin():
                    yield connection
            finally:
                if self._closed and not connection.invalidated:
                    connection.detach()  # the pool that would close it is gone

    @contextmanager
    def _known_errors(self) -> Iterator[None]:
        """Raise errors of the driver as those of the store, and remember damage."""
        try:
            yield
        except DBAPIError as error:
            if type(error.orig).__name__ == "ConnectionTimeout":  # of a driver that need not be installed
                self._silent_until_s = monotonic() + self._answer_s
            found = self._translated(error)
            if isinstance(found, DatabaseFaultError) and found.reason == "damaged":
                self._damage = found
            raise found from error
        except UnreadableValueError as error:
            self._damage = DatabaseFaultError("damaged", f"{self._spoken} can't be used: {error}; {_DAMAGED}")
            raise self._damage from error
        except PoolTimeoutError as error:
            raise StoreBusyError("no connection to the database was free in time: too many wait for it") from error

    def keep_private(self) -> Iterator[str]:
        """Take all rights of other users from the files of SQLite; yield what was wrong."""
        file = self.file
        for path in () if file is None else (file, *(file.with_name(file.name + end) for end in _ENDS)):
            yield from keep_private(path)

    def ask(self, also: Callable[[Connection], None] = lambda connection: None) -> None:  # noqa: ARG005
        """Check that the database can be read and written, and what ``also`` checks, on a connection that waits for no other.

        Damage that any transaction has met is reported until the process ends, as a damaged file does not heal.
        """
        if self._damage is not None:
            raise DatabaseFaultError("damaged", str(self._damage))
        if self._is_bound():
            raise DatabaseFaultError("read_only", f"{self._spoken} can't be written; {_READ_ONLY}")
        if self._apart is None:  # one connection, which others may hold
            return
        with self._known_errors(), self._apart.connect() as connection:
            connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
            also(connection)

    def _is_bound(self) -> bool:
        """Whether there is a file of SQLite that this process must not write, or has a folder that it must not."""
        if self.file is None or not self.file.is_file():
            return False
        return not (is_writable(self.file) and is_writable(self.file.parent))

    def _translated(self, error: DBAPIError) -> StoreError:
        cause, name = error.orig, self._spoken
        if isinstance(cause, sqlite3.Error):
            code = _code_of(cause)
            if code == "SQLITE_FULL":
                return StoreFullError(f"{name} is full: {cause}; nothing of the transaction was kept")
            if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                return StoreBusyError(
                    f"{name} can't be used: {cause}, by another process or transaction for more than {_WAIT_S} s; nothing of "
                    "the transaction was kept: do it again when that one is done"
                )
            if not code and isinstance(cause, sqlite3.OperationalError):  # of the driver itself
                return DatabaseFaultError("damaged", f"{name} can't be used: {_NO_UNICODE}; {_DAMAGED}")
            if (found := _fault_of(code)) is not None:
                if code.startswith("SQLITE_CANTOPEN") and self._is_bound():  # SQLite needs files next to it
                    found = _FAULTS["SQLITE_READONLY"]
                return DatabaseFaultError(found[0], f"{name} can't be used: {cause}; {found[1]}")
            return StoreError(f"{name} refused: {cause}")
        state = getattr(cause, "sqlstate", None)
        if state in _BUSY:
            return StoreBusyError(f"{name} is busy: {_BUSY[state]}; nothing of the transaction was kept")
        if state == _DISK_FULL:
            return StoreFullError(f"{name} is full: {cause}; nothing of the transaction was kept")
        if error.connection_invalidated or isinstance(error, InterfaceError | OperationalError):
            return StoreUnreachableError(f"{name} does not answer: {str(cause).splitlines()[0]}")
        return StoreError(f"{name} refused: {cause}")

    def close(self) -> None:
        """Close all connections; one in use is closed when its transaction ends. A database in memory is lost."""
        self._closed = True
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self._release()


def _create_private(file: Path) -> None:
    """Create the file of a database, so that only its owner may read it; SQLite's other files get the same mode."""
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


def _size_of(file: Path) -> int | None:
    """Return the size of a file; ``None`` unless it is a regular one that can be read."""
    return file.stat().st_size if os.access(file, os.R_OK) and file.is_file() else None


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
    event.listen(engine, "handle_error", _unreadable)
    return engine


def _unreadable(context: ExceptionContext) -> None:
    """Raise ``UnreadableValueError`` for a text that is no Unicode, in a row or in SQLite's own message about the damage."""
    if isinstance(context.original_exception, UnicodeDecodeError):
        raise UnreadableValueError(_NO_UNICODE) from context.original_exception


def _configure(connection: sqlite3.Connection, record: object) -> None:  # noqa: ARG001
    connection.isolation_level = None  # transactions begin at explicit statements, not at the driver's choice
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        try:
            connection.execute(f"PRAGMA {pragma}").fetchall()
        except UnicodeDecodeError as error:  # the driver can't read SQLite's message, which repeats a damaged name
            raise UnreadableValueError(_NO_UNICODE) from error


def _configure_to_read(connection: sqlite3.Connection, record: object) -> None:  # noqa: ARG001
    connection.isolation_level = None


def _begin(connection: Connection) -> None:
    # A transaction that reads first and writes later could not wait for another writer, and would fail with "locked".
    immediate = connection.get_execution_options().get(_IMMEDIATE)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


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
    except StoreUnreachableError as error:
        place = database_url(url)
        file = Path(place.database or "")
        is_damaged = isinstance(error, DatabaseFaultError) and error.reason == "damaged"
        if is_damaged or place.get_backend_name() != "sqlite" or place.query or not file.is_file():
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
