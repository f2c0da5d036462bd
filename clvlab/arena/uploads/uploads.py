"""Uploads of owners: receive, verify, keep, list, delete.

A pack's files are in ``<folder>/<SHA-256 of the owner>/<pack_id>``. The row of a pack is decisive: files without a row do
not count, and a pack with files that differ from its row is not available.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import orjson

from clvlab.agents.isolation.sandbox import CLVLAB, can_lock_in
from clvlab.api.answer import pick
from clvlab.api.packs import UploadedPack, UploadedPackList
from clvlab.api.runs import JobState
from clvlab.arena.jobs import CANCELLED, UPLOAD, Jobs, fenced, until_over
from clvlab.arena.uploads.intake import IncomingUpload, Places, UploadLimits
from clvlab.arena.uploads.requests import UploadRequest
from clvlab.arena.uploads.worker import ANSWER, MADE, SETTINGS
from clvlab.base.files import StagingPath, file_bytes_or_none, flush, flush_all, remove_leftovers
from clvlab.errors import PackError, TransitionError, UnknownPackError, UploadConflictError, UploadRefusedError
from clvlab.packs.catalog import Catalog, entry_of, open_entry
from clvlab.packs.files import file_sha256
from clvlab.packs.manifest import grade_of
from clvlab.packs.reader import Pack, load_pack
from clvlab.runs.progress import OnProgress, Stage
from clvlab.store import jobs as job_rows
from clvlab.store import uploads as rows
from clvlab.store.database import Connection, Database
from clvlab.store.jobs import Job, JobPayload, JobRow, JobStatus
from clvlab.store.runs import RunStatus
from clvlab.store.uploads import UploadRow

# A separate process reads an upload, with limits; its result is then opened here.


_WORKER = "clvlab.arena.uploads.worker"
_MAX_ANSWER = 1 << 16
_MAX_REASON = 1_000
_TELL_S = 0.5
# The environment of the process; without the service's settings, because they may hold a password.
_KEPT = ("LANG", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "SYSTEMROOT", "TZ", "VIRTUAL_ENV")


@dataclass(frozen=True, slots=True)
class VerifiedUpload:
    """A sound pack in the folder of its upload; ``bytes`` is the size of all its files."""

    pack: Pack
    is_genuine: bool
    bytes: int


def verified_upload(
    folder: Path, request: UploadRequest, limits: UploadLimits, tell: Callable[[], None] = lambda: None
) -> VerifiedUpload:
    """Make a pack from a received upload, and verify it in full; ``UploadRefusedError`` names the failure. Blocks.

    ``tell`` is called now and then; an error of it ends the verification.
    """
    answer = _worker_answer(folder, request, limits, tell)
    if answer.get("is_genuine") is None:
        raise UploadRefusedError(str(answer.get("refused"))[:_MAX_REASON])
    made = folder / MADE / (request.pack_id if request.source and request.pack_id else "pack")
    try:
        pack = load_pack(made)
    except PackError as error:
        raise UploadRefusedError("the upload's verification left no sound pack") from error
    files = [path for path in made.rglob("*") if path.is_file()]
    for path in (*files, *{path.parent for path in files}):
        flush(path)
    return VerifiedUpload(pack, answer["is_genuine"] is True, sum(path.stat().st_size for path in files))


def _worker_answer(folder: Path, request: UploadRequest, limits: UploadLimits, tell: Callable[[], None]) -> dict[str, object]:
    scratch = folder / "scratch"
    scratch.mkdir()
    settings = {
        "request": request.model_dump_json(exclude_unset=True),
        "timeout_s": limits.timeout_s,
        "memory_mb": limits.memory_mb,
        "max_owner_bytes": limits.max_owner_bytes,
        "max_ticks": limits.max_ticks,
    }
    (folder / SETTINGS).write_bytes(orjson.dumps(settings))
    process = subprocess.Popen(  # noqa: S603  this interpreter and a module of ours
        [sys.executable, "-P", "-m", _WORKER],
        cwd=folder,
        env=_environment(scratch),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        umask=0o077 if os.name == "posix" else -1,
    )
    until = time.monotonic() + limits.timeout_s
    try:
        while (status := _status(process, min(_TELL_S, until - time.monotonic()))) is None:
            if time.monotonic() >= until:
                raise UploadRefusedError(f"it could not be verified in {limits.timeout_s} s: send less at a time")
            tell()
    finally:
        process.kill()
        process.wait()
    content = file_bytes_or_none(folder / ANSWER, _MAX_ANSWER) if status == 0 else None
    if content is None:
        raise UploadRefusedError(
            f"its verification ended with status {status}: it is damaged, or needs more than {limits.memory_mb} MB to be read"
        )
    try:
        answer = orjson.loads(content)
    except orjson.JSONDecodeError:
        answer = None
    return answer if isinstance(answer, dict) else {}


def _status(process: subprocess.Popen[bytes], within_s: float) -> int | None:
    try:
        return process.wait(max(0.0, within_s))
    except subprocess.TimeoutExpired:
        return None


def _environment(scratch: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in _KEPT}
    named = [str(Path(name).resolve()) for name in kept.get("PYTHONPATH", "").split(os.pathsep) if name]  # it starts elsewhere
    path = os.pathsep.join([str(CLVLAB.parent), *named])
    few = {"POLARS_MAX_THREADS": "2", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return kept | few | {"PYTHONPATH": path, "TMPDIR": str(scratch.resolve()), "PYTHONDONTWRITEBYTECODE": "1"}


_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Uploads:
    database: Database
    catalog: Catalog
    limits: UploadLimits
    clock: Callable[[], int]
    _places: Places = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_places", Places(self.limits))

    def start(self) -> None:
        """Make the folder, and remove files of dead processes."""
        self.limits.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_leftovers(self.limits.folder, ".unfinished-")  # also of older versions; files in use are locked
        if not can_lock_in():
            _log.warning("uploads are verified by a process that is not locked in: this system lacks Landlock or libseccomp")

    def require_place(self, owner: str) -> None:
        """Raise ``BusyError`` if no upload of an owner can be received now, before anything of it is."""
        self._places.require(owner)

    def receive(self, owner: str, request: UploadRequest) -> IncomingUpload:
        return IncomingUpload(owner, request, self.limits, self._places)

    def keep(self, incoming: IncomingUpload) -> tuple[UploadedPack, bool]:
        """Verify a received upload and keep the pack; return it, and whether it is new. Blocks.

        Raises
        ------
        UploadRefusedError
            The upload is not a sound pack; nothing is kept.
        UploadConflictError
            ``reason`` is ``in_catalog``, ``id_taken``, ``too_many`` or ``too_large``; nothing is kept.
        """
        with incoming.handed_over():
            found = verified_upload(incoming.path, incoming.request, self.limits)
            with self.database.write() as connection:
                row, new = self.store(connection, incoming.owner, found, incoming.path)
        return self._info(row), new

    def store(self, connection: Connection, owner: str, found: VerifiedUpload, scratch: Path) -> tuple[UploadRow, bool]:
        """Put a pack's files and row in place, while the owner's packs are locked."""
        pack = found.pack
        row: UploadRow = {
            "owner": owner,
            "pack_id": pack.pack_id,
            "content_hash": pack.content_hash,
            "provenance": pack.provenance,
            "is_genuine": found.is_genuine,
            "fixtures": list(pack.fixture_ids),
            "bytes": found.bytes,
            "entry": entry_of(pack),
            "created_ts_ms": self.clock(),
        }
        target = self._home(owner) / pack.pack_id
        rows.hold(connection, owner)
        kept = rows.of_owner(connection, owner)
        for known in [known for known in kept if known["content_hash"] == pack.content_hash]:
            if self._is_there(known):
                return known, False
            rows.delete(connection, owner, known["pack_id"])  # its files are lost, so this upload replaces it
            kept.remove(known)
        self._check_room(row, kept)
        rows.add(connection, row)
        target.parent.mkdir(mode=0o700, exist_ok=True)
        if target.exists():
            target.rename(scratch / "without-a-row")
        pack.folder.rename(target)
        flush(target.parent)
        return row, True

    def _check_room(self, row: UploadRow, kept: Sequence[UploadRow]) -> None:
        pack_id, limits = row["pack_id"], self.limits
        if pack_id in self.catalog.entries():
            raise UploadConflictError("in_catalog", f"the catalog has a pack {pack_id!r}: take another id")
        if pack_id in {known["pack_id"] for known in kept}:
            raise UploadConflictError("id_taken", f"you have another pack {pack_id!r}: delete it, or take another id")
        if len(kept) >= limits.max_packs:
            raise UploadConflictError("too_many", f"you have {len(kept)} packs, which is the limit: delete one")
        total = row["bytes"] + sum(known["bytes"] for known in kept)
        if total > limits.max_owner_bytes:
            detail = f"your packs would have {total:,} bytes, the limit is {limits.max_owner_bytes:,}: delete one"
            raise UploadConflictError("too_large", detail)

    def all(self, owner: str) -> UploadedPackList:
        """List an owner's packs, by id, without those whose files have changed."""
        with self.database.read() as connection:
            kept = rows.of_owner(connection, owner)
        return {"packs": [self._info(row) for row in kept if self._is_there(row)]}

    def info(self, owner: str, pack_id: str) -> UploadedPack:
        with self.database.read() as connection:
            row = rows.row(connection, owner, pack_id)
        if row is None or not self._is_there(row):
            raise UnknownPackError(f"you have no pack {pack_id!r}")
        return self._info(row)

    def open(self, owner: str, pack_id: str, connection: Connection | None = None) -> Pack:
        if connection is None:
            with self.database.read() as own:
                row = rows.row(own, owner, pack_id)
        else:
            row = rows.row(connection, owner, pack_id)
        if row is None:
            raise UnknownPackError(f"unknown pack {pack_id!r}: neither in the catalog nor among the packs of its owner")
        try:
            return open_entry(self._folder(row), row["entry"])
        except (PackError, OSError) as error:
            raise UnknownPackError(f"pack {pack_id!r} differs from the upload, so it is not available: {error}") from error

    def delete(self, owner: str, pack_id: str) -> None:
        """Delete one of an owner's packs; sealed runs over it stay verifiable.

        Raises
        ------
        UnknownPackError
            The owner has no such pack.
        UploadConflictError
            ``in_use``: an unfinished competition or an unsealed run uses the pack.
        """
        target, trash, moved = self._home(owner) / pack_id, ExitStack(), None
        try:
            with self.database.write() as connection:
                rows.hold(connection, owner)
                row = rows.row(connection, owner, pack_id)
                if row is None:
                    raise UnknownPackError(f"you have no pack {pack_id!r}")
                shadowed = pack_id in self.catalog.entries()  # then the catalog's pack is used instead
                user = None if shadowed else rows.user(connection, owner, pack_id, row["content_hash"])
                if user is not None:
                    name, is_running = user
                    error = UploadConflictError("in_use", f"pack {pack_id!r} is used by {name}, which is not over")
                    raise until_over(error) if is_running else error
                rows.delete(connection, owner, pack_id)
                if target.exists():
                    moved = target.rename(trash.enter_context(StagingPath(self.limits.folder)) / "pack")
        except BaseException:
            if moved is not None:
                moved.rename(target)
            raise
        finally:
            trash.close()

    def every(self) -> list[Mapping[str, Any]]:
        with self.database.read() as connection:
            return [self._with_grade(row) for row in rows.every(connection)]

    def admit(self, owner: str, pack_id: str, catalog: Catalog) -> Pack:
        """Copy an owner's pack into a catalog's folder, verify it there in full, and admit it.

        Raises
        ------
        UnknownPackError
            The owner has no such pack.
        UploadConflictError
            ``in_catalog``: the catalog's folder has another pack of that name, or the pack is already admitted.
        """
        pack, target = self.open(owner, pack_id), catalog.folder / pack_id
        if pack_id in catalog.entries() or (target.exists() and not _is_copy(target, pack)):
            raise UploadConflictError("in_catalog", f"the catalog's folder has a {pack_id!r} already")
        with StagingPath(catalog.folder) as scratch:
            if not target.exists():  # otherwise an interrupted attempt has copied it
                shutil.copytree(pack.folder, scratch / "pack")
                for path in (scratch / "pack", *(scratch / "pack").rglob("*")):  # the catalog may be another user's to read
                    path.chmod(0o755 if path.is_dir() else 0o644)
                flush_all(scratch / "pack")
                (scratch / "pack").rename(target)
                flush(catalog.folder)
        try:
            return catalog.admit(pack_id)
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise

    def _home(self, owner: str) -> Path:
        return self.limits.folder / hashlib.sha256(owner.encode(errors="replace")).hexdigest()

    def _folder(self, row: UploadRow) -> Path:
        return self._home(row["owner"]) / row["pack_id"]

    def _is_there(self, row: UploadRow) -> bool:
        files = {name: self._folder(row) / name for name in row["entry"] if name != "content_hash"}
        return all(path.is_file() and file_sha256(path) == row["entry"][name] for name, path in files.items())

    def _with_grade(self, row: UploadRow) -> Mapping[str, Any]:
        admitted = self.catalog.entries().get(row["pack_id"], {}).get("content_hash") == row["content_hash"]
        return {**row, "grade": grade_of(is_genuine=row["is_genuine"]).value, "admitted": admitted}

    def _info(self, row: UploadRow) -> UploadedPack:
        return pick(UploadedPack, {**self._with_grade(row), "updated_ts_ms": row["created_ts_ms"]})


