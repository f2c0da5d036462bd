"""Checks of foreign Parquet files: their unpacked size is counted page by page before anything is unpacked.

The footer states the unpacked size of each column and may state too little; each page header states its own, and a reader
allocates that much. A few kilobytes can hold a page of gigabytes, billions of rows that repeat one value, or one long text that
every row names. Footer and headers are parsed here because pyarrow ends the process on some damaged ones. They are structs of
Thrift's compact protocol; ``parquet.thrift`` numbers the fields.
"""

from __future__ import annotations

import mmap
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # imported where it reads a file: Polars reads the packs on this disk
    import pyarrow as pa
    import pyarrow.parquet as pq

MAX_FOOTER_BYTES = 4 << 20
MAX_PAGE_BYTES = 128 << 20
MAX_BATCH_TEXT_BYTES = 512 << 20
_BASE_BYTES, _RATIO = 1 << 30, 500  # unpacked bytes allowed to any file, and additionally for each of its bytes
_LISTED_RATIO = 50  # for texts within lists, in addition to the limit of a batch
_MAX_LISTED_DICTIONARY_BYTES = 16 << 20  # larger dictionaries are not measured text by text; writers stop at one or a few MiB
_VALUE_BYTES = 8
_MAGIC = b"PAR1"
_PREFIXED = 7  # DELTA_BYTE_ARRAY: a text is stored as its difference to the one before, so few bytes can be many long texts
_DICTIONARY = 2
_BY_DICTIONARY = (2, 8)  # encodings of values by their number in the dictionary
_TEXT, _FIXED = 6, 7  # BYTE_ARRAY, and FIXED_LEN_BYTE_ARRAY
_CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
_HEADERS = {0: (5, 2), _DICTIONARY: (7, 2), 3: (8, 4)}  # by kind of page: fields of its own header and its encoding
_ABSURD = (IndexError, KeyError, TypeError, AttributeError, ValueError)  # errors over bytes that are not such a struct
_LEVELS = 16
_NESTED = 64  # largest depth of a schema
_MAX_HEADER_BYTES = 64 << 10  # a header may hold the least and greatest text of its page
_NAME_BYTES = 80  # longer texts are cut
_Content = bytes | mmap.mmap


@dataclass(frozen=True, slots=True)
class Chunk:
    """One column of a row group: the position of its pages and its number of values.

    ``column`` is the column of the file, ``name`` its full path, which differs only where nested. ``width`` is set only for
    texts within lists or structs, which are read once per reference: the bytes of each text, or 0 where they vary. ``codec`` is
    numbered as in ``parquet.thrift``.
    """

    column: str
    name: str
    start: int
    end: int
    values: int
    width: int | None = None
    codec: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """A page by its header: ``size`` is unpacked bytes; ``start`` and ``end`` delimit its packed bytes."""

    kind: int
    encoding: int | None
    values: int
    size: int
    start: int
    end: int


def check_parquet(source: Path | bytes, columns: Collection[str] | None = None) -> set[str]:
    """Require a file to unpack to at most 500 times its bytes plus 1 GiB; return columns that store a repeated value once.

    Only pages of ``columns`` are unpacked, by default those of all columns; ``columns`` may be empty.

    Raises
    ------
    OSError, pyarrow.ArrowException
        The file is not Parquet, pages unpack to too much, or the encoding of a column is not supported.
    """
    with _content(source) as content:
        chunks = [chunk for group in _groups(content) for chunk in group]
        if columns is not None:
            read = set(map(_known, columns))
            chunks = [chunk for chunk in chunks if chunk.column in read]
        return check_chunks(chunks, content)


def _invalid(text: str) -> Exception:
    """Return the error that pyarrow itself raises over damaged files."""
    import pyarrow as pa

    error: Exception = pa.ArrowInvalid(text)
    return error


@contextmanager
def _content(source: Path | bytes) -> Iterator[_Content]:
    if isinstance(source, bytes):
        yield source
        return
    with source.open("rb") as file:
        if not file.read(1):
            raise _invalid("an empty file is no Parquet")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            yield content


