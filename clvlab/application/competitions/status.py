"""The statuses of a competition, and who may change one."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from clvlab.errors import NotOwnerError, NotStartableError, UnknownCompetitionError


class CompetitionStatus(StrEnum):
    """``draft`` -> ``open`` -> ``running`` -> ``finalized`` -> ``completed``; ``draft`` may start at once."""

    DRAFT = "draft"
    OPEN = "open"
    RUNNING = "running"
    FINALIZED = "finalized"
    COMPLETED = "completed"


MUTABLE = (CompetitionStatus.DRAFT, CompetitionStatus.OPEN)


def require(row: Mapping[str, Any] | None, competition_id: str) -> Mapping[str, Any]:
    """Return the row of a competition that is there.

    Raises
    ------
    UnknownCompetitionError
    """
    if row is None:
        raise UnknownCompetitionError(f"unknown competition {competition_id!r}")
    return row


def require_owned(row: Mapping[str, Any] | None, competition_id: str, caller: str) -> Mapping[str, Any]:
    """Return the row of a competition that is there and belongs to the caller.

    Raises
    ------
    UnknownCompetitionError, NotOwnerError
    """
    found = require(row, competition_id)
    if found["owner"] != caller:
        raise NotOwnerError(f"competition {competition_id} belongs to another principal")
    return found


def require_startable(row: Mapping[str, Any]) -> None:
    """Refuse a competition whose status lets it not start.

    Raises
    ------
    NotStartableError
    """
    if row["status"] not in MUTABLE:
        raise NotStartableError("not_startable", f"competition {row['competition_id']} is {row['status']} and can't start")
