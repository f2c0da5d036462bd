"""What routes ask for: the application, the pools, the caller; and routes that authenticate before they read a body."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from clvlab.application.application import Application
from clvlab_service.pool import BoundedPool

_bearer = HTTPBearer(
    auto_error=False, bearerFormat="JWT", scheme_name="bearer", description="A JWT of the identity provider; `sub` is a DID."
)


async def _application(request: Request) -> Application:
    application: Application = request.app.state.application
    return application


async def _public_pool(request: Request) -> BoundedPool:
    pool: BoundedPool = request.app.state.public_pool
    return pool


async def _owner_pool(request: Request) -> BoundedPool:
    pool: BoundedPool = request.app.state.owner_pool
    return pool


async def _upload_pool(request: Request) -> BoundedPool:
    pool: BoundedPool = request.app.state.upload_pool
    return pool


async def _principal(request: Request, _: Annotated[object, Security(_bearer)]) -> str:
    principal: str = request.state.principal
    return principal


ApplicationDep = Annotated[Application, Depends(_application)]
PublicPool = Annotated[BoundedPool, Depends(_public_pool)]
OwnerPool = Annotated[BoundedPool, Depends(_owner_pool)]
UploadPool = Annotated[BoundedPool, Depends(_upload_pool)]
CurrentPrincipal = Annotated[str, Depends(_principal)]
"""DID of the caller, on an ``AuthenticatedRoute``."""

CursorQuery = Annotated[str | None, Query(max_length=500, description="`next_cursor` of the page before.")]
PageSizeQuery = Annotated[int, Query(ge=1, le=200, description="Entries of a page.")]


class AuthenticatedRoute(APIRoute):
    """Verifies the token before the framework reads, let alone parses, the body."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def authenticated(request: Request) -> Response:
            request.state.principal = await request.app.state.auth.principal(request.headers.get("authorization"))
            return await handler(request)

        return authenticated
