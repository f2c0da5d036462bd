"""From a provider's messages to ticks: readers, the order of a live tape, and captures read like files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

import polars as pl

from clvlab.base.times import LAST_MS
from clvlab.errors import SourceError
from clvlab.law.message import Message, ticks_of
from clvlab.law.schema import ODDS_MILLI, SAFE_INTEGER, TICKS, ClosingPolicy
from clvlab.odds.integers import WHOLE_BPS
from clvlab.packs.files import file_sha256
from clvlab.packs.invariants import SUM_TOLERANCE_BPS, is_name
from clvlab.packs.manifest import Capture, Fixture, Gap, KickoffKind, TimeRule
from clvlab.sources.books import QuoteSpill, batches
from clvlab.sources.capture.records import CaptureRecord, CutContent, Header, records_of
from clvlab.sources.clock import ProviderClock
from clvlab.sources.exchange import State
from clvlab.sources.ladders import LadderLog, LadderSink, SideKey, SpilledLadders
from clvlab.sources.source import ImportStats, Options, SourceData, SourcePart

# Readers take a provider's messages one after the other, and return the states of markets after each.


class Reader(Protocol):
    """Reads the messages of one provider in order of arrival.

    Attributes
    ----------
    fixtures
        Names, the provider's own id, and the last announced kickoff, by fixture_id.
    clock
        Decides which times are valid before anything is kept; all times are valid until the capture's own clock is set.
    """

    fixtures: Mapping[int, Fixture]
    clock: ProviderClock

    def take(self, text: bytes, received_ts_ms: int) -> Sequence[State]:
        """Return the states after a message, of any number of markets.

        Raises
        ------
        ValueError
            The message can't be read; the reader is unchanged.
        """
        ...

    def forget(self, markets: Collection[str]) -> Collection[tuple[int, str]]:
        """Record that messages were missed, and return fixture and key of the markets whose state is now unknown.

        No delta is applied before the next full snapshot. ``markets`` are the provider's names; all if empty.
        """
        ...


class StateReader:
    """Base of readers whose messages each hold the whole state of a market."""

    def __init__(self) -> None:
        self._fixtures: dict[int, Fixture] = {}
        self.fixtures: Mapping[int, Fixture] = self._fixtures
        self.clock = ProviderClock()
        self._known: set[tuple[int, str]] = set()

    def forget(self, markets: Collection[str]) -> Collection[tuple[int, str]]:
        forgotten = {market for market in self._known if not markets or market[1] in markets}
        self._known -= forgotten
        return forgotten


@runtime_checkable
class DeepReader(Reader, Protocol):
    """Reads what is on offer level by level, and can keep it."""

    def keep_ladders(self, ladders: LadderSink) -> None:
        """State from now on every ladder that a message changes, before the message's states are placed."""


@runtime_checkable
class HoldingReader(Reader, Protocol):
    """Holds states until a later message shows that they are the last ones of their time.

    ``counts`` has differences from a reader that knows the end, by reason.
    """

    @property
    def counts(self) -> Mapping[str, int]: ...

    def finish(self) -> Sequence[State]:
        """Return the held states: the capture ends, or messages were missed."""
        ...


# Segments read again give the same messages of the tape as during the capture.


# A live tape has the order of arrival, and gives each message the law's time, which never goes back.


_Market = tuple[int, str]
_BEFORE_ALL = (-1, -(2**63))


