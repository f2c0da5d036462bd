"""``/leaderboard``."""

from __future__ import annotations

import hashlib
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import AfterValidator, TypeAdapter

from clvlab.answers.leaderboard import LeaderboardResponse
from clvlab.application.leaderboard import CAUSALITIES, KNOWLEDGE, Wanted
from clvlab.cache import BoundedCache
from clvlab_service.caching import RevalidatedRoute, is_kept
from clvlab_service.deps import SAFE_INTEGER, ApplicationDep
from clvlab_service.openapi import problems

_ANSWER = TypeAdapter(LeaderboardResponse)

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
) -> Response:
    """Rank agents over all sealed runs, by recomputed CLV alone; of some of them, among themselves."""
    wanted = Wanted(causality, knowledge, grouped)
    # Read before the rows: those may be newer than the tag, and are then asked for again, but never older.
    key = application.leaderboard.revision(), after_rank, limit, wanted
    tag = f'W/"{hashlib.sha256(repr(key).encode()).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": RevalidatedRoute.cache_control}
    if is_kept(request, tag):
        return Response(status_code=304, headers=headers)
    boards: BoundedCache[bytes] = request.app.state.boards
    body = boards.get(key, lambda: _written(application.leaderboard.rows(after_rank, limit, wanted)))
    return Response(body, headers=headers, media_type="application/json")


def _written(answer: LeaderboardResponse) -> bytes:
    return _ANSWER.dump_json(_ANSWER.validate_python(answer))
