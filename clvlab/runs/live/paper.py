"""A live run on paper: started or continued, watched, sealed and stored."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from threading import Thread
from typing import Any, NotRequired, TypedDict

import orjson

from clvlab.base.files import lock, replace_file
from clvlab.engine.agent import Agent
from clvlab.errors import ClvlabError, FeedError, FileLockedError, LogError, ReplayError, StoreError
from clvlab.log.entries import EntryKind
from clvlab.log.log import LogStore
from clvlab.packs.manifest import Fixture
from clvlab.packs.reader import Pack
from clvlab.runs.execute import Commitment, Recorder, lifecycle
from clvlab.runs.live.capture import LogWriter
from clvlab.runs.live.feed import chosen, feed_at
from clvlab.runs.live.request import LiveRequest, until_ts_ms
from clvlab.runs.live.spec import LiveSpec, follow
from clvlab.runs.live.view import LiveView
from clvlab.runs.run import Run
from clvlab.sources.capture.feed import Stop

# Unfinished live runs in a folder. The same request finds its run again.
#
# The name of a run's folder is the run id. It holds the segments of the capture, the journal of decisions, and at the end the
# pack; until the run is over, also the request.


_REQUEST_FILE = "asked.json"


class _StoredRequest(TypedDict):
    question: str
    origin_id: str
    fixture: dict[str, Any]
    until_ts_ms: int | None
    commit_index: NotRequired[int | None]


@dataclass(frozen=True)
class OpenRun:
    spec: LiveSpec
    folder: Path

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the run, so that only one process follows it."""
        try:
            with lock(self.folder, patience_s=0):
                yield
        except FileLockedError as error:
            raise FileLockedError(
                f"{self.spec.run_id} is being followed already: wait for its seal, or stop the process that follows it"
            ) from error

    def require_same_log(self, log: LogStore | None) -> None:
        """Raise ``LogError`` unless ``log`` is the one that the run was committed to."""
        stored = _read(self.folder)
        if "commit_index" not in stored:
            return
        commit_index = stored["commit_index"]
        # Under another log, the commitment would come after the first messages.
        if (commit_index, log) != (None, None) and (log is None or commit_index not in _commitments(log, self.spec.run_id)):
            stated = "without a log" if commit_index is None else f"under entry {commit_index} of its log"
            raise LogError(f"{self.spec.run_id} was started {stated}: continue it like that, or remove {str(self.folder)!r}")

    def committed(self, commitment: Commitment | None) -> None:
        """Note the log entry of the run's commitment, before its first message."""
        stored = _read(self.folder)
        if "commit_index" not in stored:
            _write(self.folder, {**stored, "commit_index": None if commitment is None else commitment.index})

    def over(self) -> None:
        """Note that the run is sealed or has failed, so that the same request starts another one."""
        (self.folder / _REQUEST_FILE).unlink()

    @property
    def is_over(self) -> bool:
        return not (self.folder / _REQUEST_FILE).exists()


def begin(request: LiveRequest, agents: Sequence[Agent], root: Path, now_ms: int) -> OpenRun:
    """Return the run that was already started for a request in a folder, or start one."""
    root.mkdir(parents=True, exist_ok=True)
    feed = feed_at(request.feed)
    key = request.key(feed, agents)
    for folder, stored in _unfinished(root):
        if stored["question"] == key:
            fixture = Fixture.model_validate(stored["fixture"])
            return OpenRun(request.spec(feed, agents, stored["origin_id"], fixture, stored["until_ts_ms"]), folder)
    until = until_ts_ms(request.until, now_ms)
    if until is not None and until <= now_ms:
        raise FeedError("the latest time for the seal of the run is in the past")
    fixture, origin_id = chosen(feed.fixtures(), request.fixture, now_ms, request.grace_s), f"live_{token_hex(16)}"
    spec = request.spec(feed, agents, origin_id, fixture, until)
    opened = OpenRun(spec, root / spec.run_id)
    opened.folder.mkdir(mode=0o700)
    _write(opened.folder, {
        "question": key, "origin_id": origin_id, "fixture": fixture.model_dump(mode="json"), "until_ts_ms": until
    })  # fmt: skip
    return opened


def _unfinished(root: Path) -> Iterator[tuple[Path, _StoredRequest]]:
    for path in sorted(root.glob(f"*/{_REQUEST_FILE}")):
        try:
            stored = _read(path.parent)
        except FileNotFoundError:  # the run is already over
            continue
        yield path.parent, stored


