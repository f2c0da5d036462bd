"""The live stream of a competition: what it sends is what the log holds, entry by entry, to the last.

A connection keeps a cursor into the persisted log and reads on from there, when told of new entries and at intervals
besides. So there is no buffer that a slow client could fill, no gap, and nothing is sent twice. The stream ends when
nothing can follow: the competition is finalized or completed, and its anchor is not pending.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

import orjson
from fastapi import APIRouter, Path, Query, WebSocket
from fastapi.concurrency import run_in_threadpool

from clvlab.answers.competitions import CompetitionEvent
from clvlab.application.application import Application
from clvlab.errors import UnknownCompetitionError
from clvlab_service.deps import SAFE_INTEGER
from clvlab_service.errors import known_problem, validation_problem
from clvlab_service.streams.connection import Connection

router = APIRouter(prefix="/competitions", tags=["competitions"])

_BATCH = 500
_FINAL = ("finalized", "completed")
_LAST_KINDS = ("COMPETITION_FINALIZED", "PROOF_ANCHOR")
_INTEGER = re.compile(r"-?[0-9]{1,16}")


@router.websocket("/{competition_id}/arena")
async def arena(
    websocket: WebSocket, competition_id: Annotated[str, Path()], since_seq: Annotated[str, Query()] = "-1"
) -> None:
    """Send the entries of the log after `since_seq` (-1 by default: all of them), as they are appended."""
    app, settings = websocket.app, websocket.app.state.settings
    if not (_INTEGER.fullmatch(since_seq) and abs(int(since_seq)) <= SAFE_INTEGER):
        await websocket.send_denial_response(validation_problem(websocket, "since_seq", "must be an integer", since_seq))
        return
    application: Application = app.state.application
    try:
        await run_in_threadpool(application.competitions.events, competition_id, SAFE_INTEGER, 1)
    except UnknownCompetitionError as error:
        await websocket.send_denial_response(known_problem(websocket, error))
        return
    await websocket.accept()
    connection = Connection(websocket, settings, "the log is complete")
    await connection.serve(competition_id, application, _send_log(connection, application, competition_id, int(since_seq)))


async def _send_log(connection: Connection, application: Application, competition_id: str, since_seq: int) -> None:
    cursor, complete = since_seq, await run_in_threadpool(_complete, application, competition_id)
    while True:
        connection.news.clear()
        events = await run_in_threadpool(application.competitions.events, competition_id, cursor, _BATCH)
        for text in await run_in_threadpool(_messages, events):
            await connection.send(text)
        if events:
            cursor = events[-1]["seq"]
            if any(event["kind"] in _LAST_KINDS for event in events):
                complete = await run_in_threadpool(_complete, application, competition_id)
        elif complete:  # known before the log was read, so nothing that was appended in between is lost
            return
        else:
            await connection.wait()


def _complete(application: Application, competition_id: str) -> bool:
    state = application.competitions.state(competition_id)
    return state["status"] in _FINAL and state["anchor_status"] != "pending"


def _messages(events: Iterable[CompetitionEvent]) -> list[str]:
    return [orjson.dumps(event).decode() for event in events]
