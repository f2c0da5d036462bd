"""The manifest: what binds a run id, its evidence and its scores; and the hashes that name agents and runs."""

from __future__ import annotations

from typing import Any

from clvlab.law.schema import LAW_VERSION
from clvlab.proof.canonical import canonical, sha256

__all__ = ["RUN_SCHEMA", "VERIFIER_VERSION", "config_hash", "manifest", "policy_hash", "roster_hash", "run_id"]

VERIFIER_VERSION = "clvlab-proof/1"
RUN_SCHEMA = "clvlab-run/1"
_MANIFEST_SCHEMA = "clvlab-manifest/1"
_CONFIG_SCHEMA = "clvlab-agent-config/1"
_RUN_KEY = ("agents", "binding", "kind", "law_version", "origin_id", "policy_hash", "schema", "window")


def config_hash(strategy: str, strategy_version: str, config: dict[str, Any]) -> str:
    """Hash an agent's configuration with its defaults filled in; fractions stand as decimal text."""
    return sha256(
        canonical({"schema": _CONFIG_SCHEMA, "strategy": strategy, "strategy_version": strategy_version, "config": config})
    )


def policy_hash(policy: dict[str, Any]) -> str:
    """Hash a policy envelope as it is sealed."""
    return sha256(canonical(policy))


def roster_hash(agents: list[dict[str, Any]]) -> str:
    """Give the one agent's ``config_hash``, or the hash of the sorted [agent_id, config_hash] pairs of several."""
    if len(agents) == 1:
        return str(agents[0]["config_hash"])
    return sha256(canonical(sorted([agent["agent_id"], agent["config_hash"]] for agent in agents)))


def run_id(started: dict[str, Any]) -> str:
    """Derive the run id from everything in RUN_STARTED that shapes the result."""
    return "run_" + sha256(canonical({key: started[key] for key in _RUN_KEY})).removeprefix("sha256:")[:32]


def manifest(
    started: dict[str, Any], *, evidence_hash: str, evidence_root: str, event_count: int, score_root: str
) -> dict[str, Any]:
    """Assemble the manifest of a run; its canonical bytes are what ``manifest_hash`` hashes."""
    return {
        "schema": _MANIFEST_SCHEMA,
        "run_id": started["run_id"],
        "evidence_hash": evidence_hash,
        "evidence_root": evidence_root,
        "event_count": event_count,
        "score_root": score_root,
        "content_hash": started["binding"]["content_hash"],
        "config_hash": roster_hash(started["agents"]),
        "policy_hash": started["policy_hash"],
        "law_version": LAW_VERSION,
        "verifier_version": VERIFIER_VERSION,
        "commit_index": None,
    }
