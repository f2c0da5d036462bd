"""TxLINE: server-sent events that can be resumed, and blocks of messages that the stream can't replay.

After a cut the stream is requested with ``Last-Event-ID``, and sends the missed messages. Its first event is ``reset`` if it no
longer holds them. Then, or if there was no mark yet, the blocks of the missed time are read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from time import sleep

import httpx2
import orjson

from clvlab.errors import FeedError
from clvlab.law.schema import SAFE_INTEGER
from clvlab.packs.manifest import Fixture
from clvlab.sources.capture.connection import (
    Line,
    RefusedAnswer,
    base_url,
    client_of,
    error_text,
    is_passing,
    items_until,
    provenance_at,
    refusal,
    secret,
)
from clvlab.sources.capture.feed import Cut, FeedMessage, GapCause, Health, Item, Resumption, Stop, now_ms
from clvlab.sources.capture.peer import Retry, backoff_s
from clvlab.sources.txline.messages import About, about, fixture_of

# TxLINE's other answers, next to its stream: odds in blocks of five minutes, which fill gaps, and fixtures.


BLOCK_MS = 300_000
MOST_BLOCKS = 288
_TRIES = 3
_SPACE = " \t\r\n"


def elements(array: str) -> Iterator[str]:
    """Return the elements of a JSON array, each as written.

    Raises
    ------
    ValueError
        The text is not an array.

    Examples
    --------
    >>> list(elements('[{"a": 1.50} , 2]'))
    ['{"a": 1.50}', '2']
    """
    decoder, text = json.JSONDecoder(), array.strip(_SPACE)
    if not text.startswith("["):
        raise ValueError("no JSON array")
    at = _next(text, 1)
    while not text.startswith("]", at):
        try:
            _, end = decoder.raw_decode(text, at)
        except RecursionError as error:
            raise ValueError("a JSON array is nested too deep") from error
        yield text[at:end]
        at = _next(text, end)
        if text.startswith(",", at):
            at = _next(text, at + 1)
        elif not text.startswith("]", at):
            raise ValueError("a JSON array breaks off")


def _next(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


@dataclass(frozen=True, slots=True)
class History:
    """A provider's blocks, at a ``path`` with ``{day}`` (of the epoch), ``{hour}`` and ``{block}`` (of the hour, from 0)."""

    client: httpx2.Client
    path: str

    def texts(self, since_ms: int, until_ms: int) -> Generator[list[bytes] | None, None, None]:
        """Return the messages block by block; ``None`` for a block without an answer, or too far back."""
        first, last = since_ms // BLOCK_MS, until_ms // BLOCK_MS
        if last - first >= MOST_BLOCKS:
            yield None
            first = last - MOST_BLOCKS + 1
        for number in range(first, last + 1):
            yield self._block(number)

    def _block(self, number: int) -> list[bytes] | None:
        path = self.path.format(day=number // 288, hour=number // 12 % 24, block=number % 12)
        for attempt in range(_TRIES):
            if attempt:
                sleep(backoff_s(attempt, first_s=0.2, most_s=2.0))
            try:
                response = self.client.get(path)
                if response.status_code == httpx2.codes.OK:
                    return [text.encode() for text in elements(response.content.decode())]
            except (httpx2.HTTPError, ValueError):  # no answer; the caller reports it for the whole gap
                continue
            if not is_passing(response.status_code):
                break
        return None


# Position of a listener of TxLINE's stream: the messages due after a cut, those seen, and the time that may be missing.


SLACK_MS = 60_000  # messages arrive out of the order of their times by up to this
_MOST_IDS = 500_000
_MOST_MARK = 200


def mark_of(event_id: str) -> str | None:
    """Return the id of an event if it is valid in a header, else ``None``."""
    sound = 0 < len(event_id) <= _MOST_MARK and event_id.isascii() and event_id.isprintable() and " " not in event_id
    return event_id if sound else None


@dataclass
class Ids:
    """The newest ids; older ones are forgotten."""

    _ids: dict[str, None] = field(default_factory=dict)

    def add(self, message_id: str | None) -> None:
        if message_id is not None:
            self._ids[message_id] = None
            if len(self._ids) > _MOST_IDS:
                del self._ids[next(iter(self._ids))]

    def take(self, message_id: str | None) -> bool:
        """Remove an id; return whether it was known."""
        known = message_id is not None and message_id in self._ids
        if known:
            del self._ids[message_id or ""]
        return known

    def __contains__(self, message_id: object) -> bool:
        return message_id in self._ids

    def __bool__(self) -> bool:
        return bool(self._ids)


@dataclass
class HistoryPosition:
    """State of a feed.

    Attributes
    ----------
    wanted
        Fixtures; all if empty.
    mark
        Mark of the last event that had one.
    owed
        Whether a ``Resumption`` is due.
    sound_ms
        Time of the last message up to which all messages arrived.
    is_vague
        Whether that time is unknown: the listener's first mark is later than all times.
    doubtful_ms
        ``sound_ms`` from before the stream seemed to continue at the mark, until a message confirms it.
    behind_ms
        Time of a message up to which missed messages are still being sent.
    filled
        Ids of messages from a block that the stream may still send.
    """

    wanted: frozenset[int]
    mark: str | None
    owed: bool
    sound_ms: int = 0
    data_ms: int = 0
    started: bool = False
    is_vague: bool = False
    behind_ms: int | None = None
    doubtful_ms: int | None = None
    seen: Ids = field(default_factory=Ids)
    filled: Ids = field(default_factory=Ids)

    @property
    def marked_ms(self) -> int | None:
        time = (self.mark or "").partition(":")[0]
        return int(time) if time.isdecimal() and len(time) <= len(str(SAFE_INTEGER)) and int(time) <= SAFE_INTEGER else None

    def begin(self, now_ms: int) -> None:
        if not self.started:
            marked_ms = self.marked_ms if self.owed else None
            self.started, self.sound_ms = True, now_ms if marked_ms is None else min(marked_ms, now_ms)
            self.is_vague = marked_ms is not None and marked_ms > now_ms + SLACK_MS
        self.data_ms = now_ms

    def resume(self, now_ms: int, skew_ms: int, *, at_mark: bool) -> None:
        """Record that messages arrive again: at the mark, unless a ``reset`` follows."""
        self.owed, self.behind_ms = False, now_ms + skew_ms
        self.doubtful_ms = self.sound_ms if at_mark else None

    def lose(self) -> None:
        """Record a ``reset`` after heartbeats: the missed messages did not come."""
        self.sound_ms = self.sound_ms if self.doubtful_ms is None else self.doubtful_ms

    def catch_up(self, now_ms: int) -> None:
        self.behind_ms, self.sound_ms, self.is_vague = None, now_ms, False

    def missed_time(self, now_ms: int, skew_ms: int) -> tuple[int, int, bool]:
        """Return start and end of the missed time by the provider's clock, and whether they are known.

        One message with a false time must not shorten the missed time. A mark therefore counts only if it is not later than the
        last message, and a slow clock counts only as far as messages are late.
        """
        late_ms = max(skew_ms, -SLACK_MS)
        until_ms = now_ms + late_ms
        marked_ms = self.marked_ms
        since_ms = self.sound_ms + skew_ms if marked_ms is None else min(marked_ms, self.sound_ms + late_ms)
        return since_ms - (SLACK_MS if self.seen else 0), max(since_ms, until_ms), not self.is_vague


# Server-sent events, from bytes as they come.
#
# References
# ----------
# WHATWG, "HTML", 9.2.6 "Interpreting an event stream". ``retry`` is left out: feeds have a back-off of their own.


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """An event: its type (``message`` by default), its data verbatim, and the last id so far (empty without one)."""

    kind: str
    data: bytes
    mark: str


@dataclass
class EventStream:
    """Turns bytes into events; a truncated one does not count, nor does its ``id``."""

    _rest: bytes = b""
    _after_cr: bool = False
    _started: bool = False
    _kind: bytes = b""
    _data: list[bytes] = field(default_factory=list)
    _size: int = 0
    _mark: str = ""

    def take(self, chunk: bytes) -> Iterator[ServerEvent]:
        r"""Return the events that end with these bytes.

        Raises
        ------
        ValueError
            A line or an event does not end.

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
            event = self._line(line if self._started else line.removeprefix(_BYTE_ORDER_MARK))
            self._started = True
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
PROOF_PATH = "/api/odds/validation"
_RENEWALS = 3
_NO_PROOF_YET = (404, 409, 425)


class _Silent(Exception):  # noqa: N818 - no error: the feed connects again
    pass


class TxLineFeed:
    """The odds stream of TxLINE; ``FeedSettings`` describes most parameters.

    Parameters
    ----------
    jwt
        Session token, or a function that returns a new one; it is called at the start and after each refusal.
    proofs
        Whose messages' proofs are kept: of ``none``, of ``scored`` entries and closes of live runs, or of ``all`` of a capture.
    url, stream_path, block_path, fixtures_path, proof_path
        Provider's addresses. Without a path of fixtures, the current block gives the fixtures, without names and kickoffs.
    patience_s, data_patience_s
        Longest time without a byte, and without a message, before the feed connects again.
    timeout_s
        Longest wait for a connection or an answer.
    first_wait_s, most_wait_s
        Bounds of the waits between two tries.

    Raises
    ------
    FeedError
        A setting is not valid.
    """

    name = "txline"

    def __init__(
        self,
        *,
        jwt: str | Callable[[], str],
        api_token: str,
        proofs: str = "none",
        url: str = URL,
        stream_path: str = STREAM_PATH,
        block_path: str = BLOCK_PATH,
        fixtures_path: str = FIXTURES_PATH,
        proof_path: str = PROOF_PATH,
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
        self.proofs = proofs
        self._stream_path, self._block_path, self._fixtures_path = stream_path, block_path, fixtures_path
        self._proof_path = proof_path
        self._patience_s, self._data_patience_s, self._timeout_s = patience_s, data_patience_s, timeout_s
        self._waits = (first_wait_s, most_wait_s)
        self.provenance = provenance_at(self.name, self._url)
        self.health = Health()

    def fixtures(self) -> Sequence[Fixture]:
        at_ms = now_ms()
        path = self._fixtures_path or self._block_path.format(
            day=at_ms // 86_400_000, hour=at_ms // 3_600_000 % 24, block=at_ms // 300_000 % 12
        )
        with self._client() as client:
            try:
                response = self._get(client, path)
                self._check(response)
                found = {fixture.fixture_id: fixture for fixture in map(fixture_of, elements(response.content.decode()))}
            except (httpx2.HTTPError, RefusedAnswer, ValueError, KeyError, TypeError) as error:
                raise FeedError(
                    f"TxLINE can't be asked for fixtures, see CLVLAB_TXLINE_URL and _JWT: {error_text(error)}"
                ) from None
        return sorted(found.values(), key=lambda one: (one.kickoff_ts_ms or 0, one.fixture_id))

    def _get(self, client: httpx2.Client, path: str, params: dict[str, str | int] | None = None) -> httpx2.Response:
        """Return an answer, asked again with a new token if the first is refused."""
        response = client.get(path, params=params)
        if response.status_code == httpx2.codes.UNAUTHORIZED and callable(self._jwt):
            self._token = None
            response = client.get(path, params=params)
        return response

    @contextmanager
    def proving(self) -> Iterator[Callable[[str, int], bytes | None]]:
        """Give a function that asks for the proof of a message by id and time; it returns ``None`` before it is published.

        Proofs exist once their batch of five minutes is published. The function raises ``FeedError`` if it gets no answer.
        """
        with self._client() as client:

            def ask(message_id: str, ts_ms: int) -> bytes | None:
                for attempt in range(_TRIES):
                    if attempt:
                        sleep(backoff_s(attempt, first_s=0.2, most_s=2.0))
                    try:
                        response = self._get(client, self._proof_path, {"messageId": message_id, "ts": ts_ms})
                        if response.status_code in _NO_PROOF_YET:
                            return None
                        self._check(response)
                        return orjson.dumps(orjson.loads(response.content))
                    except (httpx2.HTTPError, RefusedAnswer, ValueError) as error:
                        wrong = error_text(error)
                raise FeedError(f"TxLINE gives no proof of message {message_id!r}: {wrong}")

            yield ask

    def listen(self, stop: Stop, fixture_ids: Sequence[int] = (), after: str | None = None) -> Iterator[Item]:
        place = HistoryPosition(frozenset(fixture_ids), mark_of(after or ""), owed=after is not None)
        retry, renewals = Retry(self.health, *self._waits), 0
        with self._client() as client, self._off():
            while not stop.is_set:
                cause, at_least, wrong = GapCause.CUT, 0.0, "the stream ended"
                try:
                    yield from self._listen_once(client, place, stop)
                except (_Silent, httpx2.ReadTimeout) as error:
                    cause, wrong = GapCause.SILENCE, f"nothing came for too long ({type(error).__name__})"
                except RefusedAnswer as error:
                    cause = GapCause.QUOTA if error.status == httpx2.codes.TOO_MANY_REQUESTS else cause
                    at_least, wrong = error.retry_after_s, error_text(error)
                    if error.status == httpx2.codes.UNAUTHORIZED:
                        self._token, renewals = None, renewals + 1
                        if renewals > _RENEWALS or not callable(self._jwt):
                            raise FeedError("TxLINE refuses the token of the session: renew CLVLAB_TXLINE_JWT") from None
                except (httpx2.UnsupportedProtocol, httpx2.LocalProtocolError) as error:
                    raise FeedError(f"TxLINE can't be asked, see CLVLAB_TXLINE_URL: {type(error).__name__}") from None
                except (httpx2.HTTPError, ValueError) as error:
                    wrong = error_text(error)
                if stop.is_set:
                    break
                if not self.health.retries:  # data came
                    retry.reset()
                    renewals = min(renewals, 1)
                retry.note_failure(wrong)
                self.health.owed_since_ms = None
                if place.started and not place.owed:
                    place.owed = True
                    yield Cut(cause, place.sound_ms, resumable=True)
                retry.wait(stop, at_least)

    @contextmanager
    def _off(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.health.connected = False

    def _listen_once(self, client: httpx2.Client, place: HistoryPosition, stop: Stop) -> Generator[Item, None, None]:
        line = Line()
        with closing(items_until(self._events(client, place, line), stop, line.hang_up)) as events:
            for n, (event, at_ms) in enumerate(events):
                self.health.connected, self.health.heard_ts_ms = True, at_ms
                if n == 0:
                    place.begin(at_ms)
                if place.owed:
                    yield from self._resume(client, place, stop, at_ms, is_reset=event.kind == "reset")
                elif event.kind == "reset" and place.mark is not None:
                    place.lose()
                    raise httpx2.RemoteProtocolError("the server lost its place")
                mark = mark_of(event.mark)
                place.mark = mark or place.mark
                if event.kind not in ("heartbeat", "reset"):
                    yield from self._message(place, FeedMessage(event.data, at_ms, mark=mark))
                elif event.kind == "heartbeat":
                    self.health.retries, self.health.error = 0, None
                    if place.behind_ms is not None:
                        self._catch_up(place, at_ms)
                if at_ms - place.data_ms > self._data_patience_s * 1000:
                    raise _Silent("heartbeats alone")

    def _message(self, place: HistoryPosition, message: FeedMessage) -> Iterator[FeedMessage]:
        place.data_ms, place.doubtful_ms = message.received_ts_ms, None
        own = about(message.text)
        if place.filled.take(own.message_id):
            return  # a block had it already
        if place.behind_ms is None or (own.ts_ms or 0) >= place.behind_ms:
            self._catch_up(place, message.received_ts_ms)
        if place.wanted and own.fixture_id is not None and own.fixture_id not in place.wanted:
            return
        place.seen.add(own.message_id)
        message = FeedMessage(message.text, message.received_ts_ms, own.ts_ms, message.mark)
        self.health.note(message)
        yield message

    def _catch_up(self, place: HistoryPosition, at_ms: int) -> None:
        place.catch_up(at_ms)
        self.health.owed_since_ms = None

    def _resume(
        self, client: httpx2.Client, place: HistoryPosition, stop: Stop, at_ms: int, *, is_reset: bool
    ) -> Iterator[FeedMessage | Resumption]:
        """Return a ``Resumption`` and the missed messages that the stream will not send."""
        missed: list[tuple[bytes, About]] = []
        whole = True
        if is_reset or place.mark is None:
            missed, whole = self._backlog(client, place, stop)
            if stop.is_set:
                return
        self.health.owed_since_ms = place.sound_ms
        place.resume(at_ms, self._skew_ms, at_mark=not is_reset and place.mark is not None)
        yield Resumption(at_ms, replayed=whole)
        for text, own in missed:
            place.seen.add(own.message_id)
            place.filled.add(own.message_id)
            message = FeedMessage(text, now_ms(), own.ts_ms)
            self.health.note(message)
            yield message

    def _backlog(self, client: httpx2.Client, place: HistoryPosition, stop: Stop) -> tuple[list[tuple[bytes, About]], bool]:
        """Return the messages of the missed time by time, and whether every block answered."""
        since_ms, until_ms, whole = place.missed_time(now_ms(), self._skew_ms)
        missed: list[tuple[bytes, About]] = []
        with closing(items_until(History(client, self._block_path).texts(since_ms, until_ms), stop)) as blocks:
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
        """Return the events of a connection with their arrivals."""
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if place.mark is not None:
            headers["Last-Event-ID"] = place.mark
        params = {"fixtureId": next(iter(place.wanted))} if len(place.wanted) == 1 else None
        patience = httpx2.Timeout(self._timeout_s, read=self._patience_s)
        with client.stream("GET", self._stream_path, headers=headers, params=params, timeout=patience) as response:
            self._check(response, place.wanted, started=place.started)
            line.response = response
            stream = EventStream()
            for chunk in response.iter_bytes():
                at_ms = now_ms()
                for event in stream.take(chunk):
                    yield event, at_ms

    def _check(self, response: httpx2.Response, wanted: Collection[int] = (), *, started: bool = False) -> None:
        """Refuse an error; after a path has worked once, a later failure may pass."""
        status = response.status_code
        if status == httpx2.codes.OK:
            return
        if status == httpx2.codes.FORBIDDEN:
            what = f"fixture {', '.join(map(str, sorted(wanted)))}" if wanted else "what was asked for"
            raise FeedError(f"the bundle of CLVLAB_TXLINE_API_TOKEN lacks {what}")
        if started or status == httpx2.codes.UNAUTHORIZED or is_passing(status):
            raise refusal(response)
        raise FeedError(f"TxLINE answered {status}: see CLVLAB_TXLINE_URL")

    def _client(self) -> httpx2.Client:
        return client_of(self._url, base_url=self._url, timeout=self._timeout_s, auth=self._sign)

    def _sign(self, request: httpx2.Request) -> httpx2.Request:
        if self._token is None:
            self._token = secret(self._jwt() if callable(self._jwt) else self._jwt, "CLVLAB_TXLINE_JWT")
        request.headers |= {"Authorization": f"Bearer {self._token}", "X-Api-Token": self._api_token}
        return request
