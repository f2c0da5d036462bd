"""Sums of runs per owner and agent: one row per run and agent, and one over all runs, updated at every seal.

A fixture counts once in a row, by the first result in the log; a repetition increases only ``runs``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from secrets import token_hex
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Connection, bindparam, delete, func, or_, select, update

from clvlab.store.database import columns, first, insert, rows
from clvlab.store.jobs import JobStatus
from clvlab.store.labels import MIXED, Knowledge, candidates, is_hindsight_possible, labels, weakest
from clvlab.store.sketches import ALIKE_IN, GROUPS_COMPARED, Groups, joined
from clvlab.store.tables import (
    RUN_COUNTS,
    SUMS,
    CountedRuns,
    Sums,
    agent_results,
    anchors,
    counted_fixtures,
    jobs,
    log_entries,
    revisions,
    runs,
    standings,
)

Row = tuple[str, str]
"""Owner and agent id."""

_LEADERBOARD = "leaderboard"
_ALL_BITS = (1 << 64) - 1


class _AgentRow(Sums):
    owner: str
    agent_id: str
    strategy: str
    causality: str
    config_hash: str | None
    knowledge: str
    commit_index: int | None


class ResultRow(_AgentRow):
    run_id: str
    created_ts_ms: int
    fixtures: int
    proof_mode: str
    source_mode: str
    failing: bool
    sketch: bytes | None


class StandingRow(_AgentRow, CountedRuns):
    hindsight_possible: bool
    label: str
    rank_key: bytes
    first_alike: str


_of, _result, _counted = standings.c, agent_results.c, counted_fixtures.c
_STANDING = select(standings).where(_of.owner == bindparam("of_owner"), _of.agent_id == bindparam("of_agent"))
# Anchors and failing runs are counted concurrently, without the log's lock.
_POOL = (
    update(standings)
    .where(_of.owner == bindparam("of_owner"), _of.agent_id == bindparam("of_agent"))
    .values({name: _of[name] + bindparam(f"more_{name}") for name in RUN_COUNTS})
)
_GROUPED = select(*(_of[name] for name in (*ALIKE_IN, "agent_id", "position", "sketch", "first_alike")))
_GROUPED = _GROUPED.where(_of.owner == bindparam("owner"))
_ids: BindParameter[Any] = bindparam("agent_ids", expanding=True)
_CHANGED = _GROUPED.where(or_(_of.agent_id.in_(_ids), _of.first_alike.in_(_ids))).order_by(_of.position)
_LEADING = _GROUPED.where(_of.first_alike == _of.agent_id, _of.agent_id.not_in(bindparam("moved", expanding=True)))
_LEADING = _LEADING.order_by(_of.position.desc())
_RESULTS = select(*columns(agent_results, ResultRow)).where(_result.run_id == bindparam("run_id")).order_by(_result.agent_id)
_COUNTED = select(_counted.fixture_id).where(
    *(_counted[name] == bindparam(name) for name in ("owner", "agent_id", "content_hash"))
)


def counted(connection: Connection, row: Row, content_hash: str) -> set[int]:
    values = {"owner": row[0], "agent_id": row[1], "content_hash": content_hash}
    return set(connection.execute(_COUNTED, values).scalars())


def counted_in(connection: Connection, row: Row) -> list[tuple[str, int]]:
    of, (owner, agent_id) = counted_fixtures.c, row
    query = select(of.run_id, of.fixture_id).where(of.owner == owner, of.agent_id == agent_id)
    return list(connection.execute(query.order_by(of.run_id, of.content_hash, of.fixture_id)))


def count(connection: Connection, row: Row, content_hash: str, run_id_of: Mapping[int, str]) -> None:
    """Add fixtures to a row, each with its run; the log's lock excludes concurrent additions."""
    owner, agent_id = row
    key = {"owner": owner, "agent_id": agent_id, "content_hash": content_hash}
    noted = [{**key, "fixture_id": fixture_id, "run_id": run_id} for fixture_id, run_id in run_id_of.items()]
    if noted:
        connection.execute(counted_fixtures.insert(), noted)


def brought(connection: Connection, run_id: str) -> list[tuple[Row, str, int]]:
    """Return the fixtures that a run was the first to add, each with row, content hash of the pack, and id."""
    of = counted_fixtures.c
    query = select(of.owner, of.agent_id, of.content_hash, of.fixture_id).where(of.run_id == run_id)
    return [((owner, agent_id), pack, fixture_id) for owner, agent_id, pack, fixture_id in connection.execute(query)]


