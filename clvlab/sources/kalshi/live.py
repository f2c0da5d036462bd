"""Kalshi's order books: one subscription per event, and among the messages the answers of REST that describe the events."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import httpx2
import orjson
from websockets.sync.client import ClientConnection

from clvlab.base.times import time_ms
from clvlab.errors import FeedError, MissingLibraryError
from clvlab.packs.manifest import Fixture
from clvlab.sources.capture.connection import (
    PASSING,
    Cuts,
    LostError,
    Patience,
    Socket,
    base_url,
    client_of,
    provenance_at,
    refuse,
    secret,
    together,
    until_done,
)
from clvlab.sources.capture.feed import Cut, FeedMessage, GapCause, Health, Item, Resumption, Stop, now_ms
from clvlab.sources.kalshi.messages import KalshiMessage, KalshiReader, is_readable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey


# How requests to Kalshi are signed: RSA-PSS over time, method and path.


KEY, SIGNATURE, TIMESTAMP = "KALSHI-ACCESS-KEY", "KALSHI-ACCESS-SIGNATURE", "KALSHI-ACCESS-TIMESTAMP"


class RequestSigner:
    """Signs with the private key of an API key; its text does not show either key.

    Raises
    ------
    FeedError
        The file does not hold an RSA key in PEM without a password.
    """

    def __init__(self, key_id: str, private_key_file: Path) -> None:
        self._key_id = key_id
        self._private_key = _private_key(private_key_file)

    def headers(self, method: str, path: str, at_ms: int) -> dict[str, str]:
        from cryptography.hazmat.primitives.asymmetric import padding
        from cryptography.hazmat.primitives.hashes import SHA256

        pss = padding.PSS(padding.MGF1(SHA256()), padding.PSS.DIGEST_LENGTH)
        signature = self._private_key.sign(f"{at_ms}{method}{path}".encode(), pss, SHA256())
        return {KEY: self._key_id, SIGNATURE: base64.b64encode(signature).decode(), TIMESTAMP: str(at_ms)}


def is_signed(public_key: RSAPublicKey, signature: str, at_ms: str, method: str, path: str) -> bool:
    """Return whether a request was signed with this key's private key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import padding
    from cryptography.hazmat.primitives.hashes import SHA256

    pss = padding.PSS(padding.MGF1(SHA256()), padding.PSS.DIGEST_LENGTH)
    try:
        public_key.verify(base64.b64decode(signature, validate=True), f"{at_ms}{method}{path}".encode(), pss, SHA256())
    except (InvalidSignature, ValueError):
        return False
    return True


def _private_key(path: Path) -> RSAPrivateKey:
    try:
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ModuleNotFoundError as error:
        raise MissingLibraryError("cryptography", "signing for Kalshi") from error
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise FeedError(
            f"CLVLAB_KALSHI_PRIVATE_KEY_FILE {str(path)!r} can't be read as a PEM key: {type(error).__name__}"
        ) from error
    if not isinstance(key, RSAPrivateKey):
        raise FeedError(f"CLVLAB_KALSHI_PRIVATE_KEY_FILE {str(path)!r} holds no RSA key")
    return key


URL = "wss://api.elections.kalshi.com"
PATH = "/trade-api/ws/v2"
API_URL = "https://api.elections.kalshi.com/trade-api/v2"
_USELESS = (8, 9, 11, 16)  # unknown channel, no valid key, invalid parameter, unknown ticker
_SILENCE_S = 20.0  # two of Kalshi's heartbeats


@dataclass(slots=True)
class _Subscription:
    """Markets that share Kalshi's message numbers on one connection, by the paths that describe them, and the last number."""

    names: list[str] = field(default_factory=list)
    seq: int = 0
    last_ms: int = field(default_factory=now_ms)


