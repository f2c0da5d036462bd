"""Betfair's Exchange Stream: every market change message of a subscription, on arrival."""

from __future__ import annotations

import contextlib
import queue
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import orjson

from clvlab.errors import FeedError, MissingLibraryError
from clvlab.packs.files import MAX_LINE_BYTES
from clvlab.packs.manifest import Fixture
from clvlab.sources.betfair.messages import BetfairReader, StreamMessage
from clvlab.sources.capture.feed import Cut, FeedMessage, GapCause, Health, Item, Resumption, Stop, now_ms
from clvlab.sources.capture.peer import Retry, check_peer, is_local, provenance_of

try:
    import betfairlightweight
    from betfairlightweight.exceptions import BetfairError, LoginError, StatusCodeError
    from betfairlightweight.streaming import BaseListener, BetfairStream
except ModuleNotFoundError as error:
    raise MissingLibraryError(error.name or "betfairlightweight", "Betfair's stream") from error

# One connection to Betfair's stream, in a thread of its own. Its lines go to a bounded queue, which makes the sender wait.


# Position of a subscription to Betfair's stream, the clocks to resume it, and its loss.


class ConnectionLostError(Exception):
    """A connection that failed or ended; trying again may help. The text holds no secret."""

    def __init__(self, message: str, cause: GapCause = GapCause.CUT) -> None:
        super().__init__(message)
        self.cause = cause


class StreamLine(NamedTuple):
    """A line without its ending, and its arrival time."""

    text: bytes
    at_ms: int


@dataclass
class StreamPosition:
    """State of a feed's subscription.

    Attributes
    ----------
    initial_clk, clk
        Clocks to resume with; ``None`` without one.
    missing
        Whether messages are being missed.
    began
        Whether any market data has arrived.
    partial
        Whether further segments of a message are due.
    data_ms, data_s
        Time of the last message, by this machine's clock and by a monotonic one.
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
        self.initial_clk = self.clk = None

    def take(self, message: StreamMessage) -> bool:
        """Take the clocks of a message, and return whether the feed can be resumed right after it."""
        initial_clk, clk = message.get("initialClk"), message.get("clk")
        if isinstance(initial_clk, str):
            self.initial_clk = initial_clk
        if isinstance(clk, str):
            self.clk = clk
        return isinstance(clk, str) and self.resumable


def place_of(mark: str | None) -> StreamPosition:
    if mark is None:
        return StreamPosition()
    place = StreamPosition(missing=True)
    if not place.take(read_message(mark.encode())):
        raise FeedError(f"{mark[:80]!r} is no mark of Betfair's stream: listen without after")
    return place


def read_message(text: bytes) -> StreamMessage:
    """Return a message; an empty one if it is not a JSON object, which the capture's reader refuses and counts."""
    try:
        message: StreamMessage = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return message if isinstance(message, dict) else {}


_MAX_BYTES = MAX_LINE_BYTES - (1 << 12)  # longest line that fits into a line of a capture, with its mark
_CRLF = b"\r\n"
_QUEUED = 10_000
_TRY_LATER = {"TEMPORARY_BAN_TOO_MANY_REQUESTS", "INTERNAL_ERROR", "SERVICE_UNAVAILABLE", "LIMITED_ACCESS"}


class StreamAddress(NamedTuple):
    """Address of the stream and its trusted certificates; ``None`` for the system's."""

    host: str
    port: int
    cafile: str | Path | None


def session_of(username: str, password: str, app_key: str, login_url: str) -> str:
    """Log in, and return the session token.

    Raises
    ------
    FeedError
        Betfair refuses the credentials.
    ConnectionLostError
        Betfair can't be reached now.
    """
    client = betfairlightweight.APIClient(username, password, app_key=app_key)
    client.identity_uri = login_url
    try:
        client.login_interactive()
    except LoginError as error:
        code = str(error.response.get("error") or error.response.get("status"))[:80]
        if code in _TRY_LATER:
            raise ConnectionLostError(f"the login is refused for now: {code}", GapCause.QUOTA) from None
        raise FeedError(f"Betfair refuses the login ({code}): check CLVLAB_BETFAIR_USERNAME, _PASSWORD and _APP_KEY") from None
    except StatusCodeError as error:
        raise ConnectionLostError(f"the login is answered with status {error.status_code}") from None
    except BetfairError as error:  # its text and its causes may hold the sent credentials
        raise ConnectionLostError(f"the login can't be reached: {type(error).__name__}") from None
    return str(client.session_token)


