"""Messages of Betfair's stream: a market's book, its states, and their form in a pack."""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt
import orjson

from clvlab.base.times import LAST_MS, of_iso
from clvlab.law.markets import compose_key
from clvlab.law.schema import ClosingPolicy
from clvlab.odds.consensus import PROB_UNIT, basis_points
from clvlab.packs.ladders import LEVEL_COUNT
from clvlab.packs.manifest import Fixture, KickoffKind
from clvlab.sources.capture.source import Source
from clvlab.sources.clock import ProviderClock
from clvlab.sources.exchange import State
from clvlab.sources.ladders import Floats, Ints, LadderSink
from clvlab.sources.source import fixture_id_of

# Fields read from Betfair's messages: any may be missing or of another type until checked.


class RunnerDefinition(TypedDict, total=False):
    id: int
    hc: float | None
    name: str | None
    status: str
    sortPriority: int  # only the stand-in server writes it; no code reads it


class MarketDefinition(TypedDict, total=False):
    eventId: str
    eventTypeId: str
    eventName: str | None
    marketType: str | None
    bettingType: str | None
    numberOfWinners: int
    marketTime: str
    status: str
    inPlay: bool
    runners: Sequence[RunnerDefinition]


class MarketChange(TypedDict, total=False):
    """A change of a market; entries of ``rc`` name a runner and deltas of its ladders."""

    id: str
    img: bool
    marketDefinition: MarketDefinition
    rc: Sequence[Mapping[str, Any]]


class StreamMessage(TypedDict, total=False):
    """A line of the stream, or of a historical file."""

    op: str
    id: int
    pt: int
    clk: str | None
    initialClk: str | None
    ct: str
    segmentType: str
    status: int | None
    statusCode: str
    errorCode: str
    mc: Sequence[MarketChange]


_MAX_SPREAD = 0.1
_MAX_PRICE = 1000.0
_LEVELS = {"atb": 0, "atl": 0, "batb": 1, "batl": 1, "bdatb": 1, "bdatl": 1}  # number of fields before price and size


@dataclass(slots=True)
class Ladder:
    """Offers on one side of a runner, by price, or by level if only the best are delivered."""

    is_back: bool
    sizes: dict[float, float] = field(default_factory=dict)
    levels: dict[int, float] = field(default_factory=dict)
    best: float | None = None

    def change(self, deltas: Iterable[list[float]]) -> None:
        """Apply [price, size] deltas of the full ladder; size 0 deletes."""
        if self.levels:
            self.levels.clear()
        sizes, best, is_back, is_lost = self.sizes, self.best, self.is_back, False
        for price, size in deltas:
            if not size:
                if sizes.pop(price, None) and price == best:
                    is_lost = True
                continue
            sizes[price] = size
            if best is None or (price > best if is_back else price < best):
                best, is_lost = price, False
            elif price == best:
                is_lost = False
        if is_lost:
            best = (max if is_back else min)(sizes, default=None)
        self.best = best

    def change_best(self, delta: Mapping[str, Any], best: str, virtual: str) -> None:
        """Apply [level, price, size] deltas of the best or else the virtual best offers; size 0 empties the level."""
        name = best if best in delta else virtual
        if name not in delta or (self.sizes and not self.levels):
            return
        for level, price, size in delta[name]:
            if size:
                self.levels[int(level)] = price
            else:
                self.levels.pop(int(level), None)
        self.sizes = dict.fromkeys(self.levels.values(), 1.0)
        self.best = (max if self.is_back else min)(self.sizes, default=None)


@dataclass(slots=True)
class Runner:
    """A selection: whether it runs, its offers and its last traded price."""

    number: int
    status: str = "ACTIVE"
    name: str | None = None
    back: Ladder = field(default_factory=lambda: Ladder(is_back=True))
    lay: Ladder = field(default_factory=lambda: Ladder(is_back=False))
    last_traded: float | None = None

    def change(self, delta: Mapping[str, Any]) -> bool:
        """Apply one ``rc`` entry, and return whether the prices may differ.

        It has full ladders, or else the best levels, or else the virtual best levels.
        """
        back, lay, last_traded = self.back, self.lay, self.last_traded
        before = back.best, lay.best
        if "atb" in delta:
            back.change(delta["atb"])
        else:
            back.change_best(delta, "batb", "bdatb")
        if "atl" in delta:
            lay.change(delta["atl"])
        else:
            lay.change_best(delta, "batl", "bdatl")
        if delta.get("ltp"):
            self.last_traded = float(delta["ltp"])
        return (back.best, lay.best) != before or self.last_traded != last_traded


