"""Live deploys: an agent that follows a fixture as it is played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clvlab.application.backtests import settings_in
from clvlab.application.deploys.agent import deployed_agent
from clvlab.application.deploys.config import DeployConfig
from clvlab.application.deploys.job import note_failure, runtime_event, session_of
from clvlab.application.live.following import LivePlan
from clvlab.application.live.telling import Happening
from clvlab.application.runs.perform import PerformedRun
from clvlab.errors import UnknownInstanceError
from clvlab.feeds.feed import Feed
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.packs.manifest import Fixture
from clvlab.proof.anchor import Anchor
from clvlab.store import instances
from clvlab.store.database import Connection
from clvlab.store.jobs import Job


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
