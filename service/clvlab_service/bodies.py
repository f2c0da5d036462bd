"""Bodies of requests: strict JSON in UTF-8."""

from __future__ import annotations

import json
import re
from collections import defaultdict
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
_MAX_NAMES = 1_000  # each unknown one is an error of its own, which takes a hundred times as long as reading it


class JsonRoute(APIRoute):
    """Reads a body that is declared as JSON; another type gets 415, and content that is not JSON gets 400."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            return await handler(_JsonRequest(request.scope, request.receive))

        return handle_json


class _JsonRequest(Request):
    """A request whose body is read first; it is parsed as JSON if the route declares a body and the client sent one."""

    async def body(self) -> bytes:
        body = await super().body()
        if body:
            _refuse_other_forms(self.headers)
        return body

    async def json(self) -> Any:
        return parse(await super().body())


def _refuse_other_forms(headers: Headers) -> None:
    """Refuse a media type or coding that the service does not read (RFC 9110, section 15.5.16).

    A body without a type is refused too, because a page of another site can send one like a form, without a CORS preflight.
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


def parse(body: bytes) -> Any:
    """Parse JSON by RFC 8259: UTF-8, without NaN; a repeated name is refused, because one of its values would be lost."""
    try:
        text = body.decode("utf-8-sig")  # section 8.1 allows ignoring a byte order mark
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
    """A value that the parser accepts but the standard or the service forbids."""


def _refuse_constant(name: str) -> NoReturn:
    raise _NotJsonError(f"{name} is not a JSON value")


def _object(members: list[tuple[str, Any]]) -> JsonObject:
    if len(members) > _MAX_NAMES:
        raise _NotJsonError(f"an object has {len(members):,} names, the limit is {_MAX_NAMES:,}")
    read: JsonObject = {}
    for name, value in members:
        if name in read:
            raise _NotJsonError(f"the name {name[:_MAX_EXCERPT]!r} occurs twice in an object")
        read[name] = value
    return read


# Query parameters: only those that a route declares, each once.


_MOST_DIGITS = 100
_SEVERAL = (list, set, frozenset, tuple, Sequence)


def shortened(text: str) -> str:
    """Shorten an overlong number so that it can be parsed; no decision has such a number."""
    return text[:_MOST_DIGITS] if text.lstrip("-").isdecimal() else text


async def only_declared(connection: HTTPConnection) -> None:
    """Refuse a query parameter that the route does not declare, or that is repeated without being a list.

    If a misspelt filter were ignored, the answer would be wrong and look right.

    Raises
    ------
    RequestValidationError
        There is such a parameter; the error names all of them.
    """
    query, route = connection.query_params, connection.scope["route"]
    if not query or not (getattr(route, "include_in_schema", True) or getattr(route, "is_page", False)):
        return
    declared = _declared_parameters(route.dependant)
    wrong, sent = [], defaultdict[str, list[str]](list)
    for name, value in query.multi_items():
        sent[name].append(value)
    for name, values in sent.items():
        if name not in declared:
            known = f"there are: {', '.join(sorted(declared))}" if declared else "this path takes no parameters"
            wrong.append(_fault(name, "extra_forbidden", f"unknown parameter {name[:100]!r}; {known}", values[0]))
        elif len(values) > 1 and not _is_several(declared[name]):
            wrong.append(_fault(name, "repeated", f"parameter {name!r} occurs {len(values)} times: send it once", values))
    if wrong:
        raise RequestValidationError(wrong)


def _declared_parameters(dependant: Dependant) -> dict[str, object]:
    """Return the parameters of a route and of its dependencies, with their types; a model is replaced by its fields."""
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
    """Return a fault in the form of the framework's own checks."""
    return {"type": kind, "loc": ("query", name), "msg": message, "input": value}


def _is_several(annotation: Any) -> bool:
    """Whether a parameter may be repeated: its type, or an alternative of it, is a sequence."""
    return get_origin(annotation) in _SEVERAL or annotation in _SEVERAL or any(map(_is_several, get_args(annotation)))
