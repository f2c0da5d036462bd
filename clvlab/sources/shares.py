"""Shares of venues: the side of a market that each asset is, and ticks from quotes and trades of assets."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from clvlab.base.names import among
from clvlab.base.times import time_ms, zone_of
from clvlab.errors import SourceError
from clvlab.law.schema import TICKS, Schema
from clvlab.odds.integers import largest_remainder
from clvlab.packs.invariants import is_name
from clvlab.packs.manifest import Fixture, KickoffKind
from clvlab.sources.books import QuoteSpill, batches, number_messages
from clvlab.sources.exchange import WHOLE, Quote, ShareMarket, State, cents, millionths, odds_milli
from clvlab.sources.ladders import SpilledLadders
from clvlab.sources.source import ImportStats, Options, SourcePart, fixture_ids_of

# A mapping assigns each ticker or asset to a fixture, market and side, because the sources of shares do not.


_LISTED = 10
_YES, _NO = "yes", "no"
LEAVE_OUT = "leave-out"


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class _FixtureEntry(_StrictModel):
    """A fixture: the user's own id, names with the home team first, kickoff, and the sides of its markets."""

    id: str | int
    names: tuple[str, ...]
    kickoff: str | int | datetime
    markets: dict[str, dict[str, str]] = Field(min_length=1)

    @field_validator("markets", mode="before")
    @classmethod
    def _sides(cls, markets: Any) -> Any:
        """Read sides: YAML reads ``yes`` and ``no`` as true and false, and the number of an asset as a number."""
        if not isinstance(markets, Mapping):
            return markets
        return {
            key: {_word(side): _asset(asset) for side, asset in sides.items()} if isinstance(sides, Mapping) else sides
            for key, sides in markets.items()
        }


class _AssetEntries(_StrictModel):
    """Fixtures, the kind of their kickoffs, and the treatment of other assets."""

    fixtures: tuple[_FixtureEntry, ...] = ()
    kickoff_kind: KickoffKind = KickoffKind.SCHEDULED
    others: str | None = None
    columns: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_others(self) -> _AssetEntries:
        if self.others not in (None, LEAVE_OUT):
            raise ValueError(f"others is {LEAVE_OUT!r} or nothing, not {self.others!r:.80}")
        return self


def _word(name: Any) -> str:
    return {True: _YES, False: _NO}[name] if isinstance(name, bool) else str(name)


def _asset(value: Any) -> Any:
    """Return an asset, with a mark if the side is the asset's ``no``."""
    if isinstance(value, Mapping) and len(value) == 1 and _word(next(iter(value))) in (_YES, _NO):
        ((which, asset),) = value.items()
        return f"{_word(which)}:{asset}"
    return f"{_YES}:{value}" if isinstance(value, str | int) and not isinstance(value, bool) else value


@dataclass(frozen=True, slots=True)
class AssetMarket:
    """A market whose sides (side -> asset, in byte order) are shares; a side in ``opposite`` wins where its asset loses."""

    fixture_id: int
    key: str
    sides: Mapping[str, str]
    opposite: frozenset[str] = frozenset()

    @property
    def assets(self) -> frozenset[str]:
        return frozenset(self.sides.values())

    def sides_of(self, asset: str) -> tuple[tuple[str, bool], ...]:
        """Return the sides of an asset, and whether each is its opposite."""
        return tuple((side, side in self.opposite) for side, own in self.sides.items() if own == asset)


