"""Kalshi: snapshots of resting bids for yes and no and their changes, after REST has described the tickers.

A bid for no at a price is an offer of yes at one dollar minus that price. Changes are amounts to add, so each must count once,
by its number within the subscription. It counts only after a snapshot of the same subscription, and after a hole only from the
next snapshot on. A snapshot without a time gets the last time that Kalshi stated, or its arrival if Kalshi stated no time yet.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple, TypedDict

import orjson

from clvlab.base.times import micros_of_iso, of_iso, of_unix, time_in_name, time_ms
from clvlab.packs.manifest import Fixture
from clvlab.sources.capture.source import Source
from clvlab.sources.clock import ProviderClock
from clvlab.sources.exchange import (
    MARKET_KEY,
    WHOLE,
    Quote,
    ShareMarket,
    State,
    cents,
    match_sides,
    millionths,
    names_of,
    number,
)
from clvlab.sources.ladders import LadderSink, share_offers
from clvlab.sources.shares import (
    ListedShare,
    Trade,
    price_millionths,
    quote_share,
    taker,
    trade_price,
)
from clvlab.sources.source import fixture_id_of

# Fields read from Kalshi's messages: any may be missing or of another type until checked.


class ListedMarket(TypedDict, total=False):
    ticker: str
    event_ticker: str
    title: str
    yes_sub_title: str
    occurrence_datetime: str


class ListedEvent(TypedDict, total=False):
    event_ticker: str
    title: str
    mutually_exclusive: bool
    markets: Sequence[ListedMarket]


class KalshiMessage(TypedDict, total=False):
    """A message of the WebSocket, or REST's answer with an event and its markets, or with one market."""

    type: str
    id: int
    sid: int
    seq: int
    msg: Mapping[str, Any]
    event: ListedEvent
    market: ListedMarket
    markets: Sequence[ListedMarket]


# Answers of Kalshi's REST interface assign each ticker to a side of a market.


@dataclass(frozen=True, slots=True)
class KalshiEvent:
    """An event, or one market of it, that REST describes.

    Attributes
    ----------
    markets
        Market key -> side -> ticker. An event whose markets exclude each other becomes one market with a side for each.
        Any other ticker, also one followed without its event, is a market with the sides ``no`` and ``yes``.
    """

    fixture: Fixture
    markets: Mapping[str, Mapping[str, str]]


def is_description(message: KalshiMessage) -> bool:
    """Return whether a message is an answer of ``/events/{event_ticker}`` or ``/markets/{ticker}``."""
    return "type" not in message and ("event" in message or "market" in message)


def event_of(answer: KalshiMessage) -> KalshiEvent:
    try:
        if "market" in answer:
            market = answer["market"]
            return _event(str(market["event_ticker"]), str(market["title"]), [market], exclusive=False)
        event = answer["event"]
        listed = event["markets"] if "markets" in event else answer["markets"]
        exclusive = event.get("mutually_exclusive") is True
        return _event(str(event["event_ticker"]), str(event["title"]), listed, exclusive=exclusive)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no description of an event: {type(error).__name__}: {error}") from error


def _event(ticker: str, title: str, listed: Sequence[ListedMarket], *, exclusive: bool) -> KalshiEvent:
    names = title_names(title)
    # Not close_time: trading goes on while a match is played, and that time is days or weeks after its end.
    starts = [of_iso(market["occurrence_datetime"]) for market in listed if market.get("occurrence_datetime")]
    fixture = Fixture(fixture_id=fixture_id_of(ticker), names=names, source_id=ticker, kickoff_ts_ms=min(starts, default=None))
    tickers = [str(market["ticker"]) for market in listed]
    if not exclusive or len(tickers) < 2:
        return KalshiEvent(fixture, {f"{own}||": {"no": own, "yes": own} for own in tickers})
    sides = match_sides(names, [str(market.get("yes_sub_title")) for market in listed])
    key = MARKET_KEY if sides and "draw" in sides else f"{ticker}||"
    named = zip(sides or [own.removeprefix(f"{ticker}-") for own in tickers], tickers, strict=True)
    return KalshiEvent(fixture, {key: dict(sorted(named, key=lambda pair: pair[0].encode()))})


def title_names(title: str) -> tuple[str, ...]:
    """Return the teams, the home team first (``A at B`` names it last), without the question after the names."""
    plain = title.removesuffix("?").removesuffix(" Winner").strip()
    away, at, home = plain.partition(" at ")
    return (home, away) if at else names_of(plain)


_Bids = dict[int, Decimal]
_SNAPSHOT, _DELTA = "orderbook_snapshot", "orderbook_delta"


