"""One stream to one client: a place among the streams, and an end when nothing can follow, or the client is slow or left."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Any, ParamSpec, TypeVar

import structlog
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from clvlab.arena.application import Application
from clvlab.errors import ClvlabError, ShuttingDownError, UnknownCompetitionError
from clvlab_service.errors import known_problem
from clvlab_service.json_lists import EventPages
from clvlab_service.pool import BoundedPool
from clvlab_service.settings import Settings
from clvlab_service.telemetry import RequestMetrics

# How many streams are open, in all and from one address.


_SUBSCRIBER_BITS = 64  # of an IPv6 address: the rest a client chooses for itself (RFC 6177)


class StreamPlaces:
    """The streams of this process, which are bounded."""

    def __init__(self, settings: Settings, metrics: RequestMetrics) -> None:
        self._most, self._most_of_client = settings.max_streams, settings.max_client_streams
        self._open = metrics.streams
        self._taken: Counter[str] = Counter()

    def refusal(self, address: str | None) -> str | None:
        """Say why there is no place for one more stream to an address; null if there is one."""
        if self._taken.total() >= self._most:
            return "too many streams"
        if address is not None and self._taken[_subscriber(address)] >= self._most_of_client:
            return "too many streams to one address"
        return None

    @contextmanager
    def taken(self, address: str | None) -> Iterator[None]:
        """Count one open stream; a connection without an address, such as a local socket, counts among all only."""
        subscriber = "" if address is None else _subscriber(address)
        self._taken[subscriber] += 1
        try:
            with self._open.track_inprogress():
                yield
        finally:
            self._taken[subscriber] -= 1
            if not self._taken[subscriber]:
                del self._taken[subscriber]


def _subscriber(address: str) -> str:
    """Return what one client can't change of its address."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    mapped = parsed.ipv4_mapped  # as a socket for both kinds shows a client of the older one
    return str(mapped or IPv6Network((int(parsed), _SUBSCRIBER_BITS), strict=False))


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

    async def is_accepted(self, look: Callable[[str], object], subject: str) -> bool:
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
        tasks = asyncio.create_task(sending), asyncio.create_task(self._wait_for_disconnect())
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

    async def _wait_for_disconnect(self) -> None:
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


# What many watch is read once: a feed follows one subject in the store for all of its watchers in this process.


_P = ParamSpec("_P")
_T = TypeVar("_T")
_SETTLE_S = 0.02  # news that come together are one look


class StreamFeed(ABC):
    """A task that reads what is new about a subject, when told of news and at intervals besides, and tells its watchers.

    Attributes
    ----------
    changed
        Is set, and replaced, when there is something new: to be taken before the feed is looked at.
    over
        Nothing will follow.
    error
        Why nothing more can be read.
    """

    def __init__(self, subject: str, feeds: Feeds) -> None:
        self.subject, self.feeds = subject, feeds
        self.changed = asyncio.Event()
        self.over = False
        self.error: Exception | None = None
        self._news = asyncio.Event()

    @abstractmethod
    async def follow(self) -> None:
        """Read until nothing can follow."""

    async def run(self) -> None:
        """Follow the subject, and tell how that ended."""
        loop = asyncio.get_running_loop()
        unsubscribe = self.feeds.application.subscribe(self.subject, lambda: self._hear(loop))
        try:
            await self.follow()
            self.over = True
        except ClvlabError as error:
            self.error = error
            if not isinstance(error, UnknownCompetitionError | ShuttingDownError):  # it was deleted, or we end
                self.feeds.log.error("stream_failed", error=f"{type(error).__name__}: {error}")
        except Exception as error:  # else those who watch would wait for ever
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
        """Have a watcher send all that there is, and again whenever there is more, until nothing can follow.

        Raises
        ------
        Exception
            What the feed ended with.
        """
        while True:
            changed, over, error = self.changed, self.over, self.error  # as they are before anything is sent
            yield
            if error is not None:
                raise error
            if over:
                return
            await changed.wait()

    async def read(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Read the store, on a thread of the feeds; news that come from here on are looked at afterwards."""
        self._news.clear()
        return await self.feeds.pool.run(function, *args, **kwargs)

    async def news(self) -> None:
        """Wait for news, those included that nobody told of, which are seen at the next look."""
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
        What is read, and where.
    poll_s
        Seconds between two looks at a store that told of nothing.
    log
        Of the service.
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
        """Watch a subject by its feed, which is made if it has no feed yet."""
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
        """Have the next watcher of its subject begin again: what ended may go on."""
        if self._running.get(feed.subject) is feed:
            del self._running[feed.subject]
