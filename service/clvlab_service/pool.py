"""A bounded pool: it limits how many computations run and how many wait, and refuses further ones.

Its threads are daemons: the end of the process does not wait for them.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from clvlab.errors import BusyError, ShuttingDownError
from clvlab_service.telemetry import RequestMetrics
from clvlab_service.threads import DaemonThreads

_P = ParamSpec("_P")
_T = TypeVar("_T")
_LONGEST_S = 60


class PoolPlace:
    """A place in a pool; its holder makes one call after the other on the pool's threads."""

    def __init__(self, launch: Callable[[Callable[[], Any]], asyncio.Future[Any]]) -> None:
        self._launch = launch
        self._work: asyncio.Future[Any] | None = None

    async def run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call a function on a thread of the pool, after earlier callers.

        Raises
        ------
        ShuttingDownError
            The pool was closed.
        """
        self._work = self._launch(partial(function, *args, **kwargs))
        self._work.add_done_callback(_heed)
        answer: _T = await asyncio.shield(self._work)
        return answer

    def leave(self, freed: Callable[[], None]) -> None:
        """Give the place up; it is free once no call for its holder still runs."""
        if self._work is None or self._work.done():
            freed()
        else:
            self._work.add_done_callback(lambda _: freed())


def _heed(done: asyncio.Future[Any]) -> None:
    """Mark an error as handled, because its caller has left."""
    if not done.cancelled():
        done.exception()


class _NextWork:
    """Work for all callers that request it before it begins."""

    work: asyncio.Future[Any]

    def __init__(self) -> None:
        self.has_begun = False

    def begin(self, work: Callable[[], _T]) -> _T:
        self.has_begun = True
        return work()


class BoundedPool:
    """Runs functions on a few threads, away from the event loop.

    Parameters
    ----------
    name
        Name of the pool in metrics.
    workers, queue
        Number of calls that run at once, and number of further calls that may wait.
    """

    def __init__(self, name: str, workers: int, queue: int, metrics: RequestMetrics) -> None:
        self._threads = DaemonThreads(workers, name)
        self._under_way: set[asyncio.Future[Any]] = set()
        self._ended = False
        self._workers, self._room = workers, workers + queue
        self._waiting, self._refused = metrics.pending.labels(name), metrics.refused.labels(name)
        self._pending = 0
        self._mean_s: float | None = None  # None until something is measured
        self._mean_held_s = 0.0
        self._inflight: dict[str, asyncio.Future[Any]] = {}
        self._coming: dict[str, _NextWork] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call a function on a thread of the pool; if a caller leaves, its place stays taken until the work is done.

        Raises
        ------
        BusyError
            All places are taken; the error estimates the seconds until one is free.
        """
        with self.place():
            work = self._start(partial(function, *args, **kwargs))
        return await asyncio.shield(work)

    async def share(self, key: str, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call a function like ``run``, but once for all callers with the same key while the call lasts.

        Raises
        ------
        BusyError
            All places are taken.
        """
        inflight = self.inflight(key)
        if inflight is None:
            with self.place():
                inflight = self.submit(key, partial(function, *args, **kwargs))
        answer: _T = await asyncio.shield(inflight)
        return answer

    async def share_next(self, key: str, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call a function like ``run``, but once for all callers with the same key before it begins.

        So the answer is newer than the request: a caller that comes after the beginning waits for the next call.

        Raises
        ------
        BusyError
            All places are taken.
        """
        coming = self._coming.get(key)
        if coming is None or coming.has_begun:
            with self.place():
                coming = _NextWork()
                coming.work = self._start(partial(coming.begin, partial(function, *args, **kwargs)))
                self._coming[key] = coming
                coming.work.add_done_callback(partial(self._forget_next, key, coming))
        answer: _T = await asyncio.shield(coming.work)
        return answer

    def _forget_next(self, key: str, coming: _NextWork, done: asyncio.Future[Any]) -> None:
        if self._coming.get(key) is coming:  # else newer work waits under this key
            del self._coming[key]
        _heed(done)

    @contextmanager
    def held(self) -> Iterator[PoolPlace]:
        """Hold a place for an answer that is made in several steps, until it is sent.

        Raises
        ------
        BusyError
            All places are taken; the error has the mean seconds for which a place is held.
        ShuttingDownError
            The pool was closed.
        """
        self._require_room(min(self._mean_held_s, _LONGEST_S))
        self._count(1)
        place, started = PoolPlace(self._launch), time.perf_counter()
        try:
            yield place
        finally:
            self._mean_held_s += 0.2 * (time.perf_counter() - started - self._mean_held_s)
            place.leave(lambda: self._count(-1))

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place while work is prepared, and until it is started.

        Raises
        ------
        BusyError
            All places are taken.
        ShuttingDownError
            The pool was closed.
        """
        self._require_room((self._mean_s or 0) * self._pending / self._workers)
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def _require_room(self, wait_s: float) -> None:
        if self._ended:
            raise ShuttingDownError
        if self._pending >= self._room:
            self._refused.inc()
            raise BusyError(max(1, math.ceil(wait_s)))

    @property
    def is_free(self) -> bool:
        """Whether a thread is free for the holder of a place."""
        return self._pending <= self._workers

    def turn(self, key: str) -> asyncio.Lock:
        """Return the lock of a key. The first of concurrent callers starts the work, and the others see that it has started."""
        return self._turns.setdefault(key, asyncio.Lock())

    def inflight(self, key: str) -> asyncio.Future[Any] | None:
        """Return the unfinished work of a key."""
        return self._inflight.get(key)

    def submit(self, key: str, work: Callable[[], _T], tenant: str = "") -> asyncio.Future[_T]:
        """Start work for which all callers with the same key wait; the starter holds a place, and tenants take turns.

        If no caller waits any more, an error is dropped: the store answers a new request.
        """
        started = self._inflight[key] = self._start(work, tenant)
        started.add_done_callback(lambda done: self._forget(key, done))
        return started

    def _forget(self, key: str, done: asyncio.Future[Any]) -> None:
        if self._inflight.get(key) is done:  # else newer work has started under this key
            del self._inflight[key]
        _heed(done)

    def _start(self, work: Callable[[], _T], tenant: str = "") -> asyncio.Future[_T]:
        future = self._launch(partial(self._measure, work), tenant)
        self._count(1)
        future.add_done_callback(lambda _: self._count(-1))
        return future

    def _launch(self, work: Callable[[], _T], tenant: str = "") -> asyncio.Future[_T]:
        if self._ended:  # no thread would ever call it
            raise ShuttingDownError
        future = self._threads.start(work, tenant)
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        return future

    def _measure(self, work: Callable[[], _T]) -> _T:
        """Do some work and measure its time, without its waiting time."""
        started = time.perf_counter()
        try:
            return work()
        finally:
            took_s = time.perf_counter() - started
            self._mean_s = took_s if self._mean_s is None else self._mean_s + 0.2 * (took_s - self._mean_s)

    def _count(self, change: int) -> None:
        self._pending += change
        self._waiting.set(self._pending)

    async def close(self, within_s: float) -> None:
        """Wait at most ``within_s`` for unfinished work; then give it up."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=within_s)
        self.give_up()

    def give_up(self) -> None:
        """Answer all waiting callers with ``ShuttingDownError``, and start no more work."""
        self._ended = True
        self._threads.end()
        for future in list(self._under_way):
            if not future.done():  # a done one only has its callbacks left
                future.set_exception(ShuttingDownError())
                future.exception()  # marks the error as seen, as its caller may have left
