"""Long answers, read from the store and sent in parts: no more of one is in memory at a time than a page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Annotated, Any

import structlog
from fastapi import Depends, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from clvlab.errors import ClvlabError
from clvlab_service.pool import Place

Page = tuple[bytes, Any]
"""Entries as JSON, with commas between them, and where the next page begins; null at the end."""


async def _place(request: Request) -> AsyncIterator[Place]:
    with request.app.state.pools["reads"].held() as place:
        yield place


ReadPlace = Annotated[Place, Depends(_place)]
"""A place among those who read much, until the answer is sent."""


async def json_list(
    request: Request, place: Place, page: Callable[[Any], Page], start: Any, opening: bytes = b"[", closing: bytes = b"]"
) -> Response:
    """Answer with all pages as one JSON array.

    Parameters
    ----------
    request, place
        Who asks, and where pages are read.
    page
        Reads a page; blocks. What it raises of the first page is the answer.
    start
        Where the first page begins.
    opening, closing
        What stands around the entries.
    """
    first, following = await place.run(page, start)
    if following is None:
        return Response(opening + first + closing, media_type="application/json")

    async def parts() -> AsyncGenerator[bytes]:
        found, at = first, following
        yield opening + found
        while at is not None:
            found, at = await place.run(page, at)
            yield b"," + found
        yield closing

    state = request.app.state
    return _Parts(parts(), state.settings.read_send_timeout_s, state.log)


class _Parts(StreamingResponse):
    """A JSON answer in parts, each of which the client must take in time: else nobody waits for it any longer."""

    def __init__(self, parts: AsyncGenerator[bytes], patience_s: float, log: structlog.typing.FilteringBoundLogger) -> None:
        super().__init__(parts, media_type="application/json")
        self._parts, self._patience_s, self._log = parts, patience_s, log

    async def stream_response(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        # The server closes the connection of an answer that is not complete.
        async with aclosing(self._parts) as parts:
            try:
                async for part in parts:
                    if not await self._taken(send, part):
                        self._log.warning("slow_reader_dropped", seconds=self._patience_s)
                        return
            except ClvlabError as error:
                self._log.error("answer_broken_off", error=f"{type(error).__name__}: {error}")
                return
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _taken(self, send: Send, part: bytes) -> bool:
        try:
            async with asyncio.timeout(self._patience_s):
                await send({"type": "http.response.body", "body": part, "more_body": True})
        except TimeoutError:
            return False
        return True
