"""Parquet files of strangers: what they unpack to is counted, page by page, before anything is unpacked.

A file says in its footer how many bytes its columns unpack to, and may say too little; each page says so again in a header of
its own, and a reader takes that many bytes for it. A few kilobytes can hold a page of gigabytes, rows by the billion that
repeat one value, or one long text that every row names. Footer and headers are read here, as pyarrow ends the process over some
that are damaged. They are structs of Thrift's compact protocol, whose fields parquet.thrift numbers.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

MAX_FOOTER_BYTES = 4 << 20
MAX_PAGE_BYTES = 128 << 20
MAX_BATCH_TEXT_BYTES = 512 << 20
_BASE_BYTES, _RATIO = 1 << 30, 500  # what any file may unpack to, and what it may for each of its bytes
_VALUE_BYTES = 8
_MAGIC = b"PAR1"
_PREFIXED = 7  # DELTA_BYTE_ARRAY: a text is what it adds to the one before, so that few bytes are many long texts
_DICTIONARY = 2
_HEADERS = {0: (5, 2), _DICTIONARY: (7, 2), 3: (8, 4)}  # of each kind of page, the fields of its own header and its encoding
_ABSURD = (IndexError, KeyError, TypeError, AttributeError, ValueError)  # what bytes that are none of these structs lead to
_LEVELS = 16
_MAX_HEADER_BYTES = 64 << 10  # of a page, which may hold the least and greatest text of it
_Content = bytes | mmap.mmap


@dataclass(frozen=True, slots=True)
class Chunk:
    """One column of a row group: where its pages lie in the file, and how many values it has."""

    name: str
    start: int
    end: int
    values: int


def check_parquet(source: Path | bytes) -> set[str]:
    """Require a file to unpack to what its size allows: 500 times its bytes, and 1 GiB more.

    Returns
    -------
    set
        The columns of which a value stands once however often it is meant.

    Raises
    ------
    OSError, pyarrow.ArrowException
        It is no Parquet, a page unpacks to too much, or all of them together do.
    """
    if isinstance(source, bytes):
        return _check_whole(source)
    with source.open("rb") as file:
        if not file.read(1):
            raise pa.ArrowInvalid("an empty file is no Parquet")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _check_whole(content)


def _check_whole(content: _Content) -> set[str]:
    length = int.from_bytes(content[-8:-4], "little")
    if content[-4:] != _MAGIC or content[:4] != _MAGIC or length + 12 > len(content):
        raise pa.ArrowInvalid("it does not begin and end as Parquet does")
    if length > MAX_FOOTER_BYTES:
        raise pa.ArrowInvalid(f"its footer has {length:,} bytes, the limit is {MAX_FOOTER_BYTES:,}")
    groups = row_groups(content[len(content) - 8 - length : -8])
    return check_chunks([chunk for group in groups for chunk in group], content)


def check_chunks(chunks: Iterable[Chunk], content: _Content, start: int = 0) -> set[str]:
    """Do what ``check_parquet`` does with some columns of a file, of whose bytes those from ``start`` on are at hand."""
    repeating: set[str] = set()
    limit, unpacked = _BASE_BYTES + _RATIO * len(content), 0
    for chunk in chunks:
        for kind, size, values in _pages(chunk, content, start):
            if kind == _DICTIONARY:
                repeating.add(chunk.name)
            unpacked += size + _VALUE_BYTES * values
            if unpacked > limit:
                raise pa.ArrowInvalid(f"{len(content):,} bytes unpack to more than {limit:,}, the limit of so many")
    return repeating


def opened(source: Path, buffer_size: int = 0) -> pq.ParquetFile:
    """Open a file that was checked, texts that stand once as dictionaries: one that every row means is read once.

    Not so within lists, for which pyarrow has no such reading where a column stops to repeat its texts.

    Raises
    ------
    OSError, pyarrow.ArrowException
        As for ``check_parquet``.
    """
    repeating = check_parquet(source)
    texts = [field.name for field in pq.read_schema(source) if field.name in repeating and not pa.types.is_nested(field.type)]
    return pq.ParquetFile(source, read_dictionary=texts, buffer_size=buffer_size)


def batches(file: pq.ParquetFile, rows: int, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Read an opened file so many rows at a time.

    Raises
    ------
    OSError, pyarrow.ArrowException
        It is damaged, or the texts of a batch are longer than they may be.
    """
    for batch in file.iter_batches(batch_size=rows, columns=list(columns)):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            size = _repeated_bytes(column)
            if size > MAX_BATCH_TEXT_BYTES:
                said = f"the texts of column {name!r} have {size:,} bytes in {batch.num_rows:,} rows"
                raise pa.ArrowInvalid(f"{said}, the limit is {MAX_BATCH_TEXT_BYTES:,}")
        yield pa.Table.from_batches([batch])


