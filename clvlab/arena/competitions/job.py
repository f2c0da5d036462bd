"""The run of a competition: claimed once, performed by a job, finalized in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clvlab.api.answer import ReplayBinding, pick
from clvlab.api.competitions import RosterEntry
from clvlab.arena.anchoring import Anchoring
from clvlab.arena.caps import Budget, Caps
from clvlab.arena.competitions.events import finalized_events, run_events
from clvlab.arena.competitions.requests import CompetitionConfig, CompetitionStatus, require_startable
from clvlab.arena.competitions.roster import rostered_agent, unused_of
from clvlab.arena.events import EventKind, event, in_batches
from clvlab.arena.live import Happening, payload_of
from clvlab.arena.runs.binding import Bound, bind
from clvlab.arena.runs.entrants import Entrant, misfits
from clvlab.arena.runs.in_database import begin, enter, give_up, keep
from clvlab.arena.uploads.seen import Packs
from clvlab.errors import BindingError, EntryError, FeedError, NoFeedError, NotStartableError, PackError
from clvlab.feeds.feed import Feed
from clvlab.law.policy import PolicyEnvelope
from clvlab.packs.manifest import Fixture
from clvlab.proof.anchor import Anchor
from clvlab.proof.manifest import RunStarted
from clvlab.runs.live.feed import LiveFeed, is_genuine
from clvlab.runs.live.following import LivePlan
from clvlab.runs.perform import PerformedRun, perform
from clvlab.runs.plan import Plan
from clvlab.runs.progress import Tell
from clvlab.store import competitions as rows
from clvlab.store import jobs, usage
from clvlab.store.database import Connection, Database
from clvlab.store.jobs import Job, JobStatus

_Row = Mapping[str, Any]


def replay_binding(row: _Row) -> ReplayBinding | None:
    """ReplayBinding of a competition's row; None until it is bound."""
    return None if row["pack_id"] is None else pick(ReplayBinding, row)


@dataclass(frozen=True)
class CompetitionRuns:
    """Claims the start of a competition, and performs the job that follows."""

    database: Database
    catalog: Packs
    anchoring: Anchoring
    clock: Callable[[], int]
    budget: Budget
    caps: Caps
    live: LiveFeed

    def fixture(self, row: _Row) -> Fixture | None:
        """Ask the feed for the fixture of a live competition, before its row is held; null of a replay.

        Raises
        ------
        NotStartableError
        """
        config = row["config"]
        if config["source_mode"] != "live":
            return None
        try:
            fixture = self.live.fixture(config["fixture_id"])
            spent = self.live.out_of_quota()
        except NoFeedError as error:
            raise NotStartableError("no_live_feed", str(error)) from error
        except FeedError as error:
            raise NotStartableError("fixture_not_on_feed", str(error)) from error
        if spent:
            raise NotStartableError("no_quota", spent)
        return fixture

    def claim(self, connection: Connection, row: _Row, fixture: Fixture | None = None) -> str:
        """Claim the start of a competition whose row is held: status, run, job and first event; returns the run id.

        Raises
        ------
        NotStartableError, OwnerLimitError, StorageSpentError
        """
        competition_id, now = row["competition_id"], self.clock()
        require_startable(row)
        self.caps.require_start(connection, row["owner"])
        agents = rows.roster_of(connection, competition_id)
        if not agents:
            raise NotStartableError("roster_empty", f"competition {competition_id} has no agents: register one first")
        entrants = _entrants(agents)
        if fixture is not None:
            return self._claim_live(connection, row, agents, entrants, fixture)
        own = self._binding(connection, row)
        if row["pack_id"] is None:  # else each was tried on the fixture when it registered
            for agent_id, cause in misfits(entrants, own).items():
                raise NotStartableError("entry_unusable", f"agent {agent_id!r} {cause}")
        plan = _plan(row, entrants, own)
        if own.ranked:
            self.caps.require_names(connection, row["owner"], [agent["agent_id"] for agent in agents])
        enter(connection, plan.started, row["owner"], now, ranked=own.ranked, budget=self.budget)
        jobs.add(connection, "competition", plan.run_id, {"origin_id": competition_id}, now)
        rows.append(connection, competition_id, now, [_begun(plan.started, agents, {"replay_binding": own.payload()})])
        rows.change(connection, competition_id, **_running(row), **own.payload())
        return plan.run_id

    def _claim_live(
        self, connection: Connection, row: _Row, agents: Sequence[_Row], entrants: Sequence[Entrant], fixture: Fixture
    ) -> str:
        self.caps.require_live(connection, row["owner"])
        competition_id, now, feed = row["competition_id"], self.clock(), self.live.asked()
        plan = live_plan(row, row["next_seq"], entrants, feed, fixture)
        ranked = is_genuine(feed)
        if ranked:
            self.caps.require_names(connection, row["owner"], [agent["agent_id"] for agent in agents])
        enter(connection, plan.started, row["owner"], now, ranked=ranked, budget=self.budget, origin_id=competition_id)
        jobs.add(connection, "live-competition", plan.run_id, payload_of(competition_id, fixture), now)
        followed = {"replay_binding": None, "fixture": fixture.model_dump(mode="json", exclude={"rows", "digest"})}
        rows.append(connection, competition_id, now, [_begun(plan.started, agents, followed)])
        rows.change(connection, competition_id, **_running(row))
        return plan.run_id

    def _binding(self, connection: Connection, row: _Row) -> Bound:
        if row["pack_id"] is None:
            try:
                return bind(self.catalog, None, None)
            except PackError as error:
                detail = f"the competition names no pack, and none can be chosen for it: {error}"
                raise NotStartableError("binding_missing", detail) from error
        try:
            packs = self.catalog.seen_by(row["owner"], connection)
            return _unchanged(bind(packs, row["pack_id"], row["fixture_id"]), row)
        except (BindingError, PackError) as error:
            raise NotStartableError("binding_changed", f"the pack that was bound is not available: {error}") from error

    def perform(self, job: Job, tell: Tell) -> None:
        """Run a claimed competition and finalize it; what an earlier attempt said already is not said twice."""
        competition_id = job.payload["origin_id"]
        with self.database.write() as connection:
            jobs.fence(connection, job)
            commitment = begin(connection, job.run_id, self.clock())
            row = rows.row(connection, competition_id)
            agents = rows.roster_of(connection, competition_id)
        if row is None:
            raise BindingError(f"competition {competition_id} is gone")
        entrants = [rostered_agent(agent) for agent in agents]
        own = bind(self.catalog.seen_by(row["owner"]), row["pack_id"], row["fixture_id"])
        done = perform(_plan(row, entrants, own), commitment, tell)
        for batch in in_batches(run_events(done), skipped=row["next_seq"] - row["started_seq"] - 1):
            with self.database.write() as connection:
                jobs.fence(connection, job)
                rows.append(connection, competition_id, self.clock(), batch, packed=True)
        with self.database.write() as connection:
            jobs.fence(connection, job)
            now = self.clock()
            anchor = keep(connection, done, self.anchoring, now)
            rows.append(connection, competition_id, now, finalized_events(done, anchor))
            rows.change(connection, competition_id, status=CompetitionStatus.FINALIZED, run_id=job.run_id)
            usage.weigh(connection, job.run_id)
            jobs.finish(connection, job, JobStatus.DONE)

    def failed(self, connection: Connection, job: Job, cause: str) -> None:
        """Release the claim: the competition is what it was before, with the cause on record."""
        note_failure(connection, job, cause, self.clock())


