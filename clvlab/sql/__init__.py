"""SQL over sealed runs: another implementation of scoring, as one statement; and queries over a laboratory's tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from clvlab.errors import EvidenceError, QueryError
from clvlab.law.schema import SCORES, conform
from clvlab.proof.checks import first_difference
from clvlab.proof.events import batches, score_lines
from clvlab.proof.limits import MAX_STARTED_BYTES, check_lines

__all__ = ["PackFiles", "SecondOpinion", "Table", "query", "second_opinion"]


# A second opinion on scores: another engine runs the law, as one SQL statement, over the evidence lines.


_STATEMENT = Path(__file__).with_name("scores.sql")


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """Whether SQL reproduces the stored scores byte for byte, and a sentence on the comparison."""

    agrees: bool
    detail: str


def sql_scores(events: bytes) -> pl.DataFrame:
    """Return ``SCORES`` of unverified ``events.jsonl``, in order of ``seq``, computed by SQL.

    Raises
    ------
    EvidenceError
        The evidence exceeds the limits, or lines are not JSON or have values of other types.
    """
    with duckdb.connect(config={"enable_external_access": "false"}) as connection:
        connection.register("lines", pa.table({"line": _lines(events)}))
        try:
            found = connection.sql(_STATEMENT.read_text(encoding="utf-8")).pl()
        except (duckdb.Error, UnicodeDecodeError) as error:  # DuckDB may cut a quoted line within a character
            first, *_ = str(error).split("\n")
            raise EvidenceError(f"the evidence can't be read by SQL: {first[:200]}") from error
    return conform(found, SCORES, "the rows of the statement")


def second_opinion(events: bytes, stored: bytes) -> SecondOpinion:
    derived = b"".join(score_lines(batch) for batch in batches(sql_scores(events)))
    ours, theirs = derived.count(b"\n"), stored.count(b"\n")
    if derived == stored:
        return SecondOpinion(agrees=True, detail=f"one SQL statement gives all {ours} score rows as stored")
    counted = f"SQL gives {ours} score rows, stored are {theirs}"
    return SecondOpinion(agrees=False, detail=f"{counted}; the first difference is row {first_difference(derived, stored)}")


def _lines(events: bytes) -> pa.Array:
    """Split a text into lines without a Python object for each."""
    if not events.endswith(b"\n"):
        raise EvidenceError("the evidence does not end with a line feed")
    check_lines(events, "events.jsonl", MAX_STARTED_BYTES)
    ends = np.flatnonzero(np.frombuffer(events, dtype=np.uint8) == ord("\n")) + 1
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), ends])  # each line keeps its line feed, because JSON allows it
    array = pa.LargeStringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(events))
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise EvidenceError(f"the evidence is not UTF-8: {error}") from error
    return array


# SQL over named tables: a table is made only if a query names it, and no other file can be read or written.


class PackTables(dict[str, Path]):
    """A table in Parquet files of one schema, by pack id, which becomes its first column.

    ``without`` lists, by pack, the fixtures that the table leaves out.
    """

    def __init__(self, files: Mapping[str, Path], without: Mapping[str, tuple[int, ...]] | None = None) -> None:
        super().__init__(files)
        self.without = without or {}


Table = pl.DataFrame | PackTables


def query(statement: str, tables: Mapping[str, Callable[[], Table]]) -> pl.DataFrame:
    """Return the result of a SQL statement in DuckDB's dialect; a table is made if the statement contains its name.

    Raises
    ------
    QueryError
        The statement is not one SELECT, or DuckDB can't answer it; then the message is DuckDB's.
    """
    named = {word.lower() for word in re.findall(r"\w+", statement)}
    with duckdb.connect() as connection:
        _check_reads(connection, statement)
        for name, make in tables.items():
            if name in named:
                _add(connection, name, make())
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        try:
            return _plain(connection.sql(statement).pl())
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise QueryError(f"the answer has a column that no frame can hold, cast it to text: {error}") from error
        except duckdb.Error as error:
            raise QueryError(f"{error}; the tables are: {', '.join(tables)}") from error


def _check_reads(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    try:
        kinds = [one.type for one in connection.extract_statements(statement)]
    except duckdb.Error as error:
        raise QueryError(str(error)) from error
    if kinds != [duckdb.StatementType.SELECT]:
        found = ", ".join(kind.name for kind in kinds) or "nothing"
        raise QueryError(f"SQL here is one SELECT, which may begin with WITH, and this is {found}: {statement!r:.80}")


def _add(connection: duckdb.DuckDBPyConnection, name: str, table: Table) -> None:
    """Register a table. Polars scans files, because a DuckDB that may read files could also write them."""
    if isinstance(table, pl.DataFrame):
        connection.register(name, table)
        return
    parts = []
    for number, (pack_id, path) in enumerate(table.items()):
        rows = pl.scan_parquet(path, glob=False)
        held_out = table.without.get(pack_id)
        connection.register(f"{name}_{number}", rows.filter(~pl.col("fixture_id").is_in(held_out)) if held_out else rows)
        parts.append(f"SELECT {_quoted(pack_id)} AS pack_id, * FROM {name}_{number}")  # noqa: S608  a quoted literal
    connection.execute(f"CREATE VIEW {name} AS {' UNION ALL BY NAME '.join(parts)}")


def _plain(found: pl.DataFrame) -> pl.DataFrame:
    """Return 128-bit sums of integers, as DuckDB makes them, as 64-bit integers where they fit."""
    wide = [name for name, dtype in found.schema.items() if isinstance(dtype, pl.Decimal) and dtype.scale == 0]
    narrow = found.select(pl.col(wide).cast(pl.Int64, strict=False))
    return found.with_columns(narrow[name] for name in wide if narrow[name].null_count() == found[name].null_count())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
