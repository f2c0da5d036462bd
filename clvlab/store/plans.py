"""Planned searches as rows: each plan, and the digests of the fixtures that it holds out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, select, update

from clvlab.store.database import first
from clvlab.store.tables import held_out, plans


def row(connection: Connection, plan_id: str) -> dict[str, Any] | None:
    """Return a plan by the names of its columns, null if there is none."""
    return first(connection, select(plans).where(plans.c.plan_id == plan_id))


def add(connection: Connection, plan: dict[str, Any], digests: Iterable[str]) -> None:
    """Keep a plan, and shut the fixtures of some digests."""
    connection.execute(plans.insert(), plan)
    rows = [{"plan_id": plan["plan_id"], "digest": digest} for digest in digests]
    if rows:
        connection.execute(held_out.insert(), rows)


def open_(connection: Connection, plan_id: str) -> None:
    """Let everybody read what a plan holds out."""
    connection.execute(update(plans).where(plans.c.plan_id == plan_id).values(opened=True))


def sharing(connection: Connection, plan_id: str) -> list[str]:
    """Return other plans that hold out, or held out, some of the same fixtures."""
    own = select(held_out.c.digest).where(held_out.c.plan_id == plan_id)
    query = select(held_out.c.plan_id).distinct().where(held_out.c.digest.in_(own), held_out.c.plan_id != plan_id)
    return sorted(connection.execute(query).scalars())


def shut(connection: Connection) -> dict[str, str]:
    """Return the plan that shuts each fixture, by the fixture's digest."""
    query = select(held_out.c.digest, held_out.c.plan_id).join(plans, plans.c.plan_id == held_out.c.plan_id)
    return {str(digest): str(plan_id) for digest, plan_id in connection.execute(query.where(~plans.c.opened))}
