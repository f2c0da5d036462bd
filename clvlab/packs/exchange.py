"""Markets of venues where shares are traded: their order books, and the market states computed from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from clvlab.law.markets import RESULT_1X2, compose_key
from clvlab.law.schema import ODDS_MILLI
from clvlab.odds.integers import half_up, largest_remainder


class State(NamedTuple):
    """The state of a market after a message.

    Attributes
    ----------
    fixture_id, market_key
        Fixture and key of the market.
    ts_ms
        Provider's time of the state, in UTC milliseconds.
    in_running
        Whether the fixture is in play.
    sides
        Names of the sides in byte order, the same in every state of the market.
    prob_bps, odds_milli
        Probability and decimal odds of each side; ``None`` where unpriced. Probabilities of a fully priced market sum to 10000.
    """

    fixture_id: int
    market_key: str
    ts_ms: int
    in_running: bool
    sides: tuple[str, ...]
    prob_bps: tuple[int | None, ...]
    odds_milli: tuple[int | None, ...]

    @property
    def suspended(self) -> bool:
        return all(prob is None for prob in self.prob_bps)


# Markets of shares that pay one if their side wins: the quotes of each side, and the market's state computed from them.


MARKET_KEY = compose_key(RESULT_1X2)
"""Of a match whose three sides are shares."""
WHOLE = 1_000_000
"""The price of a share that wins, in millionths."""
_WIDEST = 100_000
_LARGEST = 10**15
_BETWEEN = re.compile(r" (?:vs\.?|v\.?) ", re.IGNORECASE)


class Quote(NamedTuple):
    """Best bid and ask of a side, in millionths; a missing bid is 0, a missing ask ``WHOLE``."""

    bid: int
    ask: int

    @property
    def is_sound(self) -> bool:
        """Whether the midpoint is a price: the book is not crossed, and the spread is at most 0.10."""
        return 0 < self.ask - self.bid <= _WIDEST

    @property
    def opposite(self) -> Quote:
        """The quote of the opposite share of the same book."""
        return Quote(WHOLE - self.ask, WHOLE - self.bid)


@dataclass(slots=True)
class ShareMarket:
    """A market whose sides are shares, each with a book of its own; ``ts_ms`` is the time of the newest book.

    The market is priced while all sides have a sound quote: probabilities are the normalised midpoints, odds come from the best
    asks. Otherwise it is suspended, because the remaining midpoints do not sum to the whole. ``sides`` are in byte order.
    """

    fixture_id: int
    market_key: str
    sides: tuple[str, ...]
    ts_ms: int = 0
    _last_ms: int = 0
    _quotes: dict[str, Quote | None] = field(init=False)
    _prob_bps: tuple[int | None, ...] = field(init=False)
    _odds_milli: tuple[int | None, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._quotes = dict.fromkeys(self.sides)
        self._prob_bps = self._odds_milli = (None,) * len(self.sides)

    def quote(self, side: str, quote: Quote | None, ts_ms: int) -> None:
        """Record the quote of a side; ``None`` where its book is unknown."""
        self._quotes[side] = quote
        self.ts_ms = max(self.ts_ms, ts_ms)

    def moved(self, *, in_running: bool, after_ms: int | None = None) -> State | None:
        """Return the state of the market if it differs from the last returned one, or is ``after_ms`` later."""
        prices = self._prices()
        again = after_ms is not None and self.ts_ms - self._last_ms >= after_ms
        if prices == (self._prob_bps, self._odds_milli) and not again:
            return None
        (self._prob_bps, self._odds_milli), self._last_ms = prices, self.ts_ms
        return State(self.fixture_id, self.market_key, self.ts_ms, in_running, self.sides, *prices)

    def state(self, *, in_running: bool) -> State:
        return State(self.fixture_id, self.market_key, self.ts_ms, in_running, self.sides, *self._prices())

    def forget(self) -> None:
        """Treat the market as suspended, so that its next price counts as a move."""
        self._prob_bps = self._odds_milli = (None,) * len(self.sides)

    def _prices(self) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
        quotes = {side: quote for side, quote in self._quotes.items() if quote is not None and quote.is_sound}
        if len(quotes) < len(self.sides):
            return (None,) * len(self.sides), (None,) * len(self.sides)
        shares = largest_remainder({side: quote.bid + quote.ask for side, quote in quotes.items()})
        odds = tuple(odds_milli(Decimal(quotes[side].ask) / WHOLE) for side in self.sides)
        return tuple(shares[side] for side in self.sides), odds


def odds_milli(price: Decimal) -> int | None:
    """Return decimal odds x 1000 of a share's price; ``None`` for a price at which nothing can be won or bought."""
    if not 0 < price < 1:
        return None
    odds = half_up(1000 / price)
    return odds if ODDS_MILLI[0] <= odds <= ODDS_MILLI[1] else None


