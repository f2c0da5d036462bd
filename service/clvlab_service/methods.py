"""Methods of a path: HEAD as the GET without its body, OPTIONS, and what ``Allow`` names (RFC 9110, section 9)."""

from __future__ import annotations

from fastapi.routing import iter_route_contexts
from starlette.responses import Response
from starlette.routing import Match, Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_FILES = ("GET",)  # what mounted files are asked by


class _HeadersSentError(Exception):
    """All of the answer to a HEAD is sent: what would still be made of its body is not needed."""


class Methods:
    """Answers HEAD of every path that has a GET, and OPTIONS of every path."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope.get("method")
        if method == "HEAD":
            await self._head(scope, receive, send)
        elif method == "OPTIONS" and (allowed := allowed_methods(scope)):
            await Response(status_code=204, headers={"Allow": ", ".join(allowed)})(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _head(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A copy, since the server and the log are to see the method that was sent.
        asked = {**scope, "method": "GET"}

        async def without_body(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                return
            await send({"type": "http.response.body", "body": b""})
            if message.get("more_body", False):
                raise _HeadersSentError

        try:
            await self._app(asked, receive, without_body)
        except _HeadersSentError:
            pass
        finally:
            scope.update({name: asked[name] for name in ("route", "endpoint") if name in asked})


def allowed_methods(scope: Scope) -> list[str]:
    """Return what ``Allow`` names: the methods of all routes at the path of a request, sorted; none where no route is."""
    whole = {**scope, "root_path": scope.get("app_root_path", scope.get("root_path", ""))}  # also from within a mount
    methods: set[str] = set()
    for route in iter_route_contexts(scope["app"].routes):
        if getattr(route.original_route, "is_page", False):  # a form of an answer, and not a path of its own
            continue
        if route.matches(whole)[0] is not Match.NONE:
            methods |= set(_FILES if isinstance(route.original_route, Mount) else route.methods or ())
    if "GET" in methods:
        methods.add("HEAD")
    return sorted(methods | {"OPTIONS"}) if methods else []
