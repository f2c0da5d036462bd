"""Roster entries: what is pinned of an agent when it registers, and the agent made of it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from clvlab.agents.registry import template
from clvlab.application.competitions.requests import AgentEntry
from clvlab.application.deploys.agent import deployed_agent
from clvlab.application.deploys.config import DeployConfig
from clvlab.application.runs.entrants import Entrant, config_hash_of, entrant, proof_mode, unused_keys
from clvlab.errors import AgentError, EntryError, EvidenceError, NotOwnerError, UnknownInstanceError
from clvlab.proof.canonical import canonical, without_floats
from clvlab.store import instances
from clvlab.store.database import Connection


def pinned_entry(connection: Connection, entry: AgentEntry, caller: str) -> dict[str, Any]:
    """Pin an entry: its own config, or that of the instance that it names.

    Returns
    -------
    dict
        Columns of a roster row: all but the competition and the place in it.

    Raises
    ------
    UnknownInstanceError, NotOwnerError
        The instance is absent or has no owner; it has another owner.
    EntryError
    """
    record = None if entry.instance_id is None else _record(connection, entry.instance_id, caller)
    mode = proof_mode(entry.proof_mode)
    if record is not None and record["template"] != entry.strategy:
        raise EntryError(f"instance {entry.instance_id} is of strategy {record['template']!r}, not {entry.strategy!r}")
    if record is not None:
        _check_repeated(entry, record["config"])
    columns = {
        "agent_id": entry.agent_id,
        "strategy": entry.strategy,
        "config": entry.config if record is None else record["config"],
        "proof_mode": mode,
        "instance_id": entry.instance_id,
    }
    return columns | {"config_hash": config_hash_of(rostered_agent(columns).identity)}


def _record(connection: Connection, instance_id: str, caller: str) -> Mapping[str, Any]:
    row = instances.row(connection, instance_id)
    if row is None or row["owner"] is None:
        raise UnknownInstanceError(f"unknown instance {instance_id!r}")
    if row["owner"] != caller:
        raise NotOwnerError(f"instance {instance_id} belongs to another principal")
    record: Mapping[str, Any] = row["record"]
    return record


def _check_repeated(entry: AgentEntry, pinned: Mapping[str, Any]) -> None:
    """Refuse a config that says something else than that of the instance beside it.

    It may repeat the parameters of the instance's template or its whole configuration, in part or altogether: each key that it
    has must be one of the instance's with the same value, and what it leaves out is the instance's. Values are the same if
    they are sealed alike; those of a template's parameters after the template has read them.
    """
    given = entry.config
    if not given:
        return
    try:
        params: Mapping[str, Any] = {**given, **_resolved(entry.strategy, given, pinned["params"])}
    except AgentError:  # no parameters of the template, then
        params = given
    readings = [(params, pinned["params"]), (given, pinned)]
    differing = [
        [key for key in sorted(given) if key not in whole or _sealed_bytes(read[key]) != _sealed_bytes(whole[key])]
        for read, whole in readings
    ]
    if all(differing):
        keys, (_, whole) = min(zip(differing, readings, strict=True), key=lambda reading: len(reading[0]))
        has = f"has {whole[keys[0]]!r:.80}" if keys[0] in whole else "has none"
        raise EntryError(
            f"config.{keys[0]} is not that of instance {entry.instance_id}, which {has}: leave config out, or repeat that"
        )


def _resolved(strategy: str, given: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given parameters that a template knows, as it reads them beside those of the instance."""
    known = set(given) - set(unused_keys(strategy, given))
    unused = unused_keys(strategy, params)
    others = {key: value for key, value in params.items() if key not in unused}
    made = template(strategy, others | {key: given[key] for key in known})
    return {key: made.identity.config[key] for key in known}


def _sealed_bytes(value: Any) -> bytes | None:
    """Return a value as it would be sealed; None if it can't be."""
    try:
        return canonical(without_floats(value))
    except (EvidenceError, RecursionError):
        return None


def rostered_agent(agent: Mapping[str, Any]) -> Entrant:
    """Make the agent of a roster row again.

    Raises
    ------
    EntryError
        A strategy or value that this version does not take.
    """
    if agent["instance_id"] is None:
        return entrant(agent["agent_id"], agent["strategy"], agent["config"], proof_mode=agent["proof_mode"])
    try:
        config = DeployConfig.model_validate(agent["config"])
    except ValidationError as error:
        wrong = error.errors()[0]
        raise EntryError(f"{'.'.join(map(str, wrong['loc']))} of its instance: {wrong['msg']}") from error
    return deployed_agent(config, agent["agent_id"], agent["proof_mode"])


def unused_of(agent: Mapping[str, Any]) -> list[str]:
    """Name the keys of a roster row's config that its template does not know."""
    return [] if agent["instance_id"] else unused_keys(agent["strategy"], agent["config"])
