"""Markets for a stand-in of Betfair's stream: what they look like whole, and a script of made-up ones."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Unpack

from clvlab.packs.importers.betfair_book import MarketChange, MarketDefinition, StreamMessage

_START_MS = 1_780_000_000_000
STEP_MS = 1500
"""From one message to the next, on average."""
_KINDS = (("MATCH_ODDS", 3), ("OVER_UNDER_25", 2))


@dataclass
class Images:
    """Every market as the changes so far leave it."""

    _definitions: dict[str, MarketDefinition] = field(default_factory=dict)
    _runners: dict[str, dict[tuple[Any, Any], dict[str, Any]]] = field(default_factory=dict)

    def take(self, changes: Iterable[MarketChange]) -> None:
        """Take the changes of a message."""
        for change in changes:
            runners = self._runners.setdefault(change["id"], {})
            if change.get("img"):
                runners.clear()
            if "marketDefinition" in change:
                self._definitions[change["id"]] = change["marketDefinition"]
            for delta in change.get("rc", ()):
                runner = runners.setdefault((delta["id"], delta.get("hc")), {})
                for name, value in delta.items():
                    if not isinstance(value, list):
                        runner[name] = value
                        continue
                    entries = runner.setdefault(name, {})
                    entries.update({entry[0]: entry for entry in value})
                    runner[name] = {first: entry for first, entry in entries.items() if entry[-1]}

    def changes(self) -> list[MarketChange]:
        """Return a change for each market that says all of it."""
        return [
            {
                "id": market_id,
                "img": True,
                "marketDefinition": definition,
                "rc": [
                    {name: list(value.values()) if isinstance(value, dict) else value for name, value in runner.items()}
                    for runner in self._runners[market_id].values()
                ],
            }
            for market_id, definition in self._definitions.items()
        ]

    def event_of(self, market_id: str) -> str:
        """Return the event of a market; empty if it is not known."""
        return str(self._definitions.get(market_id, {}).get("eventId", ""))


@dataclass
class _MadeMarket:
    market_id: str
    definition: MarketDefinition
    prob: list[float]
    offers: dict[int, tuple[float, float]] = field(default_factory=dict)

    def quote(self, runner: int) -> Mapping[str, object]:
        """Return the change of a runner's offers to what its probability says."""
        odds = min(max(1 / (self.prob[runner] / sum(self.prob)), 1.05), 500.0)
        back, lay = round(odds * 0.99, 2), round(odds * 1.01 + 0.01, 2)
        old, self.offers[runner] = self.offers.get(runner), (back, lay)
        gone = ([], []) if old is None or old == (back, lay) else ([[old[0], 0]], [[old[1], 0]])
        return {"id": runner + 1, "atb": [*gone[0], [back, 20.0]], "atl": [*gone[1], [lay, 20.0]]}

    def define(self, **changes: Unpack[MarketDefinition]) -> MarketChange:
        """Return a new definition."""
        self.definition = self.definition | changes
        return {"id": self.market_id, "marketDefinition": self.definition}

    def settle(self, winner: int) -> MarketChange:
        """Return the last definition."""
        runners = [
            runner | {"status": "WINNER" if n == winner else "LOSER"} for n, runner in enumerate(self.definition["runners"])
        ]
        return self.define(status="CLOSED", runners=runners)


def made_up_markets(seed: int, *, events: int = 2, messages: int = 2000, start_ms: int = _START_MS) -> list[StreamMessage]:
    """Return a script of two markets an event, from their first offers to their results: at least so many messages.

    The first message of each market is its image, and every message has a time of its own. Markets are suspended now and then,
    and the second one of every event is so over the close.
    """
    chance = random.Random(seed)  # noqa: S311 - no secret
    markets = [_market(event, n, chance, start_ms) for event in range(1, events + 1) for n in range(len(_KINDS))]
    closing = markets[::2]
    told = [market.define() | {"img": True, "rc": [market.quote(n) for n in range(len(market.prob))]} for market in markets]
    while len(told) < messages * 9 // 10:
        told += _moved(chance.choice(markets), chance)
    told += [market.define(status="SUSPENDED") for market in markets if market not in closing]
    while len(told) < messages - 2 * len(markets):
        told += _moved(chance.choice(closing), chance)
    told += [market.define(status="OPEN", inPlay=True) for market in markets]
    told += [market.settle(chance.randrange(len(market.prob))) for market in markets]
    return [
        {"op": "mcm", "pt": start_ms + STEP_MS * n + chance.randrange(1000), "clk": None, "mc": [change]}
        for n, change in enumerate(told)
    ]


def _moved(market: _MadeMarket, chance: random.Random) -> list[MarketChange]:
    """Return a change of one runner's offers, or now and then a suspension and its end."""
    if chance.random() < 0.01:
        return [market.define(status="SUSPENDED"), market.define(status="OPEN")]
    runner = chance.randrange(len(market.prob))
    market.prob[runner] *= chance.uniform(0.93, 1.07)
    return [{"id": market.market_id, "rc": [market.quote(runner)]}]


def _market(event: int, number: int, chance: random.Random, start_ms: int) -> _MadeMarket:
    kind, runners = _KINDS[number]
    start = datetime.fromtimestamp(start_ms / 1000 + 7200, UTC)
    definition: MarketDefinition = {
        "eventId": str(9000 + event), "eventTypeId": "1", "eventName": f"Home {event} v Away {event}", "marketType": kind,
        "bettingType": "ODDS", "numberOfWinners": 1, "marketTime": start.strftime("%Y-%m-%dT%H:%M:%S.000Z"), "status": "OPEN",
        "inPlay": False, "runners": [{"id": n + 1, "status": "ACTIVE", "sortPriority": n + 1} for n in range(runners)],
    }  # fmt: skip
    return _MadeMarket(f"1.{100 * event + number}", definition, [chance.uniform(0.2, 1.0) for _ in range(runners)])
