"""Capture: a feed's messages are written on arrival, in append-only segments.

Steps of each message: 1. a thread reads the feed into a bounded queue; 2. the message is written, and synced within a second,
or in a capture for a run before it is returned; 3. the caller gets it. A full segment is closed, and its hash recorded, before
the next one begins.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Thread

from clvlab.base.files import flush, lock
from clvlab.errors import FeedError
from clvlab.packs.files import MAX_LINE_BYTES, file_sha256
from clvlab.sources.capture.feed import Cut, Feed, FeedMessage, GapCause, Item, Resumption, Stop
from clvlab.sources.capture.records import (
    ENDING,
    CaptureRecord,
    CutContent,
    Header,
    cut_line,
    end_line,
    message_line,
    name_of,
    read_header,
    read_record,
    records_of,
    resumed_line,
)
from clvlab.sources.capture.source import records_in_order

# The segments of a capture on disk. They are appended to, synced, closed one after the other, and continued after a crash.


# The open cuts of a capture that is written: the end of one must not end the others.


_OWN = (GapCause.RESTART, GapCause.BACKLOG)


@dataclass
class OpenCuts:
    """Open cuts of the recorder (``own``) and of its feed.

    A feed does not know of the recorder's cuts: the feed's first message ends them. The feed ends its own cuts itself. For
    readers a ``Resumption`` ends every open cut, so those that still last are written again after it.
    """

    own: bool = False
    _feed: list[Cut] = field(default_factory=list)

    def cut(self, cut: Cut) -> None:
        """Record a cut. After its own cut the recorder listens again from the start, so the feed's cuts are over."""
        if cut.cause in _OWN:
            self.own, self._feed = True, []
        else:
            self._feed.append(cut)

    def resume(self) -> None:
        self.own, self._feed = False, []

    def before_message(self, at_ms: int) -> list[Cut | Resumption]:
        """Return the items that must precede a message of that time."""
        if not self.own:
            return []
        self.own, self._feed = False, [Cut(cut.cause, at_ms, cut.markets, cut.resumable) for cut in self._feed]
        return [Resumption(at_ms), *self._feed]

    def in_place_of_message(self, at_ms: int) -> list[Cut | Resumption]:
        """Return the items in place of a message that is too long; an open cut continues."""
        cut = Cut(GapCause.OVERSIZE, at_ms)
        return [cut] if self._feed else [cut, Resumption(at_ms)]


Note = Callable[[str, int, str], None]
"""Takes capture id, number and ``sha256:<hex>`` of a segment that was closed."""
_LOCK_PATIENCE_S = 2.0  # for a process that is about to release the lock
_MAX_BYTES = 64 << 20
_MAX_AGE_MS = 300_000


