"""The leaderboard over every sealed run of the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from clvlab.answers.leaderboard import AnchorSummary, EligibilityBadge, LeaderboardResponse, LeaderboardRow
from clvlab.application.runs.in_database import results
from clvlab.law.metrics import LOW_SAMPLE_BELOW, confidence
from clvlab.proof.verify import verify
from clvlab.store import runs, standings
from clvlab.store.database import Database
from clvlab.store.tables import RUN_COUNTS, SUMS

_T = TypeVar("_T")
_PPM = 1_000_000
_COMPARED = (*SUMS, *RUN_COUNTS, "max_drawdown")


@dataclass(frozen=True)
class Leaderboard:
    """Use cases of the global ranking."""

    database: Database

    def rows(self) -> LeaderboardResponse:
        """Rank all agents, best first, in a time that does not grow with runs or decisions."""
        with self.database.read() as connection:
            rows = [_row(standing) for standing in standings.all_rows(connection)]
        # Agent ids by code point, which is the order of their bytes; a database may sort otherwise.
        rows.sort(key=lambda row: (row["avg_clv_bps"] is None, -(row["avg_clv_bps"] or 0.0), row["agent_id"]))
        return {"rows": [{**row, "rank": rank} for rank, row in enumerate(rows, start=1)]}

    def rebuild(self) -> list[str]:
        """Recompute all of it from the sealed bytes and store that; returns a sentence for every difference found.

        Run it while no run is being sealed: what is sealed meanwhile is pooled, and not recomputed.
        """
        with self.database.read() as connection:
            run_ids = standings.sealed_run_ids(connection)
        fresh = {run_id: self._recomputed(run_id) for run_id in run_ids}
        with self.database.write() as connection:
            before = {row["agent_id"]: dict(row) for row in standings.all_rows(connection)}
            standings.replace_all(connection, fresh)
            after = {row["agent_id"]: dict(row) for row in standings.all_rows(connection)}
        return [
            f"{agent_id}: {name} was {before.get(agent_id, {}).get(name)}, recomputed it is {after.get(agent_id, {}).get(name)}"
            for agent_id in sorted(before.keys() | after.keys())
            for name in _COMPARED
            if before.get(agent_id, {}).get(name) != after.get(agent_id, {}).get(name)
        ]

    def _recomputed(self, run_id: str) -> list[dict[str, Any]]:
        with self.database.read() as connection:
            run = runs.sealed_run(connection, run_id) if runs.is_ranked(connection, run_id) else None
            receipts = runs.receipt_lines(connection, run_id)
        return [] if run is None else results(verify(run, receipts))


def _row(standing: Mapping[str, Any]) -> LeaderboardRow:
    total, judged = standing["runs"], standing["valid_count"] + standing["invalid_count"]
    actions, forecasts = standing["action_count"], standing["forecasts"]
    return {
        "rank": 0,  # known when all rows are
        "agent_id": standing["agent_id"],
        "runs": total,
        "avg_clv_bps": standing["total_clv_bps"] / actions if actions else None,
        "total_clv_bps": standing["total_clv_bps"],
        "sim_pnl": standing["sim_pnl"],
        "brier": standing["squared_error"] / _PPM / forecasts if forecasts else None,
        "max_drawdown": float(standing["max_drawdown"]),
        "action_count": actions,
        "valid_pct": 100 * standing["valid_count"] / judged if judged else 0.0,
        "proof_mode": _summary(standing["verified_runs"], total, "verified", "reproducible", "mixed"),
        "eligibility_badge": _badge(standing),
        "anchor_status": _anchor_status(standing),
        "source_mode": _summary(standing["live_runs"], total, "all-live", "all-replay", "mixed") if total else "unknown",
        "valid_count": standing["valid_count"],
        "clv_confidence": confidence(standing["valid_count"]),
        "low_sample": standing["valid_count"] < LOW_SAMPLE_BELOW,
    }


def _summary(count: int, total: int, every: _T, none: _T, some: _T) -> _T:
    if count == 0:
        return none
    return every if count == total else some


def _badge(standing: Mapping[str, Any]) -> EligibilityBadge:
    if standing["failing_runs"] or not standing["anchored_runs"]:
        return "unproven"
    return "fully-proven" if standing["anchored_runs"] == standing["runs"] else "partially-proven"


def _anchor_status(standing: Mapping[str, Any]) -> AnchorSummary:
    if standing["anchored_runs"] == standing["runs"]:
        return "all-anchored"
    return "some-pending" if standing["anchored_runs"] or standing["pending_runs"] else "none-anchored"
