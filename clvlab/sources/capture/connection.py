"""Connections of feeds: HTTP and WebSockets, threads for blocking calls, and the failures after which a feed tries again."""

from __future__ import annotations

import logging
import queue
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from urllib.parse import urlsplit

import httpx2
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.frames import CloseCode
from websockets.http11 import USER_AGENT
from websockets.protocol import Event
from websockets.sync.client import ClientConnection, connect

from clvlab.errors import FeedError
from clvlab.packs.files import MAX_LINE_BYTES
from clvlab.sources.capture.feed import Cut, FeedMessage, GapCause, Health, Item, Resumption, Stop, now_ms
from clvlab.sources.capture.peer import Retry, check_peer, is_encrypted, is_local, is_proxied, provenance_of

if TYPE_CHECKING:
    import httpx2


# Blocking work runs in a thread of its own, so that a feed ends when stopped even while its connection hangs.


_T = TypeVar("_T")
_LOOK_S = 0.1
_MOST_HELD = 10_000  # with more, the thread waits, and so does the provider


@dataclass(frozen=True, slots=True)
class _End:
    error: Exception | None


def items_until(
    source: Generator[_T, None, None], stop: Stop, abandon: Callable[[], None] = lambda: None
) -> Generator[_T, None, None]:
    """Return the items of a blocking source, until it ends or the feed is to end.

    Parameters
    ----------
    source
        Consumed and closed in its own thread; its exceptions are raised here.
    stop
        Ends this within a moment, even while the source blocks.
    abandon
        Called when no more is wanted, to wake a blocked source.
    """
    queue: Queue[_T | _End] = Queue(_MOST_HELD)
    unwanted = threading.Event()

    def put(item: _T | _End) -> bool:
        while not unwanted.is_set():
            try:
                queue.put(item, timeout=_LOOK_S)
            except Full:
                continue
            return True
        return False

    def draw() -> None:
        error = None
        try:
            with closing(source):
                for item in source:
                    if not put(item):
                        return
        except Exception as raised:  # noqa: BLE001 - raised again in the consumer
            error = raised
        put(_End(error))

    threading.Thread(target=draw, name="clvlab-feed", daemon=True).start()
    try:
        while not stop.is_set:
            try:
                item = queue.get(timeout=_LOOK_S)
            except Empty:
                continue
            if not isinstance(item, _End):
                yield item
            elif item.error is None:
                return
            else:
                raise item.error
    finally:
        unwanted.set()
        abandon()


def result_until(work: Callable[[], _T], stop: Stop) -> _T | None:
    """Return the result of a blocking call; ``None`` if the feed is to end first."""

    def once() -> Generator[_T, None, None]:
        yield work()

    with closing(items_until(once(), stop)) as results:
        return next(results, None)


@dataclass
class Line:
    """A connection that another thread can cut while its own waits for bytes."""

    response: httpx2.Response | None = None

    def hang_up(self) -> None:
        stream = None if self.response is None else self.response.extensions.get("network_stream")
        connection = None if stream is None else stream.get_extra_info("socket")
        if connection is not None:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # it is closed already
                return


# Trying again: how long a feed waits for a provider, and the failures after which it tries again.


# HTTP answers other than success, as several feeds read them.


_MOST_WAIT_S = 3600.0


class RefusedAnswer(Exception):  # noqa: N818 - no error of the library: a feed waits, and asks again
    """A refusal that may pass: ``status``, and the seconds that the provider asked to wait."""

    def __init__(self, status: int, retry_after_s: float) -> None:
        super().__init__(f"the provider answered {status}")
        self.status, self.retry_after_s = status, retry_after_s


def refusal(response: httpx2.Response) -> RefusedAnswer:
    """Return the exception for a refusal that may pass."""
    after = response.headers.get("retry-after", "")
    return RefusedAnswer(response.status_code, min(_MOST_WAIT_S, float(after)) if after.isdecimal() else 0.0)


def is_passing(status: int) -> bool:
    """Return whether asking again may help."""
    return status >= 500 or status in (408, 425, 429)


def error_text(error: Exception) -> str:
    """Return an error's text without sent values: an error about a header would show the key in it."""
    is_safe = isinstance(error, RefusedAnswer | httpx2.ConnectError | httpx2.ReadError | httpx2.RemoteProtocolError)
    return f"{type(error).__name__}: {error}" if is_safe and str(error) else type(error).__name__


