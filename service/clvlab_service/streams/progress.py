"""The live progress of a run: a message at every change, the last one when it is sealed or has failed."""

from __future__ import annotations

from typing import Annotated

import orjson
from fastapi import APIRouter, Path, WebSocket

from clvlab_service.streams.connection import Connection
from clvlab_service.streams.feeds import Feed, Feeds

router = APIRouter(prefix="/runs", tags=["runs"])

_OVER = ("sealed", "failed", "removed")


@router.websocket("/{run_id}/progress")
async def progress(websocket: WebSocket, run_id: Annotated[str, Path()]) -> None:
    """Send how far a run is, whenever that changes, until it is over."""
    connection, feeds = Connection(websocket, "the run is over"), websocket.app.state.feeds
    if await connection.opened(feeds.application.jobs.state, run_id):
        with feeds.watch(run_id, ProgressFeed) as feed:
            await connection.serve(_send_progress(connection, feed))


class ProgressFeed(Feed):
    """How far a run is.

    Attributes
    ----------
    text
        The newest state.
    number
        How many states there were.
    """

    def __init__(self, subject: str, feeds: Feeds) -> None:
        super().__init__(subject, feeds)
        self.text, self.number = "", 0

    async def follow(self) -> None:
        """Read every state that lasts, until the run is over."""
        while True:
            state = await self.read(self.feeds.application.jobs.state, self.subject)
            text = orjson.dumps(state).decode()
            if text != self.text:
                self.text, self.number = text, self.number + 1
                self.tell()
            if state["status"] in _OVER:
                return
            await self.news()


async def _send_progress(connection: Connection, feed: ProgressFeed) -> None:
    sent = 0
    async for _ in feed.rounds():
        if feed.number > sent:
            sent = feed.number
            await connection.send(feed.text)
