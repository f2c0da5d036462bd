"""Agent instances, their runtime events and idempotency keys as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, select, update
from typing_extensions import TypedDict

from clvlab.api.competitions import InstanceRecord, RuntimeEvent
from clvlab.store.database import columns, first, insert, rows
from clvlab.store.tables import idempotency, instances, runtime_events


class InstanceRow(TypedDict):
    """An agent instance; ``owner`` is ``None`` without an owner."""

    instance_id: str
    owner: str | None
    run_id: str
    record: InstanceRecord
    created_ts_ms: int


def add(connection: Connection, record: InstanceRecord) -> None:
    row = {name: record[name] for name in ("instance_id", "owner", "template", "run_id", "created_ts_ms")}
    connection.execute(instances.insert().values(next_event_id=1, record=record, **row))


def row(connection: Connection, instance_id: str, *, lock: bool = False) -> InstanceRow | None:
    query = select(*columns(instances, InstanceRow)).where(instances.c.instance_id == instance_id)
    return first(connection, query.with_for_update() if lock else query, InstanceRow)


def remove(connection: Connection, instance_id: str) -> None:
    """Remove an instance and its events. Its row stays without owner and record, so that its idempotency key stays used."""
    connection.execute(delete(runtime_events).where(runtime_events.c.instance_id == instance_id))
    emptied = update(instances).where(instances.c.instance_id == instance_id)
    connection.execute(emptied.values(owner=None, record={}))


def of_owner(owner: str, strategy: str | None = None) -> list[ColumnElement[bool]]:
    own = [instances.c.owner == owner]
    return own if strategy is None else [*own, instances.c.template == strategy]


def key_row(connection: Connection, owner: str, key: str) -> tuple[str, str] | None:
    """Return the fingerprint and the instance for which an owner's idempotency key was used."""
    of = idempotency.c
    query = select(of.fingerprint, of.instance_id).where(of.owner == owner, of.key == key)
    return connection.execute(query).one_or_none()


def take_key(connection: Connection, values: Mapping[str, Any]) -> bool:
    """Take an idempotency key, after waiting for a concurrent request with the same key; False if it is taken."""
    taken = insert(connection, idempotency).values(**values).on_conflict_do_nothing().returning(idempotency.c.key)
    return connection.execute(taken).first() is not None


def append(connection: Connection, instance_id: str, ts_ms: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append rows of ``type``, ``agent_id``, ``run_id``, ``session_id`` and ``payload``, numbered from 1 without gaps."""
    own = instances.c.instance_id == instance_id
    start = connection.execute(select(instances.c.next_event_id).where(own).with_for_update()).scalar()  # locked to the end
    if start is None or not rows:
        return
    stamped = [{"instance_id": instance_id, "id": start + n, "ts": ts_ms, **event} for n, event in enumerate(rows)]
    connection.execute(runtime_events.insert(), stamped)
    connection.execute(update(instances).where(own).values(next_event_id=start + len(rows)))


def newest_event_id(connection: Connection, instance_id: str) -> int:
    query = select(instances.c.next_event_id).where(instances.c.instance_id == instance_id)
    return int(connection.execute(query).scalar_one()) - 1


def events(connection: Connection, instance_id: str, since: int, limit: int | None) -> list[RuntimeEvent]:
    query = (
        select(*columns(runtime_events, RuntimeEvent))
        .where(runtime_events.c.instance_id == instance_id, runtime_events.c.id > since)
        .order_by(runtime_events.c.id)
        .limit(limit)
    )
    return rows(connection, query, RuntimeEvent)
