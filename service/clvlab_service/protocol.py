"""HTTP/1.1 with a clock: a client that sends slowly, or nothing, holds no connection for long."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class TimedProtocol(H11Protocol):
    """The server's protocol, with time-outs for what a client sends; idle connections between requests have the server's own.

    Parameters
    ----------
    headers_s
        How long the headers of a request may take, from its first byte or from the connection on.
    body_s
        How long a body may pause while it is waited for.
    """

    def __init__(self, *arguments: Any, headers_s: float, body_s: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._headers_s, self._body_s = headers_s, body_s
        self._timer: asyncio.TimerHandle | None = None
        self._in_headers = self._upgraded = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._upgraded = True
        self._stop()
        super().handle_websocket_upgrade(event)

    def handle_events(self) -> None:
        super().handle_events()
        if self._upgraded:
            return
        if self.conn.their_state is h11.IDLE:
            if self.timeout_keep_alive_task is None:  # else nothing of the next request has come
                self._await_headers()
        elif self.conn.their_state is h11.SEND_BODY:
            self._stop()
            self._timer = self.loop.call_later(self._body_s, self._body_pauses)
        else:
            self._stop()

    def _await_headers(self) -> None:
        if not self._in_headers:  # else their time began with the first byte
            self._stop()
            self._in_headers = True
            self._timer = self.loop.call_later(self._headers_s, self._give_up)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._in_headers = None, False

    def _body_pauses(self) -> None:
        if self.flow.read_paused or self.cycle.waiting_for_100_continue:  # it is we who pause
            self._timer = self.loop.call_later(self._body_s, self._body_pauses)
        else:
            self._give_up()

    def _give_up(self) -> None:
        self._stop()
        if self.transport.is_closing():
            return
        cycle = self.cycle if self.cycle is not None and not self.cycle.response_complete else None
        silent = cycle is None and not self.conn.trailing_data[0]  # nothing was asked
        if not silent and not (cycle is not None and cycle.response_started):
            self._answer(HTTPStatus.REQUEST_TIMEOUT)
        if cycle is not None:
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()

    def _answer(self, status: HTTPStatus) -> None:
        said = b"the request did not arrive in time"
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
        headers.append((b"content-length", str(len(said)).encode()))
        for event in (
            h11.Response(status_code=status, headers=headers, reason=status.phrase.encode()),
            h11.Data(data=said),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
