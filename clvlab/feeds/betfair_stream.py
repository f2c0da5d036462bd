"""One connection to Betfair's stream, in a thread of its own: its lines as they come, in a queue that makes the sender wait."""

from __future__ import annotations

import contextlib
import queue
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import betfairlightweight
import orjson
from betfairlightweight.exceptions import BetfairError, LoginError, StatusCodeError
from betfairlightweight.streaming import BaseListener, BetfairStream

from clvlab.errors import FeedError
from clvlab.feeds.feed import GapCause, now_ms
from clvlab.feeds.hosts import check_peer
from clvlab.packs.files import MAX_LINE_BYTES
from clvlab.packs.importers.betfair_book import StreamMessage

# Where a subscription to Betfair's stream is, from where it can be resumed, and how it is lost.


class ConnectionLostError(Exception):
    """A connection that ended, or never came to be; trying again may help. The text holds no secret."""

    def __init__(self, said: str, cause: GapCause = GapCause.CUT) -> None:
        super().__init__(said)
        self.cause = cause


class StreamLine(NamedTuple):
    """A line without its end, and when it came."""

    text: bytes
    at_ms: int


@dataclass
class StreamPosition:
    """Where a feed is.

    Attributes
    ----------
    initial_clk, clk
        The clocks to resume with; null where there are none.
    missing
        Whether messages are being missed.
    began
        Whether anything was heard of the markets.
    partial
        Whether a message came in segments, of which more are due.
    data_ms, data_s
        When the last message came, by the clock of this machine and by one that never goes back.
    """

    initial_clk: str | None = None
    clk: str | None = None
    missing: bool = False
    began: bool = False
    partial: bool = False
    data_ms: int = field(default_factory=now_ms)
    data_s: float = field(default_factory=time.monotonic)

    @property
    def resumable(self) -> bool:
        return self.initial_clk is not None and self.clk is not None

    @property
    def mark(self) -> str:
        return orjson.dumps({"initialClk": self.initial_clk, "clk": self.clk}).decode()

    def forget(self) -> None:
        """Have no clock to resume with."""
        self.initial_clk = self.clk = None

    def take(self, message: StreamMessage) -> bool:
        """Take the clocks of a message; tell whether the feed can be resumed right after it."""
        initial_clk, clk = message.get("initialClk"), message.get("clk")
        if isinstance(initial_clk, str):
            self.initial_clk = initial_clk
        if isinstance(clk, str):
            self.clk = clk
        return isinstance(clk, str) and self.resumable


def place_of(mark: str | None) -> StreamPosition:
    """Return the place that a mark names.

    Raises
    ------
    FeedError
    """
    if mark is None:
        return StreamPosition()
    place = StreamPosition(missing=True)
    if not place.take(read_message(mark.encode())):
        raise FeedError(f"{mark[:80]!r} is no mark of Betfair's stream: listen without after")
    return place


def read_message(text: bytes) -> StreamMessage:
    """Return a message; an empty one where it is no JSON object, which whoever reads the capture refuses and counts."""
    try:
        message: StreamMessage = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return message if isinstance(message, dict) else {}


_MAX_BYTES = MAX_LINE_BYTES - (1 << 12)  # of a line that a line of a capture can hold, with its mark
_CRLF = b"\r\n"
_QUEUED = 10_000
_TRY_LATER = {"TEMPORARY_BAN_TOO_MANY_REQUESTS", "INTERNAL_ERROR", "SERVICE_UNAVAILABLE", "LIMITED_ACCESS"}


class StreamAddress(NamedTuple):
    """Where the stream is, and whose certificates count; null stands for those of the system."""

    host: str
    port: int
    cafile: str | Path | None


def session_of(username: str, password: str, app_key: str, login_url: str) -> str:
    """Log in, and return the token of the session.

    Raises
    ------
    FeedError
        Betfair refuses who asks.
    ConnectionLostError
        It can't be asked now.
    """
    client = betfairlightweight.APIClient(username, password, app_key=app_key)
    client.identity_uri = login_url
    try:
        client.login_interactive()
    except LoginError as error:
        said = str(error.response.get("error") or error.response.get("status"))[:80]
        if said in _TRY_LATER:
            raise ConnectionLostError(f"the login is refused for now: {said}", GapCause.QUOTA) from None
        raise FeedError(f"Betfair refuses the login ({said}): check CLVLAB_BETFAIR_USERNAME, _PASSWORD and _APP_KEY") from None
    except StatusCodeError as error:
        raise ConnectionLostError(f"the login is answered with status {error.status_code}") from None
    except BetfairError as error:  # its text and its causes may hold what was sent
        raise ConnectionLostError(f"the login can't be reached: {type(error).__name__}") from None
    return str(client.session_token)


class _Lines(BaseListener):  # type: ignore[misc]
    """Hands lines on as they are; the library's own reading of them is left out."""

    def __init__(self, put: Callable[[StreamLine], None]) -> None:
        super().__init__(max_latency=None)
        self._put = put

    def register_stream(self, unique_id: int, operation: str) -> None:
        self.stream_unique_id, self.stream_type = unique_id, operation

    def update_unique_id(self, unique_id: int) -> None:
        self.stream_unique_id = unique_id

    def on_data(self, raw_data: str) -> None:
        self._put(StreamLine(raw_data.removesuffix("\r\n").encode("utf-8", "surrogateescape"), now_ms()))


