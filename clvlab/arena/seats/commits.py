"""Group commit: what waits while one transaction is written goes together into the next one."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Generic, TypeVar

_Item = TypeVar("_Item")
_Made = TypeVar("_Made")
_AT_ONCE = 256
_IDLE_S = 30.0
_Outcome = Future[_Made] | asyncio.Future[_Made]
_Waiting = tuple[_Item, _Outcome[_Made]]

logger = logging.getLogger("clvlab.seats")


class GroupCommit(Generic[_Item, _Made]):
    """Commits items of many callers by few transactions, on a thread of its own that starts with the first item.

    ``commit`` takes items, writes one transaction, and returns for each what it made or the error that it raises to its caller
    alone. If it raises, nothing was written, and each item is committed by itself. ``idle`` is called now and then.
    """

    def __init__(
        self, commit: Callable[[Sequence[_Item]], Sequence[_Made | Exception]], idle: Callable[[], None] = lambda: None
    ) -> None:
        self._commit, self._idle = commit, idle
        self._waiting: SimpleQueue[list[_Waiting[_Item, _Made]] | None] = SimpleQueue()
        self._held: deque[_Waiting[_Item, _Made]] = deque()
        self._thread: Thread | None = None
        self._guard = Lock()

    def start(self) -> None:
        with self._guard:
            if self._thread is None:
                self._thread = Thread(target=self._run, name="clvlab-seats", daemon=True)
                self._thread.start()

    def submit(self, item: _Item) -> Future[_Made]:
        """Return the future of an item, which is done once the item is on the disk, or failed."""
        made: Future[_Made] = Future()
        self._put([(item, made)])
        return made

    def answer(self, item: _Item) -> asyncio.Future[_Made]:
        """Return the future of an item on the running loop. Items of one turn of the loop are handed over together after it."""
        loop = asyncio.get_running_loop()
        made: asyncio.Future[_Made] = loop.create_future()
        self._held.append((item, made))
        loop.call_soon(self._hand_over)  # the first one of a turn finds all, the others nothing
        return made

    def _hand_over(self) -> None:
        held = [self._held.popleft() for _ in range(len(self._held))]
        if held:
            self._put(held)

    def _put(self, items: list[_Waiting[_Item, _Made]]) -> None:
        self._waiting.put(items)
        if self._thread is None:
            self.start()

    def stop(self) -> None:
        """Commit what waits, and end the thread; idempotent."""
        with self._guard:
            thread, self._thread = self._thread, None
            if thread is not None:
                self._waiting.put(None)
                thread.join()

    def _run(self) -> None:
        while True:
            try:
                batch = self._waiting.get(timeout=_IDLE_S)
            except Empty:
                self._call_idle()
                continue
            items = list(batch or ())
            while batch is not None and len(items) < _AT_ONCE and not self._waiting.empty():
                batch = self._waiting.get()
                items += batch or ()
            if items:
                self._settle(items)
            if batch is None:
                return

    def _call_idle(self) -> None:
        try:
            self._idle()
        except Exception:  # the boundary of a thread, which must live on for the next item
            logger.exception("seats that were left alone could not be looked at")

    def _settle(self, items: Sequence[_Waiting[_Item, _Made]]) -> None:
        try:
            made: Sequence[_Made | Exception] = self._commit([item for item, _ in items])
        except Exception as error:  # noqa: BLE001  # the boundary of a thread: the caller of the item gets the error
            if len(items) > 1:
                for one in items:
                    self._settle([one])
                return
            made = [error]
        of_loops: dict[asyncio.AbstractEventLoop, list[tuple[_Outcome[_Made], _Made | Exception]]] = defaultdict(list)
        for (_, future), outcome in zip(items, made, strict=True):
            if isinstance(future, Future):
                _set([(future, outcome)])
            else:
                of_loops[future.get_loop()].append((future, outcome))
        for loop, outcomes in of_loops.items():  # one wake for all, where each would cost the loop a system call
            with suppress(RuntimeError):  # it is closed, so nothing waits for these
                loop.call_soon_threadsafe(_set, outcomes)


def _set(outcomes: Sequence[tuple[_Outcome[_Made], _Made | Exception]]) -> None:
    for future, outcome in outcomes:
        if future.cancelled():
            continue
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
