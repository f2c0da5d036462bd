"""Content negotiation: the form of an answer, JSON or Arrow, and 304 for an answer that the client has."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Coroutine, Mapping
from enum import StrEnum
from functools import lru_cache
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.types import Scope

from clvlab.api.answer import JsonObject
from clvlab.arena.tables import MAX_PAGE, ArrowTable

# Preferences of a client, by its header ``Accept`` (RFC 9110, section 12.5.1).


JSON, ARROW, HTML = "application/json", "application/vnd.apache.arrow.stream", "text/html"

_RANGE = re.compile(r"\s*([^\s;/]+)/([^\s;/]+)\s*(;.*)?", re.DOTALL)
_QUALITY = re.compile(r";\s*q\s*=\s*([^\s;]*)\s*(?:;|$)", re.IGNORECASE)
_WEIGHT = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")


def qualities(accept: str) -> dict[str, float]:
    """Return the quality of each media range; malformed parts are ignored."""
    return dict(filter(None, map(_range, accept.split(","))))


def _range(text: str) -> tuple[str, float] | None:
    parts = _RANGE.fullmatch(text)
    if parts is None:
        return None
    weight = _QUALITY.search(parts[3] or "")
    if weight is not None and not _WEIGHT.fullmatch(weight[1]):
        return None
    return f"{parts[1]}/{parts[2]}".lower(), 1.0 if weight is None else float(weight[1])


def quality(weights: Mapping[str, float], media_type: str) -> float:
    """Return the quality of a media type, by the most specific matching range."""
    whole_type = f"{media_type.partition('/')[0]}/*"
    return next((weights[name] for name in (media_type, whole_type, "*/*") if name in weights), 0.0)


@lru_cache(maxsize=256)
def prefers_page(accept: str) -> bool:
    """Tell whether a page is named and preferred to any other form. Browsers ask so; programs do not by default.

    Examples
    --------
    >>> prefers_page("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"), prefers_page("text/html, */*")
    (True, False)
    """
    weights = qualities(accept)
    others = (quality(weights, JSON), weights.get("*/*", 0.0), weights.get(ARROW, 0.0))
    return weights.get(HTML, 0.0) > max(others)


def asks_for_page(scope: Scope) -> bool:
    """Tell whether a request is answered with a page."""
    if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
        return False
    accept = ",".join(Headers(scope=scope).getlist("accept"))
    return HTML in accept.lower() and prefers_page(accept)


_VARY = {"Vary": "Accept"}


class Form(StrEnum):
    """Form in which a table can be sent."""

    JSON = JSON
    ARROW = ARROW


def negotiated_form(header: str) -> Form | None:
    """Choose the form of an answer; ``None`` if neither is acceptable.

    Arrow is sent if it is named with at least the quality of JSON, or if JSON is refused. Malformed parts are ignored; a header
    of only such parts counts as no header.

    Examples
    --------
    >>> negotiated_form("application/vnd.apache.arrow.stream, */*;q=0.5").name
    'ARROW'
    >>> negotiated_form("*/*").name
    'JSON'
    """
    weights = qualities(header)
    if not weights:
        return Form.JSON
    json, arrow = quality(weights, Form.JSON), quality(weights, Form.ARROW)
    if arrow and (not json or (Form.ARROW in weights and arrow >= json)):
        return Form.ARROW
    return Form.JSON if json else None


async def _form(request: Request, response: Response) -> Form:
    form = negotiated_form(",".join(request.headers.getlist("accept")))
    if form is None:
        detail = f"this is available as {' or as '.join(Form)}, but the Accept header refuses both"
        raise HTTPException(HTTPStatus.NOT_ACCEPTABLE, detail, _VARY)
    response.headers.update(_VARY)
    return form


FormDep = Annotated[Form, Depends(_form)]
RowsQuery = Annotated[int | None, Query(ge=1, le=MAX_PAGE, description="Rows per page; Arrow without it sends all rows.")]

Responses = dict[int | str, JsonObject]
"""Declarations of a route's answers, by status."""
_BYTES = {"schema": {"type": "string", "format": "binary"}}
TABLE: Responses = {
    200: {
        "description": "A page as JSON, or all rows as an Arrow IPC stream; with `limit`, `Link` names the next page",
        "headers": {"Link": {"schema": {"type": "string"}, "description": 'For Arrow: `<?...>; rel="next"` (RFC 8288).'}},
        "content": {Form.ARROW.value: _BYTES},
    }
}
"""Declaration of a route with both forms, besides its problems."""


def arrow_response(request: Request, table: ArrowTable) -> Response:
    """Send a table; a header links to the next page (RFC 8288), because Arrow has no place for a cursor."""
    headers = dict(_VARY)
    if table.next_cursor is not None:
        following = request.url.include_query_params(cursor=table.next_cursor)
        headers["Link"] = f'<?{following.query}>; rel="next"'
    return Response(table.content, headers=headers, media_type=Form.ARROW.value)


# Caching by clients and proxies: sealed bytes are kept forever, other answers are revalidated.


_YEAR = "public, max-age=31536000, immutable"
_LARGE = 65_536
_KEPT = ("ETag", "Cache-Control", "Content-Location", "Vary")


class RevalidatedRoute(APIRoute):
    """Adds ``ETag`` and ``Cache-Control: no-cache``; an unchanged answer to a GET is 304 (RFC 9110, section 13)."""

    cache_control = "no-cache"

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def cached(request: Request) -> Response:
            response = await handler(request)
            if response.status_code != HTTPStatus.OK:  # the progress of work changes by itself
                return response
            tag = await run_in_threadpool(_tag, response.body) if len(response.body) > _LARGE else _tag(response.body)
            response.headers.update({"ETag": tag, "Cache-Control": self.cache_control})
            if is_kept(request, tag):
                kept = {name: response.headers[name] for name in _KEPT if name in response.headers}
                return Response(status_code=304, headers=kept)
            return response

        return cached


class ImmutableRoute(RevalidatedRoute):
    """A ``RevalidatedRoute`` for sealed bytes, which never change."""

    cache_control = _YEAR


def is_kept(request: Request, tag: str) -> bool:
    """Tell whether the client of a GET already has the answer with this tag."""
    return request.method == "GET" and _names(", ".join(request.headers.getlist("if-none-match")), tag)


def _tag(body: bytes | memoryview) -> str:
    return f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'  # weak: the same answer may be sent compressed or not


def _names(if_none_match: str, tag: str) -> bool:
    tags = [candidate.strip().removeprefix("W/") for candidate in if_none_match.split(",")]
    return "*" in tags or tag.removeprefix("W/") in tags
