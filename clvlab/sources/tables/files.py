"""Tables as files: CSV with every width checked, Parquet in batches, and frames as equivalent CSV."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from clvlab.errors import SourceError
from clvlab.packs.parquet import batches, opened, parquet_schema
from clvlab.packs.rows import unreadable
from clvlab.sources.mapping import TableMap, check_mapping
from clvlab.sources.source import ImportStats, Options
from clvlab.sources.tables.rows import text_lines

# Tables are read in chunks: CSV with every width checked, Parquet in batches.


_BUFFER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class TableChunk:
    """Some rows of a table as written, and the meaning of their columns; ``line`` is the line in the file."""

    file: str
    mapping: TableMap
    rows: pl.DataFrame
    line: pl.Series


def csv_chunks(name: str, path: Path, options: Options, account: ImportStats) -> Iterator[TableChunk]:
    """Read a CSV; rows of another width than the header are refused.

    Raises
    ------
    SourceError
        The header is missing, or the mapping does not fit it; when strict, a row or the file can't be read.
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
    columns = zip(*rows, strict=True) if rows else [() for _ in header]
    frame = pl.DataFrame({n: list(c) for n, c in zip(header, columns, strict=True)}, schema=dict.fromkeys(header, pl.String))
    text = pl.all().str.strip_chars()
    return frame.with_columns(pl.when(text != "").then(text))


def parquet_chunks(name: str, path: Path, options: Options, account: ImportStats) -> Iterator[TableChunk]:
    """Read a Parquet file in batches; a row's line is its number from 1.

    Raises
    ------
    SourceError
        The file is not Parquet, unpacks to too much, does not fit the mapping, or has a column whose type can't have its
        meaning; when strict, it can't be read to its end.
    """
    try:
        stored = parquet_schema(path)
        mapping = check_mapping(options.mapping, _distinct(name, stored.names))
        schema = readable(name, stored, mapping)
        opened_file = opened(path, schema.names, _BUFFER_BYTES)  # with 0 a whole row group would be read
    except unreadable() as error:
        raise SourceError(f"{name}: can't be read as Parquet: {str(error).splitlines()[0]}") from error
    with opened_file as file:
        first = 1
        try:
            for batch in batches(file, options.chunk_rows, schema.names):
                table = batch.select(schema.names).cast(schema)
                rows = pl.DataFrame(pl.from_arrow(table))
                yield TableChunk(name, mapping, rows, pl.int_range(first, first + rows.height, eager=True))
                first += rows.height
        except unreadable() as error:
            account.refuse_file(name, SourceError(f"{name}: can't be read from row {first} on: {str(error).splitlines()[0]}"))


def _distinct(name: str, columns: list[str]) -> list[str]:
    if len(set(columns)) != len(columns):
        raise SourceError(f"{name}: a column is named twice in {columns}")
    return columns


def readable(name: str, schema: pa.Schema, mapping: TableMap) -> pa.Schema:
    """Return the types as which mapped columns are read, after a check that the types suit the meanings."""
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
_TIME_TYPES = (
    "text, unix seconds or a timestamp",
    (*_TEXT, pa.types.is_integer, pa.types.is_floating, pa.types.is_timestamp),
)
_PRICE = ("text or numbers", (*_TEXT, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))
_TYPES: dict[str, tuple[str, tuple[Callable[[pa.DataType], bool], ...]]] = {
    "time": _TIME_TYPES,
    "kickoff": _TIME_TYPES,
    "updated": _TIME_TYPES,
    "odds": _PRICE,
    "probability": _PRICE,
    "in_running": ("text, booleans or 0 and 1", (*_TEXT, pa.types.is_integer, pa.types.is_boolean)),
    "result": ("text, booleans or 0 and 1", (*_TEXT, pa.types.is_integer, pa.types.is_boolean)),
}


Frame = Any  # of Polars, pandas, or another library that exports Arrow
FRAME_FILE = "frame.csv"
SOURCES = ("csv", "football-data", "parquet")
_TIME = "%Y-%m-%dT%H:%M:%S%.6f"


def is_frame(value: object) -> bool:
    """Return whether a value is a table in memory: of Polars, pandas, PyArrow, DuckDB, or any other that exports Arrow."""
    return isinstance(value, pl.DataFrame | pl.LazyFrame) or _is_pandas(value) or hasattr(value, "__arrow_c_stream__")


