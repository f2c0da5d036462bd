"""Backtest reports as rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, delete, func, select, update

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


def run_of_key(connection: Connection, key: str, *, active: bool = False) -> str | None:
    """Return the run that a key stands for; with ``active`` only if whoever has it waits for the run."""
    own = backtest_requests.c
    query = select(own.run_id).where(own.key == key)
    return connection.execute(query.where(own.active) if active else query).scalar()


def take_key(connection: Connection, key: str, run_id: str, ts_ms: int, *, given: bool, active: bool) -> str | None:
    """Have a key stand for a run, unless it stands for another; returns the run that it stands for."""
    own = backtest_requests.c
    values = {"key": key, "run_id": run_id, "given": given, "active": active, "created_ts_ms": ts_ms}
    connection.execute(insert(connection, backtest_requests).values(**values).on_conflict_do_nothing())
    if active:
        connection.execute(update(backtest_requests).where(own.key == key, own.run_id == run_id).values(active=True))
    return run_of_key(connection, key)


def withdraw(connection: Connection, key: str, run_id: str) -> int:
    """Have nobody wait for a run under a key; returns under how many others somebody does."""
    own = backtest_requests.c
    connection.execute(update(backtest_requests).where(own.key == key).values(active=False))
    query = select(func.count()).where(own.run_id == run_id, own.active)
    return int(connection.execute(query).scalar_one())


def forget_tickets(connection: Connection, run_id: str) -> None:
    """Have nobody wait for a run that is over; keys that callers chose stand for it for good, the others are forgotten."""
    own = backtest_requests.c
    connection.execute(delete(backtest_requests).where(own.run_id == run_id, own.given.is_(False)))
    connection.execute(update(backtest_requests).where(own.run_id == run_id).values(active=False))
