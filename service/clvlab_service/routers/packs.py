"""``/replay-packs``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from clvlab.api.answer import JsonObject
from clvlab.api.leaderboard import MeResponse
from clvlab.api.packs import PackFixturesResponse, ReplayPackInfo, ReplayPackListResponse, UploadedPack, UploadedPackList
from clvlab.api.runs import JobState
from clvlab.arena.fixtures import FixtureFilter
from clvlab.arena.jobs import OVER
from clvlab.arena.tables import PAGE
from clvlab.arena.uploads.archive import EMPTY
from clvlab.arena.uploads.requests import UploadRequest
from clvlab.errors import UploadRefusedError
from clvlab_service.deps import (
    JOB,
    LOCATION,
    SAFE_INTEGER,
    ApplicationDep,
    AuthenticatedRoute,
    CurrentPrincipal,
    CursorQuery,
    PageSizeQuery,
    Prefer,
    UploadPool,
    accepted_response,
    wait_for,
)
from clvlab_service.json_lists import ReadPlace
from clvlab_service.negotiation import (
    LIST,
    TABLE,
    Form,
    FormDep,
    Responses,
    RevalidatedRoute,
    RowsQuery,
    arrow_response,
    link_next,
    path_here,
)
from clvlab_service.openapi import problems
from clvlab_service.settings import Settings

# ``/me``.


me_router = APIRouter(prefix="/me", tags=["me"], route_class=AuthenticatedRoute)


@me_router.get("", operation_id="getMe", responses=problems(401))
def me(principal: CurrentPrincipal, application: ApplicationDep, request: Request) -> MeResponse:
    """Read the caller's DID, what the caller owns, and the limits that apply."""
    settings: Settings = request.app.state.settings
    return {
        "did": principal,
        **application.principals.belongings(principal),
        "limits": {"max_body_bytes": settings.max_body_bytes, "max_token_lifetime_s": settings.jwt_max_lifetime_s},
    }


router = APIRouter(prefix="/replay-packs", tags=["packs"], route_class=RevalidatedRoute)

_UNKNOWN = "Unknown or unverified pack"


@router.get("", operation_id="listReplayPacks", responses=LIST | problems(422))
def packs(
    request: Request,
    response: Response,
    application: ApplicationDep,
    cursor: CursorQuery = None,
    limit: PageSizeQuery = PAGE,
) -> ReplayPackListResponse:
    """List the packs of the catalog by id. Each one is hash-verified and on the allowlist."""
    found, next_cursor = application.packs.page(cursor, limit)
    link_next(request, response, cursor=next_cursor)
    return found


@router.get(
    "/{pack_id}",
    operation_id="getReplayPack",
    responses=problems(s404=_UNKNOWN),
)
def pack(pack_id: str, application: ApplicationDep) -> ReplayPackInfo:
    """Read one pack of the catalog."""
    return application.packs.info(pack_id)


@router.get(
    "/{pack_id}/fixtures",
    operation_id="listPackFixtures",
    response_model=PackFixturesResponse,
    responses=TABLE | problems(406, 422, s404=_UNKNOWN),
)
async def fixtures(
    pack_id: str,
    request: Request,
    response: Response,
    form: FormDep,
    application: ApplicationDep,
    place: ReadPlace,
    market: Annotated[
        str | None, Query(max_length=200, description="Only fixtures and markets whose market key has this prefix.")
    ] = None,
    after: Annotated[
        int | None, Query(ge=-SAFE_INTEGER, le=SAFE_INTEGER, description="Announced kickoff at or after this time.")
    ] = None,
    before: Annotated[
        int | None, Query(ge=-SAFE_INTEGER, le=SAFE_INTEGER, description="Announced kickoff before this time.")
    ] = None,
    cursor: CursorQuery = None,
    limit: RowsQuery = None,
) -> PackFixturesResponse | Response:
    """List the fixtures of a pack by id, 100 per page. Each has names, kickoff, markets and the quality of its ticks."""
    wanted = FixtureFilter(market, after, before)
    if form is Form.ARROW:
        return arrow_response(request, await place.run(application.packs.fixtures_as_arrow, pack_id, wanted, cursor, limit))
    found = await place.run(application.packs.fixtures, pack_id, wanted, cursor, limit or PAGE)
    link_next(request, response, cursor=found["next_cursor"])
    return found


# ``/me/packs``.


PATH = "/me/packs"
uploads_router = APIRouter(prefix=PATH, tags=["uploads"], route_class=AuthenticatedRoute)

_AT_ONCE = 1 << 20
_UNKNOWN_UPLOAD = "The caller has no such pack, or the service takes no uploads"
_OFF = "The service takes no uploads"
_BODY: JsonObject = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
_KEPT: Responses = {
    200: {"model": UploadedPack, "headers": LOCATION, "description": "The caller already has this content"},
    201: {"headers": LOCATION, "description": "The pack is stored"},
}


