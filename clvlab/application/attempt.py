"""Attempts at jobs: kept alive while they last, told how far they are, and ended early when nobody wants them any more."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from clvlab.application.hub import Hub
from clvlab.application.progress import Progress, Stage
from clvlab.errors import LeaseLostError, StoreError
from clvlab.store import jobs as job_rows
from clvlab.store.database import Database
from clvlab.store.jobs import Job

logger = logging.getLogger("clvlab.jobs")
_NOTED_S = 1.0


class Attempt:
    """A job in hand.

    Attributes
    ----------
    job
        As it was claimed.
    progress
        How far it is; null until something was told.
    """

    def __init__(self, job: Job, database: Database, hub: Hub, clock: Callable[[], int], lease_ms: int) -> None:
        self.job, self._database, self._hub, self._clock, self._lease_ms = job, database, hub, clock, lease_ms
        self._over, self._lost = Event(), Event()
        self._noted = time.monotonic()
        self.progress: Progress | None = None

    def end(self) -> None:
        """Have the work end at its next word: it was cancelled, or given back."""
        self._lost.set()
        self._over.set()

    def tell(self, stage: Stage, done: int = 0, total: int = 1) -> None:
        """Say how far the work is, to this process at once and to others about once a second."""
        if self._lost.is_set():
            raise LeaseLostError(f"job {self.job.job_id}: attempt {self.job.attempt} is not wanted any more")
        self.progress = {"stage": stage.value, "done": done, "total": total}
        if time.monotonic() - self._noted > _NOTED_S:
            self._noted = time.monotonic()
            try:
                with self._database.write() as connection:
                    job_rows.note_progress(connection, self.job, self.progress)
            except StoreError as error:  # the work goes on: only others do not hear of it
                logger.warning("progress was not noted: %s", error)
        self._hub.publish(self.job.run_id)

    @contextmanager
    def kept_alive(self) -> Iterator[None]:
        """Renew the lease of the job until the context ends."""
        thread = Thread(target=self._renew, name=f"clvlab-lease-{self.job.job_id}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _renew(self) -> None:
        while not self._over.wait(self._lease_ms / 3000):
            try:
                with self._database.write() as connection:
                    if not job_rows.renew(connection, self.job, self._clock(), self._lease_ms):
                        self._lost.set()
                        return
            except StoreError as error:  # the next renewal may get through; else the fence decides
                logger.warning("a lease was not renewed: %s", error)


class Attempts:
    """The attempts that this process is at.

    Attributes
    ----------
    ended
        They were given back, and so is each that begins now.
    """

    def __init__(self, database: Database, hub: Hub, clock: Callable[[], int], lease_ms: int) -> None:
        self._database, self._hub, self._clock, self._lease_ms = database, hub, clock, lease_ms
        self._told: dict[str, Attempt] = {}  # by run; an old one may outlive its lease
        self._in_hand: set[Attempt] = set()
        self.ended = Event()

    def of(self, run_id: str) -> Attempt | None:
        """Return the newest attempt at a run here, of those that tell how far it is."""
        return self._told.get(run_id)

    @contextmanager
    def at(self, job: Job, *, told: bool) -> Iterator[Attempt]:
        """Keep an attempt in hand, and its lease alive, while the context lasts.

        Raises
        ------
        LeaseLostError
            This process is ending.
        """
        attempt = Attempt(job, self._database, self._hub, self._clock, self._lease_ms)
        if told:
            self._told[job.run_id] = attempt
        self._in_hand.add(attempt)
        try:
            if self.ended.is_set():  # it was claimed while the others were given back
                self._give_back([attempt])
                raise LeaseLostError(f"job {job.job_id}: this process is ending")
            with attempt.kept_alive():
                yield attempt
        finally:
            self._in_hand.discard(attempt)
            if self._told.get(job.run_id) is attempt:
                del self._told[job.run_id]

    def end(self) -> None:
        """Free the jobs in hand for other processes, at once; whoever works on is told at the next word.

        Raises
        ------
        StoreError
        """
        self.ended.set()
        self._give_back(list(self._in_hand))

    def _give_back(self, attempts: Collection[Attempt]) -> None:
        for attempt in attempts:
            attempt.end()
        if attempts:
            with self._database.write() as connection:
                given = [attempt for attempt in attempts if job_rows.give_back(connection, attempt.job)]
            logger.warning("%d jobs were given back", len(given))