def add(connection: Connection, results: Iterable[ResultRow], anchor_status: str) -> None:
    """Add the rows of a newly sealed run to ``agent_results`` and to its agents' standings; the log must be locked."""
    added = sorted(results, key=lambda row: str(row["agent_id"]))
    if not added:
        return
    _change_revision(connection)
    connection.execute(agent_results.insert(), added)
    for result in added:
        _add_to_row(connection, {**result, "anchor_status": anchor_status})
    _group(connection, added[0]["owner"], [result["agent_id"] for result in added])


def _add_to_row(connection: Connection, result: Mapping[str, Any]) -> None:
    new, own = _standing([result]), {"of_owner": result["owner"], "of_agent": result["agent_id"]}
    known: Mapping[str, Any] | None = first(connection, _STANDING, dict, **own)
    if known is None:
        position = select(func.coalesce(func.max(standings.c.position), -1) + 1).scalar_subquery()
        named = _named(new, _free_label(connection, result["owner"], result["agent_id"]))
        connection.execute(standings.insert().values(position=position), {**new, **named})
        return
    pooled = _pooled([row for row in (known, new) if row["counted_runs"]] or [known])
    sums = {name: known[name] + new[name] for name in SUMS}
    counts = {f"more_{name}": new[name] for name in RUN_COUNTS}
    worst = min(known["max_drawdown"], new["max_drawdown"])
    named = _named(sums, known["label"])
    connection.execute(_POOL, {**own, **sums, **counts, **pooled, **named, "max_drawdown": worst})


def _is(owner: str, agent_id: str) -> ColumnElement[bool]:
    return (standings.c.owner == owner) & (standings.c.agent_id == agent_id)


def _free_label(connection: Connection, owner: str, agent_id: str) -> str:
    def is_free(label: str) -> bool:
        return connection.execute(select(standings.c.position).where(standings.c.label == label)).first() is None

    return next(filter(is_free, candidates(owner, agent_id)))


