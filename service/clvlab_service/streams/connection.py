"""A stream to a client: it takes a place, and ends when it is complete or when the client is slow or leaves."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import structlog
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from clvlab.arena.application import Application
from clvlab.errors import ClvlabError, ShuttingDownError, UnknownCompetitionError
from clvlab_service.errors import known_problem
from clvlab_service.json_lists import EventPages
from clvlab_service.pool import BoundedPool
from clvlab_service.settings import Settings, subscriber
from clvlab_service.telemetry import RequestMetrics

# Number of open streams, in all and from one address.


class StreamPlaces:
    """The open streams of this process, whose number is limited."""

    def __init__(self, settings: Settings, metrics: RequestMetrics) -> None:
        self._most, self._most_of_client = settings.max_streams, settings.max_client_streams
        self._open = metrics.streams
        self._taken: Counter[str] = Counter()

    def refusal(self, address: str | None) -> str | None:
        """Return the reason to refuse another stream to an address; ``None`` if there is a place."""
        if self._taken.total() >= self._most:
            return f"too many streams: CLVLAB_MAX_STREAMS={self._most}"
        if address is not None and self._taken[subscriber(address)] >= self._most_of_client:
            return f"too many streams to one address: CLVLAB_MAX_CLIENT_STREAMS={self._most_of_client}"
        return None

    @contextmanager
    def taken(self, address: str | None) -> Iterator[None]:
        """Count one open stream; a connection without an address, such as a local socket, counts only in the total."""
        client = "" if address is None else subscriber(address)
        self._taken[client] += 1
        try:
            with self._open.track_inprogress():
                yield
        finally:
            self._taken[client] -= 1
            if not self._taken[client]:
                del self._taken[client]


_NORMAL, _INTERNAL_ERROR, _TRY_AGAIN_LATER = 1000, 1011, 1013  # RFC 6455, section 7.4.1, and the registry of close codes


_GONE = (WebSocketDisconnect, OSError, RuntimeError)  # errors of servers when the connection was closed by either end


class _SlowClientError(Exception):
    """The client did not take a message in time."""


class _LeftError(Exception):
    """The client left while a message was being sent."""


class Connection:
    """A WebSocket.

    Parameters
    ----------
    complete
        Reason of the close once everything is sent.
    """

    def __init__(self, websocket: WebSocket, complete: str) -> None:
        self._websocket, self._complete = websocket, complete
        settings: Settings = websocket.app.state.settings
        self._patience_s = settings.stream_send_timeout_s
        self._places: StreamPlaces = websocket.app.state.stream_places
        self._address = None if websocket.client is None else websocket.client.host

    async def deny(self, problem: Response) -> None:
        """Answer the handshake with a problem."""
        await _heard(self._websocket.send_denial_response(problem))

    async def is_accepted(self, look: Callable[[str], object], subject: str) -> bool:
        """Look for the subject of the stream; accept the handshake if it exists, otherwise deny it."""
        if self._refusal is not None:  # a stream without a place costs no look
            if await _heard(self._websocket.accept()):
                await self._close(_TRY_AGAIN_LATER, self._refusal)
            return False
        try:
            await self._websocket.app.state.feeds.pool.run(look, subject)
        except ClvlabError as error:
            await self.deny(known_problem(self._websocket, error))
            return False
        return await _heard(self._websocket.accept())

    @property
    def _refusal(self) -> str | None:
        return self._places.refusal(self._address)

    async def serve(self, sending: Coroutine[Any, Any, None]) -> None:
        """Send until everything is sent or the client leaves."""
        refusal = self._refusal  # places may have been taken during the look
        if refusal is not None:
            sending.close()
            await self._close(_TRY_AGAIN_LATER, refusal)
            return
        tasks = asyncio.create_task(sending), asyncio.create_task(self._wait_for_disconnect())
        try:
            with self._places.taken(self._address):
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
        except ClvlabError:  # the feed has logged it, once for all watchers
            await self._close(_INTERNAL_ERROR, "the store can't be read: connect again")
        except _LeftError:
            return

    async def _wait_for_disconnect(self) -> None:
        """Return when the client is gone; its messages are ignored."""
        while (await self._websocket.receive())["type"] != "websocket.disconnect":
            pass

    async def send(self, text: str) -> None:
        """Send a message, and require the client to take it in time."""
        try:
            async with asyncio.timeout(self._patience_s):
                await self._websocket.send_text(text)
        except TimeoutError as error:
            raise _SlowClientError from error
        except _GONE as error:
            raise _LeftError from error
        await asyncio.sleep(0)  # lets other tasks run, because sending into a buffer with room does not wait

    async def _close(self, code: int, reason: str) -> None:
        """Close with a code and a reason; a client that does not read them in time is dropped by the server."""
        try:
            async with asyncio.timeout(self._patience_s):
                await _heard(self._websocket.close(code, reason))
        except TimeoutError:
            return


async def _heard(saying: Coroutine[Any, Any, None]) -> bool:
    """Send to a client; False if it has left."""
    try:
        await saying
    except _GONE:
        return False
    return True


# A feed follows one subject in the store for all its watchers in this process, so that it is read once.


_P = ParamSpec("_P")
_T = TypeVar("_T")
_SETTLE_S = 0.02  # changes within this time are read together


class StreamFeed(ABC):
    """A task that reads changes of a subject and wakes its watchers. It reads after news, and also at intervals.

    Attributes
    ----------
    changed
        Event that is set and replaced at each change; a watcher must take it before it looks at the feed.
    over
        Whether the subject is complete.
    Whether the subject is complete.
        Error that ended the feed, else ``None``.
    """

    def __init__(self, subject: str, feeds: Feeds) -> None:
        self.subject, self.feeds = subject, feeds
        self.changed = asyncio.Event()
        self.over = False
        self.error: Exception | None = None
        self._news = asyncio.Event()

    @abstractmethod
    async def follow(self) -> None:
        """Read until the subject is complete."""

    async def run(self) -> None:
        """Follow the subject, and tell the watchers how it ended."""
        loop = asyncio.get_running_loop()
        unsubscribe = self.feeds.application.subscribe(self.subject, lambda: self._hear(loop))
        try:
            await self.follow()
            self.over = True
        except ClvlabError as error:
            self.error = error
            if not isinstance(error, UnknownCompetitionError | ShuttingDownError):  # it was deleted, or the process ends
                self.feeds.log.error("stream_failed", error=f"{type(error).__name__}: {error}")
        except Exception as error:  # otherwise the watchers would wait forever
            self.error = error
            raise
        finally:
            unsubscribe()
            self.feeds.forget(self)
            self.tell()

    def _hear(self, loop: asyncio.AbstractEventLoop) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._news.set)

    def tell(self) -> None:
        """Wake the watchers."""
        self.changed.set()
        self.changed = asyncio.Event()

    async def rounds(self) -> AsyncIterator[None]:
        """Yield whenever a watcher must send new entries, until the subject is complete.

        Raises
        ------
        Exception
            The feed failed; its error is raised.
        """
        while True:
            changed, over, error = self.changed, self.over, self.error  # their values before anything is sent
            yield
            if error is not None:
                raise error
            if over:
                return
            await changed.wait()

    async def read(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Read the store on a thread of the feeds; later news causes another reading."""
        self._news.clear()
        return await self.feeds.pool.run(function, *args, **kwargs)

    async def news(self) -> None:
        """Wait for news, at most until the next regular reading, which finds changes without news."""
        try:
            async with asyncio.timeout(self.feeds.poll_s):
                await self._news.wait()
        except TimeoutError:
            return
        await asyncio.sleep(_SETTLE_S)


