"""What a run adds to the leaderboard: its scores over the fixtures that its row there did not have before.

For an owner, an agent id, a content hash and a fixture the first result in the log counts. Whatever repeats that fixture later,
under another window, horizon, configuration or label, adds nothing: whoever could choose among repetitions would climb by luck.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import polars as pl

from clvlab.application.runs.card import knowledge, shown_causality
from clvlab.law.metrics import forecast_errors, outcomes
from clvlab.proof.checks import Verdict
from clvlab.proof.verify import Verification
from clvlab.store import standings
from clvlab.store.database import Connection
from clvlab.store.sketches import sketches
from clvlab.store.standings import Row
from clvlab.store.tables import SUMS

Claim = Callable[[Row, str, Collection[int]], set[int]]
"""Note fixtures of a pack for a row; returns those that it did not have."""

_SUMMED = (*SUMS, "max_drawdown")


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
    """Return what a verified run adds, a row per agent, re-derived from its sealed bytes; nothing if they can't be read.

    A replay is of history, until the log says that an agent was committed to before.
    """
    started = verification.started
    if verification.scores is None or verification.outcomes is None or started is None:
        return []
    binding = started["binding"]
    # Of a live fixture there are as many captures as runs: its first result counts, whoever captured it.
    fixture_ids, content_hash = binding["fixture_ids"], binding["content_hash"] or started["source_mode"]
    agent_ids = [agent["agent_id"] for agent in started["agents"]]
    new = {agent_id: claim((owner, agent_id), content_hash, fixture_ids) for agent_id in agent_ids}
    is_whole = all(len(own) == len(fixture_ids) for own in new.values())
    scores = verification.scores if is_whole else _of_new(verification.scores, new)
    sums, made = _sums(scores, agent_ids), sketches(scores, content_hash, agent_ids)
    failing, known = is_failing(verification), knowledge(started["source_mode"])
    return [
        {
            "run_id": verification.run_id,
            "agent_id": agent["agent_id"],
            "owner": owner,
            **sums[agent["agent_id"]],
            "fixtures": len(new[agent["agent_id"]]),
            "proof_mode": agent["proof_mode"],
            "source_mode": started["source_mode"],
            "failing": failing,
            "strategy": agent["strategy"],
            "causality": shown_causality(agent),
            "config_hash": agent["config_hash"],
            "knowledge": known,
            "commit_index": None,
            "sketch": made[agent["agent_id"]],
        }
        for agent in started["agents"]
    ]


def is_failing(verification: Verification) -> bool:
    """Whether a blocking check fails."""
    return any(check.verdict == Verdict.FAIL for check in verification.checks.values())


def _of_new(scores: pl.DataFrame, new: Mapping[str, Collection[int]]) -> pl.DataFrame:
    """Return the scores of each agent over its new fixtures."""
    pairs = [(agent_id, fixture_id) for agent_id, fixture_ids in new.items() for fixture_id in fixture_ids]
    counted = pl.DataFrame(pairs, schema={"agent_id": pl.String, "fixture_id": pl.Int64}, orient="row")
    return scores.join(counted, on=["agent_id", "fixture_id"], how="semi", maintain_order="left")


def _sums(scores: pl.DataFrame, agent_ids: Collection[str]) -> dict[str, dict[str, int]]:
    """Sum the scores of each agent; one pass, however many agents."""
    decided = scores.group_by("agent_id").agg(decision_count=pl.len())
    summed = outcomes(scores, tuple(agent_ids))
    for other in (forecast_errors(scores), decided):
        summed = summed.join(other, on="agent_id", how="left")
    rows = summed.with_columns(pl.col("forecasts", "squared_error", "decision_count").fill_null(0))
    return {row["agent_id"]: {name: int(row[name]) for name in _SUMMED} for row in rows.iter_rows(named=True)}
