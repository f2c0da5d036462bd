"""``/``, ``/problems``, ``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from clvlab.api.answer import HealthResponse, ProblemKind, ProblemKindList, ReadinessResponse
from clvlab.errors import StoreError, StoreUnreachableError
from clvlab_service.deps import ApplicationDep, HealthPool, MeasuresPool
from clvlab_service.errors import PROBLEMS, documentation_path, problem_kinds
from clvlab_service.negotiation import Responses, RevalidatedRoute, path_here
from clvlab_service.openapi import problems
from clvlab_service.telemetry import RequestMetrics

router = APIRouter(tags=["operations"])
front = APIRouter(tags=["operations"], route_class=RevalidatedRoute)

_DEADLINE_S = 1


_DOCUMENTS = {
    "document": "/openapi.json",
    "documentation": "/docs",
    "verifier": "/verify.html",
    "streamCompetition": "/competitions/{competition_id}/arena",
    "streamProgress": "/runs/{run_id}/progress",
}
"""Addresses that are no operations of the document."""


@front.get("/", operation_id="getIndex")
def index(request: Request) -> dict[str, str]:
    """Read the addresses of the service by operation. Addresses that need an id or a query are templates (RFC 6570)."""
    found = dict(_DOCUMENTS)
    for path, methods in request.app.openapi()["paths"].items():
        if "get" in methods:
            parameters = methods["get"].get("parameters", ())
            needed = [one["name"] for one in parameters if one["in"] == "query" and one.get("required")]
            found[methods["get"]["operationId"]] = path + (f"{{?{','.join(needed)}}}" if needed else "")
    return {name: path_here(request, address) for name, address in found.items()}


@front.get(PROBLEMS, operation_id="listProblems")
def problem_list(request: Request) -> ProblemKindList:
    """List the kinds of problems, by status."""
    return {"problems": problem_table(request)}


def problem_table(request: Request) -> list[ProblemKind]:
    return [
        {
            "status": status.value,
            "type": kind,
            "title": status.phrase,
            "meaning": meaning,
            "documentation_url": path_here(request, documentation_path(status, kind)),
        }
        for status, kind, meaning in problem_kinds()
    ]


@router.get("/healthz", operation_id="health")
async def health() -> HealthResponse:
    """Check that the process answers."""
    return {"status": "ok"}


@router.get("/readyz", operation_id="readiness", responses=problems())
async def ready(application: ApplicationDep, pool: HealthPool) -> ReadinessResponse:
    """Check that the store answers within a second. Other requests cannot delay this check.

    A damaged or read-only store is 503 with a `reason`. While the run log is behind, the status is `reads_only`.
    """
    try:
        found = await asyncio.wait_for(pool.share("ready", application.ready), _DEADLINE_S)
    except TimeoutError:
        raise StoreUnreachableError(f"the database did not answer within {_DEADLINE_S} s") from None
    return {
        "status": "reads_only" if found["log"] == "behind" else "ok",
        "store": found["store"],
        "schema_version": found["schema_version"],
        "feed": found["feed"],
        "log": found["log"],
    }


_TEXT: Responses = {200: {"description": "Prometheus text", "content": {"text/plain": {"schema": {"type": "string"}}}}}


@router.get("/metrics", operation_id="metrics", response_class=Response, responses=_TEXT | problems())
async def metrics(request: Request, application: ApplicationDep, pool: MeasuresPool) -> Response:
    """Read measurements for Prometheus.

    Measurements of the store are included if it answers within a second; `clvlab_store_up` is then 1.
    """
    request_metrics: RequestMetrics = request.app.state.metrics
    try:
        found = await asyncio.wait_for(pool.share("measures", application.measures), _DEADLINE_S)
    except (TimeoutError, StoreError) as error:
        request.app.state.log.warning("not_measured", error=f"{type(error).__name__}: {error}")
        request_metrics.store(None)
    else:
        request_metrics.store(found)
    return Response(generate_latest(request_metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
