"""Pages ``/runs/{run_id}/decisions`` and ``/runs/{run_id}/actions/{seq}``."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Request, Response
from pydantic import BeforeValidator

from clvlab.application.application import Application
from clvlab.application.runs.arithmetic import arithmetic
from clvlab.application.runs.decisions import DecisionFilter, Order, Reason
from clvlab.application.tables import MAX_PAGE, PAGE
from clvlab.words import REASON_FINDINGS
from clvlab_service.deps import SAFE_INTEGER, ApplicationDep, CursorQuery
from clvlab_service.pages.route import page_router
from clvlab_service.parameters import shortened
from clvlab_service.reading import ReadPlace
from clvlab_service.rendering import page

router = page_router()

_ORDERS = {Order.SEQ: "as sealed", Order.CLV: "lowest CLV first", Order.CLV_DESCENDING: "highest CLV first"}
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
    found = application.decisions.page(run_id, wanted, sort, cursor, limit or PAGE)
    asked = {name: getattr(wanted, name) for name in DecisionFilter.__slots__} | {"sort": sort.value, "limit": limit}
    if wanted.valid is not None:
        asked["valid"] = "true" if wanted.valid else "false"
    shown = {**found, "wanted": asked, "cursor": cursor, "reasons": list(Reason), "orders": _ORDERS}
    return page(request, "decisions.html", shown)


@router.get("/runs/{run_id}/actions/{seq}")
def decision(
    run_id: str, seq: Annotated[int, BeforeValidator(shortened), Path()], request: Request, application: ApplicationDep
) -> Response:
    """Show one decision: what was known, what was proposed, how the law scores it, and what was only claimed."""
    record = application.runs.inspect(run_id, seq)
    said = REASON_FINDINGS.get(record["recompute"]["reason"])
    return page(request, "decision.html", {"record": record, "seq": seq, "steps": arithmetic(record), "said": said})