_F = TypeVar("_F", bound=StreamFeed)


class Feeds:
    """The feeds of a process, each of which runs while it has watchers.

    Parameters
    ----------
    application, pages, pool
        Application and pages to read, and the pool whose threads read.
    poll_s
        Seconds between two readings of the store without news.
    log
        Log of the service.
    """

    def __init__(
        self,
        application: Application,
        pages: EventPages,
        pool: BoundedPool,
        poll_s: float,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self.application, self.pages, self.pool, self.poll_s, self.log = application, pages, pool, poll_s, log
        self._running: dict[str, StreamFeed] = {}
        self._watchers: dict[StreamFeed, int] = {}

    @contextmanager
    def watch(self, subject: str, make: Callable[[str, Feeds], _F]) -> Iterator[_F]:
        """Watch a subject through its feed; a missing feed is made."""
        feed: Any = self._running.get(subject)
        if feed is None:
            feed = self._running[subject] = make(subject, self)
            feed.task = asyncio.create_task(feed.run())
        self._watchers[feed] = self._watchers.get(feed, 0) + 1
        try:
            yield feed
        finally:
            self._watchers[feed] -= 1
            if not self._watchers[feed]:
                del self._watchers[feed]
                self.forget(feed)
                feed.task.cancel()

    def forget(self, feed: StreamFeed) -> None:
        """Make the next watcher of the subject start a new feed, because an ended subject may continue."""
        if self._running.get(feed.subject) is feed:
            del self._running[feed.subject]
