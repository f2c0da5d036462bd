"""Uploaded packs as rows: owner, content, and the hashes of the files."""

from __future__ import annotations

import hashlib
from typing import TypedDict

from sqlalchemy import Connection, func, select, text
from sqlalchemy import delete as deletion

from clvlab.store.database import columns, first, rows
from clvlab.store.runs import RunStatus
from clvlab.store.tables import competitions, runs, uploads

_UNFINISHED = ("draft", "open", "running")
_UNSEALED = (RunStatus.QUEUED, RunStatus.RUNNING)


class UploadRow(TypedDict):
    """An uploaded pack; ``entry`` has the hashes of its files."""

    owner: str
    pack_id: str
    content_hash: str
    provenance: str
    is_genuine: bool
    fixtures: list[int]
    bytes: int
    entry: dict[str, str]
    created_ts_ms: int


_ALL = select(*columns(uploads, UploadRow))


def hold(connection: Connection, owner: str) -> None:
    """Lock an owner's packs until the transaction ends."""
    if connection.dialect.name == "postgresql":  # SQLite has one writer anyway
        number = int.from_bytes(hashlib.sha256(b"uploads of " + owner.encode(errors="replace")).digest()[:8], signed=True)
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})


def add(connection: Connection, values: UploadRow) -> None:
    connection.execute(uploads.insert().values(**values))


def row(connection: Connection, owner: str, pack_id: str) -> UploadRow | None:
    return first(connection, _ALL.where(uploads.c.owner == owner, uploads.c.pack_id == pack_id), UploadRow)


def of_owner(connection: Connection, owner: str) -> list[UploadRow]:
    return rows(connection, _ALL.where(uploads.c.owner == owner).order_by(uploads.c.pack_id), UploadRow)


def every(connection: Connection) -> list[UploadRow]:
    return rows(connection, _ALL.order_by(uploads.c.created_ts_ms, uploads.c.owner, uploads.c.pack_id), UploadRow)


def delete(connection: Connection, owner: str, pack_id: str) -> None:
    connection.execute(deletion(uploads).where(uploads.c.owner == owner, uploads.c.pack_id == pack_id))


def user(connection: Connection, owner: str, pack_id: str, content_hash: str) -> tuple[str, bool] | None:
    """Return an unfinished competition or run that uses an owner's pack, and whether any run is unfinished."""
    own, bound = runs.c, competitions.c
    unsealed = own.owner == owner, own.content_hash == content_hash, own.status.in_(_UNSEALED)
    run = connection.execute(select(own.run_id).where(*unsealed)).scalar()
    competition = connection.execute(
        select(bound.competition_id).where(
            bound.owner == owner, bound.pack_id == pack_id, bound.content_hash == content_hash, bound.status.in_(_UNFINISHED)
        )
    ).scalar()
    if competition is not None:
        return f"competition {competition}", run is not None
    return None if run is None else (f"run {run}", True)


def total_bytes(connection: Connection) -> int:
    return int(connection.execute(select(func.sum(uploads.c.bytes))).scalar() or 0)
