"""The run of a competition: claimed once, performed by a job, finalized in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from clvlab.api.answer import ReplayBinding
from clvlab.api.competitions import RosterEntry
from clvlab.arena.caps import Budget, Caps
from clvlab.arena.competitions.events import finalized_events, run_events
from clvlab.arena.competitions.requests import CompetitionConfig, CompetitionStatus, require_startable
from clvlab.arena.competitions.roster import rostered_agent, unused_of
from clvlab.arena.events import EventKind, event, in_batches
from clvlab.arena.jobs import fenced
from clvlab.arena.live import Happening, payload_of
from clvlab.arena.run_jobs import Sealing
from clvlab.arena.runs.binding import Bound, bind, binding_of
from clvlab.arena.runs.entrants import Entrant, misfits
from clvlab.arena.runs.in_database import enter, give_up
from clvlab.arena.uploads.packs import Packs
from clvlab.errors import BindingError, EntryError, FeedError, NoFeedError, NotStartableError, PackError
from clvlab.law.policy import PolicyEnvelope
from clvlab.packs.manifest import Fixture
from clvlab.proof.anchor import Anchor
from clvlab.proof.manifest import RunStarted
from clvlab.runs.live.feed import LiveFeed, is_genuine
from clvlab.runs.live.spec import LiveSpec
from clvlab.runs.run import Run
from clvlab.runs.spec import ReplaySpec
from clvlab.sources.capture.feed import Feed
from clvlab.store import competitions as rows
from clvlab.store.competitions import CompetitionRow
from clvlab.store.database import Connection, Database
from clvlab.store.jobs import Job, JobPayload


def replay_binding(row: CompetitionRow) -> ReplayBinding | None:
    """Return the ReplayBinding of a competition's row; None until it is bound."""
    pack_id, fixture_id, content_hash = row["pack_id"], row["fixture_id"], row["content_hash"]
    if pack_id is None or fixture_id is None or content_hash is None:
        return None
    return binding_of(pack_id, fixture_id, content_hash, row["fixture_ids"])


@dataclass(frozen=True)
class CompetitionStarts:
    catalog: Packs
    clock: Callable[[], int]
    budget: Budget
    caps: Caps
    live: LiveFeed

    def require_room(self, connection: Connection, row: CompetitionRow) -> None:
        """Refuse a start beyond a limit of its owner, before a pack is opened or a feed is asked."""
        self.caps.require_start(connection, row["owner"])
        if row["config"]["source_mode"] == "live":
            self.caps.require_live(connection, row["owner"])
        self.budget.require_room(connection, row["owner"])

    def fixture(self, row: CompetitionRow) -> Fixture | None:
        """Ask the feed for the fixture of a live competition, before its row is locked; ``None`` for a replay."""
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

    def claim(
        self, connection: Connection, row: CompetitionRow, fixture: Fixture | None = None, lease_ms: int | None = None
    ) -> tuple[str, Job | None]:
        """Claim the start and store its run; return the run's id, and its job if that of a replay gets a lease."""
        competition_id, now = row["competition_id"], self.clock()
        require_startable(row)
        self.caps.require_start(connection, row["owner"])
        agents = rows.roster_of(connection, competition_id)
        if not agents:
            raise NotStartableError("roster_empty", f"competition {competition_id} has no agents: register one first")
        entrants = _entrants(agents)
        if fixture is not None:
            return self._claim_live(connection, row, agents, entrants, fixture), None
        own = self._binding(connection, row)
        if row["pack_id"] is None:  # otherwise each agent was tried on the fixture at registration
            for agent_id, cause in misfits(entrants, own).items():
                raise NotStartableError("entry_unusable", f"agent {agent_id!r} {cause}")
        spec = _spec(row, entrants, own)
        if own.ranked:
            self.caps.require_names(connection, row["owner"], [agent["agent_id"] for agent in agents])
        payload, owner, budget = JobPayload(origin_id=competition_id), row["owner"], self.budget
        job = enter(connection, spec.started, owner, now, ranked=own.ranked, budget=budget, payload=payload, lease_ms=lease_ms)
        rows.append(connection, competition_id, now, [_start_event(spec.started, agents, {"replay_binding": own.payload()})])
        rows.change(connection, competition_id, **_start_values(row), **own.payload())
        return spec.run_id, job

    def _claim_live(
        self,
        connection: Connection,
        row: CompetitionRow,
        agents: Sequence[RosterEntry],
        entrants: Sequence[Entrant],
        fixture: Fixture,
    ) -> str:
        self.caps.require_live(connection, row["owner"])
        competition_id, now, feed = row["competition_id"], self.clock(), self.live.idle_feed()
        spec = live_spec(row, row["next_seq"], entrants, feed, fixture)
        ranked = is_genuine(feed)
        if ranked:
            self.caps.require_names(connection, row["owner"], [agent["agent_id"] for agent in agents])
        payload, owner, budget = payload_of(competition_id, fixture), row["owner"], self.budget
        enter(connection, spec.started, owner, now, ranked=ranked, budget=budget, origin_id=competition_id, payload=payload)
        followed = {"replay_binding": None, "fixture": fixture.model_dump(mode="json", exclude={"rows", "digest"})}
        rows.append(connection, competition_id, now, [_start_event(spec.started, agents, followed)])
        rows.change(connection, competition_id, **_start_values(row))
        return spec.run_id

    def _binding(self, connection: Connection, row: CompetitionRow) -> Bound:
        if row["pack_id"] is None:
            try:
                return bind(self.catalog, None, None, row["config"].get("fixture_ids"))
            except PackError as error:
                detail = f"the competition names no pack, and none can be chosen for it: {error}"
                raise NotStartableError("binding_missing", detail) from error
        try:
            packs = self.catalog.seen_by(row["owner"], connection)
            return _require_unchanged(bind(packs, row["pack_id"], row["fixture_id"], row["fixture_ids"]), row)
        except (BindingError, PackError) as error:
            raise NotStartableError("binding_changed", f"the pack that was bound is not available: {error}") from error


