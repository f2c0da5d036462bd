"""The order of a live tape, which is the order of arrival, and the law's time of each message, which never goes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from clvlab.law.message import Message
from clvlab.law.schema import ODDS_MILLI, SAFE_INTEGER
from clvlab.odds.rounding import WHOLE_BPS
from clvlab.packs.captures.clock import ProviderClock
from clvlab.packs.exchange.state import State
from clvlab.packs.invariants import SUM_TOLERANCE_BPS, is_name
from clvlab.times import LAST_MS

_Market = tuple[int, str]
_BEFORE_ALL = (-1, -(2**63))


class Arrival:
    """Numbers the messages of each fixture as they come, and sets the law's time.

    Parameters
    ----------
    live
        Whether the law's time goes on over all fixtures together, as agents of one run see them; else over each by itself.
    clock
        Beyond which times no state is placed, as a last guard behind the readers; at every time, by default.

    Attributes
    ----------
    counts
        Messages that came later than their time says (``late``), that are older than what is known of their market
        (``stale``), that have other sides than the market had (``other sides``), or that no pack may hold
        (``against the format``); all but the first leave no tick.
    """

    def __init__(self, *, live: bool, clock: ProviderClock | None = None) -> None:
        self._live = live
        self._clock = clock or ProviderClock()
        self._ticks: Counter[int] = Counter()
        self._last: dict[int, tuple[int, int]] = {}  # by fixture, or for all of them: law's time and fixture
        self._markets: dict[_Market, State] = {}
        self.counts: Counter[str] = Counter()

    @property
    def refused(self) -> Counter[str]:
        """Those of the counts whose messages left no tick."""
        return Counter({reason: count for reason, count in self.counts.items() if reason != "late"})

    def place(self, state: State) -> Message | None:
        """Return the message that a state becomes; null if it leaves no tick."""
        market = state.fixture_id, state.market_key
        known = self._markets.get(market)
        if not _may_stand(state, is_new=known is None):
            self.counts["against the format"] += 1
            return None
        if known is not None and state.ts_ms < known.ts_ms:
            self.counts["stale"] += 1
            return None
        if known is not None and state.sides != known.sides:
            self.counts["other sides"] += 1
            return None
        self._markets[market] = state
        clock = 0 if self._live else state.fixture_id
        last_ms, last_fixture = self._last.get(clock, _BEFORE_ALL)
        ts_ms = self._clock.bounded(state.ts_ms)
        if (ts_ms, state.fixture_id) < (last_ms, last_fixture):
            # Agents are asked in the order of time, then fixture: a replay must ask them in the order of arrival.
            self.counts["late"] += ts_ms < last_ms
            ts_ms = last_ms + (state.fixture_id != last_fixture)
        self._last[clock] = ts_ms, state.fixture_id
        tick_seq = self._ticks[state.fixture_id]
        self._ticks[state.fixture_id] += 1
        return Message(
            state.fixture_id, tick_seq, ts_ms, state.in_running, state.market_key,
            state.sides, state.prob_bps, state.odds_milli, state.suspended,
        )  # fmt: skip

    def suspend(self, markets: Iterable[_Market]) -> Iterator[Message]:
        """Return a message without prices for each of these markets that is open, at its last provider's time."""
        for market in sorted(markets):
            known = self._markets.get(market)
            if known is None or known.suspended:
                continue
            nothing = (None,) * len(known.sides)
            message = self.place(known._replace(prob_bps=nothing, odds_milli=nothing))
            if message is not None:
                yield message


def _may_stand(state: State, *, is_new: bool) -> bool:
    """Tell whether a pack may hold a state: one message of a provider that lies must not spoil a whole capture."""
    n = len(state.sides)
    if not 2 <= n == len(state.prob_bps) == len(state.odds_milli):
        return False
    if is_new and not (_are_named(state.market_key, state.sides) and abs(state.fixture_id) <= SAFE_INTEGER):
        return False
    priced = [prob for prob in state.prob_bps if prob is not None]
    return (
        0 <= state.ts_ms <= LAST_MS
        and all(0 <= prob <= WHOLE_BPS for prob in priced)
        and all(odds is None or ODDS_MILLI[0] <= odds <= ODDS_MILLI[1] for odds in state.odds_milli)
        and (len(priced) < n or abs(sum(priced) - WHOLE_BPS) <= SUM_TOLERANCE_BPS)
    )


def _are_named(market_key: str, sides: tuple[str, ...]) -> bool:
    return len(set(sides)) == len(sides) and all(is_name(name) for name in (market_key, *sides))
