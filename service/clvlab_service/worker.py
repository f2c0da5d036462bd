"""The worker: performs the jobs of a store, and answers nothing but whether it is well."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI

from clvlab_service.errors import ending_problem, install_error_handlers, unexpected_problem
from clvlab_service.logs import logger
from clvlab_service.middleware import Metrics, Observe
from clvlab_service.opening import opened, opening_of
from clvlab_service.routers import operations
from clvlab_service.settings import Settings


def create_worker(settings: Settings) -> FastAPI:
    """Build the worker: its jobs begin when a server starts it, with ports to be asked at or without.

    Raises
    ------
    OSError, ValueError, AnchorError, FeedError, LogError
        A configured key can't be used, or settings exclude each other.
    """
    if not settings.is_shared:
        raise ValueError("a worker needs PostgreSQL in CLVLAB_DATABASE_URL: over SQLite the service performs its jobs itself")
    if not settings.job_workers:
        raise ValueError("CLVLAB_JOB_WORKERS=0 is for services: a worker performs at least one job at a time")
    opening = opening_of(settings, unasked=True)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with opened(app, opening, {}):
            yield

    app = FastAPI(title="clvlab worker", version=version("clvlab"), openapi_url=None, lifespan=lifespan)
    log, metrics = logger(settings.log_level), Metrics()
    app.state.settings, app.state.log, app.state.metrics = settings, log, metrics
    app.include_router(operations.router)
    install_error_handlers(app)
    app.add_middleware(Observe, log=log, metrics=metrics, unexpected=unexpected_problem, ending=ending_problem)
    return app
