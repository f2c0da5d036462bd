"""Roster entries: the pinned facts of an agent at registration, and the agent that is later made from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from clvlab.agents.registry import template
from clvlab.api.answer import ignored, pick
from clvlab.api.competitions import AgentRegisterResponse, InstanceRecord, RosterEntry
from clvlab.arena.competitions.requests import MUTABLE, AgentEntry, require_owned
from clvlab.arena.deploys.config import DeployConfig, deployed_agent
from clvlab.arena.runs.binding import PackSource, bind
from clvlab.arena.runs.entrants import Entrant, config_hash_of, entrant, misfits, names_ticks, proof_mode, unused_keys
from clvlab.errors import (
    AgentError,
    AlreadyRegisteredError,
    EntryError,
    EvidenceError,
    NotOwnerError,
    PackError,
    RosterFrozenError,
    RosterFullError,
    UnknownEntryError,
    UnknownInstanceError,
)
from clvlab.proof.canonical import canonical, without_floats
from clvlab.store import competitions as rows
from clvlab.store import instances
from clvlab.store.competitions import CompetitionRow
from clvlab.store.database import Connection, Database


def pinned_entry(connection: Connection, entry: AgentEntry, caller: str) -> RosterEntry:
    """Pin the config of an entry, which may come from its instance."""
    record = None if entry.instance_id is None else _record(connection, entry.instance_id, caller)
    mode = proof_mode(entry.proof_mode)
    if record is not None and record["template"] != entry.strategy:
        raise EntryError(f"instance {entry.instance_id} is of strategy {record['template']!r}, not {entry.strategy!r}")
    if record is not None:
        _check_repeated(entry, record["config"])
    pinned: RosterEntry = {
        "agent_id": entry.agent_id,
        "strategy": entry.strategy,
        "config": entry.config if record is None else record["config"],
        "config_hash": None,
        "proof_mode": mode,
        "instance_id": entry.instance_id,
    }
    return {**pinned, "config_hash": config_hash_of(rostered_agent(pinned).identity)}


def _record(connection: Connection, instance_id: str, caller: str) -> InstanceRecord:
    row = instances.row(connection, instance_id)
    if row is None or row["owner"] is None:
        raise UnknownInstanceError(f"unknown instance {instance_id!r}")
    if row["owner"] != caller:
        raise NotOwnerError(f"instance {instance_id} belongs to another principal")
    return row["record"]


def _check_repeated(entry: AgentEntry, pinned: Mapping[str, Any]) -> None:
    """Refuse a config that contradicts the config of the instance.

    The config may repeat the template's parameters or the whole configuration of the instance, in part or in full. Each of its
    keys must be a key of the instance with the same value. Values are the same if their sealed bytes are. Parameters of a
    template are compared after the template has read them.
    """
    config = entry.config
    if not config:
        return
    try:
        params: Mapping[str, Any] = {**config, **_template_params(entry.strategy, config, pinned["params"])}
    except AgentError:  # then they are not parameters of the template
        params = config
    readings = [(params, pinned["params"]), (config, pinned)]
    differing = [
        [key for key in sorted(config) if key not in whole or _sealed_bytes(read[key]) != _sealed_bytes(whole[key])]
        for read, whole in readings
    ]
    if all(differing):
        keys, (_, whole) = min(zip(differing, readings, strict=True), key=lambda reading: len(reading[0]))
        has = f"has {whole[keys[0]]!r:.80}" if keys[0] in whole else "has none"
        raise EntryError(
            f"config.{keys[0]} is not the one of instance {entry.instance_id}, which {has}: leave config out, or repeat that"
        )


def _template_params(strategy: str, config: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that a template knows, read together with those of the instance."""
    known = set(config) - set(unused_keys(strategy, config))
    unused = unused_keys(strategy, params)
    others = {key: value for key, value in params.items() if key not in unused}
    made = template(strategy, others | {key: config[key] for key in known})
    return {key: made.identity.config[key] for key in known}


def _sealed_bytes(value: Any) -> bytes | None:
    """Return the sealed form of a value; ``None`` if it can't be sealed."""
    try:
        return canonical(without_floats(value))
    except (EvidenceError, RecursionError):
        return None


