"""Reads what Polymarket sends: full books of assets and changes of their levels, after gamma said which asset is what."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from clvlab.packs.captures.clock import ProviderClock
from clvlab.packs.captures.normalising import Source
from clvlab.packs.captures.polymarket_markets import Event, events_of, is_description
from clvlab.packs.exchange.asset_books import AssetBooks, Change
from clvlab.packs.exchange.shares import millionths, number
from clvlab.packs.exchange.state import State
from clvlab.packs.manifest import Fixture
from clvlab.times import LAST_MS


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

    def _describe(self, event: Event) -> None:
        fixture_id = event.fixture.fixture_id
        self._fixtures[fixture_id] = event.fixture
        (self._in_play.add if event.in_play else self._in_play.discard)(fixture_id)
        for key, assets in event.markets.items():
            self._books.name(fixture_id, key, assets)


def _changes(part: Any) -> Iterator[Change]:
    try:
        kind = part["event_type"]
        if kind == "book":
            levels = {
                (is_bid, millionths(level["price"])): number(level["size"]) > 0
                for is_bid, name in ((True, "bids"), (False, "asks"))
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


def _time(part: Mapping[str, Any]) -> int:
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