@dataclass(slots=True)
class AssetMap:
    """The markets of mapped assets, and the unknown assets; ``columns`` is meaning -> column of a table."""

    source: str
    fixtures: tuple[Fixture, ...]
    markets: Mapping[str, AssetMarket]
    kickoff: KickoffKind | None
    leaves_out: bool
    columns: Mapping[str, str]
    _unknown: Counter[str] = field(default_factory=Counter)
    _described: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)

    def describe(self, asset: str, event: str, names: tuple[str, ...]) -> None:
        """Record a source's description of an asset, from which missing lines of a mapping are suggested."""
        self._described.setdefault(asset, (event, names))

    def find(self, asset: str, account: ImportStats, count: int = 1) -> AssetMarket | None:
        """Return the market of an asset; if the mapping lacks the asset, count it and return ``None``."""
        market = self.markets.get(asset)
        if market is None:
            self._unknown[asset] += count
            if self.leaves_out:
                account.note(f"rows of assets that the mapping leaves out by `others: {LEAVE_OUT}`", count)
        return market

    def check(self) -> None:
        """Refuse assets that the mapping lacks, with the lines to add.

        Raises
        ------
        SourceError
            The mapping lacks some and does not leave them out; a market needs all of its sides.
        """
        if not self._unknown or self.leaves_out:
            return
        first = self._in_order()[0]
        lines = "\n".join(self._lines())
        raise SourceError(
            f"the mapping does not say which side of which market {first!r:.120} is"
            f"{f', nor {len(self._unknown) - 1:,} others' if len(self._unknown) > 1 else ''}: {self.source} needs a YAML file "
            f"of fixtures, as --mapping assets.yml, with the names and kickoffs that you know filled in\n{lines}\n"
            f"or with the line `others: {LEAVE_OUT}`, which leaves out what it does not name"
        )

    def _in_order(self) -> list[str]:
        """Return unknown assets, the described ones first."""
        return sorted(self._unknown, key=lambda asset: (asset not in self._described, asset))

    def _lines(self) -> list[str]:
        by_event: dict[str, list[str]] = {}
        for asset in self._in_order():
            by_event.setdefault(self._described.get(asset, (asset, ()))[0], []).append(asset)
        lines = ["fixtures:"]
        for event, assets in list(by_event.items())[:_LISTED]:
            names = self._described.get(assets[0], ("", ()))[1] or ("HOME", "AWAY")
            lines += [
                f"  - id: {json.dumps(event)}",
                f"    names: [{', '.join(json.dumps(name) for name in names)}]",
                "    kickoff: YYYY-MM-DDTHH:MM:SSZ",
                "    markets:",
                *(f"      {json.dumps(asset + '||')}: {{yes: {json.dumps(asset)}}}" for asset in assets),
            ]
        more = len(by_event) - _LISTED
        return [*lines, f"  # and {more:,} more"] if more > 0 else lines


def asset_map(source: str, options: Options) -> AssetMap:
    """Check a mapping of assets; without one the first asset is refused with the lines to write.

    Raises
    ------
    SourceError
        The mapping is not valid, a kickoff has no zone, or an asset or a fixture is in it twice.
    """
    raw = dict(options.mapping or {})
    if "fixtures" not in raw and raw.keys() & {"sides", "market"}:
        raise SourceError(f"{source} takes a mapping of fixtures, not of a table's columns: {', '.join(map(repr, raw))}")
    try:
        mapping = _AssetEntries.model_validate(raw)
    except ValidationError as error:
        raise SourceError(f"no mapping of assets: {_problem(error)}") from error
    ids = fixture_ids_of(str(one.id) for one in mapping.fixtures)
    if len(ids) != len(mapping.fixtures):
        twice = next(name for name, count in Counter(str(one.id) for one in mapping.fixtures).items() if count > 1)
        raise SourceError(f"the mapping lists the fixture {twice!r:.120} twice")
    markets: dict[str, AssetMarket] = {}
    fixtures = []
    for one in mapping.fixtures:
        fixture_id = ids[str(one.id)]
        fixtures.append(
            Fixture(fixture_id=fixture_id, names=one.names, source_id=str(one.id), kickoff_ts_ms=_kickoff(one, options))
        )
        for key, sides in one.markets.items():
            market = _market(fixture_id, key, sides)
            for asset in market.assets:
                if asset in markets:
                    raise SourceError(f"the mapping names {asset!r:.120} in {markets[asset].key!r} and in {key!r}")
                markets[asset] = market
    kickoff = KickoffKind.ACTUAL if mapping.kickoff_kind is KickoffKind.ACTUAL else None
    ordered = tuple(sorted(fixtures, key=lambda fixture: fixture.fixture_id))
    return AssetMap(source, ordered, markets, kickoff, mapping.others == LEAVE_OUT, mapping.columns)


