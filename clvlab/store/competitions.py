"""Competitions, their rosters and event logs as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict

from sqlalchemy import ColumnElement, Connection, Row, delete, func, select, update

from clvlab.api.competitions import CompetitionConfigSnapshot, CompetitionEvent, RosterEntry
from clvlab.store.database import columns, first, insert, rows
from clvlab.store.news import announce
from clvlab.store.tables import competition_events, competitions, roster

_PACK = 200
_PACKS_AT_ONCE = 50


class CompetitionRow(TypedDict):
    """A competition; ``started_seq`` is from the newest start, and a failed start returns the status to ``claimed_from``."""

    competition_id: str
    owner: str
    status: str
    config: CompetitionConfigSnapshot
    roster_size: int
    pack_id: str | None
    fixture_id: int | None
    fixture_ids: list[int] | None
    content_hash: str | None
    run_id: str | None
    cause: str | None
    claimed_from: str | None
    started_seq: int | None
    next_seq: int
    created_ts_ms: int
    updated_ts_ms: int


def add(connection: Connection, values: Mapping[str, Any]) -> bool:
    """Create a competition; False if its id is taken."""
    added = insert(connection, competitions).values(next_seq=0, **values).on_conflict_do_nothing()
    return connection.execute(added.returning(competitions.c.competition_id)).first() is not None


def unstarted_of(connection: Connection, owner: str) -> int:
    of = competitions.c
    query = select(func.count()).where(of.owner == owner, of.status.in_(("draft", "open")))
    return int(connection.execute(query).scalar_one())


def row(connection: Connection, competition_id: str, *, lock: bool = False) -> CompetitionRow | None:
    """Return the row of a competition; ``lock`` locks it for the rest of the transaction."""
    query = select(*columns(competitions, CompetitionRow)).where(competitions.c.competition_id == competition_id)
    return first(connection, query.with_for_update() if lock else query, CompetitionRow)


def change(connection: Connection, competition_id: str, **values: Any) -> None:
    connection.execute(update(competitions).where(competitions.c.competition_id == competition_id).values(**values))


def having(**values: str | None) -> list[ColumnElement[bool]]:
    """Return conditions on columns; ``None`` is any value."""
    return [competitions.c[name] == value for name, value in values.items() if value is not None]


def roster_of(connection: Connection, competition_id: str) -> list[RosterEntry]:
    query = select(*columns(roster, RosterEntry)).where(roster.c.competition_id == competition_id).order_by(roster.c.position)
    return rows(connection, query, RosterEntry)


def agent_ids(connection: Connection, competition_id: str) -> list[str]:
    query = select(roster.c.agent_id).where(roster.c.competition_id == competition_id).order_by(roster.c.position)
    return list(connection.execute(query).scalars())


def add_agent(connection: Connection, values: Mapping[str, Any]) -> None:
    """Put an agent on a roster; the table's constraints apply to every caller."""
    connection.execute(roster.insert().values(**values))


def remove_agent(connection: Connection, competition_id: str, agent_id: str) -> bool:
    """Remove an agent from the roster of a locked competition, and close the gap; False if it is not there."""
    of, own = roster.c, roster.c.competition_id == competition_id
    gone = delete(roster).where(own, of.agent_id == agent_id).returning(of.position)
    position = connection.execute(gone).scalar()
    if position is None:
        return False
    # Two steps, because uniqueness is checked after every row: first to negative positions, then one place up.
    connection.execute(update(roster).where(own, of.position > position).values(position=-of.position))
    connection.execute(update(roster).where(own, of.position < 0).values(position=-of.position - 1))
    return True


def remove(connection: Connection, competition_id: str) -> None:
    connection.execute(delete(roster).where(roster.c.competition_id == competition_id))
    connection.execute(delete(competitions).where(competitions.c.competition_id == competition_id))
    announce(connection, competition_id)


def append(
    connection: Connection, competition_id: str, ts_ms: int, events: Sequence[Mapping[str, Any]], *, packed: bool = False
) -> None:
    """Append events of one run to a competition's log, numbered without gaps.

    An event has ``kind``, ``run_id``, ``evidence`` and ``payload``. The competition stays locked until the transaction ends, so
    that no reader sees ``seq`` n before n - 1. ``packed`` events share rows, and ``newest`` does not find them.
    """
    held = row(connection, competition_id, lock=True)
    if held is None or not events:
        return
    size, start = _PACK if packed else 1, held["next_seq"]
    packs = [
        {
            "competition_id": competition_id,
            "first_seq": start + at,
            "count": len(some),
            "kind": None if packed else some[0]["kind"],
            "run_id": some[0]["run_id"],
            "ts": ts_ms,
            "events": [[event["kind"], event["evidence"], event["payload"]] for event in some],
        }
        for at in range(0, len(events), size)
        for some in [events[at : at + size]]
    ]
    connection.execute(competition_events.insert(), packs)
    change(connection, competition_id, next_seq=start + len(events), updated_ts_ms=ts_ms)
    announce(connection, competition_id)


def events(connection: Connection, competition_id: str, since_seq: int, limit: int | None) -> list[CompetitionEvent]:
    log, found = competition_events.c, list[CompetitionEvent]()
    at_once = _PACKS_AT_ONCE if limit is None else min(limit // _PACK + 2, _PACKS_AT_ONCE)  # decodes only the needed packs
    query = select(competition_events).where(log.competition_id == competition_id).order_by(log.first_seq).limit(at_once)
    while limit is None or len(found) < limit:
        later = query.where(log.first_seq > since_seq - _PACK, log.first_seq + log.count > since_seq + 1)
        packs = connection.execute(later).all()
        if not packs:
            break
        found += [event for pack in packs for event in _unpacked(pack) if event["seq"] > since_seq]
        since_seq = found[-1]["seq"]
    return found[:limit]


def newest(
    connection: Connection,
    competition_id: str,
    kind: str,
    since_seq: int | None = None,
    *,
    before_seq: int | None = None,
    limit: int | None = None,
) -> list[CompetitionEvent]:
    """Return the events of a kind after ``since_seq`` and before ``before_seq``, newest first; those in packs are not found."""
    log, after = competition_events.c, -1 if since_seq is None else since_seq
    query = select(competition_events).where(log.competition_id == competition_id, log.kind == kind, log.first_seq > after)
    if before_seq is not None:
        query = query.where(log.first_seq < before_seq)
    query = query.order_by(log.first_seq.desc()).limit(limit)
    return [event for pack in connection.execute(query) for event in _unpacked(pack)]


def _unpacked(of: Row[Any]) -> Iterator[CompetitionEvent]:
    for seq, (kind, evidence, payload) in enumerate(of.events, start=of.first_seq):
        yield CompetitionEvent(
            seq=seq, kind=kind, competition_id=of.competition_id, run_id=of.run_id, ts=of.ts, evidence=evidence, payload=payload
        )
