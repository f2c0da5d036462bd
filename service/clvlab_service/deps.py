"""What routes ask for: the application, the pools, the caller; and routes that authenticate before they read a body."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response, Security
from fastapi.security import HTTPBearer

from clvlab.arena.application import Application
from clvlab_service.bodies import JsonRoute
from clvlab_service.pool import BoundedPool

_bearer = HTTPBearer(
    auto_error=False, bearerFormat="JWT", scheme_name="bearer", description="A JWT of the identity provider; `sub` is a DID."
)


async def _application(request: Request) -> Application:
    application: Application = request.app.state.application
    return application


def _pool(name: str) -> Callable[[Request], Coroutine[Any, Any, BoundedPool]]:
    async def pool(request: Request) -> BoundedPool:
        found: BoundedPool = request.app.state.pools[name]
        return found

    return pool


async def _principal(request: Request, _: Annotated[object, Security(_bearer)]) -> str:
    principal: str = request.state.principal
    return principal


ApplicationDep = Annotated[Application, Depends(_application)]
BacktestPool = Annotated[BoundedPool, Depends(_pool("backtests"))]
ProofPool = Annotated[BoundedPool, Depends(_pool("proofs"))]
SheetPool = Annotated[BoundedPool, Depends(_pool("sheets"))]
OwnerPool = Annotated[BoundedPool, Depends(_pool("owner"))]
HealthPool = Annotated[BoundedPool, Depends(_pool("health"))]
MeasuresPool = Annotated[BoundedPool, Depends(_pool("measures"))]
UploadPool = Annotated[BoundedPool, Depends(_pool("uploads"))]
CurrentPrincipal = Annotated[str, Depends(_principal)]
"""DID of the caller, on an ``AuthenticatedRoute``."""

CursorQuery = Annotated[str | None, Query(max_length=500, description="`next_cursor` of the previous page.")]
PageSizeQuery = Annotated[int, Query(ge=1, le=200, description="Entries per page.")]
NameQuery = Annotated[str | None, Query(max_length=200)]
SAFE_INTEGER = 2**53 - 1
"""The largest that JSON carries exactly everywhere."""


class AuthenticatedRoute(JsonRoute):
    """Verifies the token before the framework reads, let alone parses, the body."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def authenticated(request: Request) -> Response:
            request.state.principal = await request.app.state.auth.principal(request.headers.get("authorization"))
            return await handler(request)

        return authenticated
