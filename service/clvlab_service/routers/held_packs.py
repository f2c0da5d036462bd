"""``/arena/held-packs``."""

from __future__ import annotations

from fastapi import APIRouter, Response

from clvlab.api.seats import HeldPackInfo, HeldPackList
from clvlab_service.deps import ApplicationDep
from clvlab_service.negotiation import Responses, RevalidatedRoute
from clvlab_service.openapi import problems

router = APIRouter(prefix="/arena/held-packs", tags=["seats"], route_class=RevalidatedRoute)

_LIST: Responses = {200: {"content": {"application/json": {"schema": {"type": "object"}}}}}
_UNKNOWN = "No pack of this id is held back"


@router.get("", operation_id="listHeldPacks")
def held_packs(application: ApplicationDep) -> HeldPackList:
    """List the packs that are or were held back for seats, oldest first, by their hashes and numbers alone."""
    return application.seats.held.all()


@router.get("/{pack_id}", operation_id="getHeldPack", responses=problems(s404=_UNKNOWN))
def held_pack(pack_id: str, application: ApplicationDep) -> HeldPackInfo:
    """Read what is public about a pack that is or was held back."""
    return application.seats.held.info(pack_id)


@router.get(
    "/{pack_id}/fixtures",
    operation_id="listHeldFixtures",
    response_class=Response,
    responses=_LIST | problems(s404=_UNKNOWN, s409="The list is not opened yet"),
)
def held_fixtures(pack_id: str, application: ApplicationDep) -> Response:
    """Read the salted list of a pack's fixtures once it is opened. The SHA-256 of these bytes is in the run log."""
    return Response(application.seats.held.fixture_list(pack_id), media_type="application/json")
