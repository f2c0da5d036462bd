"""One market of the Betfair stream: its definition, the ladders of its runners, and the states it went through."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from clvlab.odds.consensus import PROB_UNIT
from clvlab.packs.importers.times import of_iso

__all__ = ["Ladder", "MarketBook", "Runner"]

_MAX_SPREAD = 0.1
_MAX_PRICE = 1000.0
_LADDERS = {"atb", "atl", "batb", "batl", "bdatb", "bdatl"}


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

    status: str = "ACTIVE"
    name: str | None = None
    back: Ladder = field(default_factory=lambda: Ladder(is_back=True))
    lay: Ladder = field(default_factory=lambda: Ladder(is_back=False))
    last_traded: float | None = None
    prob: int = -1
    odds_milli: int = -1
    no_odds_milli: int = -1  # of the other outcome, at which one lays at the best lay price

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
        self._price()

    def _price(self) -> None:
        """Set the mid of best back and lay in probability; the last traded price where an offer lacks or they lie far apart."""
        back, lay = self.back.best, self.lay.best
        self.odds_milli = -1 if back is None else round(back * 1000)
        self.no_odds_milli = -1 if lay is None else round(lay / (lay - 1) * 1000)
        if back is not None and lay is not None and 1 / back - 1 / lay <= _MAX_SPREAD:
            prob = (1 / back + 1 / lay) / 2
        else:
            prob = -1.0 if self.last_traded is None else 1 / self.last_traded
        self.prob = round(prob * PROB_UNIT) if 0.0 < prob < 1.0 else -1


@dataclass(slots=True)
class MarketBook:
    """A market, and every state it went through, column by column."""

    market_id: str
    definition: dict[str, Any] = field(default_factory=dict)
    first_time: str = ""
    runners: dict[str, Runner] = field(default_factory=dict)
    ts_ms: list[int] = field(default_factory=list)
    open: list[bool] = field(default_factory=list)
    in_play: list[bool] = field(default_factory=list)
    prob: list[array[int]] = field(default_factory=list)
    odds_milli: list[array[int]] = field(default_factory=list)
    no_odds_milli: list[array[int]] = field(default_factory=list)
    active: list[bytes] = field(default_factory=list)
    off_ms: int | None = None
    suspended_ms: int | None = None

    def apply(self, change: Mapping[str, Any], ts_ms: int) -> None:
        """Take one market change of a message and write down the state after it.

        Raises
        ------
        ValueError, KeyError, TypeError, AttributeError
            A change that is none of this market's; nothing of it was taken then.
        """
        definition = change.get("marketDefinition")
        if definition is None and not self.definition:
            raise ValueError(f"market {self.market_id} changes before it is defined")
        named = {} if definition is None else _checked_definition(definition)
        _check_deltas(change.get("rc", ()), self.runners.keys() | named.keys())
        if definition is not None:
            self._define(definition, named, ts_ms)
        if change.get("img"):
            for runner in self.runners.values():
                runner.back, runner.lay, runner.last_traded = Ladder(is_back=True), Ladder(is_back=False), None
                runner.prob = runner.odds_milli = runner.no_odds_milli = -1
        for delta in change.get("rc", ()):
            self.runners[_key(delta)].change(delta)
        runners = self.runners.values()
        self.ts_ms.append(ts_ms)
        self.open.append(self.definition["status"] == "OPEN")
        self.in_play.append(bool(self.definition["inPlay"]))
        self.prob.append(array("q", [runner.prob for runner in runners]))
        self.odds_milli.append(array("q", [runner.odds_milli for runner in runners]))
        self.no_odds_milli.append(array("q", [runner.no_odds_milli for runner in runners]))
        self.active.append(bytes(runner.status == "ACTIVE" for runner in runners))

    def _define(self, definition: dict[str, Any], named: Mapping[str, Mapping[str, Any]], ts_ms: int) -> None:
        before = self.definition
        for key, runner in named.items():
            known = self.runners.setdefault(key, Runner())
            known.status, known.name = runner["status"], runner.get("name") or known.name
        was_open = before.get("status") == "OPEN" and not before.get("inPlay")
        if definition["inPlay"] and self.off_ms is None:
            self.off_ms = ts_ms
        if was_open and definition["status"] in ("SUSPENDED", "CLOSED"):
            self.suspended_ms = ts_ms
        elif definition["status"] == "OPEN":
            self.suspended_ms = None
        self.first_time = self.first_time or definition["marketTime"]
        self.definition = definition


def _checked_definition(definition: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Give the runners of a definition by key, after a check of what is read of it."""
    for key in ("status", "inPlay", "marketTime", "eventId", "runners", "eventTypeId"):
        if key not in definition:
            raise KeyError(key)
    of_iso(definition["marketTime"])
    if int(definition.get("numberOfWinners", 1)) < 0:
        raise ValueError(f"numberOfWinners {definition['numberOfWinners']!r} is none")
    for key in ("status", "eventName", "marketType", "bettingType"):
        if not isinstance(definition.get(key), str | None):
            raise ValueError(f"{key} {definition[key]!r} is no text")
    named = {_key(runner): runner for runner in definition["runners"]}
    for runner in named.values():
        if not isinstance(runner["status"], str) or not isinstance(runner.get("name"), str | None):
            raise ValueError(f"status or name of runner {runner['id']!r} is no text")
    return named


def _check_deltas(deltas: Iterable[Mapping[str, Any]], known: Set[str]) -> None:
    """Refuse changes of runners that the market does not have, and offers that are none."""
    for delta in deltas:
        if _key(delta) not in known:
            raise KeyError(_key(delta))
        for name in _LADDERS & delta.keys():
            for *_, price, size in delta[name]:
                if size and not (1.0 < price <= _MAX_PRICE and size > 0):
                    raise ValueError(f"an offer of {size} at {price} is none")
        if not 0 <= (delta.get("ltp") or 0) <= _MAX_PRICE:
            raise ValueError(f"a last traded price of {delta['ltp']} is none")


def _key(entry: Mapping[str, Any]) -> str:
    handicap = entry.get("hc") or 0
    return f"{entry['id']}@{handicap:g}" if handicap else str(entry["id"])
