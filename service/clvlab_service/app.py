"""The application object: settings in, an ASGI application out."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from fastapi.middleware.cors import CORSMiddleware
from starlette_compress import CompressMiddleware, add_compress_type

from clvlab.application.application import Application
from clvlab.application.deploys.config import DeployConfig
from clvlab.application.packs import catalog_at
from clvlab.application.uploads.limits import UploadLimits
from clvlab.runlog.note import read_signer
from clvlab_service import stream
from clvlab_service.auth import authenticator
from clvlab_service.docs_page import install_docs_page
from clvlab_service.errors import install_error_handlers, unexpected_problem
from clvlab_service.logs import Forward, logger
from clvlab_service.middleware import BodyLimit, Metrics, Observe
from clvlab_service.openapi import API_DESCRIPTION, TAGS, install_openapi
from clvlab_service.pool import BoundedPool
from clvlab_service.routers import agents, backtests, competitions, demo, leaderboard, log, operations, packs, runs, uploads
from clvlab_service.settings import Settings

_EXPOSED = ("ETag", "Retry-After", "WWW-Authenticate", "X-Request-ID")
_ROUTERS = (
    leaderboard.router,
    competitions.router,
    competitions.owned,
    stream.router,
    agents.router,
    backtests.router,
    backtests.reports,
    packs.router,
    uploads.router,
    runs.router,
    runs.cards,
    runs.sealed,
    log.router,
    demo.router,
    operations.router,
)


def create_app(settings: Settings) -> FastAPI:
    """Build the service; the store is opened, and workers start, when the server starts it.

    Raises
    ------
    OSError, ValueError, AnchorError, LogError
        A configured key can't be used, or settings exclude each other.
    """
    app = FastAPI(
        title="clvlab",
        version=version("clvlab"),
        description=API_DESCRIPTION,
        openapi_tags=TAGS,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan(settings, _opening(settings)),
    )
    log, metrics = logger(settings.log_level), Metrics()
    app.state.settings, app.state.log, app.state.metrics = settings, log, metrics
    app.state.auth = authenticator(settings, log)
    for router in _ROUTERS:
        app.include_router(router)
    install_error_handlers(app)
    install_docs_page(app)
    install_openapi(app, DeployConfig)
    larger = {("POST", uploads.PATH): settings.max_upload_bytes} if settings.uploads else {}
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes, others=larger)
    add_compress_type("application/x-ndjson")
    app.add_middleware(CompressMiddleware, minimum_size=1000, brotli=False)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=_EXPOSED,
        )
    app.add_middleware(Observe, log=log, metrics=metrics, unexpected=unexpected_problem)  # the last one added is the outermost
    return app


def _opening(settings: Settings) -> Callable[[], Application]:
    """Return what opens the store; keys are read now, so that a wrong one is known before the start."""
    return partial(
        Application,
        settings.database_url.get_secret_value() if settings.database_url else None,
        catalog=catalog_at(settings.packs) if settings.packs else None,
        anchor=settings.anchor,
        uploads=_upload_limits(settings.uploads, settings) if settings.uploads else None,
        log_key=read_signer(settings.log_key_file) if settings.log_key_file else None,
        workers=settings.job_workers,
    )


def _upload_limits(folder: Path, settings: Settings) -> UploadLimits:
    return UploadLimits(
        folder,
        max_packs=settings.max_uploads,
        max_owner_bytes=settings.max_owner_bytes,
        max_ticks=settings.max_upload_ticks,
        timeout_s=settings.upload_timeout_s,
        memory_mb=settings.upload_memory_mb,
        at_once=settings.upload_workers + settings.upload_queue,
    )


def _lifespan(settings: Settings, opening: Callable[[], Application]) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        application = await run_in_threadpool(opening)
        state = app.state
        state.application = application
        state.public_pool = BoundedPool("public", settings.public_workers, settings.public_queue, state.metrics)
        state.owner_pool = BoundedPool("owner", settings.owner_workers, settings.owner_queue, state.metrics)
        state.upload_pool = BoundedPool("upload", settings.upload_workers, settings.upload_queue, state.metrics)
        forward = Forward(state.log)
        logging.getLogger("clvlab").addHandler(forward)
        try:
            application.start()
            await state.auth.keys.start()
            state.log.info("started", store="configured" if settings.database_url else "in memory")
            yield
        finally:
            await state.auth.keys.stop()
            for close in (state.public_pool.close, state.owner_pool.close, state.upload_pool.close, application.close):
                await run_in_threadpool(close)
            logging.getLogger("clvlab").removeHandler(forward)
            state.log.info("stopped")

    return lifespan
