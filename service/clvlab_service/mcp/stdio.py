"""The tools over standard input and output, for an agent on this machine."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.to_thread
from mcp.server.stdio import stdio_server

from clvlab.arena.application import Application
from clvlab_service.mcp.server import Context, server
from clvlab_service.mcp.tools import Desk


def serve(owner: str, database_url: str | None) -> None:
    """Serve an owner's tools over a store until the input ends.

    Raises
    ------
    StoreUnreachableError, StoreError
        The store can't be opened.
    """
    application = Application(database_url)
    try:
        application.start()
        anyio.run(_serve, application, owner)
    finally:
        application.close()


async def _serve(application: Application, owner: str) -> None:
    async def work(pool: str, function: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG001
        return await anyio.to_thread.run_sync(lambda: function(*args, **kwargs))

    def desk_of(_: Context) -> Desk:
        return Desk(application, application.laboratory, owner, work)

    served = server(desk_of)
    async with stdio_server() as (incoming, outgoing):
        await served.run(incoming, outgoing, served.create_initialization_options())
