"""One sealed decision, with what was known, what was proposed, what the law says, and what is only claimed."""

from __future__ import annotations

from typing import Any, Literal

from clvlab.answers.runs import InspectorRecord
from clvlab.errors import EvidenceError
from clvlab.law.schema import Reason
from clvlab.proof.canonical import parsed
from clvlab.proof.events import Kind
from clvlab.proof.seal import SealedRun


def inspect_decision(run: SealedRun, seq: int) -> InspectorRecord:
    """Return the record of the decision at event ``seq``.

    ``clv_bps`` is the sealed integer of a scored decision, ``"pending"`` of a WAIT or pending one, ``"invalid"`` of a
    decision that the law refuses.

    Raises
    ------
    EvidenceError
        No DECISION at ``seq``, or no score row for it.

    References
    ----------
    Interface specification, "InspectorRecord".
    """
    if seq < 1:  # decisions are numbered from 1
        raise EvidenceError(f"run {run.run_id} has no decision at seq {seq}")
    return decision_record(run.run_id, seq, _line(run.events, seq), _line(run.scores, seq - 1))


def decision_record(run_id: str, seq: int, event_line: bytes, score_line: bytes) -> InspectorRecord:
    """Return the record of a decision from its two lines: event ``seq`` and score row ``seq - 1``, without line feeds.

    Raises
    ------
    EvidenceError
        The event is no DECISION, or the score row is not its own.
    """
    event = parsed(event_line) or {}
    if event.get("kind") != Kind.DECISION:
        raise EvidenceError(f"run {run_id} has no decision at seq {seq}")
    score = parsed(score_line) or {}
    if score.get("seq") != seq:
        raise EvidenceError(f"run {run_id} has no score row for seq {seq}")
    payload, untrusted = event["payload"], event["payload"]["untrusted"]
    ppm = untrusted["confidence_ppm"]
    return {
        "run_id": run_id,
        "agent_id": payload["agent_id"],
        "fixture_id": payload["fixture_id"],
        "tick_seq": payload["tick_seq"],
        "ts_ms": payload["ts_ms"],
        "market_state": payload["market_state"],
        "agent_action": payload["action"],
        "recompute": {
            "recomputed_edge_bps": score["edge_bps"],
            "clv_bps": score["clv_bps"],
            "valid": score["valid"],
            "reason": score["reason"],
            "entry_prob_bps": score["entry_prob_bps"],
            "close_prob_bps": score["close_prob_bps"],
            "close_kind": score["close_kind"],
            "closing_age_ms": score["closing_age_ms"],
        },
        "clv_bps": _shown(score),
        "policy": payload["policy"],
        "untrusted_llm_metadata": {
            "reason": untrusted["reason"],
            "confidence": untrusted["confidence_raw"] if ppm is None else ppm / 1_000_000,
            "claimed_edge_bps": untrusted["claimed_edge_bps"],
        },
    }


def _line(text: bytes, number: int) -> bytes:
    if number >= text.count(b"\n"):
        return b"null"
    lines = text.split(b"\n", number + 1)
    return lines[number] if len(lines) > number + 1 else b"null"


def _shown(score: dict[str, Any]) -> int | Literal["pending", "invalid"]:
    if score["reason"] == Reason.SCORED:
        return int(score["clv_bps"])
    return "pending" if score["valid"] else "invalid"
