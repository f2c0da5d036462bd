"""Jobs: leased rows of the store, which outlive requests and processes. Worker threads or a waiting request perform them."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Lock, Thread
from typing import Protocol, TypeVar, cast

from clvlab.api.runs import JobState
from clvlab.arena.events import Hub
from clvlab.errors import (
    BusyError,
    ClvlabError,
    LeaseLostError,
    LogBehindError,
    RunCancelledError,
    RunFailedError,
    ShuttingDownError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreUnreachableError,
    TransitionError,
    UnknownRunError,
)
from clvlab.runs.progress import OnProgress, Progress, Stage, cause_of
from clvlab.runs.run import backtest_id
from clvlab.store import jobs as job_rows
from clvlab.store import runs
from clvlab.store.database import Connection, Database
from clvlab.store.jobs import ADDED, ENDED, Job, JobRow, JobStatus
from clvlab.store.runs import RunRow, RunStatus


@contextmanager
def fenced(database: Database, job: Job) -> Iterator[Connection]:
    """Open a transaction that locks a job; ``LeaseLostError`` if the job is over or another worker claimed it."""
    with database.write() as connection:
        job_rows.fence(connection, job)
        yield connection


# Attempts at jobs: their leases are renewed, they report progress, and unwanted ones are ended early.


logger = logging.getLogger("clvlab.jobs")
_NOTED_S = 1.0


class Attempt:
    """A claimed job and its progress, which is ``None`` until the first report."""

    def __init__(self, job: Job, database: Database, hub: Hub) -> None:
        self.job, self._database, self._hub = job, database, hub
        self._lost = False
        self._noted = time.monotonic()
        self.progress: Progress | None = None

    def end(self) -> None:
        """End cancelled, overtaken or returned work at its next progress report."""
        self._lost = True

    def tell(self, stage: Stage, done: int = 0, total: int = 1) -> None:
        """Report progress, to this process at once and to others about once a second."""
        if self._lost:
            raise LeaseLostError(f"job {self.job.job_id}: attempt {self.job.attempt} is not wanted any more")
        self.progress = {"stage": stage.value, "done": done, "total": total}
        if time.monotonic() - self._noted > _NOTED_S:
            self._noted = time.monotonic()
            try:
                with self._database.write() as connection:
                    job_rows.note_progress(connection, self.job, self.progress)
            except StoreError as error:  # the work continues, though other processes miss the report
                logger.warning("progress was not noted: %s", error)
        self._hub.publish(self.job.run_id)


class Attempts:
    """The attempts of this process; once ``ended`` is set, all present and new ones are given back.

    One thread renews all leases. It lasts while it finds any, so quick jobs start no thread each, and an idle process has none.
    """

    def __init__(self, database: Database, hub: Hub, clock: Callable[[], int], lease_ms: int) -> None:
        self._database, self._hub, self._clock, self._lease_ms = database, hub, clock, lease_ms
        self._by_run: dict[str, Attempt] = {}  # by run; an old attempt may outlive its lease
        self._in_hand: set[Attempt] = set()
        self._leased: dict[str, Job] = {}  # by run; jobs that were stored as claimed here, until a caller performs them
        self._guard, self._is_renewing = Lock(), False
        self.ended = Event()

    def of(self, run_id: str) -> Attempt | None:
        return self._by_run.get(run_id)

    def expect(self, job: Job) -> None:
        """Note a job that was stored as claimed here; it is performed by the caller that ``take``s it.

        Its lease is not renewed before that: if no caller comes, another worker takes the job up.
        """
        with self._guard:
            self._leased[job.run_id] = job
        if self.ended.is_set():
            self._give_back([])

    def take(self, run_id: str) -> Job | None:
        return self._leased.pop(run_id, None)

    @contextmanager
    def at(self, job: Job, *, visible: bool) -> Iterator[Attempt]:
        """Keep an attempt registered and its lease alive during the context; ``LeaseLostError`` if the process is ending."""
        attempt = Attempt(job, self._database, self._hub)
        if visible:
            self._by_run[job.run_id] = attempt
        try:
            with self._guard:
                self._in_hand.add(attempt)
                if not self._is_renewing:
                    Thread(target=self._renew, name="clvlab-leases", daemon=True).start()
                    self._is_renewing = True
            if self.ended.is_set():  # this job was claimed while the others were given back
                self._give_back([attempt])
                raise LeaseLostError(f"job {job.job_id}: this process is ending")
            yield attempt
        finally:
            with self._guard:
                self._in_hand.discard(attempt)
            if self._by_run.get(job.run_id) is attempt:
                del self._by_run[job.run_id]

    def _renew(self) -> None:
        while True:
            ended = self.ended.wait(self._lease_ms / 3000)
            with self._guard:  # no attempt leaves before its renewal is over, which would undo what is stored of its end
                if ended or not self._in_hand:
                    self._is_renewing = False
                    return
                for attempt in self._in_hand:
                    self._renew_lease(attempt)

    def _renew_lease(self, attempt: Attempt) -> None:
        try:
            with self._database.write() as connection:
                if not job_rows.renew(connection, attempt.job, self._clock(), self._lease_ms):
                    attempt.end()
        except StoreError as error:  # the next renewal may succeed; otherwise the fence refuses the result
            logger.warning("a lease was not renewed: %s", error)
        except Exception:  # the boundary of a thread, which must live on for other leases
            logger.exception("a lease was not renewed")

    def end(self) -> None:
        """Free the claimed jobs for other processes at once; running work ends at its next report."""
        self.ended.set()
        with self._guard:
            attempts = list(self._in_hand)
        self._give_back(attempts)

    def _give_back(self, attempts: Collection[Attempt]) -> None:
        """Free the jobs of attempts, and those that no caller took."""
        for attempt in attempts:
            attempt.end()
        with self._guard:
            jobs = [*(attempt.job for attempt in attempts), *self._leased.values()]
            self._leased.clear()
        if jobs:
            with self._database.write() as connection:
                freed = [job for job in jobs if job_rows.give_back(connection, job)]
            logger.warning("%d jobs were given back", len(freed))


# A job that an outside cause prevents for now is set aside with a reason, and the attempt does not count.


_DELAYS_MS = (2_000, 10_000, 60_000, 300_000)


@dataclass
class Postponement:
    """Sets jobs aside, and remembers those that the store could not set aside."""

    database: Database
    clock: Callable[[], int]
    _remembered: dict[int, tuple[Job, str]] = field(default_factory=dict, init=False)

    def postpone(self, job: Job, cause: str) -> None:
        """Set a job aside; the delay grows each time."""
        delay = _DELAYS_MS[min(job.postponed, len(_DELAYS_MS) - 1)]
        logger.warning("job %d is put off for %d s: %s", job.job_id, delay // 1000, cause)
        try:
            with fenced(self.database, job) as connection:
                job_rows.postpone(connection, job, self.clock(), delay, cause)
        except LeaseLostError as error:
            logger.warning("%s", error)

    def postpone_or_remember(self, job: Job, cause: str) -> None:
        """Set aside a job that the store interrupted, at once or as soon as the store answers again."""
        self._remembered[job.job_id] = job, cause
        self.postpone_remembered()

    def postpone_remembered(self) -> None:
        """Set aside the remembered jobs."""
        for job_id, (job, cause) in list(self._remembered.items()):
            try:
                self.postpone(job, cause)
            except StoreError as error:
                logger.warning("job %d can't be put off yet: %s", job_id, error)
                return
            self._remembered.pop(job_id, None)


# A job ends as done, postponed or failed with a cause, in the transaction of the use case that does the work.


_MAX_ATTEMPTS = 10


class PostponedError(Exception):
    """An outside cause prevents a job for now; it is tried again without limit."""


class JobHandler(Protocol):
    def perform(self, job: Job, tell: OnProgress) -> None:
        """Do the work, and end the job in the transaction with the result (``fenced``, then ``finish``), or postpone it."""
        ...

    def record_failure(self, connection: Connection, job: Job, cause: str) -> None:
        """Record a final failure, in the transaction that ends the job."""
        ...


@dataclass(frozen=True)
class JobPerformer:
    database: Database
    hub: Hub
    attempts: Attempts
    postponing: Postponement

    def perform(self, handler: JobHandler, job: Job, *, visible: bool) -> None:
        """Perform a job; ``visible`` says whether its progress may be read."""
        try:
            if job.attempt - job.postponed > _MAX_ATTEMPTS:
                self._fail(handler, job, f"given up after {_MAX_ATTEMPTS} attempts that ended without a word")
                return
            with self.attempts.at(job, visible=visible) as attempt:
                handler.perform(job, attempt.tell)
        except (PostponedError, LogBehindError) as error:
            self.postponing.postpone(job, str(error))
        except LeaseLostError as error:
            logger.warning("%s", error)
        except (StoreBusyError, StoreFullError, StoreUnreachableError) as error:  # not caused by the job
            self.postponing.postpone_or_remember(job, str(error))
            raise
        except StoreError:
            raise
        except Exception as error:  # the boundary of a job: any error of an agent or a pack ends the job with a cause
            logger.exception("job %d failed", job.job_id)
            self._fail(handler, job, cause_of(error))
        finally:
            self.publish(job)

    def publish(self, job: Job) -> None:
        for subject in (job.payload["origin_id"], job.run_id):
            self.hub.publish(subject)

    def _fail(self, handler: JobHandler, job: Job, cause: str) -> None:
        try:
            with fenced(self.database, job) as connection:
                handler.record_failure(connection, job, cause)
                job_rows.finish(connection, job, JobStatus.FAILED, cause)
        except LeaseLostError as error:
            logger.warning("%s", error)
        except LogBehindError as error:
            self.postponing.postpone(job, str(error))
        except StoreError:
            raise
        except Exception:  # the job must end even if its failure can't be recorded
            logger.exception("the failure of job %d can't be noted", job.job_id)
            with fenced(self.database, job) as connection:
                job_rows.finish(connection, job, JobStatus.FAILED, cause)


CANCELLED = "cancelled"
"""Cause of failure of a run that its requesters withdrew."""
OVER = (RunStatus.SEALED, RunStatus.FAILED, RunStatus.REMOVED)
_APART = "anchor"  # waits for a network, so it has a thread of its own
UPLOAD = "upload"
"""Kind of a job that verifies an upload, which has no run."""
_REQUESTED = ("backtest", UPLOAD)  # requests perform these; a separate thread for each takes up abandoned ones
_UNTAKEN_MS = 60_000
LIVE = ("live-competition", "live-deploy", "live-seat")
"""Kinds of jobs that last as long as a match."""
RETRY_AFTER_S = 1  # when to look again at a job that is not over
_POLL_S = 2.0  # longest time between two looks at the jobs; news brings most of them at once
_PATIENCE_S = 600.0


_Conflict = TypeVar("_Conflict", bound=ClvlabError)
_NO_PROGRESS: Mapping[str, object] = {"stage": None, "done": None, "total": None}
_ORIGINS = {"competition": "competition_id", "deploy": "instance_id", "seat": "seat_id"}


def until_over(conflict: _Conflict) -> _Conflict:
    """Mark a conflict with a job that is not over, so that the service says when to ask again."""
    conflict.retry_after_s = RETRY_AFTER_S
    return conflict


def _origin(row: RunRow) -> dict[str, str | None]:
    if row["kind"] == "backtest":
        return {"backtest_id": backtest_id(row["run_id"])}
    return {_ORIGINS[row["kind"]]: row["origin_id"]} if row["kind"] in _ORIGINS else {}


def never(connection: Connection) -> bool:  # noqa: ARG001
    """Allow every cancel."""
    return False


@dataclass
class Jobs:
    """Worker threads over the job table, which several processes may share."""

    database: Database
    hub: Hub
    clock: Callable[[], int]  # UTC milliseconds; may jump
    # Number of jobs performed at once; with 0 other processes perform all, even jobs that a request here waits for.
    workers: int = 2
    lease_ms: int = 30_000  # time until a silent worker loses its job; leases are renewed three times as often
    handlers: Mapping[str, JobHandler] = field(default_factory=dict)
    # Called before taking a job that will append to the run log; raises ``LogBehindError`` while appending is not allowed.
    require_log: Callable[[], None] = lambda: None
    live: int = 0  # number of live runs followed at once, each on its own thread
    unasked: bool = False  # whether backtests are taken up at once too, as this process receives no requests
    _threads: list[Thread] = field(default_factory=list, init=False)
    _stopping: Event = field(default_factory=Event, init=False)
    _guard: Lock = field(default_factory=Lock, init=False)
    _attempts: Attempts = field(init=False)
    _postponing: Postponement = field(init=False)
    _handling: JobPerformer = field(init=False)

    def __post_init__(self) -> None:
        self._attempts = Attempts(self.database, self.hub, self.clock, self.lease_ms)
        self._postponing = Postponement(self.database, self.clock)
        self._handling = JobPerformer(self.database, self.hub, self._attempts, self._postponing)

    @property
    def lanes(self) -> Mapping[str, int]:
        """Number of jobs performed at once here: ``jobs``, ``anchors`` and ``live`` runs."""
        if not self.workers:
            return {"jobs": 0, "anchors": 0, "live": 0}
        return {"jobs": self.workers, "anchors": int(_APART in self.handlers), "live": self.live}

    def start(self) -> None:
        with self._guard:
            if not self._threads:
                self._stopping.clear()
                self._attempts.ended.clear()
                tasks: list[Callable[[], None]] = [partial(self._work, *lane) for lane in self._lanes()] or [self._watch]
                self._threads = [Thread(target=task, name=f"clvlab-job-{n}", daemon=True) for n, task in enumerate(tasks)]
                for thread in self._threads:
                    thread.start()

    def _lanes(self) -> Sequence[tuple[Collection[str], int]]:
        """Return for each thread the kinds of its jobs, and how long these must have waited."""
        if not self.workers:
            return []
        alone = {_APART: 0} if self.unasked else {_APART: 0, **dict.fromkeys(_REQUESTED, self.lease_ms)}
        shared = [kind for kind in self.handlers if kind not in (*alone, *LIVE)]
        own = [([kind], waited_ms) for kind, waited_ms in alone.items() if kind in self.handlers]
        return [(shared, 0)] * self.workers + own + [(LIVE, 0)] * self.live

    def stop(self, within_s: float | None = None) -> None:
        """Let the claimed jobs finish, and end the threads; idempotent.

        After ``within_s`` jobs are given back, and this object performs no more; without a limit the call waits for all.

        Raises
        ------
        StoreError
            The jobs can't be given back; other workers take them up when the leases run out.
        """
        until = None if within_s is None else time.monotonic() + within_s
        with self._guard:
            self._stopping.set()
            self.hub.publish(ADDED)
            for thread in self._threads:
                thread.join(None if until is None else max(0.0, until - time.monotonic()))
            self._threads = []
        if within_s is not None:
            self._attempts.end()

    def _work(self, kinds: Collection[str], waited_ms: int) -> None:
        while not self._stopping.is_set():
            seen = self.hub.version(ADDED)
            try:
                self._postponing.postpone_remembered()
                worked = self.run_one(kinds, waited_ms)
            except LogBehindError:  # the start of the service and every refused request report it
                worked = False
            except StoreError as error:  # another worker takes the job up when the lease runs out
                logger.warning("a job was put off: %s", error)
                worked = False
            except Exception:  # the boundary of a thread, which must live on for the next job
                logger.exception("a worker lost its job, which is taken up again when the lease runs out")
                worked = False
            if not worked:
                self.hub.wait(ADDED, seen, _POLL_S)

    def _watch(self) -> None:
        """Log once a minute that a job is waiting for other processes."""
        while not self._stopping.wait(_UNTAKEN_MS / 1000):
            now = self.clock()
            try:
                with self.database.read() as connection:
                    since = [since for kind, since in job_rows.free_from(connection, now).items() if kind != _APART]
            except StoreError as error:
                logger.warning("the queue can't be looked at: %s", error)
                continue
            waited_ms = now - min(since, default=now)
            if waited_ms > _UNTAKEN_MS:
                waited_s = waited_ms // 1000
                logger.warning(
                    "a job has waited for %d s, and this process performs none: see to `clvlab service worker`", waited_s
                )

    def run_one(self, kinds: Collection[str] | None = None, waited_ms: int = 0) -> bool:
        """Claim and perform one job on this thread, of ``kinds`` or any kind; False if no such job has waited ``waited_ms``."""
        if kinds is None or set(kinds) != {_APART}:
            self.require_log()
        job = self._claim(kinds, waited_ms=waited_ms)
        if job is not None:
            self._perform(job)
        return job is not None

    def settle(self, run_id: str) -> RunRow | JobRow:
        """Wait until a run or an upload is over, and return its row; perform its job here if no other worker does.

        Raises
        ------
        BusyError
            Another worker has held the job for ten minutes.
        LogBehindError
            No worker may perform the job at present.
        ShuttingDownError
            The jobs of this process were given back.
        """
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            if self._attempts.ended.is_set():
                raise ShuttingDownError
            seen = self.hub.version(ENDED)
            job = self._attempts.take(run_id)
            if job is None:
                with self.database.read() as connection:
                    row = runs.row(connection, run_id) or job_rows.newest(connection, UPLOAD, run_id)
                if row is None:
                    raise UnknownRunError(f"unknown run {run_id!r}")
                if row["status"] in (*OVER, JobStatus.DONE, JobStatus.CANCELLED, JobStatus.REFUSED):
                    return row
                self.require_log()
                job = self._claim(run_id=run_id) if self.workers else None
            if job is None:
                self.hub.wait(ENDED, seen, min(_POLL_S, max(0.0, until - time.monotonic())))
            else:
                self._perform(job)
        raise BusyError(int(_PATIENCE_S))

    def lease(self, *, at_once: bool) -> int | None:
        """Return the lease of a job that is stored by the caller that settles its run next, ``None`` for a queued job."""
        return self.lease_ms if at_once and self.workers else None

    def expect(self, job: Job | None) -> None:
        """Keep a job that was stored with a lease, after the transaction, for the caller that settles its run."""
        if job is not None and job.attempt:
            self._attempts.expect(job)

    def require_sealed(self, run_id: str) -> None:
        """Wait as in ``settle``; ``RunCancelledError`` or ``RunFailedError`` unless the run is sealed."""
        outcome = self.settle(run_id)
        if outcome["cause"] == CANCELLED:
            raise RunCancelledError(run_id)
        if outcome["status"] != RunStatus.SEALED:
            raise RunFailedError(run_id, str(outcome["cause"]))

    def state(self, run_id: str) -> JobState:
        """Return the state of a run, with the name of what asked for it."""
        with self.database.read() as connection:
            row = runs.row(connection, run_id)
            noted = job_rows.progress(connection, run_id)
        if row is None:
            raise UnknownRunError(f"unknown run {run_id!r}")
        progress = self.progress(run_id, noted) if row["status"] == RunStatus.RUNNING else _NO_PROGRESS
        named = {"run_id": run_id, "mode_label": row["mode_label"], **_origin(row)}
        return cast("JobState", {**named, "status": row["status"], "cause": row["cause"], **progress})

    def progress(self, run_id: str, noted: Progress | None) -> Mapping[str, object]:
        """Return the progress of a running job: that of this process, or else the stored one."""
        attempt = self._attempts.of(run_id)
        return (attempt.progress if attempt else noted) or _NO_PROGRESS

    def cancel(self, run_id: str, cause: str, unless: Callable[[Connection], bool] = never) -> bool:
        """End the job of an unfinished run, which fails with a cause; False if there is no such job.

        ``unless`` is called while the job is locked; the run continues if it returns True.
        """
        with self.database.write() as connection:
            job = job_rows.hold_open(connection, run_id, [kind for kind in self.handlers if kind != _APART])
            if unless(connection) or job is None:
                return False
            self.handlers[job.kind].record_failure(connection, job, cause)
            job_rows.finish(connection, job, JobStatus.CANCELLED, cause)
        attempt = self._attempts.of(run_id)
        if attempt is not None:
            attempt.end()
        self._handling.publish(job)
        return True

    def cancel_or_refuse(self, run_id: str, named: str) -> JobState:
        """Cancel a run and return its state; ``TransitionError`` with the name of the run if it is over."""
        cancelled = self.cancel(run_id, CANCELLED)
        state = self.state(run_id)
        if not cancelled:
            raise TransitionError(f"{named} is {state['status']}: there is nothing to cancel")
        return state

    def counts(self) -> dict[str, int]:
        with self.database.read() as connection:
            return job_rows.counts(connection)

    def _claim(self, kinds: Collection[str] | None = None, run_id: str | None = None, waited_ms: int = 0) -> Job | None:
        now, kinds = self.clock(), kinds or list(self.handlers)
        with self.database.read() as connection:  # a claim writes, so idle workers look first
            free = job_rows.free_from(connection, now, self.lease_ms, waited_ms, run_id)
        if all(free.get(kind, math.inf) > now for kind in kinds):
            return None
        with self.database.write() as connection:
            return job_rows.claim(connection, kinds, now, self.lease_ms, run_id, waited_ms)

    def _perform(self, job: Job) -> None:
        self._handling.perform(self.handlers[job.kind], job, visible=job.kind != _APART)
