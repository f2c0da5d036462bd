"""The live progress of a run: a message at every change, the last one when it is sealed or has failed."""

from __future__ import annotations

from typing import Annotated

import orjson
from fastapi import APIRouter, Path, WebSocket
from fastapi.concurrency import run_in_threadpool

from clvlab.application.application import Application
from clvlab.errors import UnknownRunError
from clvlab_service.errors import known_problem
from clvlab_service.streams.connection import Connection

router = APIRouter(prefix="/runs", tags=["runs"])

_OVER = ("sealed", "failed", "removed")


@router.websocket("/{run_id}/progress")
async def progress(websocket: WebSocket, run_id: Annotated[str, Path()]) -> None:
    """Send how far a run is, whenever that changes, until it is over."""
    application: Application = websocket.app.state.application
    try:
        await run_in_threadpool(application.jobs.state, run_id)
    except UnknownRunError as error:
        await websocket.send_denial_response(known_problem(websocket, error))
        return
    await websocket.accept()
    connection = Connection(websocket, websocket.app.state.settings, "the run is over")
    await connection.serve(run_id, application, _send_progress(connection, application, run_id))


async def _send_progress(connection: Connection, application: Application, run_id: str) -> None:
    sent = None
    while True:
        connection.news.clear()
        state = await run_in_threadpool(application.jobs.state, run_id)
        if state != sent:
            await connection.send(orjson.dumps(state).decode())
            sent = state
        if state["status"] in _OVER:
            return
        await connection.wait()