def _begun(started: RunStarted, agents: Sequence[_Row], over: dict[str, Any]) -> dict[str, Any]:
    payload = {
        "agents": [{**pick(RosterEntry, agent), "unused_keys": unused_of(agent)} for agent in agents],
        "window": started["window"],
        "policy_hash": started["policy_hash"],
        **over,
    }
    return event(EventKind.COMPETITION_STARTED, started["run_id"], payload)


def _running(row: _Row) -> dict[str, Any]:
    return {
        "status": CompetitionStatus.RUNNING,
        "claimed_from": row["status"],
        "started_seq": row["next_seq"],
        "cause": None,
    }


def live_plan(
    row: _Row, started_seq: int, agents: Sequence[Entrant], feed: Feed, fixture: Fixture, grace_s: int = 0
) -> LivePlan:
    """Return the live run that a competition and its roster stand for; each start of it is a run of its own."""
    config = CompetitionConfig.model_validate(row["config"])
    return LivePlan(
        feed,
        fixture,
        agents,
        f"{row['competition_id']}/{started_seq}",
        window=config.window(),
        policy=PolicyEnvelope(execution_mode=config.execution_mode),
        kind="competition",
        grace_s=grace_s,
    )


def note_failure(connection: Connection, job: Job, cause: str, now_ms: int) -> None:
    """Release the claim of a competition's start, which is what it was before, with the cause on record."""
    competition_id = job.payload["origin_id"]
    row = rows.row(connection, competition_id, lock=True)
    if row is not None:
        rows.append(connection, competition_id, now_ms, [event(EventKind.COMPETITION_FAILED, job.run_id, {"cause": cause})])
        rows.change(connection, competition_id, status=row["claimed_from"], cause=cause)
    give_up(connection, job.run_id, cause, now_ms)


def _unchanged(own: Bound, row: _Row) -> Bound:
    if own.pack.content_hash != row["content_hash"]:
        raise BindingError(f"pack {row['pack_id']!r} was bound as {row['content_hash']} and is now {own.pack.content_hash}")
    return own


def _entrants(agents: Sequence[_Row]) -> list[Entrant]:
    """Make the agents of a roster, which an earlier version may have taken."""
    made = []
    for agent in agents:
        try:
            made.append(rostered_agent(agent))
        except EntryError as error:
            raise NotStartableError("entry_unusable", f"agent {agent['agent_id']!r} can't be made: {error}") from error
    return made


def _plan(row: _Row, agents: Sequence[Entrant], own: Bound) -> Plan:
    config = CompetitionConfig.model_validate(row["config"])
    return Plan(
        kind="competition",
        origin_id=row["competition_id"],
        pack=own.pack,
        fixtures=[own.fixture_id],
        agents=agents,
        window=config.window(),
        policy=PolicyEnvelope(execution_mode=config.execution_mode),
    )


# Live competitions: agents that follow a fixture together as it is played.


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
