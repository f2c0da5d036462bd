"""``/me/packs``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from clvlab.answers.uploads import UploadedPack, UploadedPackList
from clvlab.application.uploads.incoming import Incoming
from clvlab.application.uploads.requests import UploadRequest
from clvlab_service.deps import ApplicationDep, AuthenticatedRoute, CurrentPrincipal, UploadPool
from clvlab_service.openapi import problems
from clvlab_service.waiting import LOCATION, path_here

PATH = "/me/packs"
router = APIRouter(prefix=PATH, tags=["uploads"], route_class=AuthenticatedRoute)

_AT_ONCE = 1 << 20
_UNKNOWN = "No such pack of the caller, or the service takes no uploads"
_OFF = "The service takes no uploads"
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
_KEPT: dict[int | str, dict[str, Any]] = {
    200: {"model": UploadedPack, "headers": LOCATION, "description": "The caller has this content already"},
    201: {"headers": LOCATION, "description": "Kept"},
}


@router.post(
    "",
    operation_id="uploadPack",
    status_code=201,
    responses=_KEPT
    | problems(
        401,
        413,
        422,
        s400="No sound pack can be made of the body; `detail` says what is wrong, and nothing is kept",
        s404=_OFF,
        s408="The body did not arrive in time",
        s409="The id is taken, or the caller has all the packs or bytes that are allowed: `reason` says which",
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
) -> UploadedPack:
    """Upload a pack: an archive of it (zip, tar or tar.gz), or with `source` a file to import. Verified before the answer."""
    incoming = await run_in_threadpool(application.uploads.receive, principal, about)
    try:
        await _receive(request, incoming, request.app.state.settings.upload_receive_s)
        found, new = await pool.run(application.uploads.keep, incoming)
    finally:
        await run_in_threadpool(incoming.discard)
    response.status_code = 201 if new else 200
    response.headers["Location"] = path_here(request, f"{PATH}/{quote(found['pack_id'], safe='')}")
    return found


async def _receive(request: Request, incoming: Incoming, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            async for data in _pieces(request.stream()):
                await run_in_threadpool(incoming.write, data)
    except TimeoutError as error:
        raise HTTPException(408, f"the body did not arrive in {seconds:g} s", {"Connection": "close"}) from error
    except ClientDisconnect as error:
        raise HTTPException(400, "the body was broken off") from error  # nobody reads it but the log


async def _pieces(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Join the chunks of a body to pieces that are worth a write each."""
    pieces = bytearray()
    async for chunk in stream:
        pieces += chunk
        if len(pieces) >= _AT_ONCE:
            yield bytes(pieces)
            pieces.clear()
    yield bytes(pieces)


@router.get("", operation_id="listUploadedPacks", responses=problems(401, s404=_OFF))
def uploaded(principal: CurrentPrincipal, application: ApplicationDep) -> UploadedPackList:
    """List the caller's packs."""
    return application.uploads.all(principal)


@router.get("/{pack_id}", operation_id="getUploadedPack", responses=problems(401, s404=_UNKNOWN))
def uploaded_pack(pack_id: str, principal: CurrentPrincipal, application: ApplicationDep) -> UploadedPack:
    """Read one of the caller's packs."""
    return application.uploads.info(principal, pack_id)


@router.delete(
    "/{pack_id}",
    operation_id="deleteUploadedPack",
    status_code=204,
    responses=problems(401, s404=_UNKNOWN, s409="A competition or run that is not over needs it"),
)
def delete(pack_id: str, principal: CurrentPrincipal, application: ApplicationDep) -> None:
    """Delete one of the caller's packs; sealed runs over it stay verifiable."""
    application.uploads.delete(principal, pack_id)
