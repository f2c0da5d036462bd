"""Threads that let the process end even if they still work."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from threading import Condition, Thread
from typing import Any, TypeVar

_T = TypeVar("_T")


class Rounds:
    """A queue in which tenants take turns, so that no tenant waits for all calls of another."""

    def __init__(self) -> None:
        self._of: dict[str, deque[Callable[[], None]]] = {}  # in the order of their turns
        self._changed = Condition()
        self._ended = False

    def put(self, tenant: str, call: Callable[[], None]) -> None:
        """Add a call to a tenant's waiting ones."""
        with self._changed:
            self._of.setdefault(tenant, deque()).append(call)
            self._changed.notify()

    def get(self) -> Callable[[], None] | None:
        """Wait for the first call of the tenant whose turn it is; ``None`` once the queue has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._of or self._ended)
            if self._ended:
                return None
            tenant = next(iter(self._of))
            waiting = self._of.pop(tenant)
            call = waiting.popleft()
            if waiting:
                self._of[tenant] = waiting  # behind the others
            return call

    def end(self) -> None:
        """End the queue, which then returns ``None``."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()


class DaemonThreads:
    """Threads that call functions for an event loop; tenants take turns.

    The interpreter would wait at its exit for threads of the standard library's executor.
    """

    def __init__(self, count: int, name: str) -> None:
        self._queue = Rounds()
        self._count, self._name = count, name
        self._threads: list[Thread] = []

    def start(self, function: Callable[[], _T], tenant: str = "") -> asyncio.Future[_T]:
        """Call a function on a thread, in the context of the caller; must be called on the event loop."""
        loop, context = asyncio.get_running_loop(), copy_context()
        answer: asyncio.Future[_T] = loop.create_future()

        def call() -> None:
            settle: Callable[[Any], None]
            outcome: Any
            try:
                settle, outcome = answer.set_result, context.run(function)
            except BaseException as error:  # noqa: BLE001  # the caller gets any error
                settle, outcome = answer.set_exception, error
            with suppress(RuntimeError):  # the loop has ended, so no caller waits
                loop.call_soon_threadsafe(_settle, answer, settle, outcome)

        self._queue.put(tenant, call)
        if len(self._threads) < self._count:
            thread = Thread(target=self._work, name=f"{self._name}-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return answer

    def _work(self) -> None:
        while (call := self._queue.get()) is not None:
            call()
            del call  # releases the arguments too

    def end(self) -> None:
        """Start no more calls; running ones continue."""
        self._queue.end()


def _settle(answer: asyncio.Future[Any], settle: Callable[[Any], None], outcome: Any) -> None:
    if not answer.done():  # otherwise it was given up
        settle(outcome)
