"""The events of a competition: what is said of its run, in the order of the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import islice
from typing import Any

import polars as pl

from clvlab.application.execution import Execution
from clvlab.law.ranking import ranked
from clvlab.law.schema import Action
from clvlab.proof.verify import Anchor

__all__ = ["EventKind", "anchor_event", "batched", "event", "finalized_events", "run_events"]

_BATCH = 2000
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


class EventKind(StrEnum):
    COMPETITION_STARTED = "COMPETITION_STARTED"
    AGENT_ACTION = "AGENT_ACTION"
    POLICY_VERDICT = "POLICY_VERDICT"
    LAW_RESULT = "LAW_RESULT"
    AGENT_ERROR = "AGENT_ERROR"
    SCORE_UPDATE = "SCORE_UPDATE"
    PROOF_ANCHOR = "PROOF_ANCHOR"
    COMPETITION_FINALIZED = "COMPETITION_FINALIZED"
    COMPETITION_FAILED = "COMPETITION_FAILED"


def event(kind: EventKind, run_id: str, payload: dict[str, Any], *, evidence: bool = False) -> dict[str, Any]:
    """Make an event; ``evidence`` says that its payload restates sealed bytes."""
    return {"kind": kind.value, "run_id": run_id, "evidence": evidence, "payload": payload}


def run_events(execution: Execution) -> Iterator[dict[str, Any]]:
    """Say every decision, its verdict by the policy and its result by the law, in sealed order.

    The same run gives the same events, so that one which broke off goes on where it stopped. ``run_seq`` is the decision's
    sequence number in the evidence.
    """
    run_id = execution.run_id
    decisions, scores = execution.result.decisions.select(*_DECIDED), execution.result.scores.select(*_LAW)
    for start in range(0, decisions.height, _SLICE_ROWS):
        pairs = zip(
            decisions.slice(start, _SLICE_ROWS).iter_rows(named=True),
            scores.slice(start, _SLICE_ROWS).iter_rows(named=True),
            strict=True,
        )
        for decision, score in pairs:
            yield from _decision_events(run_id, decision, score)
    for error in execution.result.errors:
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


def finalized_events(execution: Execution, anchor: Anchor) -> list[dict[str, Any]]:
    """Say the ranking, a SCORE_UPDATE per agent, then the anchor and the end."""
    run_id, started = execution.run_id, execution.verification.started
    modes = {agent["agent_id"]: agent["proof_mode"] for agent in started["agents"]}
    columns = ("rank", "agent_id", "total_clv_bps", "mean_clv_bps", "valid_count", "action_count", "sim_pnl")
    table: pl.DataFrame = ranked(execution.result.outcomes).select(columns)
    rows = [row | {"proof_mode": modes[row["agent_id"]]} for row in table.iter_rows(named=True)]
    hashes = {"evidence_hash": execution.result.run.evidence_hash, "manifest_hash": execution.result.run.manifest_hash}
    return [
        *(event(EventKind.SCORE_UPDATE, run_id, row) for row in rows),
        anchor_event(run_id, anchor, hashes["manifest_hash"]),
        event(EventKind.COMPETITION_FINALIZED, run_id, {"status": "finalized"} | hashes),
    ]


def anchor_event(run_id: str, anchor: Anchor, manifest_hash: str) -> dict[str, Any]:
    """Say how far the anchor of a run is."""
    payload = {
        "anchor_status": anchor.status,
        "signature": anchor.signature,
        "cluster": anchor.cluster,
        "explorer_url": anchor.explorer_url,
        "manifest_hash": manifest_hash,
    }
    return event(EventKind.PROOF_ANCHOR, run_id, payload)


def batched(events: Iterable[dict[str, Any]], skipped: int = 0) -> Iterator[list[dict[str, Any]]]:
    """Cut events into batches of one transaction each, after those that are stored already."""
    rest = islice(events, skipped, None)
    while batch := list(islice(rest, _BATCH)):
        yield batch
