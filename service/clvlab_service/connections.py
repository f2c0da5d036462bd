"""Connections of clients: HTTP/1.1 with deadlines for a request, and a limited number of connections, in all and by address.

The server's own ``limit_concurrency`` answers 503 to the newest request, so that a few idle clients could keep out everybody.
Here a new connection takes the place of the one that has been idle for the longest time.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from enum import IntEnum
from http import HTTPStatus
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any, Protocol

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from clvlab_service.middleware import HEAD_LIMIT, MAX_HEAD_BYTES
from clvlab_service.settings import Settings, subscriber
from clvlab_service.telemetry import RequestMetrics

_CLOSING_S = 2.0
_NEW_S = 1.0
_REFUSED_AT_ONCE = 1000
_BURST = (
    "HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\nretry-after: 1\r\n"
    "content-length: {}\r\n\r\n{}"
)


class Wait(IntEnum):
    """What the service waits for at a connection, in the order in which connections have to make room."""

    REQUEST = 0
    BODY = 1
    READER = 2  # the whole answer is sent, and the client does not take it


class _Member(Protocol):
    """A connection, which may have to make room for another."""

    since_s: float  # monotonic time at which it was opened

    @property
    def wait(self) -> Wait | None:
        """What the service waits for; ``None`` while it is the service's turn, or a stream is open."""

    def make_room(self, reason: str) -> None:
        """Close the connection, with the reason if a request has begun."""


class Connections:
    """The open connections of this process by address, WebSockets included.

    Connections of trusted proxies, and those without an address, such as local sockets, count only in the total.
    """

    def __init__(self, settings: Settings, metrics: RequestMetrics) -> None:
        self._most, self._most_of_client = settings.max_connections, settings.max_client_connections
        self._proxies: Collection[IPv4Network | IPv6Network] = settings.trusted_proxies
        self._of: dict[str, dict[asyncio.BaseTransport, _Member]] = {}  # the oldest connection of an address first
        self._address_of: dict[asyncio.BaseTransport, str] = {}
        self._metrics = metrics
        limit, client_limit = f"CLVLAB_MAX_CONNECTIONS={self._most}", f"CLVLAB_MAX_CLIENT_CONNECTIONS={self._most_of_client}"
        self._reason = f"the service has as many connections as it may have: {limit}"
        self._client_reason = f"one address has as many connections as it may have: {client_limit}"

    def burst(self, host: str) -> str | None:
        """Return the reason to refuse a connection of a burst; ``None`` if it may enter, perhaps in place of another.

        Of a burst is what an address opens beyond a limit within a moment, unless another address has more of all connections.
        """
        address = subscriber(host)
        own = self._of.get(address)
        if not own or next(iter(own.values())).since_s < time.monotonic() - _NEW_S:
            return None
        if len(own) >= self._most_of_client and not self._is_proxy(address):
            self._metrics.crowded.labels("client").inc()
            return self._client_reason
        if len(self._address_of) >= self._most and len(own) >= max(map(len, self._of.values())):
            self._metrics.crowded.labels("all").inc()
            return self._reason
        return None

    def enter(self, transport: asyncio.BaseTransport, member: _Member, host: str | None) -> str | None:
        """Add a connection, in place of an idle one beyond a limit; return the reason to refuse it, if none is idle."""
        address = "" if host is None else subscriber(host)
        own = self._of.setdefault(address, {})
        refusal = None
        if len(own) >= self._most_of_client and address and not self._is_proxy(address):
            refusal = self._require_room([own], self._client_reason, "client")
        if refusal is None and len(self._address_of) >= self._most:
            crowded = sorted(self._of.values(), key=len, reverse=True)
            refusal = self._require_room(crowded, self._reason, "all")
        self._of.setdefault(address, own)[transport] = member
        self._address_of[transport] = address
        self._metrics.connections.set(len(self._address_of))
        return refusal

    def upgrade(self, transport: asyncio.BaseTransport, member: _Member) -> None:
        """Go on with a connection under another protocol."""
        self._of[self._address_of[transport]][transport] = member

    def leave(self, transport: asyncio.BaseTransport) -> None:
        """Forget a connection; idempotent."""
        address = self._address_of.pop(transport, None)
        if address is None:
            return
        own = self._of[address]
        del own[transport]
        if not own:
            del self._of[address]
        self._metrics.connections.set(len(self._address_of))

    def _is_proxy(self, address: str) -> bool:
        if not self._proxies:
            return False
        with suppress(ValueError):
            host = ip_address(address.partition("/")[0])
            return any(host in network for network in self._proxies)
        return False

    def _require_room(self, groups: Iterable[dict[asyncio.BaseTransport, _Member]], reason: str, limit: str) -> str | None:
        self._metrics.crowded.labels(limit).inc()
        found = next(_expendable(groups), None)
        if found is None:
            return reason
        transport, member = found
        self.leave(transport)
        member.make_room(reason)
        return None


