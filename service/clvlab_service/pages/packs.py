"""Pages ``/replay-packs``, ``/replay-packs/{pack_id}`` and its ``/fixtures``."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from clvlab.application.application import Application
from clvlab.application.fixtures import FixtureFilter
from clvlab.application.tables import MAX_PAGE, PAGE
from clvlab_service.deps import SAFE_INTEGER, ApplicationDep, CursorQuery
from clvlab_service.pages.route import page_router
from clvlab_service.reading import ReadPlace
from clvlab_service.rendering import page

router = page_router()

_FIRST = 20
_Time = Annotated[int | None, Query(ge=-SAFE_INTEGER, le=SAFE_INTEGER)]


@router.get("/replay-packs")
def packs(request: Request, application: ApplicationDep) -> Response:
    """List the packs that can be replayed."""
    return page(request, "packs.html", {"packs": application.packs.all()["packs"]})


@router.get("/replay-packs/{pack_id}")
async def pack(pack_id: str, request: Request, application: ApplicationDep, place: ReadPlace) -> Response:
    """Show a pack, and its first fixtures."""
    return await place.run(_pack, pack_id, request, application)


def _pack(pack_id: str, request: Request, application: Application) -> Response:
    info = application.packs.info(pack_id)
    found = application.packs.fixtures(pack_id, FixtureFilter(), None, _FIRST)
    return page(request, "pack.html", {"info": info, "found": found})


@router.get("/replay-packs/{pack_id}/fixtures")
async def fixtures(
    pack_id: str,
    request: Request,
    application: ApplicationDep,
    place: ReadPlace,
    market: Annotated[str | None, Query(max_length=200)] = None,
    after: _Time = None,
    before: _Time = None,
    cursor: CursorQuery = None,
    limit: Annotated[int | None, Query(ge=1, le=MAX_PAGE)] = None,
) -> Response:
    """List the fixtures of a pack."""
    return await place.run(_fixtures, pack_id, request, application, FixtureFilter(market, after, before), cursor, limit)


def _fixtures(
    pack_id: str,
    request: Request,
    application: Application,
    wanted: FixtureFilter,
    cursor: str | None,
    limit: int | None,
) -> Response:
    found = application.packs.fixtures(pack_id, wanted, cursor, limit or PAGE)
    asked = {"market": wanted.market, "after": wanted.after, "before": wanted.before, "limit": limit}
    return page(request, "fixtures.html", {"found": found, "wanted": asked, "cursor": cursor})
