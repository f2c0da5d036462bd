"""What runs add up to per agent: one row per run and agent, and one per agent over all runs, kept in step at every seal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, case, delete, select, update

from clvlab.store.database import insert, rows
from clvlab.store.tables import RUN_COUNTS, SUMS, agent_results, anchors, runs, standings


def add(connection: Connection, results: Iterable[Mapping[str, Any]], anchor_status: str) -> None:
    """Add a newly sealed run: its rows of ``agent_results``, and each of them onto its agent's standing."""
    for result in sorted(results, key=lambda row: str(row["agent_id"])):  # in one order, so that no two seals deadlock
        connection.execute(agent_results.insert().values(**result))
        start = insert(connection, standings).values(**_standing([{**result, "anchor_status": anchor_status}]))
        sums = {name: standings.c[name] + start.excluded[name] for name in (*SUMS, *RUN_COUNTS)}
        own, new = standings.c.max_drawdown, start.excluded.max_drawdown
        worst = case((own < new, own), else_=new)
        connection.execute(start.on_conflict_do_update(index_elements=["agent_id"], set_={**sums, "max_drawdown": worst}))


def _standing(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Pool the results of one agent, each with the ``anchor_status`` of its run."""
    return {
        "agent_id": rows[0]["agent_id"],
        **{name: sum(row[name] for row in rows) for name in SUMS},
        "max_drawdown": min(row["max_drawdown"] for row in rows),
        "runs": len(rows),
        "verified_runs": sum(row["proof_mode"] == "verified" for row in rows),
        "live_runs": sum(row["source_mode"] == "live" for row in rows),
        "failing_runs": sum(bool(row["failing"]) for row in rows),
        "anchored_runs": sum(row["anchor_status"] == "anchored" for row in rows),
        "pending_runs": sum(row["anchor_status"] == "pending" for row in rows),
    }


def all_rows(connection: Connection) -> list[dict[str, Any]]:
    """Return the standing of every agent, in no order."""
    return rows(connection, select(standings))


def count_anchor(connection: Connection, run_id: str, before: str, after: str) -> None:
    """Count a change of a run's anchor status in the standings of its agents."""
    changes = {
        f"{status}_runs": standings.c[f"{status}_runs"] + int(after == status) - int(before == status)
        for status in ("anchored", "pending")
    }
    for agent_id in sorted(result["agent_id"] for result in results_of(connection, run_id)):
        connection.execute(update(standings).where(standings.c.agent_id == agent_id).values(**changes))


def results_of(connection: Connection, run_id: str) -> list[dict[str, Any]]:
    """Return what a run added, per agent."""
    query = select(agent_results).where(agent_results.c.run_id == run_id).order_by(agent_results.c.agent_id)
    return rows(connection, query)


def sealed_run_ids(connection: Connection) -> list[str]:
    """Return the ids of all sealed runs."""
    query = select(runs.c.run_id).where(runs.c.status == "sealed").order_by(runs.c.run_id)
    return list(connection.execute(query).scalars())


def pooled(connection: Connection) -> dict[str, dict[str, Any]]:
    """Pool all ``agent_results`` anew, per agent."""
    status = case((anchors.c.status.is_(None), "not_anchored"), else_=anchors.c.status).label("anchor_status")
    joined = agent_results.outerjoin(anchors, anchors.c.run_id == agent_results.c.run_id)
    per_agent: dict[str, list[dict[str, Any]]] = {}
    for row in rows(connection, select(agent_results, status).select_from(joined)):
        per_agent.setdefault(row["agent_id"], []).append(dict(row))
    return {agent_id: _standing(rows) for agent_id, rows in per_agent.items()}


def replace_all(connection: Connection, results: Mapping[str, list[dict[str, Any]]]) -> None:
    """Put these results, per run, in place of those on record, and pool the standings from them."""
    for run_id, own in results.items():
        connection.execute(delete(agent_results).where(agent_results.c.run_id == run_id))
        if own:
            connection.execute(agent_results.insert(), own)
    connection.execute(delete(standings))
    standing = list(pooled(connection).values())
    if standing:
        connection.execute(standings.insert(), standing)