def _start_event(started: RunStarted, agents: Sequence[RosterEntry], over: dict[str, Any]) -> dict[str, Any]:
    payload = {
        "agents": [{**agent, "unused_keys": unused_of(agent)} for agent in agents],
        "window": started["window"],
        "policy_hash": started["policy_hash"],
        **over,
    }
    return event(EventKind.COMPETITION_STARTED, started["run_id"], payload)


def _start_values(row: CompetitionRow) -> dict[str, Any]:
    return {
        "status": CompetitionStatus.RUNNING,
        "claimed_from": row["status"],
        "started_seq": row["next_seq"],
        "cause": None,
    }


def live_spec(
    row: CompetitionRow, started_seq: int | None, agents: Sequence[Entrant], feed: Feed, fixture: Fixture, grace_s: int = 0
) -> LiveSpec:
    """Return the live run of a competition and its roster; each start makes a new run."""
    config = CompetitionConfig.model_validate(row["config"])
    return LiveSpec(
        feed=feed,
        fixture=fixture,
        agents=agents,
        origin_id=f"{row['competition_id']}/{started_seq}",
        window=config.window(),
        policy=PolicyEnvelope(execution_mode=config.execution_mode),
        kind="competition",
        grace_s=grace_s,
    )


def note_failure(connection: Connection, job: Job, cause: str, now_ms: int) -> None:
    """Release the claim of a start: the competition returns to its earlier status, and the cause is recorded."""
    competition_id = job.payload["origin_id"]
    row = rows.row(connection, competition_id, lock=True)
    if row is not None:
        rows.append(connection, competition_id, now_ms, [event(EventKind.COMPETITION_FAILED, job.run_id, {"cause": cause})])
        rows.change(connection, competition_id, status=row["claimed_from"], cause=cause)
    give_up(connection, job.run_id, cause, now_ms)


def _require_unchanged(own: Bound, row: CompetitionRow) -> Bound:
    if own.pack.content_hash != row["content_hash"]:
        raise BindingError(f"pack {row['pack_id']!r} was bound as {row['content_hash']} and is now {own.pack.content_hash}")
    return own


def _entrants(agents: Sequence[RosterEntry]) -> list[Entrant]:
    made = []
    for agent in agents:
        try:
            made.append(rostered_agent(agent))
        except EntryError as error:
            raise NotStartableError("entry_unusable", f"agent {agent['agent_id']!r} can't be made: {error}") from error
    return made


