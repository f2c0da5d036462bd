"""Backtest reports as rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, delete, func, select

from clvlab.store.database import insert
from clvlab.store.tables import backtest_requests, reports


def add(connection: Connection, values: Mapping[str, Any]) -> None:
    """Store a report; one of the same id is the same, since the id hashes all that shapes it."""
    connection.execute(insert(connection, reports).values(**values).on_conflict_do_nothing())


def report(connection: Connection, backtest_id: str) -> dict[str, Any] | None:
    """Return a stored report."""
    found: dict[str, Any] | None = connection.execute(
        select(reports.c.report).where(reports.c.backtest_id == backtest_id)
    ).scalar()
    return found


def run_of_key(connection: Connection, key: str) -> str | None:
    """Return the run that a key stands for."""
    own = backtest_requests.c
    return connection.execute(select(own.run_id).where(own.key == key)).scalar()


def take_key(connection: Connection, key: str, run_id: str, ts_ms: int, *, given: bool) -> str | None:
    """Have a key stand for a run, unless it stands for one already; returns the run that it stands for."""
    values = {"key": key, "run_id": run_id, "given": given, "created_ts_ms": ts_ms}
    connection.execute(insert(connection, backtest_requests).values(**values).on_conflict_do_nothing())
    return run_of_key(connection, key)


def withdraw(connection: Connection, key: str, run_id: str) -> int:
    """Forget a key; returns under how many others the run was asked for."""
    own = backtest_requests.c
    connection.execute(delete(backtest_requests).where(own.key == key))
    return int(connection.execute(select(func.count()).where(own.run_id == run_id)).scalar_one())


def forget_tickets(connection: Connection, run_id: str) -> None:
    """Forget the keys of a run that is over, but for those that callers chose."""
    own = backtest_requests.c
    connection.execute(delete(backtest_requests).where(own.run_id == run_id, own.given.is_(False)))
