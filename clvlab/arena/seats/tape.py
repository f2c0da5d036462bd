"""The messages of a seat: in order, as its entrant sees them, and which names a decision may use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from clvlab.agents.book import Known, known_of
from clvlab.errors import DecisionError, SeatTooLongError
from clvlab.law.actions import Decision
from clvlab.law.tape import Tape
from clvlab.log.seats import Blind, alias
from clvlab.packs.reader import Pack
from clvlab.proof.canonical import JsonObject
from clvlab.sources.capture.replay import message_rows

_LISTED = 10
_ROWS_PER_TICK = 64  # before a tape is read, its messages are bounded by its rows


class SeatMessages(ABC):
    """Messages that a seat shows in order: tick n is the n-th."""

    @property
    @abstractmethod
    def ticks(self) -> int:
        """Number of messages."""

    @abstractmethod
    def markets(self) -> dict[int, dict[str, tuple[int, tuple[str, ...]]]]:
        """Return first tick and sides of each market, by fixture."""

    @abstractmethod
    def message(self, tick: int) -> tuple[int, int]:
        """Return fixture and number on the tape of a tick."""

    @abstractmethod
    def view(self, tick: int, blind: Blind, secret: bytes) -> JsonObject:
        """Return what the entrant sees of a tick."""

    @abstractmethod
    def market_name(self, tick: int, blind: Blind, secret: bytes) -> str:
        """Return the market of a tick, by the name that its view has."""

    def check(
        self, tick: int, decisions: Sequence[JsonObject], blind: Blind, secret: bytes, max_stake: int | None = None
    ) -> None:
        """Refuse recorded decisions at a tick that could not be sealed. No later message has a part in it.

        Raises
        ------
        DecisionError
            A market was not shown yet, has no such side, or is backed twice on one side; the agent waits twice, or stakes more
            than the seat allows.
        """
        taken = set()
        for decision in decisions:
            place = (decision["action"], decision.get("market"), decision.get("side"))
            if place in taken:
                raise DecisionError(f"tick {tick} has two decisions {' '.join(str(one) for one in place if one)!r:.200}")
            taken.add(place)
            if decision["action"] == "BACK":
                if max_stake is not None and decision["stake"] > max_stake:
                    raise DecisionError(f"stake {decision['stake']} at tick {tick} is over {max_stake}, the most of its seat")
                self._named(tick, decision, blind, secret)

    def opened(self, tick: int, decisions: Sequence[JsonObject], blind: Blind, secret: bytes) -> Iterator[Decision]:
        """Yield recorded decisions under the names of the tape."""
        fixture_id, tick_seq = self.message(tick)
        for one in decisions:
            market, side = self._named(tick, one, blind, secret) if one["action"] == "BACK" else (None, None)
            confidence = None if "confidence" not in one else float(one["confidence"])
            claims = one.get("reason"), confidence, one.get("claimed_edge_bps")
            yield (fixture_id, tick_seq, one["action"], market, side, one.get("stake"), one.get("limit_odds_milli"), *claims)

    def _named(self, tick: int, decision: JsonObject, blind: Blind, secret: bytes) -> tuple[str, str]:
        fixture_id = self.message(tick)[0]
        visible = {key: sides for key, (since, sides) in self.markets()[fixture_id].items() if since <= tick}
        markets = {key: alias(secret, "market", fixture_id, key) if blind.hides else key for key in visible}
        market = next((key for key, name in markets.items() if name == decision["market"]), None)
        if market is None:
            what = f"at tick {tick} its fixture has shown no market"
            raise DecisionError(_not_among(what, decision["market"], list(markets.values())))
        sides = {side: alias(secret, "side", fixture_id, market, side) if blind.hides else side for side in visible[market]}
        side = next((key for key, name in sides.items() if name == decision["side"]), None)
        if side is None:
            what = f"market {decision['market']!r:.200} at tick {tick} has no side"
            raise DecisionError(_not_among(what, decision["side"], sorted(sides.values())))
        return market, side


@dataclass(frozen=True)
class SeatTape(SeatMessages):
    """All messages of some fixtures of a pack by time, fixture and tick, as ``cl.backtest`` shows them to a ``TickAgent``.

    ``messages`` has a row per message, with lists of its sides, probabilities and odds; tick n is row n - 1.
    """

    messages: pl.DataFrame
    known: dict[int, Known]

    @classmethod
    def of(cls, pack: Pack, fixture_ids: Sequence[int]) -> SeatTape:
        tape = pack.tape(list(fixture_ids))
        announced = tape.fixtures if tape.announced is None else tape.announced
        return cls(message_rows(tape), known_of(Tape(tape.binding, tape.rows, tape.series, announced, about=tape.about)))

    @property
    def ticks(self) -> int:
        return self.messages.height

    @property
    def size_bytes(self) -> int:
        return int(self.messages.estimated_size())

    def markets(self) -> dict[int, dict[str, tuple[int, tuple[str, ...]]]]:
        return self._markets

    @cached_property
    def _markets(self) -> dict[int, dict[str, tuple[int, tuple[str, ...]]]]:
        """First tick and sides of each market, by fixture."""
        found: dict[int, dict[str, tuple[int, tuple[str, ...]]]] = {}
        firsts = self.messages.with_row_index("tick", 1).unique(["fixture_id", "market_key"], keep="first", maintain_order=True)
        for tick, fixture_id, market_key, sides in firsts.select("tick", "fixture_id", "market_key", "side").iter_rows():
            found.setdefault(fixture_id, {})[market_key] = tick, tuple(sides)
        return found

    def message(self, tick: int) -> tuple[int, int]:
        fixture_id, tick_seq = self.messages.row(tick - 1)[:2]
        return fixture_id, tick_seq

    def view(self, tick: int, blind: Blind, secret: bytes) -> JsonObject:
        row = self.messages.row(tick - 1)
        fixture_id, tick_seq, ts_ms, in_running, market_key, suspended, names, prob_bps, odds_milli = row
        sides = [list(side) for side in zip(names, prob_bps, odds_milli, strict=True)]
        state = {"suspended": suspended, "in_running": in_running}
        if not blind.hides:
            view = {"tick": tick, "fixture": fixture_id, "market": market_key, "sides": sides, **state, "time_ms": ts_ms}
            about = {} if blind is Blind.LIVE else {"about": self.known[fixture_id]._asdict()}
            return view | {"tick_seq": tick_seq} | about
        for side in sides:
            side[0] = alias(secret, "side", fixture_id, market_key, side[0])
        return {
            "tick": tick,
            "fixture": alias(secret, "fixture", fixture_id),
            "market": alias(secret, "market", fixture_id, market_key),
            "sides": sorted(sides, key=lambda side: side[0]),
            **state,
            "time_ms": ts_ms - self._start_ts_ms,
        }

    def views(self, blind: Blind, secret: bytes) -> Iterator[tuple[tuple[int, int], JsonObject]]:
        for tick in range(1, self.ticks + 1):
            yield self.message(tick), self.view(tick, blind, secret)

    @cached_property
    def _start_ts_ms(self) -> int:
        return int(self.messages["ts_ms"][0])

    def market_name(self, tick: int, blind: Blind, secret: bytes) -> str:
        fixture_id, _, _, _, market_key = self.messages.row(tick - 1)[:5]
        return alias(secret, "market", fixture_id, market_key) if blind.hides else market_key


def require_short(pack: Pack, fixture_ids: Collection[int], most: int) -> None:
    """Refuse fixtures that must have more messages than one seat may have, before they are read."""
    wanted = set(fixture_ids)
    if sum(fixture.rows for fixture in pack.manifest.fixtures if fixture.fixture_id in wanted) > _ROWS_PER_TICK * most:
        raise too_long(most)


def too_long(most: int) -> SeatTooLongError:
    return SeatTooLongError(f"a seat may have 1 to {most:,} messages, and these fixtures have another number: name others")


def _not_among(what: str, name: str, known: Sequence[str]) -> str:
    listed = ", ".join(map(repr, known[:_LISTED])) + (", ..." if len(known) > _LISTED else "")
    return f"{what} {name!r:.200}; there are: {listed}"
