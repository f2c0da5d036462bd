"""Search for a pack's segments in a run log under a signed checkpoint, and compare the times that the log states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from clvlab.arena.log.sources import LogSource, SourceLimits, entries_of, opened_source
from clvlab.errors import EvidenceError, LogError
from clvlab.log.bundles import Trust
from clvlab.log.entries import Segment, entry_and_time
from clvlab.log.note import Checkpoint, Keys, trusted_checkpoint
from clvlab.packs.files import file_sha256
from clvlab.packs.manifest import Grade
from clvlab.packs.reader import Pack
from clvlab.proof.merkle import Frontier, leaf_hash
from clvlab.sources.capture.records import CaptureRecord, Header, records_of
from clvlab.sources.providers import CAPTURES
from clvlab.words import counted, moment

_DAY_MS = 86_400_000
LATE_MS = _DAY_MS
"""Longest time from a segment's first message to its entry.

A day lets an interrupted capture continue. Matches end within a day, so the author of a later entry may know their results.
"""


@dataclass(frozen=True, slots=True)
class LogGrade:
    """The grade of a pack by a log, and its reasons in sentences.

    ``since_ms`` is the entry time of the last segment, for which the log's operator vouches; ``None`` if a segment is not in
    the log. ``late_days`` is the longest time from a segment's first message to its entry, in whole days.
    """

    grade: Grade
    reasons: tuple[str, ...]
    since_ms: int | None = None
    late_days: int = 0

    def __str__(self) -> str:
        if self.since_ms is None:
            return self.grade.value
        late = f", {counted(self.late_days, 'day')} after its messages" if self.late_days else ""
        return f"{Grade.WITNESSED} since {moment(self.since_ms)}{late}"


@dataclass(frozen=True, slots=True)
class _PackSegment:
    """A segment of a pack, and the first and last arrival of its messages; ``None`` without messages."""

    name: str
    entry: Segment
    first_ms: int | None
    last_ms: int | None


def log_grade(pack: Pack, place: str, trust: Trust, note: str | None = None, limits: SourceLimits | None = None) -> LogGrade:
    """Search every segment of a verified local pack in a log, under ``note`` or the checkpoint that a service returns."""
    if pack.grade is Grade.NOT_SHOWN:
        return LogGrade(Grade.NOT_SHOWN, ("the pack does not have the messages that a log could record",))
    parts, limits, keys = _parts(pack), limits or SourceLimits(), Keys.read(trust.logs, trust.witnesses)
    with opened_source(place, limits) as source:
        note = source.head().note if note is None else note
        if note is None:
            return LogGrade(pack.grade, ("the log has no signed checkpoint: name one with --checkpoint",))
        try:
            signed, witnesses = trusted_checkpoint(note, keys)
            fault = trust.quorum_fault(witnesses)
            if fault is not None:
                raise LogError(fault)
            times = _times(source, signed, {part.entry for part in parts}, limits)
        except LogError as error:
            return LogGrade(pack.grade, (str(error),))
    missing = [part.name for part in parts if part.entry not in times]
    if missing or not parts:
        return LogGrade(pack.grade, (f"not in the log {signed.origin}: {', '.join(missing) or 'any segment'}",))
    early = [part.name for part in parts if part.last_ms is not None and times[part.entry] < part.last_ms]
    if early:
        return LogGrade(pack.grade, (f"entered in the log before their messages arrived: {', '.join(early)}",))
    wait_ms = max((times[part.entry] - part.first_ms for part in parts if part.first_ms is not None), default=0)
    is_late = wait_ms > LATE_MS
    return LogGrade(
        Grade.WITNESSED_LATE if is_late else Grade.WITNESSED,
        tuple(_reasons(pack, parts, times, signed, wait_ms)),
        max(times.values()),
        wait_ms // _DAY_MS if is_late else 0,
    )


def _parts(pack: Pack) -> list[_PackSegment]:
    """Return the segments of a pack; empty for an import of other files."""
    found: list[_PackSegment] = []
    if pack.manifest.normaliser not in CAPTURES:
        return found
    for raw in pack.manifest.raw:
        path = pack.folder / "raw" / raw.name
        records = records_of(path)
        header = next(records, None)
        if not isinstance(header, Header):
            continue
        arrivals = [record.at_ms for record in records if isinstance(record, CaptureRecord) and record.text is not None]
        entry = Segment(header.capture_id, header.number, file_sha256(path))
        found.append(_PackSegment(raw.name, entry, min(arrivals, default=None), max(arrivals, default=None)))
    return found


def _times(source: LogSource, signed: Checkpoint, wanted: set[Segment], limits: SourceLimits) -> dict[Segment, int]:
    """Read the entries under a checkpoint, check its root, and return the entry time of each segment."""
    tree, times = Frontier(), dict[Segment, int]()
    for data in entries_of(source, signed.size, limits):
        tree.extend([leaf_hash(data)])
        try:
            entry, ts_ms = entry_and_time(data)
        except EvidenceError:  # an entry of an unknown later kind is not a segment, but counts in the root
            continue
        if isinstance(entry, Segment) and entry in wanted:
            times.setdefault(entry, ts_ms)
    if tree.root() != signed.root:
        raise LogError(f"the entries of the log do not give the root of the checkpoint of {signed.origin!r}")
    return times


def _reasons(
    pack: Pack, parts: list[_PackSegment], times: Mapping[Segment, int], signed: Checkpoint, wait_ms: int
) -> list[str]:
    """Compare entry times of segments with arrivals and kickoffs, in sentences."""
    last = max(times.values())
    kickoffs = [one.kickoff_ts_ms for one in pack.manifest.fixtures if one.kickoff_ts_ms is not None]
    late = [
        times[part.entry] - kickoff
        for kickoff in kickoffs
        for part in parts
        if part.first_ms is not None and part.first_ms < kickoff < times[part.entry]
    ]
    text = f"by the word of the operator of the log {signed.origin}, {len(parts):,} segments were entered until {moment(last)}"
    after = f"; messages from before a kickoff were entered up to {_span(max(late))} after it" if late else ""
    return [f"{text}, each at most {_span(wait_ms)} after its first message arrived{after}"]


def _span(ms: int) -> str:
    return str(timedelta(seconds=-(-ms // 1000)))
