"""The events of a competition's run, in the order of the evidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from clvlab.api.competitions import CompetitionEvent
from clvlab.arena.competitions.requests import CompetitionStatus, require
from clvlab.arena.events import EventKind, anchor_event, event
from clvlab.law.metrics import rank
from clvlab.law.schema import Action
from clvlab.proof.anchor import Anchor, AnchorStatus
from clvlab.runs.run import Run
from clvlab.store import competitions as rows
from clvlab.store.competitions import CompetitionRow
from clvlab.store.database import Connection, Database

# Event logs are read in parts by position, as they only grow.


_FINAL = (CompetitionStatus.FINALIZED, CompetitionStatus.COMPLETED)


@dataclass(frozen=True, slots=True)
class LogEnd:
    """A part of a log and its state at one moment.

    ``entries`` go up to a bound, and ``length`` is the length of the whole log. A log is ``complete`` if no entry can follow:
    its competition is finalized or completed, and the anchor is not pending.
    """

    entries: list[CompetitionEvent]
    length: int
    complete: bool


@dataclass(frozen=True)
class EventLog:
    """Reads the logs of competitions, whose entries are numbered from 0 without gaps."""

    database: Database

    def length(self, competition_id: str) -> int:
        with self.database.read() as connection:
            return _length(connection, competition_id)

    def part(self, competition_id: str, start: int, end: int) -> list[CompetitionEvent]:
        with self.database.read() as connection:
            _length(connection, competition_id)
            return _entries(connection, competition_id, start, end)

    def end(self, competition_id: str, start: int, end: int) -> LogEnd:
        with self.database.read() as connection:
            row = require(rows.row(connection, competition_id), competition_id)
            complete = row["status"] in _FINAL and not _anchor_pending(connection, row)
            found = _entries(connection, competition_id, start, end) if start < row["next_seq"] else []
        return LogEnd(found, row["next_seq"], complete)


def _length(connection: Connection, competition_id: str) -> int:
    return require(rows.row(connection, competition_id), competition_id)["next_seq"]


def _entries(connection: Connection, competition_id: str, start: int, end: int) -> list[CompetitionEvent]:
    return rows.events(connection, competition_id, start - 1, end - start)


def _anchor_pending(connection: Connection, row: CompetitionRow) -> bool:
    anchored = rows.newest(connection, row["competition_id"], EventKind.PROOF_ANCHOR, row["started_seq"])
    return bool(anchored) and anchored[0]["payload"]["anchor_status"] == AnchorStatus.PENDING


_SLICE_ROWS = 8192
_ACTION = ("type", "market_key", "side", "stake", "limit_odds_milli")
_WHERE = ("agent_id", "fixture_id", "tick_seq", "ts_ms")
_CLAIMED = ("reason", "confidence_ppm", "claimed_edge_bps")
_DECIDED = ("seq", "action", *_WHERE, *_ACTION[1:], *_CLAIMED, "pre", "post")
_LAW = (
    "valid",
    "reason",
    "entry_prob_bps",
    "odds_milli",
    "close_prob_bps",
    "clv_bps",
    "edge_bps",
    "close_kind",
    "closing_age_ms",
)


def run_events(run: Run) -> Iterator[dict[str, Any]]:
    """Yield every decision, its verdict by the policy and its result by the law, in sealed order.

    The same run gives the same events, so that an interrupted report continues where it stopped. ``run_seq`` is the sequence
    number of the decision in the evidence.
    """
    run_id = run.run_id
    decisions, scores = run.evidence.decisions.select(*_DECIDED), run.scores.select(*_LAW)
    for start in range(0, decisions.height, _SLICE_ROWS):
        pairs = zip(
            decisions.slice(start, _SLICE_ROWS).iter_rows(named=True),
            scores.slice(start, _SLICE_ROWS).iter_rows(named=True),
            strict=True,
        )
        for decision, score in pairs:
            yield from _decision_events(run_id, decision, score)
    for error in run.evidence.errors:
        yield event(EventKind.AGENT_ERROR, run_id, error, evidence=True)


def _decision_events(run_id: str, decision: dict[str, Any], score: dict[str, Any]) -> Iterator[dict[str, Any]]:
    where = {"run_seq": decision["seq"], **{name: decision[name] for name in _WHERE}}
    action = {"type": decision["action"], **{name: decision[name] for name in _ACTION[1:]}}
    claimed = {name: decision[name] for name in _CLAIMED}
    payload = where | {"action": action, "untrusted": claimed}
    yield event(EventKind.AGENT_ACTION, run_id, payload, evidence=True)
    if decision["action"] == Action.BACK:
        verdict = {phase: {"allowed": not decision[phase], "reasons": decision[phase]} for phase in ("pre", "post")}
        yield event(EventKind.POLICY_VERDICT, run_id, where | verdict, evidence=True)
    yield event(EventKind.LAW_RESULT, run_id, where | score, evidence=True)


def finalized_events(run: Run, anchor: Anchor) -> list[dict[str, Any]]:
    run_id, started = run.run_id, run.started
    modes = {agent["agent_id"]: agent["proof_mode"] for agent in started["agents"]}
    columns = ("rank", "agent_id", "total_clv_bps", "mean_clv_bps", "valid_count", "action_count", "sim_pnl")
    table: pl.DataFrame = rank(run.outcomes).select(columns)
    rows = [row | {"proof_mode": modes[row["agent_id"]]} for row in table.iter_rows(named=True)]
    hashes = {"evidence_hash": run.sealed.evidence_hash, "manifest_hash": run.sealed.manifest_hash}
    return [
        *(event(EventKind.SCORE_UPDATE, run_id, row) for row in rows),
        anchor_event(run_id, anchor, hashes["manifest_hash"]),
        event(EventKind.COMPETITION_FINALIZED, run_id, {"status": "finalized"} | hashes),
    ]
