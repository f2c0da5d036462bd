"""The live stream of a competition: it sends every entry of the log, up to the last.

The log is read once for all watchers. A connection stores only a cursor. It takes new entries from the newest page, which the
feed holds, and older ones from pages of the store. So a slow client fills no buffer, and each entry is sent exactly once. The
stream ends when the log is complete: the competition is finalized or completed, and its anchor is not pending.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import orjson
from fastapi import APIRouter, Path, Query, WebSocket

from clvlab.arena.jobs import OVER
from clvlab_service.deps import SAFE_INTEGER
from clvlab_service.errors import validation_problem
from clvlab_service.json_lists import PAGE
from clvlab_service.streams.connection import Connection, Feeds, StreamFeed

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
    if await connection.is_accepted(feeds.pages.length, competition_id):
        with feeds.watch(competition_id, LogFeed) as feed:
            await connection.serve(_send_log(connection, feed, max(int(since_seq), -1)))


class LogFeed(StreamFeed):
    """The log of a competition as it grows.

    Attributes
    ----------
    length
        Number of entries read.
    """

    def __init__(self, subject: str, feeds: Feeds) -> None:
        super().__init__(subject, feeds)
        self.length = 0
        self._newest: list[str] = []  # entries of the page that contains position ``length``

    async def follow(self) -> None:
        """Read every new entry, until the log is complete."""
        pages = self.feeds.pages
        self.length = await self.read(pages.length, self.subject) // PAGE * PAGE  # watchers read earlier entries themselves
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
        """Return the entries after ``seq``, up to the end of their page; ``seq`` is not the last one."""
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


# The live progress of a run: a message at every change, the last one when it is sealed or has failed.


progress_router = APIRouter(prefix="/runs", tags=["runs"])


@progress_router.websocket("/{run_id}/progress")
async def progress(websocket: WebSocket, run_id: Annotated[str, Path()]) -> None:
    """Send the progress of a run at every change, until the run is over."""
    connection, feeds = Connection(websocket, "the run is over"), websocket.app.state.feeds
    if await connection.is_accepted(feeds.application.jobs.state, run_id):
        with feeds.watch(run_id, ProgressFeed) as feed:
            await connection.serve(_send_progress(connection, feed))


class ProgressFeed(StreamFeed):
    """The progress of a run.

    Attributes
    ----------
    text
        The newest state.
    number
        Number of states so far.
    """

    def __init__(self, subject: str, feeds: Feeds) -> None:
        super().__init__(subject, feeds)
        self.text, self.number = "", 0

    async def follow(self) -> None:
        """Read every state that lasts until the next reading, until the run is over."""
        while True:
            state = await self.read(self.feeds.application.jobs.state, self.subject)
            text = orjson.dumps(state).decode()
            if text != self.text:
                self.text, self.number = text, self.number + 1
                self.tell()
            if state["status"] in OVER:
                return
            await self.news()


async def _send_progress(connection: Connection, feed: ProgressFeed) -> None:
    sent = 0
    async for _ in feed.rounds():
        if feed.number > sent:
            sent = feed.number
            await connection.send(feed.text)
