"""``/arena/seats``."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

import orjson
from fastapi import APIRouter, Body, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.routing import BaseRoute

from clvlab.api.seats import SeatAnswer, SeatChain, SeatInfo, SeatListResponse, SeatStart
from clvlab.arena.pages import PAGE
from clvlab.arena.seats.requests import SeatAction, SeatRequest
from clvlab.arena.seats.seats import Seats
from clvlab_service.deps import (
    CREATED,
    ApplicationDep,
    AuthenticatedRoute,
    CurrentPrincipal,
    CursorQuery,
    PageSizeQuery,
)
from clvlab_service.negotiation import LIST, link_next, path_here
from clvlab_service.openapi import problems

router = APIRouter(prefix="/arena/seats", tags=["seats"], route_class=AuthenticatedRoute)

_LOOK_S = 0.1
_UNKNOWN = "Unknown seat, or the caller is not its owner"
_EXAMPLE = {"agent_id": "underdog", "pack_id": "starter", "blind": "aliased"}
_SILENCE: dict[str, object] = {"tick": 1, "decisions": []}
_ACTION = {"tick": 1, "decisions": [{"action": "BACK", "side": "s-16f9fbf6de0c159d", "confidence": 0.4}]}


@router.post(
    "",
    operation_id="takeSeat",
    status_code=201,
    responses=CREATED
    | problems(400, 401, 413, 422, 429, 507, s404="Unknown pack", s409="Every fixture of the held-back pack was dealt"),
)
def take(
    request: Request,
    response: Response,
    principal: CurrentPrincipal,
    body: Annotated[SeatRequest, Body(examples=[_EXAMPLE])],
    application: ApplicationDep,
) -> SeatStart:
    """Take a seat: an agent that runs elsewhere answers one price update of a pack at a time.

    The run log commits to its run first. The answer has the first tick. Each later tick is sent once the answer to the
    previous one is stored.
    """
    started = application.seats.take(principal, body)
    response.headers["Location"] = path_here(request, f"/arena/seats/{started['seat_id']}")
    return started


@router.get("", operation_id="listSeats", responses=LIST | problems(401, 422))
def own_seats(
    request: Request,
    response: Response,
    principal: CurrentPrincipal,
    application: ApplicationDep,
    cursor: CursorQuery = None,
    limit: PageSizeQuery = PAGE,
) -> SeatListResponse:
    """List the caller's seats, newest first."""
    found = application.seats.page(principal, cursor, limit)
    link_next(request, response, cursor=found["next_cursor"])
    return found


@router.get("/{seat_id}", operation_id="getSeat", responses=problems(401, 422, s404=_UNKNOWN))
async def seat(
    seat_id: str,
    principal: CurrentPrincipal,
    application: ApplicationDep,
    wait_s: Annotated[int, Query(ge=0, le=30, description="Longest wait for the next tick of a live seat.")] = 0,
) -> SeatInfo:
    """Read a seat. It has its open tick while it plays, and its secret and fixtures once its run is sealed.

    With `wait_s`, the answer of a live seat waits for its next tick, for its end, or for that time.
    """
    until_s = time.monotonic() + wait_s
    while True:
        found = await run_in_threadpool(application.seats.seat, principal, seat_id)
        left_s = until_s - time.monotonic()
        if found["next"] is not None or found["status"] != "playing" or left_s <= 0:
            return found
        await asyncio.sleep(min(_LOOK_S, left_s))


@router.post(
    "/{seat_id}/actions",
    operation_id="actInSeat",
    response_model=SeatAnswer,
    responses=problems(
        401,
        413,
        422,
        s400="The body can't be read, or a decision names what the seat has not shown, or repeats another",
        s404=_UNKNOWN,
        s409="The tick already has a different answer or was not sent yet, or the seat is over",
    ),
    openapi_extra={"security": [{"bearer": []}]},
)
async def act(seat_id: str, request: Request, body: Annotated[SeatAction, Body(examples=[_SILENCE, _ACTION])]) -> Response:
    """Answer the open tick with decisions or without any, and get the next tick.

    Repeating an answer returns the same response. An answer after the deadline is not recorded, and its tick is missed.
    """
    return await answer(request.app.state.application.seats, request.state.principal, seat_id, body)


ACT: BaseRoute = router.routes[-1]


async def answer(seats: Seats, principal: str, seat_id: str, action: SeatAction) -> Response:
    """Answer the open tick of a seat, on another thread if something must be read from a disk first."""
    if seats.is_known(seat_id, action.tick):
        prepared = seats.prepared(principal, seat_id, action)
    else:
        prepared = await run_in_threadpool(seats.prepared, principal, seat_id, action)
    return Response(orjson.dumps(await seats.answer(prepared)), media_type="application/json")


@router.delete(
    "/{seat_id}",
    operation_id="withdrawSeat",
    status_code=204,
    responses=problems(401, s404=_UNKNOWN, s409="The seat is over"),
)
def withdraw(seat_id: str, principal: CurrentPrincipal, application: ApplicationDep) -> None:
    """Give up a seat. The run log records that it was abandoned, and after how many ticks."""
    application.seats.withdraw(principal, seat_id)


@router.get(
    "/{seat_id}/chain",
    operation_id="getSeatChain",
    responses=problems(401, s404=_UNKNOWN, s409="Its run is not sealed yet"),
)
def chain(seat_id: str, principal: CurrentPrincipal, application: ApplicationDep) -> SeatChain:
    """Read the whole chain of a seat: its ticks, decisions and heads, and the entries of the run log that hold them."""
    return application.seats.chain(principal, seat_id)
