"""What belongs to a principal, counted."""

from __future__ import annotations

from sqlalchemy import Connection, Table, func, select

from clvlab.store.tables import competitions, instances, log_entries


def counts(connection: Connection, owner: str) -> dict[str, int]:
    """Count the instances and competitions of an owner."""
    return {table.name: _count(connection, table, owner) for table in (instances, competitions)}


def tally(connection: Connection, owner: str) -> dict[str, int]:
    """Count an owner's entries of the run log by kind; the index over both answers it."""
    query = select(log_entries.c.kind, func.count()).where(log_entries.c.owner == owner).group_by(log_entries.c.kind)
    return {str(kind): int(count) for kind, count in connection.execute(query)}


def _count(connection: Connection, table: Table, owner: str) -> int:
    return int(connection.execute(select(func.count()).select_from(table).where(table.c.owner == owner)).scalar_one())