class _Lines(BaseListener):  # type: ignore[misc]
    """Passes lines on unread, in place of the library's own reader."""

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
    """The library's stream with any address, checked certificates, raw lines, and no key in its log."""

    def __init__(
        self, lines: _Lines, app_key: str, token: str, address: StreamAddress, connect_s: float, abandoned: threading.Event
    ) -> None:
        super().__init__(0, lines, app_key, token, connect_s, 1 << 16, None)
        self._socket: ssl.SSLSocket | None = None
        self._address = address
        self._abandoned = abandoned
        self._whole: deque[bytes] = deque()
        self._part = b""

    def run(self, request: Mapping[str, object], silence_s: float) -> None:
        """Connect, subscribe, and pass lines on until stopped."""
        self._connect()
        self.authenticate()
        self.subscribe_to_markets(**request)
        opened = self._socket
        if opened is not None:
            opened.settimeout(silence_s)
        self._read_loop()

    def stop(self) -> None:
        """End the connection; safe from two threads at once."""
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
        while not self._whole:
            opened = self._socket
            if opened is None or self._abandoned.is_set():
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
    """A subscription, made on entering the context and ended on leaving it.

    Parameters
    ----------
    session
        Returns a session token; called in the connection's thread.
    app_key
        Application key.
    address
        Address of the stream.
    request
        Arguments of betfairlightweight's ``subscribe_to_markets``.
    connect_s, silence_s
        Longest wait for a connection or an answer, and later for any line.
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
        """Return the next line, or ``None`` if none arrived in time.

        Raises
        ------
        ConnectionLostError
            The connection ended, and all of its lines were taken.
        FeedError
            Trying again can't help.
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
        except Exception as error:  # noqa: BLE001 - the thread ends; ``line`` raises the error
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


HOST, PORT = "stream-api.betfair.com", 443
LOGIN_URL = "https://identitysso.betfair.com/api/"
_OFFERS = ("EX_MARKET_DEF", "EX_ALL_OFFERS", "EX_LTP")
_LOOK_S = 0.2
_IMAGE_S = 15.0
_ACCOUNT = "CLVLAB_BETFAIR_SESSION_TOKEN, or _USERNAME and _PASSWORD"
_WHAT = "CLVLAB_BETFAIR_MARKET_IDS, _EVENT_IDS and market_filter"
_HOPELESS = {
    "NO_APP_KEY": "CLVLAB_BETFAIR_APP_KEY",
    "INVALID_APP_KEY": "CLVLAB_BETFAIR_APP_KEY",
    "NOT_AUTHORIZED": "CLVLAB_BETFAIR_APP_KEY, which lacks access to the stream",
    "NO_SESSION": _ACCOUNT,
    "INVALID_SESSION_INFORMATION": _ACCOUNT,
    "SUBSCRIPTION_LIMIT_EXCEEDED": f"{_WHAT}: they take in too many markets",
    "INVALID_INPUT": f"{_WHAT}, conflate_ms and heartbeat_ms",
    "INVALID_REQUEST": f"{_WHAT}, conflate_ms and heartbeat_ms",
}
_CROWDED = {"TOO_MANY_REQUESTS", "MAX_CONNECTION_LIMIT_EXCEEDED"}


