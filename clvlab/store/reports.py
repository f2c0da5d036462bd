"""Backtest reports as rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import orjson
from sqlalchemy import Connection, Text, bindparam, delete, func, select, type_coerce, update

from clvlab.api.backtests import BacktestReport
from clvlab.proof.canonical import sha256
from clvlab.store.database import insert
from clvlab.store.tables import backtest_requests, reports

_REPORT = select(type_coerce(reports.c.report, Text)).where(reports.c.backtest_id == bindparam("backtest_id"))
_OF_RUN = backtest_requests.c.run_id == bindparam("of_run")
_FORGOTTEN = delete(backtest_requests).where(_OF_RUN, backtest_requests.c.given.is_(False))
_OVER = update(backtest_requests).where(_OF_RUN).values(active=False)


def add(connection: Connection, values: Mapping[str, Any]) -> None:
    """Store a report with a digest. Reports with one id are equal, because the id hashes everything that shapes them."""
    report = {"report": values["report"], "sha256": _digest(values["backtest_id"], values["report"])}
    query = insert(connection, reports)  # an existing report may be damaged
    query = query.on_conflict_do_update(index_elements=["backtest_id"], set_={"report": query.excluded.report})
    connection.execute(query, {**values, "report": report})


def report(connection: Connection, backtest_id: str) -> BacktestReport | None:
    """Return a stored report; ``None``, with a warning, if it is damaged or belongs to another backtest.

    Without a warning the result is ``None`` if there is no report, or if the report predates digests.
    """
    found: str | None = connection.execute(_REPORT, {"backtest_id": backtest_id}).scalar()
    if found is None:
        return None
    try:
        kept = orjson.loads(found)
    except orjson.JSONDecodeError:
        kept = None
    if isinstance(kept, dict):
        report: BacktestReport | None = kept.get("report")
        if kept == {"report": report, "sha256": _digest(backtest_id, report)}:
            return report
        if kept.get("backtest_id") == backtest_id and "sha256" not in kept:
            return None
    warnings.warn(f"the report of {backtest_id} is damaged in the store: it is made again from its run", stacklevel=2)
    return None


def created_ts_ms(connection: Connection, backtest_id: str) -> int | None:
    query = select(reports.c.created_ts_ms).where(reports.c.backtest_id == backtest_id)
    created: int | None = connection.execute(query).scalar()
    return created


def _digest(backtest_id: str, report: object) -> str:
    return sha256(orjson.dumps([backtest_id, report], option=orjson.OPT_SORT_KEYS))


def run_of_key(connection: Connection, key: str) -> str | None:
    own = backtest_requests.c
    return connection.execute(select(own.run_id).where(own.key == key)).scalar()


def take_key(
    connection: Connection, key: str, run_id: str, ts_ms: int, *, chosen: bool, active: bool, owner: str | None = None
) -> str | None:
    """Assign a key to a run, unless the key has a run; return the run of the key."""
    own, taken = backtest_requests.c, insert(connection, backtest_requests)
    again = own.active | (taken.excluded.active & (taken.excluded.run_id == own.run_id))
    taken = taken.on_conflict_do_update(
        index_elements=["key"], set_={"active": again, "owner": func.coalesce(own.owner, taken.excluded.owner)}
    )
    values = {"key": key, "run_id": run_id, "given": chosen, "active": active, "created_ts_ms": ts_ms, "owner": owner}
    return connection.execute(taken.returning(own.run_id), values).scalar()


def withdraw(connection: Connection, run_id: str, key: str | None, owner: str | None) -> int | None:
    """Withdraw a key from a run, or all keys of an owner; return the number of others that wait, ``None`` if it has none."""
    own = backtest_requests.c
    mine = own.owner == owner if key is None else own.key == key
    withdrawn = connection.execute(update(backtest_requests).where(mine, own.run_id == run_id, own.active).values(active=False))
    if not withdrawn.rowcount:
        return None
    query = select(func.count()).where(own.run_id == run_id, own.active)
    return int(connection.execute(query).scalar_one())


def forget_tickets(connection: Connection, run_id: str) -> None:
    """Withdraw all keys from a finished run; keys that callers chose keep their run, others are removed."""
    for query in (_FORGOTTEN, _OVER):
        connection.execute(query, {"of_run": run_id})
