"""What runs add up to per owner and agent: a row per run and agent, and one over all runs, kept in step at every seal.

A fixture counts once in a row, by the first result in the log: what repeats it adds to ``runs`` and to nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, case, delete, func, select, update

from clvlab.store.database import insert, rows
from clvlab.store.tables import RUN_COUNTS, SUMS, agent_results, anchors, counted_fixtures, log_entries, runs, standings

Row = tuple[str, str]
"""Owner and agent id."""


def counted(connection: Connection, row: Row, content_hash: str) -> set[int]:
    """Return the fixtures of a pack that a row has already."""
    columns, (owner, agent_id) = counted_fixtures.c, row
    query = select(columns.fixture_id).where(
        columns.owner == owner, columns.agent_id == agent_id, columns.content_hash == content_hash
    )
    return set(connection.execute(query).scalars())


def counted_in(connection: Connection, row: Row) -> list[dict[str, Any]]:
    """Return the fixtures that a row has, and the run that brought each: ``{run_id, content_hash, fixture_id}``."""
    columns, (owner, agent_id) = counted_fixtures.c, row
    query = select(columns.run_id, columns.content_hash, columns.fixture_id)
    query = query.where(columns.owner == owner, columns.agent_id == agent_id)
    return rows(connection, query.order_by(columns.run_id, columns.content_hash, columns.fixture_id))


def count(connection: Connection, row: Row, content_hash: str, run_id_of: Mapping[int, str]) -> None:
    """Note fixtures that a row has from now on, and the run of each; the log's lock keeps others from noting them too."""
    owner, agent_id = row
    key = {"owner": owner, "agent_id": agent_id, "content_hash": content_hash}
    noted = [{**key, "fixture_id": fixture_id, "run_id": run_id} for fixture_id, run_id in run_id_of.items()]
    if noted:
        connection.execute(counted_fixtures.insert(), noted)


def brought(connection: Connection, run_id: str) -> list[dict[str, Any]]:
    """Return the fixtures that a run was the first to bring, with the rows that they stand in."""
    return rows(connection, select(counted_fixtures).where(counted_fixtures.c.run_id == run_id))


def add(connection: Connection, results: Iterable[Mapping[str, Any]], anchor_status: str) -> None:
    """Add a newly sealed run: its rows of ``agent_results``, and each of them onto its agent's standing."""
    for result in sorted(results, key=lambda row: str(row["agent_id"])):  # in one order, so that no two seals deadlock
        connection.execute(agent_results.insert().values(**result))
        position = select(func.coalesce(func.max(standings.c.position), -1) + 1).scalar_subquery()
        start = insert(connection, standings).values(
            **_standing([{**result, "anchor_status": anchor_status}]), position=position
        )
        sums = {name: standings.c[name] + start.excluded[name] for name in (*SUMS, *RUN_COUNTS)}
        own, new = standings.c.max_drawdown, start.excluded.max_drawdown
        worst = case((own < new, own), else_=new)
        connection.execute(
            start.on_conflict_do_update(index_elements=["owner", "agent_id"], set_={**sums, "max_drawdown": worst})
        )


