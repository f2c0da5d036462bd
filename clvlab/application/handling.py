"""How a job ends: done, put off, or failed with a cause; in the transaction of the use case that does the work."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol

from clvlab.application.attempt import Attempts
from clvlab.application.causes import cause_of
from clvlab.application.hub import Hub
from clvlab.application.postponing import Postponing
from clvlab.application.progress import Tell
from clvlab.errors import LeaseLostError, LogBehindError, StoreBusyError, StoreError, StoreFullError, StoreUnreachableError
from clvlab.store import jobs as job_rows
from clvlab.store.database import Connection, Database
from clvlab.store.jobs import Job, JobStatus

logger = logging.getLogger("clvlab.jobs")
_MAX_ATTEMPTS = 10


class PostponedError(Exception):
    """A job can't be done now through no fault of its own; it is tried again, however often."""


class Handler(Protocol):
    """What a use case does with jobs of its kind."""

    def perform(self, job: Job, tell: Tell) -> None:
        """Do the work, and end the job in the transaction that stores it (``fence``, then ``finish``); or postpone it."""
        ...

    def failed(self, connection: Connection, job: Job, cause: str) -> None:
        """Note a failure for good, in the transaction that ends the job."""
        ...


@dataclass(frozen=True)
class Handling:
    """Has handlers do claimed jobs, and sees to it that each of these ends."""

    database: Database
    hub: Hub
    attempts: Attempts
    postponing: Postponing

    def perform(self, handler: Handler, job: Job, *, told: bool) -> None:
        """Have a job done; ``told`` says whether it is asked how far it is.

        Raises
        ------
        StoreError
            The database broke off; the job is taken up again.
        """
        try:
            if job.attempt - job.postponed > _MAX_ATTEMPTS:
                self._fail(handler, job, f"given up after {_MAX_ATTEMPTS} attempts that ended without a word")
                return
            with self.attempts.at(job, told=told) as attempt:
                handler.perform(job, attempt.tell)
        except (PostponedError, LogBehindError) as error:
            self.postponing.postpone(job, str(error))
        except LeaseLostError as error:
            logger.warning("%s", error)
        except (StoreBusyError, StoreFullError, StoreUnreachableError) as error:  # no fault of the job
            self.postponing.interrupted(job, str(error))
            raise
        except StoreError:
            raise
        except Exception as error:  # the boundary of a job: whatever an agent or a pack did, the job ends with a cause
            logger.exception("job %d failed", job.job_id)
            self._fail(handler, job, cause_of(error))
        finally:
            self.publish(job)

    def publish(self, job: Job) -> None:
        """Wake who waits for what asked for this job, or for its run."""
        for subject in (job.payload["origin_id"], job.run_id):
            self.hub.publish(subject)

    def _fail(self, handler: Handler, job: Job, cause: str) -> None:
        try:
            with self.database.write() as connection:
                job_rows.fence(connection, job)
                handler.failed(connection, job, cause)
                job_rows.finish(connection, job, JobStatus.FAILED, cause)
        except LeaseLostError as error:
            logger.warning("%s", error)
        except LogBehindError as error:
            self.postponing.postpone(job, str(error))
        except StoreError:
            raise
        except Exception:  # a job whose failure can't be noted must end all the same
            logger.exception("the failure of job %d can't be noted", job.job_id)
            with self.database.write() as connection:
                job_rows.fence(connection, job)
                job_rows.finish(connection, job, JobStatus.FAILED, cause)