def rostered_agent(agent: RosterEntry) -> Entrant:
    """Make the agent of a roster row; ``EntryError`` for a strategy or value that this version does not accept."""
    if agent["instance_id"] is None:
        return entrant(agent["agent_id"], agent["strategy"], agent["config"], proof_mode=agent["proof_mode"])
    try:
        config = DeployConfig.model_validate(agent["config"])
    except ValidationError as error:
        wrong = error.errors()[0]
        raise EntryError(f"{'.'.join(map(str, wrong['loc']))} of its instance: {wrong['msg']}") from error
    return deployed_agent(config, agent["agent_id"], agent["proof_mode"])


def unused_of(agent: RosterEntry) -> list[str]:
    return [] if agent["instance_id"] else unused_keys(agent["strategy"], agent["config"])


# Registration: changes of a roster that is not frozen yet.


@dataclass(frozen=True, slots=True)
class Registration:
    """Adds agents to rosters and removes them.

    An agent is tried on the bound fixture before the competition is locked, because reading a tape takes time and others may
    register during it.
    """

    database: Database
    packs: PackSource
    clock: Callable[[], int]

    def add(self, caller: str, competition_id: str, entry: AgentEntry) -> AgentRegisterResponse:
        """Pin an entry and append it to the roster; see ``Competitions.register``."""
        with self.database.read() as connection:
            seen, _ = _vacancy(connection, caller, competition_id, entry.agent_id)
            pinned = pinned_entry(connection, entry, caller)
        self._require_runnable(seen, pinned)
        with self.database.write() as connection:
            row, position = _vacancy(connection, caller, competition_id, entry.agent_id, lock=True)
            if row["pack_id"] != seen["pack_id"]:  # meanwhile a start bound the pack, and failed
                self._require_runnable(row, pinned)
            place = {"competition_id": competition_id, "position": position, "roster_size": row["roster_size"]}
            rows.add_agent(connection, {**pinned, **place})
            rows.change(connection, competition_id, updated_ts_ms=self.clock())
        unread = [*entry.ignored, *(f"config.{key}" for key in unused_of(pinned))]
        return {**pick(AgentRegisterResponse, pinned), **ignored(unread)}

    def withdraw(self, caller: str, competition_id: str, agent_id: str) -> None:
        with self.database.write() as connection:
            _mutable_row(connection, caller, competition_id, lock=True)
            if not rows.remove_agent(connection, competition_id, agent_id):
                raise UnknownEntryError(f"no agent {agent_id!r} is on the roster of competition {competition_id}")
            rows.change(connection, competition_id, updated_ts_ms=self.clock())

    def _require_runnable(self, row: CompetitionRow, pinned: RosterEntry) -> None:
        """Refuse an agent that can't run over the bound fixture, if there is one."""
        agent = rostered_agent(pinned)
        if row["pack_id"] is None or not names_ticks(agent):
            return
        try:
            bound = bind(self.packs, row["pack_id"], row["fixture_id"], row["fixture_ids"])
        except PackError:  # the start will report it
            return
        for agent_id, cause in misfits([agent], bound).items():
            raise EntryError(f"agent {agent_id!r} {cause}")


def _mutable_row(connection: Connection, caller: str, competition_id: str, *, lock: bool) -> CompetitionRow:
    row = require_owned(rows.row(connection, competition_id, lock=lock), competition_id, caller)
    if row["status"] not in MUTABLE:
        raise RosterFrozenError(f"competition {competition_id} is {row['status']}: its roster is frozen")
    return row


def _vacancy(
    connection: Connection, caller: str, competition_id: str, agent_id: str, *, lock: bool = False
) -> tuple[CompetitionRow, int]:
    row = _mutable_row(connection, caller, competition_id, lock=lock)
    agents = rows.agent_ids(connection, competition_id)
    if agent_id in agents:
        raise AlreadyRegisteredError(f"agent {agent_id!r} is registered already")
    if len(agents) >= row["roster_size"]:
        raise RosterFullError(f"competition {competition_id} has all its {row['roster_size']} agents")
    return row, len(agents)
