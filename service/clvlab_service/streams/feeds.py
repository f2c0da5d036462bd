"""What many watch is read once: a feed follows one subject in the store for all of its watchers in this process."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import structlog

from clvlab.application.application import Application
from clvlab.errors import ClvlabError, ShuttingDownError, UnknownCompetitionError
from clvlab_service.event_pages import EventPages
from clvlab_service.pool import BoundedPool

_P = ParamSpec("_P")
_T = TypeVar("_T")
_SETTLE_S = 0.02  # news that come together are one look


class Feed(ABC):
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


_F = TypeVar("_F", bound=Feed)


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
        self._running: dict[str, Feed] = {}
        self._watchers: dict[Feed, int] = {}

    @contextmanager
    def watch(self, subject: str, make: Callable[[str, Feeds], _F]) -> Iterator[_F]:
        """Watch a subject by its feed, which is made if there is none."""
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

    def forget(self, feed: Feed) -> None:
        """Have the next watcher of its subject begin anew: what ended may go on."""
        if self._running.get(feed.subject) is feed:
            del self._running[feed.subject]