def _groups(content: _Content) -> list[list[Chunk]]:
    length = int.from_bytes(content[-8:-4], "little")
    if content[-4:] != _MAGIC or content[:4] != _MAGIC or length + 12 > len(content):
        raise _invalid("it does not begin and end as Parquet does")
    if length > MAX_FOOTER_BYTES:
        raise _invalid(f"its footer has {length:,} bytes, the limit is {MAX_FOOTER_BYTES:,}")
    return row_groups(content[len(content) - 8 - length : -8])


def _known(name: str) -> str:
    return name.encode()[:_NAME_BYTES].decode(errors="replace")


def check_chunks(chunks: Iterable[Chunk], content: _Content, start: int = 0) -> set[str]:
    """Check columns as ``check_parquet``; ``content`` starts at byte ``start`` of the file."""
    repeating: set[str] = set()
    limit, unpacked = _BASE_BYTES + _RATIO * len(content), 0
    listed_limit, listed = MAX_BATCH_TEXT_BYTES + _LISTED_RATIO * len(content), 0
    for chunk in chunks:
        longest = 0
        for page in _pages(chunk, content, start):
            unpacked += page.size + _VALUE_BYTES * page.values
            if unpacked > limit:
                raise _invalid(f"{len(content):,} bytes unpack to more than {limit:,}, the limit of so many")
            if page.kind == _DICTIONARY:
                repeating.add(chunk.name)
                longest = _longest(chunk, page, content) if chunk.width == 0 else chunk.width or 0
            elif page.encoding in _BY_DICTIONARY:
                listed += longest * page.values
            if listed > listed_limit:
                finding = f"texts of up to {longest:,} bytes in lists of column {chunk.name!r} may repeat to {listed:,} bytes"
                raise _invalid(f"{finding}, the limit is {listed_limit:,}")
    return repeating


def _longest(chunk: Chunk, page: Page, content: _Content) -> int:
    """Return the bytes of a dictionary's longest text: every value of later pages may be that text."""
    if page.size > _MAX_LISTED_DICTIONARY_BYTES:
        raise _invalid(
            f"the texts that lists of column {chunk.name!r} repeat have {page.size:,} bytes, "
            f"the limit is {_MAX_LISTED_DICTIONARY_BYTES:,}"
        )
    packed = content[page.start : page.end]
    if chunk.codec:
        import pyarrow as pa

        if chunk.codec not in _CODECS:
            raise _invalid(f"column {chunk.name!r} is compressed in a way that is not read in lists: write it as zstd")
        packed = pa.decompress(packed, decompressed_size=page.size, codec=_CODECS[chunk.codec], asbytes=True)
    at = longest = 0
    while at < len(packed):
        length = int.from_bytes(packed[at : at + 4], "little")
        longest, at = max(longest, length), at + 4 + length
    return longest


def parquet_schema(source: Path) -> pa.Schema:
    """Return the columns of a file by its footer, without a check of the pages' unpacked size.

    Raises
    ------
    OSError, pyarrow.ArrowException
        The file is not Parquet.
    """
    import pyarrow.parquet as pq

    with _content(source) as content:
        _groups(content)
    return pq.read_schema(source)


def opened(source: Path, columns: Sequence[str], buffer_size: int = 0) -> pq.ParquetFile:
    """Check and open a file to read some of its columns, with repeated texts as dictionaries.

    A text that every row names is then read once. Within lists pyarrow can't read dictionaries where a column stops using one,
    so there the longest text counts for each value.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    repeating = check_parquet(source, columns)
    fields = pq.read_schema(source)
    texts = [field.name for field in fields if _known(field.name) in repeating and not pa.types.is_nested(field.type)]
    return pq.ParquetFile(source, read_dictionary=texts, buffer_size=buffer_size)


def batches(file: pq.ParquetFile, rows: int, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Read an opened file in batches of ``rows``.

    Raises
    ------
    OSError, pyarrow.ArrowException
        The file is damaged, or the texts of a batch exceed the limit.
    """
    import pyarrow as pa

    for batch in file.iter_batches(batch_size=rows, columns=list(columns)):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            size = _repeated_bytes(column)
            if size > MAX_BATCH_TEXT_BYTES:
                finding = f"the texts of column {name!r} have {size:,} bytes in {batch.num_rows:,} rows"
                raise _invalid(f"{finding}, the limit is {MAX_BATCH_TEXT_BYTES:,}")
        yield pa.Table.from_batches([batch])


