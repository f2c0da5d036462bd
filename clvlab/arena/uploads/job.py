"""The job of an upload that its sender does not wait for: a received file is verified, and the pack is kept."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from clvlab.api.packs import UploadedPack
from clvlab.api.runs import JobState
from clvlab.arena.jobs import CANCELLED, UPLOAD, Jobs, fenced
from clvlab.arena.uploads.intake import IncomingUpload
from clvlab.arena.uploads.requests import UploadRequest
from clvlab.arena.uploads.uploads import Uploads, verified_upload
from clvlab.base.files import StagingPath, flush
from clvlab.errors import PackError, TransitionError, UnknownPackError, UploadConflictError, UploadRefusedError
from clvlab.runs.progress import OnProgress, Stage
from clvlab.store import jobs as job_rows
from clvlab.store.database import Connection
from clvlab.store.jobs import Job, JobPayload, JobRow, JobStatus
from clvlab.store.runs import RunStatus

_RECEIVED = ".received-"
_KEPT_S = 3600.0  # a file without a job may be about to get one
_STATUSES = {
    JobStatus.QUEUED: RunStatus.QUEUED,
    JobStatus.LEASED: RunStatus.RUNNING,
    JobStatus.DONE: RunStatus.SEALED,
    JobStatus.FAILED: RunStatus.FAILED,
}


@dataclass(frozen=True)
class UploadJobs:
    """Verifies received uploads; the file of a job is in the folder of uploads until the job is over."""

    uploads: Uploads
    jobs: Jobs
    new_id: Callable[[], str]

    def start(self) -> None:
        """Remove the files of jobs that are over, or that were never stored."""
        with self.jobs.database.read() as connection:
            for path in self.uploads.limits.folder.glob(f"{_RECEIVED}*"):
                row = job_rows.newest(connection, UPLOAD, path.name.removeprefix(_RECEIVED))
                is_open = row is not None and row["status"] in (JobStatus.QUEUED, JobStatus.LEASED)
                if not is_open and time.time() - path.stat().st_mtime > _KEPT_S:
                    path.unlink(missing_ok=True)

    def enter(self, incoming: IncomingUpload, *, at_once: bool) -> str:
        """Store the job of a received upload and return its id; with ``at_once`` the caller settles it next."""
        upload_id, now = "upl_" + self.new_id(), self.jobs.clock()
        payload: JobPayload = {
            "origin_id": upload_id,
            "request": incoming.request.model_dump(mode="json", exclude_unset=True),
            "owner": incoming.owner,
        }
        kept = self._file(upload_id)
        os.link(incoming.finished(), kept)
        try:
            flush(kept)
            flush(kept.parent)
            lease_ms = self.jobs.lease_ms if at_once or not self.jobs.workers else None
            with self.jobs.database.write() as connection:
                job_id = job_rows.add(connection, UPLOAD, upload_id, payload, now, lease_ms)
        except BaseException:
            kept.unlink()
            raise
        if lease_ms is not None:
            self.jobs.expect(Job(job_id, UPLOAD, upload_id, payload, 1))
        return upload_id

    def perform(self, job: Job, tell: OnProgress) -> None:
        request, owner = UploadRequest.model_validate(job.payload["request"]), job.payload["owner"]
        with fenced(self.jobs.database, job):  # else it was cancelled while it waited
            tell(Stage.OPENING)
        with StagingPath(self.uploads.limits.folder) as scratch:
            given = scratch / "given" / request.stored_name
            given.parent.mkdir()
            os.link(self._file(job.run_id), given)
            try:
                found = verified_upload(scratch, request, self.uploads.limits, lambda: tell(Stage.OPENING))
                with fenced(self.jobs.database, job) as connection:
                    row, is_new = self.uploads.store(connection, owner, found, scratch)
                    self._end(connection, job, JobStatus.DONE, None, {"pack_id": row["pack_id"], "is_new": is_new})
            except PackError as error:
                with fenced(self.jobs.database, job) as connection:
                    self._end(connection, job, JobStatus.FAILED, str(error), {"reason": getattr(error, "reason", None)})
        self._file(job.run_id).unlink(missing_ok=True)

    def _end(self, connection: Connection, job: Job, status: JobStatus, cause: str | None, result: object) -> None:
        job_rows.note_progress(connection, job, result)
        job_rows.finish(connection, job, status, cause)

    def record_failure(self, connection: Connection, job: Job, cause: str) -> None:  # noqa: ARG002
        """Remove the file; a worker that still reads it has a link of its own."""
        job_rows.note_progress(connection, job, {"reason": None})
        self._file(job.run_id).unlink(missing_ok=True)

    def settle(self, upload_id: str, incoming: IncomingUpload) -> None:
        """Wait until an upload is over, and free the place of its owner; perform its job here if no other worker does."""
        try:
            self.jobs.settle(upload_id)
        finally:
            incoming.discard()

    def state(self, owner: str, upload_id: str) -> JobState:
        """Return the state of the owner's upload; ``UnknownPackError`` if it is unknown, or of another owner."""
        row = self._row(owner, upload_id)
        status = _STATUSES[JobStatus(row["status"])]
        state: JobState = {
            "run_id": None,
            "status": status.value,
            "cause": row["cause"] if status == RunStatus.FAILED else None,
            "stage": None,
            "done": None,
            "total": None,
            "upload_id": upload_id,
        }
        if status == RunStatus.SEALED:
            return {**state, "pack_id": row["progress"]["pack_id"]}
        return (
            cast("JobState", {**state, **self.jobs.progress(upload_id, row["progress"])})
            if status == RunStatus.RUNNING
            else state
        )

    def result(self, owner: str, upload_id: str) -> tuple[UploadedPack, bool]:
        """Return the pack of a finished upload, and whether it was new.

        Raises
        ------
        UploadRefusedError, UploadConflictError
            Nothing was kept.
        """
        row = self._row(owner, upload_id)
        if row["status"] == JobStatus.DONE:
            return self.uploads.info(owner, row["progress"]["pack_id"]), row["progress"]["is_new"]
        cause, reason = str(row["cause"]), (row["progress"] or {}).get("reason")
        raise UploadRefusedError(cause) if reason is None else UploadConflictError(reason, cause)

    def cancel(self, owner: str, upload_id: str) -> JobState:
        """Cancel the verification of the owner's upload; ``TransitionError`` if it is over."""
        self._row(owner, upload_id)
        is_cancelled, state = self.jobs.cancel(upload_id, CANCELLED), self.state(owner, upload_id)
        if not is_cancelled:
            raise TransitionError(f"upload {upload_id} is {state['status']}: there is nothing to cancel")
        return state

    def _row(self, owner: str, upload_id: str) -> JobRow:
        with self.jobs.database.read() as connection:
            row = job_rows.newest(connection, UPLOAD, upload_id)
        if row is None or row["payload"]["owner"] != owner:
            raise UnknownPackError(f"you have no upload {upload_id!r}")
        return row

    def _file(self, upload_id: str) -> Path:
        return self.uploads.limits.folder / f"{_RECEIVED}{upload_id}"
