"""The jobs of live runs: one process at a time follows a run until the match ends, and one transaction seals it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Protocol

from clvlab.arena.jobs import PostponedError, fenced
from clvlab.arena.run_jobs import Origin, RunJobs
from clvlab.errors import FeedError, FileLockedError, LeaseLostError, StoreError
from clvlab.law.message import Message
from clvlab.packs.manifest import Fixture
from clvlab.runs.execute import Commitment
from clvlab.runs.live.capture import LogWriter
from clvlab.runs.live.feed import LiveFeed
from clvlab.runs.live.journal import Answers
from clvlab.runs.live.spec import LiveSpec, follow, has_journal
from clvlab.runs.progress import OnProgress, Stage
from clvlab.runs.run import Run
from clvlab.sources.capture.feed import Feed, Stop
from clvlab.sources.capture.source import Tracker
from clvlab.store.database import Connection
from clvlab.store.jobs import Job, JobPayload
from clvlab.store.runlog import RunLog

# A separate thread writes reports of a live run, so that listeners and the store do not delay decisions.


logger = logging.getLogger("clvlab.live")
Happening = tuple[str, str, dict[str, Any]]
"""An event: its kind, its agent id (empty for an event of the feed), and its payload."""
_WRITE_S = 0.1
_HEALTH_S = 1.0
_ACTION = (
    "action", "market_key", "side", "stake", "limit_odds_milli", "reason", "confidence", "claimed_edge_bps",
)  # fmt: skip


@dataclass
class EventWriter:
    """A thread that reports a live run until the context ends.

    Attributes
    ----------
    lost
        The error that ended the reports, else ``None``.
    messages
        Number of messages that the agents have received, including those of earlier processes.
    """

    # ``store`` writes events in one transaction; ``LeaseLostError`` if another process now has the run.
    store: Callable[[Sequence[Happening]], None]
    tell: OnProgress
    feed: Feed
    stop: Stop
    lost: LeaseLostError | None = field(default=None, init=False)
    messages: int = field(default=0, init=False)
    _queue: SimpleQueue[Happening] = field(default_factory=SimpleQueue, init=False)
    _over: Stop = field(default_factory=Stop, init=False)
    _gaps: int = field(default=0, init=False)
    _health: tuple[bool, str | None] = field(default=(False, None), init=False)

    def __enter__(self) -> EventWriter:
        self._thread = Thread(target=self._run, name="clvlab-live-events", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def write_decisions(self, message: Message, answers: Answers) -> None:
        self.messages += 1
        tick = {"fixture_id": message.fixture_id, "tick_seq": message.tick_seq, "ts_ms": message.ts_ms}
        for agent_id, decisions in answers.decided.items():
            for decision in decisions:
                self._queue.put(("AGENT_ACTION", agent_id, tick | dict(zip(_ACTION, decision[2:], strict=True))))
        for agent_id, failure in answers.failed.items():
            self._queue.put(("AGENT_ERROR", agent_id, tick | {"error": failure.error}))

    def count_message(self, message: Message, answers: Answers) -> None:  # noqa: ARG002
        """Count a message that another process reported."""
        self.messages += 1

    def write_gaps(self, tracker: Tracker) -> None:
        for gap in tracker.gaps[self._gaps :]:
            self._queue.put(("FEED_GAP", "", gap.model_dump(mode="json")))
        self._gaps = len(tracker.gaps)

    def _run(self) -> None:
        due = 0.0
        while not self._over.wait(_WRITE_S):
            if time.monotonic() >= due:
                due = time.monotonic() + _HEALTH_S
                self._check_health()
            self._store_events()
        while not self._queue.empty() and self.lost is None:
            self._store_events()

    def _check_health(self) -> None:
        health = self.feed.health
        known = health.connected, health.error
        if known != self._health:
            self._health = known
            self._queue.put(("FEED_HEALTH", "", {"connected": health.connected, "error": health.error}))
        try:
            self.tell(Stage.DECIDING, self.messages, self.messages)
        except LeaseLostError as error:
            self._lose(error)

    def _store_events(self) -> None:
        happenings: list[Happening] = []
        try:
            while len(happenings) < 1000:
                happenings.append(self._queue.get_nowait())
        except Empty:
            pass
        if not happenings or self.lost is not None:
            return
        try:
            self.store(happenings)
        except LeaseLostError as error:
            self._lose(error)
        except StoreError as error:  # listeners miss these events, but the journal has the decisions, and the seal reports all
            logger.warning("%d events of a live run were not stored: %s", len(happenings), error)

    def _lose(self, error: LeaseLostError) -> None:
        self.lost = error
        self.stop.set()


class LiveOrigin(Origin, Protocol):
    def spec(self, job: Job, feed: Feed, fixture: Fixture, grace_s: int) -> LiveSpec: ...

    def report_events(self, connection: Connection, job: Job, happenings: Sequence[Happening], now_ms: int) -> None: ...


@dataclass(frozen=True)
class LiveJobs(RunJobs):
    origin: LiveOrigin
    live: LiveFeed

    @contextmanager
    def _maker(self, job: Job, tell: OnProgress) -> Iterator[Callable[[Commitment | None], Run]]:
        settings, fixture = self.live.require(), Fixture.model_validate(job.payload["fixture"])
        with ExitStack() as watched:
            feed, stop = watched.enter_context(self.live.following())

            def make(commitment: Commitment | None) -> Run:
                with watched:  # the feed is not followed while the run is stored
                    spec = self.origin.spec(job, feed, fixture, settings.grace_s)
                    writer = EventWriter(lambda happenings: self._report_events(job, happenings), tell, feed, stop)
                    done = self._follow(spec, settings.folder / job.run_id, stop, commitment, writer)
                if writer.lost is not None:
                    raise writer.lost
                if done is None:
                    raise PostponedError("the process that followed the run is ending")
                return done

            yield make

    def _follow(
        self, spec: LiveSpec, folder: Path, stop: Stop, commitment: Commitment | None, writer: EventWriter
    ) -> Run | None:
        was_started = has_journal(folder)
        try:
            with writer:
                return follow(
                    spec,
                    folder,
                    stop,
                    commitment=commitment,
                    note=LogWriter(RunLog(self.database), self.clock),
                    on_message=writer.write_decisions,
                    on_replay=writer.count_message,
                    on_idle=writer.write_gaps,
                    clock=self.clock,
                )
        except FileLockedError as error:  # the earlier worker still holds the file, and will soon notice its lost lease
            raise PostponedError(str(error)) from error
        except FeedError as error:  # an operator can fix the feed: an expired token must not lose decisions
            if not writer.messages and not was_started:
                raise
            raise PostponedError(str(error)) from error

    def _report_events(self, job: Job, happenings: Sequence[Happening]) -> None:
        with fenced(self.database, job) as connection:
            self.origin.report_events(connection, job, happenings, self.clock())


def payload_of(origin_id: str, fixture: Fixture) -> JobPayload:
    return {"origin_id": origin_id, "fixture": fixture.model_dump(mode="json")}