class KalshiFeed:
    """Order books of the markets of some events, or of single tickers; ``FeedSettings`` describes the parameters.

    REST is asked first and after every cut. A hole in a subscription's numbers is a cut of its tickers, which are subscribed to
    again on the same connection. A ticker that is followed without its event is a market of yes and no.
    """

    name = "kalshi"

    def __init__(
        self,
        *,
        key_id: str,
        private_key_file: Path | str,
        event_tickers: Sequence[str] = (),
        tickers: Sequence[str] = (),
        url: str = URL,
        path: str = PATH,
        api_url: str = API_URL,
        patience: Patience | None = None,
    ) -> None:
        if not event_tickers and not tickers:
            raise FeedError("kalshi needs something to follow: set CLVLAB_KALSHI_EVENT_TICKERS or _TICKERS")
        self.health = Health()
        where = base_url(url, "CLVLAB_KALSHI_URL", "ws"), base_url(api_url, "CLVLAB_KALSHI_API_URL")
        self.provenance = provenance_at(self.name, *where)
        self._signer = RequestSigner(secret(key_id, "CLVLAB_KALSHI_KEY_ID"), Path(private_key_file))
        self._paths = [f"events/{name}" for name in event_tickers] + [f"markets/{name}" for name in tickers]
        self._url, self._path, self._api_url = url.rstrip("/"), path, api_url.rstrip("/")
        self._patience = patience or Patience(silence_s=_SILENCE_S)

    def fixtures(self) -> Sequence[Fixture]:
        """Return the events by kickoff, those without one last.

        Raises
        ------
        FeedError
            The request to REST fails, or REST does not know an event or ticker.
        """
        try:
            described = self._descriptions()
        except PASSING as error:
            raise FeedError(f"Kalshi can't be asked now ({error}): try again, or check CLVLAB_KALSHI_API_URL") from error
        found = {number: own for _, reader in described.values() for number, own in reader.fixtures.items()}
        return sorted(found.values(), key=lambda own: (own.kickoff_ts_ms is None, own.kickoff_ts_ms or 0, own.fixture_id))

    def listen(self, stop: Stop, fixture_ids: Sequence[int] = (), after: str | None = None) -> Iterator[Item]:
        """Return messages on arrival, REST's answers first on each connection; missed messages are not sent again."""
        yield from together(stop, [lambda ending: self._items(ending, fixture_ids, after)])

    def _items(self, stop: Stop, fixture_ids: Sequence[int], after: str | None) -> Iterator[Item]:
        if after is not None:
            yield Resumption(now_ms())
        described = until_done(self._patience.retry(self.health), stop, self._descriptions)
        if described is None:
            return
        known = {number for _, reader in described.values() for number in reader.fixtures}
        if unknown := sorted(set(fixture_ids) - known):
            raise FeedError(f"none of the events is fixture {unknown[0]}: add it to CLVLAB_KALSHI_EVENT_TICKERS")
        wanted = {
            path: [ticker for ticker, number in reader.tickers.items() if not fixture_ids or number in fixture_ids]
            for path, (_, reader) in described.items()
        }
        group = _Subscriptions(self, {path: tickers for path, tickers in wanted.items() if tickers}, self._patience.answer_s)
        socket = Socket(
            url=self._url + self._path,
            settings="CLVLAB_KALSHI_KEY_ID, _PRIVATE_KEY_FILE and _URL",
            health=self.health,
            patience=self._patience,
            begin=group.begin,
            read=group.read,
            provider_ms=lambda text: _provider_ms(orjson.loads(text)),
            headers=lambda: self._signer.headers("GET", self._path, now_ms()),
        )
        yield from socket.listen(stop)

    def answers(self, paths: Sequence[str]) -> list[FeedMessage]:
        """Return REST's answers to unsigned requests, as descriptions of markets are public."""
        with client_of(httpx2.URL(self._api_url), timeout=self._patience.answer_s) as client:
            return [self._answer(client, path) for path in paths]

    def _answer(self, client: httpx2.Client, path: str) -> FeedMessage:
        response = client.get(f"{self._api_url}/{path}", params={"with_nested_markets": "true"})
        if response.status_code != 200:
            refuse(response.status_code, response.headers, f"CLVLAB_KALSHI_EVENT_TICKERS, _TICKERS and _API_URL, for {path!r}")
        return FeedMessage(response.content, now_ms())

    def _descriptions(self) -> dict[str, tuple[FeedMessage, KalshiReader]]:
        described = {}
        for path, answer in zip(self._paths, self.answers(self._paths), strict=True):
            reader = KalshiReader()
            try:
                reader.take(answer.text, answer.received_ts_ms)
            except ValueError as error:
                raise LostError(GapCause.CUT, f"Kalshi's answer about {path!r} can't be read: {error}") from error
            described[path] = answer, reader
        return described


