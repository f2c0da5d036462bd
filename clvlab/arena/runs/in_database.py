"""Runs in the database: row and log entry from the start, everything else at the seal.

The log commits to every run before its tape is opened, and later has one result or abandonment. The transaction that adds it
also records the outcome of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import orjson
import polars as pl

from clvlab.agents.registry import TEMPLATES
from clvlab.api.answer import pick
from clvlab.arena.anchors import RunAnchors
from clvlab.arena.caps import Budget
from clvlab.law.metrics import forecast_errors, outcomes
from clvlab.law.schema import Causality
from clvlab.log.log import abandon, commit, conclude, recommit
from clvlab.log.seats import KIND as SEAT_KIND
from clvlab.log.seats import Blind
from clvlab.proof.anchor import Anchor
from clvlab.proof.checks import Check, Verdict
from clvlab.proof.manifest import RunStarted, inputs_hash
from clvlab.proof.verify import Verification
from clvlab.runs.card import card_causality, knowledge, lineage, metrics
from clvlab.runs.execute import ABANDONED, Commitment, drawing_of
from clvlab.runs.progress import message_of
from clvlab.runs.run import Run, audited
from clvlab.runs.spec import RunSpec
from clvlab.store import anchors, jobs, runs, standings
from clvlab.store.database import Connection, Database
from clvlab.store.jobs import Job, JobPayload
from clvlab.store.labels import ANYBODY, Knowledge
from clvlab.store.runlog import RunLog, StoredLogRows
from clvlab.store.runs import RunRow, RunStatus
from clvlab.store.sketches import sketches
from clvlab.store.standings import ResultRow, Row
from clvlab.store.tables import Sums

# A run adds its scores over the fixtures that its leaderboard row did not have before. For each owner, agent id, content hash
# and fixture the first result in the log counts. A repetition under another window, horizon, configuration or label adds
# nothing: otherwise an owner could choose the luckiest result.


Claim = Callable[[Row, str, Collection[int]], set[int]]
"""Adds fixtures of a pack to a row; returns the new ones."""


def stored_claim(connection: Connection, run_id: str) -> Claim:
    """Return a claim of a run on the fixtures in the database; the log must be locked."""

    def claim(row: Row, content_hash: str, fixture_ids: Collection[int]) -> set[int]:
        new = set(fixture_ids) - standings.counted(connection, row, content_hash)
        standings.count(connection, row, content_hash, dict.fromkeys(sorted(new), run_id))
        return new

    return claim


class FixtureClaims(dict[tuple[Row, str], dict[int, str]]):
    """The fixtures of each row and pack with their runs, for a count from the beginning."""

    def of(self, run_id: str) -> Claim:
        def claim(row: Row, content_hash: str, fixture_ids: Collection[int]) -> set[int]:
            known = self.setdefault((row, content_hash), {})
            new = set(fixture_ids) - known.keys()
            known |= dict.fromkeys(new, run_id)
            return new

        return claim


def results(verification: Verification, row: RunRow, claim: Claim) -> list[ResultRow]:
    """Return the contribution of a verified run, a row per agent, derived from its sealed bytes; empty if they can't be read.

    A replay counts as ``history`` unless the log shows an earlier commitment to the agent, or its pack was held back.
    """
    started = verification.started
    if verification.scores is None or verification.outcomes is None or started is None:
        return []
    binding, owner = started["binding"], row["owner"] or ANYBODY
    # Each live run of a fixture has its own capture, so captures do not matter: the first result counts.
    fixture_ids, content_hash = binding["fixture_ids"], binding["content_hash"] or started["source_mode"]
    agent_ids = [agent["agent_id"] for agent in started["agents"]]
    new = {agent_id: claim((owner, agent_id), content_hash, fixture_ids) for agent_id in agent_ids}
    is_whole = all(len(own) == len(fixture_ids) for own in new.values())
    scores = verification.scores if is_whole else _of_new(verification.scores, new)
    sums, made = (
        _sums(scores, agent_ids, verification.outcomes if is_whole else None),
        sketches(scores, content_hash, agent_ids),
    )
    failing, known = is_failing(verification), _knowledge(started)
    return [
        {
            "run_id": verification.run_id,
            "agent_id": agent["agent_id"],
            "owner": owner,
            "created_ts_ms": row["created_ts_ms"],
            **sums[agent["agent_id"]],
            "fixtures": len(new[agent["agent_id"]]),
            "proof_mode": agent["proof_mode"],
            "source_mode": started["source_mode"],
            "failing": failing,
            "strategy": agent["strategy"],
            "causality": card_causality(agent),
            "config_hash": agent["config_hash"],
            "knowledge": known,
            "commit_index": None,
            "sketch": made[agent["agent_id"]],
        }
        for agent in started["agents"]
    ]


def _knowledge(started: RunStarted) -> Knowledge:
    """Return when prices became known. A service, which alone makes seats, has refused any other run over a held-back pack."""
    is_held = started["kind"] == SEAT_KIND and started["agents"][0]["config"].get("blind") == Blind.HELD_BACK
    return Knowledge.HELD_BACK if is_held else knowledge(started["source_mode"])


def is_failing(verification: Verification) -> bool:
    return any(check.verdict == Verdict.FAIL for check in verification.checks.values())


def _of_new(scores: pl.DataFrame, new: Mapping[str, Collection[int]]) -> pl.DataFrame:
    pairs = [(agent_id, fixture_id) for agent_id, fixture_ids in new.items() for fixture_id in fixture_ids]
    if not pairs:
        return scores.clear()
    counted = pl.DataFrame(pairs, schema={"agent_id": pl.String, "fixture_id": pl.Int64}, orient="row")
    return scores.join(counted, on=["agent_id", "fixture_id"], how="semi", maintain_order="left")


def _sums(scores: pl.DataFrame, agent_ids: Collection[str], known: pl.DataFrame | None) -> dict[str, Sums]:
    """Sum the scores of every agent; ``known`` are their outcomes, if there are any."""
    if scores.is_empty():
        return {agent_id: pick(Sums, dict.fromkeys(Sums.__annotations__, 0)) for agent_id in agent_ids}
    decided = scores.group_by("agent_id").agg(decision_count=pl.len())
    summed = outcomes(scores, tuple(agent_ids)) if known is None else known
    for other in (forecast_errors(scores), decided):
        summed = summed.join(other, on="agent_id", how="left")
    counted = pl.col("forecasts", "squared_error", "decision_count").fill_null(0)
    rows = summed.with_columns(counted, pl.col("max_drawdown").cast(pl.Int64))
    return {row["agent_id"]: pick(Sums, row) for row in rows.iter_rows(named=True)}


@dataclass(frozen=True)
class DatabaseRecorder:
    """Records runs that are made at once, without a job; each step is a transaction."""

    database: Database
    owner: str  # owner of the commitments
    clock: Callable[[], int]  # UTC milliseconds; they are in the log, but not in runs
    # Called in the transaction that stores a run.
    also: Callable[[Connection, Run], None] = lambda connection, done: None  # noqa: ARG005
    ranked: bool = True  # whether runs are added to the standings
    # Called in the transaction that commits to a run; it may refuse the run.
    before: Callable[[Connection], None] = lambda connection: None  # noqa: ARG005

    @property
    def log(self) -> RunLog:
        return RunLog(self.database)

    def commit(self, spec: RunSpec) -> Commitment:
        with self.database.write() as connection:
            self.before(connection)
            enter(connection, spec.started, self.owner, self.clock(), ranked=self.ranked)
            return replace(begin(connection, spec.run_id, self.clock()), drawing=drawing_of(self.log, spec.run_id, self.clock))

    def keep(self, done: Run) -> None:
        with self.database.write() as connection:
            keep(connection, done, None, self.clock())
            self.also(connection, done)

    def abandon(self, run_id: str, cause: str) -> None:
        with self.database.write() as connection:
            give_up(connection, run_id, cause, self.clock())


def enter(
    connection: Connection,
    started: RunStarted,
    owner: str,
    now_ms: int,
    *,
    ranked: bool = True,
    budget: Budget | None = None,
    origin_id: str | None = None,
    payload: JobPayload | None = None,
    lease_ms: int | None = None,
) -> Job | None:
    """Store a run, unless it is there and must not be performed again, and commit to it; with ``payload`` store its job too.

    A new job is returned. With ``lease_ms`` it is leased to the caller, and the run begins. ``started`` is the payload of
    RUN_STARTED. A removed run keeps its owner. Without ``budget`` the bytes of the run are not limited. ``origin_id`` is the
    origin if the evidence does not name it exactly, as for a start of a competition.
    """
    run_id, binding = started["run_id"], started["binding"]
    row = {
        "run_id": run_id,
        "status": RunStatus.QUEUED if lease_ms is None else RunStatus.RUNNING,
        "kind": started["kind"],
        "origin_id": origin_id or started["origin_id"],
        "source_mode": started["source_mode"],
        "mode_label": started["mode_label"],
        "lineage": lineage(started),
        "owner": owner,
        "pack_id": binding["pack_id"],
        "content_hash": binding["content_hash"],
        "created_ts_ms": now_ms,
        "ranked": ranked,
    }
    kept_owner = runs.add(connection, row)
    if kept_owner is None:
        return None
    owner = kept_owner
    if budget is not None:
        budget.require_room(connection, owner)
    log = StoredLogRows(connection, writing=True)
    sources = [agent["source_sha256"] for agent in started["agents"]]
    inputs, audits = inputs_hash(started), len(audited(started))
    index = commit(log, run_id, owner, inputs, binding["content_hash"], now_ms, sources=sources, audited=audits)
    runs.commit_to(connection, run_id, index)
    if payload is None:
        return None
    kind = f"live-{started['kind']}" if started["source_mode"] == "live" else started["kind"]
    job_id = jobs.add(connection, kind, run_id, payload, now_ms, lease_ms)
    if lease_ms is None:
        return Job(job_id, kind, run_id, payload, 0)
    jobs.take_turn(connection, owner)
    return Job(job_id, kind, run_id, payload, 1, commit_index=index)


def begin(connection: Connection, run_id: str, now_ms: int) -> Commitment:
    """Mark a run as running and return its commitment; an abandoned commitment is replaced by a new one."""
    row = runs.row(connection, run_id, lock=True)
    runs.mark(connection, run_id, RunStatus.RUNNING, ts_ms=now_ms)
    if row is None or row["commit_index"] is None:
        return Commitment(run_id)
    index = recommit(StoredLogRows(connection, writing=True), run_id, now_ms)
    runs.commit_to(connection, run_id, index)
    return Commitment(run_id, index)


def give_up(connection: Connection, run_id: str, cause: str, now_ms: int) -> None:
    """Record a run's failure and abandon its commitment; a new request commits again."""
    row = runs.row(connection, run_id, lock=True)
    if row is None or row["status"] in (RunStatus.SEALED, RunStatus.FAILED):  # another worker has ended the run
        return
    if row["manifest_hash"] is not None:  # the run was sealed and then removed, and the log keeps its result
        runs.mark(connection, run_id, RunStatus.REMOVED, cause, ts_ms=now_ms)
        return
    runs.mark(connection, run_id, RunStatus.FAILED, cause, ts_ms=now_ms)
    if row["commit_index"] is not None:
        abandon(StoredLogRows(connection, writing=True), run_id, ABANDONED, now_ms)