_FULLNESS = {False: ("atb", "batb", "bdatb"), True: ("atl", "batl", "bdatl")}
_LEAST = 0.005  # a smaller size rounds to nothing
_NEAR = 1.5  # from this price on, a size of a cent to lay is a stake of a cent


@dataclass(slots=True)
class _Offers:
    """Offers on one side of a runner with their sizes, as the fullest kind of messages states them since the last image.

    The kinds are the whole ladder, by price, the best offers and the best with virtual ones, by level.
    """

    is_lay: bool
    number: int = -1  # of the ladder in a log
    kind: int = 2
    sizes: dict[float, float] = field(default_factory=dict)
    prices: list[float] = field(default_factory=list)  # those of ``sizes``, ascending
    best: dict[int, tuple[float, float]] = field(default_factory=dict)
    close_from: float = math.inf  # the least price to lay that has the rounded odds of the next one

    def change(self, kind: int, deltas: Iterable[Any]) -> None:
        """Apply deltas of a kind, at least as full as the kinds so far."""
        if kind < self.kind:  # a fuller kind states everything from its start
            self.kind, self.sizes, self.prices, self.best, self.close_from = kind, {}, [], {}, math.inf
        if not kind:
            sizes, prices = self.sizes, self.prices
            for price, size in deltas:
                if size and size >= _LEAST:
                    if price not in sizes:
                        at = bisect_left(prices, price)
                        prices.insert(at, price)
                        if self.is_lay:
                            self._compare(at)
                    sizes[price] = size
                elif sizes.pop(price, None):
                    del prices[bisect_left(prices, price)]
            return
        for level, price, size in deltas:
            if size and size >= _LEAST:
                self.best[level] = price, size
            else:
                self.best.pop(level, None)
        self.sizes = dict(offer for _, offer in sorted(self.best.items(), reverse=True))  # of one price the better level counts
        self.prices, self.close_from = sorted(self.sizes), 0.0

    def _compare(self, at: int) -> None:
        """Compare a new price to lay with its neighbours: the odds a / (a - 1) and b / (b - 1) should differ by 0.001."""
        for a, b in pairwise(self.prices[max(0, at - 1) : at + 2]):
            if 1000 * (b - a) < (a - 1) * (b - 1):
                self.close_from = min(self.close_from, a)

    def ordered(self) -> tuple[list[float], list[float]]:
        """Return prices and sizes, the best first: those that make the levels of a ladder."""
        prices = self.prices
        if not self.is_lay:
            found = prices[: -LEVEL_COUNT - 1 : -1]
        elif len(prices) > LEVEL_COUNT and prices[0] >= _NEAR and prices[LEVEL_COUNT - 1] < self.close_from:
            found = prices[:LEVEL_COUNT]
        else:
            found = prices
        sizes = self.sizes
        return found, [sizes[price] for price in found]


def backed(prices: Floats, sizes: Floats) -> tuple[Ints, Ints]:
    """Return odds x 1000 and stakes in cents of offers to back."""
    return np.rint(prices * 1000).astype(np.int64), np.floor(sizes * 100 + 0.5).astype(np.int64)


def against(prices: Floats, sizes: Floats) -> tuple[Ints, Ints]:
    """Return odds x 1000 and stakes in cents at which the contrary of a runner can be backed, by taking offers to lay it.

    An offer to lay at the odds L, of the size s, takes the stake s x (L - 1), which wins s.
    """
    milli, cents = backed(prices, sizes)
    return np.rint(prices / (prices - 1) * 1000).astype(np.int64), (cents * (milli - 1000) + 500) // 1000


