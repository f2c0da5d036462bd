"""The OpenAPI document: problems under their own media type, and the tags' descriptions."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict, Field

API_DESCRIPTION = (
    "Evaluates trading agents on closing-line value (CLV) and makes every result independently verifiable. "
    "Errors are problem details (RFC 9457). Ids are opaque; hashes are `sha256:<hex>`; times are milliseconds since 1970, UTC."
)
TAGS = [
    {"name": "leaderboard", "description": "Ranking of agents over all sealed runs, by recomputed CLV alone."},
    {"name": "competitions", "description": "Create, build a roster, start, read state and event log."},
    {"name": "agents", "description": "Deploy a typed configuration as an instance, and read what it does."},
    {"name": "backtests", "description": "Replay a catalogued pack and store a report."},
    {"name": "packs", "description": "The catalog of hash-verified replay packs."},
    {"name": "uploads", "description": "Packs of the caller's own: for competitions and deploys of the same caller."},
    {"name": "runs", "description": "Proof cards, verification, single decisions, sealed bytes."},
    {"name": "log", "description": "The append-only log: the commitment to every run stands there ahead of its result."},
    {"name": "demo", "description": "A whole competition in one call."},
    {"name": "operations", "description": "Health, readiness and metrics."},
]

_MEANINGS = {
    400: "The body can't be read, or breaks a rule of the domain",
    401: "Missing or invalid token",
    403: "The caller is not the owner",
    404: "Unknown",
    409: "The state does not allow it",
    413: "The body is too large",
    422: "A body or parameter of the wrong form",
    503: "Busy, or the store can't be reached; see `Retry-After`",
}
_HEADERS = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}}},
    503: {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}},
}
_BODY = "x-body"
_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}


class Problem(BaseModel):
    """An error (RFC 9457, `application/problem+json`)."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="`urn:clvlab:problem:<name>`; `about:blank` for errors of plain HTTP.")
    title: str
    status: int
    detail: str
    instance: str = Field(description="Path of the request.")
    request_id: str | None = Field(description="Also in the header `X-Request-ID` and in the service's log.")
    errors: list[dict[str, Any]] | None = Field(None, description="422 of a request: `loc`, `msg`, `type`, `input`.")
    checks: list[dict[str, Any]] | None = Field(None, description="422 of a deploy: every failing check.")
    reason: str | None = Field(default=None, description="Stable key that tells apart conflicts of one kind.")


def problems(*statuses: int, **meanings: str) -> dict[int | str, dict[str, Any]]:
    """Declare error answers of a route; ``meanings`` such as ``s409="roster frozen"`` override the usual ones.

    Every route can fail with 503 when the store can't be reached.
    """
    declared: dict[int | str, dict[str, Any]] = {}
    for status in sorted({*statuses, *(int(name[1:]) for name in meanings), 503}):
        declared[status] = {
            "description": meanings.get(f"s{status}", _MEANINGS.get(status, HTTPStatus(status).phrase)),
            "content": _PROBLEM,
            **({"headers": _HEADERS[status]} if status in _HEADERS else {}),
        }
    return declared


def body_schema(model: type[BaseModel], example: dict[str, Any]) -> dict[str, Any]:
    """Document a body that the application checks itself, field by field."""
    return {_BODY: {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}, "examples": {"one": {"value": example}}}}


def install_openapi(app: FastAPI, *extra: type[BaseModel]) -> None:
    """Have the application answer with a document that holds ``Problem`` and the schemas of ``extra``."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(
                title=app.title, version=app.version, description=app.description, routes=app.routes, tags=app.openapi_tags
            )
            schemas = schema["components"]["schemas"]
            models: tuple[type[BaseModel], ...] = (Problem, *extra)
            for model in models:
                own = model.model_json_schema(ref_template="#/components/schemas/{model}")
                schemas |= own.pop("$defs", {}) | {model.__name__: own}
            _tidy(schema)
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # FastAPI's documented way


def _tidy(schema: dict[str, Any]) -> None:
    """Put in the bodies of ``body_schema``; drop the framework's 422 of every parameter: ours stands where it can happen."""
    for methods in schema["paths"].values():
        for operation in methods.values():
            if _BODY in operation:
                operation["requestBody"]["content"] = {"application/json": operation.pop(_BODY)}
            if "HTTPValidationError" in str(operation["responses"].get("422")):
                del operation["responses"]["422"]
    for name in ("HTTPValidationError", "ValidationError"):
        schema["components"]["schemas"].pop(name, None)
