"""The run of a deployed agent: performed by a job, told on the operations channel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from clvlab.arena.anchoring import Anchoring
from clvlab.arena.deploys.config import DeployConfig, deployed_agent
from clvlab.arena.events import in_batches
from clvlab.arena.live import Happening
from clvlab.arena.runs.binding import Bound, bind
from clvlab.arena.runs.in_database import begin, give_up, keep
from clvlab.arena.uploads.seen import Packs
from clvlab.errors import UnknownInstanceError
from clvlab.feeds.feed import Feed
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.packs.manifest import Fixture
from clvlab.proof.anchor import Anchor
from clvlab.runs.backtests import settings_in
from clvlab.runs.live.following import LivePlan
from clvlab.runs.perform import PerformedRun, perform
from clvlab.runs.plan import Plan
from clvlab.runs.progress import Tell
from clvlab.store import instances, jobs, usage
from clvlab.store.database import Connection, Database
from clvlab.store.jobs import Job, JobStatus

_ACTION = ("fixture_id", "tick_seq", "ts_ms", "action", "market_key", "side", "stake", "limit_odds_milli")


def plan_of(config: DeployConfig, own: Bound, instance_id: str) -> Plan:
    """Return the run that a resolved configuration stands for."""
    return Plan(
        kind="deploy",
        origin_id=instance_id,
        pack=own.pack,
        fixtures=[own.fixture_id],
        agents=[deployed_agent(config, str(config.agent_id))],
        window=settings_in(config, Window),
        policy=settings_in(config, PolicyEnvelope),
    )


def runtime_event(kind: str, agent_id: str, run_id: str, session_id: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Make an event of the operations channel; it carries nothing of the evidence and is never scored."""
    return {"type": kind, "agent_id": agent_id, "run_id": run_id, "session_id": session_id, "payload": payload}


@dataclass(frozen=True)
class DeployRuns:
    """Performs the jobs of deployed agents."""

    database: Database
    catalog: Packs
    anchoring: Anchoring
    clock: Callable[[], int]

    def perform(self, job: Job, tell: Tell) -> None:
        """Run a deployed agent and seal the run."""
        instance_id, session = job.payload["origin_id"], session_of(job)
        with self.database.write() as connection:
            jobs.fence(connection, job)
            row = instances.row(connection, instance_id)
            if row is None:
                raise UnknownInstanceError(f"instance {instance_id} is gone")
            config = DeployConfig.model_validate(row["record"]["config"])
            agent_id = str(config.agent_id)
            commitment = begin(connection, job.run_id, self.clock())
            begun = runtime_event("RUN_STARTED", agent_id, job.run_id, session, {})
            instances.append(connection, instance_id, self.clock(), [begun])
        binding = row["record"]["replay_binding"]
        own = bind(self.catalog.seen_by(row["owner"]), binding["pack_id"], binding["fixture_id"])
        done = perform(plan_of(config, own, instance_id), commitment, tell)
        for batch in in_batches(_actions(done, session)):
            with self.database.write() as connection:
                jobs.fence(connection, job)
                instances.append(connection, instance_id, self.clock(), batch)
        with self.database.write() as connection:
            jobs.fence(connection, job)
            now = self.clock()
            keep(connection, done, self.anchoring, now)
            ended = runtime_event("RUN_SEALED", agent_id, job.run_id, session, {})
            instances.append(connection, instance_id, now, [ended])
            usage.weigh(connection, job.run_id)
            jobs.finish(connection, job, JobStatus.DONE)

    def failed(self, connection: Connection, job: Job, cause: str) -> None:
        """Put the cause on the run's record."""
        note_failure(connection, job, cause, self.clock())


def note_failure(connection: Connection, job: Job, cause: str, now_ms: int) -> None:
    """Put the cause of a failure on the record of an instance's run."""
    instance_id = job.payload["origin_id"]
    row = instances.row(connection, instance_id)
    agent_id = "" if row is None else str(row["record"]["config"]["agent_id"])
    ended = runtime_event("RUN_FAILED", agent_id, job.run_id, session_of(job), {"cause": cause})
    instances.append(connection, instance_id, now_ms, [ended])
    give_up(connection, job.run_id, cause, now_ms)


def session_of(job: Job) -> str:
    """Name one attempt at a run."""
    return f"{job.run_id}/{job.attempt}"


def _actions(done: PerformedRun, session: str) -> Iterator[dict[str, Any]]:
    for row in done.result.decisions.select("agent_id", *_ACTION).iter_rows(named=True):
        payload = {name: row[name] for name in _ACTION}
        yield runtime_event("AGENT_ACTION", row["agent_id"], done.run_id, session, payload)


# Live deploys: an agent that follows a fixture as it is played.


def live_plan_of(config: DeployConfig, instance_id: str, feed: Feed, fixture: Fixture, grace_s: int = 0) -> LivePlan:
    """Return the live run that a resolved configuration stands for."""
    return LivePlan(
        feed,
        fixture,
        [deployed_agent(config, str(config.agent_id))],
        instance_id,
        window=settings_in(config, Window),
        policy=settings_in(config, PolicyEnvelope),
        kind="deploy",
        grace_s=grace_s,
    )


@dataclass(frozen=True)
class LiveDeploy:
    """An instance as the subject of a live run."""

    def plan(self, connection: Connection, job: Job, feed: Feed, fixture: Fixture, grace_s: int) -> LivePlan:
        """Return what was deployed."""
        return live_plan_of(_config(connection, job), job.payload["origin_id"], feed, fixture, grace_s)

    def begun(self, connection: Connection, job: Job, now_ms: int) -> None:
        """Say that the run is being followed."""
        self.told(connection, job, [("RUN_STARTED", "", {}), ("STATUS_CHANGED", "", {"status": "running"})], now_ms)

    def told(self, connection: Connection, job: Job, happenings: Sequence[Happening], now_ms: int) -> None:
        """Say what happened while it lasts."""
        own = str(_config(connection, job).agent_id)
        events = [
            runtime_event(kind, agent_id or own, job.run_id, session_of(job), payload) for kind, agent_id, payload in happenings
        ]
        instances.append(connection, job.payload["origin_id"], now_ms, events)

    def sealed(self, connection: Connection, job: Job, done: PerformedRun, anchor: Anchor, now_ms: int) -> None:  # noqa: ARG002
        """Say that it is sealed, and over which pack."""
        captured = {"pack_id": done.pack.pack_id, "content_hash": done.pack.content_hash}
        self.told(connection, job, [("STATUS_CHANGED", "", {"status": "sealed"} | captured), ("RUN_SEALED", "", {})], now_ms)

    def failed(self, connection: Connection, job: Job, cause: str, now_ms: int) -> None:
        """Note a failure."""
        note_failure(connection, job, cause, now_ms)


def _config(connection: Connection, job: Job) -> DeployConfig:
    row = instances.row(connection, job.payload["origin_id"])
    if row is None:
        raise UnknownInstanceError(f"instance {job.payload['origin_id']} is gone")
    return DeployConfig.model_validate(row["record"]["config"])
