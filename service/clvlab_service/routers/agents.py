"""``/agents``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Query, Request, Response
from pydantic import AfterValidator, TypeAdapter

from clvlab.api.answer import JsonObject, ignored
from clvlab.api.backtests import StrategyInfo, StrategyListResponse
from clvlab.api.competitions import AgentInstance, DeployResponse, InstanceListResponse, RuntimeEvent, RuntimeEventsResponse
from clvlab.api.runs import JobState
from clvlab.arena import templates
from clvlab.arena.deploys.config import DeployConfig
from clvlab.arena.jobs import OVER
from clvlab.arena.pages import PAGE
from clvlab_service.deps import (
    SAFE_INTEGER,
    ApplicationDep,
    AuthenticatedRoute,
    CurrentPrincipal,
    CursorQuery,
    PageSizeQuery,
    Prefer,
    accepted_response,
    keyed,
    repeated,
)
from clvlab_service.json_lists import ReadPlace, json_list
from clvlab_service.negotiation import LIST, RevalidatedRoute, link_next, path_here
from clvlab_service.openapi import body_schema, problems

router = APIRouter(prefix="/agents", tags=["agents"], route_class=AuthenticatedRoute)

_EXAMPLE = {"strategy": "cumulative-drift", "source_mode": "replay", "pack_id": "starter", "fixture_id": 90000000}
_MAX_DEPTH = 50
_AT_ONCE = 500
_EVENTS = TypeAdapter(list[RuntimeEvent])
_KEYED = keyed(DeployResponse, "This instance already exists for the key")
_UNKNOWN = "Unknown instance, or the caller is not its owner"


def _shallow(value: Any, depth: int = 0) -> Any:
    """Refuse a value that is nested deeper than any configuration, or too deep for hashing."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"nested deeper than {_MAX_DEPTH} levels")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _shallow(inner, depth + 1)
    return value


@router.post(
    "/deploy",
    operation_id="deployAgent",
    status_code=201,
    response_model=DeployResponse,
    responses=_KEYED
    | problems(
        401,
        413,
        429,
        507,
        s400="The body can't be read",
        s409="The idempotency key was used with another configuration, or its attempt failed for good",
        s422="Preflight failed: `checks` names every failing check, and nothing was stored",
    ),
    openapi_extra=body_schema(DeployConfig, _EXAMPLE),
)
def deploy(
    request: Request,
    response: Response,
    principal: CurrentPrincipal,
    body: Annotated[JsonObject, AfterValidator(_shallow), Body()],
    application: ApplicationDep,
    prefer: Prefer,
    idempotency_key: Annotated[
        str | None,
        Header(alias="Idempotency-Key", min_length=1, max_length=255, description="The same key returns the same instance."),
    ] = None,
) -> Any:
    """Check a configuration with named checks, pin it as an instance of the caller, and start its run.

    The answer comes before the run is sealed. With `Prefer: respond-async` it is the state of that run.
    """
    deployed, is_repeated = application.deploys.deploy_once(principal, body, idempotency_key)
    path = f"/agents/instances/{deployed['instance_id']}"
    if prefer.wait_s == 0:
        state = application.jobs.state(deployed["run_id"])
        if state["status"] not in OVER:
            unread = ignored(deployed.get("ignored", ()))
            return accepted_response(request, {**state, **unread}, path, prefer, repeated(is_repeated))
    response.status_code = 200 if is_repeated else 201
    response.headers.update({"Location": path_here(request, path)} | repeated(is_repeated))
    return deployed


@router.get("/instances", operation_id="listInstances", responses=LIST | problems(401, 422))
def own_instances(
    request: Request,
    response: Response,
    principal: CurrentPrincipal,
    application: ApplicationDep,
    strategy: Annotated[str | None, Query(max_length=200, description="Only instances of this template.")] = None,
    cursor: CursorQuery = None,
    limit: PageSizeQuery = PAGE,
) -> InstanceListResponse:
    """List the caller's instances, newest first."""
    found = application.deploys.page(principal, strategy, cursor, limit)
    link_next(request, response, cursor=found["next_cursor"])
    return found


@router.get(
    "/instances/{instance_id}",
    operation_id="getInstance",
    responses=problems(401, s404=_UNKNOWN),
)
def instance(instance_id: str, principal: CurrentPrincipal, application: ApplicationDep) -> AgentInstance:
    """Read an instance and the status of its run. Only its owner may read it."""
    return application.deploys.instance(principal, instance_id)


@router.post(
    "/instances/{instance_id}/cancel",
    operation_id="cancelInstance",
    responses=problems(401, s404=_UNKNOWN, s409="Its run is over"),
)
def cancel(instance_id: str, principal: CurrentPrincipal, application: ApplicationDep) -> JobState:
    """Cancel the run of an instance, also a live run. The run is not sealed, and the instance remains."""
    return application.deploys.cancel(principal, instance_id)


@router.delete(
    "/instances/{instance_id}",
    operation_id="deleteInstance",
    status_code=204,
    responses=problems(401, s404=_UNKNOWN, s409="Its run is not over: cancel it first"),
)
def delete(instance_id: str, principal: CurrentPrincipal, application: ApplicationDep) -> None:
    """Delete an instance and its runtime events. Its run remains verifiable, and its idempotency key remains used."""
    application.deploys.delete(principal, instance_id)


@router.get(
    "/instances/{instance_id}/runtime-events",
    operation_id="listRuntimeEvents",
    response_model=RuntimeEventsResponse,
    responses=LIST | problems(401, 422, s404=_UNKNOWN),
)
async def runtime_events(
    request: Request,
    instance_id: str,
    principal: CurrentPrincipal,
    application: ApplicationDep,
    place: ReadPlace,
    since: Annotated[int, Query(ge=0, le=SAFE_INTEGER, description="Events after this cursor.")] = 0,
    limit: Annotated[int | None, Query(ge=1, le=1000, description="Most events to return.")] = None,
) -> Response:
    """Read the runtime events of an instance. Only its owner may read them."""
    deploys = application.deploys
    newest = await place.run(deploys.newest_event_id, principal, instance_id)  # later events are left to the next request
    end = newest if limit is None else min(since + limit, newest)

    def page(after: int) -> tuple[bytes, int | None]:
        count = min(end - after, _AT_ONCE)
        found = deploys.runtime_events(principal, instance_id, after, count)["events"] if count > 0 else []
        following = after + count if after + count < end else None
        return _EVENTS.dump_json(_EVENTS.validate_python(found))[1:-1], following

    response = await json_list(request, place, page, since, b'{"events":[', b"]}")
    link_next(request, response, since=end if end < newest else None)
    return response


# ``/strategies``.


strategies_router = APIRouter(prefix="/strategies", tags=["strategies"], route_class=RevalidatedRoute)


@strategies_router.get("", operation_id="listStrategies", responses=problems())
def strategies() -> StrategyListResponse:
    """List the strategy templates."""
    return templates.strategies()


@strategies_router.get("/{strategy}", operation_id="getStrategy", responses=problems(s404="Unknown strategy"))
def template(strategy: str) -> StrategyInfo:
    """Read the description of a template and the schema of its parameters. Other keys are stored without effect."""
    return templates.strategy(strategy)
