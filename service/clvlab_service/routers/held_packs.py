"""``/arena/held-packs``."""

from __future__ import annotations

from fastapi import APIRouter, Response

from clvlab.api.seats import HeldFixtures, HeldPackList
from clvlab_service.deps import ApplicationDep
from clvlab_service.negotiation import RevalidatedRoute
from clvlab_service.openapi import problems

router = APIRouter(prefix="/arena/held-packs", tags=["seats"], route_class=RevalidatedRoute)


@router.get("", operation_id="listHeldPacks")
def held_packs(application: ApplicationDep) -> HeldPackList:
    """List the packs that are or were held back for seats, oldest first. Rows have hashes and counts, without names."""
    return application.seats.held.all()


@router.get(
    "/{pack_id}/fixtures",
    operation_id="listHeldFixtures",
    response_model=HeldFixtures,
    responses=problems(s404="No pack of this id is held back", s409="The list is not opened yet"),
)
def held_fixtures(pack_id: str, application: ApplicationDep) -> Response:
    """Read the salted list of a pack's fixtures once it is opened. The SHA-256 of these bytes is in the run log."""
    return Response(application.seats.held.fixture_list(pack_id), media_type="application/json")
