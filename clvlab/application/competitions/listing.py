"""Which competitions a list has, and where its next page begins."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from clvlab.answers.answer import pick
from clvlab.answers.competitions import CompetitionSummaryResponse
from clvlab.application.competitions.status import CompetitionStatus
from clvlab.application.pages import MAX_PAGE, cursor_of, position_of
from clvlab.errors import PageError
from clvlab.store import competitions as rows
from clvlab.store.database import Connection

_KEY = "competition_id"


@dataclass(frozen=True, slots=True)
class CompetitionFilter:
    """What all competitions of a list have in common; null is anything.

    Attributes
    ----------
    owner
        DID of a principal.
    pack_id
        The pack that they are bound to.
    """

    status: CompetitionStatus | None = None
    owner: str | None = None
    pack_id: str | None = None


def summaries(
    connection: Connection, wanted: CompetitionFilter, cursor: str | None, limit: int | None, until: str | None = None
) -> tuple[list[CompetitionSummaryResponse], str | None]:
    """Return competitions oldest first, after a cursor and up to another, and the cursor of the next page or None.

    What is created meanwhile comes last, so a page misses nothing and repeats nothing.

    Raises
    ------
    PageError
        A cursor that no page gave, or a limit outside 1..200.
    """
    if limit is not None and not 1 <= limit <= MAX_PAGE:
        raise PageError(f"limit must be 1 to {MAX_PAGE}, not {limit}")
    bounds = position_of(cursor), position_of(until)
    found = rows.page(connection, asdict(wanted), *bounds, None if limit is None else limit + 1)
    listed = [pick(CompetitionSummaryResponse, row) for row in found[:limit]]
    return listed, cursor_of(found[len(listed) - 1], _KEY) if len(found) > len(listed) else None


def newest(connection: Connection, wanted: CompetitionFilter) -> str | None:
    """Return the cursor of the last competition of a list as it is now; null of an empty one."""
    found = rows.newest_row(connection, asdict(wanted))
    return None if found is None else cursor_of(found, _KEY)