@dataclass(slots=True)
class _Ladder:
    """Resting bids of a ticker; ``sid`` is the subscription of its last snapshot, ``None`` while the ladder is unknown."""

    market: ShareMarket
    own_side: str | None
    sid: int | None = None
    bids: dict[str, _Bids] = field(default_factory=dict)

    def quote(self, ts_ms: int) -> None:
        """Quote a side of a market, or both sides of a yes/no market."""
        yes = no = None
        if self.sid is not None:
            yes = _book_quote(self.bids["yes"], self.bids["no"])
            no = yes.opposite
        if self.own_side is not None:
            self.market.quote(self.own_side, yes, ts_ms)
        else:
            self.market.quote("yes", yes, ts_ms)
            self.market.quote("no", no, ts_ms)

    def state_ladders(self, ladders: LadderSink) -> None:
        """State the ladders of the ticker's sides: a bid for the contrary is an ask."""
        sides = {"yes": "no", "no": "yes"} if self.own_side is None else {self.own_side: "no"}
        for side, contrary in sides.items():
            bids = {} if self.sid is None else self.bids[contrary]
            asks = sorted((WHOLE - price, size) for price, size in bids.items())
            ladders.put((self.market.fixture_id, self.market.market_key, side), self.market.ts_ms, *share_offers(asks))


class KalshiReader:
    """Reads messages of the channel ``orderbook_delta``, and REST's answers among them.

    ``source_id`` of a fixture is the event's ticker, its kickoff the earliest ``occurrence_datetime`` of its markets.
    """

    def __init__(self) -> None:
        self._fixtures: dict[int, Fixture] = {}
        self.fixtures: Mapping[int, Fixture] = self._fixtures
        self.clock = ProviderClock()
        self._ladders: dict[str, _Ladder] = {}
        self._seqs: dict[int, int] = {}
        self._named_ms: int | None = None
        self._sink: LadderSink | None = None

    def keep_ladders(self, ladders: LadderSink) -> None:
        self._sink = ladders

    @property
    def tickers(self) -> dict[str, int]:
        """Fixture of every described ticker."""
        return {ticker: ladder.market.fixture_id for ticker, ladder in self._ladders.items()}

    def take(self, text: bytes, received_ts_ms: int) -> Sequence[State]:
        message: KalshiMessage = orjson.loads(text)
        if not isinstance(message, dict):
            raise ValueError("a message is a JSON object")
        if is_description(message):
            self._describe(message)
            return ()
        try:
            return self._book(message, received_ts_ms)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no message of the order book: {type(error).__name__}: {error}") from error

    def _book(self, message: KalshiMessage, received_ts_ms: int) -> Sequence[State]:
        kind = message["type"]
        if kind == "subscribed":
            self._seqs.pop(message["msg"]["sid"], None)
        if kind not in (_SNAPSHOT, _DELTA):
            return ()
        sid, seq, ticker, bids, change, named_ms = _book_message(message)
        if named_ms is not None and not self.clock.holds(named_ms):
            named_ms = None  # its amounts still count, because the ladder needs each of them
        ladder, before = self._ladders.get(ticker), self._seqs.get(sid)
        self._named_ms = max(self._named_ms or 0, named_ms) if named_ms is not None else self._named_ms
        if seq <= (before or 0):
            return ()  # sent twice: its amounts were added already
        self._seqs[sid] = seq
        ts_ms = named_ms or self._named_ms or received_ts_ms
        touched = [] if before is None or seq == before + 1 else self._lose(sid, ts_ms)
        if ladder is not None and (change is None or ladder.sid == sid):
            if change is None:
                ladder.sid, ladder.bids = sid, bids
            else:
                _add(ladder.bids[change[0]], *change[1:])
            ladder.quote(ts_ms)
            touched.append(ladder)
        if self._sink is not None:
            for own in touched:
                own.state_ladders(self._sink)
        markets = {(own.market.fixture_id, own.market.market_key): own.market for own in touched}
        states = [market.move(in_running=False) for market in markets.values()]
        return [state for state in states if state is not None]

    def _lose(self, sid: int, ts_ms: int) -> list[_Ladder]:
        """Mark the ladders of a subscription unknown: a change is missing."""
        lost = [ladder for ladder in self._ladders.values() if ladder.sid == sid]
        for ladder in lost:
            ladder.sid = None
            ladder.quote(ts_ms)
        return lost

    def forget(self, markets: Collection[str]) -> Collection[tuple[int, str]]:
        """Mark the ladders of these tickers unknown until their next snapshots, and their markets suspended."""
        if not markets:
            self._seqs.clear()  # a new connection counts its subscriptions from the start
        forgotten = set()
        for ticker in markets or self._ladders:
            ladder = self._ladders.get(ticker)
            if ladder is not None and ladder.sid is not None:
                ladder.sid = None
                ladder.quote(0)
                ladder.market.forget()
                if self._sink is not None:
                    ladder.state_ladders(self._sink)
                forgotten.add((ladder.market.fixture_id, ladder.market.market_key))
        return forgotten

    def _describe(self, message: KalshiMessage) -> None:
        event = event_of(message)
        self._fixtures[event.fixture.fixture_id] = event.fixture
        for key, sides in event.markets.items():
            tickers = {ticker: side for side, ticker in sides.items() if ticker not in self._ladders}
            if len(tickers) == len(set(sides.values())):
                market = ShareMarket(event.fixture.fixture_id, key, tuple(sides))
                own = len(tickers) > 1
                self._ladders |= {ticker: _Ladder(market, side if own else None) for ticker, side in tickers.items()}


