"""Trials as rows: what was tried over a pack, whether it was sealed or not."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy import Connection, func, select

from clvlab.store.database import insert
from clvlab.store.tables import trials


def add(connection: Connection, content_hash: str, trial_ids: Iterable[str], ts_ms: int) -> None:
    """Put trials on record; one that is there already stays as it is."""
    rows = [{"trial_id": trial_id, "content_hash": content_hash, "created_ts_ms": ts_ms} for trial_id in trial_ids]
    if rows:
        connection.execute(insert(connection, trials).on_conflict_do_nothing(), rows)


def of_pack(connection: Connection, content_hash: str) -> set[str]:
    """Return the ids of all trials over a pack."""
    return set(connection.execute(select(trials.c.trial_id).where(trials.c.content_hash == content_hash)).scalars())


def count(connection: Connection, content_hashes: Collection[str]) -> int:
    """Count the trials over some packs."""
    query = select(func.count()).where(trials.c.content_hash.in_(content_hashes))
    return int(connection.execute(query).scalar_one())
