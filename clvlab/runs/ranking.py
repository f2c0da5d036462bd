"""Ranking of agents over several runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from clvlab.law.metrics import rank
from clvlab.law.schema import OUTCOMES
from clvlab.runs.card import card_causality, knowledge, may_hold_past
from clvlab.runs.run import Run
from clvlab.statistics import estimates
from clvlab.statistics.measures import MEASURES, fixture_sums, stacked
from clvlab.store.sketches import Groups, sketches


def leaderboard(backtests: Sequence[Run]) -> pl.DataFrame:
    """Return ``OUTCOMES`` of several backtests, ranked by mean CLV."""
    frames = [pl.DataFrame(schema=OUTCOMES), *(backtest.outcomes for backtest in backtests)]
    return rank(pl.concat(frames))


def board(backtests: Sequence[Run]) -> pl.DataFrame:
    """Return the leaderboard with one row for each group of agents that decide alike.

    Agents that can't contain past results come first. Additional columns: ``hindsight_possible``; ``others``, the number of
    other agents in the group; and the mean edge at the prices taken in percent, ``mean_edge_pct, edge_low, edge_high``.
    """
    frame = pl.concat([pl.DataFrame(schema=OUTCOMES), *(backtest.outcomes for backtest in backtests)])
    rows = [row | {"position": position} for position, row in enumerate(row for one in backtests for row in _facts(one))]
    groups = Groups()
    first = [found["position"] if (found := groups.place(row)) else row["position"] for row in rows]
    labelled = frame.with_columns(
        pl.Series("hindsight_possible", [row["hindsight_possible"] for row in rows], dtype=pl.Boolean),
        pl.Series("others", [first.count(row["position"]) - 1 for row in rows], dtype=pl.Int64),
        pl.Series("leads", [position == at for at, position in enumerate(first)], dtype=pl.Boolean),
        *_edges(backtests),
    )
    return rank(labelled).filter("leads").drop("leads").sort("hindsight_possible", maintain_order=True)


def _edges(backtests: Sequence[Run]) -> list[pl.Series]:
    sums = [
        fixture_sums(one.marked.filter(pl.col("agent_id") == agent_id))
        for one in backtests
        for agent_id in one.outcomes["agent_id"]
    ]
    found = estimates(stacked(sums, MEASURES["edge"])[0]) if sums else []
    columns = {name: [getattr(one, name) for one in found] for name in ("mean", "low", "high")}
    named = {"mean": "mean_edge_pct", "low": "edge_low", "high": "edge_high"}
    return [pl.Series(named[name], values, dtype=pl.Float64) for name, values in columns.items()]


def _facts(backtest: Run) -> list[dict[str, Any]]:
    started, agent_ids = backtest.started, backtest.outcomes["agent_id"].to_list()
    made = sketches(backtest.scores, str(started["binding"]["content_hash"]), agent_ids)
    agents = {agent["agent_id"]: agent for agent in started["agents"]}
    return [
        {
            "causality": card_causality(agents[agent_id]),
            "knowledge": knowledge(started["source_mode"]),
            "hindsight_possible": may_hold_past(agents[agent_id], started["source_mode"]),
            "sketch": made[agent_id],
        }
        for agent_id in agent_ids
    ]
