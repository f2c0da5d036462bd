"""The short way to the route that is called most: an act in a seat, whose framework would take several times its own time."""

from __future__ import annotations

import re
from collections import deque

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clvlab.arena.seats.requests import SeatAction
from clvlab.errors import ClvlabError
from clvlab_service.bodies import parse
from clvlab_service.errors import known_problem
from clvlab_service.routers.seats import ACT, answer

_PATH = re.compile(r"/arena/seats/([^/]+)/actions")
_JSON = [b"application/json"]


class DirectActs:
    """Answers acts in seats before the routes do, whenever their answer is the same.

    A request that the route might refuse goes to the route, with what was read of its body: a query, a body that is not
    plain JSON, one of the wrong form or over the limit. So every refusal is made in one place. Errors of the caller's token
    and of the seat itself become their problem here as there.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = None
        if scope["type"] == "http" and scope["method"] == "POST" and not scope["query_string"]:
            found = _PATH.fullmatch(scope["path"].removeprefix(scope.get("root_path", "")))
        if found is None:
            await self._app(scope, receive, send)
            return
        state, authorization, is_plain = scope["app"].state, *_headers(scope)
        try:
            principal = await state.auth.principal(authorization)
            kept = _Kept(receive)
            action = await kept.action() if is_plain else None
            if action is None:
                await self._app(scope, kept, send)
                return
            scope["route"] = ACT
            response = await answer(state.application.seats, principal, found[1], action)
        except ClvlabError as error:
            scope["route"] = ACT
            response = known_problem(Request(scope), error)
        await response(scope, receive, send)


def _headers(scope: Scope) -> tuple[str | None, bool]:
    """Return the first ``Authorization``, and whether the body is stated to be JSON without a coding."""
    authorization, types, is_coded = None, [], False
    for name, value in scope["headers"]:
        if name == b"authorization" and authorization is None:
            authorization = value.decode("latin-1")
        elif name == b"content-type":
            types.append(value)
        elif name == b"content-encoding":
            is_coded = True
    return authorization, types == _JSON and not is_coded


class _Kept:
    """Messages of a request, which are read once and then received again from the first one."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._read: deque[Message] = deque()
        self._error: HTTPException | None = None

    async def action(self) -> SeatAction | None:
        """Read the body; ``None`` if the route has to say what is wrong with it."""
        body, more = b"", True
        try:
            while more:
                message = await self._receive()
                self._read.append(message)
                if message["type"] != "http.request":
                    return None
                body += message.get("body", b"")
                more = message.get("more_body", False)
        except HTTPException as error:  # a body over the limit
            self._error = error
            return None
        try:
            return SeatAction.model_validate(parse(body))
        except (HTTPException, ValidationError):
            return None

    async def __call__(self) -> Message:
        if self._read:
            return self._read.popleft()
        if self._error is not None:
            raise self._error
        return await self._receive()
