"""What may be kept by clients and proxies: sealed bytes for ever, the rest after asking."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute

_YEAR = "public, max-age=31536000, immutable"
_LARGE = 65_536


class RevalidatedRoute(APIRoute):
    """Adds ``ETag`` and ``Cache-Control: no-cache``; an unchanged answer to a GET is 304 (RFC 9110, section 13)."""

    cache_control = "no-cache"

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def cached(request: Request) -> Response:
            response = await handler(request)
            tag = await run_in_threadpool(_tag, response.body) if len(response.body) > _LARGE else _tag(response.body)
            kept = {"ETag": tag, "Cache-Control": self.cache_control}
            kept |= {name: value for name, value in response.headers.items() if name == "vary"}  # RFC 9110, section 15.4.5
            if request.method == "GET" and _names(request.headers.get("if-none-match", ""), tag):
                return Response(status_code=304, headers=kept)
            response.headers.update(kept)
            return response

        return cached


class ImmutableRoute(RevalidatedRoute):
    """As ``RevalidatedRoute``, for bytes that a seal fixes."""

    cache_control = _YEAR


def _tag(body: bytes | memoryview) -> str:
    return f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'  # weak: the same answer may be sent compressed or not


def _names(if_none_match: str, tag: str) -> bool:
    tags = [candidate.strip().removeprefix("W/") for candidate in if_none_match.split(",")]
    return "*" in tags or tag.removeprefix("W/") in tags