def _write(folder: Path, request: _StoredRequest) -> None:
    replace_file(folder / _REQUEST_FILE, orjson.dumps(request))


def _read(folder: Path) -> _StoredRequest:
    try:
        stored: _StoredRequest = orjson.loads((folder / _REQUEST_FILE).read_bytes())
        _ = stored["question"], stored["origin_id"], stored["fixture"], stored["until_ts_ms"]
    except (ValueError, TypeError, KeyError) as error:
        raise ReplayError(f"the live run in {str(folder)!r} can't be read: remove the folder") from error
    return stored


def _commitments(log: LogStore, run_id: str) -> list[int]:
    with log.read() as rows:
        return [index for index, kind in rows.about(run_id) if kind == EntryKind.COMMIT]


_UPDATE_S = 0.5


def run_live(
    request: LiveRequest,
    agents: Sequence[Agent],
    recorder: Recorder[LiveSpec],
    root: Path,
    *,
    on_update: Callable[[LiveView], None] = lambda view: None,  # noqa: ARG005
    store_pack: Callable[[Pack], Pack] = lambda pack: pack,
    clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> Run:
    """Follow a live run until it is sealed, and store it. A run that was started for the same request continues.

    The commitment comes before the first message. An interrupt, a feed that ends early or an unreachable store leaves the run
    on the disk; any other error abandons it. ``on_update`` is called twice a second on this thread; its errors end the run like
    an interrupt. ``store_pack`` moves the captured pack to its place.
    """
    opened = begin(request, agents, root, clock())
    view, stop = LiveView(opened.spec, clock), Stop()
    return _attend(lambda: _follow_recorded(opened, recorder, view, stop, store_pack, clock), stop, lambda: on_update(view))


def _follow_recorded(
    opened: OpenRun,
    recorder: Recorder[LiveSpec],
    view: LiveView,
    stop: Stop,
    store_pack: Callable[[Pack], Pack],
    clock: Callable[[], int],
) -> Run:
    """Follow a run under its recorder. After an early end, or an error that can be mended, it can be continued."""
    spec = opened.spec

    def follow_feed(commitment: Commitment | None) -> Run:
        try:
            done = follow(
                spec,
                opened.folder,
                stop,
                commitment=commitment,
                note=None if recorder.log is None else LogWriter(recorder.log, clock),
                on_message=view.decided,
                on_replay=view.decided,
                on_idle=view.looked,
                clock=clock,
            )
        except FeedError as error:
            if not view.messages:
                raise
            raise FeedError(f"{error}; {spec.run_id} remains as it is: fix this, and start it again to continue") from error
        if done is None:
            raise FeedError(f"{spec.run_id} was stopped: start it again to continue")
        return done.moved(store_pack(done.pack))

    def can_continue(error: ClvlabError) -> bool:
        return isinstance(error, StoreError) or (isinstance(error, FeedError) and (view.messages > 0 or stop.is_set))

    with opened.held():
        opened.require_same_log(recorder.log)
        try:
            return lifecycle(spec, _LiveRecorder(recorder, opened), follow_feed, can_continue)
        except ClvlabError as error:
            if opened.is_over:
                error.add_note(f"{spec.run_id} is abandoned; its capture stays in {str(opened.folder)!r}")
            raise


@dataclass(frozen=True)
class _LiveRecorder:
    recorder: Recorder[LiveSpec]
    opened: OpenRun

    @property
    def log(self) -> LogStore | None:
        return self.recorder.log

    def commit(self, spec: LiveSpec) -> Commitment | None:
        commitment = self.recorder.commit(spec)
        self.opened.committed(commitment)
        return commitment

    def keep(self, run: Run) -> None:
        self.recorder.keep(run)
        self.opened.over()

    def abandon(self, run_id: str, cause: str) -> None:
        self.recorder.abandon(run_id, cause)
        self.opened.over()


def _attend(work: Callable[[], Run], stop: Stop, on_update: Callable[[], None]) -> Run:
    """Do work on its own thread, so that an interrupt can't cut a line short; call ``on_update`` during the work."""
    done: Future[Run] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001  it is raised where it is awaited
            done.set_exception(error)

    thread = Thread(target=run, name="clvlab-live-run", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            on_update()
            thread.join(_UPDATE_S)
        on_update()
    except BaseException as error:
        stop.set()
        thread.join()
        left = done.exception() is not None
        if not left and isinstance(error, KeyboardInterrupt):
            return done.result()  # it was sealed at that moment
        if left:
            error.add_note("The run is left as it is: the same call continues it.")
        raise
    return done.result()