def _standing(found: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    new = [row for row in found if row["fixtures"]]
    return {
        "owner": found[0]["owner"],
        "agent_id": found[0]["agent_id"],
        **{name: sum(row[name] for row in found) for name in SUMS},
        "max_drawdown": min(row["max_drawdown"] for row in found),
        "runs": len(found),
        "counted_runs": len(new),
        "verified_runs": sum(row["proof_mode"] == "verified" for row in new),
        "live_runs": sum(row["source_mode"] == "live" for row in new),
        "failing_runs": sum(bool(row["failing"]) for row in new),
        "anchored_runs": sum(row["anchor_status"] == "anchored" for row in new),
        "pending_runs": sum(row["anchor_status"] == "pending" for row in new),
        **_pooled(new or found[:1]),
        "first_alike": found[0]["agent_id"],
    }


def _pooled(found: Sequence[Mapping[str, Any]]) -> Mapping[str, object]:
    """Pool the descriptions of an agent: differing values become ``mixed`` or ``None``, and knowledge becomes the weakest."""
    sketch = None if any(row["sketch"] is None for row in found) else joined(row["sketch"] for row in found)
    knowledge = reduce(weakest, (row["knowledge"] for row in found))
    indices = [row["commit_index"] for row in found if row["commit_index"] is not None]
    causality, config_hash = _common(found, "causality", MIXED), _common(found, "config_hash", None)
    return {
        "strategy": _common(found, "strategy", MIXED),
        "causality": causality,
        "config_hash": config_hash,
        "knowledge": knowledge,
        "commit_index": max(indices) if indices and knowledge == Knowledge.COMMITTED_BEFORE else None,
        "sketch": sketch,
        "hindsight_possible": is_hindsight_possible(causality, knowledge, config_hash),
    }


def _common(found: Sequence[Mapping[str, Any]], name: str, otherwise: str | None) -> Any:
    values = {row[name] for row in found}
    return values.pop() if len(values) == 1 else otherwise


def _named(sums: Mapping[str, int], label: str) -> Mapping[str, object]:
    """Return label and rank key of a row; the key sorts by mean CLV, rows without a mean last, ties by the label."""
    actions = sums["action_count"]
    ranked = 0.0 - sums["total_clv_bps"] / actions if actions else math.inf
    bits = int.from_bytes(struct.pack(">d", ranked))
    # IEEE 754: the bits of positive doubles sort like their values, the bits of negative ones in reverse.
    ordered = bits ^ (_ALL_BITS if bits >> 63 else 1 << 63)
    return {"label": label, "rank_key": ordered.to_bytes(8) + label.encode(errors="replace")}


def _group(connection: Connection, owner: str, agent_ids: Collection[str]) -> None:
    """Compare changed rows, and rows in their former groups, with the first row of every group of the owner."""
    moved: list[Mapping[str, Any]] = rows(connection, _CHANGED, dict, owner=owner, agent_ids=agent_ids)
    there = [row["agent_id"] for row in moved]
    groups = Groups(reversed(rows(connection, _LEADING.limit(GROUPS_COMPARED), dict, owner=owner, moved=there)))
    renamed: dict[str, str] = {}  # former first rows of a group that an older row joined
    for row in moved:
        found = groups.place(row)
        if found is not None and found["position"] > row["position"]:
            renamed[found["agent_id"]] = row["agent_id"]
        first_alike = row["agent_id"] if found is None or found["position"] > row["position"] else found["agent_id"]
        if first_alike != row["first_alike"]:
            connection.execute(update(standings).where(_is(owner, row["agent_id"])).values(first_alike=first_alike))
    for before, after in renamed.items():
        members = (_of.owner == owner) & (_of.first_alike == before)
        connection.execute(update(standings).where(members).values(first_alike=after))


@dataclass(frozen=True, slots=True)
class RowQuery:
    """Filters and order of rows.

    ``grouped`` returns only the oldest of an owner's rows with the same decisions. ``apart`` puts rows that may contain past
    prices last.
    """

    causality: str | None = None
    knowledge: str | None = None
    grouped: bool = False
    apart: bool = False
    owner: str | None = None


def ranked(
    connection: Connection, wanted: RowQuery, after: int, limit: int | None, beyond: bytes | None = None
) -> list[StandingRow]:
    """Return rows in rank order: those with a rank key after ``beyond``, without the first ``after`` of them."""
    own = standings.c
    query = select(*columns(standings, StandingRow))
    if beyond is not None:
        query = query.where(own.rank_key > beyond)
    for name in ("causality", "knowledge", "owner"):
        value = getattr(wanted, name)
        if value is not None:
            query = query.where(own[name] == value)
    if wanted.grouped:
        query = query.where(own.first_alike == own.agent_id)
    order = [own.hindsight_possible, own.rank_key] if wanted.apart else [own.rank_key]
    return rows(connection, query.order_by(*order).offset(after).limit(limit), StandingRow)


def others_alike(connection: Connection, found: Iterable[Row]) -> dict[Row, list[str]]:
    own = standings.c
    query = select(own.owner, own.first_alike, own.rank_key, own.label).where(own.first_alike != own.agent_id)
    leading: dict[str, list[str]] = {}
    for owner, agent_id in found:
        leading.setdefault(owner, []).append(agent_id)
    alike: dict[Row, list[str]] = {}
    for owner, agent_ids in leading.items():
        members = connection.execute(query.where(own.owner == owner, own.first_alike.in_(agent_ids))).all()
        for _, agent_id, _, label in sorted(members, key=lambda member: bytes(member.rank_key)):
            alike.setdefault((owner, agent_id), []).append(label)
    return alike


def all_rows(connection: Connection) -> list[StandingRow]:
    return rows(connection, select(*columns(standings, StandingRow)).order_by(standings.c.position), StandingRow)


def names_of(connection: Connection, owner: str) -> set[str]:
    standing = connection.execute(select(standings.c.agent_id).where(standings.c.owner == owner)).scalars()
    open_jobs = select(jobs.c.run_id).where(jobs.c.status.in_((JobStatus.QUEUED, JobStatus.LEASED)))
    under_way = select(runs.c.lineage).where(runs.c.owner == owner, runs.c.ranked, runs.c.run_id.in_(open_jobs))
    coming = connection.execute(under_way).scalars()
    return {str(agent_id) for agent_id in standing} | {agent["agent_id"] for lineage in coming for agent in lineage["agents"]}


def first_commit(connection: Connection, owner: str, strategy: str, config_hash: str | None) -> int | None:
    """Return the first log entry that committed to an owner's run with this strategy and configuration."""
    of = agent_results.c
    query = select(func.min(runs.c.commit_index)).join(agent_results, of.run_id == runs.c.run_id)
    query = query.where(of.owner == owner, of.config_hash == config_hash, of.strategy == strategy)
    index: int | None = connection.execute(query).scalar()
    return index


def revision(connection: Connection) -> str:
    found: str | None = connection.execute(select(revisions.c.revision).where(revisions.c.name == _LEADERBOARD)).scalar()
    return found or ""


def _change_revision(connection: Connection) -> None:
    """Change the token before any row; its lock is held until the transaction ends, so that writers do not deadlock."""
    changed = insert(connection, revisions)
    changed = changed.on_conflict_do_update(index_elements=["name"], set_={"revision": changed.excluded.revision})
    connection.execute(changed, {"name": _LEADERBOARD, "revision": token_hex(8)})


def count_anchor(connection: Connection, run_id: str, before: str, after: str) -> None:
    changes = {
        f"{status}_runs": standings.c[f"{status}_runs"] + int(after == status) - int(before == status)
        for status in ("anchored", "pending")
    }
    _change(connection, run_id, changes)


def count_failing(connection: Connection, run_id: str, *, failing: bool) -> None:
    """Update the standings' count of runs with a failing blocking check, by the newest verification of a run."""
    own = agent_results.c
    changed = (own.run_id == run_id) & (own.failing != failing)
    if connection.execute(select(own.run_id).where(changed).limit(1)).first() is None:
        return
    _change_revision(connection)
    connection.execute(update(agent_results).where(changed).values(failing=failing))
    _change(connection, run_id, {"failing_runs": standings.c.failing_runs + (1 if failing else -1)})


def _change(connection: Connection, run_id: str, changes: Mapping[str, Any]) -> None:
    found = [result for result in results_of(connection, run_id) if result["fixtures"]]
    if found:
        _change_revision(connection)
    for result in found:
        connection.execute(update(standings).where(_is(result["owner"], result["agent_id"])).values(**changes))


def results_of(connection: Connection, run_id: str) -> list[ResultRow]:
    return rows(connection, _RESULTS, ResultRow, run_id=run_id)


def sealed_run_ids(connection: Connection) -> list[str]:
    """Return the ids of all runs ever sealed, in log order; runs older than the log come first."""
    ended = log_entries.alias()
    result = (ended.c.run_id == runs.c.run_id) & (ended.c.kind == "RESULT")
    query = select(runs.c.run_id).outerjoin(ended, result).where(runs.c.manifest_hash.is_not(None))  # also of removed runs
    unlogged_first = func.coalesce(ended.c.idx, -1)
    return list(connection.execute(query.order_by(unlogged_first, runs.c.sealed_ts_ms, runs.c.run_id)).scalars())


def is_missing(connection: Connection) -> bool:
    """Whether there are sealed runs that are not counted at all."""
    sealed = select(runs.c.run_id).where(runs.c.status == "sealed", runs.c.ranked).limit(1)
    return (
        connection.execute(select(agent_results.c.run_id).limit(1)).first() is None
        and connection.execute(sealed).first() is not None
    )


def is_unpooled(connection: Connection) -> bool:
    return connection.execute(select(standings.c.position).where(standings.c.label == "").limit(1)).first() is not None


def pool_all(connection: Connection) -> None:
    order = {run_id: number for number, run_id in enumerate(sealed_run_ids(connection))}
    found = rows(connection, select(*columns(agent_results, ResultRow)), ResultRow)
    _put_standings(connection, sorted(found, key=lambda row: (order.get(row["run_id"], -1), row["agent_id"])))


def replace_all(
    connection: Connection, results: Sequence[ResultRow], fixtures: Mapping[tuple[Row, str], Mapping[int, str]]
) -> None:
    _change_revision(connection)
    for table in (standings, counted_fixtures, agent_results):
        connection.execute(delete(table))
    if results:
        connection.execute(agent_results.insert(), results)
    for (row, content_hash), run_id_of in fixtures.items():
        count(connection, row, content_hash, run_id_of)
    _put_standings(connection, results)


def _put_standings(connection: Connection, results: Iterable[ResultRow]) -> None:
    _change_revision(connection)
    connection.execute(delete(standings))
    statuses = dict(connection.execute(select(anchors.c.run_id, anchors.c.status)).all())
    pooled: dict[Row, list[Mapping[str, Any]]] = {}
    for result in results:
        status = statuses.get(result["run_id"], "not_anchored")
        pooled.setdefault((result["owner"], result["agent_id"]), []).append({**result, "anchor_status": status})
    groups: dict[str, Groups] = {}
    made = []
    for position, (key, label) in enumerate(zip(pooled, labels(list(pooled)), strict=True)):
        sums = _standing(pooled[key])
        row = {**sums, "position": position, **_named(sums, label)}
        found = groups.setdefault(key[0], Groups()).place(row)
        made.append(row if found is None else row | {"first_alike": found["agent_id"]})
    if made:
        connection.execute(standings.insert(), made)
