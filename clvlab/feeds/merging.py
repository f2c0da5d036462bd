"""Several connections or subscriptions of one feed, as one stream of messages and cuts."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from clvlab.feeds.feed import Cut, Item, Resumed, Stop

_POLL_S = 0.1
_END_S = 0.8
_QUEUED = 1_000


@dataclass
class Cuts:
    """Cuts that are open on several connections or subscriptions of a feed.

    A ``Resumed`` ends all of them for whoever reads the stream, so the others are cut anew after it.
    """

    _open: dict[Any, Cut] = field(default_factory=dict)

    def placed(self, of: Any, item: Item) -> Iterator[Item]:
        """Return an item of one of them, and what has to follow it."""
        if isinstance(item, Cut):
            self._open[of] = item
        yield item
        if isinstance(item, Resumed):
            self._open.pop(of, None)
            for other in self._open.values():
                yield Cut(other.cause, item.to_ts_ms, other.markets)

    def is_open(self, of: Any) -> bool:
        """Whether messages of it are being missed."""
        return of in self._open


def together(stop: Stop, listeners: Sequence[Callable[[Stop], Iterator[Item]]]) -> Iterator[Item]:
    """Return the items of several connections as they come, each connection in a thread of its own.

    When it is told to stop, it ends within a second, even while a connection is being tried; what came before is returned.

    Raises
    ------
    FeedError
        One of them can't go on.
    """
    ending, gone, cuts = Stop(), Stop(), Cuts()
    items: queue.Queue[tuple[int, Item | Exception | None]] = queue.Queue(_QUEUED)

    def put(number: int, item: Item | Exception | None) -> None:
        while not gone.is_set:
            try:
                items.put((number, item), timeout=_POLL_S)
            except queue.Full:
                continue
            return

    def run(number: int) -> None:
        end: Exception | None = None
        try:
            for item in listeners[number](ending):
                put(number, item)
        except Exception as error:  # noqa: BLE001  # raised again where the items are taken
            end = error
        put(number, end)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(len(listeners))]
    for thread in threads:
        thread.start()
    running, until = len(threads), None
    try:
        while running and (until is None or time.monotonic() < until or not items.empty()):
            if stop.is_set and until is None:
                ending.set()
                until = time.monotonic() + _END_S
            try:
                number, item = items.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            if isinstance(item, Exception):
                raise item
            if item is None:
                running -= 1
            else:
                yield from cuts.placed(number, item)
    finally:
        gone.set()
        ending.set()
        until = until or time.monotonic() + _END_S
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
