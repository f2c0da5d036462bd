"""Tables a chunk at a time: CSV with every width checked, Parquet by batches."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from clvlab.errors import SourceError
from clvlab.packs.files import lines_of
from clvlab.packs.importers.mapping import Mapped, mapped
from clvlab.packs.importers.source import Account, Options

__all__ = ["Chunk", "csv_chunks", "parquet_chunks"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a table, as they are written, and what their columns mean; ``line`` counts them as the file does."""

    file: str
    mapping: Mapped
    rows: pl.DataFrame


def csv_chunks(name: str, path: Path, options: Options, account: Account) -> Iterator[Chunk]:
    """Read a CSV; a row of another width than the header is refused.

    Raises
    ------
    SourceError
        No header, no CSV, or no UTF-8.
    """
    delimiter = str((options.mapping or {}).get("delimiter", ","))
    reader = csv.reader(_text_lines(name, path, account), delimiter=delimiter, strict=True)
    rows: list[list[str]] = []
    try:
        header = [cell.strip() for cell in next(reader, [])]
        if not header or len(set(header)) != len(header):
            raise SourceError(f"{name}:1: the header {header} is empty or names a column twice")
        mapping = mapped(options.mapping, header)
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                account.refuse(
                    name, reader.line_num, f"{len(row)} cells under a header of {len(header)}", "a row is too wide or narrow"
                )
                continue
            rows.append([str(reader.line_num), *row])
            if len(rows) >= options.chunk_rows:
                yield Chunk(name, mapping, _frame(header, rows))
                rows = []
    except csv.Error as error:
        raise SourceError(f"{name}:{reader.line_num}: no CSV: {error}") from error
    yield Chunk(name, mapping, _frame(header, rows))


def _text_lines(name: str, path: Path, account: Account) -> Iterator[str]:
    """Give every line, an empty one for what is blank or refused, so that the reader counts as the file does."""
    given = 0
    for number, line in lines_of(path):
        yield from ["\n"] * (number - given - 1)
        given = number
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            account.refuse(name, number, f"no UTF-8: {error.reason} at byte {error.start}", "a row is no UTF-8")
            yield "\n"


def _frame(header: list[str], rows: list[list[str]]) -> pl.DataFrame:
    """Make a frame of texts, an empty cell being null."""
    columns = zip(*rows, strict=True) if rows else [() for _ in range(len(header) + 1)]
    names = ["\0line", *header]
    frame = pl.DataFrame({n: list(c) for n, c in zip(names, columns, strict=True)}, schema=dict.fromkeys(names, pl.String))
    text = pl.col(*header).str.strip_chars()
    return frame.with_columns(pl.when(text != "").then(text)).with_columns(line=pl.col("\0line").cast(pl.Int64)).drop("\0line")


def parquet_chunks(name: str, path: Path, options: Options, _account: Account) -> Iterator[Chunk]:
    """Read a Parquet file by batches of rows; a row's line is its number from 1.

    Raises
    ------
    SourceError
        No Parquet, or a column of a nested type.
    """
    try:
        with path.open("rb") as opened:
            file = pq.ParquetFile(cast("IO[bytes]", opened))
            mapping = mapped(options.mapping, file.schema_arrow.names)
            wanted = [*dict.fromkeys([*mapping.columns.values(), *mapping.sides.values()])]
            nested = [column for column in wanted if pa.types.is_nested(file.schema_arrow.field(column).type)]
            if nested:
                raise SourceError(f"{name}: column {nested[0]!r} holds {file.schema_arrow.field(nested[0]).type}")
            first = 1
            for batch in file.iter_batches(batch_size=options.chunk_rows, columns=wanted):
                rows = pl.DataFrame(pl.from_arrow(pa.Table.from_batches([batch])))
                yield Chunk(name, mapping, rows.with_columns(line=pl.int_range(first, first + rows.height)))
                first += rows.height
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{name}: can't be read as Parquet: {str(error).splitlines()[0]}") from error
