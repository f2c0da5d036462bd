"""Work that blocks, done in a thread of its own, so that a feed ends when it is told to, whatever its connection does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, TypeVar

from clvlab.feeds.feed import Stop

if TYPE_CHECKING:
    import httpx2

_T = TypeVar("_T")
_LOOK_S = 0.1
_MOST_HELD = 10_000  # then the thread waits, and so does the provider


@dataclass(frozen=True, slots=True)
class _End:
    error: Exception | None


def attended(
    source: Generator[_T, None, None], stop: Stop, abandon: Callable[[], None] = lambda: None
) -> Generator[_T, None, None]:
    """Return the items of a source that may block, until it ends or the feed is to end.

    Parameters
    ----------
    source
        Drawn from, and closed, in a thread of its own; what it raises is raised here.
    stop
        Ends this within a moment, even while the source blocks.
    abandon
        Called when no more is wanted, to wake a source that blocks.
    """
    queue: Queue[_T | _End] = Queue(_MOST_HELD)
    unwanted = threading.Event()

    def put(item: _T | _End) -> bool:
        while not unwanted.is_set():
            try:
                queue.put(item, timeout=_LOOK_S)
            except Full:
                continue
            return True
        return False

    def draw() -> None:
        error = None
        try:
            with closing(source):
                for item in source:
                    if not put(item):
                        return
        except Exception as raised:  # noqa: BLE001 - raised again where the items are taken
            error = raised
        put(_End(error))

    threading.Thread(target=draw, name="clvlab-feed", daemon=True).start()
    try:
        while not stop.is_set:
            try:
                item = queue.get(timeout=_LOOK_S)
            except Empty:
                continue
            if not isinstance(item, _End):
                yield item
            elif item.error is None:
                return
            else:
                raise item.error
    finally:
        unwanted.set()
        abandon()


def awaited(work: Callable[[], _T], stop: Stop) -> _T | None:
    """Return what a call returns that may block; null if the feed is to end before it does."""

    def once() -> Generator[_T, None, None]:
        yield work()

    with closing(attended(once(), stop)) as results:
        return next(results, None)


@dataclass
class Line:
    """A connection that can be cut from another thread, while its own waits for bytes."""

    response: httpx2.Response | None = None

    def hang_up(self) -> None:
        stream = None if self.response is None else self.response.extensions.get("network_stream")
        connection = None if stream is None else stream.get_extra_info("socket")
        if connection is not None:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # it is closed already
                return
