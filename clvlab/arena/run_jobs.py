"""The jobs of runs: each step of a run is a transaction that locks the job."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from clvlab.arena.anchors import RunAnchors
from clvlab.arena.jobs import fenced
from clvlab.arena.runs.in_database import begin, keep
from clvlab.proof.anchor import Anchor
from clvlab.runs.execute import Commitment, lifecycle, perform
from clvlab.runs.progress import OnProgress
from clvlab.runs.run import Run
from clvlab.runs.spec import ReplaySpec
from clvlab.store import jobs, usage
from clvlab.store.database import Connection, Database
from clvlab.store.jobs import Job, JobStatus

Sealing = Callable[[Connection, Anchor, int], None]
"""Adds the events of a run's result in the transaction that stores the run; gets the anchor and the time."""


class Origin(Protocol):
    """The origin of one kind of runs: backtests, competitions or instances."""

    def report_start(self, connection: Connection, job: Job, now_ms: int) -> None:
        """Report the start of a run, for the first time or again, in the transaction that starts it."""
        ...

    def seal_report(self, job: Job, run: Run) -> Sealing:
        """Report events that may precede the stored run, and return the report of its seal."""
        ...

    def record_failure(self, connection: Connection, job: Job, cause: str, now_ms: int) -> None: ...


class ReplayOrigin(Origin, Protocol):
    def spec(self, job: Job) -> ReplaySpec: ...


@dataclass(frozen=True)
class RunJobs:
    """Performs jobs of one kind of runs; the caller ends or retries failing ones. Without ``anchoring`` no run is anchored."""

    database: Database
    clock: Callable[[], int]
    anchoring: RunAnchors | None
    origin: Origin

    @abstractmethod
    def _maker(self, job: Job, tell: OnProgress) -> AbstractContextManager[Callable[[Commitment | None], Run]]:
        """Return a context with the maker of a job's run, which releases its data at the end."""

    def perform(self, job: Job, tell: OnProgress) -> None:
        with self._maker(job, tell) as make:
            lifecycle(job, _JobRecorder(self.origin, self.database, self.clock, self.anchoring, job), make)

    def record_failure(self, connection: Connection, job: Job, cause: str) -> None:
        self.origin.record_failure(connection, job, cause, self.clock())


@dataclass(frozen=True)
class ReplayJobs(RunJobs):
    origin: ReplayOrigin

    @contextmanager
    def _maker(self, job: Job, tell: OnProgress) -> Iterator[Callable[[Commitment | None], Run]]:
        yield lambda commitment: perform(self.origin.spec(job), commitment, tell)


@dataclass(frozen=True)
class _JobRecorder:
    """Stores a run that was entered together with its job."""

    origin: Origin
    database: Database
    clock: Callable[[], int]
    anchoring: RunAnchors | None
    job: Job
    log = None  # the run was committed to when it was entered

    def commit(self, spec: Job) -> Commitment:
        if spec.commit_index is not None:
            return Commitment(spec.run_id, spec.commit_index)
        with fenced(self.database, spec) as connection:
            commitment = begin(connection, spec.run_id, self.clock())
            self.origin.report_start(connection, spec, self.clock())
            return commitment

    def keep(self, run: Run) -> None:
        sealed = self.origin.seal_report(self.job, run)
        with fenced(self.database, self.job) as connection:
            now = self.clock()
            sealed(connection, keep(connection, run, self.anchoring, now), now)
            usage.weigh(connection, self.job.run_id)
            jobs.finish(connection, self.job, JobStatus.DONE)

    def abandon(self, run_id: str, cause: str) -> None:
        """Leave failures to the job's caller, which may retry it."""
