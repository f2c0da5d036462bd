"""Errors as problems (RFC 9457); the class of an error states its status."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.requests import HTTPConnection
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match, Mount
from starlette.types import Scope

from clvlab import errors
from clvlab.api.answer import RequestFault
from clvlab.arena.report_requests import ONE, SEVERAL
from clvlab_service.auth import InvalidTokenError
from clvlab_service.negotiation import asks_for_page, path_here
from clvlab_service.rendering import page

PLAIN = {
    HTTPStatus.BAD_REQUEST: "A body that can't be read as JSON, or whose length is stated in two ways.",
    HTTPStatus.NOT_FOUND: "A path that does not exist.",
    HTTPStatus.METHOD_NOT_ALLOWED: "A method that the path does not have; `Allow` names those it has.",
    HTTPStatus.NOT_ACCEPTABLE: "An `Accept` that refuses every form of the answer.",
    HTTPStatus.REQUEST_TIMEOUT: "A request that did not arrive in time.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "A body over the limit.",
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: "A range of bytes that the answer does not have; `Content-Range` has its size.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "A body that is not sent as JSON (`Accept` names what is read), or in a content coding.",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "A path, query and headers over the limit.",
    HTTPStatus.SERVICE_UNAVAILABLE: "One address has as many connections or requests in progress as it may have, or all have.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "An unexpected error; it is in the log under the request id.",
}
"""Plain HTTP errors, whose type is ``about:blank``."""

PROBLEMS = "/problems"
"""Path of the page of all problems."""
_STATUS = "http_status"
_BLANK = "about:blank"
_URN = "urn:clvlab:problem:"
_INVALID = f"{_URN}invalid-request"
_FACTS = ("reason", "pack_id", "fixture_id", "run_id", "cause", "evidence_hash", "manifest_hash", "open_tick")
_READING = ("GET", "HEAD")
_OF_FILES = ("GET",)
_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT", "WEBSOCKET")  # all other methods share one label
_RETRY_AFTER_S = 5
STORE_DETAIL = "the store did not answer as it should; what it said is in the log under the request id"
_MAX_EXCERPT = 200
_MAX_DETAIL = 2000
_EXACT = 2**53


def problem_type(error: type) -> str:
    """Return the stable name of a class of errors: ``RosterFullError`` is ``urn:clvlab:problem:roster-full``."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", error.__name__.removesuffix("Error")).lower()
    return _URN + words


def place(error: type[errors.ClvlabError]) -> tuple[HTTPStatus, str]:
    """Return status and type of an error's problem."""
    kind = next(base for base in error.__mro__ if _STATUS in vars(base))
    return HTTPStatus(error.http_status), problem_type(kind)


def problem_kinds() -> list[tuple[HTTPStatus, str, str]]:
    """Return status, type and meaning of every problem, sorted in this order."""
    kinds = [(*place(kind), _plain((kind.__doc__ or "").split("\n\n")[0])) for kind in _known_kinds() if _STATUS in vars(kind)]
    kinds += [(status, _BLANK, about) for status, about in PLAIN.items()]
    kinds += [(HTTPStatus.UNPROCESSABLE_ENTITY, _INVALID, "A body or parameter of the wrong form; `errors` names each.")]
    return sorted(kinds)


def _plain(text: str) -> str:
    """Return a docstring's sentence on one line, with single backticks."""
    return re.sub(r"\s+", " ", text).replace("``", "`")


def documentation_path(status: HTTPStatus, kind: str) -> str:
    """Return the place of a problem's description in the page of all problems, which the service serves itself.

    Examples
    --------
    >>> documentation_path(HTTPStatus.CONFLICT, "urn:clvlab:problem:roster-full")
    '/problems#roster-full'
    >>> documentation_path(HTTPStatus.NOT_FOUND, "about:blank")
    '/problems#404'
    """
    return f"{PROBLEMS}#{status.value if kind == _BLANK else kind.removeprefix(_URN)}"


def _known_kinds(root: type[errors.ClvlabError] = errors.ClvlabError) -> Iterator[type[errors.ClvlabError]]:
    yield root
    for kind in root.__subclasses__():
        yield from _known_kinds(kind)


def operation_of(method: str, scope: Scope) -> tuple[str, str]:
    """Return method and route of a request as labels of a metric, whose values are few whatever clients send."""
    return method if method in _METHODS else "other", getattr(scope.get("route"), "path", "unmatched")


def problem(
    request: HTTPConnection,
    status: HTTPStatus,
    detail: str,
    *,
    kind: str = _BLANK,
    headers: dict[str, str] | None = None,
    **facts: Any,
) -> Response:
    """Build a problem response, or a page if the client prefers it; ``facts`` are extension members (RFC 9457, section 3.2)."""
    cause = kind.removeprefix(_URN) if kind != _BLANK else str(status.value)
    request.app.state.metrics.note_problem(cause, *operation_of(request.scope.get("method", "WEBSOCKET"), request.scope))
    content = {
        "type": kind,
        "title": status.phrase,
        "status": status.value,
        "detail": _short(detail, _MAX_DETAIL),
        "instance": request.url.path,
        "request_id": request.scope.get("state", {}).get("request_id"),
        "documentation_url": path_here(request, documentation_path(status, kind)),
        **facts,
    }
    negotiated = {"Vary": "Accept"} if request.scope.get("method") in _READING else {}
    if asks_for_page(request.scope):
        return page(request, "problem.html", {"problem": content}, status, headers)
    return Response(orjson.dumps(content), status, negotiated | (headers or {}), "application/problem+json")