class Arrival:
    """Numbers the messages of each fixture on arrival, and sets the law's time.

    Parameters
    ----------
    live
        Whether the law's time advances over all fixtures together, as agents of one run see it, instead of per fixture.
    clock
        Limit of valid times, as a last guard behind the readers; no limit by default.

    Attributes
    ----------
    counts
        Messages later than their time (``late``), older than their market's state (``stale``), with other sides than the market
        had (``other sides``), or invalid in a pack (``against the format``). Only ``late`` ones leave a tick.
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
        return Counter({reason: count for reason, count in self.counts.items() if reason != "late"})

    def place(self, state: State) -> Message | None:
        """Return a state's message; ``None`` if it leaves no tick."""
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
        ts_ms, is_late = self.time_of(state.fixture_id, state.ts_ms)
        if is_late:
            self.counts["late"] += 1
        self._last[0 if self._live else state.fixture_id] = ts_ms, state.fixture_id
        tick_seq = self._ticks[state.fixture_id]
        self._ticks[state.fixture_id] += 1
        return Message(
            state.fixture_id, tick_seq, ts_ms, state.in_running, state.market_key,
            state.sides, state.prob_bps, state.odds_milli, state.suspended,
        )  # fmt: skip

    def time_of(self, fixture_id: int, ts_ms: int) -> tuple[int, bool]:
        """Return the law's time of a message that comes now, and whether its own time is earlier."""
        last_ms, last_fixture = self._last.get(0 if self._live else fixture_id, _BEFORE_ALL)
        own_ms = self._clock.bound(ts_ms)
        if (own_ms, fixture_id) < (last_ms, last_fixture):
            # A replay orders messages by time, then by fixture; that must be the order of arrival, in which agents saw them.
            return last_ms + (fixture_id != last_fixture), own_ms < last_ms
        return own_ms, False

    def suspend(self, markets: Iterable[_Market]) -> Iterator[Message]:
        """Return a message without prices for each of these markets that is open, at its last time by the provider."""
        for market in sorted(markets):
            known = self._markets.get(market)
            if known is None or known.suspended:
                continue
            nothing = (None,) * len(known.sides)
            message = self.place(known._replace(prob_bps=nothing, odds_milli=nothing))
            if message is not None:
                yield message


def _may_stand(state: State, *, is_new: bool) -> bool:
    """Return whether a pack may hold a state, so that one false message does not spoil a whole capture."""
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


@dataclass(frozen=True, slots=True)
class _LawTimes:
    """Passes ladders on with the law's time, as their messages have it."""

    arrival: Arrival
    wanted: frozenset[int]
    log: LadderLog

    def put(self, key: SideKey, ts_ms: int, odds: Sequence[float], stakes: Sequence[float]) -> None:
        if not self.wanted or key[0] in self.wanted:
            self.log.put(key, self.arrival.time_of(key[0], ts_ms)[0], odds, stakes)


_MOST_REASONS = 100  # reasons quote sent values, so a provider could cause more of them than memory holds
_OTHER = "other reasons"
_MOST_FALSE = 1_000  # most ledger entries for false times; beyond, the last one is extended
FALSE_TIME = "time"
"""Cause of the gaps that are no cut: a message came whose time does not stand."""


@dataclass
class Tracker:
    """Follows a capture record by record, live or read again: messages of the tape, and the ledger of closed ``gaps``.

    ``unreadable`` counts refused messages by reason, each without a tick; ``announced`` are the kickoffs known at the first
    tick of each fixture. ``ladders`` takes the ladders of a reader that reads them, where they are kept.
    """

    header: Header
    reader: Reader
    ladders: LadderLog | None = None
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
        # A run has one fixture; among several, the time of one must not move another's.
        self.arrival = Arrival(live=self.header.live and self.header.skew_s is None, clock=self.clock)
        self._wanted = frozenset(self.header.fixture_ids)
        if self.ladders is not None and isinstance(self.reader, DeepReader):
            self.reader.keep_ladders(_LawTimes(self.arrival, self._wanted, self.ladders))

    @property
    def fixtures(self) -> dict[int, Fixture]:
        return {
            number: fixture
            for number, fixture in sorted(self.reader.fixtures.items())
            if not self._wanted or number in self._wanted
        }

    def take(self, record: CaptureRecord) -> Sequence[Message]:
        self.first_ms = record.at_ms if self.first_ms is None else self.first_ms
        self.last_ms = record.at_ms
        if record.text is not None:
            return self._message(record.text, record.at_ms)
        if record.cut is not None:
            return self._cut(record.at_ms, record.cut)
        if record.resumed is not None:
            return self._resume(record.at_ms, replayed=bool(record.resumed.get("replayed")))
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
        return self._place(states)

    def _note_false(self, at_ms: int) -> None:
        if self.clock.refused <= _MOST_FALSE:
            self._last_false = len(self.gaps)
            self.gaps.append(gap_of(at_ms, at_ms, FALSE_TIME, (), replayed=False))
            return
        known = self.gaps[self._last_false]
        self.gaps[self._last_false] = known.model_copy(update={"to_ts_ms": max(known.to_ts_ms, at_ms)})

    def finish(self) -> list[Message]:
        """Return the messages of held states, at the end of the capture."""
        return self._place(self.reader.finish()) if isinstance(self.reader, HoldingReader) else []

    def _place(self, states: Iterable[State]) -> list[Message]:
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
        return () if resumable else self._suspend(markets)

    def _resume(self, at_ms: int, *, replayed: bool) -> Sequence[Message]:
        opened, self._open = self._open, []
        messages: list[Message] = []
        for from_ms, cause, markets, resumable in opened:
            self.gaps.append(gap_of(from_ms, at_ms, cause, markets, replayed=resumable and replayed))
            if resumable and not replayed:
                messages += self._suspend(markets)
        return messages

    def _suspend(self, markets: tuple[str, ...]) -> list[Message]:
        held = self.finish()
        forgotten = [market for market in self.reader.forget(markets) if not self._wanted or market[0] in self._wanted]
        return [*held, *self.arrival.suspend(forgotten)]

    def ledger(self) -> tuple[Gap, ...]:
        """Return all gaps; an open one ends with the last record."""
        end = self.last_ms or 0
        still = [gap_of(since, end, cause, markets, replayed=False) for since, cause, markets, _ in self._open]
        return (*self.gaps, *still)


