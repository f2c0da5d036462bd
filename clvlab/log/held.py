"""Packs held back in the run log: content hash and salted list of fixtures, before any run over the pack, and their opening.

A reader of the log knows that pack and list were fixed before the first seat over them, and that the list which is opened
afterwards is that one. That nobody outside held the pack meanwhile is its operator's word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from clvlab.errors import LogConflictError
from clvlab.log.entries import HELD_SCHEMA, EntryKind, HeldEntry, ReleasedEntry
from clvlab.log.log import LogRows, append_unowned, held_entries
from clvlab.proof.canonical import HASH, canonical


def fixture_list(salt: str, fixtures: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the salted list of a pack's fixtures, whose SHA-256 is in the log; without the salt its names could be guessed."""
    return canonical({"fixtures": fixtures, "salt": salt})


def note_held(rows: LogRows, pack: HeldEntry, ts_ms: int) -> int:
    """Record a pack as held back, before any run over it, and return the entry's index.

    Raises
    ------
    LogConflictError
        The log has a commitment over the pack, or holds it back already.
    """
    used, (index, _) = rows.committed_over(pack.content_hash), held_entries(rows, pack.content_hash)
    if index is not None:
        raise LogConflictError(f"pack {pack.content_hash} is held back already, by entry {index} of the log")
    if used is not None:
        raise LogConflictError(f"pack {pack.content_hash} can't be held back: entry {used} of the log commits to a run over it")
    return append_unowned(rows, HELD_SCHEMA, EntryKind.HELD, pack.content_hash, asdict(pack), ts_ms)


def note_released(rows: LogRows, content_hash: str, ts_ms: int) -> int:
    """Record that the list of a pack's fixtures is opened, and return the entry's index; repeating changes nothing."""
    index, released = held_entries(rows, content_hash)
    if index is None:
        raise LogConflictError(f"the log does not hold pack {content_hash} back")
    if released is not None:
        return released
    return append_unowned(
        rows, HELD_SCHEMA, EntryKind.RELEASED, content_hash, {"content_hash": content_hash, "held_index": index}, ts_ms
    )


# Audit of packs that are held back, entry by entry, by the rules above.


@dataclass(slots=True)
class HeldHistory:
    """A pack that a log holds back, and the entry that opens its list of fixtures, if there is one."""

    content_hash: str
    fixtures: int
    fixtures_hash: str
    index: int
    released: int | None = None

    def covers(self, index: int) -> bool:
        """Whether the pack was held back when the log had this many entries."""
        return self.index < index and (self.released is None or index < self.released)


@dataclass(slots=True)
class HeldAuditor:
    """Audit of packs that are held back, read in order. ``packs`` has them by content hash."""

    packs: dict[str, HeldHistory] = field(default_factory=dict)

    def add(self, index: int, entry: HeldEntry | ReleasedEntry, *, is_used: bool) -> str | None:
        """Read an entry, and return the rule that it breaks, or ``None``; ``is_used``: a commitment over the pack precedes."""
        name, known = f"entry {index} holds back pack {entry.content_hash[:80]!a}", self.packs.get(entry.content_hash)
        if isinstance(entry, ReleasedEntry):
            what = f"entry {index} opens pack {entry.content_hash[:80]!a}"
            if known is None or known.index != entry.held_index:
                return f"{what} of entry {entry.held_index}, which is not the earlier entry that holds it back"
            if known.released is not None:
                return f"{what}, which entry {known.released} did"
            known.released = index
            return None
        if not all(map(HASH.fullmatch, (entry.content_hash, entry.fixtures_hash))):
            return f"{name} by no hash: {entry.fixtures_hash[:80]!a}"
        if known is not None:
            return f"{name} again, which is entry {known.index}"
        self.packs[entry.content_hash] = HeldHistory(entry.content_hash, entry.fixtures, entry.fixtures_hash, index)
        # An owner who ran over a pack before may have its prices, so no seat over it would be blind.
        return f"{name}, over which an earlier entry commits to a run" if is_used else None
