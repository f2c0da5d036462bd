"""Runs as rows: their status from the start, and the sealed bytes in chunks of whole lines."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, islice
from struct import pack
from typing import Any, NamedTuple, TypedDict, TypeVar

from sqlalchemy import ColumnElement, Connection, Table, bindparam, case, func, select, tuple_, update

from clvlab.api.competitions import AgentErrorCause
from clvlab.api.runs import EvidenceHashes, Lineage, Metrics
from clvlab.errors import RunConflictError
from clvlab.proof.seal import SealedRun
from clvlab.store.database import columns, first, insert, rows
from clvlab.store.tables import agent_errors, agent_results, receipts, run_chunks, runs

# Lines of a run are deflated in chunks that together are the body of one gzip file (RFC 1951, section 2; RFC 1952, section 2.3;
# zlib manual, ``Z_FULL_FLUSH``). A chunk can be read alone, so reading one of a million decisions costs one chunk. A whole part
# is sent unchanged to clients that accept gzip.


HEADER = b"\x1f\x8b\x08\0\0\0\0\0\x04\xff"
"""The ten bytes before the chunks of a part: deflate, no name, no time, fastest level, unknown system."""

_CHUNK_BYTES = 128 << 10
_LEVEL = 1  # takes a sixth of the default level's time, and has four fifths of its ratio
_RAW = -zlib.MAX_WBITS


class StoredChunk(NamedTuple):
    """Whole lines: the number of the first line, the plain bytes, and the stored bytes."""

    first_line: int
    size: int
    stored: bytes


def chunks(text: bytes) -> Iterator[StoredChunk]:
    """Cut lines into chunks of about 128 kB; the last one ends the gzip file with its checksum and length."""
    first_line = start = checksum = 0
    while start < len(text):
        end = text.find(b"\n", min(start + _CHUNK_BYTES, len(text) - 1)) + 1
        lines = text[start:end]
        checksum = zlib.crc32(lines, checksum)
        deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW)
        stored = deflate.compress(lines)
        if end < len(text):
            stored += deflate.flush(zlib.Z_FULL_FLUSH)
        else:
            stored += deflate.flush() + pack("<LL", checksum, len(text) & 0xFFFFFFFF)
        yield StoredChunk(first_line, len(lines), stored)
        first_line += lines.count(b"\n")
        start = end


def lines_of(stored: bytes, size: int | None) -> bytes:
    """Return the lines of a chunk; a chunk without a size predates compression.

    A damaged chunk gives wrong bytes, which the hash of the part reveals.
    """
    if size is None:
        return stored
    try:
        return zlib.decompressobj(_RAW).decompress(stored, size + 1)
    except zlib.error:
        return stored


_T = TypeVar("_T")
_AT_ONCE = 64


class RunStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SEALED = "sealed"
    FAILED = "failed"
    REMOVED = "removed"


class Part(StrEnum):
    EVENTS = "events"
    SCORES = "scores"


class RunRow(EvidenceHashes):
    """A run without its bytes; each of ``checks`` has a verdict and a detail."""

    run_id: str
    kind: str
    origin_id: str | None
    status: str
    source_mode: str
    mode_label: str
    lineage: Lineage
    owner: str | None
    pack_id: str | None
    cause: str | None
    created_ts_ms: int
    updated_ts_ms: int
    sealed_ts_ms: int | None
    checks: dict[str, dict[str, str]] | None
    checked_ts_ms: int | None
    metrics: Metrics | None
    commit_index: int | None
    ranked: bool


_IS = runs.c.run_id == bindparam("of_run")
_ROW = select(*columns(runs, RunRow)).where(_IS)
_LOCKED, _CHANGE = _ROW.with_for_update(), update(runs).where(_IS)
_MARK = _CHANGE.where(runs.c.status != RunStatus.SEALED)
_SEALED = select(runs.c.manifest).where(_IS, runs.c.status == RunStatus.SEALED)
_MANIFEST_HASH = select(runs.c.manifest_hash).where(_IS, runs.c.status == RunStatus.SEALED)
_of = run_chunks.c
_OF_PART = (_of.run_id == bindparam("of_run"), _of.part == bindparam("of_part"))
_PART = select(_of.first_line, _of.size, func.length(_of.lines).label("stored")).where(*_OF_PART).order_by(_of.first_line)
_CHUNKS = select(_of.lines, _of.size).where(*_OF_PART).order_by(_of.first_line)


def add(connection: Connection, values: Mapping[str, object]) -> str | None:
    """Record a run before its tape is opened; return its owner if it must be performed: it is new, had failed or was removed.

    A run that had failed belongs to its new owner; of one that was removed, the log keeps the result of its first.
    """
    added = insert(connection, runs).on_conflict_do_nothing().returning(runs.c.owner)
    now_ms = values["created_ts_ms"]
    found = connection.execute(added, {"status": RunStatus.QUEUED, "updated_ts_ms": now_ms, **values}).first()
    if found is not None:
        return str(found.owner)
    again = {"status": values.get("status", RunStatus.QUEUED), "cause": None, "ranked": values["ranked"]}
    again |= {"updated_ts_ms": now_ms}
    owner = case((runs.c.manifest_hash.is_(None), values["owner"]), else_=func.coalesce(runs.c.owner, values["owner"]))
    revived = _CHANGE.where(runs.c.status.in_((RunStatus.FAILED, RunStatus.REMOVED)))
    changed = revived.values(owner=owner, **again).returning(runs.c.owner)
    found = connection.execute(changed, {"of_run": values["run_id"]}).first()
    return None if found is None else str(found.owner)


def name_pack(connection: Connection, run_id: str, pack_id: str, content_hash: str) -> None:
    change(connection, run_id, pack_id=pack_id, content_hash=content_hash)


def row(connection: Connection, run_id: str, *, lock: bool = False) -> RunRow | None:
    return first(connection, _LOCKED if lock else _ROW, RunRow, of_run=run_id)


def mark(connection: Connection, run_id: str, status: RunStatus, cause: str | None = None, *, ts_ms: int) -> None:
    """Set the status of a run; a sealed run stays sealed."""
    connection.execute(_MARK, {"of_run": run_id, "status": status, "cause": cause, "updated_ts_ms": ts_ms})


def commit_to(connection: Connection, run_id: str, commit_index: int) -> None:
    change(connection, run_id, commit_index=commit_index)


def change(connection: Connection, run_id: str, **values: object) -> None:
    connection.execute(_CHANGE, values | {"of_run": run_id})


def seal(connection: Connection, run: SealedRun, receipt_text: bytes, *, checks: Any, metrics: Any, ts_ms: int) -> bool:
    """Store a sealed run under its row; return True if it was not sealed before. Storing the same bytes again changes nothing.

    Raises
    ------
    RunConflictError
        The run is sealed with other bytes, or was before its removal.
    """
    stored = row(connection, run.run_id, lock=True)
    if stored is None:
        raise ValueError(f"run {run.run_id} must be on record before it is sealed")
    # The manifest binds evidence and scores, so equal manifests mean equal bytes.
    if stored["manifest_hash"] not in (None, run.manifest_hash):
        raise RunConflictError(run.run_id, stored["manifest_hash"], run.manifest_hash)
    if stored["status"] == RunStatus.SEALED:
        return False
    for part, text in ((Part.EVENTS, run.events), (Part.SCORES, run.scores)):
        _insert_chunks(connection, run_chunks, text, run_id=run.run_id, part=part)
    _insert_chunks(connection, receipts, receipt_text, run_id=run.run_id)
    change(
        connection,
        run.run_id,
        status=RunStatus.SEALED,
        cause=None,
        updated_ts_ms=ts_ms,
        sealed_ts_ms=ts_ms,
        checked_ts_ms=ts_ms,
        evidence_hash=run.evidence_hash,
        manifest_hash=run.manifest_hash,
        manifest=run.manifest,
        checks=checks,
        metrics=metrics,
    )
    return True


def record_checks(connection: Connection, run_id: str, checks: Any, ts_ms: int) -> None:
    """Record the time of a verification, and with ``checks`` other verdicts than before."""
    change(connection, run_id, checked_ts_ms=ts_ms, **({} if checks is None else {"checks": checks, "updated_ts_ms": ts_ms}))


def _insert_chunks(connection: Connection, table: Table, text: bytes, **key: Any) -> None:
    found = chunks(text)
    while some := [
        key | {"first_line": chunk.first_line, "size": chunk.size, "lines": chunk.stored} for chunk in islice(found, _AT_ONCE)
    ]:
        connection.execute(table.insert(), some)


def manifest(connection: Connection, run_id: str) -> bytes | None:
    """Return the manifest of a sealed run; a lost one is empty, and fails verification."""
    found = connection.execute(_SEALED, {"of_run": run_id}).first()
    return None if found is None else bytes(found.manifest or b"")


def sealed_run(connection: Connection, run_id: str) -> SealedRun | None:
    stored = manifest(connection, run_id)
    if stored is None:
        return None
    events, scores = (_joined(connection, run_chunks, run_id, run_chunks.c.part == part) for part in Part)
    return SealedRun(run_id, events, scores, stored)


@dataclass(frozen=True, slots=True)
class StoredPart:
    """The place of a part of a sealed run, as lines or as the gzip file that is stored.

    ``manifest_hash`` binds its bytes; ``ends`` has the first line of each chunk, and the offset at which the chunk ends.
    """

    run_id: str
    part: Part
    manifest_hash: str
    is_gzipped: bool
    ends: Sequence[tuple[int, int]]

    @property
    def size(self) -> int:
        return self.ends[-1][1] if self.ends else 0


def stored_part(connection: Connection, run_id: str, part: Part, *, gzipped: bool) -> StoredPart | None:
    """Find a part of a sealed run without reading it; ``None`` if it is not sealed.

    A part is lines if ``gzipped`` is false, if it is empty, or if it predates compression.
    """
    manifest_hash = connection.execute(_MANIFEST_HASH, {"of_run": run_id}).scalar()
    if manifest_hash is None:
        return None
    found = connection.execute(_PART, {"of_run": run_id, "of_part": part}).all()
    is_gzipped = gzipped and bool(found) and all(size is not None for _, size, _ in found)
    sizes = [stored if is_gzipped or size is None else size for _, size, stored in found]
    ends = islice(accumulate(sizes, initial=len(HEADER) if is_gzipped else 0), 1, None)
    chunked = [(chunk.first_line, end) for chunk, end in zip(found, ends, strict=True)]
    return StoredPart(run_id, part, manifest_hash, is_gzipped, chunked)


def piece(connection: Connection, of: StoredPart, start: int, stop: int) -> bytes:
    """Read the bytes of a part from ``start`` to before ``stop``; only the chunks that hold them are read.

    The piece of a damaged part may have another length.
    """
    offset, wanted = len(HEADER) if of.is_gzipped else 0, []
    read = [HEADER] if of.is_gzipped and start < offset else []
    skipped = 0 if read else None
    for first_line, end in of.ends:
        if offset < stop and end > start:
            wanted.append(first_line)
            skipped = offset if skipped is None else skipped
        offset = end
    if wanted:
        query = _CHUNKS.where(run_chunks.c.first_line.between(wanted[0], wanted[-1]))
        for lines, size in connection.execute(query, {"of_run": of.run_id, "of_part": of.part}):
            read.append(lines if of.is_gzipped else lines_of(lines, size))
    first = skipped or 0
    return b"".join(read)[start - first : stop - first]


def evidence_hash(connection: Connection, run_id: str) -> str | None:
    query = select(runs.c.evidence_hash).where(runs.c.run_id == run_id, runs.c.status == RunStatus.SEALED)
    recorded: str | None = connection.execute(query).scalar()
    return recorded


def receipt_lines(connection: Connection, run_id: str, before_line: int | None = None) -> bytes:
    """Read the receipts of a run, or the chunks that start before a line; empty without any."""
    return _joined(connection, receipts, run_id, *([] if before_line is None else [receipts.c.first_line < before_line]))


def receipt_count(connection: Connection, run_id: str) -> int:
    query = select(receipts.c.first_line, receipts.c.lines, receipts.c.size).where(receipts.c.run_id == run_id)
    last = connection.execute(query.order_by(receipts.c.first_line.desc()).limit(1)).first()
    return 0 if last is None else last.first_line + lines_of(last.lines, last.size).count(b"\n")


def _joined(connection: Connection, table: Table, run_id: str, *conditions: Any) -> bytes:
    query = select(table.c.lines, table.c.size).where(table.c.run_id == run_id, *conditions).order_by(table.c.first_line)
    return b"".join(lines_of(chunk.lines, chunk.size) for chunk in connection.execute(query))


def line(connection: Connection, run_id: str, part: Part, number: int) -> bytes | None:
    """Read one line, counted from 0, without its line feed; ``None`` past the end. Only one chunk is read."""
    found = connection.execute(
        select(run_chunks.c.first_line, run_chunks.c.lines, run_chunks.c.size)
        .where(run_chunks.c.run_id == run_id, run_chunks.c.part == part, run_chunks.c.first_line <= number)
        .order_by(run_chunks.c.first_line.desc())
        .limit(1)
    ).first()
    if found is None:
        return None
    lines = lines_of(found.lines, found.size).split(b"\n")[:-1]
    at = number - found.first_line
    return lines[at] if at < len(lines) else None


def add_agent_errors(connection: Connection, found: Sequence[Mapping[str, str]]) -> None:
    """Store errors of failed agents: rows of ``run_id``, ``agent_id``, ``error`` and ``message``."""
    if found:
        connection.execute(agent_errors.insert(), found)


def agent_errors_of(connection: Connection, run_id: str) -> list[AgentErrorCause]:
    of = agent_errors.c
    query = select(*columns(agent_errors, AgentErrorCause)).where(of.run_id == run_id).order_by(of.agent_id)
    return rows(connection, query, AgentErrorCause)


_Conditions = tuple[list[ColumnElement[bool]], Table | None]
"""Conditions on rows, and the table whose order of creation is read, unless it is their own."""


def which(agent_id: str | None = None, **columns: str | None) -> _Conditions:
    equal = [runs.c[name] == value for name, value in columns.items() if value is not None]
    if agent_id is None:
        return equal, None
    return [*equal, agent_results.c.run_id == runs.c.run_id, agent_results.c.agent_id == agent_id], agent_results


class RunLife(TypedDict):
    """Owner and state of a run, for lists of what asked for it."""

    run_id: str
    status: str
    owner: str | None
    created_ts_ms: int
    updated_ts_ms: int


_Known = TypeVar("_Known", RunLife, RunRow)


def by_id(connection: Connection, kind: type[_Known], run_ids: Iterable[str]) -> dict[str, _Known]:
    """Read known runs by id, in one query."""
    query = select(*columns(runs, kind)).where(runs.c.run_id.in_(list(run_ids)))
    return {found["run_id"]: found for found in rows(connection, query, kind)}


def page(
    connection: Connection,
    table: Table,
    kind: type[_T],
    key: str,
    after: tuple[int, str] | None,
    limit: int,
    where: Sequence[ColumnElement[bool]] = (),
    along: Table | None = None,
) -> list[_T]:
    """Return the rows of a table that meet all conditions and come before ``after`` (created_ts_ms, key), newest first.

    ``along`` is another table with these two columns, joined by a condition.
    """
    created = table if along is None else along
    order = (created.c.created_ts_ms, created.c[key])
    query = select(*columns(table, kind)).where(*where)
    if after is not None:
        query = query.where(tuple_(*order) < tuple_(*after))
    newest_first = query.order_by(*(column.desc() for column in order)).limit(limit)
    return rows(connection, newest_first, kind)
