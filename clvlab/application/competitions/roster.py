"""Roster entries: what is pinned of an agent when it registers, and the agent made of it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clvlab.application.competitions.requests import AgentEntry
from clvlab.application.deploys.agent import deployed_agent
from clvlab.application.deploys.config import DeployConfig
from clvlab.application.runs.entrants import Entrant, config_hash_of, entrant, proof_mode, unused_keys
from clvlab.errors import EntryError, NotOwnerError, UnknownInstanceError
from clvlab.store import instances
from clvlab.store.database import Connection


def pinned_entry(connection: Connection, entry: AgentEntry, caller: str) -> dict[str, Any]:
    """Pin an entry: its own config, or that of the instance that it names.

    Returns
    -------
    dict
        ``config``, ``config_hash`` and ``proof_mode``.

    Raises
    ------
    UnknownInstanceError, NotOwnerError
        The instance is absent or has no owner; it has another owner.
    EntryError
    """
    record = None if entry.instance_id is None else _record(connection, entry.instance_id, caller)
    mode = proof_mode(entry.proof_mode)
    if record is not None:
        if record["template"] != entry.strategy:
            raise EntryError(f"instance {entry.instance_id} is of strategy {record['template']!r}, not {entry.strategy!r}")
        return {"config": record["config"], "config_hash": record["config_hash"], "proof_mode": mode}
    made = entrant(entry.agent_id, entry.strategy, entry.config, proof_mode=mode)
    return {"config": entry.config, "config_hash": config_hash_of(made.identity), "proof_mode": mode}


def _record(connection: Connection, instance_id: str, caller: str) -> Mapping[str, Any]:
    row = instances.row(connection, instance_id)
    if row is None or row["owner"] is None:
        raise UnknownInstanceError(f"unknown instance {instance_id!r}")
    if row["owner"] != caller:
        raise NotOwnerError(f"instance {instance_id} belongs to another principal")
    record: Mapping[str, Any] = row["record"]
    return record


def rostered_agent(agent: Mapping[str, Any]) -> Entrant:
    """Make the agent of a roster row again."""
    if agent["instance_id"] is not None:
        return deployed_agent(DeployConfig.model_validate(agent["config"]), agent["agent_id"], agent["proof_mode"])
    return entrant(agent["agent_id"], agent["strategy"], agent["config"], proof_mode=agent["proof_mode"])


def unused_of(agent: Mapping[str, Any]) -> list[str]:
    """Name the keys of a roster row's config that its template does not know."""
    return [] if agent["instance_id"] else unused_keys(agent["strategy"], agent["config"])
