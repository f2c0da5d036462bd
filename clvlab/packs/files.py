"""Hashes of files, and raw sources read decompressed."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import os
import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BufferedIOBase
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from clvlab.base.progress import report
from clvlab.errors import SourceError
from clvlab.law.tape import Tape
from clvlab.proof.canonical import canonical, sha256

# Digests cover the content of a pack, not its Parquet encoding: the same ticks have the same hash under every writer.


NO_PRICE = -1
_FIXTURES_AT_ONCE = 6
_ROWS_AT_ONCE = 16_384
_FEW = 64  # more fixtures than this in so many rows are too small for the lock to be let go while they are hashed
_NO_TICKS = "sha256:" + hashlib.sha256(struct.pack("<I", 0)).hexdigest()


def fixture_digests(tape: Tape) -> dict[int, str]:
    """Return fixture_id -> ``sha256:<hex>`` of its series table and columns, also for fixtures without ticks.

    The byte layout is in ``docs/reference/pack-format.md``.
    """
    series = tape.series.with_row_index("series")
    spans = series.group_by("fixture_id").agg(
        pl.first("start", "series"), end=pl.first("start") + pl.sum("rows"), count=pl.len()
    )
    fixtures = tape.fixtures.select("fixture_id").join(spans, on="fixture_id", how="left", maintain_order="left")
    at_once = max(_FIXTURES_AT_ONCE, fixtures.height * _ROWS_AT_ONCE // max(tape.rows.height, 1))  # small ones take no time
    slices = list(fixtures.iter_slices(at_once))
    if len(slices) < 2 or at_once > _FEW:
        return dict(chain.from_iterable(map(partial(_digests, tape), slices)))
    with ThreadPoolExecutor() as pool:  # hashlib and Polars work outside the interpreter's lock
        return dict(chain.from_iterable(pool.map(partial(_digests, tape), slices)))


def _digests(tape: Tape, fixtures: pl.DataFrame) -> list[tuple[int, str]]:
    """Digest a few neighbouring fixtures, so that no column is copied whole and converted values stay in the cache."""
    some = fixtures.drop_nulls("start")
    first, last, series, count = (
        some.select(pl.min("start"), pl.max("end"), pl.min("series"), pl.sum("count")).fill_null(0).row(0)
    )
    numbers, *others = _columns(tape.rows.slice(first, last - first))
    columns = [column.data for column in others]
    names = [tape.series[name].slice(series, count) for name in ("market_key", "side")]
    sized = {text: struct.pack("<I", len(text.encode())) + text.encode() for each in names for text in each.unique()}
    heads = [sized[market] + sized[side] for market, side in zip(*names, strict=True)]
    digests = []
    for fixture_id, start, own, end, n in fixtures.iter_rows():
        if start is None:
            digests.append((fixture_id, _NO_TICKS))
            continue
        hasher = hashlib.sha256(struct.pack("<I", n) + b"".join(heads[own - series : own - series + n]))
        span = slice(start - first, end - first)
        hasher.update(numbers[span] - numbers[span.start])  # series count from 0 within the fixture
        for column in columns:
            hasher.update(column[span])
        digests.append((fixture_id, "sha256:" + hasher.hexdigest()))
    return digests


def _columns(rows: pl.DataFrame) -> list[np.ndarray[Any, Any]]:
    """Return the hashed columns, series first, as little-endian arrays."""
    frame = rows.select(
        "series",
        "tick_seq",
        "ts_ms",
        pl.col("in_running").cast(pl.UInt8),
        pl.col("prob_bps", "odds_milli").fill_null(NO_PRICE),
        pl.col("suspended").cast(pl.UInt8),
    )
    return little_endian(frame)


def layer_digests(rows: pl.DataFrame, stream: Sequence[str], columns: Sequence[pl.Expr]) -> dict[int, str]:
    """Return fixture_id -> ``sha256:<hex>`` of sorted rows next to the ticks: the names of its streams, then the columns.

    ``stream`` are ``fixture_id`` and the names of a stream. Streams are numbered from 0 within their fixture; their number is
    the first column. Fixtures without rows are left out.
    """
    number = rows.select(pl.struct(stream).rle_id().cast(pl.UInt32)).to_series()
    streams = rows.select(stream).filter(number.is_first_distinct())
    numbers, *others = little_endian(rows.select(number.alias("stream"), *columns))
    names = streams.iter_rows()
    digests, start = {}, 0
    runs, own = (frame["fixture_id"].rle().struct.unnest() for frame in (rows, streams))
    for fixture_id, size, count in zip(runs["value"].to_list(), runs["len"].to_list(), own["len"].to_list(), strict=True):
        hasher = hashlib.sha256(struct.pack("<I", count))
        for _, *texts in islice(names, count):
            for text in texts:
                name = text.encode()
                hasher.update(struct.pack("<I", len(name)) + name)
        span = slice(start, start + size)
        hasher.update((numbers[span] - numbers[start]).data)
        for column in others:
            hasher.update(column[span].data)
        digests[fixture_id] = "sha256:" + hasher.hexdigest()
        start += size
    return digests


def little_endian(frame: pl.DataFrame) -> list[np.ndarray[Any, Any]]:
    arrays = (column.to_numpy() for column in frame)
    return [np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")) for array in arrays]


def content_hash(content: Mapping[str, object]) -> str:
    """Return the hash of a pack's content; its id and the sizes of its files are not covered."""
    return sha256(canonical(content))