class Segments:
    """The segments of one capture, locked by this process; ``folder``, ``header`` and ``note`` as for ``CaptureRecorder``.

    Attributes
    ----------
    mark
        Position to resume the feed from; ``None`` if it can't be.
    last_ms
        Time of the last record; ``None`` in a new capture.
    lost_bytes
        Bytes cut off the end: an incomplete line of a killed process.
    """

    def __init__(self, folder: Path, header: Header, note: Note | None) -> None:
        self._folder, self._note = folder, note
        self.mark: str | None = None
        self.last_ms: int | None = None
        self.lost_bytes, self.synced_s, self._open_cuts = 0, time.monotonic(), OpenCuts()
        self._file: int | None = None
        self._since_ms: int | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._held = ExitStack()
        self._held.enter_context(lock(folder, patience_s=_LOCK_PATIENCE_S))
        try:
            found = self._earlier_files()
            self.header = self._continue(found, header) if found else self._create(header)
        except BaseException:
            self._held.close()
            raise

    def paths(self) -> list[Path]:
        return sorted(self._folder.glob(f"[0-9]*{ENDING}"))

    def _earlier_files(self) -> list[Path]:
        """Return the files of an earlier process; they are removed once a pack holds them."""
        if not self._folder.is_dir():  # it became a pack during the wait for the lock
            raise FeedError(f"the capture in {str(self._folder)!r} has just ended: its pack stands, name another folder")
        found = self.paths()
        strays = sorted(
            {path.name for path in self._folder.iterdir() if not path.name.startswith(".")} - {path.name for path in found}
        )
        if strays:
            raise FeedError(f"{str(self._folder)!r} holds {strays[0]!r}, which is no segment: move it, or name another folder")
        return found

    def past(self) -> Iterator[CaptureRecord]:
        """Return the earlier records, in order.

        Raises
        ------
        SourceError
            A segment is damaged or missing.
        """
        return (record for record in self._records() if not record.is_end)

    def _records(self) -> Iterator[CaptureRecord]:
        found = records_in_order((path.name, file_sha256(path), records_of(path)) for path in self.paths())
        return (record for record in found if isinstance(record, CaptureRecord))

    def write(self, items: Sequence[Item]) -> list[CaptureRecord]:
        """Append items, and return them as records; nothing is synced yet."""
        written = list(chain.from_iterable(map(self._lines, items)))
        self._append(b"".join(line for line, _ in written))
        self.last_ms = written[-1][1].at_ms
        return [record for _, record in written]

    def _lines(self, item: Item) -> list[tuple[bytes, CaptureRecord]]:
        if isinstance(item, Cut):
            self._open_cuts.cut(item)
            return [_record_of(item)]
        if isinstance(item, Resumption):
            self._open_cuts.resume()
            return [_record_of(item)]
        at_ms, before = item.received_ts_ms, self._open_cuts.before_message(item.received_ts_ms)
        self.mark = self.mark if item.mark is None else item.mark
        line = message_line(item.text, at_ms, item.mark)
        if len(line) > MAX_LINE_BYTES:  # a line that could not be read again would spoil the whole capture
            return [_record_of(one) for one in (*before, *self._open_cuts.in_place_of_message(at_ms))]
        return [*map(_record_of, before), (line, CaptureRecord(at_ms, item.text, item.mark))]

    def _append(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from error
        self._size += len(data)

    def sync(self) -> None:
        os.fsync(self._descriptor)
        self.synced_s = time.monotonic()

    @property
    def _descriptor(self) -> int:
        if self._file is None:
            raise FeedError(f"the capture in {str(self._folder)!r} was closed")
        return self._file

    def keep(self, count: int) -> None:
        """Remove all records after the first ``count``; no caller has seen them."""
        paths, self.last_ms = self.paths(), None
        for number, path in enumerate(paths, 1):
            with path.open("rb") as file:
                self.header = read_header(file.readline(), path.name)
                end = file.tell()
                while count > 0 and (line := file.readline()) and not (record := read_record(line, path.name)).is_end:
                    count, end, self.last_ms = count - 1, file.tell(), record.at_ms
            if count == 0:
                for later in reversed(paths[number:]):
                    later.unlink()
                os.truncate(path, end)
                self._open(path)
                return

    def roll(self, now_ms: int) -> None:
        """Close a segment that is full, or old and not empty, and begin the next."""
        self._since_ms = now_ms if self._since_ms is None else self._since_ms
        is_old = now_ms - self._since_ms >= _MAX_AGE_MS and self._size > len(self.header.line())
        if is_old or self._size >= _MAX_BYTES:
            self._next()
            self._since_ms = now_ms

    def _next(self) -> None:
        self.header = self._create(replace(self.header, number=self.header.number + 1, previous=self._end_segment()))

    def _end_segment(self) -> str:
        """Write the last line of the open segment, and record its hash."""
        self._append(end_line(self.last_ms or 0))
        self.sync()
        return self._note_hash()

    def _note_hash(self) -> str:
        digest = file_sha256(self._path)
        self._notify(self.header.number, digest)
        return digest

    def _notify(self, number: int, digest: str) -> None:
        if self._note is not None:
            self._note(self.header.capture_id, number, digest)

    def _create(self, header: Header) -> Header:
        path = self._folder / name_of(header.number)
        path.touch(exist_ok=False)
        self._open(path)
        self._append(header.line())
        self.sync()
        flush(self._folder)
        return header

    def _continue(self, found: Sequence[Path], wanted: Header) -> Header:
        """Continue the last segment, or begin one after it if it was closed."""
        self._path = found[-1]
        whole = whole_lines(self._path)
        self.lost_bytes += self._path.stat().st_size - whole
        if not whole:  # the process was killed before the first line, and no file refers to this one
            self._path.unlink()
            return self._continue(found[:-1], wanted) if len(found) > 1 else self._create(wanted)
        os.truncate(self._path, whole)
        with self._path.open("rb") as file:
            header = read_header(file.readline(), self._path.name)
        if _identity(header) != _identity(wanted):
            raise FeedError(f"{str(self._folder)!r} holds {_label(header)}, and not {_label(wanted)}: name another folder")
        self.header, ended = header, False
        for record in self._records():
            ended = record.is_end
            if not ended:
                self.last_ms, self.mark = record.at_ms, record.mark or self.mark
                if record.cut is not None:
                    self._open_cuts.cut(_cut_of(record.at_ms, record.cut))
                elif record.resumed is not None:
                    self._open_cuts.resume()
        for number, path in enumerate(found[:-1], 1):  # a log refuses changed segments, and learns of missing ones
            self._notify(number, file_sha256(path))
        if ended:
            return self._create(replace(header, number=header.number + 1, previous=self._note_hash()))
        self._open(self._path)
        return header

    def _open(self, path: Path) -> None:
        if self._file is not None:
            os.close(self._file)
        self._path, self._file = path, os.open(path, os.O_WRONLY | os.O_APPEND)
        self._size, self._since_ms = path.stat().st_size, None

    def close(self) -> None:
        """Close the last segment, and release the folder: the capture has ended."""
        self.end()
        self.release()

    def end(self) -> None:
        """Close the last segment, and hold the folder until ``release``."""
        self._end_segment()

    def drop(self) -> None:
        """Remove an empty capture, and its folder if nothing else is in it."""
        for path in self.paths():
            path.unlink()
        if not any(self._folder.iterdir()):
            self._folder.rmdir()

    def release(self) -> None:
        """Leave the capture on disk as it is; an open one can be continued."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._held.close()


def _record_of(item: Cut | Resumption) -> tuple[bytes, CaptureRecord]:
    if isinstance(item, Cut):
        line = cut_line(item.from_ts_ms, item.cause.value, item.markets, resumable=item.resumable)
    else:
        line = resumed_line(item.to_ts_ms, replayed=item.replayed)
    return line, read_record(line, "a line")


def _cut_of(at_ms: int, cut: CutContent) -> Cut:
    known = GapCause(cut["cause"]) if cut["cause"] in list(GapCause) else GapCause.CUT
    return Cut(known, at_ms, tuple(cut["markets"]), cut["resumable"])


def _identity(header: Header) -> tuple[object, ...]:
    return header.feed, header.provenance, header.fixture_ids, header.live


def _label(header: Header) -> str:
    kind = "a live run's capture" if header.live else "a capture"
    return f"{kind} of {header.feed!r} ({header.provenance}), fixtures {list(header.fixture_ids) or 'all'}"


def whole_lines(path: Path) -> int:
    with path.open("rb") as file:
        size = at = file.seek(0, os.SEEK_END)
        while at:
            start = max(0, at - (1 << 16))
            file.seek(start)
            found = file.read(at - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            at = start
    return 0 if size else size


_BACKLOG = 20_000
_MOST_BYTES = 256 << 20
_PATIENCE_S = 5.0
_BATCH = 2_000
_IDLE_S = 0.1
_SYNC_S = 1.0


class CaptureRecorder:
    """A capture in a folder, new or continued; ``segments`` is what is on disk.

    Parameters
    ----------
    folder
        Folder of the segments, created if missing.
    feed
        Feed to capture.
    header
        Header of a new capture; a continued one keeps its own, which must name the same feed and fixtures.
    note
        Called with each closed segment, before the next begins; ``None`` without a log.
    clock
        UTC milliseconds.
    backlog
        Messages that may wait to be written before the feed waits.
    patience_s
        How long the feed waits before it is cut.

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
        """Return records once written, and now and then ``None`` without new ones; for a run each record is synced first.

        Raises
        ------
        FeedError
            The feed failed for good.
        OSError
            A record can't be written.
        """
        cause, since_ms = GapCause.RESTART, self.segments.last_ms
        while not stop.is_set:
            mark = self.segments.mark
            if since_ms is not None:
                yield from self._write([Cut(cause, since_ms, resumable=mark is not None)])
            reading = _FeedReader(self.feed, self.segments.header.fixture_ids, mark, self._backlog, self._patience_s)
            yield from self._listen(reading, stop)
            if (owed_ms := self.feed.health.owed_since_ms) is not None:  # the feed ended before all promised messages came
                yield from self._write([Cut(GapCause.CUT, owed_ms, resumable=True)])
            if reading.error is not None:
                raise reading.error
            if not reading.behind:
                return
            cause, since_ms = GapCause.BACKLOG, self.segments.last_ms

    def _listen(self, reading: _FeedReader, stop: Stop) -> Iterator[CaptureRecord | None]:
        due = time.monotonic() + _SYNC_S
        reading.start()
        try:
            while True:
                if stop.is_set:
                    reading.stop.set()
                over = not reading.is_alive()  # checked first: earlier items are still to be taken
                items = reading.take()
                yield from self._write(items)
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

    def _write(self, items: Sequence[Item]) -> Iterator[CaptureRecord]:
        if not items:
            return
        records = self.segments.write(items)
        if self.segments.header.live:
            self.segments.sync()
        yield from records
        self.segments.roll(self._clock())


class _Backlog(Queue[Item]):
    """Items that wait to be written, bounded by number and total size."""

    _bytes = 0

    def _put(self, item: Item) -> None:
        super()._put(item)
        self._bytes += len(item.text) if isinstance(item, FeedMessage) else 0

    def _get(self) -> Item:
        item = super()._get()
        self._bytes -= len(item.text) if isinstance(item, FeedMessage) else 0
        return item

    def _qsize(self) -> int:
        return self.maxsize if self._bytes >= _MOST_BYTES else super()._qsize()


class _FeedReader(Thread):
    """Reads a feed into a queue until it is stopped, has ended, or the queue stays full for some seconds."""

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
        except Exception as error:  # noqa: BLE001  the boundary of a thread: the recorder raises it
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

    def take(self) -> list[Item]:
        """Return the waiting items; if there are none, wait a moment first."""
        items: list[Item] = []
        try:
            items.append(self._queue.get(timeout=_IDLE_S))
            while len(items) < _BATCH:
                items.append(self._queue.get_nowait())
        except Empty:
            pass
        return items
