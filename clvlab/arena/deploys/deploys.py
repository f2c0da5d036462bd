"""Deploys: pin a configuration as an agent instance and launch its run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from clvlab.agents.registry import TEMPLATES
from clvlab.api.answer import BodyAnswer, ignored, pick
from clvlab.api.competitions import (
    AgentInstance,
    DeployResponse,
    InstanceListResponse,
    InstanceRecord,
    InstanceSummary,
    PreflightCheck,
    RuntimeEventsResponse,
)
from clvlab.api.runs import JobState
from clvlab.arena.caps import Budget, Caps
from clvlab.arena.deploys.config import DeployConfig, deployed_agent, pin, resolve, scope_faults, without_effect
from clvlab.arena.deploys.job import live_spec_of, runtime_event, spec_of
from clvlab.arena.jobs import OVER, Jobs, until_over
from clvlab.arena.live import payload_of
from clvlab.arena.pages import page_of
from clvlab.arena.runs.binding import Bound, PackSource, bind
from clvlab.arena.runs.entrants import config_hash_of, misfits, unused_keys
from clvlab.arena.runs.in_database import enter
from clvlab.arena.uploads.packs import Packs
from clvlab.errors import (
    BindingError,
    ClvlabError,
    IdempotencyConflictError,
    NotDeletableError,
    PageError,
    PreflightError,
    UnknownInstanceError,
)
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.schema import SAFE_INTEGER
from clvlab.packs.manifest import Fixture
from clvlab.proof.manifest import RunStarted
from clvlab.runs.live.feed import LiveFeed, is_genuine
from clvlab.runs.spec import settings_in
from clvlab.store import instances, runs, usage
from clvlab.store.database import Connection, Database
from clvlab.store.instances import InstanceRow
from clvlab.store.jobs import JobPayload
from clvlab.store.runs import RunLife, RunStatus
from clvlab.store.tables import instances as instance_table

# Preflight: before anything is stored, every parameter of a deploy has a check of its own name.


_STAND_IN = "baseline"
_STAND_INS = {"strategy": _STAND_IN, "source_mode": "replay"}  # replace invalid values in the other checks


@dataclass(frozen=True, slots=True)
class Preflight:
    """The checks of a deploy, in order, and their results.

    ``config`` is the resolved configuration, or ``None`` if the check of a field failed. ``bound`` is the fixture of a replay,
    and ``fixture`` the fixture of a live run; they are ``None`` if there is no such fixture.
    """

    checks: list[PreflightCheck]
    config: DeployConfig | None = None
    bound: Bound | None = None
    fixture: Fixture | None = None

    @property
    def failures(self) -> list[PreflightCheck]:
        return [check for check in self.checks if not check["ok"]]


def preflight(body: Mapping[str, Any], catalog: PackSource, live: LiveFeed) -> Preflight:
    """Check a deploy.

    Steps: 1. every field by its own type and bounds; 2. combinations of fields, with defaults in place of fields that failed;
    3. for a live deploy, the feed.
    """
    wrong = _field_errors(body)
    config = DeployConfig.model_validate(_STAND_INS | {name: body[name] for name in body if name not in wrong})
    if "strategy" not in wrong and config.strategy not in TEMPLATES:
        wrong["strategy"] = f"unknown strategy {config.strategy!r}: use one of {', '.join(TEMPLATES)}"
    if "strategy" in wrong:
        config = config.model_copy(update={"strategy": _STAND_IN, "params": {}})
    unknown_scope = scope_faults(set(body) - set(DeployConfig.model_fields))
    wrong = without_effect(config) | wrong | unknown_scope
    full, wrong_params = _outcome(lambda: resolve(config))
    agent = None
    if wrong_params is None and full is not None:
        agent, wrong_params = _outcome(lambda: deployed_agent(full, str(full.agent_id)))
    _, policy = _outcome(lambda: settings_in(config, PolicyEnvelope))
    _, window = _outcome(lambda: settings_in(config, Window))
    own, binding = _outcome(lambda: _binding(config, catalog))
    if agent is not None and own is not None and not {"pack_id", "fixture_id", "fixture_ids"} & set(wrong):
        wrong_params = misfits([agent], own).get(agent.identity.agent_id)
    wrong |= {"params": wrong_params} if wrong_params else {}
    fixture, of_the_feed = _fixture_on_feed(config, live)
    together = of_the_feed | {"policy": policy, "window": window, "replay_binding": binding}
    wrong |= {name: message for name, message in together.items() if message}
    names = [
        *DeployConfig.model_fields,
        "live_feed",
        "fixture_on_feed",
        "quota",
        "policy",
        "window",
        "replay_binding",
        *unknown_scope,
    ]
    checks: list[PreflightCheck] = [{"name": name, "ok": name not in wrong, "message": wrong.get(name, "ok")} for name in names]
    sound = not any(name in wrong for name in DeployConfig.model_fields)
    return Preflight(checks, full if sound else None, own, fixture)


def _fixture_on_feed(config: DeployConfig, live: LiveFeed) -> tuple[Fixture | None, dict[str, str]]:
    if config.source_mode != "live":
        return None, {}
    _, missing = _outcome(live.idle_feed)
    if missing:
        return None, {"live_feed": missing}
    fixture, unknown = _outcome(lambda: live.fixture(config.fixture_id))
    quota = None if unknown else live.out_of_quota()
    return fixture, {name: text for name, text in (("fixture_on_feed", unknown), ("quota", quota)) if text}


def _field_errors(body: Mapping[str, Any]) -> dict[str, str]:
    try:
        DeployConfig.model_validate(dict(body))
    except ValidationError as error:
        return {str(one["loc"][0]): _message(one) for one in reversed(error.errors())}
    return {}


def _message(one: ErrorDetails) -> str:
    if one["type"] != "missing":
        return f"{one['msg']}, not {one['input']!r:.80}"
    choices = " or ".join(get_args(DeployConfig.model_fields[str(one["loc"][0])].annotation))
    return f"must be given: {choices}" if choices else "must be given"


def _outcome(attempt: Callable[[], Any]) -> tuple[Any, str | None]:
    try:
        return attempt(), None
    except ClvlabError as error:
        return None, str(error)


def _binding(config: DeployConfig, catalog: PackSource) -> Bound | None:
    if config.source_mode == "live":
        if config.pack_id is not None:
            raise BindingError(f"a live deploy follows the feed, and replays no pack: leave pack_id {config.pack_id!r} out")
        return None
    return bind(catalog, config.pack_id, config.fixture_id, config.fixture_ids)


MAX_RUNTIME_EVENTS = 1000
_MAX_KEY_CHARS = 255


class _KeyTakenError(Exception):
    """A concurrent request took the idempotency key."""


@dataclass(frozen=True, slots=True)
class _Launch:
    started: RunStarted
    payload: JobPayload
    ranked: bool


@dataclass(frozen=True)
class Deploys:
    database: Database
    catalog: Packs
    clock: Callable[[], int]
    new_id: Callable[[], str]
    budget: Budget
    caps: Caps
    live: LiveFeed
    jobs: Jobs

    def deploy(self, owner: str, body: Mapping[str, Any], idempotency_key: str | None = None) -> DeployResponse:
        """Check a configuration by name, store it as an instance, and queue its run; return before the run is sealed.

        ``owner``, the principal of the verified token, is the only source of ownership. ``body`` is untyped: a bad value is a
        failing check with the name of its field. A repeated call with the same ``idempotency_key`` and configuration returns
        the same instance. ``ignored`` of the response names unread fields. They do not change the fingerprint, except unknown
        ``params``, which are pinned.

        Raises
        ------
        IdempotencyConflictError
            ``reason`` is ``fingerprint`` or ``prior_attempt``.
        PreflightError
            ``failures`` names every failing check; nothing is stored.
        """
        return self.deploy_once(owner, body, idempotency_key)[0]

    def deploy_once(self, owner: str, body: Mapping[str, Any], idempotency_key: str | None) -> tuple[DeployResponse, bool]:
        """Deploy, and return whether the key had this instance already."""
        if idempotency_key is not None and not 1 <= len(idempotency_key) <= _MAX_KEY_CHARS:
            message = f"must have 1 to {_MAX_KEY_CHARS} characters, not {len(idempotency_key)}"
            raise PreflightError([{"name": "idempotency_key", "ok": False, "message": message}])
        self._require_room(owner, idempotency_key, live=body.get("source_mode") == "live")
        checked = preflight(body, self.catalog.seen_by(owner), self.live)
        config = checked.config
        fingerprint = None if config is None else config_hash_of(_agent(config).identity)
        if idempotency_key is not None:
            prior = self._prior(owner, idempotency_key, fingerprint)
            if prior is not None:
                return {**prior, **_unread(body, config)}, True
        if checked.failures or config is None or fingerprint is None:
            raise PreflightError(checked.failures)
        try:
            record = self._store(owner, config, checked, fingerprint, idempotency_key)
        except _KeyTakenError:
            taken = self._prior(owner, str(idempotency_key), fingerprint)
            if taken is None:
                raise
            return {**taken, **_unread(body, config)}, True
        return {**pick(DeployResponse, record), **_unread(body, config)}, False

    def _require_room(self, owner: str, key: str | None, *, live: bool) -> None:
        """Refuse a new deploy beyond a limit of its owner, before a pack is opened or a feed is asked."""
        with self.database.read() as connection:
            if key is not None and instances.key_row(connection, owner, key) is not None:
                return
            self.caps.require_deploy(connection, owner)
            if live:
                self.caps.require_live(connection, owner)
            self.budget.require_room(connection, owner)

    def _prior(self, owner: str, key: str, fingerprint: str | None) -> DeployResponse | None:
        with self.database.read() as connection:
            used = instances.key_row(connection, owner, key)
            if used is None:
                return None
            if used[0] != fingerprint:
                raise IdempotencyConflictError(
                    "fingerprint", f"idempotency key {key!r} was used with another configuration: take a new key"
                )
            instance = instances.row(connection, used[1])
            run = None if instance is None else runs.row(connection, instance["run_id"])
        is_gone = instance is None or instance["owner"] is None
        if instance is None or run is None or is_gone or run["status"] == RunStatus.FAILED:
            cause = "it is gone" if run is None or is_gone else run["cause"]
            detail = f"the deploy under idempotency key {key!r} failed for good ({cause}): take a new key"
            raise IdempotencyConflictError("prior_attempt", detail)
        return pick(DeployResponse, instance["record"])

    def _store(self, owner: str, config: DeployConfig, checked: Preflight, fingerprint: str, key: str | None) -> InstanceRecord:
        instance_id, now = "inst_" + self.new_id(), self.clock()
        launch = self._launch(config, checked, instance_id)
        started, run_id = launch.started, launch.started["run_id"]
        record: InstanceRecord = {
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
            instances.add(connection, record)
            if key is not None:
                use = {"owner": owner, "key": key, "fingerprint": fingerprint, "instance_id": instance_id, "created_ts_ms": now}
                if not instances.take_key(connection, use):
                    raise _KeyTakenError
            if config.source_mode == "live":
                self.caps.require_live(connection, owner)
            if launch.ranked:
                self.caps.require_names(connection, owner, [agent["agent_id"] for agent in started["agents"]])
            enter(connection, started, owner, now, ranked=launch.ranked, budget=self.budget, payload=launch.payload)
            queued = runtime_event("RUN_QUEUED", str(config.agent_id), run_id, "", {})
            instances.append(connection, instance_id, now, [queued])
        return record

    def _launch(self, config: DeployConfig, checked: Preflight, instance_id: str) -> _Launch:
        if checked.bound is not None:
            spec = spec_of(config, checked.bound, instance_id)
            return _Launch(spec.started, {"origin_id": instance_id}, checked.bound.ranked)
        if checked.fixture is None:
            raise PreflightError(checked.failures)
        feed = self.live.idle_feed()
        live = live_spec_of(config, instance_id, feed, checked.fixture)
        return _Launch(live.started, payload_of(instance_id, checked.fixture), is_genuine(feed))

    def instance(self, caller: str, instance_id: str) -> AgentInstance:
        with self.database.read() as connection:
            record = _own_instance(connection, instance_id, caller)
            life = _life(connection, record)
        return pick(AgentInstance, {**life, **record, "run_status": life["status"]})

    def cancel(self, caller: str, instance_id: str) -> JobState:
        """Cancel the run of the caller's instance; ``TransitionError`` if it is over."""
        with self.database.read() as connection:
            run_id = _own_instance(connection, instance_id, caller)["run_id"]
        return self.jobs.cancel_or_refuse(run_id, f"the run of instance {instance_id}")

    def delete(self, caller: str, instance_id: str) -> None:
        """Delete the caller's instance and its runtime events; its run and its idempotency key stay on record.

        Raises
        ------
        NotDeletableError
            ``in_use``: its run is not over.
        """
        with self.database.write() as connection:
            record = _own_instance(connection, instance_id, caller, lock=True)
            status = _life(connection, record)["status"]
            if status not in OVER:
                detail = f"the run of instance {instance_id} is {status}: cancel it, or wait until it is over"
                raise until_over(NotDeletableError("in_use", detail))
            instances.remove(connection, instance_id)
            if status == RunStatus.SEALED:
                usage.weigh(connection, record["run_id"])  # the events no longer count

    def page(
        self, caller: str, strategy: str | None = None, cursor: str | None = None, limit: int = 50
    ) -> InstanceListResponse:
        with self.database.read() as connection:
            own = instances.of_owner(caller, strategy)
            found, next_cursor = page_of(connection, instance_table, InstanceRow, "instance_id", cursor, limit, own)
            lives = runs.by_id(connection, runs.RunLife, [row["run_id"] for row in found])
        listed = [
            pick(InstanceSummary, {**life, **row["record"], "run_status": life["status"]})
            for row in found
            for life in [lives[row["run_id"]]]
        ]
        return {"instances": listed, "next_cursor": next_cursor}

    def newest_event_id(self, caller: str, instance_id: str) -> int:
        """Return the id of the newest runtime event of the caller's instance; 0 without events."""
        with self.database.read() as connection:
            _own_instance(connection, instance_id, caller)
            return instances.newest_event_id(connection, instance_id)

    def runtime_events(self, caller: str, instance_id: str, since: int = 0, limit: int | None = None) -> RuntimeEventsResponse:
        """Return events of the caller's instance with ``id > since``, ascending, up to ``limit``."""
        if since < 0 or (limit is not None and not 1 <= limit <= MAX_RUNTIME_EVENTS):
            raise PageError(f"since must not be negative, and limit be 1 to {MAX_RUNTIME_EVENTS}, not {since} and {limit}")
        with self.database.read() as connection:
            _own_instance(connection, instance_id, caller)
            found = instances.events(connection, instance_id, min(since, SAFE_INTEGER), limit)
        return {"events": found}


def _unread(body: Mapping[str, Any], config: DeployConfig | None) -> BodyAnswer:
    params = [] if config is None else unused_keys(config.strategy, config.params)
    return ignored([*set(body) - set(DeployConfig.model_fields), *(f"params.{key}" for key in params)])


def _agent(config: DeployConfig) -> Any:
    return deployed_agent(config, str(config.agent_id))


def _own_instance(connection: Connection, instance_id: str, caller: str, *, lock: bool = False) -> InstanceRecord:
    row = instances.row(connection, instance_id, lock=lock)
    if row is None or row["owner"] is None or row["owner"] != caller:
        raise UnknownInstanceError(f"unknown instance {instance_id!r}")
    return row["record"]


def _life(connection: Connection, record: InstanceRecord) -> RunLife:
    return runs.by_id(connection, runs.RunLife, [record["run_id"]])[record["run_id"]]
