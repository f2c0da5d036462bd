"""The start of a competition: claimed by one caller, waited for, cancelled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clvlab.answers.answer import pick
from clvlab.answers.competitions import CompetitionStartResponse, CompetitionStatusResponse
from clvlab.application.competitions.job import CompetitionRuns, replay_binding
from clvlab.application.competitions.status import CompetitionStatus, require, require_owned, require_startable
from clvlab.application.events import EventKind
from clvlab.application.jobs import CANCELLED, Jobs
from clvlab.application.runs.stored import StoredRuns
from clvlab.application.uploads.seen import Packs
from clvlab.errors import TransitionError
from clvlab.store import competitions as rows
from clvlab.store.database import Database


@dataclass(frozen=True)
class Starting:
    """Use cases of a start."""

    database: Database
    catalog: Packs
    jobs: Jobs
    runs: StoredRuns
    runner: CompetitionRuns
    clock: Callable[[], int]
    new_id: Callable[[], str]

    def start(self, caller: str, competition_id: str) -> CompetitionStartResponse:
        """Run the competition and seal it; returns when it is finalized. Blocks.

        Raises
        ------
        UnknownCompetitionError, NotOwnerError, NotStartableError
            As ``claim``.
        RunFailedError
            The run failed; the claim is released and the cause recorded.
        """
        return self.settled(competition_id, self.claim(caller, competition_id))

    def claim(self, caller: str, competition_id: str) -> str:
        """Claim the start: the competition is running, and its run queued; returns the run id. Of callers at once one gets it.

        Raises
        ------
        UnknownCompetitionError, NotOwnerError
        NotStartableError
            ``reason`` is ``not_startable`` (running, finalized or completed), ``roster_empty``, ``no_live_feed``,
            ``fixture_not_on_feed``, ``no_quota``,
            ``entry_unusable`` (an agent that this version can't make, or that the fixture does not fit which is bound now),
            ``binding_missing`` (no pack, and not exactly one verified in the catalog) or ``binding_changed`` (pack gone or
            changed since it was bound).
        """
        with self.database.read() as connection:
            row = require_owned(rows.row(connection, competition_id), competition_id, caller)
        require_startable(row)
        fixture = self.runner.fixture(row)
        with self.database.write() as connection:
            row = require_owned(rows.row(connection, competition_id, lock=True), competition_id, caller)
            return self.runner.claim(connection, row, fixture)

    def is_live(self, competition_id: str) -> bool:
        """Tell whether a competition follows a feed, so that its start is not waited for.

        Raises
        ------
        UnknownCompetitionError
        """
        with self.database.read() as connection:
            row = require(rows.row(connection, competition_id), competition_id)
        return bool(row["config"]["source_mode"] == "live")

    def check_startable(self, caller: str, competition_id: str) -> None:
        """Refuse a start that could not be claimed, for what the competition's own row says; changes nothing.

        Raises
        ------
        UnknownCompetitionError, NotOwnerError, NotStartableError
        """
        with self.database.read() as connection:
            require_startable(require_owned(rows.row(connection, competition_id), competition_id, caller))

    def settled(self, competition_id: str, run_id: str) -> CompetitionStartResponse:
        """Wait until a claimed run is over, and perform it here if nobody else does. Blocks.

        Raises
        ------
        RunFailedError, RunCancelledError
        """
        self.jobs.require_sealed(run_id)
        return self.started(competition_id)

    def started(self, competition_id: str) -> CompetitionStartResponse:
        """Return what came of the start of a competition so far.

        Raises
        ------
        UnknownCompetitionError
        """
        with self.database.read() as connection:
            row = require(rows.row(connection, competition_id), competition_id)
        return {
            "competition_id": competition_id,
            "status": row["status"],
            "run_id": row["run_id"],
            "replay_binding": replay_binding(row),
        }

    def cancel(self, caller: str, competition_id: str) -> CompetitionStatusResponse:
        """Cancel the run of a running competition, which is then what it was before its start.

        Raises
        ------
        UnknownCompetitionError, NotOwnerError
        TransitionError
            It is not running, or over by now.
        """
        with self.database.read() as connection:
            row = require_owned(rows.row(connection, competition_id), competition_id, caller)
            running = rows.newest(connection, competition_id, EventKind.COMPETITION_STARTED)
        if row["status"] != CompetitionStatus.RUNNING or not self.jobs.cancel(running[0]["run_id"], CANCELLED):
            status = self.started(competition_id)["status"]
            raise TransitionError(f"competition {competition_id} is {status}: there is nothing to cancel")
        return pick(CompetitionStatusResponse, self.started(competition_id))

    def settle(self, competition_id: str) -> None:
        """Wait until a running competition is not running any more, whoever started it.

        Raises
        ------
        UnknownCompetitionError
        RunFailedError
            Its run failed.
        """
        with self.database.read() as connection:
            require(rows.row(connection, competition_id), competition_id)
            started = rows.newest(connection, competition_id, EventKind.COMPETITION_STARTED)
        if started:
            self.jobs.require_sealed(started[0]["run_id"])
