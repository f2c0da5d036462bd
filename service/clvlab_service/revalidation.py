"""What may be kept by clients and proxies, and under which requests: sealed bytes for ever, the rest after asking."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute

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
            if response.status_code != HTTPStatus.OK:  # how far work is, which changes by itself
                return response
            tag = await run_in_threadpool(_tag, response.body) if len(response.body) > _LARGE else _tag(response.body)
            response.headers.update({"ETag": tag, "Cache-Control": self.cache_control})
            if is_kept(request, tag):
                kept = {name: response.headers[name] for name in _KEPT if name in response.headers}
                return Response(status_code=304, headers=kept)
            return response

        return cached


class ImmutableRoute(RevalidatedRoute):
    """As ``RevalidatedRoute``, for bytes that a seal fixes."""

    cache_control = _YEAR


def is_kept(request: Request, tag: str) -> bool:
    """Tell whether the caller of a GET has the answer of a tag already."""
    return request.method == "GET" and _names(", ".join(request.headers.getlist("if-none-match")), tag)


def _tag(body: bytes | memoryview) -> str:
    return f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'  # weak: the same answer may be sent compressed or not


def _names(if_none_match: str, tag: str) -> bool:
    tags = [candidate.strip().removeprefix("W/") for candidate in if_none_match.split(",")]
    return "*" in tags or tag.removeprefix("W/") in tags
