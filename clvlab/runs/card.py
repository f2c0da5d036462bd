"""The proof card: the published facts of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import cast

import polars as pl

from clvlab.agents.registry import TRANSCRIBED
from clvlab.api.runs import (
    AgentIdentity,
    AgentMetrics,
    AnchorInfo,
    CheckDetails,
    Checks,
    Lineage,
    LogCommitment,
    Metrics,
    ProofArtifactResponse,
    VerifyResponse,
)
from clvlab.law.metrics import LOW_SAMPLE_BELOW, confidence
from clvlab.law.schema import Causality, SourceMode
from clvlab.proof.anchor import Anchor
from clvlab.proof.checks import Check
from clvlab.proof.manifest import VERIFIER_VERSION, RunStarted
from clvlab.proof.verify import Verification
from clvlab.store.labels import Knowledge, is_hindsight_possible

ANSWERS_PUBLIC = "The answers were public when this was run"
"""Heading of the leaderboard rows of agents that may contain past results."""


def metrics(outcomes: pl.DataFrame) -> Metrics:
    """Return the metrics from ``OUTCOMES``, pooled and per agent. Metrics are not checks."""
    sums = outcomes.select("action_count", "valid_count", "total_clv_bps", "sim_pnl").sum().row(0, named=True)
    actions = sums["action_count"]
    return {
        "avg_clv_bps": sums["total_clv_bps"] / actions if actions else None,
        "action_count": actions,
        "valid_count": sums["valid_count"],
        "total_clv_bps": sums["total_clv_bps"],
        "sim_pnl": sums["sim_pnl"],
        "clv_confidence": confidence(sums["valid_count"]),
        "low_sample": sums["valid_count"] < LOW_SAMPLE_BELOW,
        "agents": cast("list[AgentMetrics]", outcomes.to_dicts()),
    }


def verdicts(checks: Mapping[str, Check]) -> Checks:
    return cast("Checks", {name: check.verdict.value for name, check in checks.items()})


def details(checks: Mapping[str, Check]) -> CheckDetails:
    return cast("CheckDetails", {name: check.detail for name, check in checks.items()})


def anchor_info(anchor: Anchor) -> AnchorInfo:
    return cast("AnchorInfo", asdict(anchor))


def lineage(started: RunStarted | None) -> Lineage:
    """Return the agents in RUN_STARTED. A run of one agent also has its template and the hash of its config."""
    agents = started["agents"] if started else []
    return {
        "template": agents[0]["strategy"] if len(agents) == 1 else None,
        "config_hash": agents[0]["config_hash"] if len(agents) == 1 else None,
        "policy_hash": started["policy_hash"] if started else None,
        "agents": agents,
    }


def card_causality(agent: AgentIdentity) -> str:
    """Return the causality to show for an agent. Older runs sealed transcripts with the causality of templates."""
    repeats = agent["causality"] == Causality.TEMPLATE and agent["strategy"] in TRANSCRIBED
    return Causality.TRANSCRIPT.value if repeats else agent["causality"]


def knowledge(source_mode: str) -> Knowledge:
    """Return, without a log, whether prices were known at decision time; only a live run decides before they are known."""
    return Knowledge.LIVE if source_mode == SourceMode.LIVE else Knowledge.HISTORY


def may_hold_past(agent: AgentIdentity, source_mode: str) -> bool:
    """Return whether the results were public when an agent ran and the agent may contain them."""
    return is_hindsight_possible(card_causality(agent), knowledge(source_mode), agent["config_hash"])


def proof_card(verification: Verification, log: LogCommitment | None = None) -> ProofArtifactResponse:
    """Return the card of a verified run. ``log`` is the log's commitment to the run, or ``None`` without a known log.

    References
    ----------
    Interface specification, "ProofArtifactResponse". ``metrics`` is ``None`` when the evidence can't be read.
    """
    started = verification.started
    return {
        "verifier_version": VERIFIER_VERSION,
        "run": {
            "run_id": verification.run_id,
            "owner": None,
            "kind": started["kind"] if started else None,
            "status": "sealed",
            "cause": None,
            "source_mode": started["source_mode"] if started else None,
            "mode_label": started["mode_label"] if started else None,
            "created_ts_ms": None,
            "sealed_ts_ms": None,
            "updated_ts_ms": None,
        },
        "lineage": lineage(started),
        "evidence": {"evidence_hash": verification.evidence_hash, "manifest_hash": verification.manifest_hash},
        "checks": verdicts(verification.checks),
        "check_details": details(verification.checks),
        "anchor": anchor_info(verification.anchor),
        "log": log,
        "metrics": None if verification.outcomes is None else metrics(verification.outcomes),
    }


def verification_answer(verification: Verification, card: ProofArtifactResponse) -> VerifyResponse:
    return {
        "run_id": verification.run_id,
        "verified": verification.verified,
        "evidence_hash": verification.evidence_hash,
        "recomputed_evidence_hash": verification.recomputed_evidence_hash,
        "manifest_hash": verification.manifest_hash,
        "checks": card["checks"],
        "metrics": card["metrics"],
        "anchor": card["anchor"],
        "proof_card": card,
    }