def _problem(error: ValidationError) -> str:
    wrong = error.errors()[0]
    if wrong["type"] == "extra_forbidden":
        place, name = wrong["loc"][:-1], str(wrong["loc"][-1])
        return f"{name!r} is no key{among(name, _FixtureEntry.model_fields if place else _AssetEntries.model_fields)}"
    where = ".".join(str(part) for part in wrong["loc"])
    return f"{where}: {wrong['msg'].removeprefix('Value error, ')}" if where else wrong["msg"].removeprefix("Value error, ")


def _kickoff(one: _FixtureEntry, options: Options) -> int:
    text = one.kickoff.isoformat() if isinstance(one.kickoff, datetime) else one.kickoff
    try:
        return time_ms(text, zone_of(options.time_zone))
    except ValueError as error:
        raise SourceError(f"the kickoff of {str(one.id)!r:.120} in the mapping: {error}") from error


def _market(fixture_id: int, key: str, assets: Mapping[str, str]) -> AssetMarket:
    """Return a market; if it has only the ``yes`` of an asset, it also gets the asset's ``no``."""
    marked = dict(assets)
    if list(marked) == [_YES]:
        marked[_NO] = f"{_NO}:{marked[_YES].partition(':')[2]}"
    split = {side: (asset.partition(":")[2], asset.startswith(f"{_NO}:")) for side, asset in marked.items()}
    wrong = next((name for name in (key, *split) if not is_name(name)), None)
    if wrong is not None:
        raise SourceError(f"the mapping names a market or side {wrong!r:.80}, which no pack can hold")
    if len(split) < 2:
        raise SourceError(f"the market {key!r} of the mapping needs at least two sides, or the side `yes` alone")
    if len(set(split.values())) != len(split):
        raise SourceError(f"two sides of {key!r} in the mapping are the same share; the other side of one is {{no: ASSET}}")
    ordered = sorted(split.items(), key=lambda item: item[0].encode())
    return AssetMarket(
        fixture_id,
        key,
        {side: asset for side, (asset, _) in ordered},
        frozenset(side for side, (_, is_no) in ordered if is_no),
    )


def markets_of(assets: AssetMap) -> Iterable[AssetMarket]:
    """Return every market once, by fixture and key."""
    once = {(market.fixture_id, market.key): market for market in assets.markets.values()}
    return [once[key] for key in sorted(once)]


# States of markets become ticks: they are spilled to disk on arrival, then numbered a few fixtures after another.


_SCHEMA = TICKS | {"event": pl.String, "place": pl.Int64}
_AT = ("fixture_id", "market_key", "ts_ms")


class StateSpill:
    """Keeps states on disk, and ``ladders`` where they are kept; of several states of a market at one time the last counts."""

    def __init__(self, folder: Path, ladders: SpilledLadders | None = None) -> None:
        self.ladders = ladders
        self._spill = QuoteSpill(folder)
        self._place = 0
        self._held: list[State] = []

    def add(self, states: Iterable[State], chunk_rows: int) -> None:
        self._held += states
        if len(self._held) * 2 >= chunk_rows:
            self._flush()

    def _flush(self) -> None:
        if self._held:
            self._spill.add(states_frame(self._held, self._place))
            self._place += len(self._held)
            self._held = []
            if self.ladders is not None:
                self.ladders.flush()

    def parts(self, options: Options, account: ImportStats) -> Iterator[SourcePart]:
        """Return whole fixtures in parts, in ascending order of fixture_id."""
        self._flush()
        ids = {event: int(event) for event in self._spill.rows_of}
        for batch in batches(self._spill.rows_of, ids, options.chunk_rows):
            ticks = last_states(self._spill.rows(batch), account)
            yield SourcePart(ticks, ladders=None if self.ladders is None else self.ladders.rows(batch, ticks))


