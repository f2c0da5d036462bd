"""The run of a deployed agent: a job performs it and reports it on the operations channel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from clvlab.arena.deploys.config import DeployConfig, deployed_agent
from clvlab.arena.events import in_batches
from clvlab.arena.jobs import fenced
from clvlab.arena.live import Happening
from clvlab.arena.run_jobs import Sealing
from clvlab.arena.runs.binding import Bound, bind
from clvlab.arena.runs.in_database import give_up
from clvlab.arena.uploads.packs import Packs
from clvlab.errors import UnknownInstanceError
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.packs.manifest import Fixture
from clvlab.runs.live.spec import LiveSpec
from clvlab.runs.run import Run
from clvlab.runs.spec import ReplaySpec, settings_in
from clvlab.sources.capture.feed import Feed
from clvlab.store import instances
from clvlab.store.database import Connection, Database
from clvlab.store.instances import InstanceRow
from clvlab.store.jobs import Job

_ACTION = ("fixture_id", "tick_seq", "ts_ms", "action", "market_key", "side", "stake", "limit_odds_milli")


def spec_of(config: DeployConfig, own: Bound, instance_id: str) -> ReplaySpec:
    return ReplaySpec(
        kind="deploy",
        origin_id=instance_id,
        pack=own.pack,
        fixtures=own.fixtures,
        agents=[deployed_agent(config, str(config.agent_id))],
        window=settings_in(config, Window),
        policy=settings_in(config, PolicyEnvelope),
    )


def runtime_event(kind: str, agent_id: str, run_id: str, session_id: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Return an event of the operations channel; it carries no evidence and is never scored."""
    return {"type": kind, "agent_id": agent_id, "run_id": run_id, "session_id": session_id, "payload": payload}


@dataclass(frozen=True)
class DeployOrigin:
    database: Database
    catalog: Packs
    clock: Callable[[], int]

    def spec(self, job: Job) -> ReplaySpec:
        instance_id = job.payload["origin_id"]
        with self.database.read() as connection:
            row = _row(connection, instance_id)
        owner, binding = row["owner"], row["record"]["replay_binding"]
        if owner is None or binding is None:
            raise UnknownInstanceError(f"instance {instance_id} has no owner, or replays nothing")
        own = bind(self.catalog.seen_by(owner), binding["pack_id"], binding["fixture_id"], binding.get("fixture_ids"))
        return spec_of(DeployConfig.model_validate(row["record"]["config"]), own, instance_id)

    def report_start(self, connection: Connection, job: Job, now_ms: int) -> None:
        tell(connection, job, [("RUN_STARTED", "", {})], now_ms)

    def seal_report(self, job: Job, run: Run) -> Sealing:
        for batch in in_batches(_actions(run, session_of(job))):
            with fenced(self.database, job) as connection:
                instances.append(connection, job.payload["origin_id"], self.clock(), batch)
        return lambda connection, anchor, now_ms: tell(connection, job, [("RUN_SEALED", "", {})], now_ms)  # noqa: ARG005

    def record_failure(self, connection: Connection, job: Job, cause: str, now_ms: int) -> None:
        note_failure(connection, job, cause, now_ms)


def tell(connection: Connection, job: Job, happenings: Sequence[Happening], now_ms: int) -> None:
    """Report happenings of an instance's run on the operations channel; those without an agent belong to the run."""
    instance_id = job.payload["origin_id"]
    own = str(_row(connection, instance_id)["record"]["config"]["agent_id"])
    events = [
        runtime_event(kind, agent_id or own, job.run_id, session_of(job), payload) for kind, agent_id, payload in happenings
    ]
    instances.append(connection, instance_id, now_ms, events)


def _row(connection: Connection, instance_id: str) -> InstanceRow:
    row = instances.row(connection, instance_id)
    if row is None:
        raise UnknownInstanceError(f"instance {instance_id} is gone")
    return row


def note_failure(connection: Connection, job: Job, cause: str, now_ms: int) -> None:
    instance_id = job.payload["origin_id"]
    row = instances.row(connection, instance_id)
    agent_id = "" if row is None else str(row["record"]["config"]["agent_id"])
    ended = runtime_event("RUN_FAILED", agent_id, job.run_id, session_of(job), {"cause": cause})
    instances.append(connection, instance_id, now_ms, [ended])
    give_up(connection, job.run_id, cause, now_ms)


def session_of(job: Job) -> str:
    return f"{job.run_id}/{job.attempt}"


def _actions(run: Run, session: str) -> Iterator[dict[str, Any]]:
    for row in run.evidence.decisions.select("agent_id", *_ACTION).iter_rows(named=True):
        payload = {name: row[name] for name in _ACTION}
        yield runtime_event("AGENT_ACTION", row["agent_id"], run.run_id, session, payload)


# Live deploys: an agent that follows a fixture live.


def live_spec_of(config: DeployConfig, instance_id: str, feed: Feed, fixture: Fixture, grace_s: int = 0) -> LiveSpec:
    return LiveSpec(
        feed=feed,
        fixture=fixture,
        agents=[deployed_agent(config, str(config.agent_id))],
        origin_id=instance_id,
        window=settings_in(config, Window),
        policy=settings_in(config, PolicyEnvelope),
        kind="deploy",
        grace_s=grace_s,
    )


@dataclass(frozen=True)
class LiveDeployOrigin:
    database: Database

    def spec(self, job: Job, feed: Feed, fixture: Fixture, grace_s: int) -> LiveSpec:
        with self.database.read() as connection:
            row = _row(connection, job.payload["origin_id"])
        config = DeployConfig.model_validate(row["record"]["config"])
        return live_spec_of(config, job.payload["origin_id"], feed, fixture, grace_s)

    def report_start(self, connection: Connection, job: Job, now_ms: int) -> None:
        tell(connection, job, [("RUN_STARTED", "", {}), ("STATUS_CHANGED", "", {"status": "running"})], now_ms)

    def report_events(self, connection: Connection, job: Job, happenings: Sequence[Happening], now_ms: int) -> None:
        tell(connection, job, happenings, now_ms)

    def seal_report(self, job: Job, run: Run) -> Sealing:
        captured = {"pack_id": run.pack.pack_id, "content_hash": run.pack.content_hash}
        ended: list[Happening] = [("STATUS_CHANGED", "", {"status": "sealed"} | captured), ("RUN_SEALED", "", {})]
        return lambda connection, anchor, now_ms: tell(connection, job, ended, now_ms)  # noqa: ARG005

    def record_failure(self, connection: Connection, job: Job, cause: str, now_ms: int) -> None:
        note_failure(connection, job, cause, now_ms)
