"""Which matches packs are of, as rows: a listing for each pack by its content, so that what was tried is known by the match."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Collection
from typing import Any

import orjson
from sqlalchemy import Connection, select

from clvlab.proof.canonical import sha256
from clvlab.store.database import insert
from clvlab.store.tables import matches

Listing = list[list[Any]]
"""A match each, as JSON values."""


def keep(connection: Connection, name: str, listing: Listing) -> None:
    """Keep the matches of a pack under its content hash, or those that a plan holds out under its id."""
    stored = zlib.compress(orjson.dumps(listing), 1)
    query = insert(connection, matches).values(name=name, listing=stored, digest=_digest(name, stored))
    kept = {"listing": query.excluded.listing, "digest": query.excluded.digest}
    connection.execute(query.on_conflict_do_update(index_elements=["name"], set_=kept))


def listing(connection: Connection, name: str) -> Listing | None:
    """Return what is kept under a name; ``None``, with a warning, where it is not as it was stored."""
    query = select(matches.c.listing, matches.c.digest).where(matches.c.name == name)
    found = connection.execute(query).one_or_none()
    if found is None:
        return None
    stored = bytes(found.listing)
    if found.digest != _digest(name, stored):
        warnings.warn(f"the matches of {name} are not as they were stored: they are read again where they can be", stacklevel=2)
        return None
    listed: Listing = orjson.loads(zlib.decompress(stored))
    return listed


def names(connection: Connection) -> Collection[str]:
    """Return under which names matches are kept."""
    return set(connection.execute(select(matches.c.name)).scalars())


def _digest(name: str, stored: bytes) -> str:
    return sha256(name.encode() + b"\0" + stored)