def client_of(url: httpx2.URL, **options: Any) -> httpx2.Client:
    """Return a client for a provider's address; only an address that names this machine may resolve to it."""

    def check(response: httpx2.Response) -> None:
        stream = response.extensions.get("network_stream")
        connection = None if stream is None else stream.get_extra_info("socket")
        if isinstance(connection, socket.socket) and not is_proxied(url.scheme):
            try:
                check_peer(connection, url.host)
            except OSError as error:
                raise httpx2.ReadError("the connection broke off", request=response.request) from error

    trust_env = url.scheme == "https" and not is_local(url.host)
    return httpx2.Client(trust_env=trust_env, event_hooks={"response": [check]}, **options)


def secret(value: str, setting: str) -> str:
    """Return a key that is valid in a header."""
    if not value or not value.isascii() or not value.isprintable() or " " in value:
        raise FeedError(f"{setting} must be set, to one line of ASCII without spaces")
    return value


def base_url(text: str, setting: str, kind: str = "http") -> httpx2.URL:
    """Return a provider's address, ``http`` or ``ws``, plain or encrypted."""
    try:
        url = httpx2.URL(text)
        split = urlsplit(text)
        is_whole = url.scheme in (kind, f"{kind}s") and bool(split.hostname) and split.port != 0
    except (httpx2.InvalidURL, TypeError, ValueError) as error:
        raise FeedError(f"{setting} is no URL: {type(error).__name__}") from error
    if not is_whole:
        raise FeedError(f"{setting} must begin with {kind}:// or {kind}s:// and name a host")
    return url


def provenance_at(feed: str, *urls: httpx2.URL) -> str:
    """Return the label of packs from a feed at these addresses, see ``provenance_of``."""
    return provenance_of(feed, *(url.host for url in urls), encrypted=all(is_encrypted(url.scheme) for url in urls))


_HOPELESS = (400, 401, 403, 404, 410)


class LostError(Exception):
    """A connection failed: ``cause`` is the reason, ``wait_s`` the wait that the provider asks for."""

    def __init__(self, cause: GapCause, detail: str, wait_s: float = 0.0) -> None:
        super().__init__(detail)
        self.cause = cause
        self.wait_s = wait_s


PASSING = (OSError, WebSocketException, httpx2.HTTPError, LostError)


def refuse(status: int, headers: Mapping[str, str], settings: str) -> NoReturn:
    """Raise a refusal.

    Raises
    ------
    FeedError
        Trying again can't help; the message names ``settings``.
    LostError
        Trying again can help.
    """
    if status in _HOPELESS:
        raise FeedError(f"the provider refuses with HTTP {status}: check {settings}")
    wait = headers.get("Retry-After", "")
    cause = GapCause.QUOTA if status == 429 else GapCause.CUT
    raise LostError(cause, f"HTTP {status}", float(wait) if wait.isdecimal() else 0.0)


@dataclass(frozen=True, slots=True)
class Patience:
    """Waits of a feed, in seconds.

    Attributes
    ----------
    answer_s
        Longest wait for a connection or an answer.
    silence_s
        Longest time without a byte.
    data_s
        Longest time without a message, while heartbeats come.
    first_s, most_s
        First and longest wait before the feed connects again; each is twice the one before, less up to a half at random.
    """

    answer_s: float = 10.0
    silence_s: float = 25.0
    data_s: float = 900.0
    first_s: float = 0.5
    most_s: float = 30.0

    def retry(self, health: Health) -> Retry:
        return Retry(health, self.first_s, self.most_s)


def until_done(retry: Retry, stop: Stop, attempt: Callable[[], _T]) -> _T | None:
    """Repeat an attempt until it succeeds, and return its result; ``None`` if stopped."""
    while not stop.is_set:
        try:
            return attempt()
        except PASSING as error:
            put_off(retry, stop, error)
    return None


def put_off(retry: Retry, stop: Stop, error: Exception) -> None:
    retry.note_failure(f"{type(error).__name__}: {error}"[:200])
    retry.wait(stop, error.wait_s if isinstance(error, LostError) else 0.0)


# Several connections or subscriptions of one feed, as one stream of messages and cuts.


_QUEUE_POLL_S = 0.1
_END_S = 0.8
_QUEUED = 1_000