class _Subscriptions:
    """Subscriptions of the current connection, by the path that describes them."""

    def __init__(self, feed: KalshiFeed, tickers: dict[str, list[str]], answer_s: float) -> None:
        self._feed, self._tickers, self._answer_s = feed, tickers, answer_s
        self._commands = 0
        self._start()

    def _start(self) -> None:
        self._cuts = Cuts()
        self._subscribed: dict[int, _Subscription] = {}
        self._waiting: dict[int, tuple[str, float]] = {}  # number of a command -> its path, and the deadline of its answer

    def begin(self, socket: ClientConnection) -> list[Item]:
        self._start()
        answers: list[Item] = list(self._feed.answers(list(self._tickers)))
        for name in self._tickers:
            self._subscribe(socket, name)
        return answers

    def read(self, socket: ClientConnection, message: FeedMessage) -> Iterator[Item]:
        """Return a message, after a cut if it is the first one after a hole."""
        try:
            answer = orjson.loads(message.text)
            kind, sid, seq = answer["type"], answer.get("sid"), answer.get("seq")
        except (ValueError, LookupError, TypeError, AttributeError):
            yield message  # the reader refuses it, and the next number shows the hole
            return
        if kind in ("subscribed", "ok"):
            yield from self._start_subscription(answer)
        elif type(sid) is int and sid in self._subscribed and type(seq) is int and is_readable(answer):
            yield from self._count(socket, self._subscribed[sid], sid, seq, message)
        yield message
        if kind == "error":
            self._raise_error(answer)
        if any(monotonic() > until for _, until in self._waiting.values()):
            raise LostError(GapCause.SILENCE, "a subscription is not answered")

    def _subscribe(self, socket: ClientConnection, name: str) -> None:
        params = {"channels": ["orderbook_delta"], "market_tickers": self._tickers[name]}
        self._waiting[self._send(socket, "subscribe", params)] = name, monotonic() + self._answer_s

    def _send(self, socket: ClientConnection, command: str, params: Mapping[str, object]) -> int:
        self._commands += 1
        socket.send(orjson.dumps({"id": self._commands, "cmd": command, "params": params}).decode())
        return self._commands

    def _start_subscription(self, answer: KalshiMessage) -> Iterator[Item]:
        """Record a new subscription; Kalshi may add to an existing one instead."""
        number, body = answer.get("id"), answer.get("msg")
        sid = answer.get("sid", body.get("sid") if isinstance(body, dict) else None)
        if type(number) is int and number in self._waiting and type(sid) is int:
            name, _ = self._waiting.pop(number)
            self._subscribed.setdefault(sid, _Subscription()).names.append(name)
            if self._cuts.is_open(name):
                yield from self._cuts.pass_on(name, Resumption(now_ms()))

    def _count(
        self, socket: ClientConnection, subscription: _Subscription, sid: int, seq: int, message: FeedMessage
    ) -> Iterator[Item]:
        if seq <= subscription.seq + 1:
            subscription.seq, subscription.last_ms = max(seq, subscription.seq), message.received_ts_ms
            return
        del self._subscribed[sid]
        self._send(socket, "unsubscribe", {"sids": [sid]})
        for name in subscription.names:
            yield from self._cuts.pass_on(name, Cut(GapCause.SEQUENCE, subscription.last_ms, tuple(self._tickers[name])))
            self._subscribe(socket, name)

    def _raise_error(self, answer: KalshiMessage) -> None:
        body = answer.get("msg")
        code, text = (body.get("code"), body.get("msg")) if isinstance(body, dict) else (None, body)
        detail = f"Kalshi answers a command with error {code}: {text}"
        if code in _USELESS:
            raise FeedError(f"{detail}; check CLVLAB_KALSHI_EVENT_TICKERS, _TICKERS, _KEY_ID and _PRIVATE_KEY_FILE")
        raise LostError(GapCause.CUT, detail)


def _provider_ms(answer: KalshiMessage) -> int | None:
    found = answer["msg"].get("ts_ms", answer["msg"].get("ts"))
    return None if found is None else time_ms(found)