class _BookMessage(NamedTuple):
    """Content of a book message: a snapshot has ``bids``, a change has ``change``; the other is ``None``."""

    sid: int
    seq: int
    ticker: str
    bids: dict[str, _Bids]
    change: tuple[str, int, Decimal] | None
    ts_ms: int | None


def _book_message(message: KalshiMessage) -> _BookMessage:
    sid, seq, body = message["sid"], message["seq"], message["msg"]
    bids, change = dict[str, _Bids](), None
    if message["type"] == _SNAPSHOT:
        bids = {side: _bids(body, side) for side in ("yes", "no")}
    else:
        change = _change(body)
    if type(sid) is not int or type(seq) is not int:
        raise ValueError(f"sid {sid!r} and seq {seq!r} must be numbers")
    if not isinstance(body["market_ticker"], str):
        raise ValueError(f"{body['market_ticker']!r:.80} is no ticker")
    return _BookMessage(sid, seq, body["market_ticker"], bids, change, _time(body))


def is_readable(message: KalshiMessage) -> bool:
    """Return whether a reader can take a message; an unreadable book message leaves a hole in the book."""
    try:
        return message["type"] not in (_SNAPSHOT, _DELTA) or bool(_book_message(message))
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def _bids(body: Mapping[str, Any], side: str) -> _Bids:
    dollars = body.get(f"{side}_dollars_fp", body.get(f"{side}_dollars"))
    return _levels(body.get(side), cents) if dollars is None else _levels(dollars, millionths)


def _levels(levels: Sequence[Sequence[Any]] | None, price: Callable[[Any], int]) -> _Bids:
    """Return the bids of a side by price, which is written in one of several ways."""
    bids = {price(at): number(size) for at, size in levels or ()}
    return {at: size for at, size in bids.items() if size > 0}


def _book_quote(yes: _Bids, no: _Bids) -> Quote:
    """Return the best bid and ask of yes: a bid for no is an offer of yes."""
    return Quote(max(yes, default=0), WHOLE - max(no, default=0))


def _change(body: Mapping[str, Any]) -> tuple[str, int, Decimal]:
    side = body["side"]
    if side not in ("yes", "no"):
        raise ValueError(f"a side is yes or no, not {side!r}")
    price = millionths(body["price_dollars"]) if "price_dollars" in body else cents(body["price"])
    return side, price, number(body["delta_fp"] if "delta_fp" in body else body["delta"])


def _add(bids: _Bids, price: int, amount: Decimal) -> None:
    size = bids.pop(price, Decimal(0)) + amount
    if size > 0:
        bids[price] = size


def _time(body: Mapping[str, Any]) -> int | None:
    found = body.get("ts_ms", body.get("ts"))
    return None if found is None else time_ms(found)


SOURCE = Source(
    feed="kalshi",
    new_reader=lambda _live: KalshiReader(),
    margin="multiplicative",
    consensus="single-venue",
    closing_source="venue",
)


_CUTOFF = "market_settled_ts"


_QUOTED = ("yes_bid", "yes_ask")