def _spec(row: CompetitionRow, agents: Sequence[Entrant], own: Bound) -> ReplaySpec:
    config = CompetitionConfig.model_validate(row["config"])
    return ReplaySpec(
        kind="competition",
        origin_id=row["competition_id"],
        pack=own.pack,
        fixtures=own.fixtures,
        agents=agents,
        window=config.window(),
        policy=PolicyEnvelope(execution_mode=config.execution_mode),
    )


# Origins of the jobs of competitions.


@dataclass(frozen=True)
class CompetitionOrigin:
    database: Database
    catalog: Packs
    clock: Callable[[], int]

    def spec(self, job: Job) -> ReplaySpec:
        row, entrants = _row_and_entrants(self.database, job)
        own = bind(self.catalog.seen_by(row["owner"]), row["pack_id"], row["fixture_id"], row["fixture_ids"])
        return _spec(row, entrants, own)

    def report_start(self, connection: Connection, job: Job, now_ms: int) -> None:
        """Append nothing, as the start already has its event."""

    def seal_report(self, job: Job, run: Run) -> Sealing:
        """Append every decision with its score, then the ranking and the end; existing events are not repeated."""
        competition_id = job.payload["origin_id"]
        with self.database.read() as connection:
            row = _row(connection, competition_id)
        if row["started_seq"] is None:
            raise BindingError(f"competition {competition_id} was not started")
        for batch in in_batches(run_events(run), skipped=row["next_seq"] - row["started_seq"] - 1):
            with fenced(self.database, job) as connection:
                rows.append(connection, competition_id, self.clock(), batch, packed=True)
        return lambda connection, anchor, now_ms: _finalize(connection, job, run, anchor, now_ms)

    def record_failure(self, connection: Connection, job: Job, cause: str, now_ms: int) -> None:
        note_failure(connection, job, cause, now_ms)


def _row(connection: Connection, competition_id: str) -> CompetitionRow:
    row = rows.row(connection, competition_id)
    if row is None:
        raise BindingError(f"competition {competition_id} is gone")
    return row


def _row_and_entrants(database: Database, job: Job) -> tuple[CompetitionRow, list[Entrant]]:
    competition_id = job.payload["origin_id"]
    with database.read() as connection:
        row, agents = _row(connection, competition_id), rows.roster_of(connection, competition_id)
    return row, [rostered_agent(agent) for agent in agents]


def _finalize(connection: Connection, job: Job, run: Run, anchor: Anchor, now_ms: int) -> None:
    competition_id = job.payload["origin_id"]
    rows.append(connection, competition_id, now_ms, finalized_events(run, anchor))
    rows.change(connection, competition_id, status=CompetitionStatus.FINALIZED, run_id=job.run_id)


@dataclass(frozen=True)
class LiveCompetitionOrigin:
    database: Database

    def spec(self, job: Job, feed: Feed, fixture: Fixture, grace_s: int) -> LiveSpec:
        row, entrants = _row_and_entrants(self.database, job)
        return live_spec(row, row["started_seq"], entrants, feed, fixture, grace_s)

    def report_start(self, connection: Connection, job: Job, now_ms: int) -> None:
        self.report_events(connection, job, [("STATUS_CHANGED", "", {"status": "running", "attempt": job.attempt})], now_ms)

    def report_events(self, connection: Connection, job: Job, happenings: Sequence[Happening], now_ms: int) -> None:
        """Append events of the live run, which are not evidence; the seal appends the evidence in full and in order."""
        events = [
            event(EventKind(kind), job.run_id, payload | ({"agent_id": agent_id} if agent_id else {}))
            for kind, agent_id, payload in happenings
        ]
        rows.append(connection, job.payload["origin_id"], now_ms, events)

    def seal_report(self, job: Job, run: Run) -> Sealing:
        """Append every decision with its score, the ranking and the end."""
        captured = {"pack_id": run.pack.pack_id, "content_hash": run.pack.content_hash}

        def sealed(connection: Connection, anchor: Anchor, now_ms: int) -> None:
            self.report_events(connection, job, [("STATUS_CHANGED", "", {"status": "sealed"} | captured)], now_ms)
            for batch in in_batches(run_events(run)):
                rows.append(connection, job.payload["origin_id"], now_ms, batch, packed=True)
            _finalize(connection, job, run, anchor, now_ms)

        return sealed

    def record_failure(self, connection: Connection, job: Job, cause: str, now_ms: int) -> None:
        note_failure(connection, job, cause, now_ms)