def keep(connection: Connection, done: Run, anchoring: RunAnchors | None, now_ms: int) -> Anchor:
    """Store a run, log its result, start its anchor and, if it is ranked, add it to the standings; repeating changes nothing.

    The pack that a live run captured is recorded. Without ``anchoring`` the run is not anchored.
    """
    run, verification = done.sealed, done.verification
    pooled = None if verification.outcomes is None else metrics(verification.outcomes)
    new = runs.seal(connection, run, done.receipts, checks=check_records(verification.checks), metrics=pooled, ts_ms=now_ms)
    if not new:
        return anchors.anchor_of(connection, run.run_id) or Anchor()
    if done.is_live:
        runs.name_pack(connection, run.run_id, done.pack.pack_id, done.pack.content_hash)
    causes = [
        {"run_id": run.run_id, "agent_id": error["agent_id"], "error": error["error"], "message": message_of(cause)}
        for error in done.evidence.errors
        if (cause := done.causes.get(error["agent_id"])) is not None
    ]
    runs.add_agent_errors(connection, causes)
    log = StoredLogRows(connection, writing=True)  # its lock also orders additions to the standings
    if run.commit_index is not None:
        conclude(log, run.run_id, run.manifest_hash, run.content_hash, now_ms, failed_audits=done.failed_audits)
    anchor = anchoring.begin(connection, run.run_id, now_ms) if anchoring else Anchor()
    row = runs.row(connection, run.run_id)
    if row is not None and row["ranked"] and not standings.results_of(connection, run.run_id):  # a removed run keeps its own
        added = results(verification, row, stored_claim(connection, run.run_id))
        standings.add(connection, [_with_knowledge(connection, result, done) for result in added], anchor.status)
    return anchor


