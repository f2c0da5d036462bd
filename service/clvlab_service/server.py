"""Running a service or a worker in this process, for ``clvlab service serve`` and ``clvlab service worker``."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import uvicorn
from fastapi import FastAPI
from pydantic import ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from clvlab.arena.application import Application
from clvlab.base.invocation import command
from clvlab.errors import SettingsError
from clvlab_service.app import create_app
from clvlab_service.connections import Connections, ServerSocket, StreamProtocol, TimedProtocol
from clvlab_service.dev import AUDIENCE, ISSUER, public_key_file
from clvlab_service.errors import install_error_handlers
from clvlab_service.lifespan import open_application, opening_of
from clvlab_service.middleware import MAX_HEAD_BYTES, Edge
from clvlab_service.routers import operations
from clvlab_service.settings import LOOPBACK, Settings
from clvlab_service.telemetry import RequestMetrics, forward_uvicorn, logger

# The worker: it performs the jobs of a store, and serves only health and metrics.


def create_worker(settings: Settings) -> FastAPI:
    """Build the worker. It takes jobs when a server starts it; that server need not listen on a port.

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
        async with open_application(app, opening, {}):
            yield

    app = FastAPI(title="clvlab service worker", version=version("clvlab"), openapi_url=None, lifespan=lifespan)
    log, metrics = logger(settings.log_level), RequestMetrics()
    app.state.settings, app.state.log, app.state.metrics = settings, log, metrics
    app.include_router(operations.router)
    install_error_handlers(app)
    app.add_middleware(Edge, log=log, metrics=metrics, max_bytes=settings.max_body_bytes)
    return app


_LAST_ANSWERS_S = 1
_KEPT_S = 15
"""Clients keep idle connections for 5 seconds. If the server closed them as early, it could miss a request on its way."""
_UNREAD_MS = 30_000
_BACKLOG = 4096  # connections that wait to be accepted; the kernel may allow fewer
_ACCEPTED_AT_ONCE = 64  # between two looks at the requests of others
_OTHER_FILES = 512  # of the database, packs, uploads and live runs
_STREAM_MESSAGE_BYTES = 1024  # clients of streams have nothing to send


def serve(
    host: str,
    port: int,
    dev_folder: Path | None,
    say: Callable[[str], None],
    *,
    devfeed: bool = False,
    speed: float | None = None,
) -> None:
    """Serve until interrupted.

    Parameters
    ----------
    host, port
        Address to listen on; port 0 is any free one.
    dev_folder
        Folder of a key that is trusted, on this machine only.
    say
        Function that receives each line for the terminal once requests are accepted.
    devfeed
        Whether live runs follow a synthetic pack, for a first look; requires ``dev_folder``.
    speed
        Speed-up of the synthetic pack; its longest match lasts two minutes by default.

    Raises
    ------
    SettingsError, DatabaseUrlError
        The settings can't be used.
    The database can't be used; another attempt may succeed.
        The database can't be used; trying again may help.
    OSError
        The port is taken, or the host is not an address of this machine.
    """
    settings = _settings(host, dev_folder, devfeed=devfeed, speed=speed)
    app = _create(create_app, settings)
    sock = _bound_socket(host, port)
    url = _url(host, sock)

    def ready() -> None:
        say(f"clvlab serves {url}, with documentation at {url}/docs")
        if settings.database_url is None:
            say("The store is in memory: its data is lost when the service stops. Set CLVLAB_DATABASE_URL to keep it.")
        if not settings.job_workers:
            say(f"It performs no jobs. To perform them: {command('service', 'worker')}")
        say(_about_tokens(settings, dev_folder))
        live = app.state.application.live.settings
        if live and live.speed:
            pace = f"{live.speed:,.10g} times its pace"
            say(f"Live runs follow a synthetic feed: each sees a match from its first message, at {pace}.")

    _run(app, settings, [sock], ready)


def work(host: str, health_port: int | None, say: Callable[[str], None]) -> None:
    """Perform the jobs of a store until interrupted.

    Parameters
    ----------
    host, health_port
        Address of ``/healthz``, ``/readyz`` and ``/metrics``; port 0 is any free one. Without a port they are not served.
    say
        Function that receives a line for the terminal once jobs are performed.

    Raises
    ------
    SettingsError, DatabaseUrlError, StoreError, OSError
        As for ``serve``; a store that can't be shared with other processes counts as an invalid setting.
    """
    settings = _read()
    app = _create(create_worker, settings)
    socks = [] if health_port is None else [_bound_socket(host, health_port)]

    def ready() -> None:
        application: Application = app.state.application
        lanes = application.jobs.lanes
        lines = [f"{lanes['jobs']} jobs at once"]
        lines += ["anchors"] if lanes["anchors"] else []
        lines += [f"{lanes['live']} live runs"] if lanes["live"] else []
        lines += [f"asked at {_url(host, sock)}" for sock in socks]
        say(f"clvlab works for {application.place}: {', '.join(lines)}")

    _run(app, settings, socks, ready)


