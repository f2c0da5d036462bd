"""``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from clvlab.answers.operations import HealthResponse, ReadinessResponse
from clvlab.errors import StoreUnreachableError
from clvlab_service.deps import ApplicationDep, HealthPool
from clvlab_service.middleware import Metrics
from clvlab_service.openapi import problems

router = APIRouter(tags=["operations"])

_DEADLINE_S = 1


@router.get("/healthz", operation_id="health")
async def health() -> HealthResponse:
    """Say that the process answers."""
    return {"status": "ok"}


@router.get("/readyz", operation_id="readiness", responses=problems())
async def ready(application: ApplicationDep, pool: HealthPool) -> ReadinessResponse:
    """Say whether the store answers within a second; no other request can hold that up."""
    try:
        found = await asyncio.wait_for(pool.share("ready", application.ready), _DEADLINE_S)
    except TimeoutError:
        raise StoreUnreachableError(f"the database did not answer within {_DEADLINE_S} s") from None
    return {"status": "ok", "store": found["store"], "schema_version": found["schema_version"]}


_TEXT: dict[int | str, dict[str, Any]] = {
    200: {"description": "Prometheus text", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


@router.get(
    "/metrics",
    operation_id="metrics",
    response_class=Response,
    responses=_TEXT | problems(),
)
def metrics(request: Request, application: ApplicationDep) -> Response:
    """Measurements for Prometheus."""
    measured: Metrics = request.app.state.metrics
    for status, count in application.jobs.counts().items():
        measured.jobs.labels(status).set(count)
    return Response(generate_latest(measured.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
