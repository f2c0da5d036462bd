"""Tables in a notebook: packs, runs, standings, answers to SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
import polars as pl

from clvlab.arena.templates import cards
from clvlab.arena.templates import strategy as catalogued
from clvlab.law.schema import Schema
from clvlab.packs.reader import Pack
from clvlab.report.export import Exportable
from clvlab.report.html import Html, card
from clvlab.runs.card import ANSWERS_PUBLIC
from clvlab.runs.verdicts import VerdictRecord, word_of
from clvlab.words import counted

_MAX_ROWS = 30
_PACKS: Schema = {
    "pack_id": pl.String, "provenance": pl.String, "grade": pl.String, "fixtures": pl.Int64, "rows": pl.Int64,
    "content_hash": pl.String,
}  # fmt: skip
_PARAMETERS: Schema = dict.fromkeys(("agent", "parameter", "default", "bounds", "meaning"), pl.String())
_RUNS: Schema = {
    "run_id": pl.String, "kind": pl.String, "status": pl.String, "agents": pl.String, "action_count": pl.Int64,
    "mean_clv_bps": pl.Float64, "verified": pl.String, "verified_at": pl.Datetime("ms", "UTC"),
    "created": pl.Datetime("ms", "UTC"), "evidence_hash": pl.String,
}  # fmt: skip
_STANDINGS: Schema = {
    "rank": pl.Int64, "agent_id": pl.String, "runs": pl.Int64, "avg_clv_bps": pl.Float64, "total_clv_bps": pl.Int64,
    "sim_pnl": pl.Int64, "brier": pl.Float64, "max_drawdown": pl.Float64, "action_count": pl.Int64, "valid_pct": pl.Float64,
    "proof_mode": pl.String, "eligibility_badge": pl.String, "anchor_status": pl.String, "source_mode": pl.String,
    "valid_count": pl.Int64, "clv_confidence": pl.String, "low_sample": pl.Boolean, "strategy": pl.String,
    "causality": pl.String, "knowledge": pl.String, "hindsight_possible": pl.Boolean,
}  # fmt: skip


class Listing(Exportable):
    """A titled table.

    Attributes
    ----------
    title
        Heading of the table.
    frame
        The rows.
    next_step
        The next call to make.
    """

    def __init__(self, title: str, frame: pl.DataFrame, next_step: str) -> None:
        self.title = title
        self.next_step = next_step
        self._frame = frame

    @property
    def frame(self) -> pl.DataFrame:
        return self._frame

    def __repr__(self) -> str:
        return f"{self.title}: {counted(self.frame.height, 'row')}; next: {self.next_step}"

    def _repr_html_(self) -> Html:
        head = self.frame.head(_MAX_ROWS)
        return card("listing.html", self.title, tables=self._tables(head), height=self.frame.height, visible=head.height)

    def _tables(self, rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
        """Return the tables that have rows, by their headings."""
        return {"": rows} if rows.height else {}


class _Standings(Listing):
    """A leaderboard with a separate table for agents that may know past prices."""

    def _tables(self, rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
        parts = {"": rows.remove("hindsight_possible"), ANSWERS_PUBLIC: rows.filter("hindsight_possible")}
        return {heading: part for heading, part in parts.items() if part.height}


class AgentListing(Listing):
    """The strategy templates, with a table of parameters for each."""

    def __init__(self) -> None:
        self._cards = cards()
        rows = [row for card in self._cards for row in _parameters(card)]
        next_step = "clvlab.backtest(pack, agent, params={name: value})"
        super().__init__("Strategy templates, by parameter", _frame(rows, _PARAMETERS), next_step)

    def _repr_html_(self) -> Html:
        tables = [self.frame.filter(agent=one["strategy"]).drop("agent") for one in self._cards]
        agents = [(one["strategy"], one["summary"], table) for one, table in zip(self._cards, tables, strict=True)]
        return card("agents.html", "Strategy templates", agents=agents, next_step=self.next_step)


def _parameters(card: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a template, without the bounds that every number of this width has."""
    defaults = catalogued(card["strategy"])["defaults"]
    for one in card["parameters"]:
        bounds = re.sub(r" and at most 9007199254740(991)?$", "", one["bounds"])
        meaning = one["meaning"].replace("``", "")
        yield card["strategy"], one["name"], orjson.dumps(defaults[one["name"]]).decode(), bounds, meaning


def list_packs(rows: Iterable[tuple[Any, ...]], where: str) -> Listing:
    """List packs; the number of rows is `None` where it is not known."""
    return Listing(f"Packs of {where}", _frame(rows, _PACKS), "lab.backtest(pack_id, agent)")


def pack_row(pack: Pack) -> tuple[Any, ...]:
    """Return the row of an open pack."""
    rows = sum(fixture.rows for fixture in pack.manifest.fixtures)
    return pack.pack_id, pack.provenance, pack.verified_grade.value, len(pack.fixture_ids), rows, pack.content_hash


def list_runs(
    runs: Iterable[Mapping[str, Any]],
    card: Callable[[str], Mapping[str, Any]],
    record: Callable[[Mapping[str, Any]], VerdictRecord | None],
    where: str,
) -> Listing:
    """List runs with their agents, means, and the reader's own records of verifications by their cards."""
    rows = []
    for run in runs:
        found = card(run["run_id"])
        metrics, kept = found["metrics"] or {}, record(found)
        agents = ", ".join(agent["agent_id"] for agent in found["lineage"]["agents"])
        row = {"agents": agents, "mean_clv_bps": metrics.get("avg_clv_bps"), "action_count": metrics.get("action_count")}
        row |= {"verified": word_of(kept), "verified_at": kept and kept.when}
        rows.append(dict(run) | row | {"created": datetime.fromtimestamp(run["created_ts_ms"] / 1000, UTC)})
    made = [tuple(row[name] for name in _RUNS) for row in rows]
    return Listing(f"Runs of {where}", _frame(made, _RUNS), "lab.open_run(run_id)")


def list_standings(rows: Iterable[Mapping[str, Any]], where: str) -> Listing:
    """List agents by pooled mean CLV; agents that can't know past prices come first, and ``rank`` is among all agents."""
    made = [tuple(row[name] for name in _STANDINGS) for row in rows]
    title = f"Leaderboard of {where}: agents by mean CLV (bps of probability) over all their runs"
    frame = _frame(made, _STANDINGS).sort("hindsight_possible", maintain_order=True)
    return _Standings(title, frame, "lab.runs(), lab.verify(run_id)")


def _frame(rows: Iterable[tuple[Any, ...]], schema: Schema) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=schema, orient="row")
