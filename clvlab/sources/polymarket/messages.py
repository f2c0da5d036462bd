"""Polymarket: full books of assets and changes of their levels, and gamma's descriptions of the assets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Literal, TypedDict

import orjson

from clvlab.base.times import LAST_MS, of_iso
from clvlab.law.markets import compose_key
from clvlab.law.schema import SAFE_INTEGER
from clvlab.packs.manifest import Fixture
from clvlab.sources.capture.source import Source
from clvlab.sources.clock import ProviderClock
from clvlab.sources.exchange import MARKET_KEY, WHOLE, Quote, ShareMarket, State, match_sides, millionths, names_of, number
from clvlab.sources.ladders import LadderSink, share_offers

# Books of Polymarket's assets: full ones, and changes of their levels, from the feed or from files.
#
# The messages have no numbers, so time decides between two about the same level: the later one holds, and of two with one time
# the last to arrive. A full book that is older than the last change of its asset lacks that change, so it is stale and is left
# out. The asset then keeps its state (unknown after a cut) until a newer book comes.


Level = tuple[bool, int]  # whether it is a bid, and its price


@dataclass(frozen=True, slots=True)
class Change:
    """A message about an asset: all of its levels (``book``), some of them (``changes``), or its end (``over``).

    ``levels`` has the number of shares at each level, 0 at an emptied one.
    """

    asset: str
    ts_ms: int
    kind: str
    levels: Mapping[Level, Decimal] = field(default_factory=dict)


@dataclass(slots=True)
class _Book:
    """The levels of an asset with their times, also of emptied ones, so that an older message can't fill them again.

    ``sides`` are the sides that the asset is a share of, each with whether it wins where the asset loses.
    """

    market: ShareMarket
    sides: tuple[tuple[str, bool], ...]
    is_known: bool = False
    is_doubtful: bool = False  # a message was refused that may have changed a level
    since_ms: int = 0
    last_ms: int = 0
    _levels: dict[Level, tuple[Decimal, int]] = field(default_factory=dict)

    def take(self, change: Change) -> None:
        if change.kind == "over":
            self.forget()
        elif change.kind == "book" and change.ts_ms >= self.last_ms:
            self.is_known, self.is_doubtful, self.since_ms = True, False, change.ts_ms
            self._levels = {level: (size, change.ts_ms) for level, size in change.levels.items()}
        elif change.kind == "changes" and self.is_known and change.ts_ms >= self.since_ms:
            for level, size in change.levels.items():
                if change.ts_ms >= self._levels.get(level, (0, 0))[1]:
                    self._levels[level] = size, change.ts_ms
        self.last_ms = max(self.last_ms, change.ts_ms)

    def forget(self) -> None:
        self.is_known = False
        self._levels.clear()

    def quote(self, ts_ms: int) -> None:
        """Quote every side of the asset."""
        best = self._best()
        for side, opposite in self.sides:
            self.market.quote(side, best.opposite if best is not None and opposite else best, ts_ms)

    def _best(self) -> Quote | None:
        if not self.is_known:
            return None
        full = [level for level, (size, _) in self._levels.items() if size]
        bids, asks = [price for is_bid, price in full if is_bid], [price for is_bid, price in full if not is_bid]
        return Quote(max(bids, default=0), min(asks, default=WHOLE))

    def state_ladders(self, ladders: LadderSink) -> None:
        """State the ladders of the asset's sides; a bid for it is an ask for the sides that win where it loses."""
        for side, opposite in self.sides:
            asks = [
                (WHOLE - price if is_bid else price, size)
                for (is_bid, price), (size, _) in self._levels.items()
                if size and is_bid == opposite and not self.is_doubtful
            ]
            key = self.market.fixture_id, self.market.market_key, side
            ladders.put(key, self.market.ts_ms, *share_offers(sorted(asks)))


