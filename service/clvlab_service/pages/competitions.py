"""Pages ``/competitions`` and ``/competitions/{competition_id}``."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import Query, Request, Response

from clvlab.application.application import Application
from clvlab.application.competitions.listing import CompetitionFilter
from clvlab.application.competitions.status import CompetitionStatus
from clvlab.application.runs.card import may_hold_past
from clvlab_service.deps import ApplicationDep
from clvlab_service.pages.route import page_router
from clvlab_service.reading import ReadPlace
from clvlab_service.rendering import page
from clvlab_service.routers.competitions import StatusFilter

router = page_router()

_ROWS = 50
_OVER = ("finalized", "completed")


@router.get("/competitions")
async def competitions(
    request: Request,
    application: ApplicationDep,
    place: ReadPlace,
    status: Annotated[StatusFilter | None, Query()] = None,
    owner: Annotated[str | None, Query(max_length=500)] = None,
    pack_id: Annotated[str | None, Query(max_length=200)] = None,
    cursor: Annotated[str | None, Query(max_length=500)] = None,
    limit: Annotated[int | None, Query(ge=1, le=200)] = None,
) -> Response:
    """List competitions, oldest first."""
    wanted = CompetitionFilter(None if status is None else CompetitionStatus(status.value.lower()), owner, pack_id)
    return await place.run(_competitions, request, application, wanted, cursor, limit)


def _competitions(
    request: Request, application: Application, wanted: CompetitionFilter, cursor: str | None, limit: int | None
) -> Response:
    found, next_cursor = application.competitions.page(wanted, cursor, limit or _ROWS)
    asked = {
        "status": None if wanted.status is None else wanted.status.value.upper(),
        "owner": wanted.owner,
        "pack_id": wanted.pack_id,
        "limit": limit,
    }
    shown = {"competitions": found, "wanted": asked, "cursor": cursor, "next_cursor": next_cursor}
    return page(request, "competitions.html", {**shown, "statuses": list(StatusFilter)})


@router.get("/competitions/{competition_id}")
def competition(competition_id: str, request: Request, application: ApplicationDep) -> Response:
    """Show a competition: its roster, its standings, and its run; live until nothing can follow."""
    state = application.competitions.state(competition_id)
    is_over = state["status"] in _OVER and state["anchor_status"] != "pending"
    root = str(request.scope.get("root_path", "")).rstrip("/")
    stream = f"{root}/competitions/{quote(competition_id, safe='')}/arena?since_seq={state['latest_seq']}"
    card = state["proof_card"]
    source_mode, agents = state["config"]["source_mode"], card["lineage"]["agents"] if card else []
    doubtful = {agent["agent_id"] for agent in agents if may_hold_past(agent, source_mode)}
    firm = [row for row in state["leaderboard"] if row["agent_id"] not in doubtful]
    standings = {"firm": firm, "doubtful": [row for row in state["leaderboard"] if row["agent_id"] in doubtful]}
    return page(request, "competition.html", {"state": state, **standings}, stream=None if is_over else stream)
