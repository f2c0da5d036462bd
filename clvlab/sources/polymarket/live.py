"""Polymarket's market channel: books of shares, with gamma's answers about them among the messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import httpx2
import orjson
from websockets.sync.client import ClientConnection

from clvlab.errors import FeedError
from clvlab.packs.manifest import Fixture
from clvlab.sources.capture.connection import (
    PASSING,
    LostError,
    Patience,
    Socket,
    base_url,
    client_of,
    provenance_at,
    refuse,
    together,
    until_done,
)
from clvlab.sources.capture.feed import FeedMessage, GapCause, Health, Item, Resumption, Stop, now_ms
from clvlab.sources.polymarket.messages import PolymarketReader

URL = "wss://ws-subscriptions-clob.polymarket.com"
PATH = "/ws/market"
GAMMA_URL = "https://gamma-api.polymarket.com"


class PolymarketFeed:
    """Books of the shares of some events; ``FeedSettings`` describes most parameters.

    Gamma is asked first and after every cut, so that the capture itself assigns shares to sides. The provider does not number
    messages, so one that it leaves out can't be detected. An unreadable message ends the connection, as only full books make up
    for it. A connection has up to ``assets_per_connection`` shares and sends ``PING`` every ``heartbeat_s``.
    """

    name = "polymarket"

    def __init__(
        self,
        *,
        events: Sequence[str],
        url: str = URL,
        path: str = PATH,
        gamma_url: str = GAMMA_URL,
        assets_per_connection: int = 500,
        heartbeat_s: float = 10.0,
        patience: Patience | None = None,
    ) -> None:
        if not events:
            raise FeedError("polymarket needs events to follow: set CLVLAB_POLYMARKET_EVENTS to their slugs or numbers")
        self.health = Health()
        where = base_url(url, "CLVLAB_POLYMARKET_URL", "ws"), base_url(gamma_url, "CLVLAB_POLYMARKET_GAMMA_URL")
        self.provenance = provenance_at(self.name, *where)
        self._events = tuple(events)
        self._url, self._gamma_url = url.rstrip("/") + path, gamma_url.rstrip("/")
        self._per_connection, self._heartbeat_s = assets_per_connection, heartbeat_s
        self._patience = patience or Patience()

    def fixtures(self) -> Sequence[Fixture]:
        """Return the events by kickoff, those without one last.

        Raises
        ------
        FeedError
            The request to gamma fails, or gamma does not know an event.
        """
        try:
            readers = [reader for _, reader in self._descriptions(self._events).values()]
        except PASSING as error:
            raise FeedError(f"gamma can't be asked now ({error}): try again, or check CLVLAB_POLYMARKET_GAMMA_URL") from error
        found = [fixture for reader in readers for fixture in reader.fixtures.values()]
        return sorted(found, key=lambda own: (own.kickoff_ts_ms is None, own.kickoff_ts_ms or 0, own.fixture_id))

    def listen(self, stop: Stop, fixture_ids: Sequence[int] = (), after: str | None = None) -> Iterator[Item]:
        """Return messages on arrival, gamma's answers first on each connection; missed messages can't be had again."""
        yield from together(stop, [lambda ending: self._items(ending, fixture_ids, after)])

    def _items(self, stop: Stop, fixture_ids: Sequence[int], after: str | None) -> Iterator[Item]:
        if after is not None:
            yield Resumption(now_ms())
        described = until_done(self._patience.retry(self.health), stop, lambda: self._descriptions(self._events))
        if described is None:
            return
        known = {fixture_id for _, reader in described.values() for fixture_id in reader.fixtures}
        if unknown := sorted(set(fixture_ids) - known):
            raise FeedError(f"none of the events is fixture {unknown[0]}: add it to CLVLAB_POLYMARKET_EVENTS")
        event_of: dict[str, str] = {}
        for event, (_, reader) in described.items():
            assets = [asset for asset, number in reader.assets.items() if not fixture_ids or number in fixture_ids]
            event_of |= dict.fromkeys(assets, event)
        yield from self._connections(stop, event_of)

    def _connections(self, stop: Stop, event_of: Mapping[str, str]) -> Iterator[Item]:
        assets, most = list(event_of), self._per_connection
        if not assets:
            raise FeedError("nothing is traded on these events any more: set CLVLAB_POLYMARKET_EVENTS to others")
        parts = [assets[start : start + most] for start in range(0, len(assets), most)]
        sockets = [self._socket(part, sorted({event_of[asset] for asset in part}), whole=len(parts) == 1) for part in parts]
        yield from together(stop, [socket.listen for socket in sockets])

    def _socket(self, assets: Sequence[str], events: Sequence[str], *, whole: bool) -> Socket:
        return Socket(
            url=self._url,
            settings="CLVLAB_POLYMARKET_URL, and whether Polymarket serves this country",
            health=self.health,
            patience=self._patience,
            begin=lambda socket: self._begin(socket, assets, events),
            read=_read,
            provider_ms=_provider_ms,
            heartbeat=("PING", self._heartbeat_s),
            markets=() if whole else tuple(assets),
        )

    def _begin(self, socket: ClientConnection, assets: Sequence[str], events: Sequence[str]) -> list[Item]:
        answers: list[Item] = [answer for answer, _ in self._descriptions(events).values()]
        ask = {"assets_ids": list(assets), "type": "market", "custom_feature_enabled": True}
        socket.send(orjson.dumps(ask).decode())
        return answers

    def _descriptions(self, events: Sequence[str]) -> dict[str, tuple[FeedMessage, PolymarketReader]]:
        """Return gamma's answer about each event, with a reader that took it."""
        with client_of(httpx2.URL(self._gamma_url), timeout=self._patience.answer_s) as client:
            return {event: self._answer(client, event) for event in events}

    def _answer(self, client: httpx2.Client, event: str) -> tuple[FeedMessage, PolymarketReader]:
        by = "id" if event.isdecimal() else "slug"
        response = client.get(f"{self._gamma_url}/events", params={by: event})
        if response.status_code != 200:
            refuse(response.status_code, response.headers, "CLVLAB_POLYMARKET_GAMMA_URL and _EVENTS")
        if response.content.strip() == b"[]":
            raise FeedError(f"Polymarket has no event {event!r}: check CLVLAB_POLYMARKET_EVENTS")
        reader = PolymarketReader()
        try:
            reader.take(response.content, 0)
        except ValueError as error:
            raise LostError(GapCause.CUT, f"gamma's answer about {event!r} can't be read: {error}") from error
        return FeedMessage(response.content, now_ms()), reader


def _read(_socket: ClientConnection, message: FeedMessage) -> Iterable[Item]:
    yield message
    try:
        orjson.loads(message.text)
    except ValueError as error:
        raise LostError(GapCause.CUT, "a message can't be read, and only full books tell what it said") from error


def _provider_ms(text: bytes) -> int | None:
    answer = orjson.loads(text)
    return int((answer[0] if isinstance(answer, list) else answer)["timestamp"])