def states_frame(states: Iterable[State], place: int = 0) -> pl.DataFrame:
    """Return states, counted from ``place``, as ``TICKS`` without number, with event and place."""
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
    """Return ``TICKS`` from states of whole fixtures; of several states of a market at one time the last counts."""
    last = states.filter(pl.col("place") == pl.col("place").max().over(_AT))
    account.note("states that another of the same time followed", states["place"].n_unique() - last["place"].n_unique())
    for suspended, count in last.group_by("suspended").agg(pl.col("place").n_unique()).iter_rows():
        account.books[0 if suspended else 1] += count
    return number_messages(last)


# Each row is a quote or a trade of an asset; prices are in millionths of a share's payout. ``order`` sorts trades of one
# millisecond across files, and ``trade`` is the source's own id of a trade.
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
_STATES = 20_000
_ORDER = ("event", "market", "ts_ms", "order", "trade", "asset", "price", "takes_yes", "file", "line")


class ListedShare(NamedTuple):
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
    """A trade of an asset: time in milliseconds and in microseconds, price, whether the taker bought ``yes``, and id."""

    ts_ms: int
    ts_us: int
    price: int
    takes_yes: bool
    trade: str | None

    def share(self, asset: str, file: str, line: int) -> ListedShare:
        """Return its row, without event."""
        return ListedShare("", asset, self.ts_ms, is_trade=True, bid=None, ask=None, price=self.price, takes_yes=self.takes_yes,
                     order=self.ts_us, trade=self.trade, file=file, line=line)  # fmt: skip


def quote_share(asset: str, ts_ms: int, quote: Quote, file: str, line: int) -> ListedShare:
    """Return the row of a quote, without event."""
    return ListedShare("", asset, ts_ms, is_trade=False, bid=quote.bid, ask=quote.ask, price=None, takes_yes=None, order=0,
                 trade=None, file=file, line=line)  # fmt: skip


def price_millionths(price: object) -> int:
    """Return a price in millionths: whole numbers are cents, texts and fractions are dollars.

    Raises
    ------
    ValueError
        The value is not a price, or may be in cents or in dollars.

    Examples
    --------
    >>> price_millionths(44), price_millionths("0.4400"), price_millionths(0.44), price_millionths("44.0")
    (440000, 440000, 440000, 440000)
    """
    if isinstance(price, int) and not isinstance(price, bool):
        return cents(price)
    if isinstance(price, float) and price == 1:
        raise ValueError("1.0 may be one cent or one dollar: write cents as whole numbers, and dollars as texts")
    if isinstance(price, float) and 1 < price <= 100 and price.is_integer():
        return cents(int(price))
    if isinstance(price, str) and price.strip().isdecimal() and len(price.strip()) <= 3:
        return price_millionths(int(price))
    if isinstance(price, str) and "." in price and price.partition(".")[0].strip() not in ("", "0", "1"):
        whole, _, rest = price.strip().partition(".")
        if not rest.strip("0") and whole.isdecimal():
            return price_millionths(int(whole))
    return millionths(price)


