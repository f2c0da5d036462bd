"""Jobs as leased rows: only the holder of the newest token may store the result of a job.

A dead worker does not renew its lease, so the job is claimed again with a higher ``attempt``, the fencing token. A slow worker
finds its token outdated (``fence``) and stores nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NotRequired, TypedDict

from sqlalchemy import ColumnElement, Connection, and_, bindparam, case, func, or_, select, update

from clvlab.api.answer import JsonObject
from clvlab.errors import LeaseLostError
from clvlab.law.schema import SAFE_INTEGER
from clvlab.store.database import columns, first, insert
from clvlab.store.news import announce
from clvlab.store.tables import jobs, runs, turns

ADDED, ENDED = "jobs", "jobs-over"
"""Subjects of news: a job can be claimed; a job has ended."""
_RESTS_MS = {2: 10_000, 3: 60_000}  # by number of attempts that ended without a report
_LONGEST_MS = 300_000
_PARTS = 8


class JobStatus(StrEnum):
    QUEUED = "queued"
    LEASED = "leased"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REFUSED = "refused"  # an upload that is not a valid pack


_OPEN = jobs.c.status.in_((JobStatus.QUEUED, JobStatus.LEASED))
_IS = jobs.c.job_id == bindparam("of_job")
_ADD, _CHANGE = jobs.insert().returning(jobs.c.job_id), update(jobs).where(_IS)
_FENCE = select(jobs.c.status, jobs.c.attempt).where(_IS).with_for_update()
_OF_RUN = select(jobs).where(jobs.c.run_id == bindparam("run_id"), jobs.c.kind.in_(bindparam("kinds", expanding=True)))
_NEXT_TURN = select(func.coalesce(func.max(turns.c.turn), 0) + 1).scalar_subquery()
_HELD = _OF_RUN.order_by(jobs.c.job_id.desc()).limit(1).with_for_update()


class JobPayload(TypedDict):
    """A job's competition, instance, run or upload; the request of a backtest or upload, or the fixture of a live run."""

    origin_id: str
    request: NotRequired[JsonObject]
    fixture: NotRequired[JsonObject]
    owner: NotRequired[str]  # of an upload, which has no run


class JobRow(TypedDict):
    """A job; after the end of an upload ``progress`` is its result."""

    status: str
    cause: str | None
    payload: JobPayload
    progress: Any


@dataclass(frozen=True, slots=True)
class Job:
    """A claimed job. ``attempt`` is its fencing token; ``postponed`` counts attempts that ended with a reason to retry.

    ``commit_index`` is the commitment to a run that began in the transaction that stored its job.
    """

    job_id: int
    kind: str
    run_id: str
    payload: JobPayload
    attempt: int
    postponed: int = 0
    commit_index: int | None = None


def add(connection: Connection, kind: str, run_id: str, payload: JobPayload, now_ms: int, lease_ms: int | None = None) -> int:
    """Store a job and return its id; with ``lease_ms`` it is claimed in the same moment, and no other worker sees it free."""
    status, attempt, times = JobStatus.QUEUED, 0, {"created_ts_ms": now_ms}
    if lease_ms is None:
        announce(connection, ADDED)
    else:
        status, attempt = JobStatus.LEASED, 1
        times |= {"leased_ts_ms": now_ms, "lease_until_ts_ms": now_ms + lease_ms}
    values = {"kind": kind, "run_id": run_id, "payload": payload, "status": status, "attempt": attempt, **times}
    return int(connection.execute(_ADD, values).scalar_one())