def _repeated_bytes(column: pa.Array) -> int:
    """Return the bytes of a dictionary column's texts when written out; 0 for other columns."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        return 0

    import pyarrow.compute as pc

    column.validate(full=True)  # an index beyond the dictionary would be followed
    return pc.sum(pc.take(pc.binary_length(column.dictionary), column.indices)).as_py() or 0


def row_groups(footer: bytes) -> list[list[Chunk]]:
    """Return the columns of each row group of a footer, which comes without its length and the final magic bytes."""
    try:
        metadata, _ = _value(footer, 0, 12, _LEVELS)
        leaves = _leaves(metadata[2])
        return [[_chunk(*leaf, column[3]) for leaf, column in zip(leaves, group[1], strict=True)] for group in metadata[4]]
    except _ABSURD as error:
        raise _invalid("it has no footer that can be read") from error


def _leaves(elements: list[dict[int, Any]]) -> list[tuple[list[str], int | None]]:
    """Return path and width of each column from the schema, as pyarrow does; statements of chunks are ignored."""
    found: list[tuple[list[str], int | None]] = []
    path: list[str] = []
    missing: list[int] = []
    for element in elements[1:]:
        name, children = element[4].decode(errors="replace"), element.get(5, 0)
        if children < 0 or len(path) > _NESTED:
            raise KeyError(name)
        if children:
            path.append(name)
            missing.append(children)
            continue
        if 1 in element:
            widths = {_TEXT: 0, _FIXED: element.get(2, 0)} if path else {}
            found.append(([*path, name], widths.get(element[1])))
        while missing:
            missing[-1] -= 1
            if missing[-1]:
                break
            missing.pop()
            path.pop()
    return found


def _chunk(path: list[str], width: int | None, column: dict[int, Any]) -> Chunk:
    name, start = ".".join(path), column[9]
    dictionary = column.get(11) or start
    if 0 < start < dictionary:
        raise _invalid(f"the dictionary of column {name!r} stands behind its values")
    start = dictionary  # without values the other offset may be 0
    return Chunk(path[0], name, start, start + column[7], column[5], width, column[4])


def _pages(chunk: Chunk, content: _Content, start: int) -> Iterator[Page]:
    name, at, end = chunk.name, chunk.start - start, chunk.end - start
    if not 0 <= at <= end <= len(content):
        raise _invalid(f"column {name!r} lies outside the file")
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
            raise _invalid(f"a page of column {name!r} has no header that can be read") from error
        if absurd or size > MAX_PAGE_BYTES:
            raise _invalid(f"a page of column {name!r} unpacks to {size:,} bytes, the limit is {MAX_PAGE_BYTES:,}")
        if found.get(encoding) == _PREFIXED:
            raise _invalid(f"column {name!r} is encoded as DELTA_BYTE_ARRAY, which is not read: write it in another way")
        values += 0 if kind == _DICTIONARY else count
        if values > chunk.values:
            raise _invalid(f"column {name!r} has more values than the {chunk.values:,} that the file says")
        yield Page(kind, found.get(encoding), count, size, at, at + packed)
        at += packed


def _value(content: _Content, at: int, kind: int, levels: int) -> tuple[Any, int]:
    """Read a value of Thrift's compact protocol and its end: a struct as its fields by number, only the start of a text."""
    if not levels or at > len(content):
        raise KeyError(at)
    if kind in (1, 2):  # a Boolean field is in its header; in a list it takes a byte
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
        return content[at : at + min(length, _NAME_BYTES)], at + length
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
