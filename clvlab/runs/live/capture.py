"""Capture of a feed into a pack: segments first, and the pack once the capture has ended.

Steps: 1. read the records of an earlier process; 2. write messages as they arrive; 3. make a pack of the segments, verify it,
and move the segments into it.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex

from clvlab.base.files import lock
from clvlab.base.invocation import command
from clvlab.errors import FeedError, PackFormatError, SourceError, StoreBusyError, StoreUnreachableError
from clvlab.log.log import LogStore, note_segment
from clvlab.packs.files import file_sha256
from clvlab.packs.manifest import pack_id_of
from clvlab.packs.reader import Pack
from clvlab.packs.verification import verify_pack
from clvlab.runs.live.watch import CaptureState, Monitor
from clvlab.sources.capture.feed import Feed, Stop, proving
from clvlab.sources.capture.recorder import CaptureRecorder
from clvlab.sources.capture.records import Header
from clvlab.sources.importer import pack_capture
from clvlab.sources.providers import SOURCES
from clvlab.sources.source import Options

# The log notes each segment of a capture when it is closed, before the next begins.


logger = logging.getLogger("clvlab.live")
_LOG_PATIENCE_S = 60.0
_PAUSE_S = 0.5


@dataclass(frozen=True)
class LogWriter:
    """Writer of segments into a log; it waits if the log is busy."""

    log: LogStore
    clock: Callable[[], int]

    def __call__(self, capture_id: str, number: int, sha256: str) -> None:
        """Note a segment; an error if the log could not be written for a minute, or has another hash of the segment."""
        until = time.monotonic() + _LOG_PATIENCE_S
        while True:
            try:
                with self.log.write() as rows:
                    return note_segment(rows, capture_id, number, sha256, self.clock())
            except (StoreBusyError, StoreUnreachableError) as error:
                if time.monotonic() > until:
                    raise
                logger.warning("segment %d of %s is noted later: %s", number, capture_id, error)
                time.sleep(_PAUSE_S)


_REPORT_S = 0.5
_PROOFS = ".proofs.jsonl"  # next to the segments, until the pack has them
_PATIENCE_S = 2.0  # time for another process that is making the pack now

Clock = Callable[[], int]


def segments_folder(out: Path) -> Path:
    return out.with_name(f"{out.name}.capture")


def capture(
    feed: Feed,
    out: Path,
    stop: Stop,
    *,
    fixture_ids: Sequence[int] = (),
    until_ts_ms: int | None = None,
    log: LogStore | None = None,
    ladders: bool = False,
    on_state: Callable[[CaptureState], None] = lambda state: None,  # noqa: ARG005
    clock: Clock = lambda: time.time_ns() // 1_000_000,
) -> Pack:
    """Capture a feed until it is stopped, its time has come, or it has ended; return the verified pack.

    Segments are in ``<out>.capture`` until the pack is complete. The capture of a killed process is continued, and no error
    removes segments. Empty ``fixture_ids`` mean everything. ``log`` notes each closed segment. ``ladders`` keeps what was
    on offer, level by level. ``on_state`` sometimes receives the state.
    """
    pack_id_of(out)
    folder = segments_folder(out)
    if out.exists() or out.is_symlink():
        return _packed_before(out, folder)
    if feed.name not in SOURCES:
        raise FeedError(f"captures of {feed.name!r} can't become packs: capture one of {', '.join(SOURCES)}")
    if ladders and not SOURCES[feed.name].has_depth:
        deep = ", ".join(name for name, source in SOURCES.items() if source.has_depth)
        raise FeedError(f"{feed.name!r} has no depth: ladders are read of {deep}; leave ladders out")
    skew_s = SOURCES[feed.name].skew_s(feed.provenance, feed.health.skew_s)
    subscribed = tuple(sorted(set(fixture_ids)))
    header = Header(feed.name, feed.provenance, f"cap_{token_hex(16)}", 1, None, subscribed, skew_s=skew_s)
    note = None if log is None else LogWriter(log, clock)
    capturing = CaptureRecorder(folder, feed, header, note=note, clock=clock)
    segments = capturing.segments
    start_ms = clock()
    try:
        watch = Monitor(feed, segments, clock)
        for record in segments.past():
            watch.take(record)
        watch.begin()
        _record(capturing, watch, stop, until_ts_ms, on_state, clock)
        if segments.last_ms is None:
            is_late = until_ts_ms is not None and until_ts_ms <= start_ms
            why = "its end had come before it began" if is_late else feed.health.error or "the feed was silent"
            raise SourceError(f"nothing came from {feed.name}, and nothing is kept: {why}")
        segments.end()
        _keep_proofs(feed, segments.paths(), folder)
        return _packed(segments.paths(), out, folder, Options(ladders=ladders))  # the folder is still locked against writers
    except FeedError as error:
        if segments.last_ms is None:
            raise
        raise FeedError(f"{error}. What was captured lies in {str(folder)!r}: the same command goes on from there") from error
    finally:
        if segments.last_ms is None:  # an empty capture, which would block one of another host or fixture
            segments.drop()
        segments.release()


def _record(
    capturing: CaptureRecorder,
    watch: Monitor,
    stop: Stop,
    until_ts_ms: int | None,
    on_state: Callable[[CaptureState], None],
    clock: Clock,
) -> None:
    due = time.monotonic()
    if until_ts_ms is not None and clock() >= until_ts_ms:
        stop.set()
    with closing(capturing.records(stop)) as coming:
        for record in coming:
            if record is not None:
                watch.take(record)
            if until_ts_ms is not None and clock() >= until_ts_ms:
                stop.set()
            if time.monotonic() >= due:
                due = time.monotonic() + _REPORT_S
                on_state(watch.state)
    on_state(replace(watch.state, is_over=capturing.segments.last_ms is not None))


def _keep_proofs(feed: Feed, paths: Sequence[Path], folder: Path) -> None:
    """Ask for the proofs of all captured messages, if the feed is set so, and keep them next to the segments."""
    if not proving(feed, "all"):
        return
    from clvlab.sources.txline.proofs import keep_proofs, texts_of

    with feed.proving() as ask:
        known, missing = keep_proofs(texts_of(paths), ask, folder / _PROOFS)
    if missing:
        logger.warning(
            "%d of %d messages have no proof yet: '%s' asks for those of a run later",
            missing,
            known + missing,
            command("prove", "RUN", "--pack", "PACK"),
        )


def _packed(paths: Sequence[Path], out: Path, folder: Path, options: Options) -> Pack:
    proofs = folder / _PROOFS
    try:
        pack_capture(paths, out, options, proofs if proofs.exists() else None)
    except SourceError as error:
        raise SourceError(f"{error}; the segments stay in {str(folder)!r}") from error
    pack = verify_pack(out)
    _removed(paths, folder)
    return pack


def _packed_before(out: Path, folder: Path) -> Pack:
    """Finish the capture of a process that was killed after it made the pack, and before it removed the segments."""
    if not folder.is_dir():
        raise PackFormatError(f"{str(out)!r} exists; a pack is never overwritten")
    with lock(folder, patience_s=_PATIENCE_S):
        pack = verify_pack(out)
        kept = {raw.name: raw.digest for raw in pack.manifest.raw}
        left = {path: file_sha256(path) for path in folder.iterdir() if path.is_file() and path.name != _PROOFS}
        if not {path.name: digest for path, digest in left.items()}.items() <= kept.items():
            raise PackFormatError(f"{str(out)!r} exists, but was not made from {str(folder)!r}: move one of them away")
        _removed(list(left), folder)
    return pack


def _removed(segments: Sequence[Path], folder: Path) -> None:
    for path in (*segments, folder / _PROOFS):
        path.unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()


@contextmanager
def stopped_by_signals(stop: Stop) -> Iterator[None]:
    """Let Ctrl-C and a termination request end the feed; a second Ctrl-C interrupts."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread gets signals
        return
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}

    def end(number: int, _: object) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])

    for one in before:
        signal.signal(one, end)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
