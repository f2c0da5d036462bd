"""``/mcp`` for callers with a token and ``/mcp/practice`` for anybody, as routes of the service, within its limits."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware, get_access_token
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.exceptions import HTTPException
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.responses import JSONResponse
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from clvlab_service.auth import Authenticator, InvalidTokenError
from clvlab_service.mcp.server import Context, server
from clvlab_service.mcp.tools import Desk
from clvlab_service.settings import LOOPBACK, Settings, subscriber
from clvlab_service.telemetry import LogForwarder

PATH, PRACTICE = "/mcp", "/mcp/practice"
_UNLIMITED = 1 << 40  # the service's own limit of a body comes first


class _Tokens(TokenVerifier):
    """The service's tokens, for the SDK."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    async def verify_token(self, token: str) -> AccessToken | None:
        try:
            owner = await self._authenticator.principal(f"Bearer {token}")
        except InvalidTokenError:
            return None
        return AccessToken(token=token, client_id=owner, subject=owner, scopes=[])


class _McpRoute(Route):
    """A route that an ASGI application answers, with its name in metrics and in the log."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, inner = super().matches(scope)
        return match, {**inner, "route": self}


def _with_faults(app: ASGIApp) -> ASGIApp:
    """Say what the service refuses, such as a body over its limit, in the form of the protocol, so that clients show it."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except HTTPException as error:
            fault = types.ErrorData(code=types.INVALID_REQUEST, message=str(error.detail))
            body = types.JSONRPCError(jsonrpc="2.0", id=None, error=fault).model_dump(by_alias=True, exclude_none=True)
            await JSONResponse({**body, "id": None}, error.status_code, error.headers)(scope, receive, send)

    return answer


def install_mcp(app: FastAPI, settings: Settings) -> Callable[[], Any]:
    """Add both routes to an app; returns a context in which they answer."""

    async def work(pool: str, function: Any, *args: Any, **kwargs: Any) -> Any:
        if not pool:
            return await run_in_threadpool(function, *args, **kwargs)
        return await app.state.pools[pool].run(function, *args, **kwargs)

    def of_owner(_: Context) -> Desk:
        token, application = get_access_token(), app.state.application
        assert token is not None  # noqa: S101  # the SDK refuses a request without one
        return Desk(application, application.laboratory, token.client_id, work)

    def of_anybody(context: Context) -> Desk:
        client = None if context.request is None else context.request.client
        application = app.state.application
        return Desk(application, application.practice, subscriber(client.host if client else ""), work)

    owners, anybody = (_manager(desk_of, settings) for desk_of in (of_owner, of_anybody))
    owned = AuthContextMiddleware(RequireAuthMiddleware(owners.handle_request, []))
    guarded = AuthenticationMiddleware(owned, backend=BearerAuthBackend(_Tokens(app.state.auth)))
    for path, inner in ((PATH, guarded), (PRACTICE, anybody.handle_request)):  # first: each route before them would be tried
        app.router.routes.insert(0, _McpRoute(path, _Endpoint(_with_faults(inner)), methods=["POST"], include_in_schema=False))

    @asynccontextmanager
    async def answering() -> AsyncIterator[None]:
        log, forward = logging.getLogger("mcp"), LogForwarder(app.state.log)
        log.addHandler(forward)
        propagated, log.propagate = log.propagate, False
        try:
            async with owners.run(), anybody.run():
                yield
        finally:
            log.removeHandler(forward)
            log.propagate = propagated

    return answering


class _Endpoint:
    """An ASGI application as the endpoint of a route, which takes functions for handlers of requests."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def _manager(desk_of: Callable[[Context], Desk], settings: Settings) -> StreamableHTTPSessionManager:
    return StreamableHTTPSessionManager(
        server(desk_of),
        json_response=True,
        stateless=True,
        security_settings=_security(settings),
        max_request_body_size=_UNLIMITED,
    )


def _security(settings: Settings) -> TransportSecuritySettings:
    """Accept requests for this machine and for the hosts of the settings: a page of another site can't reach them by DNS."""
    hosts = [f"[{host}]" if ":" in host else host for host in (*LOOPBACK, *settings.mcp_hosts)]
    origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
    return TransportSecuritySettings(
        allowed_hosts=[*hosts, *(f"{host}:*" for host in hosts)],
        allowed_origins=[*origins, *(f"{origin}:*" for origin in origins), *settings.cors_origins],
    )
