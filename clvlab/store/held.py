"""Packs that are held back as rows, and the fixtures that were dealt of each."""

from __future__ import annotations

from sqlalchemy import Connection, func, select, update
from typing_extensions import TypedDict

from clvlab.store.database import columns, first, rows
from clvlab.store.tables import dealt_fixtures, held_packs


class HeldPackRow(TypedDict):
    """A pack that is held back. ``entry`` has the hashes of its files; ``fixture_list`` is salted, opened at the release."""

    content_hash: str
    pack_id: str
    folder: str
    entry: dict[str, str]
    fixtures: int
    fixture_list: bytes
    idx: int
    released_idx: int | None
    created_ts_ms: int


_ALL = select(*columns(held_packs, HeldPackRow))


def add(connection: Connection, row: HeldPackRow) -> None:
    connection.execute(held_packs.insert(), [dict(row)])


def of_id(connection: Connection, pack_id: str) -> HeldPackRow | None:
    return first(connection, _ALL.where(held_packs.c.pack_id == pack_id), HeldPackRow)


def of_content(connection: Connection, content_hash: str) -> HeldPackRow | None:
    return first(connection, _ALL.where(held_packs.c.content_hash == content_hash), HeldPackRow)


def every(connection: Connection) -> list[HeldPackRow]:
    return rows(connection, _ALL.order_by(held_packs.c.idx), HeldPackRow)


def release(connection: Connection, content_hash: str, index: int) -> None:
    connection.execute(update(held_packs).where(held_packs.c.content_hash == content_hash).values(released_idx=index))


def dealt(connection: Connection, content_hash: str, owner: str | None = None) -> set[int]:
    """Return the fixtures of a pack that seats got, of one owner or of all."""
    query = select(dealt_fixtures.c.fixture_id).where(dealt_fixtures.c.content_hash == content_hash)
    return set(connection.execute(query if owner is None else query.where(dealt_fixtures.c.owner == owner)).scalars())


def count_dealt(connection: Connection) -> dict[str, int]:
    """Return the number of dealt fixtures by content hash."""
    query = select(dealt_fixtures.c.content_hash, func.count()).group_by(dealt_fixtures.c.content_hash)
    return {str(content_hash): int(count) for content_hash, count in connection.execute(query)}


def deal(connection: Connection, content_hash: str, fixture_id: int, seat_id: str, owner: str) -> None:
    values = {"content_hash": content_hash, "fixture_id": fixture_id, "seat_id": seat_id, "owner": owner}
    connection.execute(dealt_fixtures.insert(), [values])
