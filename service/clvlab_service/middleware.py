"""The middleware that every request and answer passes."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import partial
from http import HTTPStatus
from secrets import token_hex
from types import MappingProxyType

import structlog
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clvlab_service.errors import (
    crowded_problem,
    ending_problem,
    head_problem,
    operation_of,
    two_lengths_problem,
    unexpected_problem,
)
from clvlab_service.negotiation import OF_GZIP
from clvlab_service.settings import subscriber
from clvlab_service.telemetry import RequestMetrics

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_LENGTH = re.compile(rb"[0-9]{1,19}")
MAX_HEAD_BYTES = 16_384
HEAD_LIMIT = f"the line and the headers of the request are longer than {MAX_HEAD_BYTES} bytes"
_STARTS = ("http.response.start", "websocket.http.response.start")


class Edge:
    """The service's own middleware: it does everything in one pass, because each further one would slow every request.

    A request gets an id: the client's own if that is a plain token. A HEAD gets the answer to the GET without its body. A body
    over the limit is refused only when it is read, so that a request without a token gets 401 first. Every answer names the
    headers by which it varies. An unhandled error becomes a problem. Each request is measured and logged.

    Parameters
    ----------
    max_bytes, larger
        The limit of a body, and other limits by method and path.
    vary
        ``Vary`` of every answer. A 304 must have the same ``Vary`` as its 200 (RFC 9110, section 15.4.5), and the compression
        does not add it, because a 304 has no body.
    both
        Paths of routes that have JSON and a page: both forms of their answers also vary by ``Accept``.
    most_of_client
        Requests in progress of one address; without a limit they are not counted.
    """

    def __init__(
        self,
        app: ASGIApp,
        log: structlog.typing.FilteringBoundLogger,
        metrics: RequestMetrics,
        max_bytes: int,
        *,
        larger: Mapping[tuple[str, str], int] = MappingProxyType({}),
        vary: tuple[str, ...] = (),
        both: Collection[str] = (),
        most_of_client: int | None = None,
    ) -> None:
        self._most_of_client, self._in_progress = most_of_client, Counter[str]()
        self._app, self._log, self._metrics, self._max_bytes = app, log, metrics, max_bytes
        self._larger, self._vary, self._both = larger, vary, frozenset(both)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send)
        if exchange.is_http:
            path = scope["path"].removeprefix(scope.get("root_path", ""))
            exchange.max_bytes = self._larger.get((scope["method"], path), self._max_bytes)
            exchange.vary, exchange.both = self._vary, self._both
        started = time.perf_counter()
        bound = structlog.contextvars.bind_contextvars(request_id=exchange.request_id)
        self._metrics.in_flight.inc()
        try:
            await self._answer(exchange)
        finally:
            self._note(exchange, time.perf_counter() - started)
            self._metrics.in_flight.dec()
            structlog.contextvars.reset_contextvars(**bound)

    async def _answer(self, exchange: _Exchange) -> None:
        try:
            if exchange.head_bytes > MAX_HEAD_BYTES:
                await exchange.answer(partial(head_problem, HEAD_LIMIT))
            elif exchange.has_two_lengths:
                await exchange.answer(two_lengths_problem)
            elif self._most_of_client is None or exchange.scope.get("client") is None:
                await self._app(exchange.inner, exchange.receive, exchange.send)
            else:
                await self._answer_in_turn(exchange, subscriber(exchange.scope["client"][0]), self._most_of_client)
        except _HeadersSentError:
            pass
        except asyncio.CancelledError:
            if exchange.status or not exchange.is_http:
                raise
            await exchange.answer(ending_problem)
        except Exception as error:
            self._log.error("unexpected_error", exc_info=error)
            if exchange.status or not exchange.is_http:
                raise
            await exchange.answer(unexpected_problem)

    async def _answer_in_turn(self, exchange: _Exchange, client: str, most: int) -> None:
        if exchange.is_http and self._in_progress[client] >= most:  # streams have their own limit
            await exchange.answer(partial(crowded_problem, most))
            return
        self._in_progress[client] += exchange.is_http
        try:
            await self._app(exchange.inner, exchange.receive, exchange.send)
        finally:
            self._in_progress[client] -= exchange.is_http
            if not self._in_progress[client]:
                del self._in_progress[client]

    def _note(self, exchange: _Exchange, seconds: float) -> None:
        scope, status = exchange.scope, exchange.status
        method = scope.get("method", "WEBSOCKET")
        known, route = operation_of(method, exchange.inner)
        if exchange.is_http:
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


class _HeadersSentError(Exception):
    """The answer to a HEAD is sent, so its body need not be made."""


def _as_get(scope: Scope) -> Scope:
    """Return the GET whose answer a HEAD gets; only a GET has a range (RFC 9110, section 14.2)."""
    return {**scope, "method": "GET", "headers": [one for one in scope["headers"] if one[0] not in (b"range", b"if-range")]}


class _Exchange:
    """A request and its answer, with the additions of the middleware.

    Attributes
    ----------
    scope, inner
        The received request, and the request that the application sees: a HEAD becomes a GET.
    status
        Status of the answer, or close code of the WebSocket; 0 until then.
    head_bytes
        Length of the path, query and headers.
    has_two_lengths
        Whether the request has a Content-Length and a Transfer-Encoding. A proxy may then see other requests than this server.
        This may be request smuggling, so the connection is closed (RFC 9112, section 6.3).
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(reversed(list(scope["headers"])))  # the first of repeated headers
        self.head_bytes = len(scope["query_string"]) + len(scope.get("raw_path") or b"")
        self.head_bytes += sum(len(name) + len(value) for name, value in scope["headers"])
        wanted_id = headers.get(b"x-request-id", b"")
        self.request_id = wanted_id.decode() if _REQUEST_ID.fullmatch(wanted_id) else token_hex(8)
        scope.setdefault("state", {})["request_id"] = self.request_id
        self.is_http = scope["type"] == "http"
        self.has_two_lengths = self.is_http and b"content-length" in headers and b"transfer-encoding" in headers
        self._is_head = self.is_http and scope["method"] == "HEAD"
        self.scope, self.inner = scope, _as_get(scope) if self._is_head else scope
        self.status = 0
        self.max_bytes: float = math.inf
        self.vary: tuple[str, ...] = ()
        self.both: Collection[str] = ()
        self._receive, self._send = receive, send
        self._known_tags = headers.get(b"if-none-match", b"").decode("latin-1")
        length = headers.get(b"content-length", b"")
        self._declared, self._received = int(length) if _LENGTH.fullmatch(length) else 0, 0

    async def answer(self, problem: Callable[[HTTPConnection], ASGIApp]) -> None:
        """Send a problem instead of the application's answer."""
        self.vary = self.both = ()
        await problem(HTTPConnection(self.scope))(self.scope, self._receive, self.send)

    async def receive(self) -> Message:
        """Receive a message, or refuse a body over the limit."""
        if self._declared <= self.max_bytes:
            message = await self._receive()
            if message["type"] == "http.request":  # a chunked body declares no length, so its bytes are counted
                self._received += len(message.get("body", b""))
            if self._received <= self.max_bytes:
                return message
        raise HTTPException(413, f"the request body is larger than {self.max_bytes} bytes", {"Connection": "close"})

    async def send(self, message: Message) -> None:
        """Send a message with the common headers; a HEAD gets no body."""
        if message["type"] in _STARTS:
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            self._name_what_it_varies_by(headers)
            self._weaken_tag(headers)
            headers["X-Request-ID"] = self.request_id
        elif message["type"] == "websocket.close":
            self.status = message.get("code", 1000)
        elif self._is_head:
            await self._send({"type": "http.response.body", "body": b""})
            if message.get("more_body", False):
                raise _HeadersSentError
            return
        await self._send(message)

    def _name_what_it_varies_by(self, headers: MutableHeaders) -> None:
        if self.inner.get("method") == "OPTIONS":  # an answer to OPTIONS is not cached (RFC 9110, section 9.3.7)
            return
        by_form = self.both and self.inner["method"] == "GET" and getattr(self.inner.get("route"), "path", None) in self.both
        named = [name.strip().lower() for name in headers.get("vary", "").split(",")]
        missing = [name for name in (*self.vary, *(["Accept"] if by_form else [])) if name.lower() not in named]
        if missing:
            headers.add_vary_header(", ".join(missing))

    def _weaken_tag(self, headers: MutableHeaders) -> None:
        """Weaken the tag of an answer that the service compressed, because it names other bytes (RFC 9110, section 8.8.1)."""
        tag = headers.get("etag", "")
        if not tag.startswith('"') or tag.endswith(OF_GZIP):
            return
        known_as_weak = self.status == HTTPStatus.NOT_MODIFIED and f"W/{tag}" in self._known_tags
        if known_as_weak or "content-encoding" in headers:
            headers["ETag"] = f"W/{tag}"
