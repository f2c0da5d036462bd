"""What is stored of a run: its row and its entry in the run log from the first moment, all else of it when it is sealed.

Every run is committed to in the log before its tape is opened, and ends there in one result or abandonment, each in the
transaction that says the same of the run.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from clvlab.anchor.log import abandon, commit, commit_anew, conclude
from clvlab.application.anchoring import Anchoring
from clvlab.application.execution import Execution
from clvlab.law.metrics import forecast_errors
from clvlab.proof.card import lineage, proof_card
from clvlab.proof.checks import Verdict
from clvlab.proof.manifest import inputs_hash
from clvlab.proof.verify import Anchor, Verification
from clvlab.store import anchors, runs, standings
from clvlab.store.database import Connection
from clvlab.store.runlog import LogRows
from clvlab.store.runs import RunStatus

__all__ = ["begin", "enter", "give_up", "results", "seal"]

_SUMS = (
    "action_count",
    "valid_count",
    "invalid_count",
    "total_clv_bps",
    "sim_pnl",
    "forecasts",
    "squared_error",
    "max_drawdown",
)


def enter(connection: Connection, started: dict[str, Any], owner: str, now_ms: int) -> bool:
    """Put a run on record and commit to it, from the payload of its RUN_STARTED.

    Returns
    -------
    bool
        Whether it is to be performed now: it was not on record, or had failed.
    """
    run_id = started["run_id"]
    names = ("run_id", "kind", "origin_id", "source_mode", "mode_label")
    row = {name: started[name] for name in names} | {"lineage": lineage(started), "created_ts_ms": now_ms}
    if not runs.add(connection, row):
        return False
    log = LogRows(connection, writing=True)
    content_hash = started["binding"]["content_hash"]
    runs.commit_to(connection, run_id, commit(log, run_id, owner, inputs_hash(started), content_hash, now_ms))
    return True


def begin(connection: Connection, run_id: str, now_ms: int) -> int | None:
    """Note that a run is being performed; gives the log's entry that committed to it: a new one if that was abandoned."""
    row = runs.row(connection, run_id, lock=True)
    runs.mark(connection, run_id, RunStatus.RUNNING)
    if row is None or row["commit_index"] is None:
        return None
    index = commit_anew(LogRows(connection, writing=True), run_id, now_ms)
    runs.commit_to(connection, run_id, index)
    return index


def give_up(connection: Connection, run_id: str, cause: str, now_ms: int) -> None:
    """Put the cause on a run's record, and abandon its commitment; asking for the run again commits to it anew.

    The log, from which nothing can be taken back, says that the run failed, and not why.
    """
    row = runs.row(connection, run_id, lock=True)
    if row is None or row["status"] in (RunStatus.SEALED, RunStatus.FAILED):  # by another worker on the same run
        return
    runs.mark(connection, run_id, RunStatus.FAILED, cause)
    if row["commit_index"] is not None:
        abandon(LogRows(connection, writing=True), run_id, "failed", now_ms)


def seal(connection: Connection, execution: Execution, anchoring: Anchoring | None, now_ms: int) -> Anchor:
    """Store a performed run, log its result, begin its anchor and add it to the standings; the same again changes nothing.

    Without ``anchoring`` the run is not anchored.

    Raises
    ------
    RunConflictError
        A run of the same id is sealed with other bytes.
    """
    run, verification = execution.result.run, execution.verification
    card = proof_card(verification)
    checks = {name: {"verdict": card["checks"][name], "detail": card["check_details"][name]} for name in card["checks"]}
    new = runs.seal(connection, run, execution.receipts, checks=checks, metrics=card["metrics"], ts_ms=now_ms)
    if not new:
        return anchors.anchor_of(connection, run.run_id) or Anchor()
    if run.commit_index is not None:
        conclude(LogRows(connection, writing=True), run.run_id, run.manifest_hash, now_ms)
    anchor = anchoring.begin(connection, run.run_id, now_ms) if anchoring else Anchor()
    standings.add(connection, results(verification), anchor.status)
    return anchor


def results(verification: Verification) -> list[dict[str, Any]]:
    """Give what a verified run adds to the standings: a row per agent, re-derived from its sealed bytes."""
    scores, outcomes, started = verification.scores, verification.outcomes, verification.started
    if scores is None or outcomes is None:
        return []
    failing = any(check.verdict == Verdict.FAIL for check in verification.checks.values())
    modes = {agent["agent_id"]: agent["proof_mode"] for agent in started["agents"]}
    rows = outcomes.join(forecast_errors(scores), on="agent_id", how="left").with_columns(
        pl.col("forecasts", "squared_error").fill_null(0), pl.col("max_drawdown").cast(pl.Int64)
    )
    return [
        {
            "run_id": verification.run_id,
            "agent_id": row["agent_id"],
            **{name: row[name] for name in _SUMS},
            "proof_mode": modes[row["agent_id"]],
            "source_mode": started["source_mode"],
            "failing": failing,
        }
        for row in rows.iter_rows(named=True)
    ]
