"""Stored ticks, read into the rows and series of a tape."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING

import polars as pl

from clvlab.errors import PackFormatError
from clvlab.law.schema import SERIES, Schema, conform
from clvlab.law.tape import ROWS, series_table
from clvlab.packs.parquet import check_parquet
from clvlab.proof.canonical import canonical, sha256

if TYPE_CHECKING:  # imported where it reads a file: Polars reads the packs on this disk
    import pyarrow as pa

_NAMES = ("fixture_id", "market_key", "side")
STORED: Schema = {name: SERIES[name] for name in _NAMES} | ROWS


def unreadable() -> tuple[type[BaseException], ...]:
    """Return the errors that pyarrow and Polars raise over damaged files; pyarrow is loaded only once there is an error.

    Polars panics over a time zone that does not exist.
    """
    import pyarrow as pa

    return OSError, pa.ArrowException, UnicodeDecodeError, pl.exceptions.PolarsError, pl.exceptions.PanicException


def read_rows(file: pl.LazyFrame, where: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return ``ROWS`` and ``SERIES`` of ordered stored ticks; errors call them ``where``.

    The streaming engine numbers the series as they are read, so memory never holds the fixture id and names of every row.

    Raises
    ------
    PackFormatError
        The ticks can't be read, or have other dtypes.
    """
    with _readable(file, where):
        rows = file.with_columns(series=_NUMBER).select(*ROWS).collect(engine="streaming")
        first = _starts(rows["series"]).implode()
        starts = file.with_row_index("start").filter(pl.col("start").is_in(first)).select(*_NAMES, "start")
        return rows, series_table(starts.collect(engine="streaming").sort("start"), rows.height)


def read_stored(file: pl.LazyFrame, where: str) -> pl.DataFrame:
    """Return ``STORED`` ticks, with the names of every row; raises as ``read_rows``."""
    with _readable(file, where):
        return file.select(*STORED).collect(engine="streaming")


def numbered(stored: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return ``ROWS`` and ``SERIES`` of ordered ``STORED`` ticks, as ``read_rows`` does of a file."""
    rows = stored.select(_NUMBER.alias("series"), *(name for name in ROWS if name != "series")).rechunk()
    start = _starts(rows["series"])
    return rows, series_table(stored.select(_NAMES)[start].with_columns(start=start), rows.height)


_NUMBER = pl.struct("fixture_id", "series").rle_id()


def _starts(series: pl.Series) -> pl.Series:
    length = series.rle().struct.field("len")
    return length.cum_sum() - length


@contextmanager
def _readable(file: pl.LazyFrame, where: str) -> Iterator[None]:
    try:
        schema = file.select(*STORED).collect_schema()
        wrong = [f"{name} is {schema[name]}, not {dtype}" for name, dtype in STORED.items() if schema[name] != dtype]
        if wrong:
            raise PackFormatError(f"{where!r} has wrong dtypes: {'; '.join(wrong)}")
        yield
    except unreadable() as error:
        raise PackFormatError(f"{where!r} can't be read as ticks: {str(error).splitlines()[0]}") from error


def stored_frame(table: pa.Table) -> pl.DataFrame | None:
    """Return stored ticks that pyarrow read as ``STORED``; ``None`` if they have other columns or dtypes.

    Raises
    ------
    OSError, pyarrow.ArrowException, UnicodeDecodeError
        The ticks are damaged, which Polars would not notice in time.
    """
    import pyarrow as pa

    table.validate(full=True)
    if not STORED.keys() <= set(table.column_names):
        return None
    frame = pl.DataFrame(pa.table({name: table.column(name) for name in STORED}))  # without the other metadata of the file
    return frame if dict(frame.schema) == STORED else None


# Results of markets, where a source has them, are kept apart from the ticks and never on a tape.


RESULTS_FILE = "results.parquet"
_KEY = ("fixture_id", "market_key", "side")


class Payout(StrEnum):
    """How a bet on a side was settled; a void returns the stake, a half wins or loses with half of it."""

    WON = "won"
    HALF_WON = "half_won"
    VOID = "void"
    HALF_LOST = "half_lost"
    LOST = "lost"


# One row per side of a settled market; ``detail`` is further text of the source: a score, a runner's name.
RESULTS: Schema = {
    "fixture_id": pl.Int64,
    "market_key": pl.String,
    "side": pl.String,
    "result": pl.String,
    "detail": pl.String,
}


def sorted_results(results: pl.DataFrame) -> pl.DataFrame:
    """Return ``RESULTS`` in order of its key, after a check of its values."""
    frame = conform(results, RESULTS, "RESULTS").sort(_KEY)
    wrong = frame.filter(~pl.col("result").is_in(list(Payout)) | pl.any_horizontal(pl.col(*_KEY, "result").is_null()))
    if wrong.height:
        raise PackFormatError(f"a result must be one of {', '.join(Payout)} of a named side: found {wrong.row(0)}")
    twice = frame.filter(frame.select(_KEY).is_duplicated())
    if twice.height:
        raise PackFormatError(f"a side is settled twice: {twice.row(0)}")
    return frame


def results_digest(results: pl.DataFrame) -> str:
    """Return ``sha256:<hex>`` of the canonical JSON of all rows, each an array in column order, sorted by key."""
    return sha256(canonical([list(row) for row in sorted_results(results).iter_rows()]))


def read_results(content: bytes, pack_id: str) -> pl.DataFrame:
    """Read ``RESULTS`` from the bytes of a pack's file.

    Raises
    ------
    PackFormatError
        The bytes can't be read as results.
    """
    try:
        check_parquet(content)
        return conform(pl.read_parquet(content), RESULTS, "RESULTS")
    except unreadable() as error:
        raise PackFormatError(f"{RESULTS_FILE} of {pack_id!r} can't be read: {str(error).splitlines()[0]}") from error
