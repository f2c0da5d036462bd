"""One stream to one client: a place among the streams, and an end when nothing can follow, or the client is slow or left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from clvlab.errors import ClvlabError, UnknownCompetitionError
from clvlab_service.errors import known_problem
from clvlab_service.settings import Settings
from clvlab_service.streams.places import StreamPlaces

_NORMAL, _INTERNAL_ERROR, _TRY_AGAIN_LATER = 1000, 1011, 1013  # RFC 6455, section 7.4.1, and the registry of close codes


_GONE = (WebSocketDisconnect, OSError, RuntimeError)  # what servers raise when the connection is closed, by either end


class _SlowClientError(Exception):
    """The client did not take what was sent to it in time."""


class _LeftError(Exception):
    """The client left while something was being sent to it."""


class Connection:
    """A WebSocket.

    Parameters
    ----------
    complete
        Reason of the close when all is sent.
    """

    def __init__(self, websocket: WebSocket, complete: str) -> None:
        self._websocket, self._complete = websocket, complete
        settings: Settings = websocket.app.state.settings
        self._patience_s = settings.stream_send_timeout_s

    async def deny(self, problem: Response) -> None:
        """Answer the handshake with a problem."""
        await _heard(self._websocket.send_denial_response(problem))

    async def opened(self, look: Callable[[str], object], subject: str) -> bool:
        """Look for the subject of the stream; accept the handshake if it is there, and else deny it."""
        try:
            await self._websocket.app.state.feeds.pool.run(look, subject)
        except ClvlabError as error:
            await self.deny(known_problem(self._websocket, error))
            return False
        return await _heard(self._websocket.accept())

    async def serve(self, sending: Coroutine[Any, Any, None]) -> None:
        """Send until all is sent or the client leaves, whichever is first."""
        places: StreamPlaces = self._websocket.app.state.stream_places
        client = self._websocket.client
        address = None if client is None else client.host
        refusal = places.refusal(address)
        if refusal is not None:
            sending.close()
            await self._close(_TRY_AGAIN_LATER, refusal)
            return
        tasks = asyncio.create_task(sending), asyncio.create_task(self._left())
        try:
            with places.taken(address):
                await self._until_either(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_either(self, sending: asyncio.Task[None], leaving: asyncio.Task[None]) -> None:
        await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        if leaving.done():
            return
        try:
            sending.result()
            await self._close(_NORMAL, self._complete)
        except _SlowClientError:
            await self._close(_TRY_AGAIN_LATER, "too slow: connect again with the last seq as since_seq")
        except UnknownCompetitionError:
            await self._close(_NORMAL, "the competition was deleted")
        except ClvlabError:  # which the feed has logged, once for all who watch it
            await self._close(_INTERNAL_ERROR, "the store can't be read: connect again")
        except _LeftError:
            return

    async def _left(self) -> None:
        """Return when the client is gone; what it says meanwhile is not read."""
        while (await self._websocket.receive())["type"] != "websocket.disconnect":
            pass

    async def send(self, text: str) -> None:
        """Send a message, which the client must take in time."""
        try:
            async with asyncio.timeout(self._patience_s):
                await self._websocket.send_text(text)
        except TimeoutError as error:
            raise _SlowClientError from error
        except _GONE as error:
            raise _LeftError from error
        await asyncio.sleep(0)  # a server whose buffer has room waits for nothing: here others have their turn

    async def _close(self, code: int, reason: str) -> None:
        """Say why, to a client that reads again in time; the server drops one that does not."""
        try:
            async with asyncio.timeout(self._patience_s):
                await _heard(self._websocket.close(code, reason))
        except TimeoutError:
            return


async def _heard(saying: Coroutine[Any, Any, None]) -> bool:
    """Say something to a client; False if it has left."""
    try:
        await saying
    except _GONE:
        return False
    return True
