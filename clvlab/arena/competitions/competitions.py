"""Competitions: bind, register, start, read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from clvlab.api.answer import ignored, pick
from clvlab.api.competitions import (
    AgentErrorCause,
    AgentRegisterResponse,
    CompetitionCreateResponse,
    CompetitionEvent,
    CompetitionLeaderboardRow,
    CompetitionStartResponse,
    CompetitionStateResponse,
    CompetitionStatusResponse,
    CompetitionSummaryResponse,
)
from clvlab.arena.caps import Caps
from clvlab.arena.competitions.job import CompetitionStarts, replay_binding
from clvlab.arena.competitions.requests import (
    MUTABLE,
    AgentEntry,
    CompetitionConfig,
    CompetitionStatus,
    require,
    require_owned,
    require_startable,
)
from clvlab.arena.competitions.roster import Registration
from clvlab.arena.events import EventKind
from clvlab.arena.jobs import CANCELLED, Jobs, until_over
from clvlab.arena.pages import PAGE, page_of
from clvlab.arena.runs.binding import bind
from clvlab.arena.runs.runs import StoredRuns
from clvlab.arena.uploads.packs import Packs
from clvlab.errors import (
    BindingError,
    NotDeletableError,
    PackError,
    TransitionError,
)
from clvlab.law.schema import SAFE_INTEGER
from clvlab.runs.live.feed import NO_FEED
from clvlab.store import competitions as rows
from clvlab.store import runs
from clvlab.store.competitions import CompetitionRow
from clvlab.store.database import Database
from clvlab.store.tables import competitions

# Filters and pages of a list of competitions.


@dataclass(frozen=True, slots=True)
class CompetitionFilter:
    """Filters of a list of competitions; ``None`` is no filter, and ``owner`` is the DID of a principal."""

    status: CompetitionStatus | None = None
    owner: str | None = None
    pack_id: str | None = None


# The start of a competition: one caller claims it; others can wait for it or cancel it.


@dataclass(frozen=True)
class CompetitionLaunch:
    database: Database
    catalog: Packs
    jobs: Jobs
    runs: StoredRuns
    runner: CompetitionStarts
    clock: Callable[[], int]
    new_id: Callable[[], str]

    def start(self, caller: str, competition_id: str) -> CompetitionStartResponse:
        """Run the competition and seal it; return when it is finalized. Blocks.

        Raises
        ------
        RunFailedError
            The run failed; the claim is released and the cause recorded.
        """
        return self.settled_response(competition_id, self.claim(caller, competition_id, at_once=True))

    def claim(self, caller: str, competition_id: str, *, at_once: bool = False) -> str:
        """Claim the start, queue the run and return its id; only one of concurrent callers succeeds.

        With ``at_once`` the run of a replay begins in the same transaction, and the caller settles it next.

        Raises
        ------
        NotStartableError
            ``reason`` is ``not_startable`` (running, finalized or completed), ``roster_empty``, ``no_live_feed``,
            ``fixture_not_on_feed``, ``no_quota``, ``entry_unusable`` (this version can't make an agent, or it does not fit the
            fixture bound now), ``binding_missing`` (no pack, and not exactly one verified in the catalog) or
            ``binding_changed`` (pack missing or changed since it was bound).
        """
        row = self.check_startable(caller, competition_id)
        fixture = self.runner.fixture(row)
        with self.database.write() as connection:
            row = require_owned(rows.row(connection, competition_id, lock=True), competition_id, caller)
            run_id, job = self.runner.claim(connection, row, fixture, self.jobs.lease(at_once=at_once))
        self.jobs.expect(job)
        return run_id

    def is_live(self, competition_id: str) -> bool:
        """Whether a competition follows a feed, so that no request waits for its run."""
        with self.database.read() as connection:
            row = require(rows.row(connection, competition_id), competition_id)
        return row["config"]["source_mode"] == "live"

    def check_startable(self, caller: str, competition_id: str) -> CompetitionRow:
        """Refuse a start that the competition's row or a limit of its owner does not allow; nothing changes."""
        with self.database.read() as connection:
            row = require_owned(rows.row(connection, competition_id), competition_id, caller)
            require_startable(row)
            self.runner.require_room(connection, row)
        return row

    def settled_response(self, competition_id: str, run_id: str) -> CompetitionStartResponse:
        """Wait until a claimed run is over; perform it here if no other worker does. Blocks."""
        self.jobs.require_sealed(run_id)
        return self.start_response(competition_id)

    def start_response(self, competition_id: str) -> CompetitionStartResponse:
        with self.database.read() as connection:
            row = require(rows.row(connection, competition_id), competition_id)
        return pick(CompetitionStartResponse, {**row, "replay_binding": replay_binding(row)})

    def cancel(self, caller: str, competition_id: str) -> CompetitionStatusResponse:
        """Cancel the run of a running competition; the competition returns to its status before the start."""
        with self.database.read() as connection:
            row = require_owned(rows.row(connection, competition_id), competition_id, caller)
            running = rows.newest(connection, competition_id, EventKind.COMPETITION_STARTED)
        if row["status"] != CompetitionStatus.RUNNING or not self.jobs.cancel(str(running[0]["run_id"]), CANCELLED):
            status = self.start_response(competition_id)["status"]
            raise TransitionError(f"competition {competition_id} is {status}: there is nothing to cancel")
        return pick(CompetitionStatusResponse, self.start_response(competition_id))

    def settle(self, competition_id: str) -> None:
        """Wait until a competition is no longer running; ``RunFailedError`` if its run failed."""
        with self.database.read() as connection:
            require(rows.row(connection, competition_id), competition_id)
            started = rows.newest(connection, competition_id, EventKind.COMPETITION_STARTED)
        if started:
            self.jobs.require_sealed(str(started[0]["run_id"]))


