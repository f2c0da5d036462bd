"""The jobs of live runs: followed for as long as a match lasts, by one process at a time, and sealed in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from clvlab.application.anchoring import Anchoring
from clvlab.application.handling import PostponedError
from clvlab.application.live.feed import LiveFeed
from clvlab.application.live.following import LivePlan, follow, is_begun
from clvlab.application.live.noting import Noting
from clvlab.application.live.telling import Happening, Telling
from clvlab.application.progress import Tell
from clvlab.application.runs.in_database import begin, keep
from clvlab.application.runs.perform import Commitment, PerformedRun
from clvlab.errors import FeedError, FileLockedError
from clvlab.feeds.feed import Feed, Stop
from clvlab.packs.manifest import Fixture
from clvlab.proof.anchor import Anchor
from clvlab.store import jobs, usage
from clvlab.store.database import Connection, Database
from clvlab.store.jobs import Job, JobStatus
from clvlab.store.runlog import RunLog


class Subject(Protocol):
    """What asked for a live run: a competition or an instance."""

    def plan(self, connection: Connection, job: Job, feed: Feed, fixture: Fixture, grace_s: int) -> LivePlan:
        """Return what was asked for, as it was committed to."""
        ...

    def begun(self, connection: Connection, job: Job, now_ms: int) -> None:
        """Say that the run is being followed, for the first time or again."""
        ...

    def told(self, connection: Connection, job: Job, happenings: Sequence[Happening], now_ms: int) -> None:
        """Say what happened while it lasts."""
        ...

    def sealed(self, connection: Connection, job: Job, done: PerformedRun, anchor: Anchor, now_ms: int) -> None:
        """Say what it came to."""
        ...

    def failed(self, connection: Connection, job: Job, cause: str, now_ms: int) -> None:
        """Note a failure for good."""
        ...


@dataclass(frozen=True)
class LiveRuns:
    """Performs the jobs of live runs of one kind."""

    database: Database
    live: LiveFeed
    subject: Subject
    anchoring: Anchoring
    clock: Callable[[], int]

    def perform(self, job: Job, tell: Tell) -> None:
        """Follow a run and seal it; one that another process began is gone on with."""
        settings, fixture = self.live.require(), Fixture.model_validate(job.payload["fixture"])
        with self.live.following() as (feed, stop):
            with self.database.write() as connection:
                jobs.fence(connection, job)
                commitment = begin(connection, job.run_id, self.clock())
                plan = self.subject.plan(connection, job, feed, fixture, settings.grace_s)
                self.subject.begun(connection, job, self.clock())
            telling = Telling(lambda happenings: self._tell(job, happenings), tell, feed, stop)
            done = self._followed(plan, settings.folder / job.run_id, stop, commitment, telling)
        if telling.lost is not None:
            raise telling.lost
        if done is None:
            raise PostponedError("the process that followed it ends")
        with self.database.write() as connection:
            jobs.fence(connection, job)
            now = self.clock()
            anchor = keep(connection, done, self.anchoring, now)
            self.subject.sealed(connection, job, done, anchor, now)
            usage.weigh(connection, job.run_id)
            jobs.finish(connection, job, JobStatus.DONE)

    def _followed(
        self, plan: LivePlan, folder: Path, stop: Stop, commitment: Commitment, telling: Telling
    ) -> PerformedRun | None:
        was_begun = is_begun(folder)
        try:
            with telling:
                return follow(
                    plan,
                    folder,
                    stop,
                    commitment=commitment,
                    note=Noting(RunLog(self.database), self.clock),
                    told=telling.decided,
                    recalled=telling.recalled,
                    idle=telling.looked,
                    clock=self.clock,
                )
        except FileLockedError as error:  # who held the job before finds soon that it does not any more
            raise PostponedError(str(error)) from error
        except FeedError as error:  # an operator can mend that: what was decided is not lost to a token that ran out
            if not telling.messages and not was_begun:
                raise
            raise PostponedError(str(error)) from error

    def failed(self, connection: Connection, job: Job, cause: str) -> None:
        """Note a failure for good."""
        self.subject.failed(connection, job, cause, self.clock())

    def _tell(self, job: Job, happenings: Sequence[Happening]) -> None:
        with self.database.write() as connection:
            jobs.fence(connection, job)
            self.subject.told(connection, job, happenings, self.clock())


def payload_of(origin_id: str, fixture: Fixture) -> dict[str, Any]:
    """Return what a job of a live run carries."""
    return {"origin_id": origin_id, "fixture": fixture.model_dump(mode="json")}
