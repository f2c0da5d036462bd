"""Seats and their answered ticks as rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum

from sqlalchemy import Connection, bindparam, case, func, select, update
from typing_extensions import TypedDict

from clvlab.api.answer import JsonObject
from clvlab.log.log import held_entries, seat_entries
from clvlab.log.seats import CHAIN_SCHEMA, Blind, header
from clvlab.log.tree import inclusion
from clvlab.store.database import columns, first, rows
from clvlab.store.runlog import StoredLogRows
from clvlab.store.tables import live_ticks, seat_decisions, seats


class SeatStatus(StrEnum):
    """``playing`` -> ``finished`` (every tick is answered) -> ``sealed``; or ``abandoned``, for good."""

    PLAYING = "playing"
    FINISHED = "finished"
    SEALED = "sealed"
    ABANDONED = "abandoned"


class SeatPlace(TypedDict):
    """What an answer to a tick reads and changes of a seat; ``served_ts_ms`` is when the open tick left."""

    seat_id: str
    status: str
    ticks: int
    head: str
    served_ts_ms: int
    tick_s: int
    seat_s: int
    logged_ticks: int
    logged_ts_ms: int
    decision_bytes: int


class SeatRow(SeatPlace):
    """A seat. ``fixture_ids`` and ``secret`` are not shown before its seal."""

    owner: str
    agent_id: str
    run_id: str
    pack_id: str
    content_hash: str
    fixture_ids: list[int]
    ranked: bool
    request: JsonObject
    competition_id: str | None
    tape_ticks: int | None
    secret: bytes
    commit_index: int
    cause: str | None
    created_ts_ms: int
    updated_ts_ms: int


class SeatTickRow(TypedDict):
    """An answered tick: the digest of the tick, the decisions as recorded, and the head of the chain after them."""

    seat_id: str
    tick: int
    digest: str
    decisions: list[JsonObject]
    missed: bool
    head: str
    ts_ms: int


# Of every tick; to build a statement takes several times as long as to execute it in SQLite.
_OF = seats.c.seat_id.in_(bindparam("ids", expanding=True))
_PLACES = select(*columns(seats, SeatPlace)).where(_OF).order_by(seats.c.seat_id).with_for_update()
_MOVED = ("status", "ticks", "head", "served_ts_ms", "logged_ticks", "logged_ts_ms", "decision_bytes", "updated_ts_ms")
_MOVE = update(seats).where(seats.c.seat_id == bindparam("of_seat")).values({name: bindparam(f"new_{name}") for name in _MOVED})
_TICK = select(*columns(seat_decisions, SeatTickRow)).where(
    seat_decisions.c.seat_id == bindparam("seat_id"), seat_decisions.c.tick == bindparam("tick")
)
_TICKS = select(*columns(seat_decisions, SeatTickRow)).where(seat_decisions.c.seat_id == bindparam("seat_id"))
_TICKS = _TICKS.order_by(seat_decisions.c.tick)
_ADD_TICKS = seat_decisions.insert()
_ROW = select(*columns(seats, SeatRow)).where(seats.c.seat_id == bindparam("seat_id"))
_OF_RUN = select(*columns(seats, SeatRow)).where(seats.c.run_id == bindparam("run_id"))


def add(connection: Connection, row: SeatRow) -> None:
    connection.execute(seats.insert(), [dict(row)])


def row(connection: Connection, seat_id: str) -> SeatRow | None:
    return first(connection, _ROW, SeatRow, seat_id=seat_id)


def hold(connection: Connection, seat_ids: Collection[str]) -> dict[str, SeatPlace]:
    """Lock seats until the transaction ends, in the order of their ids, and return their places."""
    return {place["seat_id"]: place for place in rows(connection, _PLACES, SeatPlace, ids=sorted(seat_ids))}


def move(connection: Connection, places: Iterable[SeatPlace], ticks: Iterable[SeatTickRow], now_ms: int) -> None:
    """Store the new places of held seats, and their answered ticks."""
    moved = [
        {"of_seat": place["seat_id"]}
        | {f"new_{name}": value for name, value in {**place, "updated_ts_ms": now_ms}.items() if name in _MOVED}
        for place in places
    ]
    answered = [dict(tick) for tick in ticks]
    if answered:
        connection.execute(_ADD_TICKS, answered)
    if moved:
        connection.execute(_MOVE, moved)


def end(connection: Connection, seat_id: str, status: SeatStatus, now_ms: int, cause: str | None = None) -> None:
    ended = update(seats).where(seats.c.seat_id == seat_id)
    connection.execute(ended.values(status=status, cause=cause, updated_ts_ms=now_ms))


def tick(connection: Connection, seat_id: str, number: int) -> SeatTickRow | None:
    return first(connection, _TICK, SeatTickRow, seat_id=seat_id, tick=number)


def ticks(connection: Connection, seat_id: str) -> list[SeatTickRow]:
    return rows(connection, _TICKS, SeatTickRow, seat_id=seat_id)


def show(connection: Connection, seat_id: str, tick: int, view: JsonObject, served_ts_ms: int) -> None:
    """Store the next tick of a live seat, and when it arrived."""
    connection.execute(live_ticks.insert(), [{"seat_id": seat_id, "tick": tick, "view": view}])
    connection.execute(update(seats).where(seats.c.seat_id == seat_id).values(served_ts_ms=served_ts_ms))


def live_views(connection: Connection, seat_id: str, since: int) -> list[JsonObject]:
    """Return what a live seat was shown after its first ``since`` ticks."""
    query = select(live_ticks.c.view).where(live_ticks.c.seat_id == seat_id, live_ticks.c.tick > since)
    return list(connection.execute(query.order_by(live_ticks.c.tick)).scalars())


def capture(connection: Connection, seat_id: str, content_hash: str) -> None:
    """Store the content hash of the pack that a live seat's run captured."""
    connection.execute(update(seats).where(seats.c.seat_id == seat_id).values(content_hash=content_hash))


