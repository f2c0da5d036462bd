"""Rows of a Parquet file whose source is known, by batches: every type that a column may have becomes one that can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import orjson
import polars as pl
import pyarrow as pa

from clvlab.errors import SourceError
from clvlab.packs.parquet import batches, opened, parquet_schema
from clvlab.packs.rows import UNREADABLE


def parquet_columns(name: str, path: Path) -> list[str]:
    """Return the columns of a file.

    Raises
    ------
    SourceError
        It is no Parquet.
    """
    try:
        return list(parquet_schema(path).names)
    except UNREADABLE as error:
        raise SourceError(f"{name}: can't be read to its end as Parquet: {str(error).splitlines()[0]}") from error


def parquet_rows(
    name: str, path: Path, columns: Sequence[str], chunk_rows: int, *, times: Sequence[str], listed: Sequence[str] = ()
) -> Iterator[pl.DataFrame]:
    """Return the rows by batches: times in UTC, decimals as the texts of their digits, what is ``listed`` as JSON.

    Raises
    ------
    SourceError
        It can't be read to its end or unpacks to too much, or a column has another type than text, numbers and, if named so,
        times or lists.
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
                table.validate(full=True)  # a damaged file may hold what is no text, which Polars takes for text
                yield pl.DataFrame(pl.from_arrow(table))
                line += table.num_rows
    except (*UNREADABLE, pl.exceptions.PolarsError) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SourceError(f"{name}: can't be read to its end as Parquet, from row {line} on: {said}") from error


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
    said = (None if one is None else orjson.dumps(one, default=str).decode() for one in column.to_pylist())
    return pa.array(list(said), pa.string())
