"""The store of a service or worker process: opened by the settings, and closed within a time limit."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool

from clvlab.arena.application import Application, Waits
from clvlab.arena.caps import Budget, Caps
from clvlab.arena.laboratory import PracticeLimits
from clvlab.arena.log.witnesses import cosigners_at
from clvlab.arena.packs import catalog_at
from clvlab.arena.seats.requests import SeatLimits
from clvlab.arena.uploads.intake import UploadLimits
from clvlab.log.note import read_signer
from clvlab.runs.live.feed import live_settings
from clvlab_service.pool import BoundedPool
from clvlab_service.settings import Settings
from clvlab_service.telemetry import LogForwarder
from clvlab_service.threads import DaemonThreads

_GIVE_BACK_S = 1.0
_WATCHING = {"measures": (1, 0), "health": (1, 0)}  # concurrent requests share one answer


def opening_of(settings: Settings, *, unasked: bool = False) -> Callable[[], Application]:
    """Return a function that opens the store; keys are read now, so that a bad key is reported before the start.

    ``unasked`` is true in a process that receives no requests.

    Raises
    ------
    OSError, ValueError, AnchorError, FeedError, LogError
        A configured key can't be used, or settings exclude each other.
    """
    return partial(
        Application,
        settings.database_url.get_secret_value() if settings.database_url else None,
        waits=Waits(
            settings.database_lock_s,
            settings.database_log_s,
            settings.database_idle_s,
            settings.database_statement_s,
            settings.database_peer_s,
            settings.database_answer_s,
        ),
        catalog=catalog_at(settings.packs) if settings.packs else None,
        budget=Budget(settings.max_public_run_bytes, settings.max_owner_run_bytes),
        caps=Caps(
            settings.max_owner_starts,
            settings.max_owner_deploys,
            settings.max_owner_drafts,
            settings.max_owner_live,
            settings.max_owner_seats,
            settings.max_owner_seat_competitions,
            settings.max_owner_names,
        ),
        anchor=settings.anchor,
        uploads=_upload_limits(settings.uploads, settings) if settings.uploads else None,
        live=live_settings(
            settings.live_folder,
            settings.live_runs,
            settings.live_grace_s,
            dev=settings.devfeed,
            dev_speed=settings.replay_speed,
        ),
        seats=SeatLimits(
            ticks=settings.seat_max_ticks,
            tick_s=settings.seat_tick_s,
            seat_s=settings.seat_left_s,
            live_s=settings.seat_live_s,
            held_fixtures=settings.seat_held_fixtures,
            log_ticks=settings.seat_log_ticks,
            log_s=settings.seat_log_s,
        ),
        practice=PracticeLimits(settings.practice_seats, settings.practice_client_seats),
        log_key=read_signer(settings.log_key_file) if settings.log_key_file else None,
        checkpoint_file=settings.checkpoint_file,
        witness=settings.log_witness,
        cosigners=cosigners_at(settings.log_policy) if settings.log_policy else None,
        cosign_s=settings.log_cosign_s,
        workers=settings.job_workers,
        unasked=unasked,
        lease_ms=round(1000 * settings.job_lease_s),
        backups=settings.backups,
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


@asynccontextmanager
async def open_application(
    app: FastAPI, opening: Callable[[], Application], pools: Mapping[str, tuple[int, int]]
) -> AsyncIterator[Application]:
    """Open the application and run its workers and the pools of an app for the duration of the context.

    Parameters
    ----------
    app
        ASGI application, which has settings, log and metrics.
    opening
        Function that opens the store; called on another thread.
    pools
        Number of threads and of waiting calls of each pool. The pools of health and measures are added.
    """
    application = await run_in_threadpool(opening)
    state = app.state
    state.application = application
    state.pools = {name: BoundedPool(name, *size, state.metrics) for name, size in {**pools, **_WATCHING}.items()}
    state.metrics.take_lanes(application.jobs.lanes)
    forward = LogForwarder(state.log)
    logging.getLogger("clvlab").addHandler(forward)
    try:
        application.start()
        state.log.info("started", store=application.place, **application.jobs.lanes)
        yield application
        state.log.info("stopping")
    finally:
        await _close(
            state.pools.values(), application, getattr(state, "ends_at_s", time.monotonic() + state.settings.shutdown_s)
        )
        logging.getLogger("clvlab").removeHandler(forward)
    state.log.info("stopped")


async def _close(pools: Collection[BoundedPool], application: Application, ends_at_s: float) -> None:
    """Let unfinished work continue until a time of the monotonic clock; then leave it to other processes."""

    def left_s() -> float:
        return max(0.0, ends_at_s - time.monotonic())

    await asyncio.gather(*(pool.close(left_s()) for pool in pools))
    closing = DaemonThreads(1, "close").start(lambda: application.close(left_s()))
    done, _ = await asyncio.wait({closing}, timeout=left_s() + _GIVE_BACK_S)  # the database may not answer
    for closed in done:
        closed.result()
