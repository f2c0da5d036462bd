"""Segments read again: the messages of the tape that they become, exactly as they came to be while they were captured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from clvlab.base.times import LAST_MS
from clvlab.errors import SourceError
from clvlab.law.message import Message
from clvlab.law.schema import ODDS_MILLI, SAFE_INTEGER
from clvlab.odds.integers import WHOLE_BPS
from clvlab.packs.captures.reader import HoldingReader, ProviderClock, Reader
from clvlab.packs.captures.records import CaptureRecord, CutContent, Header
from clvlab.packs.exchange import State
from clvlab.packs.invariants import SUM_TOLERANCE_BPS, is_name
from clvlab.packs.manifest import Fixture, Gap

# The order of a live tape, which is the order of arrival, and the law's time of each message, which never goes back.


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


_MOST_REASONS = 100  # they quote what was sent: a provider could make up more than memory holds
_OTHER = "other reasons"
_MOST_FALSE = 1_000  # entries of the ledger: the last one goes on instead of one for each message of a provider that lies
FALSE_TIME = "time"
"""Cause of the gaps that are no cut: a message came whose time does not stand."""


@dataclass
class Tracker:
    """Follows a capture record by record, live or read again: the tape's messages, and the ledger of gaps.

    Parameters
    ----------
    header
        Of its first segment.
    reader
        Of the provider's messages.

    Attributes
    ----------
    gaps
        The ledger so far, but for the gaps that are still open.
    unreadable
        Messages that the reader refused, by reason; each left no tick.
    messages
        How many came.
    first_ms, last_ms
        When the first and the last record came; null without any.
    announced
        Kickoffs as they were known at the first tick of each fixture.
    """

    header: Header
    reader: Reader
    gaps: list[Gap] = field(default_factory=list)
    unreadable: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    announced: dict[int, int | None] = field(default_factory=dict)
    _open: list[tuple[int, str, tuple[str, ...], bool]] = field(default_factory=list)
    _wanted: frozenset[int] = field(init=False)
    _last_false: int = 0

    def __post_init__(self) -> None:
        self.clock = self.reader.clock = ProviderClock(self.header.skew_s)
        # A run has one fixture; of several, the time of none may move another's.
        self.arrival = Arrival(live=self.header.live and self.header.skew_s is None, clock=self.clock)
        self._wanted = frozenset(self.header.fixture_ids)

    @property
    def fixtures(self) -> dict[int, Fixture]:
        """What is known of the fixtures that the capture is of."""
        return {
            number: fixture
            for number, fixture in sorted(self.reader.fixtures.items())
            if not self._wanted or number in self._wanted
        }

    def take(self, record: CaptureRecord) -> Sequence[Message]:
        """Return the messages of the tape that a record becomes."""
        self.first_ms = record.at_ms if self.first_ms is None else self.first_ms
        self.last_ms = record.at_ms
        if record.text is not None:
            return self._message(record.text, record.at_ms)
        if record.cut is not None:
            return self._cut(record.at_ms, record.cut)
        if record.resumed is not None:
            return self._resumed(record.at_ms, replayed=bool(record.resumed.get("replayed")))
        return ()

    def _message(self, text: bytes, at_ms: int) -> Sequence[Message]:
        self.messages += 1
        self.clock.arrive(at_ms)
        refused = self.clock.refused
        try:
            states = self.reader.take(text, at_ms)
        except ValueError as error:
            reason = str(error)[:200]
            self.unreadable[reason if reason in self.unreadable or len(self.unreadable) < _MOST_REASONS else _OTHER] += 1
            return ()
        finally:
            if self.clock.refused > refused:
                self._note_false(at_ms)
        return self._placed(states)

    def _note_false(self, at_ms: int) -> None:
        if self.clock.refused <= _MOST_FALSE:
            self._last_false = len(self.gaps)
            self.gaps.append(gap_of(at_ms, at_ms, FALSE_TIME, (), replayed=False))
            return
        known = self.gaps[self._last_false]
        self.gaps[self._last_false] = known.model_copy(update={"to_ts_ms": max(known.to_ts_ms, at_ms)})

    def finish(self) -> list[Message]:
        """Return the messages of what the reader held back, none of most readers; called when the capture ends."""
        return self._placed(self.reader.finish()) if isinstance(self.reader, HoldingReader) else []

    def _placed(self, states: Iterable[State]) -> list[Message]:
        found = [self.arrival.place(state) for state in states if not self._wanted or state.fixture_id in self._wanted]
        placed = [message for message in found if message is not None]
        for message in placed:
            if message.fixture_id not in self.announced:
                self.announced[message.fixture_id] = self.reader.fixtures[message.fixture_id].kickoff_ts_ms
        return placed

    def _cut(self, at_ms: int, cut: CutContent) -> Sequence[Message]:
        markets = tuple(str(market) for market in cut.get("markets") or ())
        resumable = bool(cut.get("resumable"))
        self._open.append((at_ms, str(cut["cause"]), markets, resumable))
        return () if resumable else self._suspended(markets)

    def _resumed(self, at_ms: int, *, replayed: bool) -> Sequence[Message]:
        opened, self._open = self._open, []
        messages: list[Message] = []
        for from_ms, cause, markets, resumable in opened:
            self.gaps.append(gap_of(from_ms, at_ms, cause, markets, replayed=resumable and replayed))
            if resumable and not replayed:
                messages += self._suspended(markets)
        return messages

    def _suspended(self, markets: tuple[str, ...]) -> list[Message]:
        held = self.finish()
        forgotten = [market for market in self.reader.forget(markets) if not self._wanted or market[0] in self._wanted]
        return [*held, *self.arrival.suspend(forgotten)]

    def ledger(self) -> tuple[Gap, ...]:
        """Return all gaps; one that is still open ends with the last record."""
        end = self.last_ms or 0
        still = [gap_of(since, end, cause, markets, replayed=False) for since, cause, markets, _ in self._open]
        return (*self.gaps, *still)


def gap_of(from_ms: int, to_ms: int, cause: str, markets: tuple[str, ...], *, replayed: bool) -> Gap:
    """Return an entry of the ledger; a clock that was put back makes no gap end before it began."""
    return Gap(
        from_ts_ms=from_ms, to_ts_ms=max(from_ms, to_ms), cause=cause, markets=markets or None, replayed=replayed or None
    )


def chained(segments: Iterable[tuple[str, str, Iterator[Header | CaptureRecord]]]) -> Iterator[Header | CaptureRecord]:
    """Return the records of segments in order, after a check that each is the next of the same capture.

    Parameters
    ----------
    segments
        Name, ``sha256:<hex>`` and content of each.

    Raises
    ------
    SourceError
        A segment is missing, or of another capture, or does not follow the one before it.
    """
    before: Header | None = None
    hashed: str | None = None
    for name, digest, content in segments:
        header = next(content, None)
        if not isinstance(header, Header):
            raise SourceError(f"{name}: has no first line")
        expected = 1 if before is None else before.number + 1
        if header.number != expected or header.previous != hashed:
            raise SourceError(
                f"{name}: is segment {header.number}, after one that hashes to {header.previous}; number {expected} after "
                f"{hashed} is due"
            )
        if before is None:
            yield header
        elif (header.capture_id, header.feed, header.provenance, header.fixture_ids, header.live, header.skew_s) != (
            before.capture_id, before.feed, before.provenance, before.fixture_ids, before.live, before.skew_s,
        ):  # fmt: skip
            raise SourceError(f"{name}: is of capture {header.capture_id!r}, the one before of {before.capture_id!r}")
        yield from content
        before, hashed = header, digest
