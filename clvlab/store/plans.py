"""Planned searches as rows: each plan, and the fixtures that it holds out, by digest and by match."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, func, select, update

from clvlab.api.answer import JsonObject
from clvlab.proof.canonical import sha256
from clvlab.store.database import insert
from clvlab.store.tables import held_out, plans, trials
from clvlab.store.tables import matches as match_rows

# The matches of packs by content hash, so that earlier trials are recognised by match.


Listing = list[list[Any]]
"""A list of matches, each as JSON values."""


def keep(connection: Connection, name: str, listing: Listing) -> None:
    """Store the matches of a pack under its content hash, or the held-out matches of a plan under its id."""
    stored = zlib.compress(orjson.dumps(listing), 1)
    query = insert(connection, match_rows).values(name=name, listing=stored, digest=_digest(name, stored))
    kept = {"listing": query.excluded.listing, "digest": query.excluded.digest}
    connection.execute(query.on_conflict_do_update(index_elements=["name"], set_=kept))


def listing(connection: Connection, name: str) -> Listing | None:
    """Return the matches under a name; ``None``, with a warning, if the stored bytes are damaged."""
    query = select(match_rows.c.listing, match_rows.c.digest).where(match_rows.c.name == name)
    found = connection.execute(query).one_or_none()
    if found is None:
        return None
    stored = bytes(found.listing)
    if found.digest != _digest(name, stored):
        warnings.warn(f"the matches of {name} are damaged in the store: they are read again if possible", stacklevel=2)
        return None
    listed: Listing = orjson.loads(zlib.decompress(stored))
    return listed


def names(connection: Connection) -> Collection[str]:
    return set(connection.execute(select(match_rows.c.name)).scalars())


def _digest(name: str, stored: bytes) -> str:
    return sha256(name.encode() + b"\0" + stored)


def row(connection: Connection, plan_id: str) -> tuple[int, int, JsonObject] | None:
    of = plans.c
    return connection.execute(select(of.idx, of.trials_before, of.payload).where(of.plan_id == plan_id)).one_or_none()


def add(connection: Connection, plan: Mapping[str, Any], digests: Iterable[str], listing: Listing) -> None:
    connection.execute(plans.insert(), plan)
    keep(connection, plan["plan_id"], listing)
    rows = [{"plan_id": plan["plan_id"], "digest": digest} for digest in digests]
    if rows:
        connection.execute(held_out.insert(), rows)


def open_(connection: Connection, plan_id: str) -> None:
    connection.execute(update(plans).where(plans.c.plan_id == plan_id).values(opened=True))


class HeldOut(NamedTuple):
    """Held-out fixtures of a plan: digests of their ticks, and their matches, ``None`` for a plan of an earlier version."""

    digests: frozenset[str]
    matches: Listing | None


def held(connection: Connection, plan_id: str) -> HeldOut:
    found = connection.execute(select(held_out.c.digest).where(held_out.c.plan_id == plan_id)).scalars()
    return HeldOut(frozenset(found), listing(connection, plan_id))


def ids(connection: Connection, *, holding: bool = False) -> list[str]:
    """Return the ids of all plans, or only of those that still hold fixtures out, in order of their log entries."""
    query = select(plans.c.plan_id).order_by(plans.c.idx)
    return list(connection.execute(query.where(~plans.c.opened) if holding else query).scalars())


# Trials as rows: configurations tried over a pack, sealed or not.


def add_trials(connection: Connection, content_hash: str, trial_ids: Iterable[str], ts_ms: int) -> None:
    rows = [{"trial_id": trial_id, "content_hash": content_hash, "created_ts_ms": ts_ms} for trial_id in trial_ids]
    if rows:
        connection.execute(insert(connection, trials).on_conflict_do_nothing(), rows)


def of_pack(connection: Connection, content_hash: str) -> set[str]:
    return set(connection.execute(select(trials.c.trial_id).where(trials.c.content_hash == content_hash)).scalars())


def count(connection: Connection, content_hashes: Collection[str]) -> int:
    query = select(func.count()).where(trials.c.content_hash.in_(content_hashes))
    return int(connection.execute(query).scalar_one())