MAX_LINE_BYTES = 16 << 20
MAX_CONTENT_BYTES = 16 << 30  # limit of one decompressed source: a small archive must not fill a disk or run for a day
MAX_WHOLE_BYTES = 64 << 20  # limit of a source that has to fit in memory
_CHUNK_BYTES = 1 << 18
_HASHED_BYTES = 1 << 20
_SMALL_BYTES = 64 << 20
_MAGIC_BYTES = 10
_MAX_RATIO = 250  # odds as text compress 5 to 50 times


def file_sha256(path: Path) -> str:
    hasher, stage, done, part = hashlib.sha256(), f"hashing {path.name}", 0, memoryview(bytearray(_HASHED_BYTES))
    with path.open("rb", buffering=0) as file:
        total = os.fstat(file.fileno()).st_size
        while size := file.readinto(part):
            hasher.update(part[:size])
            done += size
            report(stage, done, total)
    return "sha256:" + hasher.hexdigest()


def opened(path: Path) -> BufferedIOBase:
    """Open a source for decompressed reading, by its ending .gz or .bz2; without such an ending, by its first bytes."""
    how = {".gz": "gzip", ".bz2": "bzip2"}.get(path.suffix)
    if how is None:
        with path.open("rb") as file:
            how = packed(file.read(_MAGIC_BYTES))
    match how:
        case "gzip":
            return gzip.open(path, "rb")
        case "bzip2":
            return bz2.open(path, "rb")
        case _:
            return path.open("rb")


def packed(first: bytes) -> str | None:
    """Return the compression by a file's first bytes: ``gzip``, ``bzip2``, ``xz`` (must be unpacked first) or ``None``.

    Examples
    --------
    >>> packed(bytes.fromhex("1f8b08")), packed(b"BZh91AY&SY"), packed(b"BZhang,1")
    ('gzip', 'bzip2', None)
    """
    if first.startswith(b"\x1f\x8b\x08"):
        return "gzip"
    if first.startswith(b"\xfd7zXZ\x00"):
        return "xz"
    return "bzip2" if re.match(rb"BZh[1-9]1AY&SY", first) else None


def content_digest(path: Path) -> str:
    """Return the SHA-256 of a source's decompressed content, which compressing it again does not change."""
    hasher = hashlib.sha256()
    with _readable(path) as file:
        for chunk in _chunks(file, path.name, path.stat().st_size):
            hasher.update(chunk)
    return "sha256:" + hasher.hexdigest()


def lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """Return numbered non-blank lines of a source, from 1.

    Raises
    ------
    SourceError
        The file can't be read, is truncated, or exceeds the limit of a source.
    """
    with _readable(path) as file:
        yield from lines_in(file, path.name, path.stat().st_size)


def lines_in(file: BufferedIOBase, name: str, packed_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Return numbered non-blank lines of an open source, as ``lines_of``; ``packed_bytes`` is its size on disk."""
    ended, tail = 0, bytearray()
    for chunk in _chunks(file, name, packed_bytes):
        *lines, last = chunk.split(b"\n")
        if lines:
            lines[0], tail = bytes(tail) + lines[0], bytearray()
        tail += last
        for number, line in enumerate(lines, ended + 1):
            if len(line) >= MAX_LINE_BYTES:
                _check_line(name, number, line)
            if line.strip():
                yield number, line + b"\n"
        ended += len(lines)
        _check_line(name, ended + 1, tail)
    if tail.strip():
        yield ended + 1, bytes(tail)


def whole(path: Path) -> bytes:
    """Return the decompressed content of a source that is read at once.

    Raises
    ------
    SourceError
        As for ``lines_of``, or the content exceeds ``MAX_WHOLE_BYTES``.
    """
    chunks, size = [], 0
    with _readable(path) as file:
        for chunk in _chunks(file, path.name, path.stat().st_size):
            size += len(chunk)
            if size > MAX_WHOLE_BYTES:
                raise SourceError(f"{path.name}: more than {MAX_WHOLE_BYTES} bytes, too large to be read at once")
            chunks.append(chunk)
    return b"".join(chunks)


def check_size(name: str, size: int, packed_bytes: int) -> None:
    """Refuse content that exceeds the limit, or is far larger than odds in a file of this size can be."""
    if size > MAX_CONTENT_BYTES:
        raise SourceError(f"{name}: more than {MAX_CONTENT_BYTES} bytes when decompressed")
    if size > _SMALL_BYTES and size > _MAX_RATIO * packed_bytes:
        raise SourceError(f"{name}: {packed_bytes} bytes hold more than {size} when decompressed: no odds shrink like that")


def _check_line(name: str, number: int, line: bytes | bytearray) -> None:
    if len(line) >= MAX_LINE_BYTES:  # the line's end is one more byte
        raise SourceError(f"{name}:{number}: a line of more than {MAX_LINE_BYTES} bytes")


def _readable(path: Path) -> BufferedIOBase:
    try:
        return opened(path)
    except OSError as error:
        raise SourceError(f"{path.name}: can't be opened: {error.strerror}") from error


def _chunks(file: BufferedIOBase, name: str, packed_bytes: int) -> Iterator[bytes]:
    size = 0
    try:
        while chunk := file.read1(_CHUNK_BYTES):  # a truncated file is read up to the cut
            size += len(chunk)
            check_size(name, size, packed_bytes)
            yield chunk
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(f"{name}: can't be read to its end: {error}") from error
