"""The proof card: what is published of a run."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import polars as pl

from clvlab.law.metrics import LOW_SAMPLE_BELOW, confidence
from clvlab.proof.manifest import VERIFIER_VERSION
from clvlab.proof.verify import Verification

__all__ = ["lineage", "metrics", "proof_card"]


def metrics(outcomes: pl.DataFrame) -> dict[str, Any]:
    """Pool ``OUTCOMES`` and list them per agent; none of it is ever a check."""
    sums = outcomes.select("action_count", "valid_count", "total_clv_bps", "sim_pnl").sum().row(0, named=True)
    actions = sums["action_count"]
    return {
        "avg_clv_bps": sums["total_clv_bps"] / actions if actions else None,
        **sums,
        "clv_confidence": confidence(sums["valid_count"]).value,
        "low_sample": sums["valid_count"] < LOW_SAMPLE_BELOW,
        "agents": outcomes.to_dicts(),
    }


def lineage(started: dict[str, Any]) -> dict[str, Any]:
    """Say what made a run, from the payload of its RUN_STARTED: template and config hash of a single agent, and all agents."""
    agents = started.get("agents", [])
    return {
        "template": agents[0]["strategy"] if len(agents) == 1 else None,
        "config_hash": agents[0]["config_hash"] if len(agents) == 1 else None,
        "policy_hash": started.get("policy_hash"),
        "agents": agents,
    }


def proof_card(verification: Verification, log: dict[str, Any] | None = None) -> dict[str, Any]:
    """Assemble the card of a verified run.

    Parameters
    ----------
    verification
        Of the run.
    log
        Where the run stands in a log: ``{owner, content_hash, commit_index, tree_size, claim}``, and what is claimed there of
        the owner's other runs, ``{earlier, later, abandoned, unknown_pack}``; null of a run that no log is known of.

    References
    ----------
    Interface specification, "ProofArtifactResponse". ``metrics`` is null when the evidence can't be read.
    """
    started = verification.started
    return {
        "verifier_version": VERIFIER_VERSION,
        "run": {
            "run_id": verification.run_id,
            "status": "sealed",
            "source_mode": started.get("source_mode"),
            "mode_label": started.get("mode_label"),
            "created_ts_ms": None,
            "sealed_ts_ms": None,
        },
        "lineage": lineage(started),
        "evidence": {"evidence_hash": verification.evidence_hash, "manifest_hash": verification.manifest_hash},
        "checks": {name: check.verdict.value for name, check in verification.checks.items()},
        "check_details": {name: check.detail for name, check in verification.checks.items()},
        "anchor": asdict(verification.anchor),
        "log": log,
        "metrics": None if verification.outcomes is None else metrics(verification.outcomes),
    }
