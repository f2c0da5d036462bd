"""Feeds over WebSockets: one connection after another, what is heard on each, and where messages were missed between them."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import CloseCode
from websockets.http11 import USER_AGENT
from websockets.protocol import Event
from websockets.sync.client import ClientConnection, connect

from clvlab.feeds.backoff import Retry
from clvlab.feeds.feed import Cut, GapCause, Health, Item, Received, Resumed, Stop, now_ms
from clvlab.feeds.hosts import check_peer, is_local, is_proxied
from clvlab.feeds.retrying import PASSING, LostError, Patience, put_off, refused, until_done
from clvlab.packs.files import MAX_LINE_BYTES

# Several connections or subscriptions of one feed, as one stream of messages and cuts.


_QUEUE_POLL_S = 0.1
_END_S = 0.8
_QUEUED = 1_000


@dataclass
class Cuts:
    """Cuts that are open on several connections or subscriptions of a feed.

    A ``Resumed`` ends all of them for whoever reads the stream, so the others are cut anew after it.
    """

    _open: dict[Any, Cut] = field(default_factory=dict)

    def placed(self, of: Any, item: Item) -> Iterator[Item]:
        """Return an item of one of them, and what has to follow it."""
        if isinstance(item, Cut):
            self._open[of] = item
        yield item
        if isinstance(item, Resumed):
            self._open.pop(of, None)
            for other in self._open.values():
                yield Cut(other.cause, item.to_ts_ms, other.markets)

    def is_open(self, of: Any) -> bool:
        """Whether messages of it are being missed."""
        return of in self._open


def together(stop: Stop, listeners: Sequence[Callable[[Stop], Iterator[Item]]]) -> Iterator[Item]:
    """Return the items of several connections as they come, each connection in a thread of its own.

    When it is told to stop, it ends within a second, even while a connection is being tried; what came before is returned.

    Raises
    ------
    FeedError
        One of them can't go on.
    """
    ending, gone, cuts = Stop(), Stop(), Cuts()
    items: queue.Queue[tuple[int, Item | Exception | None]] = queue.Queue(_QUEUED)

    def put(number: int, item: Item | Exception | None) -> None:
        while not gone.is_set:
            try:
                items.put((number, item), timeout=_QUEUE_POLL_S)
            except queue.Full:
                continue
            return

    def run(number: int) -> None:
        end: Exception | None = None
        try:
            for item in listeners[number](ending):
                put(number, item)
        except Exception as error:  # noqa: BLE001  # raised again where the items are taken
            end = error
        put(number, end)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(len(listeners))]
    for thread in threads:
        thread.start()
    running, until = len(threads), None
    try:
        while running and (until is None or time.monotonic() < until or not items.empty()):
            if stop.is_set and until is None:
                ending.set()
                until = time.monotonic() + _END_S
            try:
                number, item = items.get(timeout=_QUEUE_POLL_S)
            except queue.Empty:
                continue
            if isinstance(item, Exception):
                raise item
            if item is None:
                running -= 1
            else:
                yield from cuts.placed(number, item)
    finally:
        gone.set()
        ending.set()
        until = until or time.monotonic() + _END_S
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))


_POLL_S = 0.2
_CLOSE_S = 0.5
_MAX_BYTES = MAX_LINE_BYTES - (1 << 12)  # so that a line of a capture can hold it


class _Discreet(logging.LoggerAdapter[logging.Logger]):
    """A log without the details of a handshake, which hold keys and signatures."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - the library's name
        return level > logging.DEBUG and super().isEnabledFor(level)


class Heard(ClientConnection):
    """A connection that knows when its last frame came, heartbeats among them."""

    heard_s = 0.0

    def process_event(self, event: Event) -> None:
        """Take note, and go on."""
        self.heard_s = time.monotonic()
        super().process_event(event)


