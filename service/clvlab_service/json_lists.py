"""Long answers, read from the store and sent in parts; memory holds one page of an answer at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Annotated, Any

import structlog
from fastapi import Depends, Request
from pydantic import TypeAdapter
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from clvlab.api.competitions import CompetitionEvent
from clvlab.arena.competitions.events import EventLog
from clvlab.base.cache import BoundedCache
from clvlab.errors import ClvlabError
from clvlab_service.pool import PoolPlace

# Entries of competitions' logs as JSON texts, in pages. A full page never changes, so it is encoded once for all requests.


PAGE = 256
"""Number of entries on a page: page ``n`` of a log begins at ``seq`` ``n * PAGE``."""

_EVENT = TypeAdapter(CompetitionEvent)
_KEPT_BYTES = 32 << 20
_OVERHEAD_BYTES = 64  # memory of a text besides its characters


class EventPages:
    """Pages of logs, with a cache of recently read ones; thread-safe, and every method blocks."""

    def __init__(self, log: EventLog, kept_bytes: int = _KEPT_BYTES) -> None:
        self._log = log
        self._kept: BoundedCache[Sequence[str]] = BoundedCache(kept_bytes, _size)

    def length(self, competition_id: str) -> int:
        """Count the entries of a log."""
        return self._log.length(competition_id)

    def full(self, competition_id: str, number: int) -> Sequence[str]:
        """Return a full page of the log."""
        start = number * PAGE
        return self._kept.get((competition_id, number), lambda: self.part(competition_id, start, start + PAGE))

    def joined_entries(self, competition_id: str, start: int, end: int, length: int) -> tuple[bytes, int | None]:
        """Return entries from ``start`` on, joined by commas, and the start of the next ones; ``None`` at ``end``.

        Parameters
        ----------
        competition_id, start, end
            Log, first requested entry, and end of the requested entries.
        length
            Known number of entries of the log; only pages up to there are read as full pages.

        Raises
        ------
        UnknownCompetitionError
        """
        number = start // PAGE
        first, following = number * PAGE, (number + 1) * PAGE
        if following <= length:
            found = self.full(competition_id, number)[start - first : end - first]
        else:
            found = self.part(competition_id, start, end)
        return ",".join(found).encode(), following if following < end else None

    def part(self, competition_id: str, start: int, end: int) -> Sequence[str]:
        """Return the existing entries from ``start`` to before ``end``."""
        return _texts(self._log.part(competition_id, start, end))

    def end(self, competition_id: str, start: int) -> tuple[Sequence[str], int, bool]:
        """Return the entries from ``start`` to the end of its page, the length of the log, and whether the log is complete."""
        found = self._log.end(competition_id, start, start // PAGE * PAGE + PAGE)
        return _texts(found.entries), found.length, found.complete


def _texts(entries: Iterable[CompetitionEvent]) -> list[str]:
    return [_EVENT.dump_json(_EVENT.validate_python(entry)).decode() for entry in entries]


def _size(texts: Sequence[str]) -> int:
    return sum(len(text) + _OVERHEAD_BYTES for text in texts)


Page = tuple[bytes, Any]
"""Entries as JSON joined by commas, and the start of the next page; ``None`` at the end."""


async def _place(request: Request) -> AsyncIterator[PoolPlace]:
    with request.app.state.pools["reads"].held() as place:
        yield place


ReadPlace = Annotated[PoolPlace, Depends(_place)]
"""A place in the pool for long reads, held until the answer is sent."""


async def json_list(
    request: Request, place: PoolPlace, page: Callable[[Any], Page], start: Any, opening: bytes = b"[", closing: bytes = b"]"
) -> Response:
    """Answer with all pages as one JSON array.

    Parameters
    ----------
    request, place
        The request, and the place in whose pool pages are read.
    page
        Function that reads a page; it blocks. An error on the first page is the answer.
    start
        Start of the first page.
    opening, closing
        Text before and after the entries.
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
    """A JSON answer in parts; a client that does not take a part in time is disconnected."""

    def __init__(self, parts: AsyncGenerator[bytes], patience_s: float, log: structlog.typing.FilteringBoundLogger) -> None:
        super().__init__(parts, media_type="application/json")
        self._parts, self._patience_s, self._log = parts, patience_s, log

    async def stream_response(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        # The server closes the connection if the answer is not complete.
        async with aclosing(self._parts) as parts:
            try:
                async for part in parts:
                    if not await self._send_part(send, part):
                        self._log.warning("slow_reader_dropped", seconds=self._patience_s)
                        return
            except ClvlabError as error:
                self._log.error("answer_broken_off", error=f"{type(error).__name__}: {error}")
                return
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_part(self, send: Send, part: bytes) -> bool:
        try:
            async with asyncio.timeout(self._patience_s):
                await send({"type": "http.response.body", "body": part, "more_body": True})
        except TimeoutError:
            return False
        return True
