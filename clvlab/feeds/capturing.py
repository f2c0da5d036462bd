"""Capture: what a feed sends is written down as it comes, in segments that are only ever appended to.

Steps of each message: 1. a thread of its own reads the feed, into a bounded queue; 2. it is written, and synced within a
second, or in a capture for a run before anybody sees it; 3. whoever captures is given it. A segment that is full is closed, and
its hash noted, before the next one begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Thread

from clvlab.errors import FeedError
from clvlab.feeds.feed import Cut, Feed, GapCause, Item, Received, Stop
from clvlab.feeds.segments import Note, Segments
from clvlab.packs.captures.records import CaptureRecord, Header

_BACKLOG = 20_000
_MOST_BYTES = 256 << 20
_PATIENCE_S = 5.0
_BATCH = 2_000
_IDLE_S = 0.1
_SYNC_S = 1.0


class Capturing:
    """A capture in a folder, begun, or taken up where it broke off.

    Parameters
    ----------
    folder
        Of the segments; made if it is not there.
    feed
        What is captured.
    header
        Of a capture that begins; one that is taken up keeps its own, which must be of the same feed and fixtures.
    note
        Told of each segment that was closed, before the next begins; null without a log.
    clock
        UTC milliseconds.
    backlog
        Messages that may wait to be written; beyond it the feed waits.
    patience_s
        How long it waits before it is cut.

    Attributes
    ----------
    segments
        What is on the disk.

    Raises
    ------
    FileLockedError
        Another process captures into the folder.
    FeedError
        The folder holds another capture.
    """

    def __init__(
        self,
        folder: Path,
        feed: Feed,
        header: Header,
        *,
        note: Note | None = None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        backlog: int = _BACKLOG,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self.feed, self._clock, self._backlog, self._patience_s = feed, clock, backlog, patience_s
        self.segments = Segments(folder, header, note)

    def records(self, stop: Stop) -> Generator[CaptureRecord | None]:
        """Return records as they are written down, and nothing (null) now and then while none comes.

        In a capture for a run each record is on the disk before it is returned.

        Raises
        ------
        FeedError
            The feed can't go on.
        OSError
            It can't be written down.
        """
        cause, since_ms = GapCause.RESTART, self.segments.last_ms
        while not stop.is_set:
            mark = self.segments.mark
            if since_ms is not None:
                yield from self._written([Cut(cause, since_ms, resumable=mark is not None)])
            reading = _CaptureReading(self.feed, self.segments.header.fixture_ids, mark, self._backlog, self._patience_s)
            yield from self._listened(reading, stop)
            if (owed_ms := self.feed.health.owed_since_ms) is not None:  # it ends before all came that was promised again
                yield from self._written([Cut(GapCause.CUT, owed_ms, resumable=True)])
            if reading.error is not None:
                raise reading.error
            if not reading.behind:
                return
            cause, since_ms = GapCause.BACKLOG, self.segments.last_ms

    def _listened(self, reading: _CaptureReading, stop: Stop) -> Iterator[CaptureRecord | None]:
        due = time.monotonic() + _SYNC_S
        reading.start()
        try:
            while True:
                if stop.is_set:
                    reading.stop.set()
                over = not reading.is_alive()  # asked first: what it put down before is still to be taken
                items = reading.taken()
                yield from self._written(items)
                if time.monotonic() >= due:
                    self.segments.sync()
                    self.segments.roll(self._clock())
                    due = time.monotonic() + _SYNC_S
                if over and not items:
                    return
                if not items:
                    yield None
        finally:
            reading.stop.set()

    def _written(self, items: Sequence[Item]) -> Iterator[CaptureRecord]:
        """Write records down, then give them out one by one."""
        if not items:
            return
        records = self.segments.write(items)
        if self.segments.header.live:
            self.segments.sync()
        yield from records
        self.segments.roll(self._clock())


class _Backlog(Queue[Item]):
    """Items that wait to be written: full when they are too many, or together too large for memory."""

    _bytes = 0

    def _put(self, item: Item) -> None:
        super()._put(item)
        self._bytes += len(item.text) if isinstance(item, Received) else 0

    def _get(self) -> Item:
        item = super()._get()
        self._bytes -= len(item.text) if isinstance(item, Received) else 0
        return item

    def _qsize(self) -> int:
        return self.maxsize if self._bytes >= _MOST_BYTES else super()._qsize()


class _CaptureReading(Thread):
    """Reads a feed into a queue until it is stopped, has ended, or nobody takes from the queue for some seconds."""

    def __init__(self, feed: Feed, fixture_ids: Sequence[int], mark: str | None, backlog: int, patience_s: float) -> None:
        super().__init__(name=f"clvlab-feed-{feed.name}", daemon=True)
        self.stop, self.behind = Stop(), False
        self.error: FeedError | None = None
        self._feed, self._fixture_ids, self._mark, self._patience_s = feed, fixture_ids, mark, patience_s
        self._queue = _Backlog(backlog)

    def run(self) -> None:
        try:
            for item in self._feed.listen(self.stop, self._fixture_ids, self._mark):
                if not self._put(item):
                    return
        except FeedError as error:
            self.error = error
        except Exception as error:  # noqa: BLE001  the boundary of a thread: who captures is told
            self.error = FeedError(f"the feed {self._feed.name} failed with {type(error).__name__}: {error}")
            self.error.__cause__ = error

    def _put(self, item: Item) -> bool:
        until = time.monotonic() + self._patience_s
        while not self.stop.is_set:
            try:
                self._queue.put(item, timeout=_IDLE_S)
            except Full:
                self.behind = time.monotonic() > until
                if self.behind:
                    return False
            else:
                return True
        return False

    def taken(self) -> list[Item]:
        """Take what is there, and wait a moment if nothing is."""
        items: list[Item] = []
        try:
            items.append(self._queue.get(timeout=_IDLE_S))
            while len(items) < _BATCH:
                items.append(self._queue.get_nowait())
        except Empty:
            pass
        return items