def claim(
    connection: Connection,
    kinds: Collection[str],
    now_ms: int,
    lease_ms: int,
    run_id: str | None = None,
    waited_ms: int = 0,
) -> Job | None:
    """Lease a free job of these kinds that was queued ``waited_ms`` ago, of one run or of any.

    Owners take turns, so that no owner waits for all jobs of another. Of one owner's jobs the oldest is next. A job is free
    when its lease has expired. It is also free if its lease starts in the future: the clock was then set back, and the lease
    might never end.
    """
    query = (
        select(jobs, runs.c.owner)
        .outerjoin(runs, runs.c.run_id == jobs.c.run_id)
        .outerjoin(turns, turns.c.owner == runs.c.owner)
        .where(_OPEN, jobs.c.kind.in_(kinds), _free_from(now_ms, lease_ms, waited_ms) <= now_ms)
        .order_by(func.coalesce(turns.c.turn, -1), jobs.c.job_id)
        .limit(1)
        .with_for_update(skip_locked=True, of=jobs)
    )
    if run_id is not None:
        query = query.where(jobs.c.run_id == run_id)
    found = connection.execute(query).first()
    if found is None:
        return None
    attempt, lease = found.attempt + 1, {"leased_ts_ms": now_ms, "lease_until_ts_ms": now_ms + lease_ms}
    connection.execute(_CHANGE, {"of_job": found.job_id, "status": JobStatus.LEASED, "attempt": attempt, **lease})
    if found.owner is not None:
        take_turn(connection, found.owner)
    return Job(found.job_id, found.kind, found.run_id, found.payload, attempt, found.postponed)


def take_turn(connection: Connection, owner: str) -> None:
    """Note that a job of an owner was claimed, so that the jobs of others come first."""
    taken = insert(connection, turns).values(turn=_NEXT_TURN)
    taken = taken.on_conflict_do_update(index_elements=["owner"], set_={"turn": taken.excluded.turn})
    connection.execute(taken, {"owner": owner})


def free_from(
    connection: Connection, now_ms: int, lease_ms: int = SAFE_INTEGER, waited_ms: int = 0, run_id: str | None = None
) -> dict[str, int]:
    """Return by kind the time from which its first open job, of one run or of any, can be claimed; it may be over."""
    free = func.min(_free_from(now_ms, lease_ms, waited_ms))
    query = select(jobs.c.kind, free).where(_OPEN).group_by(jobs.c.kind)
    found = connection.execute(query if run_id is None else query.where(jobs.c.run_id == run_id))
    return {str(kind): int(first) for kind, first in found}


def _free_from(now_ms: int, lease_ms: int, waited_ms: int) -> ColumnElement[int]:
    """Return the time from which an open job is free; after the clock was set back, a time in the future might never come."""
    is_queued = jobs.c.status == JobStatus.QUEUED
    set_back = or_(and_(is_queued, jobs.c.created_ts_ms > now_ms), jobs.c.leased_ts_ms > now_ms + lease_ms)
    return case((set_back, now_ms), (is_queued, jobs.c.created_ts_ms + waited_ms), else_=jobs.c.lease_until_ts_ms + _rest_ms())


def open_of(connection: Connection, owner: str, kinds: Collection[str]) -> int:
    query = select(func.count()).select_from(jobs).join(runs, runs.c.run_id == jobs.c.run_id)
    return int(connection.execute(query.where(_OPEN, jobs.c.kind.in_(kinds), runs.c.owner == owner)).scalar_one())


def _rest_ms() -> ColumnElement[int]:
    """Return the time for which a job rests after its lease expired, by the number of attempts without a report.

    So a job that kills its process does not prevent other jobs. Jobs that were in one process when it died rest for different
    times, so that they do not all run at the same time again.
    """
    silent = jobs.c.attempt - jobs.c.postponed
    rests = [(silent == count, rest_ms) for count, rest_ms in _RESTS_MS.items()]
    rest: ColumnElement[int] = case(*rests, (silent > max(_RESTS_MS), _LONGEST_MS), else_=0)
    return rest * (_PARTS + jobs.c.job_id % _PARTS) // _PARTS


def hold_open(connection: Connection, run_id: str, kinds: Collection[str]) -> Job | None:
    """Lock the queued or leased job of a run for the rest of the transaction; ``None`` without one."""
    found = connection.execute(_HELD, {"run_id": run_id, "kinds": kinds}).first()
    if found is None or found.status not in (JobStatus.QUEUED, JobStatus.LEASED):
        return None
    return Job(found.job_id, found.kind, found.run_id, found.payload, found.attempt, found.postponed)


