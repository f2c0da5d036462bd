"""``/demo``."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter

from clvlab.answers.demo import DemoResponse
from clvlab_service.deps import ApplicationDep, ProofPool
from clvlab_service.openapi import problems

_FLIGHT = "demo"  # there is one, and all who ask at once wait for it

router = APIRouter(prefix="/demo", tags=["demo"])


@router.post("/run", operation_id="runDemo", responses=problems(s404="The catalog has no pack to run over"))
async def run_demo(application: ApplicationDep, pool: ProofPool) -> DemoResponse:
    """Run, seal and score a small competition of the bundled templates; no body, no token."""
    flight = pool.flight(_FLIGHT)
    if flight is None:
        with pool.place():
            flight = pool.fly(_FLIGHT, application.demo.run)
    answer: DemoResponse = await asyncio.shield(flight)
    return answer
