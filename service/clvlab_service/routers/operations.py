"""``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from clvlab.api.answer import HealthResponse, ReadinessResponse
from clvlab.errors import StoreError, StoreUnreachableError
from clvlab_service.deps import ApplicationDep, HealthPool, MeasuresPool
from clvlab_service.negotiation import Responses
from clvlab_service.openapi import problems
from clvlab_service.telemetry import RequestMetrics

router = APIRouter(tags=["operations"])

_DEADLINE_S = 1


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

    Those of the store are included if it answers within a second; `clvlab_store_up` says whether it did.
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
