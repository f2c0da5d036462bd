"""``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from clvlab.answers.operations import HealthResponse, ReadinessResponse
from clvlab_service.deps import ApplicationDep
from clvlab_service.middleware import Metrics
from clvlab_service.openapi import problems

router = APIRouter(tags=["operations"])


@router.get("/healthz", operation_id="health")
async def health() -> HealthResponse:
    """Say that the process answers."""
    return {"status": "ok"}


@router.get("/readyz", operation_id="readiness", responses=problems())
def ready(application: ApplicationDep) -> ReadinessResponse:
    """Say that the store answers."""
    found = application.ready()
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
