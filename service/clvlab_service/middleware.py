"""What surrounds every request: an id, a log line, metrics, and a limit on the body."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import sys
import time
from collections.abc import Callable, Mapping
from secrets import token_hex
from types import MappingProxyType

import orjson
import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.tracebacks import ExceptionDictTransformer

from clvlab.arena.measures import Measures

# Structured logs: one JSON object a line, without any global set-up.


def logger(level: str) -> structlog.typing.FilteringBoundLogger:
    """Build a logger to standard error; what is bound to the context, such as the request id, is on every line."""
    bound: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        structlog.BytesLogger(sys.stderr.buffer),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
            structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),  # locals hold tokens
            structlog.processors.JSONRenderer(serializer=lambda entry, **_: orjson.dumps(entry, default=str)),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
    )
    return bound


class LogForwarder(logging.Handler):
    """Sends what the library logs through the standard library to the service's log."""

    def __init__(self, log: structlog.typing.FilteringBoundLogger) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.log(record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info)


_UVICORN = ("uvicorn", "uvicorn.access", "asyncio")


def forward_uvicorn(log: structlog.typing.FilteringBoundLogger | None) -> None:
    """Have the lines of uvicorn and of its event loop be lines of the service's log, or without one go nowhere."""
    for name in _UVICORN:
        theirs = logging.getLogger(name)
        theirs.handlers = [logging.NullHandler() if log is None else LogForwarder(log)]
        theirs.propagate = False