@dataclass(slots=True)
class ShareSpill:
    """Keeps quotes and trades on disk, and makes ticks of them; trades of ``quoted`` markets are left out."""

    assets: AssetMap
    folder: Path
    quoted: set[tuple[int, str]] = field(default_factory=set)
    _spill: QuoteSpill = field(init=False)
    _held: list[ListedShare] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._spill = QuoteSpill(self.folder)

    def add(self, share: ListedShare, market: AssetMarket, chunk_rows: int) -> None:
        if not share.is_trade:
            self.quoted.add((market.fixture_id, market.key))
        self._held.append(share)
        if len(self._held) >= chunk_rows:
            self._flush()

    def _flush(self) -> None:
        self._spill.add(pl.DataFrame(self._held, schema=SHARES, orient="row"))
        self._held = []

    def parts(self, options: Options, account: ImportStats) -> Iterator[pl.DataFrame]:
        """Return ``TICKS`` of whole fixtures in parts, in ascending order of fixture_id."""
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
            yield from _trade_states(market, rows, age_s * 1000, account)
            return
        account.note("trades of markets with quotes are left out", int(rows["is_trade"].sum()))
        last_ms = None
        for state in _quote_states(market, rows.filter(~pl.col("is_trade")), account):
            last_ms = state.ts_ms if state.ts_ms < kickoff_ms and not state.suspended else last_ms
            yield state
        if last_ms is None or kickoff_ms - last_ms > CLOSE_WITHIN_S * 1000:
            account.note(
                f"markets that serve to enter, not to close: no quote in the last {CLOSE_WITHIN_S // 60} minutes before kickoff"
            )


def _quote_states(market: AssetMarket, rows: pl.DataFrame, account: ImportStats) -> Iterator[State]:
    """Return a state per time of quotes; the market is suspended if an asset has none."""
    for ts_ms, group in groupby(rows.iter_rows(named=True), key=lambda row: int(row["ts_ms"])):
        quotes: dict[str, Quote] = {}
        for row in group:
            quote, first = Quote(row["bid"], row["ask"]), row["asset"] not in quotes
            if first:
                quotes[row["asset"]] = quote
            elif quotes[row["asset"]] == quote:
                account.note("quotes that repeat another were dropped")
            else:
                text = f"{row['asset']} is quoted {quotes[row['asset']]} and {quote} at {ts_ms}"
                account.refuse(row["file"], row["line"], text, "an asset is quoted twice at one time")
        shares = ShareMarket(market.fixture_id, market.key, tuple(market.sides))
        for asset in market.assets:
            last = quotes.get(asset)
            for side, opposite in market.sides_of(asset):
                shares.quote(side, last.opposite if last is not None and opposite else last, ts_ms)
        if len(quotes) < len(market.assets):
            account.note("times at which an asset of a market has no quote are suspended")
        else:
            mids = sum((quotes[own].bid + quotes[own].ask) / 2 for own in market.assets)
            if len(market.assets) > 1:
                account.overround_bps[round((mids / WHOLE - 1) * 1000) * 10] += 1
        yield shares.state(in_running=False)


class _Last(NamedTuple):
    ts_ms: int
    price: int
    takes_yes: bool


def _trade_states(market: AssetMarket, rows: pl.DataFrame, age_ms: int, account: ImportStats) -> Iterator[State]:
    """Return a state per trade: the sides' last trades, normalised, if all are recent enough."""
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
        odds_milli=tuple(_ask_odds(_of(side, market, fresh)) for side in sides),
    )


def _of(side: str, market: AssetMarket, fresh: Mapping[str, _Last]) -> _Last:
    trade = fresh[market.sides[side]]
    return _Last(trade.ts_ms, WHOLE - trade.price, not trade.takes_yes) if side in market.opposite else trade


def _ask_odds(trade: _Last) -> int | None:
    """Return the odds at which a side was bought; a trade of the other side does not show an offer of this one."""
    return odds_milli(Decimal(trade.price) / WHOLE) if trade.takes_yes else None


def trade_price(price: Any, *, in_dollars: bool) -> int:
    """Return the price of a trade in millionths, strictly between 0 and 1; in dollars if the field says so."""
    found = millionths(price) if in_dollars else price_millionths(price)
    if not 0 < found < WHOLE:
        raise ValueError(f"nothing is traded at {price!r}")
    return found


def taker(side: Any) -> bool:
    """Return whether the taker of a trade bought ``yes``."""
    if side not in ("yes", "no"):
        raise ValueError(f"taker_side is yes or no, not {side!r:.80}")
    return bool(side == "yes")
