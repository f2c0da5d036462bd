"""The jobs of runs: a run's life as each kind of them leads it, every step a transaction that holds the job."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from clvlab.arena.anchors import Anchoring
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
"""Says what a run came to, in the transaction that keeps it: with its anchor, at that time."""


class Origin(Protocol):
    """What asked for runs of a kind: a backtest, a competition, an instance."""

    def begun(self, connection: Connection, job: Job, now_ms: int) -> None:
        """Say that a run begins, for the first time or again; in the transaction that begins it."""
        ...

    def sealing(self, job: Job, run: Run) -> Sealing:
        """Say of a run what may be said before it is kept, and return what is said with that."""
        ...

    def failed(self, connection: Connection, job: Job, cause: str, now_ms: int) -> None:
        """Note a failure for good."""
        ...


class ReplayOrigin(Origin, Protocol):
    """What asked for a run over a pack."""

    def spec(self, job: Job) -> ReplaySpec:
        """Return what shapes the run, as it was committed to."""
        ...


@dataclass(frozen=True)
class RunJobs:
    """Performs the jobs of one kind of runs; a job that goes wrong is ended, or tried again, by who hands it out.

    Attributes
    ----------
    anchoring
        Begins anchors of the runs; none is due without.
    origin
        What asked for the runs.
    """

    database: Database
    clock: Callable[[], int]
    anchoring: Anchoring | None
    origin: Origin

    @abstractmethod
    def _maker(self, job: Job, tell: OnProgress) -> AbstractContextManager[Callable[[Commitment | None], Run]]:
        """Return what makes the run of a job, and lets its data go at the end."""

    def perform(self, job: Job, tell: OnProgress) -> None:
        """Make the run of a job, and keep it."""
        with self._maker(job, tell) as make:
            lifecycle(job, _JobRecorder(self.origin, self.database, self.clock, self.anchoring, job), make)

    def failed(self, connection: Connection, job: Job, cause: str) -> None:
        """Note a failure for good."""
        self.origin.failed(connection, job, cause, self.clock())


@dataclass(frozen=True)
class ReplayJobs(RunJobs):
    """Performs the jobs of runs over packs."""

    origin: ReplayOrigin

    @contextmanager
    def _maker(self, job: Job, tell: OnProgress) -> Iterator[Callable[[Commitment | None], Run]]:
        yield lambda commitment: perform(self.origin.spec(job), commitment, tell)


@dataclass(frozen=True)
class _JobRecorder:
    """Keeps the run of a job that was entered with it."""

    origin: Origin
    database: Database
    clock: Callable[[], int]
    anchoring: Anchoring | None
    job: Job
    log = None  # what was entered is committed to

    def commit(self, spec: Job) -> Commitment:
        with fenced(self.database, spec) as connection:
            commitment = begin(connection, spec.run_id, self.clock())
            self.origin.begun(connection, spec, self.clock())
            return commitment

    def keep(self, run: Run) -> None:
        sealed = self.origin.sealing(self.job, run)
        with fenced(self.database, self.job) as connection:
            now = self.clock()
            sealed(connection, keep(connection, run, self.anchoring, now), now)
            usage.weigh(connection, self.job.run_id)
            jobs.finish(connection, self.job, JobStatus.DONE)

    def abandon(self, run_id: str, cause: str) -> None:
        """Leave it to who handed the job out: it may be tried again."""
