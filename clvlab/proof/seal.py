"""Sealing of a run: from decisions, closes and scores to its bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from io import BytesIO

import polars as pl

from clvlab.proof.canonical import canonical, parsed, sha256
from clvlab.proof.events import Events, Kind, batches, close_lines, decision_lines, event_line, score_lines
from clvlab.proof.limits import MAX_STARTED_BYTES, check_lines, check_started
from clvlab.proof.manifest import RunStarted, manifest, stated_hash, stated_index
from clvlab.proof.merkle import Digest


@dataclass(frozen=True, slots=True)
class SealedRun:
    """A sealed run as bytes, which never change.

    Attributes
    ----------
    run_id
        ``run_`` and 32 hex digits.
    events
        ``events.jsonl``; its SHA-256 is the evidence hash.
    scores
        ``scores.jsonl``, one line per decision.
    manifest
        Canonical JSON; its SHA-256 is the manifest hash.
    """

    run_id: str
    events: bytes = field(repr=False)
    scores: bytes = field(repr=False)
    manifest: bytes = field(repr=False)

    @property
    def evidence_hash(self) -> str:
        """Evidence hash as the manifest states it, not recomputed."""
        return stated_hash(self.manifest)

    @property
    def content_hash(self) -> str | None:
        """Content hash, from the manifest, of the pack that the run was bound to at its start; ``None`` without a pack."""
        stated = parsed(self.manifest)["content_hash"]
        return None if stated is None else str(stated)

    @property
    def commit_index(self) -> int | None:
        """Index of the commitment in the log, as the manifest states it; ``None`` without an index or a readable manifest."""
        return stated_index(self.manifest)

    @property
    def manifest_hash(self) -> str:
        return sha256(self.manifest)


class Sealer(Digest):
    """A digest that keeps its text."""

    def __init__(self) -> None:
        super().__init__()
        self._text = BytesIO()  # it grows in place, because joining parts at the end would hold the text twice

    def add(self, lines: bytes) -> None:
        self._text.write(lines)
        super().add(lines)

    def bytes(self) -> bytes:
        return self._text.getvalue()


def seal(
    started: RunStarted,
    events: Events,
    errors: Sequence[Mapping[str, object]],
    scores: pl.DataFrame,
    commit_index: int | None = None,
    captured: str | None = None,
) -> SealedRun:
    """Return the sealed run; ``EvidenceError`` if it is beyond the limits, because no reader would verify it."""
    check_started(started)
    evidence, marks = Sealer(), Sealer()
    evidence.add(event_line(Kind.RUN_STARTED, started, 0))
    for lines in decision_lines(events):
        evidence.add(lines)
    for payload in errors:
        evidence.add(event_line(Kind.AGENT_ERROR, payload, evidence.count))
    for lines in close_lines(events):
        evidence.add(lines)
    sealed: dict[str, int | str] = {
        "agent_errors": len(errors),
        "decisions": len(events.decisions),
        "market_closes": len(events.closes),
    }
    if captured is not None:
        sealed |= {"content_hash": captured}
    evidence.add(event_line(Kind.RUN_SEALED, sealed, evidence.count))
    for lines in ahead(score_lines, scores):
        marks.add(lines)
    text, rows = evidence.bytes(), marks.bytes()
    check_lines(text, "events.jsonl", MAX_STARTED_BYTES)
    check_lines(rows, "scores.jsonl")
    bound = manifest(
        started,
        evidence_hash=evidence.hash(),
        evidence_root=evidence.root(),
        event_count=evidence.count,
        score_root=marks.root(),
        commit_index=commit_index,
    )
    return SealedRun(started["run_id"], text, rows, canonical(bound))


def ahead(write: Callable[[pl.DataFrame], bytes], frame: pl.DataFrame) -> Iterator[bytes]:
    """Write batch n + 1 while batch n is hashed. Polars writes without the interpreter's lock, and hashing holds it."""
    parts = list(batches(frame))
    if len(parts) < 2:  # for one batch, a thread takes longer to start than it saves
        yield from map(write, parts)
        return
    with ThreadPoolExecutor(1) as writer:
        pending = None
        for batch in parts:
            upcoming = writer.submit(write, batch)
            if pending is not None:
                yield pending.result()
            pending = upcoming
        if pending is not None:
            yield pending.result()
