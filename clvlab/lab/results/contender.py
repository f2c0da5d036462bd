"""One agent of one sealed run: what comparisons and leaderboards are made of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import polars as pl

from clvlab.application.runs.perform import PerformedRun, captured_pack_id
from clvlab.proof.started import AgentStarted, RunStarted


@dataclass(frozen=True)
class Contender:
    """An agent with its scores.

    Attributes
    ----------
    scores, outcomes
        ``SCORES`` with ``at_close``, and ``OUTCOMES``, of this agent alone.
    agent
        How it stands in RUN_STARTED.
    started
        Payload of RUN_STARTED.
    content_hash
        Of the pack that was replayed, or captured.
    """

    scores: pl.DataFrame = field(repr=False)
    outcomes: pl.DataFrame = field(repr=False)
    agent: AgentStarted
    started: RunStarted = field(repr=False)
    content_hash: str

    @property
    def agent_id(self) -> str:
        return self.agent["agent_id"]

    @property
    def pack_id(self) -> str:
        return self.started["binding"]["pack_id"] or captured_pack_id(self.started["run_id"])


def contenders(scores: pl.DataFrame, outcomes: pl.DataFrame, started: RunStarted, content_hash: str) -> list[Contender]:
    """Return the agents of a run, in order of their ids."""
    return [
        Contender(_of(scores, agent["agent_id"]), _of(outcomes, agent["agent_id"]), agent, started, content_hash)
        for agent in started["agents"]
    ]


def agent_part(backtest: PerformedRun, agent_id: str) -> PerformedRun:
    """Return what a backtest says of one of its agents; the run stays that of all of them."""
    whole = backtest.result
    decisions, scores, outcomes = (_of(frame, agent_id) for frame in (whole.decisions, whole.scores, whole.outcomes))
    return replace(backtest, result=replace(whole, decisions=decisions, scores=scores, outcomes=outcomes))


def _of(frame: pl.DataFrame, agent_id: str) -> pl.DataFrame:
    return frame.filter(pl.col("agent_id") == agent_id)
