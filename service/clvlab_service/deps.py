"""What routes ask for: the application, the pools, the caller; and routes that authenticate before they read a body."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Header, Query, Request, Response, Security
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from pydantic import WithJsonSchema

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


# How long a request waits for work that goes on without it, as it prefers (RFC 7240).


_WAIT = re.compile(r'wait\s*=\s*"?(\d{1,9})"?', re.IGNORECASE)
_LONGEST_S = 60


@dataclass(frozen=True, slots=True)
class Preference:
    """What a request prefers.

    Attributes
    ----------
    wait_s
        Seconds to wait for the answer; null leaves it to the route.
    applied
        Value of ``Preference-Applied`` in an answer that followed it.
    """

    wait_s: float | None = None
    applied: str | None = None


def _preference(
    prefer: Annotated[
        list[str] | None,  # a header that comes several times is one list; to a document it is a text
        WithJsonSchema({"type": "string"}),
        Header(alias="Prefer", description="`respond-async`: answer at once; `wait=N`: wait up to N seconds (RFC 7240)."),
    ] = None,
) -> Preference:
    preferences = [part.partition(";")[0].strip() for part in ",".join(prefer or ()).split(",")]  # parameters are not for us
    wait = next((found for part in preferences if (found := _WAIT.fullmatch(part))), None)
    if wait is not None:
        wait_s = min(int(wait[1]), _LONGEST_S)
        return Preference(wait_s, f"wait={wait_s}")
    if any(part.lower() == "respond-async" for part in preferences):
        return Preference(0, "respond-async")
    return Preference()


Prefer = Annotated[Preference, Depends(_preference)]


OVER = ("sealed", "failed", "removed")
"""Statuses of a run to which nothing is added."""

LOCATION = {"Location": {"schema": {"type": "string"}, "description": "Path to ask at."}}
ACCEPTED = LOCATION | {
    "Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."},
    "Preference-Applied": {"schema": {"type": "string"}, "description": "The part of `Prefer` that was followed."},
}
"""Headers of an answer that work goes on."""


def path_here(request: Request, path: str) -> str:
    """Return a path of the service as its clients see it, behind a proxy too."""
    root = str(request.scope.get("root_path", "")).rstrip("/")
    return root + path


async def wait_for(inflight: asyncio.Future[Any], prefer: Preference, default_s: float | None) -> bool:
    """Wait for work as long as the request prefers, or so many seconds, null without end; returns whether it is over.

    Raises
    ------
    Exception
        What the work raised.
    """
    done, _ = await asyncio.wait({inflight}, timeout=default_s if prefer.wait_s is None else prefer.wait_s)
    for over in done:
        over.result()
    return bool(done)


def accepted_response(request: Request, state: Mapping[str, Any], path: str, prefer: Preference | None = None) -> JSONResponse:
    """Answer that work goes on, and where to ask for it."""
    headers = {"Location": path_here(request, path), "Retry-After": "1"}
    if prefer is not None and prefer.applied:
        headers["Preference-Applied"] = prefer.applied
    return JSONResponse(state, 202, headers)
