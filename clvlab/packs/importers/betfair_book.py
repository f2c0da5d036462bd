"""One market of the Betfair stream: its definition, the ladders of its runners, and the states it went through."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from clvlab.base.times import of_iso
from clvlab.odds.consensus import PROB_UNIT

# What is read of Betfair's messages: any of it may be missing or of another type until it was checked.


class RunnerDefinition(TypedDict, total=False):
    """A runner in a market's definition."""

    id: int
    hc: float | None
    name: str | None
    status: str
    sortPriority: int  # written by the stand-in, and read by nobody here


class MarketDefinition(TypedDict, total=False):
    """What a market is now."""

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
    """A change of a market: each entry of ``rc`` names a runner, and deltas of its ladders by their names."""

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
_LEVELS = {"atb": 0, "atl": 0, "batb": 1, "batl": 1, "bdatb": 1, "bdatl": 1}  # of each ladder, numbers before price and size


@dataclass(slots=True)
class Ladder:
    """Offers on one side of a runner by price, or by level where only the best are delivered."""

    is_back: bool
    sizes: dict[float, float] = field(default_factory=dict)
    levels: dict[int, float] = field(default_factory=dict)
    best: float | None = None

    def change(self, deltas: Iterable[list[float]]) -> None:
        """Take [price, size] deltas; size 0 deletes."""
        sizes, best, lost = self.sizes, self.best, False
        for price, size in deltas:
            if size:
                sizes[price] = size
                if best is None or (price > best if self.is_back else price < best):
                    best = price
            else:
                sizes.pop(price, None)
                lost = lost or price == best
        if lost and best not in sizes:
            best = (max if self.is_back else min)(sizes, default=None)
        self.best = best

    def change_levels(self, deltas: Iterable[list[float]]) -> None:
        """Take [level, price, size] deltas; size 0 empties the level."""
        for level, price, size in deltas:
            if size:
                self.change([[price, size]])
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

    def change(self, delta: Mapping[str, Any]) -> None:
        """Take one ``rc`` entry: full ladders where there are some, else the best levels, else virtual best levels."""
        for ladder, full, best, virtual in ((self.back, "atb", "batb", "bdatb"), (self.lay, "atl", "batl", "bdatl")):
            if full in delta:
                ladder.levels.clear()
                ladder.change(delta[full])
            elif best in delta and (ladder.levels or not ladder.sizes):
                ladder.change_levels(delta[best])
            elif virtual in delta and best not in delta and (ladder.levels or not ladder.sizes):
                ladder.change_levels(delta[virtual])
        if delta.get("ltp"):
            self.last_traded = float(delta["ltp"])

    def prices(self) -> tuple[int, int, int]:
        """Return the probability in ``PROB_UNIT``, and odds x 1000 at which one backs the runner, and its opposite; -1 is none.

        The probability is the mid of best back and lay, or of the last traded price where an offer lacks or they lie far apart.
        """
        back, lay = self.back.best, self.lay.best
        if back is not None and lay is not None and 1 / back - 1 / lay <= _MAX_SPREAD:
            prob = (1 / back + 1 / lay) / 2
        else:
            prob = -1.0 if self.last_traded is None else 1 / self.last_traded
        return (
            round(prob * PROB_UNIT) if 0.0 < prob < 1.0 else -1,
            -1 if back is None else round(back * 1000),
            -1 if lay is None else round(lay / (lay - 1) * 1000),
        )


Column = npt.NDArray[np.int64]


@dataclass(slots=True)
class States:
    """What a market was at each time; ``prices``, those of ``Runner.prices``, and ``active`` have a column per runner."""

    ts_ms: array[int] = field(default_factory=lambda: array("q"))
    open: bytearray = field(default_factory=bytearray)
    in_play: bytearray = field(default_factory=bytearray)
    prices: tuple[array[int], ...] = field(default_factory=lambda: (array("q"), array("q"), array("q")))
    active: bytearray = field(default_factory=bytearray)

    def put(self, ts_ms: int, now: States) -> None:
        """Write down the only state of another; a later one of the same time takes its place."""
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
        """Add runners that did not run so far, where there are states."""
        n = len(self.ts_ms)
        self.prices = tuple(
            array("q", np.pad(matrix, ((0, 0), (0, by)), constant_values=-1).tobytes()) for matrix in self.matrices()
        )
        active = np.frombuffer(bytes(self.active), np.uint8).reshape(n, -1)
        self.active = bytearray(np.pad(active, ((0, 0), (0, by))).tobytes())

    def matrices(self) -> tuple[Column, ...]:
        """Return ``prices`` as (states, runners), where there are states."""
        return tuple(np.frombuffer(bytes(column), np.int64).reshape(len(self.ts_ms), -1) for column in self.prices)