_MAX_RECEIPTS = 1000  # keeps a state small; the run itself has all receipts


@dataclass(frozen=True)
class Competitions(CompetitionLaunch):
    caps: Caps

    def create(self, owner: str, config: CompetitionConfig, competition_id: str | None = None) -> CompetitionCreateResponse:
        """Create a draft; a ``pack_id`` freezes its replay binding now. With an existing ``competition_id`` nothing changes.

        ``owner``, the principal of the verified token, is the only source of ownership.
        """
        with self.database.read() as connection:  # a refused draft opens no pack
            self.caps.require_draft(connection, owner)
        competition_id, now = competition_id or "comp_" + self.new_id(), self.clock()
        values = {
            "competition_id": competition_id,
            "owner": owner,
            "status": CompetitionStatus.DRAFT,
            "config": config.snapshot(),
            "roster_size": config.roster_size,
            "created_ts_ms": now,
            "updated_ts_ms": now,
            **self._frozen(owner, config),
        }
        with self.database.write() as connection:
            self.caps.require_draft(connection, owner)
            rows.add(connection, values)
        return {"competition_id": competition_id, "status": "draft", **ignored(config.ignored)}

    def _frozen(self, owner: str, config: CompetitionConfig) -> Mapping[str, Any]:
        if config.source_mode == "live":
            if config.pack_id is not None:
                raise BindingError(f"a live competition follows the feed, and replays no pack: leave {config.pack_id!r} out")
            return {}
        if config.pack_id is None:
            if config.fixture_id is not None:
                raise BindingError(f"fixture_id {config.fixture_id} needs the pack_id that it belongs to")
            if config.fixture_ids not in (None, "all"):
                raise BindingError(f"fixture_ids {config.fixture_ids!s:.80} need the pack_id that they belong to")
            return {}
        try:
            return bind(self.catalog.seen_by(owner), config.pack_id, config.fixture_id, config.fixture_ids).payload()
        except PackError as error:
            raise BindingError(f"the replay binding can't be resolved: {error}") from error

    def page(
        self, wanted: CompetitionFilter | None = None, cursor: str | None = None, limit: int = PAGE
    ) -> tuple[list[CompetitionSummaryResponse], str | None]:
        """List competitions, newest first, and the cursor of the next page or None."""
        with self.database.read() as connection:
            conditions = rows.having(**asdict(wanted or CompetitionFilter()))
            return page_of(connection, competitions, CompetitionSummaryResponse, "competition_id", cursor, limit, conditions)

    def state(self, competition_id: str) -> CompetitionStateResponse:
        with self.database.read() as connection:
            row = require(rows.row(connection, competition_id), competition_id)
            scored = rows.newest(connection, competition_id, EventKind.SCORE_UPDATE, row["started_seq"])
            anchored = rows.newest(connection, competition_id, EventKind.PROOF_ANCHOR, row["started_seq"])
            agents = rows.roster_of(connection, competition_id)
        run_id = row["run_id"]
        return {
            **pick(CompetitionSummaryResponse, row),
            "roster": agents,
            "leaderboard": [pick(CompetitionLeaderboardRow, update["payload"]) for update in reversed(scored)],
            "latest_seq": max(row["next_seq"] - 1, 0),
            "anchor_status": anchored[0]["payload"]["anchor_status"] if anchored else "not_anchored",
            "proof_card": self.runs.card(run_id) if run_id else None,
            "execution": self.runs.receipts(run_id, _MAX_RECEIPTS) if run_id else None,
            "replay_binding": replay_binding(row),
            "cause": row["cause"] or self._unstartable(row),
        }

    def _unstartable(self, row: CompetitionRow) -> str | None:
        """Return the reason why a live competition can't start at present."""
        waits = row["status"] in MUTABLE and row["config"]["source_mode"] == "live" and self.runner.live.settings is None
        return NO_FEED if waits else None

    def register(self, caller: str, competition_id: str, entry: AgentEntry) -> AgentRegisterResponse:
        """Put an agent on the roster and pin its config.

        Raises
        ------
        UnknownCompetitionError, NotOwnerError, RosterFrozenError, AlreadyRegisteredError, RosterFullError
            In this order.
        UnknownInstanceError
            ``instance_id`` does not exist or has no owner.
        NotOwnerError
            ``instance_id`` belongs to another principal.
        EntryError
            ``proof_mode`` or strategy is unknown, a known parameter has a bad value, the instance has another strategy or
            config, or a transcript names things that the bound fixture does not have.
        """
        return Registration(self.database, self.catalog.seen_by(caller), self.clock).add(caller, competition_id, entry)

    def withdraw(self, caller: str, competition_id: str, agent_id: str) -> None:
        """Remove an agent from the roster; its place is free again, and the others keep their order."""
        Registration(self.database, self.catalog.seen_by(caller), self.clock).withdraw(caller, competition_id, agent_id)

    def delete(self, caller: str, competition_id: str) -> None:
        """Delete a competition and its roster. A competition that was ever started stays, because its log is public record."""
        with self.database.write() as connection:
            row = require_owned(rows.row(connection, competition_id, lock=True), competition_id, caller)
            if row["next_seq"]:
                detail = f"competition {competition_id} was started, and its log is public record: it can't be deleted"
                raise NotDeletableError("has_events", detail)
            rows.remove(connection, competition_id)

    def open(self, caller: str, competition_id: str) -> CompetitionStatusResponse:
        return self._step(caller, competition_id, CompetitionStatus.DRAFT, CompetitionStatus.OPEN)

    def complete(self, caller: str, competition_id: str) -> CompetitionStatusResponse:
        return self._step(caller, competition_id, CompetitionStatus.FINALIZED, CompetitionStatus.COMPLETED)

    def _step(
        self, caller: str, competition_id: str, start: CompetitionStatus, end: CompetitionStatus
    ) -> CompetitionStatusResponse:
        with self.database.write() as connection:
            row = require_owned(rows.row(connection, competition_id, lock=True), competition_id, caller)
            if row["status"] != start:
                error = TransitionError(
                    f"competition {competition_id} is {row['status']}, and only a {start} one becomes {end}"
                )
                raise until_over(error) if row["status"] == CompetitionStatus.RUNNING else error
            rows.change(connection, competition_id, status=end, updated_ts_ms=self.clock())
        return pick(CompetitionStatusResponse, {"competition_id": competition_id, "status": end.value})

    def events(self, competition_id: str, since_seq: int = 0, limit: int | None = None) -> list[CompetitionEvent]:
        """Return the log after ``since_seq`` (exclusive; -1 is all of it), ascending by ``seq``."""
        with self.database.read() as connection:
            require(rows.row(connection, competition_id), competition_id)
            return rows.events(connection, competition_id, min(since_seq, SAFE_INTEGER), limit)

    def agent_errors(self, caller: str, competition_id: str) -> list[AgentErrorCause]:
        with self.database.read() as connection:
            row = require_owned(rows.row(connection, competition_id), competition_id, caller)
            return [] if row["run_id"] is None else runs.agent_errors_of(connection, row["run_id"])
