"""``/competitions``."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Body, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from clvlab.api.competitions import (
    AgentErrorCause,
    AgentRegisterResponse,
    CompetitionCreateResponse,
    CompetitionEvent,
    CompetitionStartResponse,
    CompetitionStateResponse,
    CompetitionStatusResponse,
    CompetitionSummaryResponse,
    DemoResponse,
)
from clvlab.arena.competitions.competitions import CompetitionFilter
from clvlab.arena.competitions.requests import AgentEntry, CompetitionConfig, CompetitionStatus
from clvlab.arena.jobs import OVER
from clvlab.arena.pages import PAGE
from clvlab_service.deps import (
    CREATED,
    JOB,
    SAFE_INTEGER,
    ApplicationDep,
    AuthenticatedRoute,
    CurrentPrincipal,
    CursorQuery,
    OwnerPool,
    PageSizeQuery,
    Prefer,
    ProofPool,
    accepted_response,
    wait_for,
)
from clvlab_service.examples import RESULT_1X2
from clvlab_service.json_lists import EventPages, ReadPlace, json_list
from clvlab_service.negotiation import LIST, link_next, path_here
from clvlab_service.openapi import problems

router = APIRouter(prefix="/competitions", tags=["competitions"])
owned = APIRouter(prefix="/competitions", tags=["competitions"], route_class=AuthenticatedRoute)

_UNKNOWN = "Unknown competition"
_CONFIG = {
    "competition_type": "arena",
    "source_mode": "replay",
    "market_scope": RESULT_1X2,
    "roster_size": 2,
    "pack_id": "starter",
    "fixture_id": 90000000,
}
_ENTRY = {"agent_id": "drift", "strategy": "cumulative-drift", "config": {}, "proof_mode": "reproducible"}


class StatusFilter(StrEnum):
    """Statuses by which competitions can be listed."""

    DRAFT = "DRAFT"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FINALIZED = "FINALIZED"


@owned.post(
    "",
    operation_id="createCompetition",
    status_code=201,
    responses=CREATED | problems(401, 413, 422, 429, s400="The replay binding can't be resolved, or the body can't be read"),
)
def create(
    request: Request,
    response: Response,
    principal: CurrentPrincipal,
    body: Annotated[CompetitionConfig, Body(examples=[_CONFIG])],
    application: ApplicationDep,
) -> CompetitionCreateResponse:
    """Create a draft that the caller owns. A `pack_id` freezes the replay binding now."""
    created = application.competitions.create(principal, body)
    response.headers["Location"] = path_here(request, f"/competitions/{created['competition_id']}")
    return created


@router.get("", operation_id="listCompetitions", responses=LIST | problems(422))
def competitions(
    request: Request,
    response: Response,
    application: ApplicationDep,
    status: Annotated[StatusFilter | None, Query(description="Only competitions with this status.")] = None,
    owner: Annotated[str | None, Query(max_length=500, description="Only competitions of this owner, a DID.")] = None,
    pack_id: Annotated[str | None, Query(max_length=200, description="Only competitions bound to this pack.")] = None,
    cursor: CursorQuery = None,
    limit: PageSizeQuery = PAGE,
) -> list[CompetitionSummaryResponse]:
    """List competitions, newest first. Each page names the next one in the header `Link`."""
    wanted = CompetitionFilter(None if status is None else CompetitionStatus(status.value.lower()), owner, pack_id)
    found, next_cursor = application.competitions.page(wanted, cursor, limit)
    link_next(request, response, cursor=next_cursor)
    return found


@router.get(
    "/{competition_id}",
    operation_id="getCompetition",
    responses=problems(s404=_UNKNOWN),
)
def state(competition_id: str, application: ApplicationDep) -> CompetitionStateResponse:
    """Read a competition with its roster, leaderboard and proof card."""
    return application.competitions.state(competition_id)


@owned.post(
    "/{competition_id}/agents",
    operation_id="registerAgent",
    status_code=201,
    responses=problems(
        401,
        413,
        422,
        s400="Unknown `proof_mode` or strategy, bad parameter, a market that the fixture lacks, or an unreadable body",
        s403="The caller is not the owner, or `instance_id` belongs to another owner",
        s404="Unknown competition, or `instance_id` is unknown or has no owner",
        s409="The roster is frozen or full, or the agent is already registered",
    ),
)
def register(
    competition_id: str,
    principal: CurrentPrincipal,
    body: Annotated[AgentEntry, Body(examples=[_ENTRY])],
    application: ApplicationDep,
) -> AgentRegisterResponse:
    """Put an agent on the roster and pin its configuration."""
    return application.competitions.register(principal, competition_id, body)


@owned.delete(
    "/{competition_id}/agents/{agent_id:path}",
    operation_id="withdrawAgent",
    status_code=204,
    responses=problems(401, 403, s404="Unknown competition, or its roster has no such agent", s409="Roster frozen"),
)
def withdraw(
    competition_id: str,
    agent_id: Annotated[str, Path(description="Percent-encoded, because an id may contain any character: `a/b` is `a%2Fb`.")],
    principal: CurrentPrincipal,
    application: ApplicationDep,
) -> None:
    """Remove an agent from the roster of a draft or open competition. Its place is free again."""
    application.competitions.withdraw(principal, competition_id, agent_id)


@owned.delete(
    "/{competition_id}",
    operation_id="deleteCompetition",
    status_code=204,
    responses=problems(401, 403, s404=_UNKNOWN, s409="It was started, so its log must stay public; see `reason`"),
)
def delete(competition_id: str, principal: CurrentPrincipal, application: ApplicationDep) -> None:
    """Delete a competition that was never started, with its roster."""
    application.competitions.delete(principal, competition_id)


@owned.post(
    "/{competition_id}/open",
    operation_id="openCompetition",
    responses=problems(401, 403, s404=_UNKNOWN, s409="Not a draft"),
)
def open_entries(competition_id: str, principal: CurrentPrincipal, application: ApplicationDep) -> CompetitionStatusResponse:
    """Open a draft. Agents may still register."""
    return application.competitions.open(principal, competition_id)


@owned.post(
    "/{competition_id}/start",
    operation_id="startCompetition",
    response_model=CompetitionStartResponse,
    responses=JOB
    | problems(401, 403, 429, 500, 507, s404=_UNKNOWN, s409="It cannot start (see `reason`), or it was cancelled"),
)
async def start(
    request: Request,
    competition_id: str,
    principal: CurrentPrincipal,
    application: ApplicationDep,
    pool: OwnerPool,
    prefer: Prefer,
) -> Response:
    """Run all agents over the bound pack, score and seal.

    The answer comes when the competition is finalized, or sooner if `Prefer` asks for that.
    """
    competitions = application.competitions
    async with pool.turn(competition_id):  # of concurrent starts all but the first find it running
        await run_in_threadpool(competitions.check_startable, principal, competition_id)
        with pool.place():
            run_id = await run_in_threadpool(competitions.claim, principal, competition_id, at_once=pool.is_free)
            is_live = await run_in_threadpool(competitions.is_live, competition_id)
            inflight = None if is_live else pool.submit(run_id, partial(application.jobs.settle, run_id), principal)
    if inflight is None or not await wait_for(inflight, prefer, None):
        state = await run_in_threadpool(application.jobs.state, run_id)
        if inflight is None or state["status"] not in OVER:
            applied = None if inflight is None and prefer.wait_s else prefer  # nobody waits for a match to end
            return accepted_response(request, state, f"/competitions/{competition_id}", applied)
    return JSONResponse(await run_in_threadpool(competitions.settled_response, competition_id, run_id))


@owned.post(
    "/{competition_id}/cancel",
    operation_id="cancelCompetition",
    responses=problems(401, 403, s404=_UNKNOWN, s409="Not running"),
)
def cancel(competition_id: str, principal: CurrentPrincipal, application: ApplicationDep) -> CompetitionStatusResponse:
    """Cancel the run of a running competition. The competition gets back the status from before its start."""
    return application.competitions.cancel(principal, competition_id)


@owned.post(
    "/{competition_id}/complete",
    operation_id="completeCompetition",
    responses=problems(401, 403, s404=_UNKNOWN, s409="Not finalized"),
)
def complete(competition_id: str, principal: CurrentPrincipal, application: ApplicationDep) -> CompetitionStatusResponse:
    """Close the record of a finalized competition. Its status becomes completed."""
    return application.competitions.complete(principal, competition_id)


@owned.get(
    "/{competition_id}/agent-errors",
    operation_id="listAgentErrors",
    responses=problems(401, 403, s404=_UNKNOWN),
)
def agent_errors(competition_id: str, principal: CurrentPrincipal, application: ApplicationDep) -> list[AgentErrorCause]:
    """Read why agents failed in the sealed run. Only the owner may read it."""
    return application.competitions.agent_errors(principal, competition_id)


@router.get(
    "/{competition_id}/events",
    operation_id="listCompetitionEvents",
    response_model=list[CompetitionEvent],
    responses=LIST | problems(422, s404=_UNKNOWN),
)
async def events(
    competition_id: str,
    request: Request,
    place: ReadPlace,
    since_seq: Annotated[
        int, Query(ge=-SAFE_INTEGER, le=SAFE_INTEGER, description="Events after this number; -1 reads all.")
    ] = 0,
    limit: Annotated[int | None, Query(ge=1, le=10_000, description="Most events to return.")] = None,
) -> Response:
    """Read the event log after `since_seq`, in ascending order."""
    pages: EventPages = request.app.state.pages
    length = await place.run(pages.length, competition_id)  # later entries are left out
    start = min(max(since_seq + 1, 0), length)
    end = length if limit is None else min(start + limit, length)
    response = await json_list(request, place, lambda at: pages.joined_entries(competition_id, at, end, length), start)
    link_next(request, response, since_seq=end - 1 if end < length else None)
    return response


# ``/demo``.


demo_router = APIRouter(prefix="/demo", tags=["demo"])


@demo_router.post("/run", operation_id="runDemo", responses=problems(s404="The catalog has no pack to run over"))
async def run_demo(application: ApplicationDep, pool: ProofPool) -> DemoResponse:
    """Run, seal and score a small competition of the bundled templates. Simultaneous callers share one run."""
    return await pool.share("demo", application.demo.run)
