"""TxLINE: server-sent events that resume where they broke off, and blocks of what they can't replay.

After a cut the stream is asked for with ``Last-Event-ID``, and sends what was missed. If it says by a first event ``reset``
that it does not hold that any more, or if there was no mark yet, the blocks of the missed time are read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

import httpx2

from clvlab.errors import FeedError
from clvlab.feeds.background import Line, attended
from clvlab.feeds.backoff import Retry
from clvlab.feeds.feed import Cut, GapCause, Health, Item, Received, Resumed, Stop, now_ms
from clvlab.feeds.retrying import RefusedAnswer, base_url, client_of, is_passing, provenance_at, refusal, said, secret
from clvlab.feeds.txline_history import About, History, HistoryPosition, about, elements, fixture_of, mark_of
from clvlab.packs.manifest import Fixture

# Server-sent events, from bytes as they come.
#
# References
# ----------
# WHATWG, "HTML", 9.2.6 "Interpreting an event stream". ``retry`` is left out: feeds have a back-off of their own.


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """An event.

    Attributes
    ----------
    kind
        Its ``event``, ``message`` by default.
    data
        Its ``data``, verbatim.
    mark
        The last ``id`` so far; empty without any.
    """

    kind: str
    data: bytes
    mark: str


@dataclass
class EventStream:
    """Takes bytes and returns events; one that breaks off, with the ``id`` it began with, is none."""

    _rest: bytes = b""
    _after_cr: bool = False
    _begun: bool = False
    _kind: bytes = b""
    _data: list[bytes] = field(default_factory=list)
    _size: int = 0
    _mark: str = ""

    def take(self, chunk: bytes) -> Iterator[ServerEvent]:
        r"""Return the events that end with some more bytes.

        Raises
        ------
        ValueError
            A line, or an event, without an end.

        Examples
        --------
        >>> list(EventStream().take(b"id: 1:0\ndata: {}\n\ndata: never"))
        [ServerEvent(kind='message', data=b'{}', mark='1:0')]
        """
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        lines = (self._rest + chunk).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            event = self._line(line if self._begun else line.removeprefix(_BYTE_ORDER_MARK))
            self._begun = True
            if event is not None:
                yield event
        if self._size + len(self._rest) > _MOST_BYTES:
            raise ValueError(f"an event has more than {_MOST_BYTES:,} bytes")

    def _line(self, line: bytes) -> ServerEvent | None:
        if not line:
            kind, data = self._kind, self._data
            self._kind, self._data, self._size = b"", [], 0
            return ServerEvent(kind.decode(errors="replace") or "message", b"\n".join(data), self._mark) if any(data) else None
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
        elif name == b"event":
            self._kind = value
        elif name == b"id" and b"\0" not in value:
            self._mark = value.decode(errors="replace")
        return None


URL = "https://txline.txodds.com"
STREAM_PATH = "/api/odds/stream"
BLOCK_PATH = "/api/odds/updates/{day}/{hour}/{block}"
FIXTURES_PATH = "/api/fixtures/snapshot"
_RENEWALS = 3


class _Silent(Exception):  # noqa: N818 - no error: the feed connects again
    pass


class TxLineFeed:
    """The odds stream of TxLINE.

    Parameters
    ----------
    jwt
        Token of the session, or what returns a new one: called at first, and whenever it was refused.
    api_token
        Of the bundle that was subscribed to.
    url, stream_path, block_path, fixtures_path
        Where the provider is; without a path of fixtures they are those of the current block, without names and kickoffs.
    patience_s, data_patience_s
        How long no byte, and how long no message, may come before the feed connects again.
    timeout_s
        How long a connection or an answer may take.
    first_wait_s, most_wait_s
        Bounds of the waits between two tries.

    Raises
    ------
    FeedError
        A setting that can't be used.
    """

    name = "txline"

    def __init__(
        self,
        *,
        jwt: str | Callable[[], str],
        api_token: str,
        url: str = URL,
        stream_path: str = STREAM_PATH,
        block_path: str = BLOCK_PATH,
        fixtures_path: str = FIXTURES_PATH,
        patience_s: float = 45.0,
        data_patience_s: float = 900.0,
        timeout_s: float = 10.0,
        first_wait_s: float = 0.5,
        most_wait_s: float = 30.0,
    ) -> None:
        self._url = base_url(url, "CLVLAB_TXLINE_URL")
        self._jwt = jwt if callable(jwt) else secret(jwt, "CLVLAB_TXLINE_JWT")
        self._token: str | None = None
        self._api_token = secret(api_token, "CLVLAB_TXLINE_API_TOKEN")
        self._stream_path, self._block_path, self._fixtures_path = stream_path, block_path, fixtures_path
        self._patience_s, self._data_patience_s, self._timeout_s = patience_s, data_patience_s, timeout_s
        self._waits = (first_wait_s, most_wait_s)
        self.provenance = provenance_at(self.name, self._url)
        self.health = Health()

    def fixtures(self) -> Sequence[Fixture]:
        """Return the fixtures of the bundle, by kickoff."""
        at_ms = now_ms()
        path = self._fixtures_path or self._block_path.format(
            day=at_ms // 86_400_000, hour=at_ms // 3_600_000 % 24, block=at_ms // 300_000 % 12
        )
        with self._client() as client:
            try:
                response = client.get(path)
                if response.status_code == httpx2.codes.UNAUTHORIZED and callable(self._jwt):
                    self._token = None
                    response = client.get(path)
                self._check(response)
                found = {fixture.fixture_id: fixture for fixture in map(fixture_of, elements(response.content.decode()))}
            except (httpx2.HTTPError, RefusedAnswer, ValueError, KeyError, TypeError) as error:
                raise FeedError(f"TxLINE can't be asked for fixtures, see CLVLAB_TXLINE_URL and _JWT: {said(error)}") from None
        return sorted(found.values(), key=lambda one: (one.kickoff_ts_ms or 0, one.fixture_id))

    def listen(self, stop: Stop, fixture_ids: Sequence[int] = (), after: str | None = None) -> Iterator[Item]:
        """Return messages as they come; see ``Feed``."""
        place = HistoryPosition(frozenset(fixture_ids), mark_of(after or ""), owed=after is not None)
        retry, renewals = Retry(self.health, *self._waits), 0
        with self._client() as client, self._off():
            while not stop.is_set:
                cause, at_least, wrong = GapCause.CUT, 0.0, "the stream ended"
                try:
                    yield from self._connected(client, place, stop)
                except (_Silent, httpx2.ReadTimeout) as error:
                    cause, wrong = GapCause.SILENCE, f"nothing came for too long ({type(error).__name__})"
                except RefusedAnswer as error:
                    cause = GapCause.QUOTA if error.status == httpx2.codes.TOO_MANY_REQUESTS else cause
                    at_least, wrong = error.retry_after_s, said(error)
                    if error.status == httpx2.codes.UNAUTHORIZED:
                        self._token, renewals = None, renewals + 1
                        if renewals > _RENEWALS or not callable(self._jwt):
                            raise FeedError("TxLINE refuses the token of the session: renew CLVLAB_TXLINE_JWT") from None
                except (httpx2.UnsupportedProtocol, httpx2.LocalProtocolError) as error:
                    raise FeedError(f"TxLINE can't be asked, see CLVLAB_TXLINE_URL: {type(error).__name__}") from None
                except (httpx2.HTTPError, ValueError) as error:
                    wrong = said(error)
                if stop.is_set:
                    break
                if not self.health.retries:  # something came
                    retry.succeeded()
                    renewals = min(renewals, 1)
                retry.failed(wrong)
                self.health.owed_since_ms = None
                if place.begun and not place.owed:
                    place.owed = True
                    yield Cut(cause, place.sound_ms, resumable=True)
                retry.wait(stop, at_least)

    @contextmanager
    def _off(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.health.connected = False

    def _connected(self, client: httpx2.Client, place: HistoryPosition, stop: Stop) -> Generator[Item, None, None]:
        """Return what one connection brings."""
        line = Line()
        with closing(attended(self._events(client, place, line), stop, line.hang_up)) as events:
            for n, (event, at_ms) in enumerate(events):
                self.health.connected, self.health.heard_ts_ms = True, at_ms
                if n == 0:
                    place.begin(at_ms)
                if place.owed:
                    yield from self._resumed(client, place, stop, at_ms, is_reset=event.kind == "reset")
                elif event.kind == "reset" and place.mark is not None:
                    place.lost()
                    raise httpx2.RemoteProtocolError("the server lost its place")
                mark = mark_of(event.mark)
                place.mark = mark or place.mark
                if event.kind not in ("heartbeat", "reset"):
                    yield from self._message(place, Received(event.data, at_ms, mark=mark))
                elif event.kind == "heartbeat":
                    self.health.retries, self.health.error = 0, None
                    if place.behind_ms is not None:
                        self._caught_up(place, at_ms)
                if at_ms - place.data_ms > self._data_patience_s * 1000:
                    raise _Silent("heartbeats alone")

    def _message(self, place: HistoryPosition, message: Received) -> Iterator[Received]:
        place.data_ms, place.doubtful_ms = message.received_ts_ms, None
        own = about(message.text)
        if place.filled.take(own.message_id):
            return  # a block had it already
        if place.behind_ms is None or (own.ts_ms or 0) >= place.behind_ms:
            self._caught_up(place, message.received_ts_ms)
        if place.wanted and own.fixture_id is not None and own.fixture_id not in place.wanted:
            return
        place.seen.add(own.message_id)
        message = Received(message.text, message.received_ts_ms, own.ts_ms, message.mark)
        self.health.note(message)
        yield message

    def _caught_up(self, place: HistoryPosition, at_ms: int) -> None:
        place.caught_up(at_ms)
        self.health.owed_since_ms = None

    def _resumed(
        self, client: httpx2.Client, place: HistoryPosition, stop: Stop, at_ms: int, *, is_reset: bool
    ) -> Iterator[Received | Resumed]:
        """Return that messages come again, and those of the missed time that the stream will not send."""
        missed: list[tuple[bytes, About]] = []
        whole = True
        if is_reset or place.mark is None:
            missed, whole = self._missed(client, place, stop)
            if stop.is_set:
                return
        self.health.owed_since_ms = place.sound_ms
        place.resumed(at_ms, self._skew_ms, at_mark=not is_reset and place.mark is not None)
        yield Resumed(at_ms, replayed=whole)
        for text, own in missed:
            place.seen.add(own.message_id)
            place.filled.add(own.message_id)
            message = Received(text, now_ms(), own.ts_ms)
            self.health.note(message)
            yield message

    def _missed(self, client: httpx2.Client, place: HistoryPosition, stop: Stop) -> tuple[list[tuple[bytes, About]], bool]:
        """Return the messages of the missed time by their times, and whether every block answered."""
        since_ms, until_ms, whole = place.missed(now_ms(), self._skew_ms)
        missed: list[tuple[bytes, About]] = []
        with closing(attended(History(client, self._block_path).texts(since_ms, until_ms), stop)) as blocks:
            for texts in blocks:
                whole = whole and texts is not None
                missed += [(text, about(text)) for text in texts or ()]
        missed = [
            (text, own)
            for text, own in missed
            if own.message_id not in place.seen
            and (own.ts_ms is None or own.ts_ms >= since_ms)
            and (not place.wanted or own.fixture_id is None or own.fixture_id in place.wanted)
        ]
        return sorted(missed, key=lambda one: one[1].ts_ms or 0), whole

    @property
    def _skew_ms(self) -> int:
        return self.health.clock_skew_ms or 0

    def _events(
        self, client: httpx2.Client, place: HistoryPosition, line: Line
    ) -> Generator[tuple[ServerEvent, int], None, None]:
        """Return the events of a connection, and when each came."""
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if place.mark is not None:
            headers["Last-Event-ID"] = place.mark
        params = {"fixtureId": next(iter(place.wanted))} if len(place.wanted) == 1 else None
        patience = httpx2.Timeout(self._timeout_s, read=self._patience_s)
        with client.stream("GET", self._stream_path, headers=headers, params=params, timeout=patience) as response:
            self._check(response, place.wanted, begun=place.begun)
            line.response = response
            stream = EventStream()
            for chunk in response.iter_bytes():
                at_ms = now_ms()
                for event in stream.take(chunk):
                    yield event, at_ms

    def _check(self, response: httpx2.Response, wanted: Collection[int] = (), *, begun: bool = False) -> None:
        """Refuse what is no answer; a path that was right once may be so again."""
        status = response.status_code
        if status == httpx2.codes.OK:
            return
        if status == httpx2.codes.FORBIDDEN:
            what = f"fixture {', '.join(map(str, sorted(wanted)))}" if wanted else "what was asked for"
            raise FeedError(f"the bundle of CLVLAB_TXLINE_API_TOKEN lacks {what}")
        if begun or status == httpx2.codes.UNAUTHORIZED or is_passing(status):
            raise refusal(response)
        raise FeedError(f"TxLINE answered {status}: see CLVLAB_TXLINE_URL")

    def _client(self) -> httpx2.Client:
        return client_of(self._url, base_url=self._url, timeout=self._timeout_s, auth=self._signed)

    def _signed(self, request: httpx2.Request) -> httpx2.Request:
        if self._token is None:
            self._token = secret(self._jwt() if callable(self._jwt) else self._jwt, "CLVLAB_TXLINE_JWT")
        request.headers |= {"Authorization": f"Bearer {self._token}", "X-Api-Token": self._api_token}
        return request
