"""Limits of sealed files. The seal checks them, and every reader before it splits, hashes or parses anything.

``docs/reference/evidence-format.md`` states them. ``clv_verify.py`` and the browser's verifier repeat them.
"""

from __future__ import annotations

from clvlab.errors import EvidenceError
from clvlab.proof.canonical import canonical
from clvlab.proof.manifest import MAX_MANIFEST_BYTES, RunStarted

MAX_BYTES = 4 << 30
MAX_LINE_BYTES = 4 << 20
MAX_STARTED_BYTES = 32 << 20  # RUN_STARTED holds the configurations of all agents, transcripts included
MIN_MEAN_LINE_BYTES = 64  # every line is longer
MAX_DISCLOSURE_BYTES = 2 * (MAX_STARTED_BYTES + 5 * MAX_LINE_BYTES)  # it holds each line as a text with escaped quotes
PART_LIMITS = {
    "context.json": MAX_LINE_BYTES,  # the binding of RUN_STARTED
    "manifest.json": MAX_MANIFEST_BYTES,
    "anchor.json": 1 << 20,
    "log.json": 1 << 20,
    "seat.json": 64 << 20,
    "stamps.json": 1 << 20,
    "commit.tlog-proof": 1 << 20,
    "outcome.tlog-proof": 1 << 20,
    "checkpoint.ots": 64 << 10,
    "earlier.ots": 64 << 10,
}


def check_lines(text: bytes, name: str, first: int = MAX_LINE_BYTES) -> None:
    """Raise ``EvidenceError`` unless size, line count and line lengths are within the limits. No text is copied."""
    if len(text) > MAX_BYTES:
        raise EvidenceError(f"{name} has {len(text):,} bytes, the limit is {MAX_BYTES:,}")
    count = text.count(b"\n")
    if count * MIN_MEAN_LINE_BYTES > len(text):
        raise EvidenceError(
            f"{name} has {count:,} lines in {len(text):,} bytes: lines have at least {MIN_MEAN_LINE_BYTES} bytes on average"
        )
    start = text.find(b"\n", 0, first + 1) + 1
    if text and not start:
        raise EvidenceError(f"line 1 of {name} has more than {first:,} bytes")
    while start < len(text):  # each step goes to the last line feed in reach, so no line before it is too long
        end = text.rfind(b"\n", start, start + MAX_LINE_BYTES + 1)
        if end < 0:
            number = text.count(b"\n", 0, start) + 1
            raise EvidenceError(f"line {number:,} of {name} has more than {MAX_LINE_BYTES:,} bytes")
        start = end + 1


def first_line(events: bytes) -> bytes:
    """Return RUN_STARTED of ``events.jsonl`` without its line feed; ``EvidenceError`` if it is too long or missing."""
    end = events.find(b"\n", 0, MAX_STARTED_BYTES + 1)
    if end < 0:
        raise EvidenceError(f"events.jsonl has no first line of at most {MAX_STARTED_BYTES:,} bytes")
    return events[:end]


def check_started(started: RunStarted) -> None:
    """Raise ``EvidenceError`` if RUN_STARTED has too many agents or fixtures, or configurations that are too long."""
    size = _line_bytes(started)
    if size > MAX_STARTED_BYTES:
        raise EvidenceError(
            f"RUN_STARTED has {size:,} bytes, the limit is {MAX_STARTED_BYTES:,}: fewer agents, or shorter transcripts, fit"
        )
    if size > MAX_LINE_BYTES:
        bare: RunStarted = {**started, "agents": [{**agent, "config": {}} for agent in started["agents"]]}
        size = _line_bytes(bare)
    if size > MAX_LINE_BYTES:
        raise EvidenceError(
            f"RUN_STARTED has {size:,} bytes without its agents' configurations, the limit is {MAX_LINE_BYTES:,}: "
            "fewer agents or fixtures fit"
        )


def _line_bytes(started: RunStarted) -> int:
    return len(canonical({"kind": "RUN_STARTED", "payload": started, "seq": 0}))