def note_progress(connection: Connection, job: Job, progress: Any) -> None:
    """Store the progress of the newest attempt at a job; an older attempt stores nothing."""
    connection.execute(_CHANGE.where(jobs.c.attempt == job.attempt), {"of_job": job.job_id, "progress": progress})
    announce(connection, job.run_id)


def progress(connection: Connection, run_id: str) -> Any:
    query = select(jobs.c.progress).where(jobs.c.run_id == run_id)
    return connection.execute(query.order_by(jobs.c.job_id.desc()).limit(1)).scalar()


def newest(connection: Connection, kind: str, run_id: str) -> JobRow | None:
    query = select(*columns(jobs, JobRow)).where(jobs.c.run_id == run_id, jobs.c.kind == kind)
    return first(connection, query.order_by(jobs.c.job_id.desc()).limit(1), JobRow)


def renew(connection: Connection, job: Job, now_ms: int, lease_ms: int) -> bool:
    """Extend a lease from now; False if it is lost."""
    renewed = connection.execute(
        update(jobs)
        .where(jobs.c.job_id == job.job_id, jobs.c.status == JobStatus.LEASED, jobs.c.attempt == job.attempt)
        .values(leased_ts_ms=now_ms, lease_until_ts_ms=now_ms + lease_ms)
    )
    return renewed.rowcount == 1


def fence(connection: Connection, job: Job) -> None:
    """Lock the job for the rest of the transaction, if its token is still the newest.

    Raises
    ------
    LeaseLostError
        Another worker claimed the job, or it is over.
    """
    found = connection.execute(_FENCE, {"of_job": job.job_id}).first()
    if found is None or (found.status, found.attempt) != (JobStatus.LEASED, job.attempt):
        raise LeaseLostError(f"job {job.job_id}: attempt {job.attempt} was overtaken; nothing of it was stored")


def postpone(connection: Connection, job: Job, now_ms: int, delay_ms: int, cause: str) -> None:
    """Set a fenced job aside; it can't be claimed until the delay is over."""
    connection.execute(
        update(jobs)
        .where(jobs.c.job_id == job.job_id)
        .values(postponed=jobs.c.postponed + 1, leased_ts_ms=now_ms, lease_until_ts_ms=now_ms + delay_ms, cause=cause)
    )


def give_back(connection: Connection, job: Job) -> bool:
    """Free a job for other workers after an attempt with a report; False if its token is outdated."""
    newest = (jobs.c.job_id == job.job_id) & (jobs.c.status == JobStatus.LEASED) & (jobs.c.attempt == job.attempt)
    returned = connection.execute(update(jobs).where(newest).values(status=JobStatus.QUEUED, postponed=jobs.c.postponed + 1))
    announce(connection, ADDED)
    return returned.rowcount == 1


def finish(connection: Connection, job: Job, status: JobStatus, cause: str | None = None) -> None:
    connection.execute(_CHANGE, {"of_job": job.job_id, "status": status, "cause": cause})
    for subject in (job.run_id, ENDED):
        announce(connection, subject)


def counts(connection: Connection) -> dict[str, int]:
    found = connection.execute(select(jobs.c.status, func.count()).group_by(jobs.c.status)).all()
    usual = {status.value: 0 for status in JobStatus if status not in (JobStatus.CANCELLED, JobStatus.REFUSED)}
    return usual | {str(status): int(count) for status, count in found}


def failed(connection: Connection) -> dict[str, int]:
    """Count the failed jobs by kind."""
    query = select(jobs.c.kind, func.count()).where(jobs.c.status == JobStatus.FAILED).group_by(jobs.c.kind)
    return {str(kind): int(count) for kind, count in connection.execute(query)}


def open_since(connection: Connection) -> dict[str, int]:
    """Return by kind the time at which its oldest unfinished job was stored, however often it was tried."""
    query = select(jobs.c.kind, func.min(jobs.c.created_ts_ms)).where(_OPEN).group_by(jobs.c.kind)
    return {str(kind): int(since) for kind, since in connection.execute(query)}