def _repeated_bytes(column: pa.Array) -> int:
    """Return how many bytes texts would have that stand once; 0 of other columns."""
    if not pa.types.is_dictionary(column.type):
        return 0
    column.validate(full=True)  # numbers beyond the dictionary would be followed
    return pc.sum(pc.take(pc.binary_length(column.dictionary), column.indices)).as_py() or 0


def row_groups(footer: bytes) -> list[list[Chunk]]:
    """Read the columns of each row group from a footer, without its length and what else ends the file.

    Raises
    ------
    pyarrow.ArrowException
        It can't be read.
    """
    try:
        metadata, _ = _value(footer, 0, 12, _LEVELS)
        return [[_chunk(column[3]) for column in group[1]] for group in metadata[4]]
    except _ABSURD as error:
        raise pa.ArrowInvalid("it has no footer that can be read") from error


def _chunk(column: dict[int, Any]) -> Chunk:
    name, start = b".".join(column[3]).decode(errors="replace"), column[9]
    dictionary = column.get(11) or start
    if 0 < start < dictionary:
        raise pa.ArrowInvalid(f"the dictionary of column {name!r} stands behind its values")
    start = dictionary  # without values the other may be 0
    return Chunk(name, start, start + column[7], column[5])


def _pages(chunk: Chunk, content: _Content, start: int) -> Iterator[tuple[int, int, int]]:
    """Walk the pages of a column: of which kind each is, to how many bytes it unpacks, and how many values it has."""
    name, at, end = chunk.name, chunk.start - start, chunk.end - start
    if not 0 <= at <= end <= len(content):
        raise pa.ArrowInvalid(f"column {name!r} lies outside the file")
    values = 0
    while at < end:
        try:
            header, length = _value(content[at : at + _MAX_HEADER_BYTES], 0, 12, _LEVELS)
            at += length
            kind, size, packed = header[1], header[2], header[3]
            own, encoding = _HEADERS.get(kind, (None, None))
            found = {} if own is None else header[own]
            count = found.get(1, 0)
            absurd = min(size, packed, count) < 0
        except _ABSURD as error:
            raise pa.ArrowInvalid(f"a page of column {name!r} has no header that can be read") from error
        if absurd or size > MAX_PAGE_BYTES:
            raise pa.ArrowInvalid(f"a page of column {name!r} unpacks to {size:,} bytes, the limit is {MAX_PAGE_BYTES:,}")
        if found.get(encoding) == _PREFIXED:
            raise pa.ArrowInvalid(f"column {name!r} is encoded as DELTA_BYTE_ARRAY, which is not read: write it in another way")
        values += 0 if kind == _DICTIONARY else count
        if values > chunk.values:
            raise pa.ArrowInvalid(f"column {name!r} has more values than the {chunk.values:,} that the file says")
        yield kind, size, count
        at += packed


def _value(content: _Content, at: int, kind: int, levels: int) -> tuple[Any, int]:
    """Read a value of Thrift's compact protocol, and where it ends: a struct as its fields by number, a text as it begins."""
    if not levels or at > len(content):
        raise KeyError(at)
    if kind in (1, 2):  # of a field; in a list it takes a byte
        return kind == 1, at
    if kind == 3:
        return content[at], at + 1
    if kind in (4, 5, 6):
        value, at = _varint(content, at)
        return (value >> 1) ^ -(value & 1), at
    if kind == 7:
        return None, at + 8
    if kind == 8:
        length, at = _varint(content, at)
        return content[at : at + min(length, 80)], at + length
    if kind in (9, 10):
        return _list(content, at, levels)
    if kind != 12:
        raise KeyError(kind)
    fields: dict[int, Any] = {}
    number = 0
    while content[at]:
        step, kind = divmod(content[at], 16)
        at += 1
        if step:
            number += step
        else:
            number, at = _value(content, at, 4, levels)
        fields[number], at = _value(content, at, kind, levels - 1)
    return fields, at + 1


def _list(content: _Content, at: int, levels: int) -> tuple[list[Any], int]:
    size, kind = divmod(content[at], 16)
    at += 1
    if size == 15:
        size, at = _varint(content, at)
    found = []
    for _ in range(size):
        value, at = _value(content, at, 3 if kind in (1, 2) else kind, levels - 1)
        found.append(value)
    return found, at


def _varint(content: _Content, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 127) << shift
        shift, at = shift + 7, at + 1
        if byte < 128:
            return value, at
        if shift > 63:
            raise KeyError("a number of more than 64 bits")
