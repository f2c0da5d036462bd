"""Reads what Polymarket sends: full books of assets and changes of their levels, after gamma said which asset is what."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypedDict

import orjson

from clvlab.base.times import LAST_MS, of_iso
from clvlab.law.markets import compose_key
from clvlab.law.schema import SAFE_INTEGER
from clvlab.packs.captures.normalising import Source
from clvlab.packs.captures.reader import ProviderClock
from clvlab.packs.exchange import MARKET_KEY, AssetBooks, Change, State, match_sides, millionths, names_of, number
from clvlab.packs.manifest import Fixture

# What is read of Polymarket's messages: any of it may be missing or of another type until it was checked.


class GammaMarket(TypedDict, total=False):
    """A market as gamma describes it; its lists may be JSON within a text."""

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
    """An event as gamma describes it; of its teams ``name``, ``alias`` and ``ordering`` are read."""

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


# Which share of Polymarket is which side of which market, read from the answers of its gamma API.


_YES_NO = ["yes", "no"]


@dataclass(frozen=True, slots=True)
class PolymarketEvent:
    """An event that gamma describes.

    Attributes
    ----------
    in_play
        Whether it was, when the answer was given.
    markets
        Market key -> side -> asset. Several yes/no markets of one event that exclude each other are one market with a side
        each, ``1X2_PARTICIPANT_RESULT||`` where they are the outcomes of a match. Markets that are closed are left out.
    """

    fixture: Fixture
    in_play: bool
    markets: Mapping[str, Mapping[str, str]]


def is_description(message: object) -> bool:
    """Whether a message is an answer of gamma's ``/events``."""
    return isinstance(message, list) and bool(message) and isinstance(message[0], dict) and "markets" in message[0]


def events_of(answer: Sequence[GammaEvent]) -> list[PolymarketEvent]:
    """Read an answer of ``/events``.

    Raises
    ------
    ValueError
    """
    try:
        return [_event(entry) for entry in answer]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no description of events: {type(error).__name__}: {error}") from error


def _event(entry: GammaEvent) -> PolymarketEvent:
    number, title = int(entry["id"]), str(entry["title"])
    if not 0 <= number <= SAFE_INTEGER:
        raise ValueError(f"the id of an event is {number}")
    open_markets = [market for market in entry["markets"] if market.get("clobTokenIds") and not market.get("closed")]
    # Not endDate, by which an event is to be resolved: a close at that time may know the result.
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
    """The home team first: titles of American sports name it last, and only ``teams`` tells."""
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
        markets[key] = _paired(sides or outcomes, [_texts(market["clobTokenIds"])[0] for market in exclusive])
        listed = [market for market in listed if market not in exclusive]
    for market in listed:
        outcomes = _texts(market["outcomes"])
        kind, line = market.get("sportsMarketType"), market.get("line")
        key = compose_key(str(kind), line=None if line is None else str(line))
        if not kind or key in markets:
            key = f"{market['slug']}||"
        of_match = match_sides(names, outcomes)
        markets[key] = _paired(of_match or [outcome.lower() for outcome in outcomes], _texts(market["clobTokenIds"]))
    return markets


def _paired(sides: Sequence[str], assets: Sequence[str]) -> dict[str, str]:
    if len(set(sides)) < len(sides) or len(sides) != len(assets) or len(sides) < 2:
        raise ValueError(f"the sides {list(sides)} do not belong to {len(assets)} assets")
    return dict(sorted(zip(sides, assets, strict=True), key=lambda pair: pair[0].encode()))


def _texts(value: object) -> list[str]:
    """Gamma writes lists as JSON within a text."""
    found = orjson.loads(value) if isinstance(value, str) else value
    if not isinstance(found, list):
        raise TypeError(f"{value!r:.80} is no list")
    return [str(entry) for entry in found]


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
        self.clock = ProviderClock()
        self._books = AssetBooks()
        self._in_play: set[int] = set()
        self._named_ms: int | None = None

    @property
    def assets(self) -> dict[str, int]:
        """The fixture of every asset that was described."""
        return self._books.assets

    @property
    def markets(self) -> Mapping[tuple[int, str], Mapping[str, str]]:
        """Side -> asset, of each market that was described, by its fixture and key."""
        return self._books.markets

    def take(self, text: bytes, received_ts_ms: int) -> Sequence[State]:
        """Return the states of markets that a message moves."""
        message = orjson.loads(text)
        if is_description(message):
            for event in events_of(message):
                self._describe(event)
            return ()
        changes = [change for part in (message if isinstance(message, list) else [message]) for change in _changes(part)]
        changes = [self._timed(change, received_ts_ms) for change in changes]
        return self._books.take(changes, self._in_play.__contains__)

    def forget(self, markets: Collection[str]) -> Collection[tuple[int, str]]:
        """Hold the books of these assets for unknown until their next full ones, and their markets for suspended."""
        return self._books.forget(markets)

    def _timed(self, change: Change, received_ts_ms: int) -> Change:
        """Return a change at its own time, or where that may not stand at the last one that could: its levels count."""
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


_LADDERS: tuple[tuple[bool, Literal["bids", "asks"]], ...] = ((True, "bids"), (False, "asks"))


def _changes(part: ChannelMessage) -> Iterator[Change]:
    try:
        kind = part["event_type"]
        if kind == "book":
            levels = {
                (is_bid, millionths(level["price"])): number(level["size"]) > 0
                for is_bid, name in _LADDERS
                for level in part[name]
            }
            yield Change(str(part["asset_id"]), _time(part), "book", levels)
        elif kind == "price_change":
            for change in part["price_changes"]:
                level = _is_bid(change["side"]), millionths(change["price"])
                yield Change(str(change["asset_id"]), _time(part), "changes", {level: number(change["size"]) > 0})
        elif kind == "market_resolved":
            for asset in part["assets_ids"]:
                yield Change(str(asset), _time(part), "over")
    except (KeyError, TypeError) as error:
        raise ValueError(f"no message of the market channel: {type(error).__name__}: {error}") from error


def _is_bid(side: str) -> bool:
    if side not in ("BUY", "SELL"):
        raise ValueError(f"a side is BUY or SELL, not {side!r}")
    return side == "BUY"


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