@dataclass
class Socket:
    """One connection after another to a WebSocket.

    Parameters
    ----------
    url, settings
        Where, and what to check if it refuses for good.
    begin
        Called with every new connection; subscribes, and returns what is to come before its messages.
    read
        Returns what a message becomes.
    provider_ms
        Returns the provider's time of a message.
    headers
        Of the next handshake.
    heartbeat
        What to send every so many seconds; null where the provider sends heartbeats.
    markets
        What cuts name.
    """

    url: str
    settings: str
    health: Health
    patience: Patience
    begin: Callable[[ClientConnection], Iterable[Item]]
    read: Callable[[ClientConnection, Received], Iterable[Item]]
    provider_ms: Callable[[bytes], int | None]
    headers: Callable[[], dict[str, str]] = dict
    heartbeat: tuple[str, float] | None = None
    markets: tuple[str, ...] = ()
    _retry: Retry = field(init=False)

    def __post_init__(self) -> None:
        self._retry = self.patience.retry(self.health)

    def listen(self, stop: Stop) -> Iterator[Item]:
        """Return messages until it is told to stop, and ``Cut`` and ``Resumed`` between two connections."""
        is_cut = bool(self.markets)  # one of several: the others may bring messages before it stands
        if is_cut:
            yield Cut(GapCause.CUT, now_ms(), self.markets)
        while (opened := until_done(self._retry, stop, self._opened)) is not None:
            socket, first = opened
            last_ms = now_ms()
            try:
                with socket:
                    if is_cut:
                        yield Resumed(last_ms)
                    yield from first
                    for message in self._messages(socket, stop):
                        last_ms = message.received_ts_ms
                        yield from self.read(socket, message)
            except PASSING as error:
                is_cut = True
                yield Cut(_cause(error), last_ms, self.markets)
                put_off(self._retry, stop, error)

    def _opened(self) -> tuple[Heard, list[Item]]:
        where = urlsplit(self.url)
        host = where.hostname or ""
        try:
            socket = connect(
                self.url,
                additional_headers=self.headers(),
                user_agent_header=USER_AGENT,
                proxy=True if is_proxied(where.scheme) and not is_local(host) else None,
                open_timeout=self.patience.answer_s,
                close_timeout=_CLOSE_S,
                ping_interval=None,
                max_size=_MAX_BYTES,
                create_connection=Heard,
                logger=_Discreet(logging.getLogger("websockets.client"), {}),
                legacy=True,
            )
        except InvalidStatus as error:
            refused(error.response.status_code, error.response.headers, self.settings)
        try:
            if not is_proxied(where.scheme):
                check_peer(socket.socket, host)
            return socket, list(self.begin(socket))  # type: ignore[return-value]
        except BaseException:
            socket.close()
            raise

    def _messages(self, socket: Heard, stop: Stop) -> Iterator[Received]:
        self.health.connected = True
        data = beat = time.monotonic()
        while not stop.is_set:
            if self.heartbeat is not None and time.monotonic() - beat >= self.heartbeat[1]:
                socket.send(self.heartbeat[0])
                beat = time.monotonic()
            try:
                text = socket.recv(_POLL_S, decode=False)
            except TimeoutError:
                self._check(time.monotonic(), socket.heard_s, data)
                continue
            if text == b"PONG":
                self._check(time.monotonic(), socket.heard_s, data)
                continue
            data = time.monotonic()
            self._retry.succeeded()
            message = Received(bytes(text), now_ms(), self._time(text))
            self.health.note(message)
            yield message

    def _check(self, now: float, heard: float, data: float) -> None:
        self.health.heard_ts_ms = max(self.health.heard_ts_ms or 0, now_ms() - round((now - heard) * 1000))
        if now - heard > self.patience.silence_s:
            raise LostError(GapCause.SILENCE, f"nothing came for {self.patience.silence_s:g} s")
        if now - data > self.patience.data_s:
            raise LostError(GapCause.SILENCE, f"heartbeats came, but no message for {self.patience.data_s:g} s")

    def _time(self, text: bytes) -> int | None:
        try:
            return self.provider_ms(text)
        except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError):
            return None  # the reader refuses such a message, and it is counted there


def _cause(error: Exception) -> GapCause:
    if isinstance(error, ConnectionClosed) and error.sent is not None and error.sent.code == CloseCode.MESSAGE_TOO_BIG:
        return GapCause.OVERSIZE
    return error.cause if isinstance(error, LostError) else GapCause.CUT