def frame_csv(frame: Any, source: str, mapping: Mapping[str, Any] | None = None) -> bytes:
    r"""Return the bytes under which a frame is imported, and which a pack's ``sources`` name by their SHA-256.

    They are the CSV that ``polars.DataFrame.write_csv`` writes: UTF-8, commas, a header, ``\n`` after every line, quotes where
    needed; nulls and NaN are empty, floats as short as they can be read back. A time with a zone is written in UTC as
    ``2026-03-01T12:00:00.000000Z``, one without a zone in the same way without the ``Z``. Categories are their texts. For
    football-data dates are written as ``01/03/2026``, and columns of whole numbers without a point, as its files have them.

    Parameters
    ----------
    frame
        A Polars, pandas or other Arrow table. A named index of pandas becomes a column.
    source
        Name of the importer. For tables (``csv``, ``parquet``) the types of columns are checked against their meanings.
    mapping
        Meaning of a table's columns.

    Raises
    ------
    SourceError
        A source that reads no frame, a frame that can't be read, or a column that can't be written as text.

    Examples
    --------
    >>> frame_csv(pl.DataFrame({"Date": ["01/03/2026"], "B365H": [2.10]}), "football-data")
    b'Date,B365H\n01/03/2026,2.1\n'
    """
    if source not in SOURCES:
        raise SourceError(f"{source!r} reads files, not frames; a frame is read by {', '.join(SOURCES)}")
    table = _polars(frame)
    table.columns = [name.strip() for name in table.columns]
    if source == "football-data":
        table = _as_season(table)
    else:
        readable("frame", table.head(0).to_arrow().schema, check_mapping(mapping, table.columns))
    return _csv(table)


def plain_csv(frame: Any) -> bytes:
    r"""Return a frame of other data than odds as CSV, by the rules of ``frame_csv``; a time of day is text.

    Raises
    ------
    SourceError
        A frame that can't be read, or a column that can't be written as text.

    Examples
    --------
    >>> plain_csv(pl.DataFrame({"stake": [10.0], "placed": ["12:30"]}))
    b'stake,placed\n10.0,12:30\n'
    """
    return _csv(_polars(frame).with_columns(pl.col(pl.Time).cast(pl.String)))


def _csv(table: pl.DataFrame) -> bytes:
    return table.select(_as_text(name, dtype) for name, dtype in table.schema.items()).write_csv().encode()


def _is_pandas(value: object) -> bool:
    return type(value).__module__.partition(".")[0] == "pandas"


def _polars(frame: Any) -> pl.DataFrame:
    if type(frame).__name__ == "Series":
        raise SourceError("a single column is no table of odds: give the frame that it is of")
    try:
        if isinstance(frame, pl.LazyFrame):
            return frame.collect(engine="in-memory")
        if isinstance(frame, pl.DataFrame):
            return frame.clone()
        table = pa.Table.from_pandas(_without_index(frame), preserve_index=False) if _is_pandas(frame) else pa.table(frame)
        return pl.DataFrame(pl.from_arrow(table.cast(pa.schema(map(_in_utc, table.schema)))))
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:  # Arrow's errors are ValueError or TypeError
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SourceError(f"the frame can't be read: {message}; make each column one type, as by .astype(str)") from error


def _in_utc(field: pa.Field) -> pa.Field:
    """Return a field with its times in UTC, because Polars does not know zones that are only an offset."""
    aware = pa.types.is_timestamp(field.type) and field.type.tz is not None
    return field.with_type(pa.timestamp(field.type.unit, "UTC")) if aware else field


def _without_index(frame: Any) -> Any:
    """Turn a named index into columns, and refuse a time index without a name."""
    if any(name is not None for name in frame.index.names):
        return frame.reset_index()
    if type(frame.index).__name__ == "DatetimeIndex":
        raise SourceError("the frame's index has times and no name: write frame.rename_axis('time') to read them as a column")
    return frame


def _as_season(table: pl.DataFrame) -> pl.DataFrame:
    """Return a season with dates as the source writes them, and counts as whole numbers where nulls made them floats."""
    dates = pl.col(pl.Date, pl.Datetime).dt.strftime("%d/%m/%Y")
    counts = [name for name, dtype in table.schema.items() if dtype.is_float() and _is_whole(table[name])]
    return table.with_columns(dates, pl.col(counts).fill_nan(None).cast(pl.Int64))


def _is_whole(column: pl.Series) -> bool:
    known = column.fill_nan(None).drop_nulls()
    return bool((known.is_finite() & (known == known.floor())).all())


def _as_text(name: str, dtype: pl.DataType) -> pl.Expr:
    column = pl.col(name)
    if isinstance(dtype, pl.Datetime):
        exact = column.dt.cast_time_unit("us")
        return (
            exact.dt.strftime(_TIME) if dtype.time_zone is None else exact.dt.convert_time_zone("UTC").dt.strftime(f"{_TIME}Z")
        )
    if dtype.is_float():
        return column.fill_nan(None)
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return column.cast(pl.String)
    if dtype.is_nested() or isinstance(dtype, pl.Object | pl.Binary | pl.Duration | pl.Time):
        raise SourceError(f"column {name!r} is {dtype}, which no table of odds has: drop it, or make it text")
    return column