_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT")  # a label for each: what clients may invent is one more
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class RequestMetrics:
    """Prometheus metrics of one application."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self.seconds = Histogram(
            "clvlab_http_request_seconds", "Time to answer.", labels, buckets=_BUCKETS, registry=self.registry
        )
        self.in_flight = Gauge("clvlab_http_requests_in_flight", "Requests being answered.", registry=self.registry)
        self.streams = Gauge("clvlab_streams_open", "WebSocket streams open.", registry=self.registry)
        self.pending = Gauge("clvlab_pool_pending", "Computations running or waiting.", ("pool",), registry=self.registry)
        self.jobs = Gauge("clvlab_jobs", "Background jobs by status.", ("status",), registry=self.registry)
        self.lanes = Gauge(
            "clvlab_job_lanes",
            "Jobs that this process performs at once: `jobs`, `anchors`, `live`.",
            ("of",),
            registry=self.registry,
        )
        self.queue_age = Gauge(
            "clvlab_queue_age_seconds",
            "How long the oldest job that nobody performs has waited.",
            ("kind",),
            registry=self.registry,
        )
        self.stored = Gauge("clvlab_stored_bytes", "What is taken up in the store.", ("of",), registry=self.registry)
        self.log_entries = Gauge("clvlab_log_entries", "Length of the run log.", registry=self.registry)
        self.feed = Gauge(
            "clvlab_feed",
            "The live feed: `runs` that follow it, whether they are `connected`, `data_age_seconds`, `quota_left`.",
            ("of",),
            registry=self.registry,
        )
        self.store_up = Gauge("clvlab_store_up", "Whether the store answered within a second.", registry=self.registry)
        self.refused = Counter("clvlab_pool_refused", "Computations refused.", ("pool",), registry=self.registry)

    def take_lanes(self, lanes: Mapping[str, int]) -> None:
        """Take how many jobs this process performs at once."""
        for name, count in lanes.items():
            self.lanes.labels(name).set(count)

    def store(self, found: Measures | None) -> None:
        """Take what was measured of the store; null if it did not answer."""
        self.store_up.set(found is not None)
        for gauge in (self.jobs, self.queue_age, self.stored, self.feed):
            gauge.clear()
        self.log_entries.set(math.nan if found is None else found.log_entries)
        if found is not None:
            shown = (
                (self.jobs, found.jobs),
                (self.queue_age, found.queue_age_s),
                (self.stored, found.stored_bytes),
                (self.feed, _of_feed(found)),
            )
            for gauge, values in shown:
                for label, value in values.items():
                    gauge.labels(label).set(value)


def _of_feed(found: Measures) -> dict[str, float]:
    if found.feed is None:
        return {}
    own = found.feed
    named: dict[str, float | None] = {name: own[name] for name in ("runs", "connected", "quota_left")}
    named["data_age_seconds"] = own["data_age_s"]
    return {name: float(value) for name, value in named.items() if value is not None}


class Observe:
    """Gives each request an id (the client's own if it is a plain token), a log line, a measurement, and an answer.

    Parameters
    ----------
    unexpected
        Builds the answer to an error that nobody handled; the error itself goes to the log.
    ending
        Builds the answer to a request that the server broke off, because it ends.
    """

    def __init__(
        self,
        app: ASGIApp,
        log: structlog.typing.FilteringBoundLogger,
        metrics: RequestMetrics,
        unexpected: Callable[[HTTPConnection], ASGIApp],
        ending: Callable[[HTTPConnection], ASGIApp],
    ) -> None:
        self._app, self._log, self._metrics, self._unexpected, self._ending = app, log, metrics, unexpected, ending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        status, started = 0, time.perf_counter()

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-ID"] = request_id
            elif message["type"] == "websocket.close":
                status = message.get("code", 1000)
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id), self._metrics.in_flight.track_inprogress():
            try:
                await self._app(scope, receive, send_with_id)
            except asyncio.CancelledError:
                if status or scope["type"] != "http":
                    raise
                await self._ending(HTTPConnection(scope))(scope, receive, send_with_id)
            except Exception as error:
                self._log.error("unexpected_error", exc_info=error)
                if status or scope["type"] != "http":
                    raise
                await self._unexpected(HTTPConnection(scope))(scope, receive, send_with_id)
            finally:
                self._note(scope, status, time.perf_counter() - started)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        method = scope.get("method", "WEBSOCKET")
        route = getattr(scope.get("route"), "path", "unmatched")
        if scope["type"] == "http":
            known = method if method in _METHODS else "other"
            self._metrics.seconds.labels(known, route, str(status)).observe(seconds)
        level = "debug" if route in ("/healthz", "/readyz", "/metrics") else "info"
        getattr(self._log, level)(
            "request",
            method=method,
            path=scope["path"],
            route=route,
            status=status,
            ms=round(seconds * 1000, 2),
            client=(scope.get("client") or ("unknown",))[0],
        )


class OneLength:
    """Refuses a request with a Content-Length and a Transfer-Encoding: who reads it by the other one finds another request.

    RFC 9112, section 6.3: such a request may be an attempt to smuggle, and its connection is closed.

    Parameters
    ----------
    refused
        Builds the answer.
    """

    def __init__(self, app: ASGIApp, refused: Callable[[HTTPConnection], ASGIApp]) -> None:
        self._app, self._refused = app, refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = Headers(scope=scope) if scope["type"] == "http" else {}
        app = self._refused(HTTPConnection(scope)) if "content-length" in given and "transfer-encoding" in given else self._app
        await app(scope, receive, send)


class BodyLimit:
    """Refuses a body over the limit when it is read, so that a request without a token gets 401 first.

    Parameters
    ----------
    max_bytes
        The limit.
    others
        Other limits, by method and path.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, others: Mapping[tuple[str, str], int] = MappingProxyType({})) -> None:
        self._app, self._max_bytes, self._others = app, max_bytes, others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "")
        expected = int(declared) if declared.isdecimal() and declared.isascii() and len(declared) < 20 else 0
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        limit, seen = self._others.get((scope["method"], path), self._max_bytes), 0

        async def limited() -> Message:
            nonlocal seen
            if expected > limit:
                raise _too_large(limit)
            message = await receive()
            if message["type"] == "http.request":  # a chunked body may have another length than is declared beside it
                seen += len(message.get("body", b""))
            if seen > limit:
                raise _too_large(limit)
            return message

        await self._app(scope, limited, send)


def _too_large(limit: int) -> HTTPException:
    return HTTPException(413, f"the request body is larger than {limit} bytes", {"Connection": "close"})