def playing(connection: Connection, owner: str) -> list[str]:
    """Return the agent ids of an owner's seats that still play, one for each seat."""
    query = select(seats.c.agent_id).where(seats.c.owner == owner, seats.c.status == SeatStatus.PLAYING)
    return [str(agent_id) for agent_id in connection.execute(query).scalars()]


def counts(connection: Connection, owner: str, content_hash: str) -> tuple[int, int, int, int]:
    """Return the number of an owner's seats over a pack, of those that were abandoned, of all its seats, and of their packs."""
    over, gone = seats.c.content_hash == content_hash, seats.c.status == SeatStatus.ABANDONED
    sums = [func.coalesce(func.sum(case((which, 1), else_=0)), 0) for which in (over, over & gone)]
    packs = func.count(seats.c.content_hash.distinct())
    found = connection.execute(select(*sums, func.count(), packs).where(seats.c.owner == owner)).one()
    return int(found[0]), int(found[1]), int(found[2]), int(found[3])


def by_owner(connection: Connection, owners: Collection[str]) -> dict[str, tuple[int, int, int]]:
    """Return by owner the number of all seats, of those that were abandoned, and of their packs."""
    gone = func.sum(case((seats.c.status == SeatStatus.ABANDONED, 1), else_=0))
    query = select(seats.c.owner, func.count(), gone, func.count(seats.c.content_hash.distinct()))
    found = connection.execute(query.where(seats.c.owner.in_(owners)).group_by(seats.c.owner)) if owners else ()
    return {owner: (int(taken), int(abandoned), int(packs)) for owner, taken, abandoned, packs in found}


def left_alone(connection: Connection, now_ms: int) -> list[str]:
    """Return the playing seats whose time for an answer is over."""
    until = seats.c.served_ts_ms + 1000 * seats.c.seat_s
    query = select(seats.c.seat_id).where(seats.c.status == SeatStatus.PLAYING, until < now_ms)
    return [str(seat_id) for seat_id in connection.execute(query).scalars()]


def of_run(connection: Connection, run_id: str) -> SeatRow | None:
    return first(connection, _OF_RUN, SeatRow, run_id=run_id)


def chain_of(connection: Connection, row: SeatRow, size: int | None = None) -> JsonObject:
    """Return the whole chain of a seat, as in a bundle. Its entries are proved among the first ``size`` of the run log."""
    log = StoredLogRows(connection)
    size = log.size() if size is None else size

    def proved(indices: Iterable[int | None]) -> list[JsonObject]:
        return [
            {"entry": log.entry(index).decode(), "index": index, "proof": [one.hex() for one in inclusion(log, index, size)]}
            for index in indices
            if index is not None and index < size
        ]

    links = [
        {"tick": one["digest"], "decisions": one["decisions"], "missed": one["missed"], "head": one["head"]}
        for one in ticks(connection, row["seat_id"])
    ]
    is_held = row["request"]["blind"] == Blind.HELD_BACK
    return {
        "schema": CHAIN_SCHEMA,
        "header": header(row["seat_id"], row["agent_id"], row["run_id"], row["secret"]),
        "blind": row["request"]["blind"],
        "secret": row["secret"].hex(),
        "ticks": links,
        "entries": proved(seat_entries(log, row["run_id"])),
        **({"held": proved(held_entries(log, row["content_hash"]))} if is_held else {}),
    }
