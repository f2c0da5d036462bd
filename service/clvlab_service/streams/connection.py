"""One stream to one client: told of news, never ahead of a slow client, ended when nothing can follow."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from clvlab.application.application import Application
from clvlab.errors import ClvlabError, UnknownCompetitionError
from clvlab_service.middleware import Metrics
from clvlab_service.settings import Settings

_NORMAL, _INTERNAL_ERROR, _TRY_AGAIN_LATER = 1000, 1011, 1013  # RFC 6455, section 7.4.1, and the registry of close codes


class _SlowClientError(Exception):
    """The client did not take what was sent to it in time."""


class Connection:
    """An accepted WebSocket.

    Parameters
    ----------
    complete
        Reason of the close when all is sent.

    Attributes
    ----------
    news
        Set when something may have changed.
    """

    def __init__(self, websocket: WebSocket, settings: Settings, complete: str) -> None:
        self._websocket, self._settings, self._complete = websocket, settings, complete
        self.news = asyncio.Event()

    async def serve(self, subject: str, application: Application, sending: Coroutine[Any, Any, None]) -> None:
        """Send until all is sent or the client leaves, whichever is first; ``news`` are those about a subject."""
        metrics: Metrics = self._websocket.app.state.metrics
        if metrics.streams_open >= self._settings.max_streams:
            sending.close()
            await self._websocket.close(_TRY_AGAIN_LATER, "too many streams")
            return
        loop = asyncio.get_running_loop()
        unsubscribe = application.subscribe(subject, lambda: self._tell(loop))
        tasks = asyncio.create_task(sending), asyncio.create_task(self._left())
        try:
            with metrics.stream():
                await self._until_either(*tasks)
        finally:
            unsubscribe()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_either(self, sending: asyncio.Task[None], leaving: asyncio.Task[None]) -> None:
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not leaving.done():
                await sending
                await self._websocket.close(_NORMAL, self._complete)
        except _SlowClientError:
            await self._close_slow()
        except UnknownCompetitionError:
            await self._websocket.close(_NORMAL, "the competition was deleted")
        except ClvlabError as error:
            self._websocket.app.state.log.error("stream_failed", error=f"{type(error).__name__}: {error}")
            await self._websocket.close(_INTERNAL_ERROR, "the store can't be read: connect again")
        except WebSocketDisconnect:
            pass  # it left while something was being sent to it

    def _tell(self, loop: asyncio.AbstractEventLoop) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(self.news.set)

    async def _left(self) -> None:
        """Return when the client is gone; what it says meanwhile is not read."""
        while (await self._websocket.receive())["type"] != "websocket.disconnect":
            pass

    async def send(self, text: str) -> None:
        """Send a message, which the client must take in time."""
        try:
            async with asyncio.timeout(self._settings.stream_send_timeout_s):
                await self._websocket.send_text(text)
        except TimeoutError as error:
            raise _SlowClientError from error

    async def _close_slow(self) -> None:
        """Say why, to a client that reads again in time; the server drops one that does not."""
        try:
            async with asyncio.timeout(self._settings.stream_send_timeout_s):
                await self._websocket.close(_TRY_AGAIN_LATER, "too slow: connect again with the last seq as since_seq")
        except TimeoutError:
            return

    async def wait(self) -> None:
        """Wait for news, those of other processes included, which are seen at the next look."""
        try:
            async with asyncio.timeout(self._settings.stream_poll_s):
                await self.news.wait()
        except TimeoutError:
            return
