"""From the segments of a capture to ticks, as an importer makes them of files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from clvlab.errors import SourceError
from clvlab.law.message import Message, ticks_of
from clvlab.law.schema import TICKS, ClosingPolicy
from clvlab.packs.captures.reader import HoldingReader, Reader
from clvlab.packs.captures.records import CaptureRecord, Header, records_of
from clvlab.packs.captures.replaying import Tracker, chained
from clvlab.packs.files import file_sha256
from clvlab.packs.importers.books import QuoteSpill, batches
from clvlab.packs.importers.source import ImportStats, Normalised, Options
from clvlab.packs.manifest import Capture, Fixture, KickoffKind, TimeRule

METHOD = "provider messages, verbatim, as they came"
_CHUNK = 50_000

# What this machine plays: its packs go by these names, which no provider's host has.
_PLAYED = frozenset({"synthetic-devfeed", "synthetic-replay"})


@dataclass(frozen=True, slots=True)
class Source:
    """How the messages of a feed become a pack.

    Attributes
    ----------
    feed
        Its name, and that of its normaliser: ``txline`` and ``txline-capture/1``.
    new_reader
        Makes a reader; given whether it reads for a run, where every message counts as it comes.
    margin, consensus, closing_source, closing_policy
        Labels of the pack.
    kickoff
        What the kickoffs of its fixtures are unless one was moved; those of a run are always the scheduled ones.
    bounds_times
        Whether the arrival of a message bounds its time: not in a replay, whose times are those of its pack.
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

    def skew_s(self, provenance: str, skew_s: int) -> int | None:
        """Return how far times may be beyond their arrivals in a new capture; null of what is played, at a speed of its own."""
        return skew_s if self.bounds_times and provenance not in _PLAYED else None

    def reader(self, *, live: bool) -> Reader:
        """Make a reader, of a run where it is live."""
        return self.new_reader(live)

    def normalise(self, files: Mapping[str, Path], options: Options, scratch: Path) -> Normalised:
        """Read the segments of a capture, as an importer reads files."""
        return normalise_capture(self, files, options, scratch)


def normalise_capture(source: Source, files: Mapping[str, Path], options: Options, scratch: Path) -> Normalised:
    """Read the segments of a capture in the order in which they were written.

    Parameters
    ----------
    source
        Whose messages these have to be.
    files
        Segments by name.
    options
        How many rows are held at a time.
    scratch
        A folder for what is not held.

    Raises
    ------
    SourceError
        A line that is none of a capture, a segment that is missing, or another feed's.
    """
    names = sorted(files)
    records = chained((name, file_sha256(files[name]), records_of(files[name])) for name in names)
    header = next(records, None)
    if not isinstance(header, Header):
        raise SourceError(f"no segment of a capture in {', '.join(names) or 'no file'}")
    if header.feed != source.feed:
        raise SourceError(f"{names[0]}: holds messages of {header.feed!r}, not of {source.feed!r}")
    if header.provenance.startswith("genuine-") and header.provenance != f"genuine-{source.feed}":
        raise SourceError(f"{names[0]}: captures of {source.feed!r} are not {header.provenance!r}")
    tracker, spill = Tracker(header, source.reader(live=header.live)), QuoteSpill(scratch)
    for chunk in _chunks(tracker, records):
        spill.add(ticks_of(chunk).with_columns(event=pl.col("fixture_id").cast(pl.String)))
    account = ImportStats(options.lenient)
    account.messages = tracker.messages
    for reason, count in (*tracker.unreadable.items(), *tracker.arrival.counts.items()):
        account.note(f"messages without a tick or time of their own: {reason}", count)
    account.note("messages with a time that does not stand", tracker.clock.refused)
    if isinstance(tracker.reader, HoldingReader):
        for reason, count in tracker.reader.counts.items():
            account.note(reason, count)
    kickoff, fixtures = _kickoffs(source, tracker)
    return Normalised(
        parts=_parts(spill, options),
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
        reading=_reading(tracker),
        keep_raw=True,
    )


def _reading(tracker: Tracker) -> TimeRule | None:
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
    """Return the fixtures by id, and what their kickoffs are: one that was moved was no agent to know beforehand."""
    fixtures = list(tracker.fixtures.values())
    if tracker.header.live or source.kickoff is KickoffKind.ACTUAL:
        return KickoffKind.SCHEDULED if tracker.header.live else KickoffKind.ACTUAL, fixtures
    first = {own.fixture_id: tracker.announced.get(own.fixture_id, own.kickoff_ts_ms) for own in fixtures}
    if all(own.kickoff_ts_ms == first[own.fixture_id] for own in fixtures):
        return KickoffKind.SCHEDULED, fixtures
    return KickoffKind.ACTUAL, [own.model_copy(update={"scheduled_ts_ms": first[own.fixture_id]}) for own in fixtures]


def _parts(spill: QuoteSpill, options: Options) -> Iterator[pl.DataFrame]:
    ids = {event: int(event) for event in spill.rows_of}
    for batch in batches(spill.rows_of, ids, options.chunk_rows):
        yield spill.rows(batch).select(*TICKS).sort("fixture_id", "tick_seq", "side")
