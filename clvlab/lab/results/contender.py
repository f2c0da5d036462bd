"""One agent of one sealed run: what comparisons and leaderboards are made of."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from clvlab.drawing import html
from clvlab.drawing.ink import interval_cell, scale
from clvlab.errors import PackFormatError
from clvlab.proof.manifest import AgentStarted, RunStarted
from clvlab.report.means import mean_cell
from clvlab.runs.perform import PerformedRun, captured_pack_id
from clvlab.statistics.measures import Measure


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


# Fixtures as they are named by their ids, and how a value that is none is called.


def shown(value: object) -> str:
    """Name a value in a refusal: what it is, and a frame or another long thing by its class alone."""
    text = f"{value!r:.80}"
    return f"a {type(value).__module__.partition('.')[0]} {type(value).__name__}" if "\n" in text else text


def fixture_ids_given(fixtures: Any) -> tuple[int, ...] | None:
    """Return fixture ids as a tuple, whole numbers of any library among them; null is all.

    Raises
    ------
    PackFormatError
        No fixture, or what is no list of whole numbers.
    """
    if fixtures is None:
        return None
    if isinstance(fixtures, str | bytes | Mapping) or not isinstance(fixtures, Iterable):
        meant = f": write fixtures=[{fixtures!s}]" if _is_whole(fixtures) else ""
        raise PackFormatError(f"fixtures are a list of fixture ids, not {shown(fixtures)}{meant}")
    chosen = tuple(fixtures)
    strange = [one for one in chosen if not _is_whole(one)]
    if strange:
        number = str(strange[0])
        meant = f": write {number} without quotes" if isinstance(strange[0], str) and number.isdecimal() else ""
        raise PackFormatError(f"a fixture is named by its id, a whole number, not {shown(strange[0])}{meant}")
    if not chosen:
        raise PackFormatError("name at least one fixture, or none at all for every fixture")
    return tuple(operator.index(one) for one in chosen)


def _is_whole(value: Any) -> bool:
    return not isinstance(value, bool) and hasattr(value, "__index__")


# Means with their intervals under each other, on one scale.


def forest(rows: pl.DataFrame, measure: Measure) -> str:
    """Show means with their intervals as a table with a picture in it, in the order of the rows.

    Parameters
    ----------
    rows
        With ``agent``, the mean under the measure's name, ``low``, ``high`` and ``fixtures``.
    measure
        What the means are of.
    """
    within = scale([*rows["low"], *rows["high"], *rows[measure.mean]])
    shown = [
        (
            row["agent"],
            interval_cell(row[measure.mean], row["low"], row["high"], within),
            mean_cell(row[measure.mean], row["low"], row["high"]),
            row["fixtures"],
        )
        for row in rows.iter_rows(named=True)
    ]
    return html.table(["agent", "", f"mean {measure.title}, {measure.short}", "fixtures"], shown, pictures=[1])