class ServerSocket(socket.socket):
    """A socket that closes connections which may not enter as soon as they are accepted, before anything is made for them."""

    connections: Connections | None = None

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept the next connection that may enter."""
        for _ in range(_REFUSED_AT_ONCE):
            accepted, address = super().accept()
            refusal = None if self.connections is None else self.connections.burst(str(address[0]))
            if refusal is None:
                return accepted, address
            with accepted, suppress(OSError):
                accepted.send(_BURST.format(len(refusal), refusal).encode())
        raise BlockingIOError  # the event loop looks at other connections, and comes back


def _expendable(
    groups: Iterable[dict[asyncio.BaseTransport, _Member]],
) -> Iterator[tuple[asyncio.BaseTransport, _Member]]:
    """Yield the connections that may be closed, group by group, the oldest of each kind first.

    New ones, whose request may be on its way, come last.
    """
    until_s = time.monotonic() - _NEW_S
    for members in groups:
        old = [one for one in members.items() if one[1].since_s < until_s]
        for kind in Wait:
            yield from (one for one in old if one[1].wait is kind)
        yield from (one for one in members.items() if one[1].wait is not None)


class TimedProtocol(H11Protocol):
    """The server's protocol, with time limits for receiving a request. The server itself closes idle connections.

    A body may be late by ``CLVLAB_BODY_TIMEOUT_S``, and each byte adds its time at ``CLVLAB_BODY_MIN_RATE``. So N bytes take at
    most that timeout and N / rate, and a client at this rate or above is never cut.

    Parameters
    ----------
    connections
        The open connections, which it joins.
    settings
        Limits of headers and bodies.
    """

    def __init__(self, *arguments: Any, connections: Connections, settings: Settings, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._places, self._settings, self.since_s = connections, settings, time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._in_headers = self._upgraded = False
        self._new_bytes = self._rest_bytes = 0
        self._body_ends_s: float | None = None  # None outside a body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        refusal = self._places.enter(transport, self, None if self.client is None else self.client[0])
        if refusal is None:
            self._await_headers()
        else:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, refusal)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._places.leave(self.transport)
        self._stop()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._upgraded = True
        self._stop()
        super().handle_websocket_upgrade(event)

    def data_received(self, data: bytes) -> None:
        self._new_bytes = len(data)
        super().data_received(data)
        self._new_bytes = 0

    def handle_events(self) -> None:
        super().handle_events()
        if self._upgraded:
            return
        if self.conn.their_state is h11.SEND_BODY:
            self._await_body()
            return
        self._body_ends_s = None
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self.timeout_keep_alive_task is None:  # otherwise no byte of the next request has arrived
            self._await_headers()

    @property
    def wait(self) -> Wait | None:
        if self._is_answering:
            return None if self._body_ends_s is None else Wait.BODY
        return Wait.READER if self.transport.get_write_buffer_size() else Wait.REQUEST

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def make_room(self, reason: str) -> None:
        unread = self.wait is Wait.READER
        self._give_up(HTTPStatus.SERVICE_UNAVAILABLE, reason)
        if unread:
            self.transport.abort()

    def _await_headers(self) -> None:
        if not self._in_headers:  # otherwise the time began with the first byte
            self._stop()
            self._in_headers = True
            limit_s = self._settings.header_timeout_s
            reason = f"the headers did not arrive in time: CLVLAB_HEADER_TIMEOUT_S={limit_s:g}"
            self._timer = self.loop.call_later(limit_s, self._give_up, HTTPStatus.REQUEST_TIMEOUT, reason)

    def _await_body(self) -> None:
        now_s, settings = self.loop.time(), self._settings
        latest_s = now_s + settings.body_timeout_s
        if self._body_ends_s is None:
            self._body_ends_s = latest_s
            self._rest_bytes = max(settings.max_body_bytes, settings.max_upload_bytes if settings.uploads else 0)
        else:
            self._body_ends_s = min(latest_s, self._body_ends_s + self._new_bytes / settings.body_min_rate)
        self._stop()
        self._timer = self.loop.call_at(self._body_ends_s, self._body_is_late)
        if not self._is_answering:  # the answer did not need the rest of the body
            self._rest_bytes -= self._new_bytes
            if self._rest_bytes < 0:
                self.transport.close()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._in_headers = None, False

    def _body_is_late(self) -> None:
        if self.flow.read_paused or self.cycle.waiting_for_100_continue:  # the server itself is pausing
            self._body_ends_s = None
            self._await_body()
        else:
            late_s, rate = self._settings.body_timeout_s, self._settings.body_min_rate
            limits = f"CLVLAB_BODY_TIMEOUT_S={late_s:g}, CLVLAB_BODY_MIN_RATE={rate:g} bytes per second"
            self._give_up(HTTPStatus.REQUEST_TIMEOUT, f"the body did not arrive in time: {limits}")

    def send_400_response(self, msg: str) -> None:
        if len(self.conn.trailing_data[0]) > MAX_HEAD_BYTES:
            self._answer(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, HEAD_LIMIT)
            self.transport.close()
        else:
            super().send_400_response(msg)

    def _give_up(self, status: HTTPStatus, reason: str) -> None:
        self._stop()
        if self.transport.is_closing():
            return
        cycle = self.cycle if self._is_answering else None
        silent = cycle is None and not self.conn.trailing_data[0]  # no request has begun
        if not silent and not (cycle is not None and cycle.response_started):
            self._answer(status, reason)
        if cycle is not None:
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()

    def _answer(self, status: HTTPStatus, reason: str) -> None:
        body = reason.encode()
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
        headers.append((b"content-length", str(len(body)).encode()))
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            headers.append((b"retry-after", b"1"))
        for event in (
            h11.Response(status_code=status, headers=headers, reason=status.phrase.encode()),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")


class StreamProtocol(WebSocketsSansIOProtocol):
    """The server's protocol of WebSockets, whose connection stays counted after its upgrade.

    Parameters
    ----------
    connections
        The open connections, to which it belongs.
    """

    def __init__(self, *arguments: Any, connections: Connections, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._places, self.since_s = connections, time.monotonic()
        self.close_timeout = _CLOSING_S

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._places.upgrade(transport, self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._places.leave(self.transport)
        super().connection_lost(exc)

    @property
    def wait(self) -> Wait | None:
        return Wait.READER if self.close_sent else None  # only the client's own close is missing

    def make_room(self, reason: str) -> None:  # noqa: ARG002  # the close frame said why it ends
        self.transport.abort()
