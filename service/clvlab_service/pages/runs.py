"""Pages ``/runs``, ``/runs/{run_id}``, the decisions of a run, and each decision with its arithmetic."""

from __future__ import annotations

import re
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Literal, get_args

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import BeforeValidator

from clvlab import words
from clvlab.api.runs import AgentIdentity, ProofArtifactResponse, RunKind, RunStatus
from clvlab.arena.application import Application
from clvlab.arena.runs.decisions import DecisionFilter, Order, Reason
from clvlab.arena.runs.results import ResultSummary
from clvlab.arena.runs.runs import RunFilter
from clvlab.arena.tables import MAX_PAGE, PAGE
from clvlab.errors import UnknownRunError
from clvlab.runs.card import card_causality
from clvlab.runs.inspector import arithmetic
from clvlab.runs.run import run_id_of
from clvlab.words import REASON_FINDINGS
from clvlab_service.bodies import shortened
from clvlab_service.deps import SAFE_INTEGER, ApplicationDep, CursorQuery, PageSizeQuery, SheetPool
from clvlab_service.json_lists import ReadPlace
from clvlab_service.negotiation import RevalidatedRoute
from clvlab_service.pages.route import page_router
from clvlab_service.rendering import Links, page

# Pages ``/runs/{run_id}/decisions`` and ``/runs/{run_id}/actions/{seq}``.


router = page_router()

_ORDERS = {Order.SEQ: "in order of the evidence", Order.CLV: "lowest CLV first", Order.CLV_DESCENDING: "highest CLV first"}
_LISTED_MATCHES = 1000  # to choose from; of more, a number is typed
_Name = Annotated[str | None, Query(max_length=200)]


@router.get("/runs/{run_id}/decisions")
async def decisions(
    run_id: str,
    request: Request,
    application: ApplicationDep,
    place: ReadPlace,
    *,
    agent_id: _Name = None,
    fixture_id: Annotated[int | None, Query(ge=-SAFE_INTEGER, le=SAFE_INTEGER)] = None,
    market: _Name = None,
    side: _Name = None,
    reason: Annotated[Reason | None, Query()] = None,
    valid: Annotated[bool | None, Query()] = None,
    sort: Order = Order.SEQ,
    cursor: CursorQuery = None,
    limit: Annotated[int | None, Query(ge=1, le=MAX_PAGE)] = None,
) -> Response:
    """List the decisions of a sealed run with their scores."""
    wanted = DecisionFilter(agent_id, fixture_id, market, side, reason, valid)
    return await place.run(_decisions, run_id, request, application, wanted, sort, cursor, limit)


def _decisions(
    run_id: str,
    request: Request,
    application: Application,
    wanted: DecisionFilter,
    sort: Order,
    cursor: str | None,
    limit: int | None,
) -> Response:
    markets, sides = application.decisions.markets(run_id), application.decisions.sides(run_id)
    chosen = replace(wanted, market=None, market_key=wanted.market) if wanted.market in markets else wanted
    found = application.decisions.page(run_id, chosen, sort, cursor, limit or PAGE)
    filters = {name: getattr(wanted, name) for name in DecisionFilter.__slots__} | {"sort": sort.value, "limit": limit}
    if wanted.valid is not None:
        filters["valid"] = "true" if wanted.valid else "false"
    names = application.names.of(run_id)
    context = {
        **found,
        "wanted": filters,
        "filtered": any(value is not None for name, value in filters.items() if name not in ("sort", "limit")),
        "cursor": cursor,
        "orders": _ORDERS,
        "agents": [(name, name) for name in sorted({*names.agents, *filter(None, [wanted.agent_id])})],
        "markets": words.market_names(sorted({*markets, *filter(None, [wanted.market])})),
        "sides": ({} if wanted.side is None else {wanted.side: wanted.side}) | words.side_names(sides),
        "names": names,
        "matches": [(one, names.name(one)) for one in names.fixture_ids] if len(names.fixture_ids) <= _LISTED_MATCHES else [],
    }
    return page(request, "decisions.html", context)


@router.get("/runs/{run_id}/actions/{seq}")
def decision(
    run_id: str, seq: Annotated[int, BeforeValidator(shortened), Path()], request: Request, application: ApplicationDep
) -> Response:
    """Show one decision: the known prices, the proposed action, its score by the law, and the agent's own claims."""
    record = application.runs.inspect(run_id, seq)
    finding, names = REASON_FINDINGS.get(record["recompute"]["reason"]), application.names.of(run_id)
    known = names.known.get(record["fixture_id"])
    context = {"record": record, "seq": seq, "steps": arithmetic(record), "finding": finding, "names": names}
    return page(request, "decision.html", {**context, "league": known and known.league})


