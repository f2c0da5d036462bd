"""``/arena/competitions``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Request, Response

from clvlab.api.seat_competitions import SeatCompetitionInfo, SeatCompetitionListResponse
from clvlab.arena.pages import PAGE
from clvlab.arena.seats.requests import SeatCompetitionRequest
from clvlab_service.deps import (
    CREATED,
    ApplicationDep,
    AuthenticatedRoute,
    CurrentPrincipal,
    CursorQuery,
    PageSizeQuery,
)
from clvlab_service.negotiation import LIST, link_next, path_here
from clvlab_service.openapi import problems

router = APIRouter(prefix="/arena/competitions", tags=["seats"])
owned = APIRouter(prefix="/arena/competitions", tags=["seats"], route_class=AuthenticatedRoute)

_UNKNOWN = "Unknown competition of seats"
_EXAMPLE = {"name": "Underdogs of spring", "pack_id": "starter", "fixture_ids": "all", "blind": "aliased"}


@owned.post(
    "",
    operation_id="createSeatCompetition",
    status_code=201,
    responses=CREATED
    | problems(
        401, 413, 422, 429, s400="Its end is in the past, or the body can't be read", s404="Unknown pack of the catalog"
    ),
)
def create(
    request: Request,
    response: Response,
    principal: CurrentPrincipal,
    body: Annotated[SeatCompetitionRequest, Body(examples=[_EXAMPLE])],
    application: ApplicationDep,
) -> SeatCompetitionInfo:
    """Open a competition of seats. Any owner can take seats in it by its id, and its rules apply to all seats.

    It uses a pack of the catalog. If something is hidden, the fixtures are the whole pack, or one that each seat's secret
    draws; a request cannot choose them.
    """
    created = application.seat_competitions.create(principal, body)
    response.headers["Location"] = path_here(request, f"/arena/competitions/{created['competition_id']}")
    return created


@router.get("", operation_id="listSeatCompetitions", responses=LIST | problems(422))
def competitions(
    request: Request,
    response: Response,
    application: ApplicationDep,
    cursor: CursorQuery = None,
    limit: PageSizeQuery = PAGE,
) -> SeatCompetitionListResponse:
    """List competitions of seats, newest first. Each page names the next one in the header `Link`."""
    found = application.seat_competitions.page(cursor, limit)
    link_next(request, response, cursor=found["next_cursor"])
    return found


@router.get("/{competition_id}", operation_id="getSeatCompetition", responses=problems(s404=_UNKNOWN))
def competition(competition_id: str, application: ApplicationDep) -> SeatCompetitionInfo:
    """Read a competition of seats: its rules, its entrants by rank, and all seats of their owners.

    Only sealed seats have results. A playing seat shows the number of its answered ticks. It shows the number of all ticks
    only if nothing is hidden.
    """
    return application.seat_competitions.get(competition_id)


@owned.post(
    "/{competition_id}/close",
    operation_id="closeSeatCompetition",
    responses=problems(401, 403, s404=_UNKNOWN, s409="It is already closed"),
)
def close(competition_id: str, principal: CurrentPrincipal, application: ApplicationDep) -> SeatCompetitionInfo:
    """Close a competition of seats. Nobody can take a new seat afterwards; playing seats continue."""
    return application.seat_competitions.close(principal, competition_id)
