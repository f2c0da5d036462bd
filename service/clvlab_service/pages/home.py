"""Pages ``/`` and ``/leaderboard``."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from clvlab.application.application import Application
from clvlab_service.deps import SAFE_INTEGER, ApplicationDep
from clvlab_service.pages.route import page_router
from clvlab_service.reading import ReadPlace
from clvlab_service.rendering import page

router = page_router()

_ROWS, _BEST, _NEWEST = 50, 10, 8


@router.get("/")
async def home(request: Request, application: ApplicationDep, place: ReadPlace) -> Response:
    """Show what this is, the newest runs, and the head of the leaderboard."""
    return await place.run(_home, request, application)


def _home(request: Request, application: Application) -> Response:
    forest, runs = application.forest.page(0, _BEST), application.runs.page(None, _NEWEST)["runs"]
    return page(request, "home.html", {"forest": forest, "runs": runs})


@router.get("/leaderboard")
async def leaderboard(
    request: Request,
    application: ApplicationDep,
    place: ReadPlace,
    after_rank: Annotated[int, Query(ge=0, le=SAFE_INTEGER)] = 0,
    limit: Annotated[int | None, Query(ge=1, le=1000)] = None,
) -> Response:
    """Show the leaderboard, each mean with its interval."""
    return await place.run(_leaderboard, request, application, after_rank, limit or _ROWS)


def _leaderboard(request: Request, application: Application, after_rank: int, limit: int) -> Response:
    forest = application.forest.page(after_rank, limit)
    following = after_rank + limit if len(forest.rows) == limit else None
    shown = {"forest": forest, "after_rank": after_rank, "limit": limit, "following": following}
    return page(request, "leaderboard.html", shown)
