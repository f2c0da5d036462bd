"""What a run adds to the leaderboard: its scores over the fixtures that its row there did not have before.

For an owner, an agent id, a content hash and a fixture the first result in the log counts. Whatever repeats that fixture later,
under another window, horizon, configuration or label, adds nothing: whoever could choose among repetitions would climb by luck.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import polars as pl

from clvlab.law.metrics import forecast_errors, outcomes
from clvlab.proof.checks import Verdict
from clvlab.proof.verify import Verification
from clvlab.store import standings
from clvlab.store.database import Connection
from clvlab.store.standings import Row

ANYBODY = "anonymous"
"""Who commits to a run that was asked for without a token."""

Claim = Callable[[Row, str, Collection[int]], set[int]]
"""Note fixtures of a pack for a row; returns those that it did not have."""

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


def stored_claim(connection: Connection, run_id: str) -> Claim:
    """Return a claim of a run on the fixtures that the database has; the log must be held."""

    def claim(row: Row, content_hash: str, fixture_ids: Collection[int]) -> set[int]:
        new = set(fixture_ids) - standings.counted(connection, row, content_hash)
        standings.count(connection, row, content_hash, dict.fromkeys(sorted(new), run_id))
        return new

    return claim


class Claimed(dict[tuple[Row, str], dict[int, str]]):
    """The fixtures of each row and pack with the runs that brought them, counted anew from nothing."""

    def of(self, run_id: str) -> Claim:
        """Return a run's claim."""

        def claim(row: Row, content_hash: str, fixture_ids: Collection[int]) -> set[int]:
            known = self.setdefault((row, content_hash), {})
            new = set(fixture_ids) - known.keys()
            known |= dict.fromkeys(new, run_id)
            return new

        return claim


def results(verification: Verification, owner: str, claim: Claim) -> list[dict[str, Any]]:
    """Return what a verified run adds, a row per agent, re-derived from its sealed bytes; nothing if they can't be read."""
    started = verification.started
    if verification.scores is None or verification.outcomes is None or started is None:
        return []
    binding = started["binding"]
    fixture_ids, content_hash = binding["fixture_ids"], str(binding["content_hash"])
    failing = is_failing(verification)
    found = []
    for agent in started["agents"]:
        row = (owner, agent["agent_id"])
        new = claim(row, content_hash, fixture_ids)
        found.append(
            {
                "run_id": verification.run_id,
                "agent_id": agent["agent_id"],
                "owner": owner,
                **_sums(verification.scores, agent["agent_id"], new, whole=len(new) == len(fixture_ids)),
                "fixtures": len(new),
                "proof_mode": agent["proof_mode"],
                "source_mode": started["source_mode"],
                "failing": failing,
            }
        )
    return found


def is_failing(verification: Verification) -> bool:
    """Whether a blocking check fails."""
    return any(check.verdict == Verdict.FAIL for check in verification.checks.values())


def _sums(scores: pl.DataFrame, agent_id: str, fixture_ids: Collection[int], *, whole: bool) -> dict[str, int]:
    """Sum an agent's scores over some fixtures."""
    own = scores.filter(pl.col("agent_id") == agent_id)
    if not whole:
        own = own.filter(pl.col("fixture_id").is_in(sorted(fixture_ids)))
    summed = outcomes(own, (agent_id,)).join(forecast_errors(own), on="agent_id", how="left")
    row = summed.with_columns(pl.col("forecasts", "squared_error").fill_null(0)).row(0, named=True)
    return {name: int(row[name]) for name in _SUMS} | {"decision_count": own.height}
