"""Bytes of runs in the store, by run and by owner."""

from __future__ import annotations

from sqlalchemy import Connection, Table, bindparam, delete, func, select

from clvlab.api.leaderboard import Belongings
from clvlab.log.entries import EntryKind
from clvlab.store.database import insert
from clvlab.store.runs import RunStatus
from clvlab.store.runs import change as change_run
from clvlab.store.tables import (
    agent_errors,
    backtest_requests,
    competition_events,
    competitions,
    instances,
    log_entries,
    receipts,
    reports,
    run_chunks,
    runs,
    runtime_events,
    usage,
)

# Belongings of a principal, counted.


def belongings(connection: Connection, owner: str) -> Belongings:
    """Count the instances and competitions of an owner, and its runs by the log's index."""
    query = select(log_entries.c.kind, func.count()).where(log_entries.c.owner == owner).group_by(log_entries.c.kind)
    tally: dict[str, int] = dict(connection.execute(query).all())
    return {
        "instances": _count(connection, instances, owner),
        "competitions": _count(connection, competitions, owner),
        "runs": {
            "committed": tally.get(EntryKind.COMMIT, 0),
            "sealed": tally.get(EntryKind.RESULT, 0),
            "abandoned": tally.get(EntryKind.ABANDONED, 0),
        },
    }


def _count(connection: Connection, table: Table, owner: str) -> int:
    return int(connection.execute(select(func.count()).select_from(table).where(table.c.owner == owner)).scalar_one())


_CONTENT = (
    (run_chunks.c.lines, run_chunks.c.run_id == runs.c.run_id),
    (receipts.c.lines, receipts.c.run_id == runs.c.run_id),
    (reports.c.report, reports.c.run_id == runs.c.run_id),
    (competition_events.c.events, competition_events.c.competition_id == runs.c.origin_id),
    (runtime_events.c.payload, runtime_events.c.instance_id == runs.c.origin_id),
)
_SIZES = (select(func.sum(func.length(content))).where(own).correlate(runs).scalar_subquery() for content, own in _CONTENT)
_WEIGHED = select(runs.c.owner, runs.c.stored_bytes, func.length(runs.c.manifest), *_SIZES).where(
    runs.c.run_id == bindparam("of_run")
)
_BYTES = select(usage.c.bytes).where(usage.c.owner == bindparam("of_owner"))


def bytes_of(connection: Connection, owner: str) -> int:
    return int(connection.execute(_BYTES, {"of_owner": owner}).scalar() or 0)


def total_bytes(connection: Connection) -> int:
    return int(connection.execute(select(func.sum(usage.c.bytes))).scalar() or 0)


def weigh(connection: Connection, run_id: str) -> None:
    """Store the size of a sealed run, including events and report, for the run and its owner."""
    owner, before, *sizes = connection.execute(_WEIGHED, {"of_run": run_id}).one()
    total = sum(int(size or 0) for size in sizes)
    _note(connection, run_id, owner, total, total - (before or 0))


def _note(connection: Connection, run_id: str, owner: str | None, total: int, change: int) -> None:
    change_run(connection, run_id, stored_bytes=total)
    if owner is not None:
        grown = insert(connection, usage)
        both = {"bytes": usage.c.bytes + grown.excluded.bytes}
        upsert = grown.on_conflict_do_update(index_elements=["owner"], set_=both)
        connection.execute(upsert, {"owner": owner, "bytes": change})


def sealed_before(connection: Connection, owner: str, kind: str, ts_ms: int, limit: int) -> list[str]:
    own = runs.c
    query = select(own.run_id).where(
        own.owner == owner, own.kind == kind, own.status == RunStatus.SEALED, own.sealed_ts_ms < ts_ms
    )
    return list(connection.execute(query.order_by(own.sealed_ts_ms, own.run_id).limit(limit)).scalars())


def remove(connection: Connection, run_id: str, ts_ms: int) -> int:
    """Remove the bytes of a sealed run and its report, and return their number; row, hashes and counts stay."""
    run = connection.execute(
        select(runs.c.owner, runs.c.status, runs.c.stored_bytes).where(runs.c.run_id == run_id).with_for_update()
    ).one()
    if run.status != RunStatus.SEALED:  # another process removed it
        return 0
    for table in (run_chunks, receipts, agent_errors, reports, backtest_requests):
        connection.execute(delete(table).where(table.c.run_id == run_id))
    change_run(connection, run_id, status=RunStatus.REMOVED, manifest=None, updated_ts_ms=ts_ms)
    freed = int(run.stored_bytes or 0)
    _note(connection, run_id, run.owner, 0, -freed)
    return freed
