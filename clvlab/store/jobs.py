"""Jobs as leased rows: only the holder of the newest token may store the result of a job.

A dead worker does not renew its lease, so the job is claimed again with a higher ``attempt``, the fencing token. A slow worker
finds its token outdated (``fence``) and stores nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NotRequired, TypedDict

from sqlalchemy import ColumnElement, Connection, and_, case, func, or_, select, update

from clvlab.api.answer import JsonObject
from clvlab.errors import LeaseLostError
from clvlab.store.database import insert
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


class JobPayload(TypedDict):
    """A job's competition, instance or run, with the request of a backtest or the fixture of a live run."""

    origin_id: str
    request: NotRequired[JsonObject]
    fixture: NotRequired[JsonObject]


@dataclass(frozen=True, slots=True)
class Job:
    """A claimed job. ``attempt`` is its fencing token; ``postponed`` counts attempts that ended with a reason to retry."""

    job_id: int
    kind: str
    run_id: str
    payload: JobPayload
    attempt: int
    postponed: int = 0


def add(connection: Connection, kind: str, run_id: str, payload: JobPayload, now_ms: int) -> int:
    added = connection.execute(
        jobs.insert()
        .values(kind=kind, run_id=run_id, payload=payload, status=JobStatus.QUEUED, attempt=0, created_ts_ms=now_ms)
        .returning(jobs.c.job_id)
    )
    announce(connection, ADDED)
    return int(added.scalar_one())


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
    expired = or_(jobs.c.lease_until_ts_ms + _rest_ms() <= now_ms, jobs.c.leased_ts_ms > now_ms + lease_ms)
    free = or_(jobs.c.status == JobStatus.QUEUED, and_(jobs.c.status == JobStatus.LEASED, expired))
    query = (
        select(jobs, runs.c.owner)
        .outerjoin(runs, runs.c.run_id == jobs.c.run_id)
        .outerjoin(turns, turns.c.owner == runs.c.owner)
        .where(free, jobs.c.kind.in_(kinds))
        .order_by(func.coalesce(turns.c.turn, -1), jobs.c.job_id)
        .limit(1)
        .with_for_update(skip_locked=True, of=jobs)
    )
    if run_id is not None:
        query = query.where(jobs.c.run_id == run_id)
    if waited_ms:
        query = query.where(jobs.c.created_ts_ms < now_ms - waited_ms)
    found = connection.execute(query).first()
    if found is None:
        return None
    attempt = found.attempt + 1
    connection.execute(
        update(jobs)
        .where(jobs.c.job_id == found.job_id)
        .values(status=JobStatus.LEASED, attempt=attempt, leased_ts_ms=now_ms, lease_until_ts_ms=now_ms + lease_ms)
    )
    if found.owner is not None:
        _take_turn(connection, found.owner)
    return Job(found.job_id, found.kind, found.run_id, found.payload, attempt, found.postponed)


def _take_turn(connection: Connection, owner: str) -> None:
    newest = select(func.coalesce(func.max(turns.c.turn), 0) + 1).scalar_subquery()
    taken = insert(connection, turns).values(owner=owner, turn=newest)
    connection.execute(taken.on_conflict_do_update(index_elements=["owner"], set_={"turn": taken.excluded.turn}))


def open_of(connection: Connection, owner: str, kinds: Collection[str]) -> int:
    query = select(func.count()).select_from(jobs).join(runs, runs.c.run_id == jobs.c.run_id)
    is_open = jobs.c.status.in_((JobStatus.QUEUED, JobStatus.LEASED))
    return int(connection.execute(query.where(is_open, jobs.c.kind.in_(kinds), runs.c.owner == owner)).scalar_one())


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
    query = select(jobs).where(jobs.c.run_id == run_id, jobs.c.kind.in_(kinds)).order_by(jobs.c.job_id.desc()).limit(1)
    found = connection.execute(query.with_for_update()).first()
    if found is None or found.status not in (JobStatus.QUEUED, JobStatus.LEASED):
        return None
    return Job(found.job_id, found.kind, found.run_id, found.payload, found.attempt, found.postponed)


def note_progress(connection: Connection, job: Job, progress: Any) -> None:
    """Store the progress of the newest attempt at a job; an older attempt stores nothing."""
    own = (jobs.c.job_id == job.job_id) & (jobs.c.attempt == job.attempt)
    connection.execute(update(jobs).where(own).values(progress=progress))
    announce(connection, job.run_id)


def progress(connection: Connection, run_id: str) -> Any:
    query = select(jobs.c.progress).where(jobs.c.run_id == run_id)
    return connection.execute(query.order_by(jobs.c.job_id.desc()).limit(1)).scalar()


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
    query = select(jobs.c.status, jobs.c.attempt).where(jobs.c.job_id == job.job_id).with_for_update()
    found = connection.execute(query).first()
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
    connection.execute(update(jobs).where(jobs.c.job_id == job.job_id).values(status=status, cause=cause))
    for subject in (job.run_id, ENDED):
        announce(connection, subject)


def counts(connection: Connection) -> dict[str, int]:
    found = connection.execute(select(jobs.c.status, func.count()).group_by(jobs.c.status)).all()
    return {status.value: 0 for status in JobStatus} | {status: int(count) for status, count in found}


def waiting_since(connection: Connection, now_ms: int) -> dict[str, int]:
    """Return by kind the time since which its oldest job can be claimed: it was queued then, or its lease ran out."""
    queued = jobs.c.status == JobStatus.QUEUED
    since = case((queued, jobs.c.created_ts_ms), else_=jobs.c.lease_until_ts_ms + _rest_ms())
    free = or_(queued, and_(jobs.c.status == JobStatus.LEASED, since <= now_ms))
    query = select(jobs.c.kind, func.min(since)).where(free).group_by(jobs.c.kind)
    return {str(kind): int(first) for kind, first in connection.execute(query)}
