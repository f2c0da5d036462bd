"""A bounded pool: so many computations at once, so many that wait, and a clear refusal of the next.

Its threads are daemons: the process ends without those that still compute.
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
    """A place in a pool, on whose threads its holder does one thing after the other."""

    def __init__(self, launch: Callable[[Callable[[], Any]], asyncio.Future[Any]]) -> None:
        self._launch = launch
        self._work: asyncio.Future[Any] | None = None

    async def run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call a function on a thread of the pool, after those who asked before.

        Raises
        ------
        ShuttingDownError
        """
        self._work = self._launch(partial(function, *args, **kwargs))
        self._work.add_done_callback(_heed)
        answer: _T = await asyncio.shield(self._work)
        return answer

    def leave(self, freed: Callable[[], None]) -> None:
        """Give the place up; it is free once nothing is done any more for a client that went away."""
        if self._work is None or self._work.done():
            freed()
        else:
            self._work.add_done_callback(lambda _: freed())


def _heed(done: asyncio.Future[Any]) -> None:
    """Take note of an error that nobody waits for any more."""
    if not done.cancelled():
        done.exception()


class _NextWork:
    """Work for all who ask for it before it begins."""

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
        In metrics.
    workers, queue
        How many run at once, and how many more may wait.
    """

    def __init__(self, name: str, workers: int, queue: int, metrics: RequestMetrics) -> None:
        self._threads = DaemonThreads(workers, name)
        self._under_way: set[asyncio.Future[Any]] = set()
        self._ended = False
        self._workers, self._room = workers, workers + queue
        self._waiting, self._refused = metrics.pending.labels(name), metrics.refused.labels(name)
        self._pending = 0
        self._mean_s: float | None = None  # nothing is measured yet
        self._mean_held_s = 0.0
        self._inflight: dict[str, asyncio.Future[Any]] = {}
        self._coming: dict[str, _NextWork] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call a function on a thread of the pool; a caller that goes away keeps its place until the work is done.

        Raises
        ------
        BusyError
            All places are taken; it says after how many seconds one may be free.
        """
        with self.place():
            work = self._start(partial(function, *args, **kwargs))
        return await asyncio.shield(work)

    async def share(self, key: str, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call a function as ``run`` does, once for all who ask under the same key while it is under way.

        Raises
        ------
        BusyError
        """
        inflight = self.inflight(key)
        if inflight is None:
            with self.place():
                inflight = self.submit(key, partial(function, *args, **kwargs))
        answer: _T = await asyncio.shield(inflight)
        return answer

    async def share_next(self, key: str, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call a function as ``run`` does, once for all who ask under the same key before it begins.

        What is answered was found after it was asked for: who comes when it has begun waits for the next one.

        Raises
        ------
        BusyError
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
        if self._coming.get(key) is coming:  # else another waits under its key since
            del self._coming[key]
        _heed(done)

    @contextmanager
    def held(self) -> Iterator[PoolPlace]:
        """Hold a place for an answer that is made in several steps, until it is sent.

        Raises
        ------
        BusyError
            All places are taken; it says for how many seconds one is held.
        ShuttingDownError
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
        BusyError, ShuttingDownError
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

    def turn(self, key: str) -> asyncio.Lock:
        """Return what those who ask for the same take turns by: the first starts it, the others find it started."""
        return self._turns.setdefault(key, asyncio.Lock())

    def inflight(self, key: str) -> asyncio.Future[Any] | None:
        """Return the work that is under way under a key."""
        return self._inflight.get(key)

    def submit(self, key: str, work: Callable[[], _T], tenant: str = "") -> asyncio.Future[_T]:
        """Start work that all who ask under the same key wait for; who starts it holds a place, and tenants take turns.

        An error of work that nobody waits for any more is dropped: the store answers who asks again.
        """
        started = self._inflight[key] = self._start(work, tenant)
        started.add_done_callback(lambda done: self._forget(key, done))
        return started

    def _forget(self, key: str, done: asyncio.Future[Any]) -> None:
        if self._inflight.get(key) is done:  # else another has started under its key since
            del self._inflight[key]
        _heed(done)

    def _start(self, work: Callable[[], _T], tenant: str = "") -> asyncio.Future[_T]:
        future = self._launch(partial(self._measure, work), tenant)
        self._count(1)
        future.add_done_callback(lambda _: self._count(-1))
        return future

    def _launch(self, work: Callable[[], _T], tenant: str = "") -> asyncio.Future[_T]:
        if self._ended:  # nothing would ever call it
            raise ShuttingDownError
        future = self._threads.start(work, tenant)
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        return future

    def _measure(self, work: Callable[[], _T]) -> _T:
        """Do some work, and measure it: not what it waited, which those before it have measured."""
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
        """Wait for what is under way, at most so long; then give it up."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=within_s)
        self.give_up()

    def give_up(self) -> None:
        """Answer everybody who waits for work with ``ShuttingDownError``, and start none any more."""
        self._ended = True
        self._threads.end()
        for future in list(self._under_way):
            if not future.done():  # else its callbacks have yet to be called
                future.set_exception(ShuttingDownError())
                future.exception()  # there may be nobody to be told
