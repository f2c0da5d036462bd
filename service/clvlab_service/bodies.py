"""Bodies of requests: JSON in UTF-8, and nothing that only looks like it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

_JSON = re.compile(r"\s*application/([\w!#$&^.+-]+\+)?json\s*(;.*)?", re.IGNORECASE | re.ASCII)  # suffix: RFC 6839, 3.1
_UNREADABLE = "the request body can't be read as JSON: "
_MAX_SHOWN = 100


class JsonRoute(APIRoute):
    """Reads a body as JSON if it says that it is, and refuses another: 415 by its type, 400 by its content."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def reading(request: Request) -> Response:
            return await handler(_JsonRequest(request.scope, request.receive))

        return reading


class _JsonRequest(Request):
    """A request as the framework reads it: first the body, and that as JSON if a body is declared and one was sent."""

    async def body(self) -> bytes:
        body = await super().body()
        if body:
            _refuse_other_forms(self.headers)
        return body

    async def json(self) -> Any:
        return _parsed(await super().body())


def _refuse_other_forms(headers: Headers) -> None:
    """Refuse a media type or coding that is not read (RFC 9110, section 15.5.16).

    Without a type it is refused too: a page of another site can send such a body without asking, as it can a form or text.
    """
    coding = headers.get("content-encoding", "identity")
    if coding.lower() != "identity":
        detail = f"the request body has the Content-Encoding {coding[:_MAX_SHOWN]!r}: send it without one"
        raise HTTPException(415, detail, {"Accept-Encoding": "identity"})
    types = list(dict.fromkeys(headers.getlist("content-type")))
    if len(types) != 1 or not _JSON.fullmatch(types[0]):
        given = " and ".join(repr(media_type[:_MAX_SHOWN]) for media_type in types[:5]) or "no Content-Type"
        detail = f"the request body is sent as {given}: send JSON as Content-Type: application/json"
        raise HTTPException(415, detail, {"Accept": "application/json"})


def _parsed(body: bytes) -> Any:
    """Read JSON as RFC 8259 has it: UTF-8, no NaN, and no object with the same name twice, of which one would be lost."""
    try:
        text = body.decode("utf-8-sig")  # a byte order mark may be passed over: section 8.1
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise HTTPException(400, f"{_UNREADABLE}byte {error.start} is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise HTTPException(400, f"{_UNREADABLE}{error.msg}, line {error.lineno} column {error.colno}") from error
    except RecursionError as error:
        raise HTTPException(400, f"{_UNREADABLE}it is nested too deeply") from error
    except _NotJsonError as error:
        raise HTTPException(400, f"{_UNREADABLE}{error}") from error
    except ValueError as error:
        raise HTTPException(400, f"{_UNREADABLE}an integer has more digits than are read") from error


class _NotJsonError(Exception):
    """A value that the parser takes and the standard does not."""


def _refuse_constant(name: str) -> NoReturn:
    raise _NotJsonError(f"{name} is not a JSON value")


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for name, value in members:
        if name in read:
            raise _NotJsonError(f"the name {name[:_MAX_SHOWN]!r} stands twice in an object")
        read[name] = value
    return read
