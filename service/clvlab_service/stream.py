"""The live stream of a competition: what it sends is what the log holds, entry by entry, to the last.

A connection keeps a cursor into the persisted log and reads on from there, when told of new entries and at intervals
besides. So there is no buffer that a slow client could fill, no gap, and nothing is sent twice. The stream ends when
nothing can follow: the competition is finalized or completed, and its anchor is not pending.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from typing import Annotated

import orjson
from fastapi import APIRouter, Path, Query, WebSocket
from fastapi.concurrency import run_in_threadpool
from starlette.websockets import WebSocketDisconnect

from clvlab.answers.competitions import CompetitionEvent
from clvlab.application.application import Application
from clvlab.errors import ClvlabError, UnknownCompetitionError
from clvlab_service.errors import known_problem, validation_problem
from clvlab_service.middleware import Metrics
from clvlab_service.settings import Settings

router = APIRouter(prefix="/competitions", tags=["competitions"])

_BATCH = 500
_FINAL = ("finalized", "completed")
_LAST_KINDS = ("COMPETITION_FINALIZED", "PROOF_ANCHOR")
_INTEGER = re.compile(r"-?[0-9]{1,16}")
_SAFE = 2**53 - 1
_NORMAL, _INTERNAL_ERROR, _TRY_AGAIN_LATER = 1000, 1011, 1013  # RFC 6455, section 7.4.1, and the registry of close codes


class _SlowClientError(Exception):
    """The client did not take what was sent to it in time."""


@router.websocket("/{competition_id}/arena")
async def arena(
    websocket: WebSocket, competition_id: Annotated[str, Path()], since_seq: Annotated[str, Query()] = "-1"
) -> None:
    """Send the entries of the log after `since_seq` (-1 by default: all of them), as they are appended."""
    app, settings = websocket.app, websocket.app.state.settings
    if not (_INTEGER.fullmatch(since_seq) and abs(int(since_seq)) <= _SAFE):
        await websocket.send_denial_response(validation_problem(websocket, "since_seq", "must be an integer", since_seq))
        return
    application: Application = app.state.application
    try:
        await run_in_threadpool(application.competitions.events, competition_id, _SAFE, 1)
    except UnknownCompetitionError as error:
        await websocket.send_denial_response(known_problem(websocket, error))
        return
    await websocket.accept()
    metrics: Metrics = app.state.metrics
    if metrics.streams_open >= settings.max_streams:
        await websocket.close(_TRY_AGAIN_LATER, "too many streams")
        return
    with metrics.stream():
        await _serve(websocket, application, competition_id, int(since_seq), settings)


async def _serve(
    websocket: WebSocket, application: Application, competition_id: str, since_seq: int, settings: Settings
) -> None:
    """Send until the log is complete or the client leaves, whichever is first."""
    news, loop = asyncio.Event(), asyncio.get_running_loop()
    unsubscribe = application.competitions.subscribe(competition_id, lambda: _tell(loop, news))
    sending = asyncio.create_task(_send_log(websocket, application, competition_id, since_seq, news, settings))
    leaving = asyncio.create_task(_left(websocket))
    try:
        await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not leaving.done():
            await sending
            await websocket.close(_NORMAL, "the log is complete")
    except _SlowClientError:
        await _close_slow(websocket, settings.stream_send_timeout_s)
    except ClvlabError as error:
        websocket.app.state.log.error("stream_failed", error=f"{type(error).__name__}: {error}")
        await websocket.close(_INTERNAL_ERROR, "the log can't be read: connect again with the last seq as since_seq")
    except WebSocketDisconnect:
        pass  # it left while something was being sent to it
    finally:
        unsubscribe()
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)


def _tell(loop: asyncio.AbstractEventLoop, news: asyncio.Event) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(news.set)


async def _left(websocket: WebSocket) -> None:
    """Return when the client is gone; what it says meanwhile is not read."""
    while (await websocket.receive())["type"] != "websocket.disconnect":
        pass


async def _send_log(
    websocket: WebSocket,
    application: Application,
    competition_id: str,
    since_seq: int,
    news: asyncio.Event,
    settings: Settings,
) -> None:
    cursor, complete = since_seq, await run_in_threadpool(_complete, application, competition_id)
    while True:
        news.clear()
        events = await run_in_threadpool(application.competitions.events, competition_id, cursor, _BATCH)
        for text in await run_in_threadpool(_messages, events):
            await _send(websocket, text, settings.stream_send_timeout_s)
        if events:
            cursor = events[-1]["seq"]
            if any(event["kind"] in _LAST_KINDS for event in events):
                complete = await run_in_threadpool(_complete, application, competition_id)
        elif complete:  # known before the log was read, so nothing that was appended in between is lost
            return
        else:
            await _wait(news, settings.stream_poll_s)


def _complete(application: Application, competition_id: str) -> bool:
    state = application.competitions.state(competition_id)
    return state["status"] in _FINAL and state["anchor_status"] != "pending"


def _messages(events: Iterable[CompetitionEvent]) -> list[str]:
    return [orjson.dumps(event).decode() for event in events]


async def _send(websocket: WebSocket, text: str, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await websocket.send_text(text)
    except TimeoutError as error:
        raise _SlowClientError from error


async def _close_slow(websocket: WebSocket, timeout_s: float) -> None:
    """Say why, to a client that reads again in time; the server drops one that does not."""
    try:
        async with asyncio.timeout(timeout_s):
            await websocket.close(_TRY_AGAIN_LATER, "too slow: connect again with the last seq as since_seq")
    except TimeoutError:
        return


async def _wait(news: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await news.wait()
    except TimeoutError:
        return
