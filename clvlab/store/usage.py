"""Bytes of runs in the store, by run and by owner."""

from __future__ import annotations

from sqlalchemy import Connection, Table, delete, func, select, update

from clvlab.api.leaderboard import Belongings
from clvlab.log.entries import EntryKind
from clvlab.store.database import insert
from clvlab.store.runs import RunStatus
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


_WITH_RUN = (
    (run_chunks.c.lines, run_chunks.c.run_id),
    (receipts.c.lines, receipts.c.run_id),
    (reports.c.report, reports.c.run_id),
)
_OF_THE_ORIGIN = (
    (competition_events.c.events, competition_events.c.competition_id),
    (runtime_events.c.payload, runtime_events.c.instance_id),
)


def bytes_of(connection: Connection, owner: str) -> int:
    return int(connection.execute(select(usage.c.bytes).where(usage.c.owner == owner)).scalar() or 0)


def total_bytes(connection: Connection) -> int:
    return int(connection.execute(select(func.sum(usage.c.bytes))).scalar() or 0)


def weigh(connection: Connection, run_id: str) -> None:
    """Store the size of a sealed run, including events and report, for the run and its owner."""
    run = connection.execute(
        select(runs.c.owner, runs.c.origin_id, runs.c.stored_bytes, func.length(runs.c.manifest).label("manifest")).where(
            runs.c.run_id == run_id
        )
    ).one()
    total = int(run.manifest or 0)
    for found, key in ((_WITH_RUN, run_id), (_OF_THE_ORIGIN, run.origin_id)):
        for content, of in found:
            total += int(connection.execute(select(func.sum(func.length(content))).where(of == key)).scalar() or 0)
    _note(connection, run_id, run.owner, total, total - (run.stored_bytes or 0))


def _note(connection: Connection, run_id: str, owner: str | None, total: int, change: int) -> None:
    connection.execute(update(runs).where(runs.c.run_id == run_id).values(stored_bytes=total))
    if owner is not None:
        grown = insert(connection, usage).values(owner=owner, bytes=change)
        both = {"bytes": usage.c.bytes + grown.excluded.bytes}
        connection.execute(grown.on_conflict_do_update(index_elements=["owner"], set_=both))


def sealed_before(connection: Connection, owner: str, kind: str, ts_ms: int, limit: int) -> list[str]:
    own = runs.c
    query = select(own.run_id).where(
        own.owner == owner, own.kind == kind, own.status == RunStatus.SEALED, own.sealed_ts_ms < ts_ms
    )
    return list(connection.execute(query.order_by(own.sealed_ts_ms, own.run_id).limit(limit)).scalars())


def remove(connection: Connection, run_id: str) -> int:
    """Remove the bytes of a sealed run and its report, and return their number; row, hashes and counts stay."""
    run = connection.execute(
        select(runs.c.owner, runs.c.status, runs.c.stored_bytes).where(runs.c.run_id == run_id).with_for_update()
    ).one()
    if run.status != RunStatus.SEALED:  # another process removed it
        return 0
    for table in (run_chunks, receipts, agent_errors, reports, backtest_requests):
        connection.execute(delete(table).where(table.c.run_id == run_id))
    connection.execute(update(runs).where(runs.c.run_id == run_id).values(status=RunStatus.REMOVED, manifest=None))
    freed = int(run.stored_bytes or 0)
    _note(connection, run_id, run.owner, 0, -freed)
    return freed
