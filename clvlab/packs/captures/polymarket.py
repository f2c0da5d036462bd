"""Reads what Polymarket sends: full books of assets and changes of their levels, after gamma said which asset is what.

Nothing numbers the messages, so time decides between two that speak of the same level: of a level the later word holds, of
equally late ones the last that came. A full book that is older than the last change of its asset is stale and leaves nothing,
for it lacks that change; the asset stays as it was, unknown after a cut, until a newer book comes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from clvlab.packs.captures.normalising import Source
from clvlab.packs.captures.polymarket_markets import Event, events_of, is_description
from clvlab.packs.captures.reader import State
from clvlab.packs.captures.shares import WHOLE, Quote, ShareMarket, millionths, number
from clvlab.packs.importers.times import LAST_MS
from clvlab.packs.manifest import Fixture

_Level = tuple[bool, int]  # whether it is bid, and at what price


@dataclass(frozen=True, slots=True)
class _Change:
    """What a message says of an asset: all of its levels, some of them, or that its market is over."""

    asset: str
    ts_ms: int
    kind: str
    levels: Mapping[_Level, bool] = field(default_factory=dict)


@dataclass(slots=True)
class _Book:
    """The levels of an asset with the time of each; those that were emptied too, so that nothing older fills them again."""

    market: ShareMarket
    side: str
    is_known: bool = False
    since_ms: int = 0
    last_ms: int = 0
    _levels: dict[_Level, tuple[bool, int]] = field(default_factory=dict)

    def take(self, change: _Change) -> None:
        if change.kind == "over":
            self.forget()
        elif change.kind == "book" and change.ts_ms >= self.last_ms:
            self.is_known, self.since_ms = True, change.ts_ms
            self._levels = {level: (full, change.ts_ms) for level, full in change.levels.items()}
        elif change.kind == "changes" and self.is_known and change.ts_ms >= self.since_ms:
            for level, full in change.levels.items():
                if change.ts_ms >= self._levels.get(level, (False, 0))[1]:
                    self._levels[level] = full, change.ts_ms
        self.last_ms = max(self.last_ms, change.ts_ms)

    def forget(self) -> None:
        self.is_known = False
        self._levels.clear()

    def quote(self) -> Quote | None:
        if not self.is_known:
            return None
        full = [level for level, (is_full, _) in self._levels.items() if is_full]
        bids, asks = [price for is_bid, price in full if is_bid], [price for is_bid, price in full if not is_bid]
        return Quote(max(bids, default=0), min(asks, default=WHOLE))


class PolymarketReader:
    """Reads the messages of ``/ws/market``, and the answers of gamma among them.

    A market's sides are those of the first answer that names it; later ones move its kickoff. ``in_running`` is what gamma
    last said of the event.

    Attributes
    ----------
    fixtures
        Events by their number.
    """

    def __init__(self) -> None:
        self._fixtures: dict[int, Fixture] = {}
        self.fixtures: Mapping[int, Fixture] = self._fixtures
        self._books: dict[str, _Book] = {}
        self._markets: dict[tuple[int, str], ShareMarket] = {}
        self._in_play: set[int] = set()

    @property
    def assets(self) -> dict[str, int]:
        """The fixture of every asset that was described."""
        return {asset: book.market.fixture_id for asset, book in self._books.items()}

    def take(self, text: bytes, received_ts_ms: int) -> Sequence[State]:  # noqa: ARG002  # Polymarket always names a time
        """Return the states of markets that a message moves."""
        message = orjson.loads(text)
        if is_description(message):
            for event in events_of(message):
                self._describe(event)
            return ()
        changes = [change for part in (message if isinstance(message, list) else [message]) for change in _changes(part)]
        touched: dict[tuple[int, str], ShareMarket] = {}
        for change in changes:
            book = self._books.get(change.asset)
            if book is not None:
                book.take(change)
                book.market.quote(book.side, book.quote(), change.ts_ms)
                touched[book.market.fixture_id, book.market.market_key] = book.market
        states = [market.moved(in_running=market.fixture_id in self._in_play) for market in touched.values()]
        return [state for state in states if state is not None]

    def forget(self, markets: Collection[str]) -> Collection[tuple[int, str]]:
        """Hold the books of these assets for unknown until their next full ones, and their markets for suspended."""
        forgotten = set()
        for asset in markets or self._books:
            book = self._books.get(asset)
            if book is not None and book.is_known:
                book.forget()
                book.market.quote(book.side, None, 0)
                book.market.forget()
                forgotten.add((book.market.fixture_id, book.market.market_key))
        return forgotten

    def _describe(self, event: Event) -> None:
        fixture_id = event.fixture.fixture_id
        self._fixtures[fixture_id] = event.fixture
        (self._in_play.add if event.in_play else self._in_play.discard)(fixture_id)
        for key, assets in event.markets.items():
            if (fixture_id, key) not in self._markets:
                market = self._markets[fixture_id, key] = ShareMarket(fixture_id, key, tuple(assets))
                self._books |= {asset: _Book(market, side) for side, asset in assets.items()}


def _changes(part: Any) -> Iterator[_Change]:
    try:
        kind = part["event_type"]
        if kind == "book":
            levels = {
                (is_bid, millionths(level["price"])): number(level["size"]) > 0
                for is_bid, name in ((True, "bids"), (False, "asks"))
                for level in part[name]
            }
            yield _Change(str(part["asset_id"]), _time(part), "book", levels)
        elif kind == "price_change":
            for change in part["price_changes"]:
                level = _is_bid(change["side"]), millionths(change["price"])
                yield _Change(str(change["asset_id"]), _time(part), "changes", {level: number(change["size"]) > 0})
        elif kind == "market_resolved":
            for asset in part["assets_ids"]:
                yield _Change(str(asset), _time(part), "over")
    except (KeyError, TypeError) as error:
        raise ValueError(f"no message of the market channel: {type(error).__name__}: {error}") from error


def _is_bid(side: str) -> bool:
    if side not in ("BUY", "SELL"):
        raise ValueError(f"a side is BUY or SELL, not {side!r}")
    return side == "BUY"


def _time(part: Mapping[str, Any]) -> int:
    found = number(part["timestamp"])
    if not 0 <= found <= LAST_MS:
        raise ValueError(f"timestamp {found} is no time in milliseconds")
    return int(found)


SOURCE = Source(
    feed="polymarket",
    new_reader=lambda _live: PolymarketReader(),
    margin="multiplicative",
    consensus="single-venue",
    closing_source="venue",
)