_PLAIN_HOST = re.compile(r"[A-Za-z0-9.-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_UNDER_WAY = ("queued", "running")
_STATUSES = get_args(get_args(RunStatus.__value__)[0])


@router.get("/runs")
def runs(
    request: Request,
    application: ApplicationDep,
    kind: Annotated[RunKind | None, Query()] = None,
    status: Annotated[RunStatus | None, Query()] = None,
    agent_id: Annotated[str | None, Query(max_length=200)] = None,
    pack_id: Annotated[str | None, Query(max_length=200)] = None,
    owner: Annotated[str | None, Query(max_length=300)] = None,
    cursor: CursorQuery = None,
    limit: PageSizeQuery = 50,
) -> Response:
    """List runs, newest first."""
    wanted = {"kind": kind, "status": status, "agent_id": agent_id, "pack_id": pack_id, "owner": owner}
    found = application.runs.page(cursor, limit, RunFilter(**wanted))
    names = application.names.of_each(one["run_id"] for one in found["runs"])
    context = {"wanted": wanted, "limit": limit, "cursor": cursor, "names": names}
    return page(request, "runs.html", {**found, **context, "statuses": _STATUSES})


@router.get("/runs/{run_id}")
async def run(run_id: str, request: Request, application: ApplicationDep, place: ReadPlace) -> Response:
    """Show a run: its results, its checks, and instructions to check it oneself."""
    return await place.run(_run, run_id, request, application)


def _run(run_id: str, request: Request, application: Application) -> Response:
    card = application.runs.card(run_id)
    status, in_log = card["run"]["status"], card["log"] and application.runs.log_standing(run_id)
    result = result_of(application, run_id) if status == "sealed" else None
    under_way, names = status in _UNDER_WAY, application.names.of(run_id)
    root = str(request.scope.get("root_path", "")).rstrip("/")
    context = {
        "card": card,
        "log": in_log,
        "checked_ts_ms": application.runs.checks(run_id)["checked_ts_ms"],
        "result": result,
        "names": names,
        "failing": failing_checks(card),
        "progress": application.jobs.state(run_id) if under_way else None,
        "origin": _origin(request, root) or f"{request.url.scheme}://HOST{root}",
        "address": _address(request, run_id),
    }
    taken = application.seats.taken(run_id) if card["run"]["kind"] == "seat" else None
    return page(
        request,
        "run.html",
        context | {"causality": _causality, "seats": taken},
        stream=f"{root}/runs/{run_id}/progress" if under_way else None,
    )


@router.get("/backtests/{backtest_id}")
def backtest(backtest_id: str, request: Request, application: ApplicationDep) -> Response:
    """Lead to the page of the run of a backtest."""
    run_id = run_id_of(backtest_id)
    application.jobs.state(run_id)  # refuses an unknown one
    return RedirectResponse(Links(str(request.scope.get("root_path", "")))("runs", run_id), HTTPStatus.SEE_OTHER)


# A picture to send, which other sites show where somebody links to the page of a run.


pictures_router = APIRouter(route_class=RevalidatedRoute, include_in_schema=False)

_TYPES = {"svg": "image/svg+xml", "png": "image/png"}
_ALONE = {"Content-Security-Policy": "default-src 'none'", "X-Content-Type-Options": "nosniff"}


@pictures_router.get("/runs/{run_id}/card.{form}")
async def picture(
    run_id: str, form: Literal["svg", "png"], request: Request, application: ApplicationDep, pool: SheetPool
) -> Response:
    """Draw a sealed run as one picture, with a code that leads to its page."""
    address = _address(request, run_id)
    key = f"picture {run_id} {form} {address}"
    content = await pool.share(key, application.results.picture, run_id, address, png=form == "png")
    return Response(content, media_type=_TYPES[form], headers=_ALONE)


def _address(request: Request, run_id: str) -> str | None:
    """Return the public address of the page of a run; ``None`` where the request names no plain host."""
    origin = _origin(request, str(request.scope.get("root_path", "")).rstrip("/"))
    return None if origin is None else f"{origin}/runs/{run_id}"


def _causality(agent: AgentIdentity) -> str:
    """Return in words how the engine showed that an agent did not look ahead."""
    return words.causality(card_causality(agent), agent["config"].get("blind") if agent["strategy"] == "seat" else None)


def failing_checks(card: ProofArtifactResponse) -> list[str]:
    """Return the names of the checks that a run fails."""
    return [name for name, verdict in card["checks"].items() if verdict == "fail"]


def result_of(application: Application, run_id: str) -> ResultSummary | None:
    """Read the results of a sealed run; ``None`` if its bytes are not the sealed ones. The page then says so."""
    try:
        return application.results.of(run_id)
    except UnknownRunError:
        return None


def _origin(request: Request, root: str) -> str | None:
    """Return the address of this service; ``None`` unless the host of the request is a plain host name."""
    host = request.url.netloc
    return f"{request.url.scheme}://{host}{root}" if _PLAIN_HOST.fullmatch(host) else None
