"""``/backtests``."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse

from clvlab.api.backtests import BacktestListResponse, BacktestReport, BacktestRunResponse
from clvlab.api.runs import JobState
from clvlab.arena.jobs import OVER
from clvlab.arena.pages import PAGE
from clvlab.arena.report_requests import BacktestRequest, BacktestRunRequest
from clvlab.report.html import page_policy
from clvlab_service.deps import (
    JOB,
    AnyPrincipal,
    ApplicationDep,
    BacktestPool,
    CursorQuery,
    OpenRoute,
    PageSizeQuery,
    Prefer,
    SheetPool,
    accepted_response,
    keyed,
    repeated,
    wait_for,
)
from clvlab_service.negotiation import LIST, Responses, RevalidatedRoute, link_next, path_here
from clvlab_service.openapi import problems

router = APIRouter(prefix="/backtests", tags=["backtests"], route_class=OpenRoute)
reports = APIRouter(prefix="/backtests", tags=["backtests"], route_class=RevalidatedRoute)

_EXAMPLES: Any = {
    "fixture": {
        "summary": "One fixture, by the offline agent `baseline`",
        "value": {"pack_id": "starter", "fixture_id": 90000000, "window_id": "full", "market_allowlist": [""]},
    },
    "pack": {
        "summary": "All fixtures of a pack, by any template",
        "value": {
            "pack_id": "season",
            "fixture_ids": [90000000, 90000001],
            "strategy": "cumulative-drift",
            "params": {"stake": 50},
        },
    },
}
_QUICK_S = 1.0
_PAGE: Responses = {200: {"description": "One page without requests", "content": {"text/html": {"schema": {"type": "string"}}}}}
_Key = Header(alias="Idempotency-Key", min_length=1, max_length=255, description="Identifies one backtest, and withdraws it.")


@router.post(
    "",
    operation_id="runBacktest",
    status_code=201,
    response_model=BacktestRunResponse,
    responses=keyed(BacktestRunResponse, "The report exists already")
    | problems(
        413,
        429,
        507,
        s401="The token is not valid",
        s400="Invalid window, agent or policy, unreadable body, or the replay failed",
        s404="`pack_id` is not in the verified catalog",
        s409="The idempotency key belongs to another backtest, or the backtest was cancelled",
        s422="The pack has no such fixture, or a field is unknown or of the wrong type",
    ),
)
async def run_backtest(
    request: Request,
    body: Annotated[BacktestRequest, Body(openapi_examples=_EXAMPLES)],
    principal: AnyPrincipal,
    application: ApplicationDep,
    pool: BacktestPool,
    prefer: Prefer,
    key: Annotated[str | None, _Key] = None,
) -> Response:
    """Replay a pack of the catalog, seal the run and store the report.

    A body with one fixture runs the offline agent `baseline`, and the answer comes when the run is sealed. A body with
    several fixtures, or a whole pack, runs any template except `llm` and `bets`. After a second the answer is 202, and the
    run continues. A bearer token is optional. The run belongs to its owner, unless an earlier request was the same.
    """
    wanted = await run_in_threadpool(application.backtests.ask, body, key, principal)
    is_new = False
    if not wanted.known:
        async with pool.turn(wanted.run_id):
            inflight = joined = pool.inflight(wanted.run_id)
            with nullcontext() if inflight else pool.place():
                at_once = inflight is None and pool.is_free
                is_new = await run_in_threadpool(application.backtests.enter, wanted, at_once=at_once)
                settle = partial(application.backtests.settle, wanted)
                inflight = inflight or pool.submit(wanted.run_id, settle)
            if is_new and inflight is joined:  # which is about an attempt that was cancelled
                with pool.place():
                    inflight = pool.submit(wanted.run_id, settle)
        if not await wait_for(inflight, prefer, None if isinstance(body, BacktestRunRequest) else _QUICK_S):
            state = await run_in_threadpool(application.backtests.state, wanted)
            if state["status"] not in OVER:
                path, headers = f"/backtests/{state['backtest_id']}", repeated(wanted.repeated and not is_new)
                return accepted_response(request, state, path, prefer, headers)
            await run_in_threadpool(application.backtests.settle, wanted)
    elif wanted.chosen:
        await run_in_threadpool(application.backtests.enter, wanted)  # from now on the key names this request
    headers = {"Location": path_here(request, f"/backtests/{wanted.answer['backtest_id']}")}
    return JSONResponse(wanted.answer, 201 if is_new else 200, headers | repeated(wanted.repeated and not is_new))


@router.get("", operation_id="listBacktests", responses=LIST | problems(422))
def backtests(
    request: Request,
    response: Response,
    application: ApplicationDep,
    cursor: CursorQuery = None,
    limit: PageSizeQuery = PAGE,
) -> BacktestListResponse:
    """List stored backtests, newest first."""
    found = application.backtests.page(cursor, limit)
    link_next(request, response, cursor=found["next_cursor"])
    return found


@reports.get(
    "/{backtest_id}",
    operation_id="getBacktest",
    response_model=BacktestReport,
    responses=JOB | problems(410, s404="Unknown or failed backtest; see `detail`"),
)
def report(request: Request, backtest_id: str, application: ApplicationDep) -> Any:
    """Read a report, or the progress of a backtest that still runs."""
    found = application.backtests.look(backtest_id)
    return accepted_response(request, found, f"/backtests/{found['backtest_id']}") if "stage" in found else found


@router.post(
    "/{backtest_id}/cancel",
    operation_id="cancelBacktest",
    responses=problems(
        410,
        s401="The token is not valid",
        s403="Neither the key nor the caller requested this backtest",
        s404="Unknown backtest",
        s409="It is over",
        s422="Neither a key nor a token",
    ),
)
def cancel(
    backtest_id: str, principal: AnyPrincipal, application: ApplicationDep, key: Annotated[str | None, _Key] = None
) -> JobState:
    """Withdraw a request. Identify it by its idempotency key, by the key in its answer, or by a bearer token.

    The backtest is cancelled unless another request needs it.
    """
    if key is None and principal is None:
        missing = {"loc": ("header", "Idempotency-Key"), "msg": "Field required", "type": "missing", "input": None}
        raise RequestValidationError([missing])
    return application.backtests.withdraw(backtest_id, key, principal)


@reports.get(
    "/{backtest_id}/tear-sheet",
    operation_id="getTearSheet",
    response_class=HTMLResponse,
    responses=_PAGE | problems(410, s404="Unknown backtest, no report yet, or its pack is no longer in the catalog"),
)
async def tear_sheet(backtest_id: str, application: ApplicationDep, pool: SheetPool) -> HTMLResponse:
    """Read the tear sheet of a backtest as one page. It has figures with intervals, breakdowns and pictures."""
    page = await pool.share(backtest_id, application.backtests.tear_sheet, backtest_id)
    return HTMLResponse(page, headers={"Content-Security-Policy": page_policy()})
