"""Dependencies of routes: the application, the pools and the caller; and routes that authenticate before reading a body."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any

from fastapi import Depends, Header, Query, Request, Response, Security
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from pydantic import WithJsonSchema

from clvlab.api.runs import JobState
from clvlab.arena.application import Application
from clvlab.arena.jobs import RETRY_AFTER_S
from clvlab_service.bodies import JsonRoute
from clvlab_service.negotiation import Responses, path_here
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


async def _any_principal(request: Request) -> str | None:
    principal: str | None = request.state.principal
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
AnyPrincipal = Annotated[str | None, Depends(_any_principal)]
"""DID of the caller, or ``None`` without a token, on an ``OpenRoute``."""

CursorQuery = Annotated[
    str | None, Query(max_length=2000, description="Place after the previous page, from its header `Link`.")
]
PageSizeQuery = Annotated[int, Query(ge=1, le=200, description="Entries per page.")]
NameQuery = Annotated[str | None, Query(max_length=200)]
SAFE_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader keeps exact."""


class AuthenticatedRoute(JsonRoute):
    """Verifies the token before the framework reads the body."""

    needs_token = True

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def authenticated(request: Request) -> Response:
            header = request.headers.get("authorization")
            is_anybody = header is None and not self.needs_token
            request.state.principal = None if is_anybody else await request.app.state.auth.principal(header)
            return await handler(request)

        return authenticated


class OpenRoute(AuthenticatedRoute):
    """Verifies a token if there is one: a caller with a bad one must not take the work for its own.

    The document names no security scheme, as generated clients would then refuse callers without a token.
    """

    needs_token = False


# The time for which a request waits for work that continues without it, by its header ``Prefer`` (RFC 7240).


_WAIT = re.compile(r'wait\s*=\s*"?(\d{1,9})"?', re.IGNORECASE)
_LONGEST_S = 60


@dataclass(frozen=True, slots=True)
class Preference:
    """The preferences of a request.

    Attributes
    ----------
    wait_s
        Seconds to wait for the answer; with ``None`` the route decides.
    applied
        Value of ``Preference-Applied`` in an answer that followed the preference.
    """

    wait_s: float | None = None
    applied: str | None = None


def _preference(
    prefer: Annotated[
        list[str] | None,  # a repeated header is one list; the OpenAPI document shows a text
        WithJsonSchema({"type": "string"}),
        Header(alias="Prefer", description="`respond-async`: answer at once; `wait=N`: wait up to N seconds (RFC 7240)."),
    ] = None,
) -> Preference:
    preferences = [part.partition(";")[0].strip() for part in ",".join(prefer or ()).split(",")]  # without parameters
    wait = next((found for part in preferences if (found := _WAIT.fullmatch(part))), None)
    if wait is not None:
        wait_s = min(int(wait[1]), _LONGEST_S)
        return Preference(wait_s, f"wait={wait_s}")
    if any(part.lower() == "respond-async" for part in preferences):
        return Preference(0, "respond-async")
    return Preference()


Prefer = Annotated[Preference, Depends(_preference)]


LOCATION = {"Location": {"schema": {"type": "string"}, "description": "Path of the state of the work."}}
REPEATED = {
    "Idempotent-Replayed": {
        "schema": {"type": "string", "enum": ["true"]},
        "description": "`true` if the idempotency key had this answer already; absent otherwise.",
    }
}
ACCEPTED = LOCATION | {
    "Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."},
    "Preference-Applied": {"schema": {"type": "string"}, "description": "The part of `Prefer` that was followed."},
}
"""Headers of an answer while the work continues."""
CREATED: Responses = {201: {"headers": LOCATION, "description": "Created"}}
"""Declaration of the answer to a request that made something."""
JOB: Responses = {202: {"model": JobState, "headers": ACCEPTED, "description": "Unfinished; read `Location` for the state"}}
"""Declaration of the answer while the work continues."""


def repeated(is_repeated: bool) -> dict[str, str]:  # noqa: FBT001  # the header is this one fact
    """Return the header of an answer that an idempotency key repeated."""
    return {"Idempotent-Replayed": "true"} if is_repeated else {}


def keyed(model: object, known: str) -> Responses:
    """Declare the answers of success of a route with an idempotency key; ``known`` says what 200 means."""
    headers = LOCATION | REPEATED
    return {
        200: {"model": model, "headers": headers, "description": known},
        201: {"headers": headers, "description": "Created"},
        202: {**JOB[202], "headers": ACCEPTED | REPEATED},
    }


async def wait_for(inflight: asyncio.Future[Any], prefer: Preference, default_s: float | None) -> bool:
    """Wait for work, and return whether it is over.

    The request may prefer a time; otherwise ``default_s`` applies, and ``None`` waits without end.

    Raises
    ------
    Exception
        The work failed; its own error is raised.
    """
    done, _ = await asyncio.wait({inflight}, timeout=default_s if prefer.wait_s is None else prefer.wait_s)
    for over in done:
        over.result()
    return bool(done)


def accepted_response(
    request: Request,
    state: Mapping[str, Any],
    path: str,
    prefer: Preference | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> JSONResponse:
    """Answer that the work continues, with the address of what it makes."""
    headers = {"Location": path_here(request, path), "Retry-After": str(RETRY_AFTER_S), **headers}
    if prefer is not None and prefer.applied:
        headers["Preference-Applied"] = prefer.applied
    return JSONResponse(state, 202, headers)
