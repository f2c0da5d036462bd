"""Jobs that can't be done now, through no fault of their own: set aside with a word, so that the attempt does not count."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from clvlab.errors import LeaseLostError, StoreError
from clvlab.store import jobs as job_rows
from clvlab.store.database import Database
from clvlab.store.jobs import Job

logger = logging.getLogger("clvlab.jobs")
_DELAYS_MS = (2_000, 10_000, 60_000, 300_000)


@dataclass
class Postponing:
    """Sets jobs aside, and remembers those of which the store did not take the word."""

    database: Database
    clock: Callable[[], int]
    _unsaid: dict[int, tuple[Job, str]] = field(default_factory=dict, init=False)

    def postpone(self, job: Job, cause: str) -> None:
        """Set a job aside, the longer the more often it was.

        Raises
        ------
        StoreError
        """
        delay = _DELAYS_MS[min(job.postponed, len(_DELAYS_MS) - 1)]
        logger.warning("job %d is put off for %d s: %s", job.job_id, delay // 1000, cause)
        try:
            with self.database.write() as connection:
                job_rows.fence(connection, job)
                job_rows.postpone(connection, job, self.clock(), delay, cause)
        except LeaseLostError as error:
            logger.warning("%s", error)

    def interrupted(self, job: Job, cause: str) -> None:
        """Set a job aside that the store broke off, now or as soon as it answers again."""
        self._unsaid[job.job_id] = job, cause
        self.say_unsaid()

    def say_unsaid(self) -> None:
        """Set aside what the store did not let be set aside before."""
        for job_id, (job, cause) in list(self._unsaid.items()):
            try:
                self.postpone(job, cause)
            except StoreError as error:
                logger.warning("job %d can't be put off yet: %s", job_id, error)
                return
            self._unsaid.pop(job_id, None)
