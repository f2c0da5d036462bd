"""Planned searches as rows: each plan, and the fixtures that it holds out, by digest and by match."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from sqlalchemy import Connection, select, update

from clvlab.store import matches
from clvlab.store.database import first
from clvlab.store.tables import held_out, plans


def row(connection: Connection, plan_id: str) -> dict[str, Any] | None:
    """Return a plan by the names of its columns, null if there is none."""
    return first(connection, select(plans).where(plans.c.plan_id == plan_id))


def add(connection: Connection, plan: dict[str, Any], digests: Iterable[str], listing: matches.Listing) -> None:
    """Keep a plan, and shut the fixtures of some digests, and those that are these matches."""
    connection.execute(plans.insert(), plan)
    matches.keep(connection, plan["plan_id"], listing)
    rows = [{"plan_id": plan["plan_id"], "digest": digest} for digest in digests]
    if rows:
        connection.execute(held_out.insert(), rows)


def open_(connection: Connection, plan_id: str) -> None:
    """Let everybody read what a plan holds out."""
    connection.execute(update(plans).where(plans.c.plan_id == plan_id).values(opened=True))


class HeldOut(NamedTuple):
    """What a plan holds out: digests of ticks, and the matches, null of a plan of an earlier version."""

    digests: frozenset[str]
    matches: matches.Listing | None


def held(connection: Connection, plan_id: str) -> HeldOut:
    """Return what a plan holds out."""
    found = connection.execute(select(held_out.c.digest).where(held_out.c.plan_id == plan_id)).scalars()
    return HeldOut(frozenset(found), matches.listing(connection, plan_id))


def ids(connection: Connection, *, shut: bool = False) -> list[str]:
    """Return all plans, or those that shut something by now, in order of their entries in the log."""
    query = select(plans.c.plan_id).order_by(plans.c.idx)
    return list(connection.execute(query.where(~plans.c.opened) if shut else query).scalars())