class Depth:
    """The offers of a market's runners with their sizes, and the ladders that changed since they were last taken.

    Where each runner is a market of its own (``by_runner``), the offers to lay it are those of its side ``no``. Otherwise no
    side is the contrary of a runner, and they are left out.
    """

    def __init__(self, *, by_runner: bool) -> None:
        self._by_runner = by_runner
        self._kinds = [(is_lay, _FULLNESS[is_lay]) for is_lay in ((False, True) if by_runner else (False,))]
        self._offers: dict[tuple[str, bool], _Offers] = {}
        self.changed: dict[tuple[str, bool], _Offers] = {}
        self._is_known = True

    def change(self, runner: str, delta: Mapping[str, Any]) -> None:
        """Apply one ``rc`` entry of a runner, unless its offers are not known."""
        for is_lay, names in self._kinds if self._is_known else ():
            for kind, name in enumerate(names):
                if name in delta:
                    key = runner, is_lay
                    offers = self._offers.get(key)
                    if offers is None:
                        offers = self._offers[key] = _Offers(is_lay)
                    if kind <= offers.kind:
                        offers.change(kind, delta[name])
                        self.changed[key] = offers
                    break

    def reset(self, *, is_known: bool) -> None:
        """Empty every ladder: an image follows, or the offers are not known until the next one."""
        self._is_known = is_known
        self._offers = {key: _Offers(own.is_lay, own.number) for key, own in self._offers.items()}
        self.changed = dict(self._offers)

    def take(self) -> Iterable[tuple[tuple[str, bool], _Offers]]:
        """Return and forget the changed ladders, each with what ``named`` takes."""
        changed, self.changed = self.changed, {}
        return changed.items()

    def named(self, ladder: tuple[str, bool]) -> tuple[str, str]:
        """Return the parameters of the market's key and the side of a ladder."""
        runner, is_lay = ladder
        return (f"selection={runner}", "no" if is_lay else "yes") if self._by_runner else ("", runner)


@lru_cache(maxsize=1 << 14)
def prices(back: float | None, lay: float | None, last_traded: float | None) -> tuple[int, int, int]:
    """Return the probability in ``PROB_UNIT`` and odds x 1000 for and against a runner; -1 without a price.

    The probability comes from the mid of best back and lay. If an offer is missing or the two are far apart, it comes from
    the last traded price.
    """
    if back is not None and lay is not None and 1 / back - 1 / lay <= _MAX_SPREAD:
        prob = (1 / back + 1 / lay) / 2
    else:
        prob = -1.0 if last_traded is None else 1 / last_traded
    return (
        round(prob * PROB_UNIT) if 0.0 < prob < 1.0 else -1,
        -1 if back is None else round(back * 1000),
        -1 if lay is None else round(lay / (lay - 1) * 1000),
    )


Column = npt.NDArray[np.int64]


@dataclass(slots=True)
class States:
    """A market at each time; ``prices`` (see ``prices``) and ``active`` have a column per runner."""

    ts_ms: array[int] = field(default_factory=lambda: array("q"))
    open: bytearray = field(default_factory=bytearray)
    in_play: bytearray = field(default_factory=bytearray)
    prices: tuple[array[int], ...] = field(default_factory=lambda: (array("q"), array("q"), array("q")))
    active: bytearray = field(default_factory=bytearray)

    def put(self, ts_ms: int, now: States) -> None:
        """Add a single state; it replaces an earlier one of the same time."""
        if self.ts_ms and self.ts_ms[-1] == ts_ms:
            width = len(now.active)
            del self.ts_ms[-1], self.open[-1], self.in_play[-1], self.active[-width:]
            for column in self.prices:
                del column[-width:]
        self.ts_ms.append(ts_ms)
        self.open += now.open
        self.in_play += now.in_play
        self.active += now.active
        for column, values in zip(self.prices, now.prices, strict=True):
            column.extend(values)

    def widen(self, by: int) -> None:
        """Add columns for runners that did not run so far."""
        n = len(self.ts_ms)
        self.prices = tuple(
            array("q", np.pad(matrix, ((0, 0), (0, by)), constant_values=-1).tobytes()) for matrix in self.matrices()
        )
        active = np.frombuffer(bytes(self.active), np.uint8).reshape(n, -1)
        self.active = bytearray(np.pad(active, ((0, 0), (0, by))).tobytes())

    def matrices(self) -> tuple[Column, ...]:
        """Return ``prices`` as (states, runners); needs at least one state."""
        return tuple(np.frombuffer(bytes(column), np.int64).reshape(len(self.ts_ms), -1) for column in self.prices)


class CheckedChange(NamedTuple):
    """A valid change of a market; the definition's runners are named by key."""

    definition: MarketDefinition | None
    named: Mapping[str, RunnerDefinition]
    deltas: list[tuple[str, Mapping[str, Any]]]
    is_image: bool


