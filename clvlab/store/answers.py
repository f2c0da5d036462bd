"""Connections to PostgreSQL that give up on a server that is frozen.

Such a server keeps its connections open, its machine acknowledges what is sent, and its own time limits stand still with it.
So a client that hears nothing asks on a new connection whether the server is there. A statement that takes long is not cut.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from time import monotonic
from typing import Any, TypeVar

import psycopg
from sqlalchemy import Engine, event

from clvlab.store.waits import Waits

_T = TypeVar("_T")


class AnsweredConnection(psycopg.Connection[Any]):
    """A connection whose calls end with an error if the server is silent for too long.

    Attributes
    ----------
    waits
        Limits: ``answer_s`` until the server is asked whether it is there, and ``statement_s`` more until it is given up.
    ask
        Function that opens another connection.
    has_time
        Whether the transaction may take as long as it wants.
    """

    waits: Waits | None = None  # not while it connects, which has a time limit of its own
    ask: Callable[[], psycopg.Connection[Any]]
    has_time = False

    def wait(self, gen: Generator[Any, Any, _T], *arguments: Any, **options: Any) -> _T:
        """Run an operation of the driver, and watch how long the server is silent."""
        if self.waits is None:
            return super().wait(gen, *arguments, **options)
        return super().wait(self._watched(gen, self.waits), *arguments, **options)

    def _watched(self, gen: Generator[Any, Any, _T], waits: Waits) -> Generator[Any, Any, _T]:
        heard_s = probed_s = monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted  # nothing, some times a second, while the server is silent
                now_s = monotonic()
                if ready:
                    heard_s = probed_s = now_s
                elif now_s - heard_s > waits.answer_s + waits.statement_s and not self.has_time:
                    self._give_up(f"it has not answered for {now_s - heard_s:.0f} s")
                elif now_s - probed_s > waits.answer_s:
                    self._require_server(waits.answer_s)
                    probed_s = monotonic()
                wanted = gen.send(ready)
        except StopIteration as end:
            answer: _T = end.value
            return answer

    def _require_server(self, answer_s: float) -> None:
        try:
            self.ask().close()
        except psycopg.errors.ConnectionTimeout:
            self._give_up(f"it has not answered for {answer_s:g} s, and accepts no connection")
        except psycopg.OperationalError:  # also a refusal is an answer; a broken connection reports itself
            return

    def _give_up(self, cause: str) -> None:
        self.close()
        raise psycopg.errors.ConnectionTimeout(cause)


def watch_answers(engine: Engine, waits: Waits) -> None:
    """Let the connections of an engine give up on a frozen server."""

    def connect(dialect: object, record: object, arguments: Any, options: Any) -> AnsweredConnection:  # noqa: ARG001
        made = AnsweredConnection.connect(*arguments, **options)
        made.waits, made.ask = waits, lambda: psycopg.connect(*arguments, **options)
        return made

    def check_in(connection: AnsweredConnection | None, record: object) -> None:  # noqa: ARG001
        if connection is not None:
            connection.has_time = False

    event.listen(engine, "do_connect", connect)
    event.listen(engine, "checkin", check_in)