def millionths(price: object) -> int:
    """Return the price of a share, 0 to 1, in millionths.

    Examples
    --------
    >>> millionths("0.445"), millionths(1)
    (445000, 1000000)
    """
    exact = number(price)
    if not 0 <= exact <= 1 or (exact := exact * WHOLE) != int(exact):
        raise ValueError(f"{price!r:.80} is no price of a share")
    return int(exact)


def number(value: object) -> Decimal:
    """Return a number of sensible size from a text or a number; ``ValueError`` for any other value."""
    try:
        found = Decimal(str(value)) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
    except InvalidOperation:
        found = None
    if found is None or not found.is_finite() or not -_LARGEST <= found <= _LARGEST:
        raise ValueError(f"{value!r:.80} is no number")
    return found


def names_of(title: str) -> tuple[str, ...]:
    """Return the two sides of a match from its title, or the title alone.

    Examples
    --------
    >>> names_of("Cup: Paraguay vs. Australia - More Markets"), names_of("Who wins?")
    (('Paraguay', 'Australia'), ('Who wins?',))
    """
    parts = _BETWEEN.split(title)
    if len(parts) != 2:
        return (title,)
    return parts[0].rpartition(": ")[2].strip(), parts[1].partition(" - ")[0].strip()


def match_sides(names: Sequence[str], outcomes: Sequence[str]) -> tuple[str, ...] | None:
    """Return the outcomes of a match as ``part1``, ``draw`` and ``part2``; ``None`` if they are others.

    Examples
    --------
    >>> match_sides(("Paraguay", "Australia"), ("Australia", "Draw (Paraguay vs. Australia)", "Paraguay"))
    ('part2', 'draw', 'part1')
    """
    if len(names) != 2:
        return None
    known = {names[0]: "part1", names[1]: "part2"}
    sides = [known.get(outcome) or ("draw" if outcome.lower().startswith(("draw", "tie")) else "") for outcome in outcomes]
    return tuple(sides) if sorted(sides) in (["draw", "part1", "part2"], ["part1", "part2"]) else None


# Books of Polymarket's assets, from full books and changes of levels, in any order of arrival. Messages carry no numbers, so
# time decides between two that set the same level: the later one holds, and among equal times the last to arrive. A full book
# that is older than the last change of its asset lacks that change, so it is stale and ignored; after a cut the asset stays
# unknown until a newer book comes.


Level = tuple[bool, int]  # whether the level is a bid, and its price


@dataclass(frozen=True, slots=True)
class Change:
    """A message about an asset: all of its levels (``book``), some of them (``changes``), or its end (``over``)."""

    asset: str
    ts_ms: int
    kind: str
    levels: Mapping[Level, bool] = field(default_factory=dict)


@dataclass(slots=True)
class _Book:
    """The levels of an asset with the time of each; empty levels are kept, so that no older message fills them again.

    ``sides`` are the sides that the asset is a share of, each with whether that side wins where the asset loses.
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
    """Books of the named assets, and their markets.

    An unmoved market is returned again after ``again_after_ms``; never if ``None``. ``markets`` maps (fixture, key) to side ->
    asset.
    """

    def __init__(self, again_after_ms: int | None = None) -> None:
        self._again_after_ms = again_after_ms
        self._books: dict[str, _Book] = {}
        self._markets: dict[tuple[int, str], Mapping[str, str]] = {}
        self.markets: Mapping[tuple[int, str], Mapping[str, str]] = self._markets

    @property
    def assets(self) -> dict[str, int]:
        return {asset: book.market.fixture_id for asset, book in self._books.items()}

    def name(
        self, fixture_id: int, market_key: str, assets: Mapping[str, str], opposite: Collection[str] = frozenset()
    ) -> None:
        """Assign assets to the sides of a market; a market that was named before does not change.

        For a side in ``opposite`` the asset is the share that wins where the side loses.
        """
        if (fixture_id, market_key) not in self._markets:
            self._markets[fixture_id, market_key] = assets
            market = ShareMarket(fixture_id, market_key, tuple(assets))
            for asset in dict.fromkeys(assets.values()):
                sides = tuple((side, side in opposite) for side, own in assets.items() if own == asset)
                self._books[asset] = _Book(market, sides)

    def is_known(self, asset: str) -> bool:
        """Whether changes of an asset can be applied: a full book of it came, and nothing was missed since."""
        return asset in self._books and self._books[asset].is_known

    def is_stale(self, change: Change) -> bool:
        """Whether a change is older than the full book it would change, or a full book older than a change of its asset."""
        book = self._books.get(change.asset)
        return book is not None and change.ts_ms < (book.last_ms if change.kind == "book" else book.since_ms)

    def take(self, changes: Iterable[Change], in_running: Callable[[int], bool]) -> list[State]:
        """Apply changes and return the new market states; ``in_running`` tells whether a fixture is in play."""
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
        """Treat the books of these assets (all if empty) as unknown, and return the markets that were known."""
        return {(market.fixture_id, market.market_key) for market in self._forget(assets, 0)}

    def suspend(self, assets: Collection[str], ts_ms: int) -> list[State]:
        """Forget the books of these assets at a time, and return the suspended states of the markets that were known."""
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
