"""The event logs of competitions, read in parts: by their length, which only grows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from clvlab.answers.competitions import CompetitionEvent
from clvlab.application.competitions.status import CompetitionStatus, require
from clvlab.application.events import EventKind
from clvlab.proof.anchor import AnchorStatus
from clvlab.store import competitions as rows
from clvlab.store.database import Connection, Database

_FINAL = (CompetitionStatus.FINALIZED, CompetitionStatus.COMPLETED)


@dataclass(frozen=True, slots=True)
class LogEnd:
    """What a log had from some place on, all of it seen at one moment.

    Attributes
    ----------
    entries
        From that place on, up to a bound.
    length
        Of the whole log.
    complete
        Nothing can follow: the competition is finalized or completed, and its anchor is not pending.
    """

    entries: list[CompetitionEvent]
    length: int
    complete: bool


@dataclass(frozen=True)
class EventLog:
    """What is read of the logs of competitions, whose entries are numbered from 0, without gaps."""

    database: Database

    def length(self, competition_id: str) -> int:
        """Count the entries.

        Raises
        ------
        UnknownCompetitionError
        """
        with self.database.read() as connection:
            return _length(connection, competition_id)

    def part(self, competition_id: str, start: int, end: int) -> list[CompetitionEvent]:
        """Return the entries from ``start`` to before ``end`` that there are, in order.

        Raises
        ------
        UnknownCompetitionError
        """
        with self.database.read() as connection:
            _length(connection, competition_id)
            return _entries(connection, competition_id, start, end)

    def end(self, competition_id: str, start: int, end: int) -> LogEnd:
        """Return the entries as ``part`` does, and how far the log is.

        Raises
        ------
        UnknownCompetitionError
        """
        with self.database.read() as connection:
            row = require(rows.row(connection, competition_id), competition_id)
            complete = row["status"] in _FINAL and not _anchor_pending(connection, row)
            found = _entries(connection, competition_id, start, end) if start < row["next_seq"] else []
        return LogEnd(found, row["next_seq"], complete)


def _length(connection: Connection, competition_id: str) -> int:
    return int(require(rows.row(connection, competition_id), competition_id)["next_seq"])


def _entries(connection: Connection, competition_id: str, start: int, end: int) -> list[CompetitionEvent]:
    return cast("list[CompetitionEvent]", rows.events(connection, competition_id, start - 1, end - start))


def _anchor_pending(connection: Connection, row: Mapping[str, Any]) -> bool:
    anchored = rows.newest(connection, row["competition_id"], EventKind.PROOF_ANCHOR, row["started_seq"])
    return bool(anchored) and anchored[0]["payload"]["anchor_status"] == AnchorStatus.PENDING