@dataclass(slots=True)
class MarketBook:
    """A market, its newest and ``first`` definition, and its states since they were last taken.

    Attributes
    ----------
    off_ms, suspended_ms
        Time of the first definition in play, and start of the suspension that still lasts.
    removed, grew
        Whether a runner was removed while the market was open, or joined after states had been taken.
    keeps_depth, depth
        Whether ladders are kept, and then the offers with their sizes, from the first definition on.
    """

    market_id: str
    definition: MarketDefinition = field(default_factory=MarketDefinition)
    first: MarketDefinition = field(default_factory=MarketDefinition)
    first_ms: int = 0
    runners: dict[str, Runner] = field(default_factory=dict)
    now: States = field(default_factory=States)
    states: States = field(default_factory=States)
    off_ms: int | None = None
    suspended_ms: int | None = None
    removed: bool = False
    grew: bool = False
    keeps_depth: bool = False
    depth: Depth | None = None
    _taken: bool = False

    def take(self) -> States:
        """Return and forget the states since the last call."""
        states, self.states, self._taken = self.states, States(), True
        return states

    def apply(self, change: MarketChange, ts_ms: int) -> None:
        """Apply one market change, and record the state after it.

        Raises
        ------
        ValueError, KeyError, TypeError, AttributeError
            The change does not belong to this market; nothing was applied.
        """
        self.put(self.check(change), ts_ms)

    def check(self, change: MarketChange, coming: Set[str] = frozenset()) -> CheckedChange:
        """Return a valid change; ``coming`` are runners of definitions that will be applied before it.

        Raises
        ------
        ValueError, KeyError, TypeError, AttributeError
            The change does not belong to this market.
        """
        definition = change.get("marketDefinition")
        if definition is None and not self.definition and not coming:
            raise ValueError(f"market {self.market_id} changes before it is defined")
        named = {} if definition is None else _checked_definition(definition)
        known = self.runners.keys() | named.keys() | coming if named or coming else self.runners.keys()
        return CheckedChange(definition, named, _checked_deltas(change.get("rc", ()), known), bool(change.get("img")))

    def put(self, change: CheckedChange, ts_ms: int) -> None:
        definition, named, deltas, is_image = change
        if definition is not None:
            self._define(definition, named, ts_ms)
        if is_image:
            for runner in self.runners.values():
                runner.back, runner.lay, runner.last_traded = Ladder(is_back=True), Ladder(is_back=False), None
                self._price(runner)
            if self.depth is not None:
                self.depth.reset(is_known=True)
        for key, delta in deltas:
            runner = self.runners[key]
            if runner.change(delta):
                self._price(runner)
            if self.depth is not None:
                self.depth.change(key, delta)
        self.states.put(ts_ms, self.now)

    def _price(self, runner: Runner) -> None:
        prob, odds_milli, no_odds_milli = self.now.prices
        n = runner.number
        prob[n], odds_milli[n], no_odds_milli[n] = prices(runner.back.best, runner.lay.best, runner.last_traded)

    def _define(self, definition: MarketDefinition, named: Mapping[str, RunnerDefinition], ts_ms: int) -> None:
        before = self.definition
        if not before:
            self.first, self.first_ms = definition, ts_ms
            self.depth = Depth(by_runner=by_runner(self)) if self.keeps_depth else None
        self._enter([key for key in named if key not in self.runners])
        for key, runner in named.items():
            known = self.runners[key]
            known.status, known.name = runner["status"], runner.get("name") or known.name
        was_open = before.get("status") == "OPEN" and not before.get("inPlay")
        if definition["inPlay"] and self.off_ms is None:
            self.off_ms = ts_ms
        if was_open and definition["status"] in ("SUSPENDED", "CLOSED"):
            self.suspended_ms = ts_ms
        elif definition["status"] == "OPEN":
            self.suspended_ms = None
        self.definition = definition
        is_open = definition["status"] == "OPEN"
        self.now.open, self.now.in_play = bytearray([is_open]), bytearray([bool(definition["inPlay"])])
        self.now.active = bytearray(runner.status == "ACTIVE" for runner in self.runners.values())
        self.removed = self.removed or (is_open and not all(self.now.active))

    def _enter(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.runners[key] = Runner(len(self.runners))
            for column in self.now.prices:
                column.append(-1)
        if keys and self.states.ts_ms:
            self.states.widen(len(keys))
        self.grew = self.grew or (bool(keys) and self._taken)


def _checked_definition(definition: MarketDefinition) -> dict[str, RunnerDefinition]:
    """Return the runners of a definition by key, with the fields that are read checked."""
    for key in ("status", "inPlay", "marketTime", "eventId", "runners", "eventTypeId"):
        if key not in definition:
            raise KeyError(key)
    of_iso(definition["marketTime"])
    if int(definition.get("numberOfWinners", 1)) < 0:
        raise ValueError(f"numberOfWinners {definition['numberOfWinners']!r} is not a valid count")
    for key in ("status", "eventName", "marketType", "bettingType"):
        if not isinstance(definition.get(key), str | None):
            raise ValueError(f"{key} {definition.get(key)!r} is no text")
    named = {_key(runner): runner for runner in definition["runners"]}
    for runner in named.values():
        if not isinstance(runner["status"], str) or not isinstance(runner.get("name"), str | None):
            raise ValueError(f"status or name of runner {runner['id']!r} is no text")
    return named


def _checked_deltas(deltas: Iterable[Mapping[str, Any]], known: Set[str]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return changes by runner key; unknown runners and invalid offers are refused."""
    found = []
    for delta in deltas:
        key = _key(delta) if delta.get("hc") else str(delta["id"])
        if key not in known:
            raise KeyError(key)
        for name, offers in delta.items():
            if name in _LEVELS:
                is_full = not _LEVELS[name]
                for offer in offers:
                    if not (  # most offers are sound, which is seen here without a call
                        is_full
                        and type(offer) is list
                        and len(offer) == 2
                        and type(offer[0]) is float
                        and (not offer[1] or (1.0 < offer[0] <= _MAX_PRICE and offer[1] > 0))
                    ):
                        _check_offer(name, offer)
        if delta.get("ltp") and not 1.0 < delta["ltp"] <= _MAX_PRICE:
            raise ValueError(f"a last traded price of {delta['ltp']} is not a valid price")
        found.append((key, delta))
    return found


def _check_offer(name: str, offer: Sequence[float]) -> None:
    price, size = offer[-2:]
    if type(price) not in (int, float):
        raise ValueError(f"a price of {price!r} is no number")
    if size and not (1.0 < price <= _MAX_PRICE and size > 0):
        raise ValueError(f"an offer of {size} at {price} is not a valid offer")
    if len(offer) != 2 + _LEVELS[name] or (_LEVELS[name] and type(offer[0]) is not int):
        raise ValueError(f"{offer} is not a valid offer of {name}")


def _key(entry: Mapping[str, Any]) -> str:
    handicap = entry.get("hc") or 0
    return f"{entry['id']}@{handicap:g}" if handicap else str(entry["id"])


# The form of a Betfair market in a pack: its fixture, its key, its sides, and their prices at each time.


PLAIN = re.compile(r"\d+\.\d+")


MARGIN = "multiplicative"


CONSENSUS = "mid of best back and lay, or last traded; price is the best back"


NO_OFF = "fixtures whose off is not in the files close at the planned time"


_RACING = {"7", "4339"}  # in racing an event is a meeting, and each of its start times is a race


def event_of(definition: MarketDefinition) -> str:
    """Return the event of a market, by its first definition."""
    event, racing = str(definition["eventId"]), str(definition["eventTypeId"]) in _RACING
    return f"{event}@{definition['marketTime']}" if racing else event


def is_readable(book: MarketBook) -> bool:
    """Return whether the prices of a market are odds."""
    return book.first.get("bettingType") in (None, "ODDS")


def by_runner(book: MarketBook) -> bool:
    """Return whether each runner is a market of its own."""
    return int(book.first.get("numberOfWinners", 1)) != 1


def kind_of(book: MarketBook) -> str:
    """Return a market's type, the start of its key."""
    return str(book.definition.get("marketType") or "UNKNOWN")


def key_of(kind: str, market_id: str, *, alone: bool) -> str:
    """Return a market's key; it includes the market's id if the event has several markets of the kind."""
    return compose_key(kind, market=None if alone else market_id)


def with_parameters(key: str, parameters: str) -> str:
    return key + ("|" if parameters and not key.endswith("||") else "") + parameters


@dataclass(frozen=True, slots=True)
class Times:
    """Times of a market: first seen, start as first scheduled, off, and last suspension."""

    market_id: str
    name: str | None
    first_ms: int
    planned_ms: int
    off_ms: int | None
    suspended_ms: int | None


def times_of(book: MarketBook) -> Times:
    return Times(
        market_id=book.market_id,
        name=book.definition.get("eventName"),
        first_ms=book.first_ms,
        planned_ms=of_iso(book.first["marketTime"]),
        off_ms=book.off_ms,
        suspended_ms=book.suspended_ms,
    )


def has_off(markets: Sequence[Times]) -> bool:
    return any(market.off_ms is not None or market.suspended_ms is not None for market in markets)


def fixture_of(event: str, fixture_id: int, markets: Sequence[Times]) -> Fixture:
    """Return the fixture of an event; it begins at the first off, else at the last suspension, else as scheduled."""
    offs = [market.off_ms for market in markets if market.off_ms is not None]
    ends = [market.suspended_ms for market in markets if market.suspended_ms is not None]
    name = next((market.name for market in markets if market.name), None)
    return Fixture(
        fixture_id=fixture_id,
        names=(name,) if name else (),
        source_id=event,
        kickoff_ts_ms=min(offs) if offs else max(ends, default=max(market.planned_ms for market in markets)),
        scheduled_ts_ms=min(markets, key=lambda market: (market.first_ms, market.market_id)).planned_ms,
    )


class SideColumn(NamedTuple):
    """One side at each time; ``parameters`` end the market's key, and -1 is a missing price."""

    parameters: str
    side: str
    prob_bps: Column
    odds_milli: Column
    suspended: npt.NDArray[np.bool_]


class Prices(NamedTuple):
    """A market's sides in byte order, the number of open but unpriced states, and the priced states' sums in ``PROB_UNIT``."""

    columns: list[SideColumn]
    lacking: int
    totals: Column


def side_prices(book: MarketBook, states: States, sides: Sequence[str] | None = None) -> Prices:
    """Return the sides' prices in a market's states, at least one.

    ``sides`` are the runners to price, in byte order, all if ``None``. A state is suspended if a runner outside ``sides`` runs.
    """
    sides = sorted(book.runners, key=str.encode) if sides is None else sides
    order = [book.runners[side].number for side in sides]
    prob, odds, no_odds = (matrix[:, order] for matrix in states.matrices())
    open_ = np.frombuffer(states.open, np.bool_)
    all_running = np.frombuffer(states.active, np.bool_).reshape(len(open_), -1)
    running = all_running[:, order]
    if by_runner(book):
        return _runner_markets(sides, prob, (no_odds, odds), running & open_[:, None])
    others = all_running.sum(axis=1) > running.sum(axis=1)
    is_priced = open_ & ((prob > 0) | ~running).all(axis=1) & (running.sum(axis=1) > 1) & ~others
    raw = np.where(running, prob, 0)
    bps = np.full(prob.shape, -1, dtype=np.int64)
    bps[is_priced] = np.where(running[is_priced], basis_points(raw[is_priced]), -1)
    odds = np.where(is_priced[:, None] & running, odds, -1)
    columns = [SideColumn("", side, bps[:, n], odds[:, n], ~is_priced) for n, side in enumerate(sides)]
    return Prices(columns, int((open_ & ~is_priced).sum()), raw[is_priced].sum(axis=1))


def _runner_markets(sides: Sequence[str], prob: Column, odds: tuple[Column, Column], running: npt.NDArray[np.bool_]) -> Prices:
    columns = []
    for n, side in enumerate(sides):
        is_priced = running[:, n] & (prob[:, n] > 0)
        both = np.stack([PROB_UNIT - prob[:, n], prob[:, n]], axis=1)
        bps = np.full(both.shape, -1, dtype=np.int64)
        bps[is_priced] = basis_points(both[is_priced])
        columns += [
            SideColumn(f"selection={side}", name, bps[:, k], np.where(is_priced, odds[k][:, n], -1), ~is_priced)
            for k, name in enumerate(("no", "yes"))
        ]
    return Prices(columns, 0, np.zeros(0, dtype=np.int64))


_LATE = "states of markets that a runner came into late"
_TWIN = "markets whose kind came up again in their event"
_Change = tuple[str, CheckedChange]


@dataclass(slots=True)
class _Market:
    """A market, its key and sides; ``keys`` are those of its earlier ticks."""

    book: MarketBook
    event: str
    fixture_id: int
    key: str | None = None
    sides: tuple[str, ...] = ()
    keys: set[str] = field(default_factory=set)


class BetfairReader:
    """Reads ``mcm`` messages into the states that the importer makes of a file of them.

    In a capture, states of one time are held until a later time comes. Then the last state of each market counts, in key order.
    For a run (``live``) every message counts on arrival. An import knows the whole file before the first tick. Three cases
    therefore differ from an import, and are counted:

    - if a second market of a kind appears in an event after the ticks of the first, only the second has its id in its key;
    - a market with one winner is suspended while a runner is active that joined after its first tick;
    - a runner that joined late, in a market of several winners, has no tick before it joined.

    A refused message has no effect here; an import keeps its changes up to the refused one. A message of an earlier time is
    late here, and refused in an import. ``fixtures`` has one per event, or race: the kickoff is the actual off with the first
    scheduled start, as in an import; for a run it is the last scheduled start.
    """

    def __init__(self, *, live: bool) -> None:
        self._fixtures: dict[int, Fixture] = {}
        self.fixtures: Mapping[int, Fixture] = self._fixtures
        self.clock = ProviderClock()
        self._live = live
        self._markets: dict[str, _Market] = {}
        self._events: dict[int, list[_Market]] = {}
        self._of_kind: Counter[tuple[int, str]] = Counter()
        self._alone: set[tuple[int, str]] = set()  # kinds with a market whose ticks lack its id in their key
        self._unknown: set[str] = set()
        self._touched: dict[str, None] = {}
        self._held_ms = 0
        self._counts: Counter[str] = Counter()
        self._ladders: LadderSink | None = None
        self._lost_ms: int | None = None

    def keep_ladders(self, ladders: LadderSink) -> None:
        self._ladders = ladders

    @property
    def counts(self) -> Mapping[str, int]:
        """Differences from an import, and fixtures without a known off."""
        unknown = () if self._live else (m for m in self._events.values() if not has_off([times_of(each.book) for each in m]))
        return self._counts + Counter({NO_OFF: sum(1 for _ in unknown)})

    def take(self, text: bytes, received_ts_ms: int) -> Sequence[State]:
        """Return the states after a message (for a run), or the held states that the message shows to be final."""
        message: Any = None
        try:
            message = orjson.loads(text)
            ts_ms, changes = self._check_message(message)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._doubt(message)
            if isinstance(error, ValueError):
                raise
            raise ValueError(f"{type(error).__name__}: {error}") from error
        if not self.clock.holds(ts_ms):  # its changes still count, because the book needs each of them
            ts_ms = self._held_ms or received_ts_ms
        states = self.finish() if ts_ms != self._held_ms else []
        self._lose()
        self._held_ms = ts_ms
        for market_id, change in changes:
            self._put(market_id, change, ts_ms)
        return [*states, *self.finish()] if self._live else states

    def finish(self) -> list[State]:
        """Return the held states in order of fixture and key."""
        touched, self._touched = [self._markets[market_id] for market_id in self._touched], {}
        readable = [market for market in touched if is_readable(market.book) and market.book.runners]
        for market in readable:
            if market.key is None:
                self._of_kind[market.fixture_id, kind_of(market.book)] += 1
        states = [state for market in readable for state in self._states(market)]
        for market in readable:
            self._state_ladders(market, self._held_ms)
        self._lose()
        return sorted(states, key=lambda state: (state.fixture_id, state.market_key))

    def forget(self, markets: Collection[str]) -> Collection[tuple[int, str]]:
        """Wait for an image of these markets, or of all."""
        forgotten = {market_id for market_id in markets or self._markets if market_id in self._markets} - self._unknown
        self._unknown |= forgotten
        for market_id in forgotten:
            self._lose_ladders(self._markets[market_id], 0)
        known = (self._markets[market_id] for market_id in sorted(forgotten))
        return [(market.fixture_id, key) for market in known for key in sorted(market.keys)]

    def _state_ladders(self, market: _Market, ts_ms: int) -> None:
        if self._ladders is None or market.book.depth is None or market.key is None:
            return
        for own, offers in market.book.depth.take():
            parameters, side = market.book.depth.named(own)
            prices, sizes = map(np.array, offers.ordered())
            odds, stakes = (against if offers.is_lay else backed)(prices, sizes)
            key = market.fixture_id, with_parameters(market.key, parameters), side
            self._ladders.put(key, ts_ms, odds.tolist(), stakes.tolist())

    def _lose_ladders(self, market: _Market, ts_ms: int) -> None:
        if market.book.depth is not None:
            market.book.depth.reset(is_known=False)
            self._state_ladders(market, ts_ms)

    def _doubt(self, message: Any) -> None:
        """Note when a message was refused that may have changed a ladder."""
        if not isinstance(message, dict):
            self._lost_ms = self._held_ms
        elif message.get("op") == "mcm":
            ts_ms = message.get("pt")
            self._lost_ms = ts_ms if type(ts_ms) is int and self._held_ms <= ts_ms <= LAST_MS else self._held_ms

    def _lose(self) -> None:
        """Mark all ladders unknown until their next image, if a message was refused."""
        lost_ms, self._lost_ms = self._lost_ms, None
        for market in self._markets.values() if lost_ms is not None else ():
            self._lose_ladders(market, lost_ms or 0)

    def _check_message(self, message: StreamMessage) -> tuple[int, list[_Change]]:
        if message.get("op") != "mcm" or type(message.get("pt")) is not int:
            raise ValueError("no market change message")
        if not 0 <= message["pt"] <= LAST_MS:
            raise ValueError("pt is no time")
        changes: list[_Change] = []
        coming: dict[str, set[str]] = {}
        images: set[str] = set()
        for change in message.get("mc") or ():
            market_id = change["id"]
            if not isinstance(market_id, str) or not PLAIN.fullmatch(market_id):
                raise ValueError(f"{market_id!r} is no market id")
            if change.get("img"):
                images.add(market_id)
            if market_id in self._unknown and market_id not in images:
                raise ValueError("a change of a market whose image did not come since messages were missed")
            market = self._markets.get(market_id)
            book = MarketBook(market_id) if market is None else market.book
            checked = book.check(change, coming.setdefault(market_id, set()))
            coming[market_id] |= checked.named.keys()
            changes.append((market_id, checked))
        return message["pt"], changes

    def _put(self, market_id: str, change: CheckedChange, ts_ms: int) -> None:
        market = self._markets.get(market_id)
        if market is None:
            event = event_of(change.definition or {})
            book = MarketBook(market_id, keeps_depth=self._ladders is not None)
            market = _Market(book, event, fixture_id_of(event))
            self._markets[market_id] = market
            self._events.setdefault(market.fixture_id, []).append(market)
        if change.is_image:
            self._unknown.discard(market_id)
        market.book.put(change, ts_ms)
        self._touched[market_id] = None
        if change.definition is not None:
            self._announce(market)

    def _announce(self, market: _Market) -> None:
        """Update a fixture by a new definition of one of its markets."""
        fellows = [times_of(each.book) for each in self._events[market.fixture_id]]
        fixture = fixture_of(market.event, market.fixture_id, fellows)
        if self._live:
            last = {"kickoff_ts_ms": of_iso(market.book.definition["marketTime"]), "scheduled_ts_ms": None}
            fixture = fixture.model_copy(update=last)
        self._fixtures[market.fixture_id] = fixture

    def _name(self, market: _Market, runners: tuple[str, ...]) -> None:
        """Fix the key and sides of a market's ticks."""
        kind = market.fixture_id, kind_of(market.book)
        alone = self._of_kind[kind] == 1
        self._counts[_TWIN] += kind in self._alone
        if alone:
            self._alone.add(kind)
        market.key, market.sides = key_of(kind[1], market.book.market_id, alone=alone), runners

    def _states(self, market: _Market) -> Iterator[State]:
        book, states = market.book, market.book.take()
        runners = tuple(sorted(book.runners, key=str.encode))
        if market.key is None:
            self._name(market, runners)
        self._counts[_LATE] += runners != market.sides
        if by_runner(book):
            market.sides = runners
        of: dict[str, list[SideColumn]] = {}
        for column in side_prices(book, states, market.sides).columns:
            of.setdefault(with_parameters(market.key or "", column.parameters), []).append(column)
        market.keys |= of.keys()
        for key, sides in of.items():
            yield State(
                market.fixture_id,
                key,
                states.ts_ms[0],
                bool(states.in_play[0]),
                tuple(column.side for column in sides),
                tuple(_price(column.prob_bps[0]) for column in sides),
                tuple(_price(column.odds_milli[0]) for column in sides),
            )


def _price(value: Any) -> int | None:
    return int(value) if value >= 0 else None


SOURCE = Source(
    feed="betfair",
    new_reader=lambda live: BetfairReader(live=live),
    margin=MARGIN,
    consensus=CONSENSUS,
    closing_source="venue",
    closing_policy=ClosingPolicy.LAST_OPEN,
    kickoff=KickoffKind.ACTUAL,
)
