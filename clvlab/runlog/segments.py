"""Captures in the run log: each part of one is noted when it is closed, before the next begins.

So whoever sees a checkpoint knows that the messages of a part were there by then. That none was left out, nobody can see.
"""

from __future__ import annotations

from clvlab.errors import LogConflictError
from clvlab.proof.canonical import canonical
from clvlab.runlog.entries import SEGMENT_SCHEMA, EntryKind, Segment, read_entry
from clvlab.runlog.log import LogRows, named
from clvlab.runlog.tree import completed_roots

_NOBODY = ""


def segments(rows: LogRows, capture_id: str) -> list[Segment]:
    """Return what the log has of a capture, in order."""
    found = [read_entry(rows.entry(index)) for index, kind in rows.about(capture_id) if kind == EntryKind.SEGMENT]
    return [entry for entry in found if isinstance(entry, Segment)]


def note_segment(rows: LogRows, capture_id: str, number: int, sha256: str, ts_ms: int) -> None:
    """Note a part of a capture that was closed; the same one again changes nothing.

    Raises
    ------
    LogConflictError
        The log has another hash of it, or lacks the part before.
    LogError
        The capture's name is no name.
    """
    named(capture_id, "a capture")
    known = segments(rows, capture_id)
    if 1 <= number <= len(known):
        if known[number - 1].sha256 != sha256:
            raise LogConflictError(
                f"segment {number} of capture {capture_id} is in the log as {known[number - 1].sha256}, not {sha256}"
            )
        return
    if number != len(known) + 1:
        raise LogConflictError(f"segment {number} of capture {capture_id} follows {len(known)} in the log")
    content = {"kind": EntryKind.SEGMENT.value, "schema": SEGMENT_SCHEMA, "ts_ms": ts_ms}
    entry = canonical(content | {"capture_id": capture_id, "number": number, "sha256": sha256})
    index = rows.size()
    rows.add(index, EntryKind.SEGMENT.value, capture_id, _NOBODY, None, None, entry, completed_roots(rows, index, entry))
