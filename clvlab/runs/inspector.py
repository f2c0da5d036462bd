"""One sealed decision: its knowledge, proposal, score, and unverified claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from clvlab.api.runs import InspectorRecord
from clvlab.errors import EvidenceError
from clvlab.law.schema import Action, Reason
from clvlab.proof.canonical import parsed
from clvlab.proof.events import Kind
from clvlab.proof.seal import SealedRun

# The law's arithmetic for one decision, with the sealed integers.


@dataclass(frozen=True, slots=True)
class Step:
    """A figure: its formula in words, the formula with the decision's numbers, and the result."""

    name: str
    formula: str
    numbers: str
    bps: int


def arithmetic(record: InspectorRecord) -> list[Step]:
    """Return how CLV and edge of a scored decision are computed; empty for any other decision.

    Examples
    --------
    >>> law = {"reason": "scored", "entry_prob_bps": 5000, "close_prob_bps": 5300}
    >>> found = arithmetic({"recompute": law, "market_state": None, "agent_action": {"side": "draw"}})
    >>> [(step.name, step.numbers, step.bps) for step in found]
    [('CLV', '5300 - 5000', 300), ('Edge', 'floor((2 x 5300 x 10000 + 5000) / (2 x 5000)) - 10000', 600)]
    """
    law = record["recompute"]
    entry, close = law["entry_prob_bps"], law["close_prob_bps"]
    if law["reason"] != Reason.SCORED or entry is None or close is None:
        return []
    steps = [Step("CLV", "closing probability less entry probability", f"{close} - {entry}", close - entry)]
    quote = quote_of(record)
    if quote is not None:
        numbers, edge = f"floor((2 x {close} x {quote} + 1000) / 2000) - 10000", (2 * close * quote + 1000) // 2000 - 10_000
        steps.append(Step("Edge", "closing probability times the price taken (decimal odds x 1000), less one", numbers, edge))
    elif entry > 0:
        numbers = f"floor((2 x {close} x 10000 + {entry}) / (2 x {entry})) - 10000"
        edge = (2 * close * 10_000 + entry) // (2 * entry) - 10_000
        steps.append(Step("Edge", "closing over entry probability, a fair price, less one", numbers, edge))
    return steps


def quote_of(record: InspectorRecord) -> int | None:
    state, side = record["market_state"], record["agent_action"]["side"]
    return next((own["odds_milli"] for own in state["sides"] if own["side"] == side), None) if state else None


# Entries at the closing message itself. The law scores them; statistics leave them out.


_MARKET = ["fixture_id", "market_key"]


def at_close(decisions: pl.DataFrame, closes: pl.DataFrame) -> pl.Series:
    """Return a Boolean per decision: whether it acted on its market's closing message. No later price could move its CLV.

    Examples
    --------
    >>> import clvlab as cl
    >>> run = cl.backtest("starter", "baseline").source
    >>> int(at_close(run.evidence.decisions, run.evidence.closes).sum())
    0
    """
    closing = closes.select(*_MARKET, closing_tick_seq="state_tick_seq")
    found = decisions.select("action", *_MARKET, "state_tick_seq").join(closing, on=_MARKET, how="left", maintain_order="left")
    same = (pl.col("action") == Action.BACK) & (pl.col("state_tick_seq") == pl.col("closing_tick_seq"))
    return found.select(at_close=same.fill_null(value=False)).to_series()


def inspect_decision(run: SealedRun, seq: int) -> InspectorRecord:
    """Return the record of the decision at event ``seq``.

    ``clv_bps`` is the sealed integer of a scored decision, ``"pending"`` for a WAIT or a pending decision, and ``"invalid"``
    for a decision that the law refuses.

    References
    ----------
    Interface specification, "InspectorRecord".
    """
    decisions = run.scores.count(b"\n")
    if not 1 <= seq <= decisions:
        raise EvidenceError(f"run {run.run_id} has no decision at seq {seq}: it has {decisions:,}, from 1")
    return decision_record(run.run_id, seq, _line(run.events, seq), _line(run.scores, seq - 1))


def decision_record(run_id: str, seq: int, event_line: bytes, score_line: bytes) -> InspectorRecord:
    """Return the record of a decision from event ``seq`` and score row ``seq - 1``, two lines without line feeds."""
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
        "clv_bps": _clv_text(score),
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


def _clv_text(score: dict[str, Any]) -> int | Literal["pending", "invalid"]:
    if score["reason"] == Reason.SCORED:
        return int(score["clv_bps"])
    return "pending" if score["valid"] else "invalid"
