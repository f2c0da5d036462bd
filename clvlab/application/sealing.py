"""What is stored of a run: its row from the first moment, and everything of it in one transaction when it is sealed."""

from __future__ import annotations

from typing import Any

import polars as pl

from clvlab.application.anchoring import Anchoring
from clvlab.application.execution import Execution
from clvlab.law.metrics import forecast_errors
from clvlab.proof.card import lineage, proof_card
from clvlab.proof.checks import Verdict
from clvlab.proof.verify import Anchor, Verification
from clvlab.store import runs, standings
from clvlab.store.database import Connection

__all__ = ["recorded", "results", "seal"]

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


def recorded(started: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """Give the row of a run that is about to be queued, from the payload of its RUN_STARTED."""
    names = ("run_id", "kind", "origin_id", "source_mode", "mode_label")
    return {name: started[name] for name in names} | {"lineage": lineage(started), "created_ts_ms": now_ms}


def seal(connection: Connection, execution: Execution, anchoring: Anchoring, now_ms: int) -> Anchor:
    """Store a performed run, add it to the standings and begin its anchor; the same run again changes nothing.

    Raises
    ------
    RunConflictError
        A run of the same id is sealed with other bytes.
    """
    run, verification = execution.result.run, execution.verification
    card = proof_card(verification)
    checks = {name: {"verdict": card["checks"][name], "detail": card["check_details"][name]} for name in card["checks"]}
    new = runs.seal(connection, run, execution.receipts, checks=checks, metrics=card["metrics"], ts_ms=now_ms)
    if new:
        anchor = anchoring.begin(connection, run.run_id, now_ms)
        standings.add(connection, results(verification), anchor.status)
        return anchor
    return standings.anchor_of(connection, run.run_id) or Anchor()


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
