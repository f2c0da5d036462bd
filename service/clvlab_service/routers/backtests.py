"""``/backtests``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body

from clvlab.answers.backtests import BacktestListResponse, BacktestReport, BacktestRunResponse
from clvlab.application.competitions.requests import BacktestRunRequest
from clvlab_service.bodies import JsonRoute
from clvlab_service.caching import RevalidatedRoute
from clvlab_service.deps import ApplicationDep, CursorQuery, PageSizeQuery, PublicPool
from clvlab_service.openapi import problems

router = APIRouter(prefix="/backtests", tags=["backtests"], route_class=JsonRoute)
reports = APIRouter(prefix="/backtests", tags=["backtests"], route_class=RevalidatedRoute)

_EXAMPLE = {"pack_id": "starter", "fixture_id": 90000000, "window_id": "full", "market_allowlist": [""]}


@router.post(
    "",
    operation_id="runBacktest",
    responses=problems(
        413,
        s400="Invalid window, unreadable body, or the replay failed",
        s404="`pack_id` is not in the verified catalog",
        s422="`fixture_id` is not catalogued for the pack, a field of the wrong type, or an unknown field",
    ),
)
async def run_backtest(
    body: Annotated[BacktestRunRequest, Body(examples=[_EXAMPLE])], application: ApplicationDep, pool: PublicPool
) -> BacktestRunResponse:
    """Replay a catalogued pack through the offline agent `baseline`, seal the run, store the report."""
    return await pool.run(application.backtests.run, body)


@router.get("", operation_id="listBacktests", responses=problems(422))
def backtests(application: ApplicationDep, cursor: CursorQuery = None, limit: PageSizeQuery = 50) -> BacktestListResponse:
    """List stored backtests, newest first."""
    return application.backtests.page(cursor, limit)


@reports.get(
    "/{backtest_id}",
    operation_id="getBacktest",
    responses=problems(s404="Unknown backtest"),
)
def report(backtest_id: str, application: ApplicationDep) -> BacktestReport:
    """Read a report."""
    return application.backtests.report(backtest_id)
