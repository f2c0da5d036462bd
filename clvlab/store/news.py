"""News of stored changes: announced in this process after commit, and by PostgreSQL to every other."""

from __future__ import annotations

import logging
import os
import selectors
from collections.abc import Callable
from contextlib import ExitStack
from threading import Event, Thread
from typing import Any

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

logger = logging.getLogger("clvlab.store")
NEWS = "clvlab_news"
"""Execution option of a connection with the subjects that its transaction announces."""
_CHANNEL = "clvlab_news"
_NOTIFY = text("SELECT pg_notify(:channel, line) FROM unnest(CAST(:lines AS text[])) AS line")
_LONGEST_DELAY_S = 30.0
_CLOSING_S = 2.0


def announce(connection: Connection, subject: str) -> None:
    """Announce a subject once the transaction is committed; a read-only transaction announces nothing."""
    announced: set[str] | None = connection.get_execution_options().get(NEWS)
    if announced is not None:
        announced.add(subject)


def notify(connection: Connection, teller: str, subjects: set[str]) -> None:
    """Announce subjects to other processes on commit, if the database supports it."""
    if subjects and connection.dialect.name == "postgresql":
        connection.execute(_NOTIFY, {"channel": _CHANNEL, "lines": [f"{teller} {subject}" for subject in sorted(subjects)]})


class Listener:
    """Receives announcements of other PostgreSQL processes on its own thread and connection, and calls ``on_subject``.

    News is lost while the connection is broken, so a caller that needs all of it must also poll. ``teller``'s news is ignored.
    """

    def __init__(self, engine: Engine, on_subject: Callable[[str], None], teller: str, first_delay_s: float = 1.0) -> None:
        self._engine, self._on_subject, self._teller, self._first_delay_s = engine, on_subject, teller, first_delay_s
        self._stopping = Event()
        self._woken, self._wake = os.pipe()
        self._thread = Thread(target=self._listen, name="clvlab-news", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening, without waiting for a database that does not answer."""
        self._stopping.set()
        os.write(self._wake, b"x")
        self._thread.join(_CLOSING_S)
        if not self._thread.is_alive():
            os.close(self._wake)
            os.close(self._woken)

    def _listen(self) -> None:
        delay_s = self._first_delay_s
        while not self._stopping.is_set():
            try:
                with ExitStack() as stack:
                    connection = self._connected(stack)
                    if delay_s > self._first_delay_s:
                        logger.warning("news of other services are heard again")
                    delay_s = self._first_delay_s
                    self._hear(connection)
            except (SQLAlchemyError, self._engine.dialect.loaded_dbapi.Error, OSError) as error:
                if not self._stopping.is_set():
                    cause = str(getattr(error, "orig", error)).splitlines() or [type(error).__name__]
                    logger.warning("news of other services are not heard, next attempt in %g s: %s", delay_s, cause[0])
                    self._stopping.wait(delay_s)
                    delay_s = min(2 * delay_s, _LONGEST_DELAY_S)

    def _connected(self, stack: ExitStack) -> Any:
        """Take a connection out of the pool and listen on it."""
        taken = stack.enter_context(self._engine.connect().execution_options(isolation_level="AUTOCOMMIT"))
        connection = taken.connection.driver_connection
        taken.detach()
        taken.execute(text(f"LISTEN {_CHANNEL}"))
        return connection

    def _hear(self, connection: Any) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(connection.fileno(), selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while not self._stopping.is_set():
                for notice in connection.notifies(timeout=0):
                    teller, _, subject = notice.payload.partition(" ")
                    if teller != self._teller:
                        self._on_subject(subject)
                selector.select()
