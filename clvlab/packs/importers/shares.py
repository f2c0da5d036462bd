"""Quotes and trades of shares, in any order: spilled to disk, then made ticks of some fixtures at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from clvlab.law.schema import TICKS, Schema
from clvlab.odds.integers import largest_remainder
from clvlab.packs.exchange import WHOLE, Quote, ShareMarket, State, millionths, odds_milli
from clvlab.packs.importers.assets import AssetMap, AssetMarket, markets_of
from clvlab.packs.importers.books import QuoteSpill, batches, number_messages
from clvlab.packs.importers.source import ImportStats, Options

# From the states of markets to ticks: spilled to disk as they come, then numbered some fixtures at a time.


_SCHEMA = TICKS | {"event": pl.String, "place": pl.Int64}
_AT = ("fixture_id", "market_key", "ts_ms")


class StateSpill:
    """Keeps states on disk; of those of one market at one time the last one counts."""

    def __init__(self, folder: Path) -> None:
        self._spill = QuoteSpill(folder)
        self._place = 0
        self._held: list[State] = []

    def add(self, states: Iterable[State], chunk_rows: int) -> None:
        """Take some more states, in order."""
        self._held += states
        if len(self._held) * 2 >= chunk_rows:
            self._flush()

    def _flush(self) -> None:
        if self._held:
            self._spill.add(states_frame(self._held, self._place))
            self._place += len(self._held)
            self._held = []

    def parts(self, options: Options, account: ImportStats) -> Iterator[pl.DataFrame]:
        """Return ``TICKS`` of some whole fixtures at a time, in ascending order of fixture_id."""
        self._flush()
        ids = {event: int(event) for event in self._spill.rows_of}
        for batch in batches(self._spill.rows_of, ids, options.chunk_rows):
            yield last_states(self._spill.rows(batch), account)


def states_frame(states: Iterable[State], place: int = 0) -> pl.DataFrame:
    """Make a frame of states that are counted from ``place``: ``TICKS``, still without their number, event and place."""
    rows = [
        (s.fixture_id, 0, s.ts_ms, s.in_running, s.market_key, side, prob, odds, s.suspended, str(s.fixture_id), place + n)
        for n, s in enumerate(states)
        for side, prob, odds in zip(s.sides, s.prob_bps, s.odds_milli, strict=True)
    ]
    order = (
        "fixture_id",
        "tick_seq",
        "ts_ms",
        "in_running",
        "market_key",
        "side",
        "prob_bps",
        "odds_milli",
        "suspended",
        "event",
        "place",
    )
    return pl.DataFrame(rows, schema={name: _SCHEMA[name] for name in order}, orient="row")


def last_states(states: pl.DataFrame, account: ImportStats) -> pl.DataFrame:
    """Return ``TICKS`` of states of whole fixtures, of which the last of one market at one time counts."""
    last = states.filter(pl.col("place") == pl.col("place").max().over(_AT))
    account.note("states that another of the same time followed", states["place"].n_unique() - last["place"].n_unique())
    for suspended, count in last.group_by("suspended").agg(pl.col("place").n_unique()).iter_rows():
        account.books[0 if suspended else 1] += count
    return number_messages(last)


# A row a quote or a trade of an asset: prices are millionths of what its share pays. ``order`` tells trades of one
# millisecond apart, whatever file they came in, and ``trade`` is the source's own id of one.
SHARES: Schema = {
    "event": pl.String,
    "asset": pl.String,
    "ts_ms": pl.Int64,
    "is_trade": pl.Boolean,
    "bid": pl.Int64,
    "ask": pl.Int64,
    "price": pl.Int64,
    "takes_yes": pl.Boolean,
    "order": pl.Int64,
    "trade": pl.String,
    "file": pl.String,
    "line": pl.Int64,
}
TRADE_AGE_S = 600
CLOSE_WITHIN_S = 900
_CENT = WHOLE // 100
_STATES = 20_000
_ORDER = ("event", "market", "ts_ms", "order", "trade", "asset", "price", "takes_yes", "file", "line")


class ListedShare(NamedTuple):
    """A row of ``SHARES``."""

    event: str
    asset: str
    ts_ms: int
    is_trade: bool
    bid: int | None
    ask: int | None
    price: int | None
    takes_yes: bool | None
    order: int
    trade: str | None
    file: str
    line: int


class Trade(NamedTuple):
    """A trade of an asset: when, to the microsecond too, at what price, whether its taker bought ``yes``, and its id."""

    ts_ms: int
    ts_us: int
    price: int
    takes_yes: bool
    trade: str | None

    def share(self, asset: str, file: str, line: int) -> ListedShare:
        """Return its row; the event is to be filled in."""
        return ListedShare("", asset, self.ts_ms, is_trade=True, bid=None, ask=None, price=self.price, takes_yes=self.takes_yes,
                     order=self.ts_us, trade=self.trade, file=file, line=line)  # fmt: skip


def quote_share(asset: str, ts_ms: int, quote: Quote, file: str, line: int) -> ListedShare:
    """Return the row of a quote; the event is to be filled in."""
    return ListedShare("", asset, ts_ms, is_trade=False, bid=quote.bid, ask=quote.ask, price=None, takes_yes=None, order=0,
                 trade=None, file=file, line=line)  # fmt: skip


def price_millionths(price: object) -> int:
    """Return a price in millionths: whole numbers are cents, texts and fractions are dollars.

    Raises
    ------
    ValueError
        No price, or one that may be either.

    Examples
    --------
    >>> price_millionths(44), price_millionths("0.4400"), price_millionths(0.44), price_millionths("44.0")
    (440000, 440000, 440000, 440000)
    """
    if isinstance(price, int) and not isinstance(price, bool):
        if not 0 <= price <= 100:
            raise ValueError(f"{price!r} is no price in cents")
        return price * _CENT
    if isinstance(price, float) and price == 1:
        raise ValueError("1.0 may be one cent or one dollar: write cents as whole numbers, and dollars as texts")
    if isinstance(price, float) and 1 < price <= 100 and price.is_integer():
        return int(price) * _CENT
    if isinstance(price, str) and price.strip().isdecimal() and len(price.strip()) <= 3:
        return price_millionths(int(price))
    if isinstance(price, str) and "." in price and price.partition(".")[0].strip() not in ("", "0", "1"):
        whole, _, rest = price.strip().partition(".")
        if not rest.strip("0") and whole.isdecimal():
            return price_millionths(int(whole))
    return millionths(price)


@dataclass(slots=True)
class ShareSpill:
    """Keeps quotes and trades on disk, and makes ticks of them.

    Attributes
    ----------
    quoted
        Markets of which there are quotes, so that their trades are left out.
    """

    assets: AssetMap
    folder: Path
    quoted: set[tuple[int, str]] = field(default_factory=set)
    _spill: QuoteSpill = field(init=False)
    _held: list[ListedShare] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._spill = QuoteSpill(self.folder)

    def add(self, share: ListedShare, market: AssetMarket, chunk_rows: int) -> None:
        """Take a quote or a trade."""
        if not share.is_trade:
            self.quoted.add((market.fixture_id, market.key))
        self._held.append(share)
        if len(self._held) >= chunk_rows:
            self._flush()

    def _flush(self) -> None:
        self._spill.add(pl.DataFrame(self._held, schema=SHARES, orient="row"))
        self._held = []

    def parts(self, options: Options, account: ImportStats) -> Iterator[pl.DataFrame]:
        """Return ``TICKS`` of some whole fixtures at a time, in ascending order of fixture_id."""
        self._flush()
        kickoffs = {fixture.fixture_id: fixture.kickoff_ts_ms or 0 for fixture in self.assets.fixtures}
        markets = {(str(market.fixture_id), market.key): market for market in markets_of(self.assets)}
        keys = {asset: market.key for asset, market in self.assets.markets.items()}
        ids = {event: int(event) for event in self._spill.rows_of}
        for batch in batches(self._spill.rows_of, ids, options.chunk_rows):
            rows = self._spill.rows(batch).with_columns(market=pl.col("asset").replace_strict(keys)).sort(_ORDER)
            frames: list[pl.DataFrame] = []
            for (event, key), own in rows.group_by("event", "market", maintain_order=True):
                market = markets[str(event), str(key)]
                states = self._states(market, own, kickoffs[market.fixture_id], options, account)
                while some := list(islice(states, _STATES)):
                    frames.append(states_frame(some, len(frames) * _STATES))
            yield last_states(pl.concat(frames), account)

    def _states(
        self, market: AssetMarket, rows: pl.DataFrame, kickoff_ms: int, options: Options, account: ImportStats
    ) -> Iterator[State]:
        if (market.fixture_id, market.key) not in self.quoted:
            account.note("markets that serve to enter, not to close: a trade is no standing quote")
            age_s = TRADE_AGE_S if options.max_age_s is None else options.max_age_s
            yield from _traded(market, rows, age_s * 1000, account)
            return
        account.note("trades beside quotes of their market are left out", int(rows["is_trade"].sum()))
        last_ms = None
        for state in _quoted(market, rows.filter(~pl.col("is_trade")), account):
            last_ms = state.ts_ms if state.ts_ms < kickoff_ms and not state.suspended else last_ms
            yield state
        if last_ms is None or kickoff_ms - last_ms > CLOSE_WITHIN_S * 1000:
            account.note(
                f"markets that serve to enter, not to close: no quote in the last {CLOSE_WITHIN_S // 60} minutes before kickoff"
            )


def _quoted(market: AssetMarket, rows: pl.DataFrame, account: ImportStats) -> Iterator[State]:
    """Make a state of the quotes of each time; where an asset has none at that time the market is suspended."""
    for ts_ms, group in groupby(rows.iter_rows(named=True), key=lambda row: int(row["ts_ms"])):
        quotes: dict[str, Quote] = {}
        for row in group:
            said, first = Quote(row["bid"], row["ask"]), row["asset"] not in quotes
            if first:
                quotes[row["asset"]] = said
            elif quotes[row["asset"]] == said:
                account.note("quotes that repeat another were dropped")
            else:
                text = f"{row['asset']} is quoted {quotes[row['asset']]} and {said} at {ts_ms}"
                account.refuse(row["file"], row["line"], text, "an asset is quoted twice at one time")
        shares = ShareMarket(market.fixture_id, market.key, tuple(market.sides))
        for asset in market.assets:
            quote = quotes.get(asset)
            for side, opposite in market.sides_of(asset):
                shares.quote(side, quote.opposite if quote is not None and opposite else quote, ts_ms)
        if len(quotes) < len(market.assets):
            account.note("times at which an asset of a market has no quote are suspended")
        else:
            mids = sum((quotes[own].bid + quotes[own].ask) / 2 for own in market.assets)
            if len(market.assets) > 1:
                account.overround_bps[round((mids / WHOLE - 1) * 1000) * 10] += 1
        yield shares.state(in_running=False)


class _Last(NamedTuple):
    """The last trade of an asset."""

    ts_ms: int
    price: int
    takes_yes: bool


def _traded(market: AssetMarket, rows: pl.DataFrame, age_ms: int, account: ImportStats) -> Iterator[State]:
    """Make a state at each trade: the last trades of the sides, normalised, if none of them is too old."""
    last: dict[str, _Last] = {}
    repeated = pl.col("trade").is_not_null() & ~pl.struct("asset", "trade").is_first_distinct()
    account.note("trades that repeat another were dropped", rows.filter(repeated).height)
    for row in rows.filter(~repeated).iter_rows(named=True):
        ts_ms = int(row["ts_ms"])
        last[row["asset"]] = _Last(ts_ms, row["price"], row["takes_yes"])
        fresh = {asset: trade for asset, trade in last.items() if ts_ms - trade.ts_ms <= age_ms}
        yield _trade_state(market, ts_ms, fresh, account)


def _trade_state(market: AssetMarket, ts_ms: int, fresh: Mapping[str, _Last], account: ImportStats) -> State:
    sides = tuple(market.sides)
    head = partial(State, market.fixture_id, market.key, ts_ms, in_running=False, sides=sides)
    nothing = (None,) * len(sides)
    if len(fresh) < len(market.assets):
        account.note("trades while a side of their market has no fresh one are suspended")
        return head(prob_bps=nothing, odds_milli=nothing)
    weights = {side: _of(side, market, fresh).price for side in sides}
    shares = largest_remainder(weights)
    return head(
        prob_bps=tuple(shares[side] for side in sides),
        odds_milli=tuple(_taken_odds(_of(side, market, fresh)) for side in sides),
    )


def _of(side: str, market: AssetMarket, fresh: Mapping[str, _Last]) -> _Last:
    trade = fresh[market.sides[side]]
    return _Last(trade.ts_ms, WHOLE - trade.price, not trade.takes_yes) if side in market.opposite else trade


def _taken_odds(trade: _Last) -> int | None:
    """Return the odds at which a side was taken; where its other side was taken, nobody is known to have offered it."""
    return odds_milli(Decimal(trade.price) / WHOLE) if trade.takes_yes else None


def trade_price(price: Any, *, in_dollars: bool) -> int:
    """Return the price of a trade in millionths, which lies between nothing and the whole; dollars where the field says so.

    Raises
    ------
    ValueError
    """
    found = millionths(price) if in_dollars else price_millionths(price)
    if not 0 < found < WHOLE:
        raise ValueError(f"nothing is traded at {price!r}")
    return found


def taker(side: Any) -> bool:
    """Return whether the taker of a trade bought ``yes``.

    Raises
    ------
    ValueError
    """
    if side not in ("yes", "no"):
        raise ValueError(f"taker_side is yes or no, not {side!r:.80}")
    return bool(side == "yes")
