"""Anchors of runs as rows: the public part, and the record of signed transactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from clvlab.proof.anchor import Anchor
from clvlab.store import runs, standings
from clvlab.store.tables import anchors

_IS = anchors.c.run_id == bindparam("of_run")
_ANCHOR = select(*(anchors.c[field.name] for field in fields(Anchor))).where(_IS)
_STATUS = select(anchors.c.status).where(_IS).with_for_update()


def anchor_of(connection: Connection, run_id: str) -> Anchor | None:
    found = connection.execute(_ANCHOR, {"of_run": run_id}).one_or_none()
    return None if found is None else Anchor(*found)


def hold(connection: Connection, run_id: str) -> str | None:
    return connection.execute(_STATUS, {"of_run": run_id}).scalar()


def changed_ts_ms(connection: Connection, run_id: str) -> int:
    """Return the time of the last change of a run's recorded anchor."""
    return int(connection.execute(select(anchors.c.updated_ts_ms).where(anchors.c.run_id == run_id)).scalar_one())


def set_anchor(connection: Connection, run_id: str, anchor: Anchor, ts_ms: int) -> None:
    """Record a run's anchor, and count it in the standings of the run's agents."""
    before = hold(connection, run_id)
    values = asdict(anchor) | {"updated_ts_ms": ts_ms}
    if before is None:
        connection.execute(anchors.insert(), {"run_id": run_id, **values})
        return  # the run's results will be added with this status
    connection.execute(update(anchors).where(anchors.c.run_id == run_id).values(**values))
    runs.change(connection, run_id, updated_ts_ms=ts_ms)
    standings.count_anchor(connection, run_id, before, anchor.status)


def record(connection: Connection, run_id: str) -> Any:
    return connection.execute(select(anchors.c.record).where(anchors.c.run_id == run_id)).scalar()


def set_record(connection: Connection, run_id: str, payload: Mapping[str, object]) -> None:
    connection.execute(update(anchors).where(anchors.c.run_id == run_id).values(record=payload))
