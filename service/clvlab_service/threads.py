"""Threads that do not keep the process from ending."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

_T = TypeVar("_T")


class DaemonThreads:
    """So many threads that call functions for an event loop, in the order in which they were started.

    Those of the standard library are waited for at the exit of the interpreter.
    """

    def __init__(self, count: int, name: str) -> None:
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._count, self._name = count, name
        self._threads: list[Thread] = []
        self._ended = False

    def start(self, function: Callable[[], _T]) -> asyncio.Future[_T]:
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

        self._queue.put(call)
        if len(self._threads) < self._count:
            thread = Thread(target=self._work, name=f"{self._name}-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return answer

    def _work(self) -> None:
        while (call := self._queue.get()) is not None:
            if not self._ended:
                call()
            del call  # and with it what it was called with

    def end(self) -> None:
        """Call nothing any more; what is being called goes on."""
        self._ended = True
        for _ in self._threads:
            self._queue.put(None)


def _settle(answer: asyncio.Future[Any], settle: Callable[[Any], None], outcome: Any) -> None:
    if not answer.done():  # else it was given up
        settle(outcome)
