"""Threads that do not keep the process from ending."""

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
    """A queue in which parties take turns, so that nobody waits behind all that another has put there."""

    def __init__(self) -> None:
        self._of: dict[str, deque[Callable[[], None]]] = {}  # in the order of their turns
        self._changed = Condition()
        self._ended = False

    def put(self, tenant: str, call: Callable[[], None]) -> None:
        """Add to what a tenant has waiting."""
        with self._changed:
            self._of.setdefault(tenant, deque()).append(call)
            self._changed.notify()

    def get(self) -> Callable[[], None] | None:
        """Wait for the first of the tenant whose turn it is; null once the queue has ended."""
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
        """Give nothing any more."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()


class DaemonThreads:
    """So many threads that call functions for an event loop, whose parties take turns.

    Those of the standard library are waited for at the exit of the interpreter.
    """

    def __init__(self, count: int, name: str) -> None:
        self._queue = Rounds()
        self._count, self._name = count, name
        self._threads: list[Thread] = []

    def start(self, function: Callable[[], _T], tenant: str = "") -> asyncio.Future[_T]:
        """Have a function called on a thread, in the context of the caller; to be asked for on the event loop."""
        loop, context = asyncio.get_running_loop(), copy_context()
        answer: asyncio.Future[_T] = loop.create_future()

        def call() -> None:
            settle: Callable[[Any], None]
            outcome: Any
            try:
                settle, outcome = answer.set_result, context.run(function)
            except BaseException as error:  # noqa: BLE001  # whatever it is belongs to who asked
                settle, outcome = answer.set_exception, error
            with suppress(RuntimeError):  # the loop has ended, and nobody waits
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
            del call  # and with it what it was called with

    def end(self) -> None:
        """Call nothing any more; what is being called goes on."""
        self._queue.end()


def _settle(answer: asyncio.Future[Any], settle: Callable[[Any], None], outcome: Any) -> None:
    if not answer.done():  # else it was given up
        settle(outcome)
