"""Content negotiation: the form of an answer, JSON or Arrow, and 304 for an answer that the client has."""

from __future__ import annotations

import gzip
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
from starlette.requests import HTTPConnection
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
_LINK = {"description": '`<...>; rel="next"` (RFC 8288): the next page; absent on the last one.', "schema": {"type": "string"}}
LIST: Responses = {200: {"headers": {"Link": _LINK}}}
"""Declaration of a list."""
TABLE: Responses = {
    200: {
        "description": "A page as JSON, or all rows as an Arrow IPC stream; with `limit`, `Link` names the next page",
        "headers": {"Link": _LINK},
        "content": {Form.ARROW.value: _BYTES},
    }
}
"""Declaration of a route with both forms, besides its problems."""


def arrow_response(request: Request, table: ArrowTable) -> Response:
    """Send a table or one page of it."""
    response = Response(table.content, headers=dict(_VARY), media_type=Form.ARROW.value)
    link_next(request, response, cursor=table.next_cursor)
    return response


def path_here(request: HTTPConnection, path: str) -> str:
    """Return a path of the service as its clients see it, also behind a proxy."""
    root = str(request.scope.get("root_path", "")).rstrip("/")
    return root + path


# Pages of lists: every list names its next page in a header (RFC 8288), whatever the form of its body.


def link_next(request: Request, response: Response, *, replaced: str = "", **position: str | int | None) -> None:
    """Name the next page of a list in the header ``Link``, unless its position is ``None``.

    ``replaced`` is another parameter of the place of a page.
    """
    if None not in position.values():
        following = request.url.remove_query_params(replaced).include_query_params(**position)
        response.headers["Link"] = f'<{following.path}?{following.query}>; rel="next"'  # RFC 8288, section 3


# Caching by clients and proxies: final answers are kept for a year, other answers are revalidated. A tag is strong: it names
# the bytes of an answer in their content coding (RFC 9110, section 8.8.1). The edge weakens it where it compresses the answer.


FINAL = "public, max-age=31536000, immutable"
REVALIDATED = "no-cache"
_LARGE = 65_536
_SMALL = 1000
_KEPT = ("Cache-Control", "Content-Location", "Vary")
OF_GZIP = '-gzip"'
"""End of the tag of an answer that is gzip already."""
_GZIP = re.compile(r"(?:^|[,\s])gzip(?!\s*;\s*q=0(\.0*)?\s*(,|$))", re.IGNORECASE)


class RevalidatedRoute(APIRoute):
    """Adds a strong ``ETag``, and ``Cache-Control: no-cache`` unless the answer has another; an unchanged answer is 304."""

    cache_control = REVALIDATED

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def cached(request: Request) -> Response:
            response = await handler(request)
            if response.status_code != HTTPStatus.OK:  # the progress of work changes by itself
                return response
            if "etag" not in response.headers:
                body = bytes(response.body) + response.headers.get("link", "").encode()  # a list may grow behind its page
                tag = await run_in_threadpool(strong_tag, body) if len(body) > _LARGE else strong_tag(body)
                response.headers["ETag"] = tag
            response.headers.setdefault("Cache-Control", self.cache_control)
            return unless_kept(request, response)

        return cached


class ImmutableRoute(RevalidatedRoute):
    """A ``RevalidatedRoute`` for what is made of sealed bytes, which never change."""

    cache_control = FINAL


def strong_tag(content: bytes | memoryview) -> str:
    """Return the strong tag of an answer (RFC 9110, section 8.8.3)."""
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def in_gzip(tag: str) -> str:
    """Return the tag of an answer as gzip."""
    return tag.removesuffix('"') + OF_GZIP


def kept_tag(request: Request, tag: str) -> str | None:
    """Return the tag of this answer that the client of a GET already has, in any content coding; ``None`` without one."""
    if request.method != "GET":
        return None
    named = [candidate.strip() for candidate in ",".join(request.headers.getlist("if-none-match")).split(",")]
    return tag if "*" in named else next((candidate for candidate in named if _opaque(candidate) == _opaque(tag)), None)


def unless_kept(request: Request, response: Response) -> Response:
    """Return the answer, or 304 if the client has it (RFC 9110, section 15.4.5)."""
    tag = kept_tag(request, response.headers["ETag"])
    if tag is None:
        return response
    kept = {name: response.headers[name] for name in _KEPT if name in response.headers}
    return Response(status_code=HTTPStatus.NOT_MODIFIED, headers={"ETag": tag} | kept)


def takes_gzip(request: Request) -> bool:
    return _GZIP.search(request.headers.get("accept-encoding", "")) is not None


def final_json(request: Request, content: bytes, cache_control: str) -> Response:
    """Answer with JSON that a strong tag names in both codings: as it is, or as gzip that is the same in every process."""
    tag, headers = strong_tag(content), {"Cache-Control": cache_control}
    if len(content) >= _SMALL and takes_gzip(request):
        tag, content = in_gzip(tag), gzip.compress(content, compresslevel=1, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return Response(content, headers=headers | {"ETag": tag}, media_type=JSON)


def _opaque(tag: str) -> str:
    return tag.removeprefix("W/").removesuffix('"').removesuffix(OF_GZIP.removesuffix('"'))


# Parts of an answer, asked for by byte ranges (RFC 9110, section 14).


_BYTES_UNIT = re.compile(r"bytes=[ \t]*(\d*)-(\d*)[ \t]*", re.IGNORECASE | re.ASCII)
_MOST_DIGITS = 18


def requested_range(request: Request, tag: str, size: int) -> range | None:
    """Return the requested bytes of an answer; ``None`` for the whole answer.

    The header counts only if it asks for one range of bytes, and if ``If-Range`` names no other tag.

    Raises
    ------
    HTTPException
        The answer has no byte of the range (416).
    """
    found = _BYTES_UNIT.fullmatch(",".join(request.headers.getlist("range")))
    if found is None or request.headers.get("if-range", tag).strip() != tag:
        return None
    first, last = (_position(text) for text in found.groups())
    if first is None and last is None:
        return None
    if first is None:
        first, last = max(size - (last or 0), 0), size - 1
    elif last is not None and last < first:
        return None
    wanted = range(first, size if last is None else min(last + 1, size))
    if not wanted:
        detail = f"the answer has {size:,} bytes, and none of them is in the range {found[0][:80]!r}"
        raise HTTPException(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, detail, {"Content-Range": f"bytes */{size}"})
    return wanted


def _position(digits: str) -> int | None:
    if not digits:
        return None
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) <= _MOST_DIGITS else 10**_MOST_DIGITS  # beyond every answer


def ranged_response(
    request: Request, tag: str, size: int, read: Callable[[int, int], bytes], media_type: str, headers: Mapping[str, str]
) -> Response:
    """Answer with all bytes, with the requested range (206), or with nothing if the client has them (304).

    ``read`` returns the bytes between two positions; it is not called for bytes that are not sent.
    """
    headers = {"ETag": tag, "Accept-Ranges": "bytes", **headers}
    if kept_tag(request, tag) is not None:
        return unless_kept(request, Response(headers=headers))
    wanted = requested_range(request, tag, size)
    if wanted is not None:
        content = read(wanted.start, wanted.stop)
        if len(content) == len(wanted):  # otherwise the stored bytes are damaged, and all of them are sent
            part = {"Content-Range": f"bytes {wanted.start}-{wanted.stop - 1}/{size}"}
            return Response(content, HTTPStatus.PARTIAL_CONTENT, headers | part, media_type)
    return Response(read(0, size), headers=headers, media_type=media_type)
