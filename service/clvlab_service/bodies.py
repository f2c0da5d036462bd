"""Bodies of requests: JSON in UTF-8, and nothing that only looks like it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NoReturn, get_args, get_origin

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.requests import HTTPConnection
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic_core import ErrorDetails
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from clvlab.api.answer import JsonObject

_JSON = re.compile(r"\s*application/([\w!#$&^.+-]+\+)?json\s*(;.*)?", re.IGNORECASE | re.ASCII)  # suffix: RFC 6839, 3.1
_UNREADABLE = "the request body can't be read as JSON: "
_MAX_EXCERPT = 100


class JsonRoute(APIRoute):
    """Reads a body as JSON if it says that it is, and refuses another: 415 by its type, 400 by its content."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            return await handler(_JsonRequest(request.scope, request.receive))

        return handle_json


class _JsonRequest(Request):
    """A request as the framework reads it: first the body, and that as JSON if a body is declared and one was sent."""

    async def body(self) -> bytes:
        body = await super().body()
        if body:
            _refuse_other_forms(self.headers)
        return body

    async def json(self) -> Any:
        return _parse(await super().body())


def _refuse_other_forms(headers: Headers) -> None:
    """Refuse a media type or coding that is not read (RFC 9110, section 15.5.16).

    Without a type it is refused too: a page of another site can send such a body without asking, as it can a form or text.
    """
    coding = headers.get("content-encoding", "identity")
    if coding.lower() != "identity":
        detail = f"the request body has the Content-Encoding {coding[:_MAX_EXCERPT]!r}: send it without one"
        raise HTTPException(415, detail, {"Accept-Encoding": "identity"})
    types = list(dict.fromkeys(headers.getlist("content-type")))
    if len(types) != 1 or not _JSON.fullmatch(types[0]):
        stated = " and ".join(repr(media_type[:_MAX_EXCERPT]) for media_type in types[:5]) or "no Content-Type"
        detail = f"the request body is sent as {stated}: send JSON as Content-Type: application/json"
        raise HTTPException(415, detail, {"Accept": "application/json"})


def _parse(body: bytes) -> Any:
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


def _object(members: list[tuple[str, Any]]) -> JsonObject:
    read: JsonObject = {}
    for name, value in members:
        if name in read:
            raise _NotJsonError(f"the name {name[:_MAX_EXCERPT]!r} stands twice in an object")
        read[name] = value
    return read


# Query parameters: those that a route declares, each once, and no others.


_MOST_DIGITS = 100
_SEVERAL = (list, set, frozenset, tuple, Sequence)


def shortened(text: str) -> str:
    """Leave of a number that is longer than any decision's what an integer holds: it is unknown either way."""
    return text[:_MOST_DIGITS] if text.lstrip("-").isdecimal() else text


async def only_declared(connection: HTTPConnection) -> None:
    """Refuse a query with a parameter that the route does not declare, or with a single one that stands twice.

    A misspelt filter that is ignored gives a wrong answer that looks right.

    Raises
    ------
    RequestValidationError
        Names every such parameter.
    """
    query, route = connection.query_params, connection.scope["route"]
    if not query or not (getattr(route, "include_in_schema", True) or getattr(route, "is_page", False)):
        return
    declared = _declared_parameters(route.dependant)
    wrong = []
    for name in dict.fromkeys(name for name, _ in query.multi_items()):
        values = query.getlist(name)
        if name not in declared:
            known = f"there are: {', '.join(sorted(declared))}" if declared else "this path takes no parameters"
            wrong.append(_fault(name, "extra_forbidden", f"unknown parameter {name[:100]!r}; {known}", values[0]))
        elif len(values) > 1 and not _is_several(declared[name]):
            wrong.append(_fault(name, "repeated", f"parameter {name!r} stands {len(values)} times: give one", values))
    if wrong:
        raise RequestValidationError(wrong)


def _declared_parameters(dependant: Dependant) -> dict[str, object]:
    """Return the parameters of a route and of what it depends on, with their types; a model stands for its fields."""
    found: dict[str, object] = {}
    for field in dependant.query_params:
        kind = field.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found |= {own.alias or name: own.annotation for name, own in kind.model_fields.items()}
        else:
            found[field.alias] = kind
    for inner in dependant.dependencies:
        found |= _declared_parameters(inner)
    return found


def _fault(name: str, kind: str, message: str, value: Any) -> ErrorDetails:
    """Return a fault in the form that the framework's own checks have."""
    return {"type": kind, "loc": ("query", name), "msg": message, "input": value}


def _is_several(annotation: Any) -> bool:
    """Whether a parameter may stand several times: its type, or an alternative of it, is a sequence."""
    return get_origin(annotation) in _SEVERAL or annotation in _SEVERAL or any(map(_is_several, get_args(annotation)))
