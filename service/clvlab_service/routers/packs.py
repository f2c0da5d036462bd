"""``/replay-packs``."""

from __future__ import annotations

from fastapi import APIRouter

from clvlab.answers.packs import ReplayPackInfo, ReplayPackListResponse
from clvlab_service.caching import RevalidatedRoute
from clvlab_service.deps import ApplicationDep
from clvlab_service.openapi import problems

router = APIRouter(prefix="/replay-packs", tags=["packs"], route_class=RevalidatedRoute)


@router.get("", operation_id="listReplayPacks", responses=problems())
def packs(application: ApplicationDep) -> ReplayPackListResponse:
    """List hash-verified, allowlisted packs."""
    return application.packs.all()


@router.get(
    "/{pack_id}",
    operation_id="getReplayPack",
    responses=problems(s404="Unknown or unverified pack"),
)
def pack(pack_id: str, application: ApplicationDep) -> ReplayPackInfo:
    """Read one pack."""
    return application.packs.info(pack_id)
