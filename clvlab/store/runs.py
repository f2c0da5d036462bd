"""Runs as rows: their status from the start, and the sealed bytes in chunks of whole lines."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from struct import pack
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, Table, bindparam, case, exists, func, select, tuple_, update

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


def add(connection: Connection, values: Mapping[str, object]) -> str | None:
    """Record a run before its tape is opened; return its owner if it must be performed: it is new, had failed or was removed.

    A run that had failed belongs to its new owner; of one that was removed, the log keeps the result of its first.
    """
    added = insert(connection, runs).on_conflict_do_nothing().returning(runs.c.owner)
    found = connection.execute(added, {"status": RunStatus.QUEUED, **values}).first()
    if found is not None:
        return str(found.owner)
    again = {"status": values.get("status", RunStatus.QUEUED), "cause": None, "ranked": values["ranked"]}
    owner = case((runs.c.manifest_hash.is_(None), values["owner"]), else_=func.coalesce(runs.c.owner, values["owner"]))
    revived = _CHANGE.where(runs.c.status.in_((RunStatus.FAILED, RunStatus.REMOVED)))
    changed = revived.values(owner=owner, **again).returning(runs.c.owner)
    found = connection.execute(changed, {"of_run": values["run_id"]}).first()
    return None if found is None else str(found.owner)


def name_pack(connection: Connection, run_id: str, pack_id: str, content_hash: str) -> None:
    change(connection, run_id, pack_id=pack_id, content_hash=content_hash)


def row(connection: Connection, run_id: str, *, lock: bool = False) -> RunRow | None:
    return first(connection, _LOCKED if lock else _ROW, RunRow, of_run=run_id)


def mark(connection: Connection, run_id: str, status: RunStatus, cause: str | None = None) -> None:
    """Set the status of a run; a sealed run stays sealed."""
    connection.execute(_MARK, {"of_run": run_id, "status": status, "cause": cause})


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
    change(connection, run_id, checks=checks, checked_ts_ms=ts_ms)


def _insert_chunks(connection: Connection, table: Table, text: bytes, **key: Any) -> None:
    found = chunks(text)
    while some := [
        key | {"first_line": chunk.first_line, "size": chunk.size, "lines": chunk.stored} for chunk in islice(found, _AT_ONCE)
    ]:
        connection.execute(table.insert(), some)


def sealed_run(connection: Connection, run_id: str) -> SealedRun | None:
    found = connection.execute(_SEALED, {"of_run": run_id}).first()
    if found is None:
        return None
    events, scores = (_joined(connection, run_chunks, run_id, run_chunks.c.part == part) for part in Part)
    return SealedRun(run_id, events, scores, bytes(found.manifest or b""))  # a missing manifest fails verification


def gzipped(connection: Connection, run_id: str, part: Part) -> bytes | None:
    """Return a part of a sealed run as its stored gzip file; ``None`` if it predates compression or is not sealed."""
    own = run_chunks.c
    query = select(own.lines, own.size).join(runs, runs.c.run_id == own.run_id)
    sealed = query.where(own.run_id == run_id, own.part == part, runs.c.status == RunStatus.SEALED)
    found = connection.execute(sealed.order_by(own.first_line)).all()
    if not found or any(chunk.size is None for chunk in found):
        return None
    return HEADER + b"".join(chunk.lines for chunk in found)


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


def which(agent_id: str | None = None, **columns: str | None) -> list[ColumnElement[bool]]:
    equal = [runs.c[name] == value for name, value in columns.items() if value is not None]
    if agent_id is None:
        return equal
    scored = agent_results.c.run_id == runs.c.run_id, agent_results.c.agent_id == agent_id
    return [*equal, exists().where(*scored)]


def statuses(connection: Connection, run_ids: Iterable[str]) -> dict[str, str]:
    query = select(runs.c.run_id, runs.c.status).where(runs.c.run_id.in_(list(run_ids)))
    return {str(run_id): str(status) for run_id, status in connection.execute(query)}


def page(
    connection: Connection,
    table: Table,
    kind: type[_T],
    key: str,
    after: tuple[int, str] | None,
    limit: int,
    where: Sequence[ColumnElement[bool]] = (),
) -> list[_T]:
    """Return the rows of a table that meet all conditions and come before ``after`` (created_ts_ms, key), newest first."""
    order = (table.c.created_ts_ms, table.c[key])
    query = select(*columns(table, kind)).where(*where)
    if after is not None:
        query = query.where(tuple_(*order) < tuple_(*after))
    newest_first = query.order_by(*(column.desc() for column in order)).limit(limit)
    return rows(connection, newest_first, kind)