def _run(app: FastAPI, settings: Settings, socks: list[socket.socket], ready: Callable[[], None]) -> None:
    """Run an app until interrupted, on these sockets or on none."""
    _allow_files(settings)
    os.umask(0o077)  # whatever file it writes is its own
    start = _Start(app)

    def announce() -> None:
        forward_uvicorn(app.state.log)
        ready()

    forward_uvicorn(None)  # it would log a failed start with a traceback; the caller prints the reason in one line
    try:
        _Server(app, settings, announce, start).run(sockets=socks)
    except SystemExit:
        if start.failure is None:
            raise
        raise start.failure from None
    finally:
        for sock in socks:
            sock.close()


def _config(app: ASGIApp, settings: Settings, connections: Connections) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", partial(TimedProtocol, connections=connections, settings=settings)),
        ws=cast("type[asyncio.Protocol]", partial(StreamProtocol, connections=connections)),
        ws_max_size=_STREAM_MESSAGE_BYTES,
        log_level="warning",
        log_config=None,
        access_log=False,  # the service has its own, with request ids
        ws_per_message_deflate=False,  # it would compress every message once per watcher
        proxy_headers=False,  # the service has its own setting of proxies
        lifespan="on",
        backlog=_ACCEPTED_AT_ONCE,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        timeout_keep_alive=_KEPT_S,
        timeout_graceful_shutdown=settings.shutdown_s + _LAST_ANSWERS_S,
    )


def _allow_files(settings: Settings) -> None:
    """Let the process open a file for each connection; otherwise the server would accept none for a second at a time."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    needed = settings.max_connections + 2 * _ACCEPTED_AT_ONCE + _OTHER_FILES
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY not in (allowed, most) and needed > most:
        raise SettingsError(
            f"CLVLAB_MAX_CONNECTIONS={settings.max_connections} needs {needed} open files, and this process may have {most}: "
            "raise its limit (LimitNOFILE of systemd, ulimit -n), or lower the setting"
        )
    if allowed != resource.RLIM_INFINITY and needed > allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, most))


class _Start:
    """The application, and the reason if it did not start."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.failure: BaseException | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except BaseException as error:
            if scope["type"] == "lifespan":
                self.failure = error
            raise


class _Server(uvicorn.Server):
    """A server that reports when it accepts requests, and ends within its time limit."""

    def __init__(self, app: FastAPI, settings: Settings, ready: Callable[[], None], served: ASGIApp | None = None) -> None:
        self._connections = Connections(settings, app.state.metrics)
        super().__init__(_config(served or app, settings, self._connections))
        self._app, self._shutdown_s, self._ready = app, settings.shutdown_s, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for sock in sockets or ():
            if isinstance(sock, ServerSocket):
                sock.connections = self._connections
            sock.listen(_BACKLOG)  # the event loop would accept as many at a time as it lets wait
        if not self.should_exit:  # otherwise it was told to stop in the meantime
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.ends_at_s = time.monotonic() + self._shutdown_s
        timer = asyncio.get_running_loop().call_later(self._shutdown_s, self._give_up)
        try:
            await super().shutdown(sockets)
        finally:
            timer.cancel()

    def _give_up(self) -> None:
        """Answer the waiting requests before the server cancels them."""
        for pool in self._app.state.pools.values():
            pool.give_up()


def _bound_socket(host: str, port: int) -> socket.socket:
    """Bind the port, so that its number is known before the start.

    The protocol is passed because asyncio turns off Nagle's algorithm only then; otherwise each answer waits 40 ms.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)[0]
    sock = ServerSocket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if sys.platform == "linux":  # connections inherit it, so a client that stops reading is disconnected
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD_MS)
    try:
        sock.bind(address)
    except OSError as error:
        sock.close()
        raise OSError(f"can't listen on {host} port {port}: {error.strerror}") from error
    return sock


def _url(host: str, sock: socket.socket) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{sock.getsockname()[1]}"


def _settings(host: str, dev_folder: Path | None, *, devfeed: bool, speed: float | None) -> Settings:
    values: dict[str, object] = {}
    if devfeed and dev_folder is None:
        raise SettingsError("--devfeed plays a made-up match: it goes with --dev only")
    if dev_folder is not None:
        if host not in LOOPBACK:
            raise SettingsError(f"--dev trusts a key on this disk, so it listens on {LOOPBACK} only, not {host!r}")
        values = {"jwt_public_key_file": public_key_file(dev_folder), "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}
        if devfeed:
            values |= {"devfeed": True, "live_folder": dev_folder / "live"}
        if speed is not None:
            values["replay_speed"] = speed
    return _read(**values)


def _read(**values: Any) -> Settings:
    try:
        return Settings(**values)
    except ValidationError as error:
        raise SettingsError("; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())) from error


def _create(create: Callable[[Settings], FastAPI], settings: Settings) -> FastAPI:
    try:
        return create(settings)
    except ValueError as error:
        raise SettingsError(str(error)) from error


def _about_tokens(settings: Settings, dev_folder: Path | None) -> str:
    if dev_folder is not None:
        return f"For a token: {command('service', 'dev-token', '--keys', dev_folder)}"
    if settings.jwks_url or settings.jwt_public_key_file:
        return f"Tokens come from {settings.jwt_issuer}."
    return (
        "No keys are configured, so calls that need a token answer 401. "
        f"To try them on this machine: {command('service', 'serve', '--dev')}, and {command('service', 'dev-token')} "
        "for a token."
    )
