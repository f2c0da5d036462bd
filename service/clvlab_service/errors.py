"""Every error as a problem (RFC 9457): one table from error class to status."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.requests import HTTPConnection
from starlette.exceptions import HTTPException
from starlette.responses import Response

from clvlab import errors
from clvlab_service.auth import InvalidTokenError

STATUSES: dict[type[Exception], HTTPStatus] = {
    InvalidTokenError: HTTPStatus.UNAUTHORIZED,
    errors.NotOwnerError: HTTPStatus.FORBIDDEN,
    errors.UnknownPackError: HTTPStatus.NOT_FOUND,
    errors.UnknownRunError: HTTPStatus.NOT_FOUND,
    errors.UnknownDecisionError: HTTPStatus.NOT_FOUND,
    errors.UnknownBacktestError: HTTPStatus.NOT_FOUND,
    errors.UnknownCompetitionError: HTTPStatus.NOT_FOUND,
    errors.UnknownInstanceError: HTTPStatus.NOT_FOUND,
    errors.UnsignedLogError: HTTPStatus.NOT_FOUND,
    errors.RosterFrozenError: HTTPStatus.CONFLICT,
    errors.AlreadyRegisteredError: HTTPStatus.CONFLICT,
    errors.RosterFullError: HTTPStatus.CONFLICT,
    errors.NotStartableError: HTTPStatus.CONFLICT,
    errors.TransitionError: HTTPStatus.CONFLICT,
    errors.IdempotencyConflictError: HTTPStatus.CONFLICT,
    errors.LogConflictError: HTTPStatus.CONFLICT,
    errors.UploadsOffError: HTTPStatus.NOT_FOUND,
    errors.UploadConflictError: HTTPStatus.CONFLICT,
    errors.UnknownFixtureError: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.PreflightError: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.PageError: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.BusyError: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreUnreachableError: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreFullError: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreError: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.RunFailedError: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.RunConflictError: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.LogError: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.UploadRefusedError: HTTPStatus.BAD_REQUEST,
    errors.PackTamperedError: HTTPStatus.BAD_REQUEST,
    errors.ClvlabError: HTTPStatus.BAD_REQUEST,
}
"""Status of each class; a class that is not here has that of its nearest base."""

_FACTS = ("reason", "pack_id", "fixture_id", "run_id", "cause")
_RETRY_AFTER_S = 5
_STORE_DETAIL = "the store did not answer as it should; what it said is in the log under the request id"
_MAX_SHOWN = 200
_MAX_DETAIL = 2000
_EXACT = 2**53


def problem_type(error: type[Exception]) -> str:
    """Stable name of a kind of problem: ``RosterFullError`` is ``urn:clvlab:problem:roster-full``."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", error.__name__.removesuffix("Error")).lower()
    return f"urn:clvlab:problem:{words}"


def problem(
    request: HTTPConnection,
    status: HTTPStatus,
    detail: str,
    *,
    kind: str = "about:blank",
    headers: dict[str, str] | None = None,
    **facts: Any,
) -> Response:
    """Build a problem response; ``facts`` are extension members (RFC 9457, section 3.2)."""
    content = {
        "type": kind,
        "title": status.phrase,
        "status": status.value,
        "detail": _short(detail, _MAX_DETAIL),
        "instance": request.url.path,
        "request_id": request.scope.get("state", {}).get("request_id"),
        **facts,
    }
    return Response(orjson.dumps(content), status, headers, "application/problem+json")


def known_problem(request: HTTPConnection, error: Exception) -> Response:
    """Build the problem of an error that has a place in ``STATUSES``."""
    status = next(STATUSES[base] for base in type(error).__mro__ if base in STATUSES)
    facts: dict[str, Any] = {
        name: _fact(value) for name in _FACTS if isinstance(value := getattr(error, name, None), str | int)
    }
    headers = {}
    if isinstance(error, InvalidTokenError):
        headers["WWW-Authenticate"] = 'Bearer realm="clvlab"' + (
            ', error="invalid_token"' if "authorization" in request.headers else ""  # RFC 6750, section 3.1
        )
    if isinstance(error, errors.PreflightError):
        facts["checks"] = error.failures
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(getattr(error, "retry_after_s", _RETRY_AFTER_S))
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        request.app.state.log.error("request_failed", error=f"{type(error).__name__}: {error}")
    # what a database driver says may name hosts and users: that is for the log
    detail = _STORE_DETAIL if isinstance(error, errors.StoreError) else str(error)
    return problem(request, status, detail, kind=problem_type(type(error)), headers=headers, **facts)


async def _known(request: Request, error: Exception) -> Response:
    return known_problem(request, error)


def validation_problem(request: HTTPConnection, parameter: str, message: str, given: str) -> Response:
    """Build the problem of one bad query parameter, in the form that the framework's checks have."""
    found = {"loc": ["query", parameter], "msg": message, "type": "value_error", "input": _shown(given)}
    return _unprocessable(request, [found])


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101  # what it is registered for
    found = [
        {"loc": list(entry["loc"]), "msg": entry["msg"], "type": entry["type"], "input": _shown(entry.get("input"))}
        for entry in error.errors()
    ]
    return _unprocessable(request, found)


def _unprocessable(request: HTTPConnection, found: list[dict[str, Any]]) -> Response:
    summary = "; ".join(f"{'.'.join(map(str, entry['loc']))}: {entry['msg']}" for entry in found[:5])
    return problem(request, HTTPStatus.UNPROCESSABLE_ENTITY, summary, kind="urn:clvlab:problem:invalid-request", errors=found)


def _shown(value: Any) -> str:
    return _short(ascii(value), _MAX_SHOWN)


def _fact(value: str | int) -> str | int:
    """A fact as JSON has it: integers beyond 2^53 - 1 as text, which every client reads (RFC 8259, section 6)."""
    return value if isinstance(value, int) and abs(value) < _EXACT else _short(str(value), _MAX_DETAIL)


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + "..."


async def _framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  # what it is registered for
    headers = dict(error.headers or {})
    return problem(request, HTTPStatus(error.status_code), str(error.detail), headers=headers)


def unexpected_problem(request: HTTPConnection) -> Response:
    """Build the answer to an error that nobody expected; what it was is in the log only."""
    detail = "an unexpected error; it is in the log under the request id"
    return problem(request, HTTPStatus.INTERNAL_SERVER_ERROR, detail)


def install_error_handlers(app: FastAPI) -> None:
    """Answer every error of the application, of validation and of the framework with a problem."""
    for known in (errors.ClvlabError, InvalidTokenError):
        app.add_exception_handler(known, _known)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _framework)
