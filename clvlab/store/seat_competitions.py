"""Competitions of seats, and the seats in them, as rows."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, func, select, update
from typing_extensions import TypedDict

from clvlab.api.answer import JsonObject
from clvlab.store.database import columns, first, rows
from clvlab.store.seats import SeatStatus
from clvlab.store.tables import seat_competitions, seats

FixtureScore = tuple[int, int, int, int, int]
"""Of one fixture of a seat: its id; sum, number and sum of squares of the CLV of its scored decisions; time of the last one."""


class SeatCompetitionRow(TypedDict):
    """A competition of seats; ``closes_ts_ms`` is when it closes or was closed."""

    competition_id: str
    owner: str
    name: str
    pack_id: str
    content_hash: str
    rules: JsonObject
    closes_ts_ms: int | None
    created_ts_ms: int
    updated_ts_ms: int


class SeatCount(TypedDict):
    """Number of seats of an entrant in a status, with their answered ticks and, if known, all ticks."""

    competition_id: str
    owner: str
    agent_id: str
    status: str
    seats: int
    answered: int
    tape_ticks: int | None


class PackCount(TypedDict):
    """Number of seats of an owner over a pack in a status, in competitions and outside of them."""

    owner: str
    pack_id: str
    ranked: bool
    status: str
    seats: int


class EndedSeat(TypedDict):
    """A seat that is sealed or abandoned; ``scores`` has a ``FixtureScore`` for each fixture with a scored decision."""

    seat_id: str
    owner: str
    agent_id: str
    run_id: str
    status: str
    fixture_ids: list[int]
    scores: list[FixtureScore] | None


def add(connection: Connection, row: SeatCompetitionRow) -> None:
    connection.execute(seat_competitions.insert(), [dict(row)])


def row(connection: Connection, competition_id: str) -> SeatCompetitionRow | None:
    of = seat_competitions.c.competition_id == competition_id
    return first(connection, select(*columns(seat_competitions, SeatCompetitionRow)).where(of), SeatCompetitionRow)


def close(connection: Connection, competition_id: str, now_ms: int) -> None:
    of = seat_competitions.c.competition_id == competition_id
    connection.execute(update(seat_competitions).where(of).values(closes_ts_ms=now_ms, updated_ts_ms=now_ms))


def open_of(connection: Connection, owner: str, now_ms: int) -> int:
    """Return how many competitions of an owner are open."""
    of = seat_competitions.c
    query = select(func.count()).where(of.owner == owner, of.closes_ts_ms.is_(None) | (of.closes_ts_ms > now_ms))
    return int(connection.execute(query).scalar_one())


def counts(connection: Connection, competition_ids: Collection[str]) -> list[SeatCount]:
    """Return the seats of each entrant of some competitions by status."""
    by = (seats.c.competition_id, seats.c.owner, seats.c.agent_id, seats.c.status)
    sums = (func.sum(seats.c.ticks).label("answered"), func.sum(seats.c.tape_ticks).label("tape_ticks"))
    query = select(*by, func.count().label("seats"), *sums).where(seats.c.competition_id.in_(competition_ids))
    found = rows(connection, query.group_by(*by).order_by(*by), SeatCount)
    for one in found:  # PostgreSQL sums integers to decimals
        one["answered"], one["tape_ticks"] = int(one["answered"]), None if one["tape_ticks"] is None else int(one["tape_ticks"])
    return found


def packs_of(connection: Connection, owners: Collection[str]) -> list[PackCount]:
    """Return all seats of some owners by pack and status."""
    by = (seats.c.owner, seats.c.pack_id, seats.c.ranked, seats.c.status)
    query = select(*by, func.count().label("seats")).where(seats.c.owner.in_(owners)).group_by(*by).order_by(*by)
    return rows(connection, query, PackCount)


def ended(connection: Connection, competition_id: str) -> list[EndedSeat]:
    """Return the seats of a competition that are over, in the order of their commitments."""
    of = seats.c.competition_id == competition_id, seats.c.status.in_([SeatStatus.SEALED, SeatStatus.ABANDONED])
    return rows(connection, select(*columns(seats, EndedSeat)).where(*of).order_by(seats.c.commit_index), EndedSeat)


def score(connection: Connection, seat_id: str, scores: Collection[FixtureScore]) -> None:
    """Store the scores of a sealed seat; a seat outside of competitions has none."""
    of = seats.c.seat_id == seat_id, seats.c.competition_id.is_not(None)
    connection.execute(update(seats).where(*of).values(scores=[list(one) for one in scores]))
