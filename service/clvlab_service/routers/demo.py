"""``/demo``."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from clvlab_service.deps import ApplicationDep, PublicPool
from clvlab_service.openapi import problems
from clvlab_service.schemas.demo import DemoResponse

__all__ = ["router"]

router = APIRouter(prefix="/demo", tags=["demo"])


@router.post(
    "/run", operation_id="runDemo", response_model=DemoResponse, responses=problems(s404="The catalog has no pack to run over")
)
async def run_demo(application: ApplicationDep, pool: PublicPool) -> dict[str, Any]:
    """Run, seal and score a small competition of the bundled templates; no body, no token."""
    return await pool.run(application.demo.run)
