"""``/leaderboard``."""

from __future__ import annotations

from fastapi import APIRouter

from clvlab.answers.leaderboard import LeaderboardResponse
from clvlab_service.deps import ApplicationDep
from clvlab_service.openapi import problems

router = APIRouter(prefix="/leaderboard", tags=["leaderboard"])


@router.get("", operation_id="getLeaderboard", responses=problems())
def leaderboard(application: ApplicationDep) -> LeaderboardResponse:
    """Rank agents over all sealed runs, by recomputed CLV alone."""
    return application.leaderboard.rows()
