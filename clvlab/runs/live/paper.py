"""A live run on paper: begun or taken up, watched by who asked for it, sealed and kept."""

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
from clvlab.feeds.feed import Stop
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

# Live runs that were begun in a folder and are not over: found again by what was asked for.
#
# The folder of a run bears its id. It holds the segments of the capture, the journal of what was decided, in the end the pack;
# and, as long as the run is not over, what was asked for.


_ASKED = "asked.json"


class _StoredRequest(TypedDict):
    """What is written down of a run that was begun; ``commit_index`` once it was committed to, null without a log."""

    question: str
    origin_id: str
    fixture: dict[str, Any]
    until_ts_ms: int | None
    commit_index: NotRequired[int | None]


@dataclass(frozen=True)
class OpenRun:
    """A live run that is not over.

    Attributes
    ----------
    spec
        What shapes the run.
    folder
        Its own.
    """

    spec: LiveSpec
    folder: Path

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep everybody else from following the same run.

        Raises
        ------
        FileLockedError
            Somebody else does.
        """
        try:
            with lock(self.folder, patience_s=0):
                yield
        except FileLockedError as error:
            raise FileLockedError(f"{self.spec.run_id} is being followed already: wait for its seal, or end that") from error

    def require_same_log(self, log: LogStore | None) -> None:
        """Require the log that the run was committed to before its first message: another commitment would come after.

        Raises
        ------
        LogError
            It is another log, or there is none.
        """
        stored = _read(self.folder)
        if "commit_index" not in stored:
            return
        begun = stored["commit_index"]
        if (begun, log) != (None, None) and (log is None or begun not in _commitments(log, self.spec.run_id)):
            said = "without a log" if begun is None else f"under entry {begun} of its log"
            raise LogError(f"{self.spec.run_id} was begun {said}: go on with it likewise, or remove {str(self.folder)!r}")

    def committed(self, commitment: Commitment | None) -> None:
        """Note under which entry of a log it was begun, before its first message."""
        stored = _read(self.folder)
        if "commit_index" not in stored:
            _write(self.folder, {**stored, "commit_index": None if commitment is None else commitment.index})

    def over(self) -> None:
        """Note that it is sealed, or failed: what is asked for next is another run."""
        (self.folder / _ASKED).unlink()

    @property
    def is_over(self) -> bool:
        """Whether that was noted."""
        return not (self.folder / _ASKED).exists()


def begin(request: LiveRequest, agents: Sequence[Agent], root: Path, now_ms: int) -> OpenRun:
    """Find the run that was begun for a request in a folder, or begin one.

    Raises
    ------
    FeedError
        The feed can't be asked, or has no such fixture.
    ReplayError
        What was begun can't be read.
    """
    root.mkdir(parents=True, exist_ok=True)
    feed = feed_at(request.feed)
    key = request.key(feed, agents)
    for folder, stored in _unfinished(root):
        if stored["question"] == key:
            fixture = Fixture.model_validate(stored["fixture"])
            return OpenRun(request.spec(feed, agents, stored["origin_id"], fixture, stored["until_ts_ms"]), folder)
    until = until_ts_ms(request.until, now_ms)
    if until is not None and until <= now_ms:
        raise FeedError("the time at which the run is to be sealed at the latest is over")
    fixture, origin_id = chosen(feed.fixtures(), request.fixture, now_ms, request.grace_s), f"live_{token_hex(16)}"
    spec = request.spec(feed, agents, origin_id, fixture, until)
    begun = OpenRun(spec, root / spec.run_id)
    begun.folder.mkdir()
    _write(begun.folder, {
        "question": key, "origin_id": origin_id, "fixture": fixture.model_dump(mode="json"), "until_ts_ms": until
    })  # fmt: skip
    return begun


def _unfinished(root: Path) -> Iterator[tuple[Path, _StoredRequest]]:
    for asked in sorted(root.glob(f"*/{_ASKED}")):
        try:
            stored = _read(asked.parent)
        except FileNotFoundError:  # it is over by now
            continue
        yield asked.parent, stored


def _write(folder: Path, asked: _StoredRequest) -> None:
    replace_file(folder / _ASKED, orjson.dumps(asked))


def _read(folder: Path) -> _StoredRequest:
    try:
        stored: _StoredRequest = orjson.loads((folder / _ASKED).read_bytes())
        _ = stored["question"], stored["origin_id"], stored["fixture"], stored["until_ts_ms"]
    except (ValueError, TypeError, KeyError) as error:
        raise ReplayError(f"what was begun in {str(folder)!r} can't be read: remove the folder") from error
    return stored


def _commitments(log: LogStore, run_id: str) -> list[int]:
    with log.read() as rows:
        return [index for index, kind in rows.about(run_id) if kind == EntryKind.COMMIT]


_LOOK_S = 0.5


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
    """Follow a live run until it is sealed, and keep it; one that was begun for the same request is gone on with.

    It is committed to before its first message. An interrupt leaves it as it is on the disk, and so does what can be mended: a
    feed that ended in the middle, a store that can't be reached. Anything else that goes wrong abandons it.

    Parameters
    ----------
    request, agents
        What to follow, and by whom.
    recorder
        Where it is committed to and kept.
    root
        Folder of live runs; each has a folder in it that bears its id.
    on_update
        Called twice a second with the run as it is, on this thread; an error of its own ends the run like an interrupt.
    store_pack
        Puts the captured pack where it will stay.
    clock
        UTC milliseconds.

    Raises
    ------
    FeedError
        The feed can't be asked or can't go on, or has no such fixture.
    FileLockedError
        Another process, or another thread of this one, follows the same run.
    SourceError, DecisionError
        The fixture closed without a message about it; all agents failed.
    LogError
        The run was begun under another log.
    """
    begun = begin(request, agents, root, clock())
    view, stop = LiveView(begun.spec, clock), Stop()
    return _attended(lambda: _made(begun, recorder, view, stop, store_pack, clock), stop, lambda: on_update(view))


def _made(
    begun: OpenRun,
    recorder: Recorder[LiveSpec],
    view: LiveView,
    stop: Stop,
    store_pack: Callable[[Pack], Pack],
    clock: Callable[[], int],
) -> Run:
    """Follow a run, on the record; what can be mended, and an end before its time, leave it to be gone on with."""
    spec = begun.spec

    def followed(commitment: Commitment | None) -> Run:
        try:
            done = follow(
                spec,
                begun.folder,
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
            raise FeedError(f"{error}; {spec.run_id} is left as it is: mend that, and ask for it again") from error
        if done is None:
            raise FeedError(f"{spec.run_id} was stopped: it goes on when it is asked for again")
        return done.moved(store_pack(done.pack))

    def is_left(error: ClvlabError) -> bool:
        return isinstance(error, StoreError) or (isinstance(error, FeedError) and (view.messages > 0 or stop.is_set))

    with begun.held():
        begun.require_same_log(recorder.log)
        try:
            return lifecycle(spec, _LiveRecorder(recorder, begun), followed, is_left)
        except ClvlabError as error:
            if begun.is_over:
                error.add_note(f"{spec.run_id} is abandoned; what it captured stays in {str(begun.folder)!r}")
            raise


@dataclass(frozen=True)
class _LiveRecorder:
    """Notes what becomes of a live run in its folder, too."""

    recorder: Recorder[LiveSpec]
    begun: OpenRun

    @property
    def log(self) -> LogStore | None:
        return self.recorder.log

    def commit(self, spec: LiveSpec) -> Commitment | None:
        commitment = self.recorder.commit(spec)
        self.begun.committed(commitment)
        return commitment

    def keep(self, run: Run) -> None:
        self.recorder.keep(run)
        self.begun.over()

    def abandon(self, run_id: str, cause: str) -> None:
        self.recorder.abandon(run_id, cause)
        self.begun.over()


def _attended(work: Callable[[], Run], stop: Stop, on_update: Callable[[], None]) -> Run:
    """Do work on a thread of its own, which no interrupt can break off in the middle of a line, and look meanwhile."""
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
            thread.join(_LOOK_S)
        on_update()
    except BaseException as error:
        stop.set()
        thread.join()
        left = done.exception() is not None
        if not left and isinstance(error, KeyboardInterrupt):
            return done.result()  # it was sealed in that moment
        if left:
            error.add_note("The run is left as it is: the same call goes on with it.")
        raise
    return done.result()