def _standing(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Pool the results of one row, each with the ``anchor_status`` of its run."""
    new = [row for row in rows if row["fixtures"]]
    return {
        "owner": rows[0]["owner"],
        "agent_id": rows[0]["agent_id"],
        **{name: sum(row[name] for row in rows) for name in SUMS},
        "max_drawdown": min(row["max_drawdown"] for row in rows),
        "runs": len(rows),
        "counted_runs": len(new),
        "verified_runs": sum(row["proof_mode"] == "verified" for row in new),
        "live_runs": sum(row["source_mode"] == "live" for row in new),
        "failing_runs": sum(bool(row["failing"]) for row in new),
        "anchored_runs": sum(row["anchor_status"] == "anchored" for row in new),
        "pending_runs": sum(row["anchor_status"] == "pending" for row in new),
    }


def all_rows(connection: Connection) -> list[dict[str, Any]]:
    """Return the standing of every owner's agents, in the order in which the rows came into being."""
    return rows(connection, select(standings).order_by(standings.c.position))


def count_anchor(connection: Connection, run_id: str, before: str, after: str) -> None:
    """Count a change of a run's anchor status in the standings of its agents."""
    changes = {
        f"{status}_runs": standings.c[f"{status}_runs"] + int(after == status) - int(before == status)
        for status in ("anchored", "pending")
    }
    _change(connection, run_id, changes)


def count_failing(connection: Connection, run_id: str, *, failing: bool) -> None:
    """Note whether a blocking check of a run fails, as its newest verification says, in the standings of its agents."""
    own = agent_results.c
    changed = (own.run_id == run_id) & (own.failing != failing)
    if connection.execute(select(own.run_id).where(changed).limit(1)).first() is None:
        return
    connection.execute(update(agent_results).where(changed).values(failing=failing))
    _change(connection, run_id, {"failing_runs": standings.c.failing_runs + (1 if failing else -1)})


def _change(connection: Connection, run_id: str, changes: Mapping[str, Any]) -> None:
    for result in sorted(results_of(connection, run_id), key=lambda row: str(row["agent_id"])):  # as ``add`` does
        if result["fixtures"]:
            own = (standings.c.owner == result["owner"]) & (standings.c.agent_id == result["agent_id"])
            connection.execute(update(standings).where(own).values(**changes))


def results_of(connection: Connection, run_id: str) -> list[dict[str, Any]]:
    """Return what a run added, per agent."""
    query = select(agent_results).where(agent_results.c.run_id == run_id).order_by(agent_results.c.agent_id)
    return rows(connection, query)


def sealed_run_ids(connection: Connection) -> list[str]:
    """Return the ids of all runs that were ever sealed, in the order of their results in the log; older ones come first."""
    ended = log_entries.alias()
    result = (ended.c.run_id == runs.c.run_id) & (ended.c.kind == "RESULT")
    query = select(runs.c.run_id).outerjoin(ended, result).where(runs.c.manifest_hash.is_not(None))  # removed ones too
    unlogged_first = func.coalesce(ended.c.idx, -1)
    return list(connection.execute(query.order_by(unlogged_first, runs.c.sealed_ts_ms, runs.c.run_id)).scalars())


def is_missing(connection: Connection) -> bool:
    """Whether there are sealed runs, and nothing of them is counted."""
    sealed = select(runs.c.run_id).where(runs.c.status == "sealed", runs.c.ranked).limit(1)
    return (
        connection.execute(select(agent_results.c.run_id).limit(1)).first() is None
        and connection.execute(sealed).first() is not None
    )


def replace_all(
    connection: Connection, results: Iterable[Mapping[str, Any]], fixtures: Mapping[tuple[Row, str], Mapping[int, str]]
) -> None:
    """Put these results, in the order of the log, in place of all on record, with the fixtures of each row and pack."""
    for table in (standings, counted_fixtures, agent_results):
        connection.execute(delete(table))
    statuses = {row["run_id"]: row["status"] for row in rows(connection, select(anchors.c.run_id, anchors.c.status))}
    pooled: dict[Row, list[dict[str, Any]]] = {}
    for result in results:
        status = statuses.get(result["run_id"], "not_anchored")
        pooled.setdefault((result["owner"], result["agent_id"]), []).append({**result, "anchor_status": status})
    own = [{name: row[name] for name in row if name != "anchor_status"} for rows_of in pooled.values() for row in rows_of]
    if own:
        connection.execute(agent_results.insert(), own)
    for (row, content_hash), run_id_of in fixtures.items():
        count(connection, row, content_hash, run_id_of)
    standing = [{**_standing(found), "position": position} for position, found in enumerate(pooled.values())]
    if standing:
        connection.execute(standings.insert(), standing)
