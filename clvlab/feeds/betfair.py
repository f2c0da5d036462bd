"""Betfair's Exchange Stream: every market change message of a subscription, as it comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from clvlab.errors import FeedError, MissingLibraryError
from clvlab.feeds.backoff import Retry
from clvlab.feeds.betfair_stream import ConnectionLostError, StreamLine, StreamPosition, place_of, read_message
from clvlab.feeds.feed import Cut, GapCause, Health, Item, Received, Resumed, Stop
from clvlab.feeds.hosts import is_local, provenance_of
from clvlab.packs.captures.betfair import BetfairReader
from clvlab.packs.importers.betfair_book import StreamMessage
from clvlab.packs.manifest import Fixture

if TYPE_CHECKING:
    from clvlab.feeds.betfair_stream import StreamConnection

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
    """Betfair's markets, by its stream; built on betfairlightweight.

    Parameters
    ----------
    app_key
        The application's key.
    username, password
        Of the account, to log in with before every connection.
    session_token
        Token of a session, or what returns one before every connection; in place of a login.
    market_ids, event_ids, market_filter
        What to subscribe to: ``marketIds``, ``eventIds`` and other fields of a market filter as Betfair documents it.
    conflate_ms
        How long changes of a market may be gathered; 0 sends each.
    heartbeat_ms
        500 to 5000: how often to hear at least; when two are missed the connection counts as dead.
    data_patience_s
        After so long of heartbeats alone, the feed connects again.
    backoff_s
        The first and the longest wait between tries; each is shortened by chance, by half at most.
    host, port, cafile, login_url
        Where the stream is, whose certificates count (the system's if null), and where to log in.

    Raises
    ------
    FeedError
        A setting that is out of range, or neither an account nor a session.
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
        """Return the events, and races, of the markets that the filter takes in now, by the start as announced."""
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
        """Return messages as they come; see ``Feed``. Marks are the two clocks of a subscription, as JSON."""
        place, retry = place_of(after), Retry(self.health, *self._backoff_s)
        try:
            wanted = self._wanted(fixture_ids)
            while not stop.is_set:
                try:
                    yield from self._heard(stop, place, wanted)
                except ConnectionLostError as lost:
                    if not self.health.retries:
                        retry.succeeded()
                    retry.failed(str(lost))
                    if place.began and not place.missing:
                        place.missing = True
                        yield Cut(lost.cause, place.data_ms, resumable=place.resumable)
                    retry.wait(stop)
        except FeedError as error:
            self.health.error = str(error)
            raise
        finally:
            self.health.connected = False

    def _heard(self, stop: Stop, place: StreamPosition, wanted: Mapping[str, object]) -> Iterator[Item]:
        """Return what comes over one connection."""
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
        try:
            from clvlab.feeds.betfair_stream import StreamAddress, StreamConnection
        except ModuleNotFoundError as error:
            raise MissingLibraryError(error.name or "betfairlightweight", "Betfair's stream") from error
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
        from clvlab.feeds.betfair_stream import session_of

        return session_of(self._username or "", self._password or "", self._app_key, self._login_url)

    def _wanted(self, fixture_ids: Sequence[int]) -> Mapping[str, object]:
        """Return the filter, narrowed to the events of fixtures: of a meeting, all races."""
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
        """Return what a line says to whoever listens: nothing, messages, or that messages come again."""
        self.health.heard_ts_ms = line.at_ms
        message = read_message(line.text)
        operation = message.get("op")
        if operation == "status":
            self._check_status(message, place)
            return
        if operation == "connection":
            return
        if operation != "mcm":
            yield Received(line.text, line.at_ms)
            if not message:
                # What it held is lost: have it sent again, before a delta is applied without it.
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
                yield Resumed(line.at_ms, replayed=kind == "RESUB_DELTA")
            place.began, place.partial = True, segment in ("SEG_START", "SEG")
        # A heartbeat's clock goes beyond what is still to come of an answer.
        has_clock = not place.missing and not place.partial and place.take(message)
        if message.get("mc"):
            yield self._received(line, message, place.mark if has_clock else None, place)
        elif time.monotonic() - place.data_s > self._data_patience_s:
            raise ConnectionLostError("heartbeats alone came, for longer than data_patience_s", GapCause.SILENCE)

    def _received(self, line: StreamLine, message: StreamMessage, mark: str | None, place: StreamPosition) -> Received:
        sent = message.get("pt")
        received = Received(line.text, line.at_ms, sent if type(sent) is int else None, mark)
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
        """Have the reader take a line, and tell whether the image is whole."""
        message = {} if line is None else read_message(line.text)
        if line is None or message.get("op") != "mcm":
            self._check_status(message, StreamPosition())
            return False
        if message.get("mc"):
            reader.take(line.text, line.at_ms)
        return message.get("ct") == "SUB_IMAGE" and message.get("segmentType") in (None, "SEG_END")
