"""The OpenAPI document: problems under their own media type, and the tags' descriptions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict, Field

from clvlab.api.answer import JsonObject, RequestFault
from clvlab.api.competitions import PreflightCheck
from clvlab_service.examples import example_of
from clvlab_service.negotiation import Responses

API_DESCRIPTION = (
    "Evaluates trading agents on closing-line value (CLV) and makes every result independently verifiable. "
    "Errors are problem details (RFC 9457). Ids are opaque; hashes are `sha256:<hex>`; times are milliseconds since 1970, UTC."
)
TAGS = [
    {"name": "leaderboard", "description": "The ranking of agents over all sealed runs."},
    {"name": "competitions", "description": "Create a competition, fill its roster, start it, and read its state and events."},
    {"name": "agents", "description": "Deploy a configuration as an instance, and read its runtime events."},
    {"name": "seats", "description": "Agents that run elsewhere and answer one price update at a time."},
    {"name": "strategies", "description": "Strategy templates and their parameters."},
    {"name": "backtests", "description": "Replay a pack of the catalog and store a report."},
    {"name": "packs", "description": "The catalog of hash-verified replay packs."},
    {"name": "uploads", "description": "Packs that callers upload for their own competitions and deploys."},
    {"name": "runs", "description": "Proof cards, verification, decisions and sealed bytes."},
    {"name": "log", "description": "The append-only log. It commits to every run before its result is known."},
    {"name": "me", "description": "The caller."},
    {"name": "demo", "description": "A whole competition in one call."},
    {"name": "operations", "description": "Health, readiness and metrics."},
]

_MEANINGS = {
    400: "The body can't be read, or breaks a rule",
    401: "Missing or invalid token",
    403: "The caller is not the owner",
    404: "Unknown",
    406: "`Accept` excludes every available format",
    409: "The state does not allow it",
    410: "Removed to make room: its hashes remain, and a new request replays it",
    413: "The body is too large",
    415: "The body is not sent as JSON",
    422: "Invalid body or parameter, or unknown parameter",
    429: "The caller has too much work at once; see `Retry-After`",
    431: "The path, query and headers are too long",
    503: "Busy, or the store can't be reached; see `Retry-After`",
    507: "The runs of the caller, or those without an owner, have used up their storage",
}
_RETRY_AFTER = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}
_HEADERS = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}}},
    415: {"Accept": {"schema": {"type": "string"}, "description": "Accepted content types."}},
    409: {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds, if an unfinished job prevents the request."}},
    429: _RETRY_AFTER,
    503: _RETRY_AFTER,
}
_REASONS = (
    "For a start: `not_startable`, `roster_empty`, `no_live_feed`, `fixture_not_on_feed`, `no_quota`, `binding_missing`, "
    "`binding_changed`, `entry_unusable`. For a deletion: `has_events`, `in_use`. For an idempotency key: `fingerprint`, "
    "`prior_attempt`. For a seat: `answered`, `unserved`, `over`, `unsealed`. "
    "For a pack that is held back: `public`, `opened`, `unopened`, `dealt`, `limit`."
)
_BODY = "x-body"
_REF = "#/components/schemas/"
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
    documentation_url: str = Field(description="Path of the description of this kind of problem, at this service.")
    errors: list[RequestFault] | None = Field(None, description="For 422 of a request: all faults.")
    checks: list[PreflightCheck] | None = Field(None, description="For 422 of a deploy: all failing checks.")
    reason: str | None = Field(default=None, description=f"Stable key of the conflict. {_REASONS}")
    pack_id: str | None = Field(
        None, description="Pack that the problem is about. `fixture_id`, `run_id` and `cause` name other subjects."
    )
    fixture_id: int | str | None = Field(None, description="Fixture that the problem is about; a text beyond 2^53.")
    run_id: str | None = None
    cause: str | None = None
    open_tick: int | None = Field(None, description="For 409 of a seat: number of the open tick.")
    evidence_hash: str | None = Field(None, description="For 410: evidence hash of the removed run.")
    manifest_hash: str | None = None


def problems(*statuses: int, **meanings: str) -> Responses:
    """Declare error answers of a route; ``meanings`` such as ``s409="roster frozen"`` override the usual ones.

    Every route can fail with 431 for a request that is too long, and with 503 when the store can't be reached.
    """
    declared = sorted({*statuses, *(int(name[1:]) for name in meanings), 431, 503})
    return {status: _problem(status, meanings.get(f"s{status}")) for status in declared}


def _problem(status: int, meaning: str | None = None) -> JsonObject:
    return {
        "description": meaning or _MEANINGS.get(status, HTTPStatus(status).phrase),
        "content": _PROBLEM,
        **({"headers": _HEADERS[status]} if status in _HEADERS else {}),
    }


def body_schema(model: type[BaseModel], example: JsonObject) -> JsonObject:
    """Document a body whose fields the application checks itself."""
    return {_BODY: {"schema": {"$ref": f"{_REF}{model.__name__}"}, "examples": {"one": {"value": example}}}}


def install_openapi(
    app: FastAPI, *extra: type[BaseModel], types: Sequence[str], parameters: Mapping[str, type[BaseModel]]
) -> None:
    """Make the application serve a document of all its requests and answers.

    Parameters
    ----------
    app
        Application with all its routes.
    extra
        Models of bodies that no route declares.
    types
        Types of problems.
    parameters
        Parameters of the templates, by strategy.
    """

    def document() -> JsonObject:
        if app.openapi_schema is None:
            schema = get_openapi(
                title=app.title, version=app.version, description=app.description, routes=app.routes, tags=app.openapi_tags
            )
            schemas = schema["components"]["schemas"]
            models: tuple[type[BaseModel], ...] = (Problem, *extra)
            for model in models:
                schemas |= _component(model, model.__name__)
            schemas["Problem"]["properties"]["type"]["description"] += f" One of {', '.join(f'`{name}`' for name in types)}."
            _tell_parameters(schemas, parameters)
            _leave_defaults_optional(schemas)
            _tidy(schema)
            _link(schema)
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # FastAPI's documented way


def _component(model: type[BaseModel], name: str, prefix: str = "") -> JsonObject:
    """Return the schema of a model under a name, and the schemas of its parts under names with the prefix."""
    own = model.model_json_schema(ref_template=f"{_REF}{prefix}{{model}}")
    parts = own.pop("$defs", {})
    return {f"{prefix}{part}": of for part, of in parts.items()} | {name: own | {"title": name}}


def _tell_parameters(schemas: JsonObject, parameters: Mapping[str, type[BaseModel]]) -> None:
    """Add the parameters of templates; other keys stay allowed, because they are pinned and have no effect."""
    names = []
    for strategy, model in parameters.items():
        prefix = "".join(word.capitalize() for word in strategy.split("-"))
        names.append(f"{prefix}Params")
        schemas |= _component(model, names[-1], prefix)
        del schemas[names[-1]]["additionalProperties"]
    about = "Parameters of the template `strategy` that differ from its defaults; other keys have no effect."
    for body, field in (("AgentEntry", "config"), ("DeployConfig", "params")):
        of = schemas[body]["properties"][field]
        anything = {"type": of.pop("type"), "additionalProperties": of.pop("additionalProperties")}
        of |= {"anyOf": [*({"$ref": f"{_REF}{name}"} for name in names), anything], "description": about}


def _leave_defaults_optional(schemas: JsonObject) -> None:
    """Move each default into an ``anyOf`` of one schema; openapi-typescript takes other defaults as always present."""
    for schema in schemas.values():
        fields = schema.get("properties", {})
        for name, of in fields.items():
            if of.get("default", ...) is None:
                del of["default"]
            elif "default" in of:
                outside = {"description": of.pop("description")} if "description" in of else {}
                fields[name] = {"anyOf": [of], **outside}


def _summarize(operation: JsonObject) -> None:
    """Title an operation by the first sentence of its description, which is clearer than the name of a function."""
    text = operation["description" if "description" in operation else "summary"]
    operation["summary"] = re.split(r"\.(?:\s|$)", text, maxsplit=1)[0]


def _tidy(schema: JsonObject) -> None:
    """Add the bodies of ``body_schema``, the common responses of operations, and examples of answers."""
    schemas = schema["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for methods in schema["paths"].values():
        for operation in methods.values():
            _summarize(operation)
            if _BODY in operation:
                operation["requestBody"]["content"] = {"application/json": operation.pop(_BODY)}
            _complete(operation, schemas)


def _complete(operation: JsonObject, schemas: JsonObject) -> None:
    responses = operation["responses"]
    if "HTTPValidationError" in str(responses.get("422")):
        del responses["422"]  # declared by the framework; this service has another schema
    takes_json = "application/json" in operation.get("requestBody", {}).get("content", ())
    for status in (400, 413, 415, 422) if takes_json else (422,):
        responses.setdefault(str(status), _problem(status))
    for status, response in responses.items():
        answer = response.get("content", {}).get("application/json")
        if int(status) < 300 and answer is not None:
            answer["example"] = example_of(answer["schema"], schemas, operation["operationId"])


# Links between operations: the fields of an answer that are parameters of a path lead to its operations.


_PARAMETER = re.compile(r"\{(\w+)\}")
_SCALARS = {"string", "integer"}
_WITHOUT_RUN = ["uploads"]  # tags of jobs whose `run_id` is always null


def _link(document: JsonObject) -> None:
    """Link each JSON answer of success to the operations whose path it fills; parameters of its own path may help.

    An id leads to the operations of all tags, unless the paths of several tags take one of its name; then it leads, as other
    names do, to those of its own tag only. A link to an operation with a body has the first example of such a body.
    """
    schemas = document["components"]["schemas"]
    found = [(method, path, one) for path, methods in document["paths"].items() for method, one in methods.items()]
    names = {one["operationId"]: _PARAMETER.findall(path) for _, path, one in found}
    takers: dict[str, set[str]] = {}
    for _, _, one in found:
        for name in names[one["operationId"]]:
            takers.setdefault(name, set()).update(one["tags"])
    for method, _, source in found:
        own = {name: f"$request.path.{name}" for name in names[source["operationId"]]}
        for response in _successes(source):
            required, optional = _fields(response["content"]["application/json"]["schema"], schemas)
            ids = {name: at for name, at in required.items() if name.endswith("_id") and len(takers.get(name, ())) == 1}
            far = {} if source["tags"] == _WITHOUT_RUN else ids
            links = {}
            for _, _, target in found:
                values = (
                    optional | required if target["tags"] == source["tags"] else {} if source["tags"] == _WITHOUT_RUN else far
                )
                wanted, offered = names[target["operationId"]], own | values
                leads = any(name in values for name in wanted) or (method == "post" and wanted)
                if target is not source and leads and all(name in offered for name in wanted):
                    links[target["operationId"]] = _link_to(target, {name: offered[name] for name in wanted})
            if links:
                response["links"] = links


def _successes(operation: JsonObject) -> list[JsonObject]:
    return [
        response
        for status, response in operation["responses"].items()
        if int(status) < 300 and "application/json" in response.get("content", ())
    ]


def _link_to(target: JsonObject, parameters: Mapping[str, str]) -> JsonObject:
    content = target.get("requestBody", {}).get("content", {}).get("application/json", {})
    bodies = [*content.get("schema", {}).get("examples", ()), *(one["value"] for one in content.get("examples", {}).values())]
    body = {"requestBody": bodies[0]} if bodies else {}
    return {"operationId": target["operationId"], "parameters": dict(parameters), **body}


def _fields(schema: JsonObject, schemas: JsonObject, at: str = "$response.body#") -> tuple[dict[str, str], dict[str, str]]:
    """Return the runtime expressions of the scalar fields of an answer, required and optional, and of its first parts."""
    required: dict[str, str] = {}
    optional: dict[str, str] = {}
    parts: list[tuple[JsonObject, str]] = []
    schema = _resolved(schema, schemas)
    for name, of in schema.get("properties", {}).items():
        kinds = {_resolved(one, schemas).get("type") for one in of.get("anyOf", [of])}
        if kinds & _SCALARS:
            (required if name in schema.get("required", ()) else optional)[name] = f"{at}/{name}"
        elif len(kinds) == 1:
            parts.append((of, f"{at}/{name}"))
    if schema.get("type") == "array":
        parts.append((schema, at))
    for part, where in parts:
        resolved = _resolved(part, schemas)
        inner = _resolved(resolved["items"], schemas) if resolved.get("type") == "array" else resolved
        where = f"{where}/0" if resolved.get("type") == "array" else where
        for name, of in inner.get("properties", {}).items():
            if name in inner.get("required", ()) and _resolved(of, schemas).get("type") in _SCALARS:
                required.setdefault(name, f"{where}/{name}")
    return required, optional


def _resolved(schema: JsonObject, schemas: JsonObject) -> JsonObject:
    while "$ref" in schema:
        schema = schemas[schema["$ref"].removeprefix(_REF)]
    return schema
