"""Competitions: bind, register, start, read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from clvlab.answers.answer import ignored, pick
from clvlab.answers.competitions import (
    AgentErrorCause,
    AgentRegisterResponse,
    CompetitionCreateResponse,
    CompetitionEvent,
    CompetitionLeaderboardRow,
    CompetitionStateResponse,
    CompetitionStatusResponse,
    CompetitionSummaryResponse,
    RosterEntry,
)
from clvlab.application.caps import Caps
from clvlab.application.competitions.job import replay_binding
from clvlab.application.competitions.listing import CompetitionFilter, newest, summaries
from clvlab.application.competitions.registration import Registration
from clvlab.application.competitions.requests import AgentEntry, CompetitionConfig
from clvlab.application.competitions.starting import Starting
from clvlab.application.competitions.status import MUTABLE, CompetitionStatus, require, require_owned
from clvlab.application.events import EventKind
from clvlab.application.live.feed import NO_FEED
from clvlab.application.runs.binding import bind
from clvlab.errors import (
    BindingError,
    NotDeletableError,
    PackError,
    TransitionError,
)
from clvlab.law.schema import SAFE_INTEGER
from clvlab.store import competitions as rows
from clvlab.store import runs

_SHOWN_RECEIPTS = 1000  # a state stays small; the run has them all


@dataclass(frozen=True)
class Competitions(Starting):
    """Use cases of competitions; every answer is JSON values under the interface's field names."""

    caps: Caps

    def create(self, owner: str, config: CompetitionConfig, competition_id: str | None = None) -> CompetitionCreateResponse:
        """Create a draft; with a ``pack_id`` its replay binding is frozen now.

        Parameters
        ----------
        owner
            Principal of the verified token; the only source of ownership.
        config
            What is asked for.
        competition_id
            A new one by default; creating one that is there changes nothing.

        Raises
        ------
        BindingError
            Unknown pack, a fixture that it does not declare, or a fixture without a pack.
        OwnerLimitError
        """
        competition_id = competition_id or "comp_" + self.new_id()
        values = {
            "competition_id": competition_id,
            "owner": owner,
            "status": CompetitionStatus.DRAFT,
            "config": config.model_dump(mode="json"),
            "roster_size": config.roster_size,
            "created_ts_ms": self.clock(),
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
            return {}
        try:
            return bind(self.catalog.seen_by(owner), config.pack_id, config.fixture_id).payload()
        except PackError as error:
            raise BindingError(f"the replay binding can't be resolved: {error}") from error

    def all(self, status: CompetitionStatus | None = None) -> list[CompetitionSummaryResponse]:
        """List competitions, oldest first; of one status, or of every."""
        return self.page(CompetitionFilter(status))[0]

    def page(
        self, wanted: CompetitionFilter, cursor: str | None = None, limit: int | None = None, until: str | None = None
    ) -> tuple[list[CompetitionSummaryResponse], str | None]:
        """List competitions, oldest first, and the cursor of the next page or None; without a ``limit`` all of them.

        ``cursor`` and ``until`` name the last competition before the list, and the last of it.

        Raises
        ------
        PageError
            A cursor that no page gave, or a limit outside 1..200.
        """
        with self.database.read() as connection:
            return summaries(connection, wanted, cursor, limit, until)

    def newest(self, wanted: CompetitionFilter) -> str | None:
        """Return the cursor of the last competition of a list, to end it there; null of an empty one."""
        with self.database.read() as connection:
            return newest(connection, wanted)

    def state(self, competition_id: str) -> CompetitionStateResponse:
        """Return a competition whole.

        Raises
        ------
        UnknownCompetitionError
        """
        with self.database.read() as connection:
            row = require(rows.row(connection, competition_id), competition_id)
            since = -1 if row["started_seq"] is None else row["started_seq"]
            scored = rows.newest(connection, competition_id, EventKind.SCORE_UPDATE, since)
            anchored = rows.newest(connection, competition_id, EventKind.PROOF_ANCHOR, since)
            agents = rows.roster_of(connection, competition_id)
        run_id = row["run_id"]
        return {
            "competition_id": competition_id,
            "status": row["status"],
            "config": row["config"],
            "roster": [pick(RosterEntry, agent) for agent in agents],
            "leaderboard": [pick(CompetitionLeaderboardRow, update["payload"]) for update in reversed(scored)],
            "latest_seq": max(row["next_seq"] - 1, 0),
            "anchor_status": anchored[0]["payload"]["anchor_status"] if anchored else "not_anchored",
            "run_id": run_id,
            "proof_card": self.runs.card(run_id) if run_id else None,
            "execution": self.runs.receipts(run_id, _SHOWN_RECEIPTS) if run_id else None,
            "replay_binding": replay_binding(row),
            "cause": row["cause"] or self._unstartable(row),
        }

    def _unstartable(self, row: Mapping[str, Any]) -> str | None:
        """Say of a live competition that it can't start as things are."""
        waits = row["status"] in MUTABLE and row["config"]["source_mode"] == "live" and self.runner.live.settings is None
        return NO_FEED if waits else None

    def register(self, caller: str, competition_id: str, entry: AgentEntry) -> AgentRegisterResponse:
        """Put an agent on the roster and pin its config.

        Raises
        ------
        UnknownCompetitionError, NotOwnerError, RosterFrozenError, AlreadyRegisteredError, RosterFullError
            In this order.
        UnknownInstanceError
            ``instance_id`` is absent or has no owner.
        NotOwnerError
            ``instance_id`` belongs to another principal.
        EntryError
            Unrecognized ``proof_mode``, unknown strategy, a bad value of a known parameter, an instance of another strategy,
            a config that is not that of the instance, or a transcript about what the bound fixture does not have.
        """
        return Registration(self.database, self.catalog.seen_by(caller)).add(caller, competition_id, entry)

    def withdraw(self, caller: str, competition_id: str, agent_id: str) -> None:
        """Take an agent off the roster: its place is free again, and the others keep their order.

        Raises
        ------
        UnknownCompetitionError, NotOwnerError, RosterFrozenError, UnknownEntryError
            In this order.
        """
        Registration(self.database, self.catalog.seen_by(caller)).withdraw(caller, competition_id, agent_id)

    def delete(self, caller: str, competition_id: str) -> None:
        """Delete a competition, and its roster; one that was ever started stays, as its log is public record.

        Raises
        ------
        UnknownCompetitionError, NotOwnerError
        NotDeletableError
            It has events.
        """
        with self.database.write() as connection:
            row = require_owned(rows.row(connection, competition_id, lock=True), competition_id, caller)
            if row["next_seq"]:
                detail = f"competition {competition_id} was started, and its log is public record: it can't be deleted"
                raise NotDeletableError("has_events", detail)
            rows.remove(connection, competition_id)

    def open(self, caller: str, competition_id: str) -> CompetitionStatusResponse:
        """Go from ``draft`` to ``open``.

        Raises
        ------
        UnknownCompetitionError, NotOwnerError, TransitionError
        """
        return self._step(caller, competition_id, CompetitionStatus.DRAFT, CompetitionStatus.OPEN)

    def complete(self, caller: str, competition_id: str) -> CompetitionStatusResponse:
        """Go from ``finalized`` to ``completed``.

        Raises
        ------
        UnknownCompetitionError, NotOwnerError, TransitionError
        """
        return self._step(caller, competition_id, CompetitionStatus.FINALIZED, CompetitionStatus.COMPLETED)

    def _step(
        self, caller: str, competition_id: str, start: CompetitionStatus, end: CompetitionStatus
    ) -> CompetitionStatusResponse:
        with self.database.write() as connection:
            row = require_owned(rows.row(connection, competition_id, lock=True), competition_id, caller)
            if row["status"] != start:
                raise TransitionError(f"competition {competition_id} is {row['status']}, and only a {start} one becomes {end}")
            rows.change(connection, competition_id, status=end)
        return pick(CompetitionStatusResponse, {"competition_id": competition_id, "status": end.value})

    def events(self, competition_id: str, since_seq: int = 0, limit: int | None = None) -> list[CompetitionEvent]:
        """Return the log after ``since_seq`` (exclusive; -1 is all of it), ascending by ``seq``.

        Raises
        ------
        UnknownCompetitionError
        """
        with self.database.read() as connection:
            require(rows.row(connection, competition_id), competition_id)
            found = rows.events(connection, competition_id, min(since_seq, SAFE_INTEGER), limit)
        return cast("list[CompetitionEvent]", found)

    def agent_errors(self, caller: str, competition_id: str) -> list[AgentErrorCause]:
        """Return why agents failed in the sealed run, by agent id; none before there is one.

        Raises
        ------
        UnknownCompetitionError, NotOwnerError
        """
        with self.database.read() as connection:
            row = require_owned(rows.row(connection, competition_id), competition_id, caller)
            found = [] if row["run_id"] is None else runs.agent_errors_of(connection, row["run_id"])
        return [pick(AgentErrorCause, error) for error in found]