class AssetBooks:
    """Books of assets, and ``markets`` as side -> asset by fixture and key.

    ``again_after_ms`` is the time after which an unmoved market is returned again; never if ``None``. ``ladders`` takes the
    ladders, where they are kept.
    """

    def __init__(self, again_after_ms: int | None = None, ladders: LadderSink | None = None) -> None:
        self._again_after_ms = again_after_ms
        self.ladders = ladders
        self._books: dict[str, _Book] = {}
        self._markets: dict[tuple[int, str], Mapping[str, str]] = {}
        self.markets: Mapping[tuple[int, str], Mapping[str, str]] = self._markets

    @property
    def assets(self) -> dict[str, int]:
        return {asset: book.market.fixture_id for asset, book in self._books.items()}

    def name(
        self, fixture_id: int, market_key: str, assets: Mapping[str, str], opposite: Collection[str] = frozenset()
    ) -> None:
        """Set the assets of a market's sides, and the sides that are their opposites; a known market does not change."""
        if (fixture_id, market_key) not in self._markets:
            self._markets[fixture_id, market_key] = assets
            market = ShareMarket(fixture_id, market_key, tuple(assets))
            for asset in dict.fromkeys(assets.values()):
                sides = tuple((side, side in opposite) for side, own in assets.items() if own == asset)
                self._books[asset] = _Book(market, sides)

    def is_known(self, asset: str) -> bool:
        """Return whether changes of an asset can be applied: it has a full book, and no message was missed since."""
        return asset in self._books and self._books[asset].is_known

    def is_stale(self, change: Change) -> bool:
        """Return whether a change is older than its full book, or a full book older than a change of its asset."""
        book = self._books.get(change.asset)
        return book is not None and change.ts_ms < (book.last_ms if change.kind == "book" else book.since_ms)

    def take(self, changes: Iterable[Change], in_running: Callable[[int], bool]) -> list[State]:
        """Return the states of markets after changes; ``in_running`` is asked per fixture."""
        touched: dict[tuple[int, str], ShareMarket] = {}
        books: dict[str, _Book] = {}
        for change in changes:
            book = self._books.get(change.asset)
            if book is not None:
                book.take(change)
                book.quote(change.ts_ms)
                books[change.asset] = book
                touched[book.market.fixture_id, book.market.market_key] = book.market
        if self.ladders is not None:
            for book in books.values():
                book.state_ladders(self.ladders)
        states = [
            market.move(in_running=in_running(market.fixture_id), after_ms=self._again_after_ms) for market in touched.values()
        ]
        return [state for state in states if state is not None]

    def forget(self, assets: Collection[str]) -> set[tuple[int, str]]:
        """Mark the books of these assets, or of all, unknown, and return the markets that were known."""
        return {(market.fixture_id, market.market_key) for market in self._forget(assets, 0)}

    def doubt(self) -> None:
        """End the ladders of all assets until their next full books: a message can't be read that may be about any."""
        for book in self._books.values():
            book.is_doubtful = True
            if self.ladders is not None:
                book.state_ladders(self.ladders)

    def suspend(self, assets: Collection[str], ts_ms: int) -> list[State]:
        """Forget books as of a time, and return the suspended states of the markets that were known."""
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
                if self.ladders is not None:
                    book.state_ladders(self.ladders)
                yield book.market


# Fields read from Polymarket's messages: any may be missing or of another type until checked.


class GammaMarket(TypedDict, total=False):
    """A market in gamma's description; its lists may be JSON within a text."""

    slug: str
    question: str
    groupItemTitle: str | None
    sportsMarketType: str | None
    line: float | None
    gameStartTime: str | None
    outcomes: str | Sequence[str]
    clobTokenIds: str | Sequence[str] | None
    closed: bool


class GammaEvent(TypedDict, total=False):
    """An event in gamma's description; ``name``, ``alias`` and ``ordering`` of its teams are read."""

    id: str
    slug: str
    title: str
    startTime: str | None
    live: bool
    negRisk: bool
    teams: Sequence[Mapping[str, str]]
    markets: Sequence[GammaMarket]


class ChannelMessage(TypedDict, total=False):
    """A message of the market channel; a level has ``price`` and ``size``, a change of one also ``asset_id`` and ``side``."""

    event_type: str
    asset_id: str
    assets_ids: Sequence[str]
    timestamp: str
    bids: Sequence[Mapping[str, str]]
    asks: Sequence[Mapping[str, str]]
    price_changes: Sequence[Mapping[str, str]]


# Answers of Polymarket's gamma API assign each share to a side of a market.


