"""Books of Polymarket's assets: full ones, and changes of their levels, whichever way they came.

Nothing numbers the messages, so time decides between two that speak of the same level: of a level the later word holds, of
equally late ones the last that came. A full book that is older than the last change of its asset is stale and leaves nothing,
for it lacks that change; the asset stays as it was, unknown after a cut, until a newer book comes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from clvlab.packs.captures.reader import State
from clvlab.packs.captures.shares import WHOLE, Quote, ShareMarket

Level = tuple[bool, int]  # whether it is bid, and at what price


@dataclass(frozen=True, slots=True)
class Change:
    """What a message says of an asset: all of its levels (``book``), some of them (``changes``), or that it is ``over``."""

    asset: str
    ts_ms: int
    kind: str
    levels: Mapping[Level, bool] = field(default_factory=dict)


@dataclass(slots=True)
class _Book:
    """The levels of an asset with the time of each; those that were emptied too, so that nothing older fills them again."""

    market: ShareMarket
    side: str
    is_known: bool = False
    since_ms: int = 0
    last_ms: int = 0
    _levels: dict[Level, tuple[bool, int]] = field(default_factory=dict)

    def take(self, change: Change) -> None:
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


class AssetBooks:
    """Books of the assets that were named, and the markets whose sides they are.

    Attributes
    ----------
    markets
        Side -> asset, of each market by its fixture and key.
    """

    def __init__(self) -> None:
        self._books: dict[str, _Book] = {}
        self._markets: dict[tuple[int, str], Mapping[str, str]] = {}
        self.markets: Mapping[tuple[int, str], Mapping[str, str]] = self._markets

    @property
    def assets(self) -> dict[str, int]:
        """The fixture of every asset."""
        return {asset: book.market.fixture_id for asset, book in self._books.items()}

    def name(self, fixture_id: int, market_key: str, assets: Mapping[str, str]) -> None:
        """Say which asset is which side of a market; of a market that was named before nothing changes."""
        if (fixture_id, market_key) not in self._markets:
            self._markets[fixture_id, market_key] = assets
            market = ShareMarket(fixture_id, market_key, tuple(assets))
            self._books |= {asset: _Book(market, side) for side, asset in assets.items()}

    def is_known(self, asset: str) -> bool:
        """Whether changes of an asset can be applied: a full book of it came, and nothing is missing since."""
        return asset in self._books and self._books[asset].is_known

    def take(self, changes: Iterable[Change], in_running: Callable[[int], bool]) -> list[State]:
        """Return the states of markets that changes leave behind; ``in_running`` tells it of a fixture."""
        touched: dict[tuple[int, str], ShareMarket] = {}
        for change in changes:
            book = self._books.get(change.asset)
            if book is not None:
                book.take(change)
                book.market.quote(book.side, book.quote(), change.ts_ms)
                touched[book.market.fixture_id, book.market.market_key] = book.market
        states = [market.moved(in_running=in_running(market.fixture_id)) for market in touched.values()]
        return [state for state in states if state is not None]

    def forget(self, assets: Collection[str]) -> set[tuple[int, str]]:
        """Hold the books of these assets, of all if none is named, for unknown, and return the markets that were known."""
        forgotten = set()
        for asset in assets or self._books:
            book = self._books.get(asset)
            if book is not None and book.is_known:
                book.forget()
                book.market.quote(book.side, None, 0)
                book.market.forget()
                forgotten.add((book.market.fixture_id, book.market.market_key))
        return forgotten
