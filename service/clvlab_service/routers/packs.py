"""``/replay-packs``."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from clvlab_service.caching import RevalidatedRoute
from clvlab_service.deps import ApplicationDep
from clvlab_service.openapi import problems
from clvlab_service.schemas.packs import ReplayPackInfo, ReplayPackListResponse

__all__ = ["router"]

router = APIRouter(prefix="/replay-packs", tags=["packs"], route_class=RevalidatedRoute)


@router.get("", operation_id="listReplayPacks", response_model=ReplayPackListResponse, responses=problems())
def packs(application: ApplicationDep) -> dict[str, Any]:
    """List hash-verified, allowlisted packs."""
    return application.packs.all()


@router.get(
    "/{pack_id}",
    operation_id="getReplayPack",
    response_model=ReplayPackInfo,
    responses=problems(s404="Unknown or unverified pack"),
)
def pack(pack_id: str, application: ApplicationDep) -> dict[str, Any]:
    """Read one pack."""
    return application.packs.info(pack_id)
