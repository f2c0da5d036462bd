"""``/replay-packs``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from clvlab.answers.packs import PackFixturesResponse, ReplayPackInfo, ReplayPackListResponse
from clvlab.application.fixtures import FixtureFilter
from clvlab.application.tables import PAGE
from clvlab_service.caching import RevalidatedRoute
from clvlab_service.deps import SAFE_INTEGER, ApplicationDep, CursorQuery
from clvlab_service.negotiation import TABLE, Form, FormDep, RowsQuery, arrow_response
from clvlab_service.openapi import problems
from clvlab_service.reading import ReadPlace

router = APIRouter(prefix="/replay-packs", tags=["packs"], route_class=RevalidatedRoute)

_UNKNOWN = "Unknown or unverified pack"


@router.get("", operation_id="listReplayPacks", responses=problems())
def packs(application: ApplicationDep) -> ReplayPackListResponse:
    """List hash-verified, allowlisted packs."""
    return application.packs.all()


@router.get(
    "/{pack_id}",
    operation_id="getReplayPack",
    responses=problems(s404=_UNKNOWN),
)
def pack(pack_id: str, application: ApplicationDep) -> ReplayPackInfo:
    """Read one pack."""
    return application.packs.info(pack_id)


@router.get(
    "/{pack_id}/fixtures",
    operation_id="listPackFixtures",
    response_model=PackFixturesResponse,
    responses=TABLE | problems(406, 422, s404=_UNKNOWN),
)
async def fixtures(
    pack_id: str,
    request: Request,
    form: FormDep,
    application: ApplicationDep,
    place: ReadPlace,
    market: Annotated[
        str | None, Query(max_length=200, description="Only fixtures with a market whose key begins so, with these markets.")
    ] = None,
    after: Annotated[
        int | None, Query(ge=-SAFE_INTEGER, le=SAFE_INTEGER, description="Announced kickoff at this time or later.")
    ] = None,
    before: Annotated[
        int | None, Query(ge=-SAFE_INTEGER, le=SAFE_INTEGER, description="Announced kickoff before this time.")
    ] = None,
    cursor: CursorQuery = None,
    limit: RowsQuery = None,
) -> PackFixturesResponse | Response:
    """List fixtures of a pack in order of their id, 100 a page: names, kickoffs, markets, and how good its ticks are."""
    wanted = FixtureFilter(market, after, before)
    if form is Form.ARROW:
        return arrow_response(request, await place.run(application.packs.fixtures_as_arrow, pack_id, wanted, cursor, limit))
    return await place.run(application.packs.fixtures, pack_id, wanted, cursor, limit or PAGE)