def _is_copy(folder: Path, pack: Pack) -> bool:
    try:
        open_entry(folder, entry_of(pack))
    except PackError:
        return False
    return True


# The job of an upload that its sender does not wait for: a received file is verified, and the pack is kept.


_RECEIVED = ".received-"
_KEPT_S = 3600.0  # a file without a job may be about to get one
_STATUSES = {
    JobStatus.QUEUED: RunStatus.QUEUED,
    JobStatus.LEASED: RunStatus.RUNNING,
    JobStatus.DONE: RunStatus.SEALED,
    JobStatus.FAILED: RunStatus.FAILED,
    JobStatus.CANCELLED: RunStatus.FAILED,
    JobStatus.REFUSED: RunStatus.FAILED,
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
            received = scratch / "given" / request.stored_name
            received.parent.mkdir()
            os.link(self._file(job.run_id), received)
            try:
                found = verified_upload(scratch, request, self.uploads.limits, lambda: tell(Stage.OPENING))
                with fenced(self.jobs.database, job) as connection:
                    row, is_new = self.uploads.store(connection, owner, found, scratch)
                    self._end(connection, job, JobStatus.DONE, None, {"pack_id": row["pack_id"], "is_new": is_new})
            except PackError as error:
                with fenced(self.jobs.database, job) as connection:
                    self._end(connection, job, JobStatus.REFUSED, str(error), {"reason": getattr(error, "reason", None)})
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
