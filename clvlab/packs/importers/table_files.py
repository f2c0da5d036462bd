"""Tables a chunk at a time: CSV with every width checked, Parquet by batches."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow as pa

from clvlab.errors import SourceError
from clvlab.packs.importers.mapping import Mapped, check_mapping
from clvlab.packs.importers.rows import text_lines
from clvlab.packs.importers.source import ImportStats, Options
from clvlab.packs.parquet import batches, opened, parquet_schema
from clvlab.packs.rows import UNREADABLE

_BUFFER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class TableChunk:
    """Some rows of a table, as they are written, and what their columns mean; ``line`` counts them as the file does."""

    file: str
    mapping: Mapped
    rows: pl.DataFrame
    line: pl.Series


def csv_chunks(name: str, path: Path, options: Options, account: ImportStats) -> Iterator[TableChunk]:
    """Read a CSV; a row of another width than the header is refused.

    Raises
    ------
    SourceError
        No header, or a mapping that does not fit it; when strict, a row or file that can't be read.
    """
    delimiter = str((options.mapping or {}).get("delimiter", ","))
    reader = csv.reader(text_lines(name, path, account), delimiter=delimiter, strict=True)
    try:
        header = [cell.strip() for cell in next(reader, [])]
    except csv.Error as error:
        raise SourceError(f"{name}:{reader.line_num}: no CSV: {error}") from error
    if not header or len(set(header)) != len(header):
        raise SourceError(f"{name}:1: the header {header} is empty or names a column twice")
    mapping = check_mapping(options.mapping, header)
    rows: list[list[str]] = []
    numbers: list[int] = []
    try:
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                account.refuse(
                    name, reader.line_num, f"{len(row)} cells under a header of {len(header)}", "a row is too wide or narrow"
                )
                continue
            rows.append(row)
            numbers.append(reader.line_num)
            if len(rows) >= options.chunk_rows:
                yield TableChunk(name, mapping, _frame(header, rows), pl.Series(numbers, dtype=pl.Int64))
                rows, numbers = [], []
    except csv.Error as error:
        account.refuse_file(name, SourceError(f"{name}:{reader.line_num}: no CSV from here on: {error}"))
    except SourceError as error:
        account.refuse_file(name, error)
    yield TableChunk(name, mapping, _frame(header, rows), pl.Series(numbers, dtype=pl.Int64))


def _frame(header: list[str], rows: list[list[str]]) -> pl.DataFrame:
    """Make a frame of texts, an empty cell being null."""
    columns = zip(*rows, strict=True) if rows else [() for _ in header]
    frame = pl.DataFrame({n: list(c) for n, c in zip(header, columns, strict=True)}, schema=dict.fromkeys(header, pl.String))
    text = pl.all().str.strip_chars()
    return frame.with_columns(pl.when(text != "").then(text))


def parquet_chunks(name: str, path: Path, options: Options, account: ImportStats) -> Iterator[TableChunk]:
    """Read a Parquet file by batches of rows; a row's line is its number from 1.

    Raises
    ------
    SourceError
        No Parquet, one that unpacks to too much, a mapping that does not fit it, or a column whose type can't have its meaning;
        when strict, a file that can't be read to its end.
    """
    try:
        stored = parquet_schema(path)
        mapping = check_mapping(options.mapping, _distinct(name, stored.names))
        schema = readable(name, stored, mapping)
        opened_file = opened(path, schema.names, _BUFFER_BYTES)  # else a row group is read at once
    except UNREADABLE as error:
        raise SourceError(f"{name}: can't be read as Parquet: {str(error).splitlines()[0]}") from error
    with opened_file as file:
        first = 1
        try:
            for batch in batches(file, options.chunk_rows, schema.names):
                table = batch.select(schema.names).cast(schema)
                rows = pl.DataFrame(pl.from_arrow(table))
                yield TableChunk(name, mapping, rows, pl.int_range(first, first + rows.height, eager=True))
                first += rows.height
        except UNREADABLE as error:
            account.refuse_file(name, SourceError(f"{name}: can't be read from row {first} on: {str(error).splitlines()[0]}"))


def _distinct(name: str, columns: list[str]) -> list[str]:
    if len(set(columns)) != len(columns):
        raise SourceError(f"{name}: a column is named twice in {columns}")
    return columns


def readable(name: str, schema: pa.Schema, mapping: Mapped) -> pa.Schema:
    """Check that the types of mapped columns can have their meaning, and return those to read them as."""
    fields: dict[str, pa.Field] = {}
    by_side = {"odds": mapping.sides, "probability": mapping.probabilities, "result": mapping.results}
    meant = [*mapping.columns.items(), *((name, column) for name, own in by_side.items() for column in own.values())]
    for meaning, column in meant:
        stored = schema.field(column).type
        plain = stored.value_type if pa.types.is_dictionary(stored) else stored
        kind, fits = _TYPES.get(meaning, _NAME)
        if not any(fit(plain) for fit in (pa.types.is_null, *fits)):
            raise SourceError(f"{name}: column {column!r} is {stored} and can't be the {meaning}, which has to be {kind}")
        inexact = pa.types.is_decimal(plain) or pa.types.is_float16(plain)
        fields[column] = pa.field(column, pa.float64() if inexact else plain)
    return pa.schema(list(fields.values()))


_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_NAME = ("text or whole numbers", (*_TEXT, pa.types.is_integer))
_TIME = ("text, unix seconds or a timestamp", (*_TEXT, pa.types.is_integer, pa.types.is_floating, pa.types.is_timestamp))
_PRICE = ("text or numbers", (*_TEXT, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))
_TYPES: dict[str, tuple[str, tuple[Callable[[pa.DataType], bool], ...]]] = {
    "time": _TIME,
    "kickoff": _TIME,
    "updated": _TIME,
    "odds": _PRICE,
    "probability": _PRICE,
    "in_running": ("text, booleans or 0 and 1", (*_TEXT, pa.types.is_integer, pa.types.is_boolean)),
    "result": ("text, booleans or 0 and 1", (*_TEXT, pa.types.is_integer, pa.types.is_boolean)),
}