def parts_of(answer: Any) -> list[tuple[str, Any, Any]] | None:
    """Return kind, ticker and content of the parts of an answer; ``None`` if it is not one of Kalshi's."""
    if not isinstance(answer, dict):
        return None
    ticker = answer.get("ticker", answer.get("market_ticker"))
    if is_candlestick(answer):
        return [("candlestick", ticker, answer)]
    candles = answer.get("market_candlesticks", answer.get("candlesticks"))
    tickers = answer.get("market_tickers")
    if isinstance(candles, list) and isinstance(tickers, list):
        same = len(tickers) == len(candles)
        return _candlesticks(zip(tickers, candles, strict=True)) if same else [("candlestick", tickers, candles)]
    if isinstance(candles, list):
        return _candlesticks([(ticker, candles)])
    if isinstance(answer.get("markets"), list):
        return [part for market in answer["markets"] for part in _market_parts(market)]
    if isinstance(answer.get("market"), dict):
        return _market_parts(answer["market"])
    if isinstance(answer.get("trades"), list):
        return [("trade", _ticker(trade), trade) for trade in answer["trades"]]
    if "taker_side" in answer:
        return [("trade", ticker, answer)]
    if _CUTOFF in answer:
        return [("cutoff", None, answer)]
    dumped = {name: value.get("candlesticks") if isinstance(value, dict) else value for name, value in answer.items()}
    if any(_are_candlesticks(value) for value in dumped.values()) and all(isinstance(value, list) for value in dumped.values()):
        return _candlesticks(dumped.items())
    own = [value for name, value in answer.items() if _are_candlesticks(value)]
    if len(own) == 1:
        return _candlesticks([(ticker, own[0])])
    books = {name: value for name, value in answer.items() if is_order_book(value)}
    return [("order book", name, value) for name, value in books.items()] if books and len(books) == len(answer) else None


def is_candlestick(item: Any) -> bool:
    """Return whether an item holds a ticker's bid and ask of a period."""
    return isinstance(item, dict) and "end_period_ts" in item and any({name, f"{name}_close"} & item.keys() for name in _QUOTED)


def _are_candlesticks(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and is_candlestick(value[0])


def _candlesticks(of: Iterable[tuple[Any, Any]]) -> list[tuple[str, Any, Any]]:
    return [("candlestick", ticker, candle) for ticker, item in of for candle in (item if isinstance(item, list) else [item])]


def _market_parts(market: Any) -> list[tuple[str, Any, Any]]:
    if isinstance(market, dict) and isinstance(market.get("candlesticks"), list):
        return [("candlestick", _ticker(market), candle) for candle in market["candlesticks"]]
    return [("market", _ticker(market), market)]


def _ticker(value: Any) -> Any:
    return value.get("ticker", value.get("market_ticker")) if isinstance(value, dict) else None


def is_order_book(value: Any) -> bool:
    """Return whether a value is a book of resting bids for yes and no."""
    return isinstance(value, dict) and {"_yes", "_no"} <= value.keys()


def listed_share(name: str, line: int, kind: str, ticker: str, content: Mapping[str, Any]) -> ListedShare:
    """Return a candlestick, an order book or a trade as a row."""
    if kind == "trade":
        in_dollars = content.get("yes_price_dollars") is not None
        price = trade_price(content["yes_price_dollars" if in_dollars else "yes_price"], in_dollars=in_dollars)
        created = content["created_time"]
        ts_ms = of_iso(created) if isinstance(created, str) else of_unix(created)
        micros = micros_of_iso(created) if isinstance(created, str) else ts_ms * 1000
        trade_id = None if content.get("trade_id") is None else str(content["trade_id"])
        trade = Trade(ts_ms, micros, price, taker(content["taker_side"]), trade_id)
        return trade.share(ticker, name, line)
    if kind == "candlestick":
        end = content["end_period_ts"]
        if type(end) is not int:
            raise ValueError(f"end_period_ts {end!r:.80} is no time in seconds")
        bid, ask = _close(content, "yes_bid", 0), _close(content, "yes_ask", WHOLE)
        return quote_share(ticker, of_unix(end), Quote(bid, ask), name, line)
    at_ms = time_in_name(name)
    if at_ms is None:
        raise ValueError("it carries no time: name the file by it, as kalshi_2026-06-25T200000Z.json")
    # A dump may list a level without resting bids; its price is not read.
    resting = ([(at, size) for at, size in content[side] or () if number(size) > 0] for side in ("_yes", "_no"))
    yes, no = (_levels(levels, price_millionths) for levels in resting)
    return quote_share(ticker, at_ms, _book_quote(yes, no), name, line)


def _close(candle: Mapping[str, Any], name: str, nothing: int) -> int:
    """Return the price at a period's end, or ``nothing`` without an offer; some dumps have only this price."""
    prices = candle[name] if name in candle else {"close": candle[f"{name}_close"]}
    if not isinstance(prices, dict):
        prices = {"close": prices}
    in_dollars = "close_dollars" in prices
    price = prices["close_dollars" if in_dollars else "close"]
    return nothing if price is None else millionths(price) if in_dollars else price_millionths(price)