def known_problem(request: HTTPConnection, error: errors.ClvlabError) -> Response:
    """Build the problem of an error of clvlab."""
    status, kind = place(type(error))
    facts: dict[str, object] = {
        name: _fact(value) for name in _FACTS if isinstance(value := getattr(error, name, None), str | int)
    }
    headers = {}
    if isinstance(error, InvalidTokenError):
        headers["WWW-Authenticate"] = 'Bearer realm="clvlab"' + (
            ', error="invalid_token"' if "authorization" in request.headers else ""  # RFC 6750, section 3.1
        )
    if isinstance(error, errors.PreflightError):
        facts["checks"] = error.failures
    passing = status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS)
    retry_after_s = _RETRY_AFTER_S if passing and error.retry_after_s is None else error.retry_after_s
    if retry_after_s is not None:
        headers["Retry-After"] = str(retry_after_s)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:  # a busy or full service is only a warning: it need not wake an operator
        refused = status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.INSUFFICIENT_STORAGE)
        request.app.state.log.log(
            logging.WARNING if refused else logging.ERROR, "request_failed", error=f"{type(error).__name__}: {error}"
        )
    # the message of a database driver may name hosts and users, so it goes to the log only
    detail = STORE_DETAIL if isinstance(error, errors.StoreError) else str(error)
    return problem(request, status, detail, kind=kind, headers=headers, **facts)


async def _answer_known(request: Request, error: Exception) -> Response:
    assert isinstance(error, errors.ClvlabError)  # noqa: S101  # the handler is registered for it
    return known_problem(request, error)


def validation_problem(request: HTTPConnection, parameter: str, message: str, value: str) -> Response:
    """Build the problem of one bad query parameter, in the form of the framework's checks."""
    found: RequestFault = {"loc": ["query", parameter], "msg": message, "type": "value_error", "input": _excerpt(value)}
    return _unprocessable(request, [found])


async def _answer_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101  # the handler is registered for it
    found: list[RequestFault] = [
        {
            "loc": [part for part in entry["loc"] if part not in (ONE, SEVERAL)],  # clients do not know these tags
            "msg": entry["msg"],
            "type": entry["type"],
            "input": _excerpt(entry.get("input")),
        }
        for entry in error.errors()
    ]
    return _unprocessable(request, found)


def _unprocessable(request: HTTPConnection, found: list[RequestFault]) -> Response:
    summary = "; ".join(f"{'.'.join(map(str, entry['loc']))}: {entry['msg']}" for entry in found[:5])
    return problem(request, HTTPStatus.UNPROCESSABLE_ENTITY, summary, kind=_INVALID, errors=found)


def _excerpt(value: Any) -> str:
    return _short(ascii(value), _MAX_EXCERPT)


def _fact(value: str | int) -> str | int:
    """Return a fact for JSON: an integer beyond 2^53 - 1 as text, which every client reads exactly (RFC 8259, section 6)."""
    return value if isinstance(value, int) and abs(value) < _EXACT else _short(str(value), _MAX_DETAIL)


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + "..."


async def _answer_framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  # the handler is registered for it
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_allowed_methods(request.scope))  # the framework names the methods of one route only
        if request.method == "OPTIONS":
            return Response(status_code=HTTPStatus.NO_CONTENT, headers=headers)
    return problem(request, HTTPStatus(error.status_code), str(error.detail), headers=headers)


def _allowed_methods(scope: Scope) -> list[str]:
    """Return the methods of all routes at the path of a request, sorted; with GET comes HEAD (RFC 9110, section 9.3.2)."""
    whole = {**scope, "root_path": scope.get("app_root_path", scope.get("root_path", ""))}  # also inside a mounted application
    methods = {"OPTIONS"}
    for route in iter_route_contexts(scope["app"].routes):
        if getattr(route.original_route, "is_page", False):  # another form of the same answer, so its methods do not count
            continue
        if route.matches(whole)[0] is not Match.NONE:
            methods |= set(_OF_FILES if isinstance(route.original_route, Mount) else route.methods or ())
    return sorted(methods | {"HEAD"} if "GET" in methods else methods)


def unexpected_problem(request: HTTPConnection) -> Response:
    """Build the answer to an unexpected error, whose details are in the log only."""
    detail = "an unexpected error; it is in the log under the request id"
    return problem(request, HTTPStatus.INTERNAL_SERVER_ERROR, detail)


def two_lengths_problem(request: HTTPConnection) -> Response:
    """Build the answer to a request whose body has two lengths."""
    detail = "the request has a Content-Length and a Transfer-Encoding: send one of them"
    return problem(request, HTTPStatus.BAD_REQUEST, detail, headers={"Connection": "close"})


def head_problem(detail: str, request: HTTPConnection) -> Response:
    """Build the answer to a request whose path, query and headers are too long."""
    return problem(request, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, detail, headers={"Connection": "close"})


def crowded_problem(most: int, request: HTTPConnection) -> Response:
    """Build the answer to a request beyond those that one address may have in progress."""
    detail = f"one address has as many requests in progress as it may have: CLVLAB_MAX_CLIENT_CONNECTIONS={most}"
    return problem(request, HTTPStatus.SERVICE_UNAVAILABLE, detail, headers={"Retry-After": "1"})


def ending_problem(request: HTTPConnection) -> Response:
    """Build the answer to a request that is interrupted because the process ends."""
    return known_problem(request, errors.ShuttingDownError())


def install_error_handlers(app: FastAPI) -> None:
    """Answer every error of the application, of validation and of the framework with a problem."""
    app.add_exception_handler(errors.ClvlabError, _answer_known)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_framework)