_YES_NO = ["yes", "no"]


@dataclass(frozen=True, slots=True)
class PolymarketEvent:
    """An event that gamma describes.

    Attributes
    ----------
    in_play
        Whether it was in play at the answer.
    markets
        Market key -> side -> asset. Several yes/no markets of one event that exclude each other become one market with a
        side for each, ``1X2_PARTICIPANT_RESULT||`` for the outcomes of a match. Closed markets are left out.
    """

    fixture: Fixture
    in_play: bool
    markets: Mapping[str, Mapping[str, str]]


def is_description(message: object) -> bool:
    """Return whether a message is an answer of gamma's ``/events``."""
    return isinstance(message, list) and bool(message) and isinstance(message[0], dict) and "markets" in message[0]


def events_of(answer: Sequence[GammaEvent]) -> list[PolymarketEvent]:
    try:
        return [_event(entry) for entry in answer]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no description of events: {type(error).__name__}: {error}") from error


def _event(entry: GammaEvent) -> PolymarketEvent:
    number, title = int(entry["id"]), str(entry["title"])
    if not 0 <= number <= SAFE_INTEGER:
        raise ValueError(f"the id of an event is {number}")
    open_markets = [market for market in entry["markets"] if market.get("clobTokenIds") and not market.get("closed")]
    # endDate is not used: an event is resolved by then, so a close at that time may know the result.
    starts = (entry.get("startTime"), *(market.get("gameStartTime") for market in open_markets))
    kickoff = next((start for start in starts if start), None)
    names = _names(title, entry.get("teams") or ())
    fixture = Fixture(
        fixture_id=number,
        names=names,
        source_id=str(entry["slug"]),
        kickoff_ts_ms=None if kickoff is None else of_iso(kickoff),
    )
    return PolymarketEvent(fixture, entry.get("live") is True, _markets(entry, open_markets, names))


