"""Whether the segments of a pack stand in a run log, under a checkpoint that it signed, and since when by its own word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from clvlab.application.log.sources import PAGE, Limits, LogSource, opened_source
from clvlab.errors import EvidenceError, LogError
from clvlab.packs.captures.records import Header, Record, records_of
from clvlab.packs.captures.sources import CAPTURES
from clvlab.packs.files import file_sha256
from clvlab.packs.grades import Grade
from clvlab.packs.reader import Pack
from clvlab.proof.canonical import parsed
from clvlab.proof.merkle import Frontier, leaf_hash
from clvlab.runlog.bundled import Trust
from clvlab.runlog.entries import Segment, read_entry
from clvlab.runlog.note import Checkpoint
from clvlab.runlog.signers import Keys, trusted_checkpoint


@dataclass(frozen=True, slots=True)
class Witnessed:
    """The grade of a pack beside a log, and the sentences that say why."""

    grade: Grade
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Part:
    """A segment of a pack, and the first and last arrival of a message in it; null of one without messages."""

    name: str
    entry: Segment
    first_ms: int | None
    last_ms: int | None


def witnessed(pack: Pack, place: str, trust: Trust, note: str | None = None, limits: Limits | None = None) -> Witnessed:
    """Look for every segment of a verified pack among the entries of a log.

    Parameters
    ----------
    pack
        In a folder, verified.
    place
        File of SQLite, URL of a database, or http(s) URL of a service.
    trust
        Whose signatures count.
    note
        A signed checkpoint of the log; the one that a service answers by default.
    limits
        When to give up.

    Raises
    ------
    LogError
        There is no log, or it can't be read.
    """
    if pack.grade is Grade.NOT_SHOWN:
        return Witnessed(Grade.NOT_SHOWN, ("the pack shows no messages that a log could have",))
    parts, limits, keys = _parts(pack), limits or Limits(), Keys.read(trust.logs, trust.witnesses)
    with opened_source(place, limits) as source:
        note = source.head().note if note is None else note
        if note is None:
            return Witnessed(pack.grade, ("the log has no signed checkpoint: name one with --checkpoint",))
        try:
            signed, witnesses = trusted_checkpoint(note, keys)
            if len(witnesses) < trust.witness_quorum:
                raise LogError(f"{len(witnesses)} trusted witnesses signed the checkpoint, {trust.witness_quorum} must")
            times = _times(source, signed, {part.entry for part in parts}, limits)
        except LogError as error:
            return Witnessed(pack.grade, (str(error),))
    missing = [part.name for part in parts if part.entry not in times]
    if missing or not parts:
        return Witnessed(pack.grade, (f"not in the log {signed.origin}: {', '.join(missing) or 'any segment'}",))
    early = [part.name for part in parts if part.last_ms is not None and times[part.entry] < part.last_ms]
    if early:
        return Witnessed(pack.grade, (f"entered in the log before their messages arrived: {', '.join(early)}",))
    return Witnessed(Grade.WITNESSED, tuple(_reasons(pack, parts, times, signed)))


def _parts(pack: Pack) -> list[_Part]:
    """Return the segments of a pack; none of a pack that was imported from other files."""
    found: list[_Part] = []
    if pack.manifest.normaliser not in CAPTURES:
        return found
    for raw in pack.manifest.raw:
        path = pack.folder / "raw" / raw.name
        records = records_of(path)
        header = next(records, None)
        if not isinstance(header, Header):
            continue
        arrivals = [record.at_ms for record in records if isinstance(record, Record) and record.text is not None]
        entry = Segment(header.capture_id, header.number, file_sha256(path))
        found.append(_Part(raw.name, entry, min(arrivals, default=None), max(arrivals, default=None)))
    return found


def _times(source: LogSource, signed: Checkpoint, wanted: set[Segment], limits: Limits) -> dict[Segment, int]:
    """Read the entries under a checkpoint, whose root they must give, and return when it has which segments."""
    if signed.size > limits.entries:
        raise LogError(f"the checkpoint has {signed.size:,} entries, more than the {limits.entries:,} that are to be read")
    tree, times = Frontier(), dict[Segment, int]()
    while tree.size < signed.size:
        limit = min(PAGE, signed.size - tree.size)
        page = source.page(tree.size, limit)
        if [index for index, _ in page] != list(range(tree.size, tree.size + limit)):
            raise LogError(f"the log does not give the entries from {tree.size:,} on that its checkpoint has")
        for _, data in page:
            tree.extend([leaf_hash(data)])
            try:
                entry = read_entry(data)
            except EvidenceError:  # an entry of a later kind is no segment; its bytes are under the root all the same
                continue
            if isinstance(entry, Segment) and entry in wanted:
                times.setdefault(entry, parsed(data)["ts_ms"])
    if tree.root() != signed.root:
        raise LogError(f"the entries of the log do not give the root of the checkpoint of {signed.origin!r}")
    return times


def _reasons(pack: Pack, parts: list[_Part], times: Mapping[Segment, int], signed: Checkpoint) -> list[str]:
    """Say when segments were entered, against their arrivals and against kickoffs."""
    last = max(times.values())
    waits = [times[part.entry] - part.first_ms for part in parts if part.first_ms is not None]
    kickoffs = [one.kickoff_ts_ms for one in pack.manifest.fixtures if one.kickoff_ts_ms is not None]
    late = [
        times[part.entry] - kickoff
        for kickoff in kickoffs
        for part in parts
        if part.first_ms is not None and part.first_ms < kickoff < times[part.entry]
    ]
    said = f"by the word of the operator of the log {signed.origin}, {len(parts):,} segments were entered until {_time(last)}"
    after = f"; messages from before a kickoff were entered up to {_span(max(late))} after it" if late else ""
    return [f"{said}, each at most {_span(max(waits, default=0))} after its first message arrived{after}"]


def _time(ts_ms: int) -> str:
    try:
        return datetime.fromtimestamp(ts_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError):
        return f"{ts_ms} ms"


def _span(ms: int) -> str:
    return str(timedelta(seconds=-(-ms // 1000)))
