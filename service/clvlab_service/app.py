"""The application object: settings in, an ASGI application out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from ipaddress import IPv4Network, IPv6Network

from fastapi import Depends, FastAPI, Request
from fastapi.middleware.cors import CORSMiddleware
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles
from starlette_compress import CompressMiddleware, add_compress_type

from clvlab.arena.application import Application
from clvlab.arena.deploys.config import DeployConfig
from clvlab.arena.templates import parameter_models
from clvlab.base.cache import BoundedCache
from clvlab_service.auth import authenticator
from clvlab_service.bodies import only_declared
from clvlab_service.direct import DirectActs
from clvlab_service.errors import install_error_handlers, problem_kinds
from clvlab_service.json_lists import EventPages
from clvlab_service.lifespan import open_application, opening_of
from clvlab_service.middleware import Edge
from clvlab_service.negotiation import Form
from clvlab_service.openapi import API_DESCRIPTION, TAGS, install_openapi
from clvlab_service.pages import catalog
from clvlab_service.pages import runs as run_pages
from clvlab_service.pages.route import PageRoute
from clvlab_service.routers import (
    agents,
    backtests,
    competitions,
    held_packs,
    leaderboard,
    operations,
    packs,
    runs,
    seat_competitions,
    seats,
)
from clvlab_service.settings import Settings
from clvlab_service.streams import arena
from clvlab_service.streams.connection import Feeds, StreamPlaces
from clvlab_service.telemetry import RequestMetrics, logger

# Interactive documentation that works offline: its script and style come from an installed package, not from a CDN.


_ASSETS = "/docs/assets"
_POLICY = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; script-src 'self' 'unsafe-inline'"


_READABLE = """<style>
.swagger-ui .opblock .opblock-summary-method { background: #1f5fa8 !important; }
.swagger-ui .opblock-post .opblock-summary-method { background: #1a6b3c !important; }
.swagger-ui .opblock-delete .opblock-summary-method { background: #a82020 !important; }
.swagger-ui .info .title small { background: #4a5260 !important; }
.swagger-ui .info .url, .swagger-ui .btn.authorize span { color: #14613a !important; }
.swagger-ui .json-schema-2020-12-expand-deep-button { color: #4a4a4a !important; }
</style><script>
new MutationObserver(() => document.querySelectorAll(":is(h3, h4):not([aria-level])").forEach(one => { one.ariaLevel = "2"; }))
  .observe(document, { childList: true, subtree: true });
</script>
"""  # Swagger's own colours and levels of headings are too faint and skip one


def install_docs_page(app: FastAPI) -> None:
    """Serve Swagger UI under ``/docs``; its content security policy allows requests to this service only."""
    assets = files("fastapi_offline") / "static"
    app.mount(_ASSETS, StaticFiles(directory=str(assets)), name="docs-assets")

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> HTMLResponse:
        root = request.scope.get("root_path", "").rstrip("/")
        page = get_swagger_ui_html(
            openapi_url=f"{root}{app.openapi_url}",
            title=app.title,
            swagger_js_url=f"{root}{_ASSETS}/swagger-ui-bundle.js",
            swagger_css_url=f"{root}{_ASSETS}/swagger-ui.css",
            swagger_favicon_url=f"{root}{_ASSETS}/favicon.png",
            swagger_ui_parameters={"validatorUrl": None, "deepLinking": False},  # a link in a button is for no screen reader
        )
        text = bytes(page.body).decode().replace("<html>", '<html lang="en">').replace("</head>", f"{_READABLE}</head>")
        text = text.replace('<div id="swagger-ui">', '<main id="swagger-ui">').replace("</div>", "</main>", 1)
        return HTMLResponse(text, headers={"Content-Security-Policy": _POLICY})


_ALLOWED = ("GET", "HEAD", "POST", "DELETE")
_STREAM_WORKERS, _HANDSHAKES = 2, 100  # threads that read for streams, and callers that may wait for one
_EXPOSED = (
    "Accept-Ranges",
    "Allow",
    "Content-Disposition",
    "Content-Range",
    "ETag",
    "Idempotent-Replayed",
    "Link",
    "Location",
    "Retry-After",
    "WWW-Authenticate",
    "X-Request-ID",
)
_PAGES = (catalog.router, run_pages.router)
_ROUTERS = (
    leaderboard.router,
    competitions.router,
    competitions.owned,
    arena.router,
    arena.progress_router,
    held_packs.router,
    seat_competitions.router,
    seat_competitions.owned,
    agents.router,
    agents.strategies_router,
    backtests.router,
    backtests.reports,
    packs.router,
    packs.uploads_router,
    packs.uploaded_router,
    runs.router,
    runs.cards,
    runs.sealed,
    leaderboard.log_router,
    packs.me_router,
    competitions.demo_router,
    operations.front,
    operations.router,
    runs.verifier_router,
)


_BOARDS_BYTES = 16 << 20
_ONE_PACKET_BYTES = 1_400  # compressed, a smaller answer would travel as fast


def create_app(settings: Settings) -> FastAPI:
    """Build the service; its store is opened and its workers are started when the server starts it.

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
        lifespan=_lifespan(settings, opening_of(settings)),
    )
    log, metrics = logger(settings.log_level), RequestMetrics()
    app.state.settings, app.state.log, app.state.metrics = settings, log, metrics
    app.state.boards = BoundedCache(_BOARDS_BYTES, lambda board: len(board.body))
    app.state.stream_places = StreamPlaces(settings, metrics)
    app.state.auth = authenticator(settings, log)
    # Seats are called most often, and have no pages. Pages come before the rest: they match only requests that prefer one.
    for router in (seats.router, *_PAGES, catalog.assets_router, run_pages.pictures_router, *_ROUTERS):
        app.include_router(router)
    install_error_handlers(app)
    install_docs_page(app)
    app.state.answering = _with_mcp(app, settings)
    types = [kind for _, kind, _ in problem_kinds()]
    install_openapi(app, DeployConfig, types=sorted(set(types)), parameters=parameter_models())
    for media_type in ("application/x-ndjson", Form.ARROW):
        add_compress_type(media_type)
    app.add_middleware(DirectActs)
    app.add_middleware(CompressMiddleware, minimum_size=_ONE_PACKET_BYTES, brotli=False)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=_ALLOWED,
            allow_headers=["*"],
            expose_headers=_EXPOSED,
        )
    app.add_middleware(
        Edge,
        log=log,
        metrics=metrics,
        max_bytes=settings.max_body_bytes,
        larger={("POST", packs.PATH): settings.max_upload_bytes} if settings.uploads else {},
        vary=("Accept-Encoding",),
        both={route.path for router in _PAGES for route in router.routes if isinstance(route, PageRoute)},
        most_of_client=settings.max_client_connections if settings.trusted_proxies else None,
    )
    if settings.trusted_proxies:
        _trust(app, settings.trusted_proxies)  # the last middleware added is the outermost
    return app


def _with_mcp(app: FastAPI, settings: Settings) -> Callable[[], AbstractAsyncContextManager[None]]:
    """Add the routes of the Model Context Protocol, where its SDK is installed, and return the context in which they answer."""
    if find_spec("mcp") is None:
        app.state.log.info("no_mcp", reason="the extra arena is not installed, so there is no /mcp")
        return nullcontext
    from clvlab_service.mcp.mount import install_mcp

    return install_mcp(app, settings)


def _trust(app: FastAPI, proxies: Collection[IPv4Network | IPv6Network]) -> None:
    """Trust the client address and scheme that proxies of these networks send."""
    from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware  # imported here: other servers work without it

    networks = [str(network) for network in proxies]
    # A socket for both kinds of address shows an IPv4 peer as ::ffff:10.0.0.1.
    mapped = [f"::ffff:{own.network_address}/{96 + own.prefixlen}" for own in proxies if own.version == 4]
    app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=[*networks, *mapped])


def _lifespan(settings: Settings, opening: Callable[[], Application]) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    pools = {
        "backtests": (settings.public_workers, settings.public_queue),
        "proofs": (settings.proof_workers, settings.proof_queue),
        "sheets": (1, settings.proof_queue),  # a tear sheet takes seconds, so it has its own pool
        "owner": (settings.owner_workers, settings.owner_queue),
        "results": (settings.read_workers, settings.read_queue),
        "uploads": (settings.upload_workers, settings.upload_queue),
        "reads": (settings.read_workers, settings.read_queue),
        "streams": (_STREAM_WORKERS, 2 * settings.max_streams + _HANDSHAKES),
    }

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        state = app.state
        async with open_application(app, opening, pools) as application:
            state.pages = EventPages(application.event_log)
            state.feeds = Feeds(application, state.pages, state.pools["streams"], settings.stream_poll_s, state.log)
            try:
                await state.auth.keys.start()
                async with state.answering():
                    yield
            finally:
                await state.auth.keys.stop()

    return lifespan