def _names(title: str, teams: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    """Return the names, the home team first: titles of American sports name it last, which only ``teams`` shows."""
    names = names_of(title)
    home = {team.get(key) for team in teams if team.get("ordering") == "home" for key in ("name", "alias")}
    return names[::-1] if len(names) == 2 and names[1] in home else names


def _markets(entry: GammaEvent, listed: Sequence[GammaMarket], names: Sequence[str]) -> dict[str, dict[str, str]]:
    markets: dict[str, dict[str, str]] = {}
    exclusive = [
        market
        for market in listed
        if [name.lower() for name in _texts(market["outcomes"])] == _YES_NO
        and (entry.get("negRisk") or market.get("sportsMarketType") == "moneyline")
    ]
    if len(exclusive) > 1:
        outcomes = [str(market.get("groupItemTitle") or market["question"]) for market in exclusive]
        sides = match_sides(names, outcomes)
        key = MARKET_KEY if sides and "draw" in sides else f"{entry['slug']}||"
        markets[key] = _asset_by_side(sides or outcomes, [_texts(market["clobTokenIds"])[0] for market in exclusive])
        listed = [market for market in listed if market not in exclusive]
    for market in listed:
        outcomes = _texts(market["outcomes"])
        kind, line = market.get("sportsMarketType"), market.get("line")
        key = compose_key(str(kind), line=None if line is None else str(line))
        if not kind or key in markets:
            key = f"{market['slug']}||"
        of_match = match_sides(names, outcomes)
        markets[key] = _asset_by_side(of_match or [outcome.lower() for outcome in outcomes], _texts(market["clobTokenIds"]))
    return markets


def _asset_by_side(sides: Sequence[str], assets: Sequence[str]) -> dict[str, str]:
    if len(set(sides)) < len(sides) or len(sides) != len(assets) or len(sides) < 2:
        raise ValueError(f"the sides {list(sides)} do not belong to {len(assets)} assets")
    return dict(sorted(zip(sides, assets, strict=True), key=lambda pair: pair[0].encode()))


def _texts(value: object) -> list[str]:
    """Return a list that gamma writes as JSON within a text."""
    found = orjson.loads(value) if isinstance(value, str) else value
    if not isinstance(found, list):
        raise TypeError(f"{value!r:.80} is no list")
    return [str(entry) for entry in found]


class PolymarketReader:
    """Reads the messages of ``/ws/market``, and gamma's answers among them; ``fixtures`` are events by number.

    A market's sides are those of the first answer that names it; later ones move its kickoff. ``in_running`` is the event's
    last state in gamma's answers.
    """

    def __init__(self) -> None:
        self._fixtures: dict[int, Fixture] = {}
        self.fixtures: Mapping[int, Fixture] = self._fixtures
        self.clock = ProviderClock()
        self._books = AssetBooks()
        self._in_play: set[int] = set()
        self._named_ms: int | None = None

    @property
    def assets(self) -> dict[str, int]:
        return self._books.assets

    def keep_ladders(self, ladders: LadderSink) -> None:
        self._books.ladders = ladders

    @property
    def markets(self) -> Mapping[tuple[int, str], Mapping[str, str]]:
        """Side -> asset of each described market, by fixture and key."""
        return self._books.markets

    def take(self, text: bytes, received_ts_ms: int) -> Sequence[State]:
        message = orjson.loads(text)
        if is_description(message):
            for event in events_of(message):
                self._describe(event)
            return ()
        try:
            changes = [change for part in (message if isinstance(message, list) else [message]) for change in _changes(part)]
        except ValueError:
            self._books.doubt()
            raise
        changes = [self._at_sound_time(change, received_ts_ms) for change in changes]
        return self._books.take(changes, self._in_play.__contains__)

    def forget(self, markets: Collection[str]) -> Collection[tuple[int, str]]:
        """Mark the books of these assets unknown until their next full ones, and their markets suspended."""
        return self._books.forget(markets)

    def _at_sound_time(self, change: Change, received_ts_ms: int) -> Change:
        """Return a change at its own time or, if that is not valid, at the last valid time, because its levels count."""
        if self.clock.holds(change.ts_ms):
            self._named_ms = max(self._named_ms or 0, change.ts_ms)
            return change
        return replace(change, ts_ms=received_ts_ms if self._named_ms is None else self._named_ms)

    def _describe(self, event: PolymarketEvent) -> None:
        fixture_id = event.fixture.fixture_id
        self._fixtures[fixture_id] = event.fixture
        (self._in_play.add if event.in_play else self._in_play.discard)(fixture_id)
        for key, assets in event.markets.items():
            self._books.name(fixture_id, key, assets)


_LADDERS: tuple[Literal["bids", "asks"], ...] = ("bids", "asks")


def book_change(asset: str, ts_ms: int, bids: Iterable[tuple[object, object]], asks: Iterable[tuple[object, object]]) -> Change:
    """Return a full book, each level a price and a size.

    Raises
    ------
    ValueError
        A price or a size is not valid.
    """
    ladders = ((True, bids), (False, asks))
    levels = {(is_bid, millionths(price)): _size(size) for is_bid, ladder in ladders for price, size in ladder}
    return Change(asset, ts_ms, "book", levels)


def level_change(asset: str, ts_ms: int, side: str, price: object, size: object) -> Change:
    """Return the change of one level.

    Raises
    ------
    ValueError
        A side, price or size is not valid.
    """
    if side not in ("BUY", "SELL"):
        raise ValueError(f"a side is BUY or SELL, not {side!r:.80}")
    return Change(asset, ts_ms, "changes", {(side == "BUY", millionths(price)): _size(size)})


def _size(value: object) -> Decimal:
    return max(number(value), Decimal(0))


def _changes(part: ChannelMessage) -> Iterator[Change]:
    try:
        kind = part["event_type"]
        if kind == "book":
            bids, asks = ([(level["price"], level["size"]) for level in part[name]] for name in _LADDERS)
            yield book_change(str(part["asset_id"]), _time(part), bids, asks)
        elif kind == "price_change":
            for change in part["price_changes"]:
                yield level_change(str(change["asset_id"]), _time(part), change["side"], change["price"], change["size"])
        elif kind == "market_resolved":
            for asset in part["assets_ids"]:
                yield Change(str(asset), _time(part), "over")
    except (KeyError, TypeError) as error:
        raise ValueError(f"no message of the market channel: {type(error).__name__}: {error}") from error


def _time(part: ChannelMessage) -> int:
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