class _LineStream(BetfairStream):  # type: ignore[misc]
    """The library's stream at any address, with certificates checked, line by line, and without the key in its log."""

    def __init__(
        self, lines: _Lines, app_key: str, token: str, address: StreamAddress, connect_s: float, given_up: threading.Event
    ) -> None:
        super().__init__(0, lines, app_key, token, connect_s, 1 << 16, None)
        self._socket: ssl.SSLSocket | None = None
        self._address = address
        self._given_up = given_up
        self._whole: deque[bytes] = deque()
        self._part = b""

    def run(self, request: Mapping[str, object], silence_s: float) -> None:
        """Connect, subscribe, and hand on what comes until it is stopped."""
        self._connect()
        self.authenticate()
        self.subscribe_to_markets(**request)
        opened = self._socket
        if opened is not None:
            opened.settimeout(silence_s)
        self._read_loop()

    def stop(self) -> None:
        """End the connection; two threads may do so at once."""
        self._running = False
        opened, self._socket = self._socket, None
        if opened is None:
            return
        with contextlib.suppress(OSError):  # it is over already
            opened.shutdown(socket.SHUT_RDWR)
        opened.close()

    def _create_socket(self) -> ssl.SSLSocket:
        host, port, cafile = self._address
        context = ssl.create_default_context(cafile=cafile)
        plain = socket.create_connection((host, port), self.timeout)
        try:
            check_peer(plain, host)
            return context.wrap_socket(plain, server_hostname=host)
        except (OSError, ValueError, FeedError):
            plain.close()
            raise

    def _receive_all(self) -> str:
        """Return the next line with its end."""
        while not self._whole:
            opened = self._socket
            if opened is None or self._given_up.is_set():
                raise ConnectionLostError("it was given up")
            try:
                part = opened.recv(self.buffer_size)
            except TimeoutError as error:
                raise ConnectionLostError("nothing came, not even heartbeats", GapCause.SILENCE) from error
            except OSError as error:
                raise ConnectionLostError(f"the connection broke off: {error}") from error
            if not part:
                raise ConnectionLostError("the provider closed the connection")
            *whole, self._part = (self._part + part).split(_CRLF)
            self._whole += whole
            if len(self._part) > _MAX_BYTES or any(len(line) > _MAX_BYTES for line in whole):
                raise ConnectionLostError(f"a line has more than {_MAX_BYTES:,} bytes", GapCause.OVERSIZE)
        return (self._whole.popleft() + _CRLF).decode("utf-8", "surrogateescape")

    def _send(self, message: Mapping[str, object]) -> None:
        opened = self._socket
        if opened is not None:
            opened.sendall(orjson.dumps(message) + _CRLF)


class StreamConnection:
    """A subscription, as a context: it is made when the context is entered and given up when it is left.

    Parameters
    ----------
    session
        Returns the token of a session; called in the connection's own thread.
    app_key
        The application's key.
    address
        Where the stream is.
    request
        Arguments of betfairlightweight's ``subscribe_to_markets``.
    connect_s, silence_s
        How long to wait for a connection, or for an answer; and for any line later on.
    """

    def __init__(
        self,
        session: Callable[[], str],
        app_key: str,
        address: StreamAddress,
        request: Mapping[str, object],
        connect_s: float,
        silence_s: float,
    ) -> None:
        self._session, self._app_key, self._address, self._request = session, app_key, address, request
        self._connect_s, self._silence_s = connect_s, silence_s
        self._queue: queue.Queue[StreamLine | Exception] = queue.Queue(_QUEUED)
        self._closed = threading.Event()
        self._stream: _LineStream | None = None
        self._thread = threading.Thread(target=self._run, name="betfair-stream", daemon=True)

    def __enter__(self) -> StreamConnection:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._closed.set()
        if self._stream is not None:
            self._stream.stop()
        self._thread.join(0.5)

    def line(self, wait_s: float) -> StreamLine | None:
        """Return the next line; null if none came so soon.

        Raises
        ------
        ConnectionLostError
            The connection ended, and all of its lines were taken.
        FeedError
            It can't be had, however often it is tried.
        """
        try:
            found = self._queue.get(timeout=wait_s)
        except queue.Empty:
            return None
        if isinstance(found, Exception):
            raise found
        return found

    def _run(self) -> None:
        stream = None
        try:
            token = self._session()
            stream = _LineStream(_Lines(self._put), self._app_key, token, self._address, self._connect_s, self._closed)
            self._stream = stream
            if not self._closed.is_set():
                stream.run(self._request, self._silence_s)
        except ssl.SSLCertVerificationError as error:
            host, port, _ = self._address
            why = error.verify_message
            self._put(FeedError(f"{host}:{port} shows a certificate that can't be trusted ({why}): see CLVLAB_BETFAIR_CAFILE"))
        except OSError as error:
            self._put(ConnectionLostError(f"no connection: {error}"))
        except Exception as error:  # noqa: BLE001 - the end of a thread: whoever takes the lines raises it
            self._put(error)
        finally:
            if stream is not None:
                stream.stop()

    def _put(self, item: StreamLine | Exception) -> None:
        while not self._closed.is_set():
            try:
                return self._queue.put(item, timeout=0.2)
            except queue.Full:
                continue
        return None
