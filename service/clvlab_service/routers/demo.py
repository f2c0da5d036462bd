"""``/demo``."""

from __future__ import annotations

from fastapi import APIRouter

from clvlab.answers.demo import DemoResponse
from clvlab_service.deps import ApplicationDep, ProofPool
from clvlab_service.openapi import problems

router = APIRouter(prefix="/demo", tags=["demo"])


@router.post("/run", operation_id="runDemo", responses=problems(s404="The catalog has no pack to run over"))
async def run_demo(application: ApplicationDep, pool: ProofPool) -> DemoResponse:
    """Run, seal and score a small competition of the bundled templates, once for all who ask at a time; no body, no token."""
    return await pool.share("demo", application.demo.run)
