"""SQL over named tables: only those that a query names are made, and nothing else on the machine can be read or written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import duckdb
import polars as pl

from clvlab.errors import QueryError

__all__ = ["PackFiles", "Table", "query"]


class PackFiles(dict[str, Path]):
    """A table that lies in Parquet files of one schema, by the id of their pack, which becomes its first column."""


Table = pl.DataFrame | PackFiles


def query(statement: str, tables: Mapping[str, Callable[[], Table]]) -> pl.DataFrame:
    """Answer a SQL statement.

    Parameters
    ----------
    statement
        In DuckDB's dialect.
    tables
        Makers of the tables by name; one is asked if the statement has its name in it.

    Raises
    ------
    QueryError
        A statement that can't be answered: the message is DuckDB's.
    """
    named = {word.lower() for word in re.findall(r"\w+", statement)}
    with duckdb.connect() as connection:
        allowed: list[str] = []
        for name, make in tables.items():
            if name in named:
                allowed += _add(connection, name, make())
        connection.execute(f"SET allowed_paths = [{', '.join(map(_quoted, allowed))}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        try:
            answer = connection.sql(statement)
            if answer is None:
                raise QueryError("there is nothing to answer: the SQL statement is empty")
            return _plain(answer.pl())
        except duckdb.Error as error:
            raise QueryError(f"{error}; the tables are: {', '.join(tables)}") from error


def _add(connection: duckdb.DuckDBPyConnection, name: str, table: Table) -> list[str]:
    """Make a table known; gives the files that it lies in."""
    if isinstance(table, pl.DataFrame):
        connection.register(name, table)
        return []
    files = {pack_id: str(path) for pack_id, path in table.items()}
    parts = [
        f"SELECT {_quoted(pack_id)} AS pack_id, * FROM read_parquet({_quoted(path)})"  # noqa: S608  quoted literals only
        for pack_id, path in files.items()
    ]
    connection.execute(f"CREATE VIEW {name} AS {' UNION ALL BY NAME '.join(parts)}")
    return list(files.values())


def _plain(found: pl.DataFrame) -> pl.DataFrame:
    """Give sums of integers, which DuckDB makes of 128 bits, as 64-bit integers where they fit."""
    wide = [name for name, dtype in found.schema.items() if isinstance(dtype, pl.Decimal) and dtype.scale == 0]
    narrow = found.select(pl.col(wide).cast(pl.Int64, strict=False))
    return found.with_columns(narrow[name] for name in wide if narrow[name].null_count() == found[name].null_count())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
