"""``/leaderboard``."""

from __future__ import annotations

import hashlib
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import AfterValidator

from clvlab.answers.leaderboard import LeaderboardResponse
from clvlab.application.leaderboard import CAUSALITIES, KNOWLEDGE, Wanted
from clvlab_service.caching import RevalidatedRoute, is_kept
from clvlab_service.deps import SAFE_INTEGER, ApplicationDep
from clvlab_service.openapi import problems

router = APIRouter(prefix="/leaderboard", tags=["leaderboard"])


def _one_of(*values: str) -> AfterValidator:
    """Refuse another value by its name, with those that there are."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in values:
            raise ValueError(f"{value!r:.200} is none of {', '.join(values)}")
        return value

    return AfterValidator(check)


@router.get("", operation_id="getLeaderboard", response_model=LeaderboardResponse, responses=problems(422))
def leaderboard(
    request: Request,
    response: Response,
    application: ApplicationDep,
    after_rank: Annotated[int, Query(ge=0, le=SAFE_INTEGER, description="Rank of the last row of the page before.")] = 0,
    limit: Annotated[int | None, Query(ge=1, le=1000, description="Rows of a page; without it, all are answered.")] = None,
    causality: Annotated[
        str | None, _one_of(*CAUSALITIES), Query(description=f"Only rows that decided so: {', '.join(CAUSALITIES)}.")
    ] = None,
    knowledge: Annotated[
        str | None, _one_of(*KNOWLEDGE), Query(description=f"Only rows of which this was known: {', '.join(KNOWLEDGE)}.")
    ] = None,
    *,
    grouped: Annotated[bool, Query(description="Of an owner's rows with the same decisions, only the first.")] = False,
) -> LeaderboardResponse | Response:
    """Rank agents over all sealed runs, by recomputed CLV alone; of some of them, among themselves."""
    # Read before the rows: those may be newer than the tag, and are then asked for again, but never older.
    seen = f"{application.leaderboard.revision()}\n{request.url.query}"
    headers = {"ETag": f'W/"{hashlib.sha256(seen.encode()).hexdigest()[:32]}"', "Cache-Control": RevalidatedRoute.cache_control}
    if is_kept(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    response.headers.update(headers)
    return application.leaderboard.rows(after_rank, limit, Wanted(causality, knowledge, grouped))
