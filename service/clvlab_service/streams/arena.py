"""The live stream of a competition: what it sends is what the log holds, entry by entry, to the last.

The log is read once for all who watch it. A connection keeps a cursor into it and nothing else: it takes new entries from
the newest page, which the feed holds, and older ones from pages of the store. So there is no buffer that a slow client could
fill, no gap, and nothing is sent twice. The stream ends when nothing can follow: the competition is finalized or completed,
and its anchor is not pending.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Query, WebSocket

from clvlab_service.deps import SAFE_INTEGER
from clvlab_service.errors import validation_problem
from clvlab_service.event_pages import PAGE
from clvlab_service.streams.connection import Connection
from clvlab_service.streams.feeds import Feed, Feeds

router = APIRouter(prefix="/competitions", tags=["competitions"])

_INTEGER = re.compile(r"-?[0-9]{1,16}")


@router.websocket("/{competition_id}/arena")
async def arena(
    websocket: WebSocket, competition_id: Annotated[str, Path()], since_seq: Annotated[str, Query()] = "-1"
) -> None:
    """Send the entries of the log after `since_seq` (-1 by default: all of them), as they are appended."""
    connection = Connection(websocket, "the log is complete")
    if not (_INTEGER.fullmatch(since_seq) and abs(int(since_seq)) <= SAFE_INTEGER):
        await connection.deny(validation_problem(websocket, "since_seq", "must be an integer", since_seq))
        return
    feeds: Feeds = websocket.app.state.feeds
    if await connection.opened(feeds.pages.length, competition_id):
        with feeds.watch(competition_id, LogFeed) as feed:
            await connection.serve(_send_log(connection, feed, max(int(since_seq), -1)))


class LogFeed(Feed):
    """The log of a competition as it grows.

    Attributes
    ----------
    length
        Entries that were seen.
    """

    def __init__(self, subject: str, feeds: Feeds) -> None:
        super().__init__(subject, feeds)
        self.length = 0
        self._newest: list[str] = []  # entries of the page that ``length`` lies in

    async def follow(self) -> None:
        """Read every new entry, until nothing can follow."""
        pages = self.feeds.pages
        self.length = await self.read(pages.length, self.subject) // PAGE * PAGE  # what is before that, watchers read
        while True:
            appended, length, complete = await self.read(pages.end, self.subject, self.length)
            if appended:
                if self.length % PAGE == 0:
                    self._newest = []
                self._newest += appended
                self.length += len(appended)
                self.tell()
            if self.length >= length:
                if complete:
                    return
                await self.news()

    async def after(self, seq: int) -> Sequence[str]:
        """Return entries after one that is not the last: those of a page."""
        start = seq + 1
        if start >= self.length - len(self._newest):
            return self._newest[start - self.length :]
        page = await self.feeds.pool.run(self.feeds.pages.full, self.subject, start // PAGE)
        return page[start % PAGE :]


async def _send_log(connection: Connection, feed: LogFeed, seq: int) -> None:
    async for _ in feed.rounds():
        while seq + 1 < feed.length:
            for text in await feed.after(seq):
                await connection.send(text)
                seq += 1