class Checked(NamedTuple):
    """A market change that belongs to its market; the runners of its definition are named by key."""

    definition: MarketDefinition | None
    named: Mapping[str, RunnerDefinition]
    deltas: list[tuple[str, Mapping[str, Any]]]
    is_image: bool


@dataclass(slots=True)
class MarketBook:
    """A market, and the states it went through since they were last taken.

    Attributes
    ----------
    definition, first
        The newest definition, and the first one.
    first_ms
        When the market was first seen.
    off_ms, suspended_ms
        The first definition in play, and the last suspension after which it did not open again.
    removed, grew
        Whether a runner was removed while the market was open, and whether one came in after states had been taken.
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
    _taken: bool = False

    def take(self) -> States:
        """Return the states since the last time, and forget them."""
        states, self.states, self._taken = self.states, States(), True
        return states

    def apply(self, change: MarketChange, ts_ms: int) -> None:
        """Take one market change of a message and write down the state after it.

        Raises
        ------
        ValueError, KeyError, TypeError, AttributeError
            A change that does not belong to this market; nothing of it was taken then.
        """
        self.put(self.checked(change), ts_ms)

    def checked(self, change: MarketChange, coming: Set[str] = frozenset()) -> Checked:
        """Return a market change that can be put; ``coming`` are runners of definitions that will be put before it.

        Raises
        ------
        ValueError, KeyError, TypeError, AttributeError
            A change that does not belong to this market.
        """
        definition = change.get("marketDefinition")
        if definition is None and not self.definition and not coming:
            raise ValueError(f"market {self.market_id} changes before it is defined")
        named = {} if definition is None else _checked_definition(definition)
        known = self.runners.keys() | named.keys() | coming if named or coming else self.runners.keys()
        return Checked(definition, named, _checked_deltas(change.get("rc", ()), known), bool(change.get("img")))

    def put(self, change: Checked, ts_ms: int) -> None:
        """Take one market change that was checked, and write down the state after it."""
        definition, named, deltas, is_image = change
        if definition is not None:
            self._define(definition, named, ts_ms)
        if is_image:
            for runner in self.runners.values():
                runner.back, runner.lay, runner.last_traded = Ladder(is_back=True), Ladder(is_back=False), None
                self._price(runner)
        for key, delta in deltas:
            runner = self.runners[key]
            runner.change(delta)
            self._price(runner)
        self.states.put(ts_ms, self.now)

    def _price(self, runner: Runner) -> None:
        prob, odds_milli, no_odds_milli = self.now.prices
        n = runner.number
        prob[n], odds_milli[n], no_odds_milli[n] = runner.prices()

    def _define(self, definition: MarketDefinition, named: Mapping[str, RunnerDefinition], ts_ms: int) -> None:
        before = self.definition
        if not before:
            self.first, self.first_ms = definition, ts_ms
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
        """Take in runners that are new."""
        for key in keys:
            self.runners[key] = Runner(len(self.runners))
            for column in self.now.prices:
                column.append(-1)
        if keys and self.states.ts_ms:
            self.states.widen(len(keys))
        self.grew = self.grew or (bool(keys) and self._taken)


def _checked_definition(definition: MarketDefinition) -> dict[str, RunnerDefinition]:
    """Return the runners of a definition by key, after a check of what is read of it."""
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
    """Return changes of runners by key; runners that the market does not have, and offers that are not valid, are refused."""
    found = []
    for delta in deltas:
        key = _key(delta)
        if key not in known:
            raise KeyError(key)
        for name, offers in delta.items():
            if name in _LEVELS:
                for offer in offers:
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
