"""Feeds over WebSockets: one connection after another, what is heard on each, and where messages were missed between them."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

import httpx2
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.http11 import USER_AGENT
from websockets.protocol import Event
from websockets.sync.client import ClientConnection, connect

from clvlab.errors import FeedError
from clvlab.feeds.feed import Cut, GapCause, Health, Item, Received, Resumed, Stop

_POLL_S = 0.2
_CLOSE_S = 0.5
_MAX_BYTES = 64 << 20  # the first books of 500 assets come as one message
_QUEUED = 1_000
_HOPELESS = (400, 401, 403, 404, 410)
_T = TypeVar("_T")


class LostError(Exception):
    """A connection is of no use any more; ``cause`` says why, ``wait_s`` how long the provider asks to be left alone."""

    def __init__(self, cause: GapCause, detail: str, wait_s: float = 0.0) -> None:
        super().__init__(detail)
        self.cause = cause
        self.wait_s = wait_s


PASSING = (OSError, WebSocketException, httpx2.HTTPError, LostError)


def now_ms() -> int:
    """Return the time of this machine, UTC."""
    return time.time_ns() // 1_000_000


def is_local(url: str) -> bool:
    """Whether a URL leads to this machine."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def refused(status: int, headers: Mapping[str, str], settings: str) -> NoReturn:
    """Raise what a refusal means: another try later, or none.

    Raises
    ------
    FeedError
        Trying again can't help; the message names ``settings``.
    LostError
        It can.
    """
    if status in _HOPELESS:
        raise FeedError(f"the provider refuses with HTTP {status}: check {settings}")
    wait = headers.get("Retry-After", "")
    cause = GapCause.QUOTA if status == 429 else GapCause.CUT
    raise LostError(cause, f"HTTP {status}", float(wait) if wait.isdecimal() else 0.0)


class Heard(ClientConnection):
    """A connection that knows when its last frame came, heartbeats among them."""

    heard_s = 0.0

    def process_event(self, event: Event) -> None:
        """Take note, and go on."""
        self.heard_s = time.monotonic()
        super().process_event(event)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a feed waits, in seconds.

    Attributes
    ----------
    answer_s
        For a connection, and for an answer.
    silence_s
        Without a byte.
    data_s
        Without a message, while heartbeats come.
    first_s, most_s
        Before it connects again: for the first time, and at most. Each time is twice the one before, less up to a half.
    """

    answer_s: float = 10.0
    silence_s: float = 25.0
    data_s: float = 900.0
    first_s: float = 0.5
    most_s: float = 30.0


@dataclass
class Retry:
    """Tries again what fails for a while, and waits longer from time to time."""

    health: Health
    patience: Patience
    failures: int = 0

    def until_done(self, stop: Stop, attempt: Callable[[], _T]) -> _T | None:
        """Return what an attempt returns, after as many as it takes; null if it is told to stop."""
        while not stop.is_set:
            try:
                return attempt()
            except PASSING as error:
                self.failed(stop, error)
        return None

    def failed(self, stop: Stop, error: Exception) -> None:
        """Take note of a failure, and wait."""
        self.failures += 1
        self.health.connected, self.health.retries = False, self.failures
        self.health.error = f"{type(error).__name__}: {error}"[:200]
        longest = min(self.patience.most_s, self.patience.first_s * 2.0 ** min(self.failures - 1, 16))
        asked = error.wait_s if isinstance(error, LostError) else 0.0
        stop.wait(max(asked, longest * random.uniform(0.5, 1.0)))  # noqa: S311  # so that not all come back at once


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
        self._retry = Retry(self.health, self.patience)

    def listen(self, stop: Stop) -> Iterator[Item]:
        """Return messages until it is told to stop, and ``Cut`` and ``Resumed`` between two connections."""
        is_cut = False
        while (opened := self._retry.until_done(stop, self._opened)) is not None:
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
                cause = error.cause if isinstance(error, LostError) else GapCause.CUT
                is_cut = True
                yield Cut(cause, last_ms, self.markets)
                self._retry.failed(stop, error)

    def _opened(self) -> tuple[Heard, list[Item]]:
        try:
            socket = connect(
                self.url,
                additional_headers=self.headers(),
                user_agent_header=USER_AGENT,
                proxy=None if is_local(self.url) else True,
                open_timeout=self.patience.answer_s,
                close_timeout=_CLOSE_S,
                ping_interval=None,
                max_size=_MAX_BYTES,
                create_connection=Heard,
                legacy=True,
            )
        except InvalidStatus as error:
            refused(error.response.status_code, error.response.headers, self.settings)
        try:
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
                self.health.heard_ts_ms = now_ms()
                continue
            data = time.monotonic()
            self._retry.failures = 0
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
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            return None  # the reader refuses such a message, and it is counted there


@dataclass
class Cuts:
    """Cuts that are open on several connections or subscriptions of a feed.

    A ``Resumed`` ends all of them for whoever reads the stream, so the others are cut anew after it.
    """

    _open: dict[Any, Cut] = field(default_factory=dict)

    def placed(self, of: Any, item: Item) -> Iterator[Item]:
        """Return an item of one of them, and what has to follow it."""
        yield item
        if isinstance(item, Cut):
            self._open[of] = item
        elif isinstance(item, Resumed):
            self._open.pop(of, None)
            for other in self._open.values():
                yield Cut(other.cause, item.to_ts_ms, other.markets)

    def is_open(self, of: Any) -> bool:
        """Whether messages of it are being missed."""
        return of in self._open

    def clear(self) -> None:
        """Take note that a cut covers all of them."""
        self._open.clear()


def together(stop: Stop, listeners: Sequence[Callable[[Stop], Iterator[Item]]]) -> Iterator[Item]:
    """Return the items of several connections as they come, each connection in a thread of its own.

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
                items.put((number, item), timeout=_POLL_S)
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
    running = len(threads)
    try:
        while running:
            if stop.is_set:
                ending.set()
            try:
                number, item = items.get(timeout=_POLL_S)
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
        for thread in threads:
            thread.join(_CLOSE_S + _POLL_S)
