"""``/strategies``."""

from __future__ import annotations

from fastapi import APIRouter

from clvlab.answers.strategies import StrategyInfo, StrategyListResponse
from clvlab.application import templates
from clvlab_service.caching import RevalidatedRoute
from clvlab_service.openapi import problems

router = APIRouter(prefix="/strategies", tags=["strategies"], route_class=RevalidatedRoute)


@router.get("", operation_id="listStrategies", responses=problems())
def strategies() -> StrategyListResponse:
    """List the strategy templates."""
    return templates.strategies()


@router.get("/{name}", operation_id="getStrategy", responses=problems(s404="Unknown strategy"))
def strategy(name: str) -> StrategyInfo:
    """Read what a template does, and the schema of its parameters; a roster or deploy keeps other keys, unused."""
    return templates.strategy(name)
