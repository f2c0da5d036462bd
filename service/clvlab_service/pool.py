"""A bounded pool: so many computations at once, so many that wait, and a clear refusal of the next."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

from clvlab.errors import BusyError
from clvlab_service.middleware import Metrics

_P = ParamSpec("_P")
_T = TypeVar("_T")


class BoundedPool:
    """Runs functions on a few threads, away from the event loop.

    Parameters
    ----------
    name
        In metrics.
    workers, queue
        How many run at once, and how many may wait beside them.
    """

    def __init__(self, name: str, workers: int, queue: int, metrics: Metrics) -> None:
        self._executor = ThreadPoolExecutor(workers, name)
        self._workers, self._room = workers, workers + queue
        self._waiting, self._refused = metrics.pending.labels(name), metrics.refused.labels(name)
        self._pending = 0
        self._mean_s = 1.0

    async def run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call a function on a thread of the pool; a caller that goes away keeps its place until the work is done.

        Raises
        ------
        BusyError
            All places are taken; it says after how many seconds one may be free.
        """
        if self._pending >= self._room:
            self._refused.inc()
            raise BusyError(max(1, math.ceil(self._mean_s * self._pending / self._workers)))
        self._count(1)
        started = time.perf_counter()
        future = asyncio.get_running_loop().run_in_executor(
            self._executor, partial(copy_context().run, partial(function, *args, **kwargs))
        )
        future.add_done_callback(lambda _: self._done(started))
        return await asyncio.shield(future)

    def _done(self, started: float) -> None:
        self._count(-1)
        self._mean_s += 0.2 * (time.perf_counter() - started - self._mean_s)

    def _count(self, change: int) -> None:
        self._pending += change
        self._waiting.set(self._pending)

    def close(self) -> None:
        """Wait for what runs; drop what waits."""
        self._executor.shutdown(wait=True, cancel_futures=True)
