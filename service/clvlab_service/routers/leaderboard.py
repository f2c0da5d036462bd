"""``/leaderboard``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from clvlab.answers.leaderboard import LeaderboardResponse
from clvlab_service.deps import SAFE_INTEGER, ApplicationDep
from clvlab_service.openapi import problems

router = APIRouter(prefix="/leaderboard", tags=["leaderboard"])


@router.get("", operation_id="getLeaderboard", responses=problems(422))
def leaderboard(
    application: ApplicationDep,
    after_rank: Annotated[int, Query(ge=0, le=SAFE_INTEGER, description="Rank of the last row of the page before.")] = 0,
    limit: Annotated[int | None, Query(ge=1, le=1000, description="Rows of a page; without it, all are answered.")] = None,
) -> LeaderboardResponse:
    """Rank agents over all sealed runs, by recomputed CLV alone."""
    return application.leaderboard.rows(after_rank, limit)