def _with_knowledge(connection: Connection, result: ResultRow, done: Run) -> ResultRow:
    """Record whether the log committed to a replay's agent before the first kickoff, and before the agent decided.

    Only for a template does a commitment cover everything, by its configuration: the digest of other code does not cover files
    that the code reads, such as a table of closes. Times of synthetic packs and of unfinished fixtures prove nothing.
    """
    evidence = done.verification.evidence
    is_whole = result["strategy"] in TEMPLATES and result["causality"] in (Causality.TEMPLATE, Causality.TRANSCRIPT)
    if evidence is None or done.sealed.commit_index is None or done.is_live or not is_whole:
        return result
    earlier = standings.first_commit(connection, result["owner"], result["strategy"], result["config_hash"])
    if earlier is None or done.pack.provenance.startswith("synthetic"):
        return result
    log, kickoffs = StoredLogRows(connection), done.pack.fixtures.filter(pl.col("fixture_id").is_in(done.fixture_ids))
    decided = evidence.decisions.filter(pl.col("agent_id") == result["agent_id"])["ts_ms"]
    firsts = [int(ts_ms) for ts_ms in (*decided, *kickoffs["kickoff_ts_ms"]) if ts_ms is not None]
    last = max(evidence.closes["close_ts_ms"], default=0)
    if not firsts or _committed_ms(log, earlier) >= min(firsts) or _committed_ms(log, done.sealed.commit_index) < last:
        return result
    return {**result, "knowledge": Knowledge.COMMITTED_BEFORE, "commit_index": earlier}


def _committed_ms(log: StoredLogRows, index: int) -> int:
    committed: int = orjson.loads(log.entry(index))["ts_ms"]
    return committed


def check_records(checks: Mapping[str, Check]) -> dict[str, dict[str, str]]:
    return {name: {"verdict": check.verdict.value, "detail": check.detail} for name, check in checks.items()}
