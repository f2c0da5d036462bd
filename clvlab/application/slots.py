"""A bound on work that anyone may ask for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore

from clvlab.errors import BusyError

__all__ = ["Slots"]


class Slots:
    """At most ``running`` callers work, ``waiting`` more wait, and all others are turned away."""

    def __init__(self, running: int, waiting: int, retry_after_s: int = 2) -> None:
        self._running = BoundedSemaphore(running)
        self._admitted = BoundedSemaphore(running + waiting)
        self._retry_after_s = retry_after_s

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Hold a slot.

        Raises
        ------
        BusyError
            As many wait as may wait.
        """
        if not self._admitted.acquire(blocking=False):
            raise BusyError(self._retry_after_s)
        try:
            with self._running:
                yield
        finally:
            self._admitted.release()
