"""A cache of bounded size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Lock
from typing import Generic, TypeVar

_V = TypeVar("_V")


class BoundedCache(Generic[_V]):
    """A thread-safe cache of immutable values by key.

    Beyond ``max_bytes``, as counted by ``size``, the least recently read values are dropped. A value larger than ``max_bytes``
    is never kept.
    """

    def __init__(self, max_bytes: int, size: Callable[[_V], int]) -> None:
        self._max_bytes, self._size = max_bytes, size
        self._kept: OrderedDict[Hashable, _V] = OrderedDict()
        self._under_way: dict[Hashable, Future[_V]] = {}
        self._bytes = 0
        self._lock = Lock()

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._kept

    def get(self, key: Hashable, make: Callable[[], _V]) -> _V:
        """Return the value of a key. Concurrent callers share one call of ``make``, and an error is raised to all, not kept."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            waiting = self._under_way.get(key)
            if waiting is None:
                own: Future[_V] = Future()
                self._under_way[key] = own
        if waiting is not None:
            return waiting.result()
        try:
            value = make()
        except BaseException as error:
            with self._lock:
                del self._under_way[key]
            own.set_exception(error)
            raise
        with self._lock:
            del self._under_way[key]
            self._keep(key, value)
        own.set_result(value)
        return value

    def _keep(self, key: Hashable, value: _V) -> None:
        size = self._size(value)
        if size > self._max_bytes:
            return
        self._kept[key] = value
        self._bytes += size
        while self._bytes > self._max_bytes:
            self._bytes -= self._size(self._kept.popitem(last=False)[1])