@uploads_router.post(
    "",
    operation_id="uploadPack",
    status_code=201,
    response_model=UploadedPack,
    responses=_KEPT
    | JOB
    | problems(
        401,
        413,
        422,
        s400="The body is not a valid pack (see `detail`), and nothing is stored",
        s404=_OFF,
        s408="The body did not arrive in time",
        s409="The id is taken, or the caller has reached a limit of packs or bytes; `reason` says which",
    ),
    openapi_extra=_BODY,
)
async def upload(
    request: Request,
    response: Response,
    principal: CurrentPrincipal,
    about: Annotated[UploadRequest, Query()],
    application: ApplicationDep,
    pool: UploadPool,
    prefer: Prefer,
) -> Any:
    """Upload a pack as an archive (zip, tar or tar.gz), or a file to import with `source`.

    The pack is verified before the answer, unless `Prefer` asks for an earlier answer.
    """
    uploads, ends_s = application.uploads, time.monotonic() + request.app.state.settings.upload_receive_s
    uploads.require_place(principal)  # a refusal now costs nothing, and the client need not send the body
    stream = request.stream()
    async with _in_time(request, ends_s):
        first = await anext((chunk async for chunk in stream if chunk), None)
    if first is None:
        raise UploadRefusedError(EMPTY)
    incoming = await run_in_threadpool(uploads.receive, principal, about)
    async with AsyncExitStack() as until:
        until.push_async_callback(run_in_threadpool, incoming.discard)
        async with _in_time(request, ends_s):
            async for data in _pieces(first, stream):
                await run_in_threadpool(incoming.write, data)
        if prefer.wait_s is None:
            found, new = await pool.run(uploads.keep, incoming)
        else:
            jobs = application.upload_jobs
            with pool.place():
                upload_id = await run_in_threadpool(jobs.enter, incoming, at_once=pool.is_free)
                inflight = pool.submit(upload_id, partial(jobs.settle, upload_id, incoming), principal)
                until.pop_all()  # the job discards it
            if not await wait_for(inflight, prefer, None):
                state = await run_in_threadpool(jobs.state, principal, upload_id)
                if state["status"] not in OVER:
                    return accepted_response(request, state, f"/me/uploads/{upload_id}", prefer)
            found, new = await run_in_threadpool(jobs.result, principal, upload_id)
    response.status_code = 201 if new else 200
    response.headers["Location"] = path_here(request, f"{PATH}/{quote(found['pack_id'], safe='')}")
    return found


@asynccontextmanager
async def _in_time(request: Request, ends_s: float) -> AsyncIterator[None]:
    """Receive a part of a body until a time of the monotonic clock."""
    try:
        async with asyncio.timeout(ends_s - time.monotonic()):
            yield
    except TimeoutError as error:
        seconds = request.app.state.settings.upload_receive_s
        raise HTTPException(408, f"the body did not arrive in {seconds:g} s", {"Connection": "close"}) from error
    except ClientDisconnect as error:
        raise HTTPException(400, "the body was broken off") from error  # the client has left, so only the log has it


async def _pieces(first: bytes, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Join the chunks of a body to pieces large enough for a write."""
    pieces = bytearray(first)
    async for chunk in stream:
        pieces += chunk
        if len(pieces) >= _AT_ONCE:
            yield bytes(pieces)
            pieces.clear()
    yield bytes(pieces)


uploaded_router = APIRouter(prefix="/me/uploads", tags=["uploads"], route_class=AuthenticatedRoute)
_UNKNOWN_JOB = "The caller has no such upload, or the service takes no uploads"


@uploaded_router.get("/{upload_id}", operation_id="getUpload", responses=problems(401, s404=_UNKNOWN_JOB))
def upload_state(upload_id: str, principal: CurrentPrincipal, application: ApplicationDep) -> JobState:
    """Read the progress of the verification of an upload. It has `pack_id` once the pack is stored."""
    return application.upload_jobs.state(principal, upload_id)


@uploaded_router.post(
    "/{upload_id}/cancel", operation_id="cancelUpload", responses=problems(401, s404=_UNKNOWN_JOB, s409="It is over")
)
def cancel_upload(upload_id: str, principal: CurrentPrincipal, application: ApplicationDep) -> JobState:
    """Cancel the verification of an upload. The upload is discarded."""
    return application.upload_jobs.cancel(principal, upload_id)


@uploads_router.get("", operation_id="listUploadedPacks", responses=problems(401, s404=_OFF))
def uploaded(principal: CurrentPrincipal, application: ApplicationDep) -> UploadedPackList:
    """List the caller's packs."""
    return application.uploads.all(principal)


@uploads_router.get("/{pack_id}", operation_id="getUploadedPack", responses=problems(401, s404=_UNKNOWN_UPLOAD))
def uploaded_pack(pack_id: str, principal: CurrentPrincipal, application: ApplicationDep) -> UploadedPack:
    """Read one of the caller's packs."""
    return application.uploads.info(principal, pack_id)


@uploads_router.delete(
    "/{pack_id}",
    operation_id="deleteUploadedPack",
    status_code=204,
    responses=problems(401, s404=_UNKNOWN_UPLOAD, s409="A competition or run that is not over needs this pack"),
)
def delete(pack_id: str, principal: CurrentPrincipal, application: ApplicationDep) -> None:
    """Delete one of the caller's packs. Sealed runs over it stay verifiable."""
    application.uploads.delete(principal, pack_id)