class BetfairFeed:
    """Betfair's markets from its stream, by betfairlightweight; ``FeedSettings`` describes most parameters.

    Parameters
    ----------
    session_token
        Session token, or a function that returns one before every connection, in place of a login.
    market_filter
        Further fields of Betfair's market filter.
    conflate_ms
        Longest time for which changes of a market are gathered; 0 sends each.
    heartbeat_ms
        Longest interval of heartbeats, 500 to 5000; a connection that misses two is dead.
    data_patience_s
        Seconds of heartbeats without data after which the feed connects again.
    backoff_s
        First and longest wait between tries; each wait is shortened at random by up to half.

    Raises
    ------
    FeedError
        A setting is out of range, or neither account nor session is set.
    """

    name = "betfair"

    def __init__(
        self,
        *,
        app_key: str,
        username: str | None = None,
        password: str | None = None,
        session_token: str | Callable[[], str] | None = None,
        market_ids: Sequence[str] = (),
        event_ids: Sequence[str] = (),
        market_filter: Mapping[str, Any] | None = None,
        conflate_ms: int = 0,
        heartbeat_ms: int = 5000,
        data_patience_s: float = 300.0,
        backoff_s: tuple[float, float] = (0.5, 60.0),
        host: str = HOST,
        port: int = PORT,
        cafile: str | Path | None = None,
        login_url: str = LOGIN_URL,
    ) -> None:
        if not 500 <= heartbeat_ms <= 5000:
            raise FeedError(f"heartbeat_ms must be 500 to 5000, not {heartbeat_ms}")
        if not 0 <= conflate_ms <= 120_000:
            raise FeedError(f"conflate_ms must be 0 to 120000, not {conflate_ms}")
        if session_token is None and not (username and password):
            raise FeedError(f"Betfair needs a session: set {_ACCOUNT}")
        login = urlsplit(login_url)
        if not login.hostname or (login.scheme != "https" and (login.scheme != "http" or not is_local(login.hostname))):
            raise FeedError(
                "CLVLAB_BETFAIR_LOGIN_URL must begin with https://, or http:// on this machine: a password is sent there"
            )
        self.health = Health()
        self.provenance = provenance_of(self.name, host)
        self._app_key, self._session = app_key, session_token
        self._username, self._password, self._login_url = username, password, login_url.rstrip("/") + "/"
        own = {"marketIds": list(market_ids), "eventIds": list(event_ids)}
        self._filter = dict(market_filter or {}) | {key: ids for key, ids in own.items() if ids}
        self._conflate_ms, self._heartbeat_ms, self._data_patience_s = conflate_ms, heartbeat_ms, data_patience_s
        self._backoff_s = backoff_s
        self._host, self._port, self._cafile = host, port, cafile
        self._fixtures: Mapping[int, Fixture] = {}

    def fixtures(self) -> Sequence[Fixture]:
        """Return the events, and races, that the filter now matches, by scheduled start."""
        reader, end_s = BetfairReader(live=True), time.monotonic() + _IMAGE_S
        try:
            with self._connection(StreamPosition(), self._filter, ("EX_MARKET_DEF",)) as lines:
                while not self._has_image(lines.line(_LOOK_S), reader):
                    if time.monotonic() > end_s:
                        raise FeedError(f"{self._where} sent no image in {_IMAGE_S:g} s: ask again, or for fewer markets")
        except (ConnectionLostError, ValueError) as error:
            raise FeedError(f"{self._where} can't be asked: {error}; check CLVLAB_BETFAIR_HOST, _PORT and _CAFILE") from error
        self._fixtures = reader.fixtures
        return sorted(reader.fixtures.values(), key=lambda fixture: (fixture.kickoff_ts_ms or 0, fixture.fixture_id))

    def listen(self, stop: Stop, fixture_ids: Sequence[int] = (), after: str | None = None) -> Iterator[Item]:
        """Return messages on arrival, see ``Feed``; marks are the subscription's two clocks as JSON."""
        place, retry = place_of(after), Retry(self.health, *self._backoff_s)
        try:
            wanted = self._market_filter(fixture_ids)
            while not stop.is_set:
                try:
                    yield from self._listen_once(stop, place, wanted)
                except ConnectionLostError as lost:
                    if not self.health.retries:
                        retry.reset()
                    retry.note_failure(str(lost))
                    if place.began and not place.missing:
                        place.missing = True
                        yield Cut(lost.cause, place.data_ms, resumable=place.resumable)
                    retry.wait(stop)
        except FeedError as error:
            self.health.error = str(error)
            raise
        finally:
            self.health.connected = False

    def _listen_once(self, stop: Stop, place: StreamPosition, wanted: Mapping[str, object]) -> Iterator[Item]:
        place.data_s = time.monotonic()
        with self._connection(place, wanted, _OFFERS) as lines:
            while not stop.is_set:
                line = lines.line(_LOOK_S)
                if line is not None:
                    yield from self._items(line, place)

    @property
    def _where(self) -> str:
        return f"Betfair's stream at {self._host}:{self._port}"

    def _connection(self, place: StreamPosition, wanted: Mapping[str, object], fields: Sequence[str]) -> StreamConnection:
        request = {
            "market_filter": dict(wanted),
            "market_data_filter": {"fields": list(fields)},
            "initial_clk": place.initial_clk if place.resumable else None,
            "clk": place.clk if place.resumable else None,
            "conflate_ms": self._conflate_ms,
            "heartbeat_ms": self._heartbeat_ms,
        }
        address = StreamAddress(self._host, self._port, self._cafile)
        return StreamConnection(self._token, self._app_key, address, request, 15.0, 2 * self._heartbeat_ms / 1000 + 0.5)

    def _token(self) -> str:
        if self._session is not None:
            return self._session if isinstance(self._session, str) else self._session()
        return session_of(self._username or "", self._password or "", self._app_key, self._login_url)

    def _market_filter(self, fixture_ids: Sequence[int]) -> Mapping[str, object]:
        """Return the filter, narrowed to the fixtures' events; a meeting keeps all its races."""
        if not fixture_ids:
            return self._filter
        if not set(fixture_ids) <= self._fixtures.keys():
            self.fixtures()
        unknown = sorted(set(fixture_ids) - self._fixtures.keys())
        if unknown:
            raise FeedError(f"no market of fixture {unknown[0]} is on: check {_WHAT}")
        events = {str(self._fixtures[fixture_id].source_id).partition("@")[0] for fixture_id in fixture_ids}
        return self._filter | {"eventIds": sorted(events)}

    def _items(self, line: StreamLine, place: StreamPosition) -> Iterator[Item]:
        self.health.heard_ts_ms = line.at_ms
        message = read_message(line.text)
        operation = message.get("op")
        if operation == "status":
            self._check_status(message, place)
            return
        if operation == "connection":
            return
        if operation != "mcm":
            yield FeedMessage(line.text, line.at_ms)
            if not message:
                # Its content is lost, so it must be sent again before a later delta is applied.
                raise ConnectionLostError("a message is no JSON object")
            return
        self.health.connected, self.health.retries, self.health.error = True, 0, None
        yield from self._change(line, message, place)
        if message.get("status"):
            self.health.error = f"Betfair says that its data is not reliable now: status {str(message['status'])[:20]}"

    def _change(self, line: StreamLine, message: StreamMessage, place: StreamPosition) -> Iterator[Item]:
        kind, segment = message.get("ct"), message.get("segmentType")
        if kind != "HEARTBEAT":
            if kind == "SUB_IMAGE" and segment in (None, "SEG_START"):
                place.forget()
            if place.missing:
                place.missing = False
                yield Resumption(line.at_ms, replayed=kind == "RESUB_DELTA")
            place.began, place.partial = True, segment in ("SEG_START", "SEG")
        # While parts of an answer are due, a heartbeat's clock is already later than they are.
        has_clock = not place.missing and not place.partial and place.take(message)
        if message.get("mc"):
            yield self._receive(line, message, place.mark if has_clock else None, place)
        elif time.monotonic() - place.data_s > self._data_patience_s:
            raise ConnectionLostError("heartbeats alone came, for longer than data_patience_s", GapCause.SILENCE)

    def _receive(self, line: StreamLine, message: StreamMessage, mark: str | None, place: StreamPosition) -> FeedMessage:
        sent = message.get("pt")
        received = FeedMessage(line.text, line.at_ms, sent if type(sent) is int else None, mark)
        place.data_ms, place.data_s = line.at_ms, time.monotonic()
        self.health.note(received)
        return received

    def _check_status(self, message: StreamMessage, place: StreamPosition) -> None:
        if message.get("statusCode") != "FAILURE":
            return
        code = str(message.get("errorCode"))[:80]
        if code in _HOPELESS:
            raise FeedError(f"{self._where} refuses with {code}: check {_HOPELESS[code]}")
        if code == "INVALID_CLOCK":
            place.forget()
        raise ConnectionLostError(f"refused with {code}", GapCause.QUOTA if code in _CROWDED else GapCause.CUT)

    def _has_image(self, line: StreamLine | None, reader: BetfairReader) -> bool:
        """Pass a line to the reader, and return whether the image is complete."""
        message = {} if line is None else read_message(line.text)
        if line is None or message.get("op") != "mcm":
            self._check_status(message, StreamPosition())
            return False
        if message.get("mc"):
            reader.take(line.text, line.at_ms)
        return message.get("ct") == "SUB_IMAGE" and message.get("segmentType") in (None, "SEG_END")
