"""Reads Betfair's stream: the same states that the importer makes of a file of the same messages.

Of a capture the states of a time are held back until a later time comes: of several of one market the last counts, and they
come in the order of their keys. For a run every message counts as it comes.

What can't be as in an import, which knows the whole file before it writes the first tick, is counted:

- a market whose kind came up in its event after another one's ticks were told has its id in its key, the other one has not;
- a market with one winner is suspended while a runner is active that came in after its first tick;
- a runner that came in late, in a market of several winners, has no tick before it came.

A message that is refused changes nothing here; an import keeps the changes before the one that it refuses. A time before the
last one is read here, the tape says that it came late, where an import refuses the message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from clvlab.base.times import LAST_MS, of_iso
from clvlab.law.schema import ClosingPolicy
from clvlab.packs.captures.normalising import Source
from clvlab.packs.captures.reader import ProviderClock
from clvlab.packs.exchange import State
from clvlab.packs.importers.betfair_book import Checked, MarketBook, StreamMessage
from clvlab.packs.importers.betfair_files import (
    CONSENSUS,
    MARGIN,
    NO_OFF,
    PLAIN,
    SideColumn,
    by_runner,
    event_of,
    fixture_of,
    has_off,
    is_readable,
    key_of,
    kind_of,
    priced,
    times_of,
    with_parameters,
)
from clvlab.packs.importers.source import fixture_id_of
from clvlab.packs.manifest import Fixture, KickoffKind

_LATE = "states of markets that a runner came into late"
_TWIN = "markets whose kind came up again in their event"
_Change = tuple[str, Checked]


@dataclass(slots=True)
class _Market:
    """A market, and under which key and with which sides it is told; ``keys`` are those that were."""

    book: MarketBook
    event: str
    fixture_id: int
    key: str | None = None
    sides: tuple[str, ...] = ()
    keys: set[str] = field(default_factory=set)


class BetfairReader:
    """Reads ``mcm`` messages.

    Parameters
    ----------
    live
        Whether for a run.

    Attributes
    ----------
    fixtures
        One an event, or a race; the kickoff is the actual off and beside it the start as first announced, as an importer says
        them; for a run it is the start as announced last.
    """

    def __init__(self, *, live: bool) -> None:
        self._fixtures: dict[int, Fixture] = {}
        self.fixtures: Mapping[int, Fixture] = self._fixtures
        self.clock = ProviderClock()
        self._live = live
        self._markets: dict[str, _Market] = {}
        self._events: dict[int, list[_Market]] = {}
        self._of_kind: Counter[tuple[int, str]] = Counter()
        self._alone: set[tuple[int, str]] = set()  # kinds of which a market was told without its id
        self._unknown: set[str] = set()
        self._touched: dict[str, None] = {}
        self._held_ms = 0
        self._counts: Counter[str] = Counter()

    @property
    def counts(self) -> Mapping[str, int]:
        """What was read otherwise than an import would, and fixtures whose off is not known."""
        unknown = () if self._live else (m for m in self._events.values() if not has_off([times_of(each.book) for each in m]))
        return self._counts + Counter({NO_OFF: sum(1 for _ in unknown)})

    def take(self, text: bytes, received_ts_ms: int) -> Sequence[State]:
        """Return the states that a message leaves behind, or those that it shows to be the last ones of their time."""
        try:
            ts_ms, changes = self._checked(orjson.loads(text))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        if not self.clock.holds(ts_ms):  # its changes count all the same: without them the book would be another
            ts_ms = self._held_ms or received_ts_ms
        states = self.finish() if ts_ms != self._held_ms else []
        self._held_ms = ts_ms
        for market_id, change in changes:
            self._put(market_id, change, ts_ms)
        return [*states, *self.finish()] if self._live else states

    def finish(self) -> list[State]:
        """Return the states that are held back, in the order of fixtures and keys."""
        touched, self._touched = [self._markets[market_id] for market_id in self._touched], {}
        readable = [market for market in touched if is_readable(market.book) and market.book.runners]
        for market in readable:
            if market.key is None:
                self._of_kind[market.fixture_id, kind_of(market.book)] += 1
        states = [state for market in readable for state in self._states(market)]
        return sorted(states, key=lambda state: (state.fixture_id, state.market_key))

    def forget(self, markets: Collection[str]) -> Collection[tuple[int, str]]:
        """Wait for the image of these markets, or of all."""
        forgotten = {market_id for market_id in markets or self._markets if market_id in self._markets} - self._unknown
        self._unknown |= forgotten
        known = (self._markets[market_id] for market_id in sorted(forgotten))
        return [(market.fixture_id, key) for market in known for key in sorted(market.keys)]

    def _checked(self, message: StreamMessage) -> tuple[int, list[_Change]]:
        """Return the time and the changes of a message, all of which can be put."""
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
            checked = book.checked(change, coming.setdefault(market_id, set()))
            coming[market_id] |= checked.named.keys()
            changes.append((market_id, checked))
        return message["pt"], changes

    def _put(self, market_id: str, change: Checked, ts_ms: int) -> None:
        market = self._markets.get(market_id)
        if market is None:
            event = event_of(change.definition or {})
            market = _Market(MarketBook(market_id), event, fixture_id_of(event))
            self._markets[market_id] = market
            self._events.setdefault(market.fixture_id, []).append(market)
        if change.is_image:
            self._unknown.discard(market_id)
        market.book.put(change, ts_ms)
        self._touched[market_id] = None
        if change.definition is not None:
            self._announce(market)

    def _announce(self, market: _Market) -> None:
        """Say of a fixture what a new definition of one of its markets says."""
        fellows = [times_of(each.book) for each in self._events[market.fixture_id]]
        fixture = fixture_of(market.event, market.fixture_id, fellows)
        if self._live:
            last = {"kickoff_ts_ms": of_iso(market.book.definition["marketTime"]), "scheduled_ts_ms": None}
            fixture = fixture.model_copy(update=last)
        self._fixtures[market.fixture_id] = fixture

    def _name(self, market: _Market, runners: tuple[str, ...]) -> None:
        """Settle under which key and with which sides a market is told."""
        kind = market.fixture_id, kind_of(market.book)
        alone = self._of_kind[kind] == 1
        self._counts[_TWIN] += kind in self._alone
        if alone:
            self._alone.add(kind)
        market.key, market.sides = key_of(kind[1], market.book.market_id, alone=alone), runners

    def _states(self, market: _Market) -> Iterator[State]:
        """Return what a market is since the last time."""
        book, states = market.book, market.book.take()
        runners = tuple(sorted(book.runners, key=str.encode))
        if market.key is None:
            self._name(market, runners)
        self._counts[_LATE] += runners != market.sides
        if by_runner(book):
            market.sides = runners
        of: dict[str, list[SideColumn]] = {}
        for column in priced(book, states, market.sides).columns:
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