def gap_of(from_ms: int, to_ms: int, cause: str, markets: tuple[str, ...], *, replayed: bool) -> Gap:
    """Return a ledger entry; if a clock was put back, the gap does not end before it began."""
    return Gap(
        from_ts_ms=from_ms, to_ts_ms=max(from_ms, to_ms), cause=cause, markets=markets or None, replayed=replayed or None
    )


def records_in_order(segments: Iterable[tuple[str, str, Iterator[Header | CaptureRecord]]]) -> Iterator[Header | CaptureRecord]:
    """Return the records of segments (name, ``sha256:<hex>``, content), each checked to follow the one before.

    Raises
    ------
    SourceError
        A segment is missing, of another capture, or does not follow the one before it.
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


METHOD = "provider messages, verbatim, as they came"
_CHUNK = 50_000

# Packs of feeds that this machine plays have these names, which differ from those of all providers.
_PLAYED = frozenset({"synthetic-devfeed", "synthetic-replay"})


@dataclass(frozen=True, slots=True)
class Source:
    """How the messages of a feed become a pack.

    Attributes
    ----------
    feed
        Name of the feed and its normaliser: ``txline`` and ``txline-capture/1``.
    new_reader
        Makes a reader; its argument is whether it reads for a run, where every message counts on arrival.
    margin, consensus, closing_source, closing_policy
        Labels of the pack.
    kickoff
        Kind of the kickoffs unless one moved; kickoffs of a run are always scheduled.
    bounds_times
        Whether a message's arrival bounds its time; it does not in a replay, which has the times of its pack.
    """

    feed: str
    new_reader: Callable[[bool], Reader]
    margin: str
    consensus: str
    closing_source: str = "consensus"
    closing_policy: ClosingPolicy = ClosingPolicy.LAST_STATE
    kickoff: KickoffKind = KickoffKind.SCHEDULED
    bounds_times: bool = True

    @property
    def normaliser(self) -> str:
        return f"{self.feed}-capture/1"

    @property
    def has_depth(self) -> bool:
        """Whether its messages say what is on offer level by level."""
        return isinstance(self.reader(live=False), DeepReader)

    def skew_s(self, provenance: str, skew_s: int) -> int | None:
        """Return the seconds by which new times may be later than arrivals; ``None`` for a replay at its own speed."""
        return skew_s if self.bounds_times and provenance not in _PLAYED else None

    def reader(self, *, live: bool) -> Reader:
        return self.new_reader(live)

    def normalise(self, files: Mapping[str, Path], options: Options, scratch: Path) -> SourceData:
        return normalise_capture(self, files, options, scratch)


def normalise_capture(source: Source, files: Mapping[str, Path], options: Options, scratch: Path) -> SourceData:
    """Read a capture's segments in written order.

    Raises
    ------
    SourceError
        A line is not one of a capture, or a segment is missing or is another feed's.
    """
    names = sorted(files)
    records = records_in_order((name, file_sha256(files[name]), records_of(files[name])) for name in names)
    header = next(records, None)
    if not isinstance(header, Header):
        raise SourceError(f"no segment of a capture in {', '.join(names) or 'no file'}")
    if header.feed != source.feed:
        raise SourceError(f"{names[0]}: holds messages of {header.feed!r}, not of {source.feed!r}")
    if header.provenance.startswith("genuine-") and header.provenance != f"genuine-{source.feed}":
        raise SourceError(f"{names[0]}: captures of {source.feed!r} are not {header.provenance!r}")
    reader, spill = source.reader(live=header.live), QuoteSpill(scratch)
    ladders = SpilledLadders(scratch / "ladders") if options.ladders and isinstance(reader, DeepReader) else None
    tracker = Tracker(header, reader, None if ladders is None else ladders.log)
    for chunk in _chunks(tracker, records):
        spill.add(ticks_of(chunk).with_columns(event=pl.col("fixture_id").cast(pl.String)))
        if ladders is not None:
            ladders.flush(options.chunk_rows)
    account = ImportStats(options.lenient)
    account.messages = tracker.messages
    for reason, count in (*tracker.unreadable.items(), *tracker.arrival.counts.items()):
        account.note(f"messages without a tick or time of their own: {reason}", count)
    account.note("messages with a time that does not stand", tracker.clock.refused)
    if isinstance(tracker.reader, HoldingReader):
        for reason, count in tracker.reader.counts.items():
            account.note(reason, count)
    kickoff, fixtures = _kickoffs(source, tracker)
    return SourceData(
        parts=_parts(spill, ladders, options),
        fixtures=tuple(fixture for fixture in fixtures if str(fixture.fixture_id) in spill.rows_of),
        account=account,
        provenance=header.provenance,
        normaliser=source.normaliser,
        margin=source.margin,
        consensus=source.consensus,
        closing_source=source.closing_source,
        closing_policy=source.closing_policy,
        kickoff=kickoff,
        capture=Capture(
            method=METHOD,
            tool=f"clvlab capture {source.feed}",
            started_ts_ms=tracker.first_ms or 0,
            ended_ts_ms=tracker.last_ms or 0,
            gaps=tracker.ledger(),
        ),
        reading=_time_rule(tracker),
        keep_raw=True,
    )


def _time_rule(tracker: Tracker) -> TimeRule | None:
    skew_s, clock = tracker.header.skew_s, tracker.clock
    if skew_s is None:
        return None
    return TimeRule(rule=2, skew_s=skew_s, offset_ms=clock.offset_ms, refused=clock.refused)


def _chunks(tracker: Tracker, records: Iterator[Header | CaptureRecord]) -> Iterator[list[Message]]:
    held: list[Message] = []
    for record in records:
        if isinstance(record, CaptureRecord):
            held += tracker.take(record)
        if len(held) >= _CHUNK:
            yield held
            held = []
    held += tracker.finish()
    if held:
        yield held


def _kickoffs(source: Source, tracker: Tracker) -> tuple[KickoffKind, list[Fixture]]:
    """Return fixtures by id, and the kind of their kickoffs; agents could not know a moved kickoff beforehand."""
    fixtures = list(tracker.fixtures.values())
    if tracker.header.live or source.kickoff is KickoffKind.ACTUAL:
        return KickoffKind.SCHEDULED if tracker.header.live else KickoffKind.ACTUAL, fixtures
    first = {own.fixture_id: tracker.announced.get(own.fixture_id, own.kickoff_ts_ms) for own in fixtures}
    if all(own.kickoff_ts_ms == first[own.fixture_id] for own in fixtures):
        return KickoffKind.SCHEDULED, fixtures
    return KickoffKind.ACTUAL, [own.model_copy(update={"scheduled_ts_ms": first[own.fixture_id]}) for own in fixtures]


def _parts(spill: QuoteSpill, ladders: SpilledLadders | None, options: Options) -> Iterator[SourcePart]:
    ids = {event: int(event) for event in spill.rows_of}
    for batch in batches(spill.rows_of, ids, options.chunk_rows):
        ticks = spill.rows(batch).select(*TICKS).sort("fixture_id", "tick_seq", "side")
        yield SourcePart(ticks, ladders=None if ladders is None else ladders.rows(batch, ticks))