@dataclass
class Cuts:
    """Open cuts of a feed's connections or subscriptions.

    For readers of the stream, a ``Resumption`` ends all cuts. Those that still last are therefore cut again after it.
    """

    _open: dict[Any, Cut] = field(default_factory=dict)

    def pass_on(self, of: Any, item: Item) -> Iterator[Item]:
        """Return an item of one connection or subscription, and the cuts that must follow it."""
        if isinstance(item, Cut):
            self._open[of] = item
        yield item
        if isinstance(item, Resumption):
            self._open.pop(of, None)
            for other in self._open.values():
                yield Cut(other.cause, item.to_ts_ms, other.markets)

    def is_open(self, of: Any) -> bool:
        return of in self._open


def together(stop: Stop, listeners: Sequence[Callable[[Stop], Iterator[Item]]]) -> Iterator[Item]:
    """Return the items of several connections on arrival, each connection in its own thread.

    When stopped, it ends within a second, even while a connection is being tried; items that came before are returned.

    Raises
    ------
    FeedError
        A connection failed for good.
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
        except Exception as error:  # noqa: BLE001  # raised again in the consumer
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
                yield from cuts.pass_on(number, item)
    finally:
        gone.set()
        ending.set()
        until = until or time.monotonic() + _END_S
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))


_POLL_S = 0.2
_CLOSE_S = 0.5
_MAX_BYTES = MAX_LINE_BYTES - (1 << 12)  # longest message that fits into a line of a capture


class _Discreet(logging.LoggerAdapter[logging.Logger]):
    """A log without handshake details, which hold keys and signatures."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - the library's name
        return level > logging.DEBUG and super().isEnabledFor(level)


class TimedConnection(ClientConnection):
    """A connection that knows the arrival of its last frame, heartbeats included."""

    heard_s = 0.0

    def process_event(self, event: Event) -> None:
        self.heard_s = time.monotonic()
        super().process_event(event)


@dataclass
class Socket:
    """A WebSocket that connects again and again.

    Parameters
    ----------
    url, settings
        Address, and the settings to check if it refuses for good.
    begin
        Subscribes on a new connection; returns the items before its messages.
    read
        Returns the items of a message.
    provider_ms
        Returns the provider's time of a message.
    headers
        Headers of the next handshake.
    heartbeat
        Text to send, and how often in seconds; ``None`` if the provider sends heartbeats.
    markets
        Markets that cuts name.
    """

    url: str
    settings: str
    health: Health
    patience: Patience
    begin: Callable[[ClientConnection], Iterable[Item]]
    read: Callable[[ClientConnection, FeedMessage], Iterable[Item]]
    provider_ms: Callable[[bytes], int | None]
    headers: Callable[[], dict[str, str]] = dict
    heartbeat: tuple[str, float] | None = None
    markets: tuple[str, ...] = ()
    _retry: Retry = field(init=False)

    def __post_init__(self) -> None:
        self._retry = self.patience.retry(self.health)

    def listen(self, stop: Stop) -> Iterator[Item]:
        """Return messages until stopped, with ``Cut`` and ``Resumption`` between two connections."""
        is_cut = bool(self.markets)  # other connections of the feed may bring messages before this one is up
        if is_cut:
            yield Cut(GapCause.CUT, now_ms(), self.markets)
        while (opened := until_done(self._retry, stop, self._open)) is not None:
            socket, first = opened
            last_ms = now_ms()
            try:
                with socket:
                    if is_cut:
                        yield Resumption(last_ms)
                    yield from first
                    for message in self._messages(socket, stop):
                        last_ms = message.received_ts_ms
                        yield from self.read(socket, message)
            except PASSING as error:
                is_cut = True
                yield Cut(_cause(error), last_ms, self.markets)
                put_off(self._retry, stop, error)

    def _open(self) -> tuple[TimedConnection, list[Item]]:
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
                create_connection=TimedConnection,
                logger=_Discreet(logging.getLogger("websockets.client"), {}),
                legacy=True,
            )
        except InvalidStatus as error:
            refuse(error.response.status_code, error.response.headers, self.settings)
        try:
            if not is_proxied(where.scheme):
                check_peer(socket.socket, host)
            return socket, list(self.begin(socket))  # type: ignore[return-value]
        except BaseException:
            socket.close()
            raise

    def _messages(self, socket: TimedConnection, stop: Stop) -> Iterator[FeedMessage]:
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
            self._retry.reset()
            message = FeedMessage(bytes(text), now_ms(), self._time(text))
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
