"""Work that outlives a request, and a process: leased rows of the store, performed by worker threads or by who waits for it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Lock, Thread
from typing import Any, cast

from clvlab.answers.runs import RunProgress
from clvlab.application.attempt import Attempts
from clvlab.application.handling import Handler, Handling
from clvlab.application.hub import Hub
from clvlab.application.postponing import Postponing
from clvlab.errors import (
    BusyError,
    LogBehindError,
    RunCancelledError,
    RunFailedError,
    ShuttingDownError,
    StoreError,
    UnknownRunError,
)
from clvlab.store import jobs as job_rows
from clvlab.store import runs
from clvlab.store.database import Connection, Database
from clvlab.store.jobs import ADDED, ENDED, Job, JobStatus
from clvlab.store.runs import RunStatus

logger = logging.getLogger("clvlab.jobs")
CANCELLED = "cancelled"
"""Cause of a run that whoever asked for it did not want any more."""
_OVER = (RunStatus.SEALED, RunStatus.FAILED, RunStatus.REMOVED)
_APART = "anchor"  # waits for a network: it has a thread of its own, so that nothing waits behind it
_ASKED = "backtest"  # performed by whoever asked; a thread of its own takes up what nobody performs any more
_UNTAKEN_MS = 60_000
LIVE = ("live-competition", "live-deploy")
"""Kinds of jobs that last as long as a match."""
_POLL_S = 0.5
_PATIENCE_S = 600.0


def never(connection: Connection) -> bool:  # noqa: ARG001
    """Let a cancel be."""
    return False


@dataclass
class Jobs:
    """Worker threads over the job table, which several processes may share.

    Attributes
    ----------
    clock
        UTC milliseconds; may jump.
    workers
        Jobs that are performed at once; 0 leaves all to other processes, also those that somebody here waits for.
    lease_ms
        How long a worker is believed alive without a word; it renews three times as often.
    require_log
        Called before a job is taken that will append to the run log; raises ``LogBehindError`` while nothing may be.
    live
        Live runs that are followed at once, each on a thread of its own.
    unasked
        Nobody asks in this process: a backtest is taken up at once, as other jobs are.
    """

    database: Database
    hub: Hub
    clock: Callable[[], int]
    workers: int = 2
    lease_ms: int = 30_000
    handlers: Mapping[str, Handler] = field(default_factory=dict)
    require_log: Callable[[], None] = lambda: None
    live: int = 0
    unasked: bool = False
    _threads: list[Thread] = field(default_factory=list, init=False)
    _stopping: Event = field(default_factory=Event, init=False)
    _guard: Lock = field(default_factory=Lock, init=False)
    _attempts: Attempts = field(init=False)
    _postponing: Postponing = field(init=False)
    _handling: Handling = field(init=False)

    def __post_init__(self) -> None:
        self._attempts = Attempts(self.database, self.hub, self.clock, self.lease_ms)
        self._postponing = Postponing(self.database, self.clock)
        self._handling = Handling(self.database, self.hub, self._attempts, self._postponing)

    @property
    def lanes(self) -> Mapping[str, int]:
        """How many jobs are performed at once here: ``jobs``, ``anchors`` and ``live`` runs."""
        if not self.workers:
            return {"jobs": 0, "anchors": 0, "live": 0}
        return {"jobs": self.workers, "anchors": int(_APART in self.handlers), "live": self.live}

    def start(self) -> None:
        """Start the worker threads; idempotent."""
        with self._guard:
            if not self._threads:
                self._stopping.clear()
                self._attempts.ended.clear()
                tasks: list[Callable[[], None]] = [partial(self._work, *lane) for lane in self._lanes()] or [self._watch]
                self._threads = [Thread(target=task, name=f"clvlab-job-{n}", daemon=True) for n, task in enumerate(tasks)]
                for thread in self._threads:
                    thread.start()

    def _lanes(self) -> Sequence[tuple[Collection[str], int]]:
        """Return the kinds of jobs that each thread takes, and how long these must have waited."""
        if not self.workers:
            return []
        alone = {_APART: 0} if self.unasked else {_APART: 0, _ASKED: self.lease_ms}
        shared = [kind for kind in self.handlers if kind not in (*alone, *LIVE)]
        own = [([kind], waited_ms) for kind, waited_ms in alone.items() if kind in self.handlers]
        return [(shared, 0)] * self.workers + own + [(LIVE, 0)] * self.live

    def stop(self, within_s: float | None = None) -> None:
        """Let the jobs in hand finish, and end the threads; idempotent.

        Parameters
        ----------
        within_s
            How long to wait for them; then they are given back, and this object performs nothing any more. Null is without end.

        Raises
        ------
        StoreError
            They can't be given back; they are taken up when their leases run out.
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
                self._postponing.say_unsaid()
                worked = self.run_one(kinds, waited_ms)
            except LogBehindError:  # which the start and every refused request say
                worked = False
            except StoreError as error:  # the lease runs out, and whoever is there then takes the job up again
                logger.warning("a job was put off: %s", error)
                worked = False
            except Exception:  # the boundary of a thread: the next job must still find it
                logger.exception("a worker lost its job, which is taken up again when the lease runs out")
                worked = False
            if not worked:
                self.hub.wait(ADDED, seen, _POLL_S)

    def _watch(self) -> None:
        """Say once a minute that a job waits which is left to others."""
        while not self._stopping.wait(_UNTAKEN_MS / 1000):
            now = self.clock()
            try:
                with self.database.read() as connection:
                    since = [since for kind, since in job_rows.waiting_since(connection, now).items() if kind != _APART]
            except StoreError as error:
                logger.warning("the queue can't be looked at: %s", error)
                continue
            waited_ms = now - min(since, default=now)
            if waited_ms > _UNTAKEN_MS:
                waited_s = waited_ms // 1000
                logger.warning("a job has waited for %d s, and this process performs none: see to `clvlab worker`", waited_s)

    def run_one(self, kinds: Collection[str] | None = None, waited_ms: int = 0) -> bool:
        """Claim and perform one job, of any kind or of these, on this thread; False if none has waited so long.

        Raises
        ------
        StoreError
            The database broke off; the job stays leased and is taken up again when the lease runs out.
        LogBehindError
            No job was taken.
        """
        if kinds is None or set(kinds) != {_APART}:
            self.require_log()
        job = self._claim(kinds, waited_ms=waited_ms)
        if job is not None:
            self._perform(job)
        return job is not None

    def settle(self, run_id: str) -> dict[str, Any]:
        """Wait until a run is sealed or failed, performing its job here if nobody else does and this process has workers.

        Returns the run's row.

        Raises
        ------
        StoreError
            The database broke off; the job is taken up again.
        BusyError
            Another worker has held the job for ten minutes.
        LogBehindError
            Nobody performs the job as things are.
        ShuttingDownError
            The jobs of this process were given back.
        """
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            if self._attempts.ended.is_set():
                raise ShuttingDownError
            seen = self.hub.version(ENDED)
            with self.database.read() as connection:
                row = runs.row(connection, run_id)
            if row is None:
                raise UnknownRunError(f"unknown run {run_id!r}")
            if row["status"] in _OVER:
                return dict(row)
            self.require_log()
            job = self._claim(run_id=run_id) if self.workers else None
            if job is None:
                self.hub.wait(ENDED, seen, _POLL_S)
            else:
                self._perform(job)
        raise BusyError(int(_PATIENCE_S))

    def require_sealed(self, run_id: str) -> None:
        """Wait as ``settle`` does, for a run that must be sealed.

        Raises
        ------
        RunCancelledError, RunFailedError
        """
        outcome = self.settle(run_id)
        if outcome["cause"] == CANCELLED:
            raise RunCancelledError(run_id)
        if outcome["status"] != RunStatus.SEALED:
            raise RunFailedError(run_id, outcome["cause"])

    def state(self, run_id: str) -> RunProgress:
        """Tell how far a run is, as this process knows or another noted.

        Raises
        ------
        UnknownRunError
        """
        with self.database.read() as connection:
            row = runs.row(connection, run_id)
            noted = job_rows.progress(connection, run_id)
        if row is None:
            raise UnknownRunError(f"unknown run {run_id!r}")
        attempt = self._attempts.of(run_id)
        known = (attempt.progress if attempt else noted) if row["status"] == RunStatus.RUNNING else None
        told = known or {"stage": None, "done": None, "total": None}
        return cast("RunProgress", {"run_id": run_id, "status": row["status"], "cause": row["cause"], **told})

    def cancel(self, run_id: str, cause: str, unless: Callable[[Connection], bool] = never) -> bool:
        """End the job of a run that is not over, as a failure with a cause; False if there is none.

        ``unless`` is asked while the job's row is held, and may keep the run.
        """
        with self.database.write() as connection:
            job = job_rows.hold_open(connection, run_id, [kind for kind in self.handlers if kind != _APART])
            if unless(connection) or job is None:
                return False
            self.handlers[job.kind].failed(connection, job, cause)
            job_rows.finish(connection, job, JobStatus.FAILED, cause)
        attempt = self._attempts.of(run_id)
        if attempt is not None:
            attempt.end()
        self._handling.publish(job)
        return True

    def counts(self) -> dict[str, int]:
        """Return the number of jobs per status: ``queued``, ``leased``, ``done``, ``failed``."""
        with self.database.read() as connection:
            return job_rows.counts(connection)

    def _claim(self, kinds: Collection[str] | None = None, run_id: str | None = None, waited_ms: int = 0) -> Job | None:
        now, kinds = self.clock(), kinds or list(self.handlers)
        with self.database.write() as connection:
            return job_rows.claim(connection, kinds, now, self.lease_ms, run_id, waited_ms)

    def _perform(self, job: Job) -> None:
        self._handling.perform(self.handlers[job.kind], job, told=job.kind != _APART)
