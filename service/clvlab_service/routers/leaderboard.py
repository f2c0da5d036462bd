"""``/leaderboard``."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from clvlab_service.deps import ApplicationDep
from clvlab_service.openapi import problems
from clvlab_service.schemas.leaderboard import LeaderboardResponse

__all__ = ["router"]

router = APIRouter(prefix="/leaderboard", tags=["leaderboard"])


@router.get("", operation_id="getLeaderboard", response_model=LeaderboardResponse, responses=problems())
def leaderboard(application: ApplicationDep) -> dict[str, Any]:
    """Rank agents over all sealed runs, by recomputed CLV alone."""
    return application.leaderboard.rows()
