"""Deploys: pin a configuration as an agent instance and launch its run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from clvlab.answers.agents import (
    AgentInstance,
    DeployResponse,
    InstanceListResponse,
    InstanceSummary,
    RuntimeEvent,
    RuntimeEventsResponse,
)
from clvlab.answers.answer import BodyAnswer, ignored, pick
from clvlab.application.caps import Caps
from clvlab.application.deploys.agent import deployed_agent, pin
from clvlab.application.deploys.config import DeployConfig
from clvlab.application.deploys.job import plan_of, runtime_event
from clvlab.application.deploys.live import live_plan_of
from clvlab.application.deploys.preflight import Preflight, preflight
from clvlab.application.jobs import LIVE
from clvlab.application.live.feed import LiveFeed, is_genuine
from clvlab.application.live.job import payload_of
from clvlab.application.pages import page_of
from clvlab.application.runs.budget import Budget
from clvlab.application.runs.entrants import config_hash_of, unused_keys
from clvlab.application.runs.in_database import enter
from clvlab.application.uploads.seen import Packs
from clvlab.errors import IdempotencyConflictError, PageError, PreflightError, UnknownInstanceError
from clvlab.law.schema import SAFE_INTEGER
from clvlab.proof.started import RunStarted
from clvlab.store import instances, jobs, runs
from clvlab.store.database import Connection, Database
from clvlab.store.runs import RunStatus
from clvlab.store.tables import instances as instance_table

MAX_RUNTIME_EVENTS = 1000
_MAX_KEY_CHARS = 255


class _KeyTakenError(Exception):
    """Another request took the idempotency key while this one was preparing."""


@dataclass(frozen=True, slots=True)
class _Launch:
    """The run of a deploy: kind and payload of its job, RUN_STARTED, and whether it is ranked."""

    kind: str
    started: RunStarted
    payload: dict[str, Any]
    ranked: bool


@dataclass(frozen=True)
class Deploys:
    """Use cases of deployed agents."""

    database: Database
    catalog: Packs
    clock: Callable[[], int]
    new_id: Callable[[], str]
    budget: Budget
    caps: Caps
    live: LiveFeed

    def deploy(self, owner: str, body: Mapping[str, Any], idempotency_key: str | None = None) -> DeployResponse:
        """Check a configuration by name, store it as an instance, and queue its run; returns before that is sealed.

        Parameters
        ----------
        owner
            Principal of the verified token; the only source of ownership.
        body
            Fields of ``DeployConfig``, untyped: a value of the wrong type or out of bounds is a failing check named after its
            field.
        idempotency_key
            The same key and configuration of the same owner give the same instance again, without a new run.

        Returns
        -------
        DeployResponse
            ``ignored`` names fields of the body, and ``params``, that nothing reads; they are told and change no fingerprint,
            save for unknown ``params``, which are pinned.

        Raises
        ------
        IdempotencyConflictError
            ``reason`` is ``fingerprint`` or ``prior_attempt``.
        PreflightError
            ``failures`` names every failing check; nothing is stored.
        """
        if idempotency_key is not None and not 1 <= len(idempotency_key) <= _MAX_KEY_CHARS:
            message = f"must have 1 to {_MAX_KEY_CHARS} characters, not {len(idempotency_key)}"
            raise PreflightError([{"name": "idempotency_key", "ok": False, "message": message}])
        checked = preflight(body, self.catalog.seen_by(owner), self.live)
        config = checked.config
        fingerprint = None if config is None else config_hash_of(_agent(config).identity)
        if idempotency_key is not None:
            prior = self._prior(owner, idempotency_key, fingerprint)
            if prior is not None:
                return {**prior, **_unread(body, config)}
        if checked.failures or config is None or fingerprint is None:
            raise PreflightError(checked.failures)
        try:
            record = self._store(owner, config, checked, fingerprint, idempotency_key)
        except _KeyTakenError:
            taken = self._prior(owner, str(idempotency_key), fingerprint)
            if taken is None:
                raise
            return {**taken, **_unread(body, config)}
        return {**pick(DeployResponse, record), **_unread(body, config)}

    def _prior(self, owner: str, key: str, fingerprint: str | None) -> DeployResponse | None:
        """Return what a key was used for, if it was."""
        with self.database.read() as connection:
            used = instances.key_row(connection, owner, key)
            if used is None:
                return None
            if used["fingerprint"] != fingerprint:
                raise IdempotencyConflictError(
                    "fingerprint", f"idempotency key {key!r} was used with another configuration: take a new key"
                )
            instance = instances.row(connection, used["instance_id"])
            run = None if instance is None else runs.row(connection, instance["run_id"])
        if instance is None or run is None or run["status"] == RunStatus.FAILED:
            cause = "it is gone" if run is None else run["cause"]
            detail = f"the deploy under idempotency key {key!r} failed for good ({cause}): take a new key"
            raise IdempotencyConflictError("prior_attempt", detail)
        return pick(DeployResponse, instance["record"])

    def _store(self, owner: str, config: DeployConfig, checked: Preflight, fingerprint: str, key: str | None) -> AgentInstance:
        """Store instance, run, job and key in one transaction."""
        instance_id, now = "inst_" + self.new_id(), self.clock()
        launch = self._launch(config, checked, instance_id)
        started, run_id = launch.started, launch.started["run_id"]
        record: AgentInstance = {
            "instance_id": instance_id,
            "owner": owner,
            "template": config.strategy,
            "config": pin(config),
            "config_hash": fingerprint,
            "policy_hash": started["policy_hash"],
            "allowlists": {"markets": started["policy"]["market_allowlist"], "venues": started["policy"]["venue_allowlist"]},
            "run_mode": config.source_mode,
            "preflight": checked.checks,
            "replay_binding": None if checked.bound is None else checked.bound.payload(),
            "run_id": run_id,
            "created_ts_ms": now,
        }
        with self.database.write() as connection:
            self.caps.require_deploy(connection, owner)
            row = {name: record[name] for name in ("instance_id", "owner", "template", "run_id", "created_ts_ms")}
            instances.add(connection, row | {"record": record})
            if key is not None:
                use = {"owner": owner, "key": key, "fingerprint": fingerprint, "instance_id": instance_id, "created_ts_ms": now}
                if not instances.take_key(connection, use):
                    raise _KeyTakenError
            if launch.kind in LIVE:
                self.caps.require_live(connection, owner)
            if launch.ranked:
                self.caps.require_names(connection, owner, [agent["agent_id"] for agent in started["agents"]])
            enter(connection, started, owner, now, ranked=launch.ranked, budget=self.budget)
            jobs.add(connection, launch.kind, run_id, launch.payload, now)
            queued = runtime_event("RUN_QUEUED", str(config.agent_id), run_id, "", {})
            instances.append(connection, instance_id, now, [queued])
        return record

    def _launch(self, config: DeployConfig, checked: Preflight, instance_id: str) -> _Launch:
        if checked.bound is not None:
            plan = plan_of(config, checked.bound, instance_id)
            return _Launch("deploy", plan.started, {"origin_id": instance_id}, checked.bound.ranked)
        if checked.fixture is None:
            raise PreflightError(checked.failures)
        feed = self.live.asked()
        live = live_plan_of(config, instance_id, feed, checked.fixture)
        return _Launch("live-deploy", live.started, payload_of(instance_id, checked.fixture), is_genuine(feed))

    def instance(self, caller: str, instance_id: str) -> AgentInstance:
        """Return the record of an instance to its owner.

        Raises
        ------
        UnknownInstanceError
        """
        with self.database.read() as connection:
            return _owned(connection, instance_id, caller)

    def page(
        self, caller: str, strategy: str | None = None, cursor: str | None = None, limit: int = 50
    ) -> InstanceListResponse:
        """List the instances of the caller, newest first; of one strategy, or of every.

        Raises
        ------
        PageError
        """
        with self.database.read() as connection:
            own = instances.of_owner(caller, strategy)
            found, next_cursor = page_of(connection, instance_table, "instance_id", cursor, limit, own)
            statuses = runs.statuses(connection, [row["run_id"] for row in found])
        rows = [row["record"] | {"run_status": statuses[row["run_id"]]} for row in found]
        return {"instances": [pick(InstanceSummary, row) for row in rows], "next_cursor": next_cursor}

    def newest_event_id(self, caller: str, instance_id: str) -> int:
        """Return the id of the newest runtime event of an instance; 0 without any.

        Raises
        ------
        UnknownInstanceError
            Absent, without an owner, or of another owner.
        """
        with self.database.read() as connection:
            _owned(connection, instance_id, caller)
            return instances.newest_event_id(connection, instance_id)

    def runtime_events(self, caller: str, instance_id: str, since: int = 0, limit: int | None = None) -> RuntimeEventsResponse:
        """Return events with ``id > since``, ascending; the first ``limit`` of them.

        Raises
        ------
        UnknownInstanceError
            Absent, without an owner, or of another owner.
        PageError
            ``since`` is negative, or ``limit`` outside 1..1000.
        """
        if since < 0 or (limit is not None and not 1 <= limit <= MAX_RUNTIME_EVENTS):
            raise PageError(f"since must not be negative, and limit be 1 to {MAX_RUNTIME_EVENTS}, not {since} and {limit}")
        with self.database.read() as connection:
            _owned(connection, instance_id, caller)
            found = instances.events(connection, instance_id, min(since, SAFE_INTEGER), limit)
        return {"events": [pick(RuntimeEvent, row) for row in found]}


def _unread(body: Mapping[str, Any], config: DeployConfig | None) -> BodyAnswer:
    """Name what a body has and nothing reads."""
    params = [] if config is None else unused_keys(config.strategy, config.params)
    return ignored([*set(body) - set(DeployConfig.model_fields), *(f"params.{key}" for key in params)])


def _agent(config: DeployConfig) -> Any:
    return deployed_agent(config, str(config.agent_id))


def _owned(connection: Connection, instance_id: str, caller: str) -> AgentInstance:
    row = instances.row(connection, instance_id)
    if row is None or row["owner"] is None or row["owner"] != caller:
        raise UnknownInstanceError(f"unknown instance {instance_id!r}")
    record: AgentInstance = row["record"]
    return record
