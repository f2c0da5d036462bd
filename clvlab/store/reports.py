"""Backtest reports as rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select

from clvlab.store.database import insert
from clvlab.store.tables import reports


def add(connection: Connection, values: Mapping[str, Any]) -> None:
    """Store a report; one of the same id is the same, since the id hashes all that shapes it."""
    connection.execute(insert(connection, reports).values(**values).on_conflict_do_nothing())


def report(connection: Connection, backtest_id: str) -> dict[str, Any] | None:
    """Return a stored report."""
    found: dict[str, Any] | None = connection.execute(
        select(reports.c.report).where(reports.c.backtest_id == backtest_id)
    ).scalar()
    return found
