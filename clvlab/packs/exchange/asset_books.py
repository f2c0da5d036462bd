"""Books of Polymarket's assets: full ones, and changes of their levels, whichever way they came.

Nothing numbers the messages, so time decides between two that speak of the same level: of a level the later word holds, of
equally late ones the last that came. A full book that is older than the last change of its asset is stale and leaves nothing,
for it lacks that change; the asset stays as it was, unknown after a cut, until a newer book comes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from clvlab.packs.exchange.shares import WHOLE, Quote, ShareMarket
from clvlab.packs.exchange.state import State

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
    """The levels of an asset with the time of each; those that were emptied too, so that nothing older fills them again.

    Attributes
    ----------
    sides
        What the asset is a share of, and whether that side wins where the asset loses.
    """

    market: ShareMarket
    sides: tuple[tuple[str, bool], ...]
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

    def quote(self, ts_ms: int) -> None:
        """Tell the market of every side that the asset is."""
        best = self._best()
        for side, opposite in self.sides:
            self.market.quote(side, best.opposite if best is not None and opposite else best, ts_ms)

    def _best(self) -> Quote | None:
        if not self.is_known:
            return None
        full = [level for level, (is_full, _) in self._levels.items() if is_full]
        bids, asks = [price for is_bid, price in full if is_bid], [price for is_bid, price in full if not is_bid]
        return Quote(max(bids, default=0), min(asks, default=WHOLE))


class AssetBooks:
    """Books of the assets that were named, and the markets whose sides they are.

    Parameters
    ----------
    again_after_ms
        After how long a market that did not move is told of again; never if null.

    Attributes
    ----------
    markets
        Side -> asset, of each market by its fixture and key.
    """

    def __init__(self, again_after_ms: int | None = None) -> None:
        self._again_after_ms = again_after_ms
        self._books: dict[str, _Book] = {}
        self._markets: dict[tuple[int, str], Mapping[str, str]] = {}
        self.markets: Mapping[tuple[int, str], Mapping[str, str]] = self._markets

    @property
    def assets(self) -> dict[str, int]:
        """The fixture of every asset."""
        return {asset: book.market.fixture_id for asset, book in self._books.items()}

    def name(
        self, fixture_id: int, market_key: str, assets: Mapping[str, str], opposite: Collection[str] = frozenset()
    ) -> None:
        """Say which asset is which side of a market, and which sides are the opposite of theirs.

        Of a market that was named before nothing changes.
        """
        if (fixture_id, market_key) not in self._markets:
            self._markets[fixture_id, market_key] = assets
            market = ShareMarket(fixture_id, market_key, tuple(assets))
            for asset in dict.fromkeys(assets.values()):
                sides = tuple((side, side in opposite) for side, own in assets.items() if own == asset)
                self._books[asset] = _Book(market, sides)

    def is_known(self, asset: str) -> bool:
        """Whether changes of an asset can be applied: a full book of it came, and nothing is missing since."""
        return asset in self._books and self._books[asset].is_known

    def is_stale(self, change: Change) -> bool:
        """Whether it is older than the full book that it changes, or a full book older than a change of its asset."""
        book = self._books.get(change.asset)
        return book is not None and change.ts_ms < (book.last_ms if change.kind == "book" else book.since_ms)

    def take(self, changes: Iterable[Change], in_running: Callable[[int], bool]) -> list[State]:
        """Return the states of markets that changes leave behind; ``in_running`` tells it of a fixture."""
        touched: dict[tuple[int, str], ShareMarket] = {}
        for change in changes:
            book = self._books.get(change.asset)
            if book is not None:
                book.take(change)
                book.quote(change.ts_ms)
                touched[book.market.fixture_id, book.market.market_key] = book.market
        states = [
            market.moved(in_running=in_running(market.fixture_id), after_ms=self._again_after_ms) for market in touched.values()
        ]
        return [state for state in states if state is not None]

    def forget(self, assets: Collection[str]) -> set[tuple[int, str]]:
        """Hold the books of these assets, of all if none is named, for unknown, and return the markets that were known."""
        return {(market.fixture_id, market.market_key) for market in self._forget(assets, 0)}

    def suspend(self, assets: Collection[str], ts_ms: int) -> list[State]:
        """Forget them as of a time, and return the suspended states of the markets that were known."""
        markets = {(market.fixture_id, market.market_key): market for market in self._forget(assets, ts_ms)}
        unpriced = {key: (None,) * len(market.sides) for key, market in markets.items()}
        return [
            State(*key, market.ts_ms, in_running=False, sides=market.sides, prob_bps=unpriced[key], odds_milli=unpriced[key])
            for key, market in sorted(markets.items())
        ]

    def _forget(self, assets: Collection[str], ts_ms: int) -> Iterator[ShareMarket]:
        for asset in assets or self._books:
            book = self._books.get(asset)
            if book is not None and book.is_known:
                book.forget()
                book.quote(ts_ms)
                book.market.forget()
                yield book.market
