"""Rows of a file whose source is known, in batches; every allowed column type becomes one readable form."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import orjson
import polars as pl
import pyarrow as pa

from clvlab.errors import SourceError
from clvlab.packs.files import MAX_LINE_BYTES, lines_of
from clvlab.packs.parquet import batches, opened, parquet_schema
from clvlab.packs.rows import unreadable
from clvlab.sources.source import ImportStats

# Rows of a CSV whose source is known, so that its columns need no mapping; the delimiter may be any usual one.


DELIMITERS = ",;\t|"


class _Reader(Protocol):
    @property
    def line_num(self) -> int: ...
    def __iter__(self) -> Iterator[list[str]]: ...


class CsvRow(NamedTuple):
    """A row by column without empty cells; ``line`` is the line in the file."""

    line: int
    cells: dict[str, str]


def delimiter_of(header: str) -> str:
    """Return the separator of a header's cells.

    Examples
    --------
    >>> delimiter_of("date;home;away"), delimiter_of("one column")
    (';', ',')
    """
    return max(DELIMITERS, key=header.count)


def header_of(line: str) -> list[str]:
    """Return the columns of a header; empty if it can't be read."""
    try:
        return [cell.strip() for cell in next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter_of(line)), [])]
    except csv.Error:
        return []


def opened_csv(name: str, path: Path, account: ImportStats) -> tuple[list[str], Iterator[CsvRow]]:
    """Return the header and the rows; rows of another width are refused.

    Raises
    ------
    SourceError
        The header is missing, or names a column twice; the file can't be read to its end; when strict, a row can't be read.
    """
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))  # a cell may hold a list of books
    lines = text_lines(name, path, account)
    first = next((line for line in lines if line.strip()), "")
    header = header_of(first)
    if not any(header) or len(set(header)) != len(header):
        raise SourceError(f"{name}:1: the header {header} is empty or names a column twice")
    return header, _rows(name, header, csv.reader(lines, delimiter=delimiter_of(first), strict=True), account)


def _rows(name: str, header: list[str], reader: _Reader, account: ImportStats) -> Iterator[CsvRow]:
    try:
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            line = reader.line_num + 1
            if len(row) != len(header):
                text = f"{len(row)} cells under a header of {len(header)}"
                account.refuse(name, line, text, "a row is too wide or narrow")
                continue
            yield CsvRow(line, {column: cell.strip() for column, cell in zip(header, row, strict=True) if cell.strip()})
    except csv.Error as error:
        raise SourceError(f"{name}:{reader.line_num + 1}: no CSV from here on: {error}") from error


def text_lines(name: str, path: Path, account: ImportStats) -> Iterator[str]:
    """Return every line, with blank and refused lines as empty ones, so that the reader's line numbers are the file's."""
    last = 0
    for number, line in lines_of(path):
        yield from ["\n"] * (number - last - 1)
        last = number
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            account.refuse(name, number, f"no UTF-8: {error.reason} at byte {error.start}", "a row is no UTF-8")
            yield "\n"


def parquet_columns(name: str, path: Path) -> list[str]:
    """Return the columns of a file.

    Raises
    ------
    SourceError
        The file is not Parquet.
    """
    try:
        return list(parquet_schema(path).names)
    except unreadable() as error:
        raise SourceError(f"{name}: can't be read to its end as Parquet: {str(error).splitlines()[0]}") from error


def parquet_rows(
    name: str, path: Path, columns: Sequence[str], chunk_rows: int, *, times: Sequence[str], listed: Sequence[str] = ()
) -> Iterator[pl.DataFrame]:
    """Return the rows in batches: times in UTC, decimals as text, ``listed`` columns as JSON.

    Raises
    ------
    SourceError
        The file can't be read to its end, or unpacks to too much, or a column has another type than text and numbers (or, where
        allowed, times and lists).
    """
    line = 1
    try:
        with opened(path, columns) as file:
            kinds = {column: "time" if column in times else "list" if column in listed else "" for column in columns}
            schema = pa.schema([_field(name, file.schema_arrow.field(column), kind) for column, kind in kinds.items()])
            for batch in batches(file, chunk_rows, columns):
                table = batch.select(list(columns))
                for column in listed:
                    place = table.schema.get_field_index(column)
                    if pa.types.is_nested(table.schema.field(place).type):
                        table = table.set_column(place, column, _as_json(table[column]))
                table = table.cast(schema)
                table.validate(full=True)  # Polars would take invalid bytes of a damaged file for text
                yield pl.DataFrame(pl.from_arrow(table))
                line += table.num_rows
    except unreadable() as error:
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SourceError(f"{name}: can't be read to its end as Parquet, from row {line} on: {message}") from error


def _field(name: str, field: pa.Field, kind: str) -> pa.Field:
    stored = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if pa.types.is_decimal(stored) or (kind == "list" and pa.types.is_nested(stored)):
        return pa.field(field.name, pa.string())
    if pa.types.is_timestamp(stored) and kind == "time":
        return pa.field(field.name, stored if stored.tz is None else pa.timestamp(stored.unit, "UTC"))
    if pa.types.is_float16(stored):
        return pa.field(field.name, pa.float64())
    if not any(fits(stored) for fits in _FITTING):
        raise SourceError(f"{name}: column {field.name!r} is {field.type}, which can't be read as what it has to be")
    return pa.field(field.name, stored)


_FITTING: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_null,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
)


def _as_json(column: pa.ChunkedArray) -> pa.Array:
    texts = (None if one is None else orjson.dumps(one, default=str).decode() for one in column.to_pylist())
    return pa.array(list(texts), pa.string())
