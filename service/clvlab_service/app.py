"""The application object: settings in, an ASGI application out."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path

from fastapi import Depends, FastAPI
from fastapi.concurrency import run_in_threadpool
from fastapi.middleware.cors import CORSMiddleware
from starlette_compress import CompressMiddleware, add_compress_type

from clvlab.application.application import Application, Waits
from clvlab.application.caps import Caps
from clvlab.application.deploys.config import DeployConfig
from clvlab.application.live.configured import live_settings
from clvlab.application.packs import catalog_at
from clvlab.application.runs.budget import Budget
from clvlab.application.templates import parameter_models
from clvlab.application.uploads.limits import UploadLimits
from clvlab.runlog.note import read_signer
from clvlab_service.auth import authenticator
from clvlab_service.caching import Varying
from clvlab_service.docs_page import install_docs_page
from clvlab_service.errors import ending_problem, install_error_handlers, problem_kinds, two_lengths_problem, unexpected_problem
from clvlab_service.event_pages import EventPages
from clvlab_service.forwarding import ForwardedClient
from clvlab_service.logs import Forward, logger
from clvlab_service.methods import Methods
from clvlab_service.middleware import BodyLimit, Metrics, Observe, OneLength
from clvlab_service.negotiation import Form
from clvlab_service.openapi import API_DESCRIPTION, TAGS, install_openapi
from clvlab_service.parameters import only_declared
from clvlab_service.pool import BoundedPool
from clvlab_service.routers import (
    agents,
    backtests,
    competitions,
    demo,
    leaderboard,
    log,
    me,
    operations,
    packs,
    runs,
    strategies,
    uploads,
)
from clvlab_service.settings import Settings
from clvlab_service.streams import arena, progress
from clvlab_service.streams.feeds import Feeds
from clvlab_service.streams.places import StreamPlaces
from clvlab_service.threads import DaemonThreads

_GIVE_BACK_S = 1.0
_ALLOWED = ("GET", "HEAD", "POST", "DELETE")
_STREAM_WORKERS, _HANDSHAKES = 2, 100  # threads that read for streams, and who may ask for one at once
_EXPOSED = (
    "Allow",
    "Content-Disposition",
    "ETag",
    "Link",
    "Location",
    "Retry-After",
    "WWW-Authenticate",
    "X-Request-ID",
)
_ROUTERS = (
    leaderboard.router,
    competitions.router,
    competitions.owned,
    arena.router,
    progress.router,
    agents.router,
    strategies.router,
    backtests.router,
    backtests.reports,
    packs.router,
    uploads.router,
    runs.router,
    runs.cards,
    runs.sealed,
    log.router,
    me.router,
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
        dependencies=[Depends(only_declared)],
        lifespan=_lifespan(settings, _opening(settings)),
    )
    log, metrics = logger(settings.log_level), Metrics()
    app.state.settings, app.state.log, app.state.metrics = settings, log, metrics
    app.state.stream_places = StreamPlaces(settings, metrics)
    app.state.auth = authenticator(settings, log)
    for router in _ROUTERS:
        app.include_router(router)
    install_error_handlers(app)
    install_docs_page(app)
    types = [kind for _, kind, _ in problem_kinds()]
    install_openapi(app, DeployConfig, types=sorted(set(types)), parameters=parameter_models())
    larger = {("POST", uploads.PATH): settings.max_upload_bytes} if settings.uploads else {}
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes, others=larger)
    for media_type in ("application/x-ndjson", Form.ARROW):
        add_compress_type(media_type)
    app.add_middleware(CompressMiddleware, minimum_size=1000, brotli=False)
    app.add_middleware(Varying)
    app.add_middleware(Methods)  # outside the compression, so that a HEAD has the headers of the compressed GET
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=_ALLOWED,
            allow_headers=["*"],
            expose_headers=_EXPOSED,
        )
    app.add_middleware(OneLength, refused=two_lengths_problem)
    app.add_middleware(Observe, log=log, metrics=metrics, unexpected=unexpected_problem, ending=ending_problem)
    app.add_middleware(ForwardedClient, trusted=settings.trusted_proxies)  # the last one added is the outermost
    return app


def _opening(settings: Settings) -> Callable[[], Application]:
    """Return what opens the store; keys are read now, so that a wrong one is known before the start."""
    return partial(
        Application,
        settings.database_url.get_secret_value() if settings.database_url else None,
        waits=Waits(
            settings.database_lock_s,
            settings.database_log_s,
            settings.database_idle_s,
            settings.database_statement_s,
            settings.database_peer_s,
        ),
        catalog=catalog_at(settings.packs) if settings.packs else None,
        budget=Budget(settings.max_public_run_bytes, settings.max_owner_run_bytes),
        caps=Caps(settings.max_owner_starts, settings.max_owner_deploys, settings.max_owner_drafts, settings.max_owner_live),
        anchor=settings.anchor,
        uploads=_upload_limits(settings.uploads, settings) if settings.uploads else None,
        live=live_settings(settings.live_folder, settings.live_runs, settings.live_grace_s, dev=settings.devfeed),
        log_key=read_signer(settings.log_key_file) if settings.log_key_file else None,
        checkpoint_file=settings.checkpoint_file,
        witness=settings.log_witness,
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
        state.pools = {
            name: BoundedPool(name, workers, queue, state.metrics)
            for name, workers, queue in (
                ("backtests", settings.public_workers, settings.public_queue),
                ("proofs", settings.proof_workers, settings.proof_queue),
                ("sheets", 1, settings.proof_queue),  # they take seconds, and nobody verifies behind them
                ("owner", settings.owner_workers, settings.owner_queue),
                ("measures", 1, 0),
                ("health", 1, 0),  # whoever asks while it is asked waits for the same answer
                ("uploads", settings.upload_workers, settings.upload_queue),
                ("reads", settings.read_workers, settings.read_queue),
                ("streams", _STREAM_WORKERS, 2 * settings.max_streams + _HANDSHAKES),
            )
        }
        forward = Forward(state.log)
        logging.getLogger("clvlab").addHandler(forward)
        state.pages = EventPages(application.event_log)
        state.feeds = Feeds(application, state.pages, state.pools["streams"], settings.stream_poll_s, state.log)
        try:
            application.start()
            await state.auth.keys.start()
            state.log.info("started", store="configured" if settings.database_url else "in memory")
            yield
            state.log.info("stopping")
        finally:
            await state.auth.keys.stop()
            await _close(state.pools.values(), application, getattr(state, "ends_at_s", time.monotonic() + settings.shutdown_s))
            logging.getLogger("clvlab").removeHandler(forward)
        state.log.info("stopped")

    return lifespan


async def _close(pools: Collection[BoundedPool], application: Application, ends_at_s: float) -> None:
    """Let what is under way end until a time of the monotonic clock; then others do it."""

    def left_s() -> float:
        return max(0.0, ends_at_s - time.monotonic())

    await asyncio.gather(*(pool.close(left_s()) for pool in pools))
    closing = DaemonThreads(1, "close").start(lambda: application.close(left_s()))
    done, _ = await asyncio.wait({closing}, timeout=left_s() + _GIVE_BACK_S)  # the database may be what does not answer
    for closed in done:
        closed.result()
