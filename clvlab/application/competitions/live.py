"""Live competitions: agents that follow a fixture together as it is played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clvlab.application.competitions.events import finalized_events, run_events
from clvlab.application.competitions.job import live_plan, note_failure
from clvlab.application.competitions.roster import rostered_agent
from clvlab.application.competitions.status import CompetitionStatus
from clvlab.application.events import EventKind, event, in_batches
from clvlab.application.live.following import LivePlan
from clvlab.application.live.telling import Happening
from clvlab.application.runs.perform import PerformedRun
from clvlab.errors import BindingError
from clvlab.feeds.feed import Feed
from clvlab.packs.manifest import Fixture
from clvlab.proof.anchor import Anchor
from clvlab.store import competitions as rows
from clvlab.store.database import Connection
from clvlab.store.jobs import Job


@dataclass(frozen=True)
class LiveCompetition:
    """A competition as the subject of a live run."""

    def plan(self, connection: Connection, job: Job, feed: Feed, fixture: Fixture, grace_s: int) -> LivePlan:
        """Return what was started."""
        competition_id = job.payload["origin_id"]
        row = rows.row(connection, competition_id)
        if row is None:
            raise BindingError(f"competition {competition_id} is gone")
        agents = [rostered_agent(agent) for agent in rows.roster_of(connection, competition_id)]
        return live_plan(row, row["started_seq"], agents, feed, fixture, grace_s)

    def begun(self, connection: Connection, job: Job, now_ms: int) -> None:
        """Say that the run is being followed."""
        self.told(connection, job, [("STATUS_CHANGED", "", {"status": "running", "attempt": job.attempt})], now_ms)

    def told(self, connection: Connection, job: Job, happenings: Sequence[Happening], now_ms: int) -> None:
        """Say what happened while it lasts: no evidence yet, which the seal says whole and in its order."""
        events = [
            event(EventKind(kind), job.run_id, payload | ({"agent_id": agent_id} if agent_id else {}))
            for kind, agent_id, payload in happenings
        ]
        rows.append(connection, job.payload["origin_id"], now_ms, events)

    def sealed(self, connection: Connection, job: Job, done: PerformedRun, anchor: Anchor, now_ms: int) -> None:
        """Say every decision with its score, the ranking and the end."""
        competition_id = job.payload["origin_id"]
        captured = {"pack_id": done.pack.pack_id, "content_hash": done.pack.content_hash}
        self.told(connection, job, [("STATUS_CHANGED", "", {"status": "sealed"} | captured)], now_ms)
        for batch in in_batches(run_events(done)):
            rows.append(connection, competition_id, now_ms, batch, packed=True)
        rows.append(connection, competition_id, now_ms, finalized_events(done, anchor))
        rows.change(connection, competition_id, status=CompetitionStatus.FINALIZED, run_id=job.run_id)

    def failed(self, connection: Connection, job: Job, cause: str, now_ms: int) -> None:
        """Release the claim."""
        note_failure(connection, job, cause, now_ms)
