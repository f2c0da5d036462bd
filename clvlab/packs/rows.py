"""Ticks as they are stored, read into the rows and series of a tape."""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from clvlab.errors import PackFormatError
from clvlab.law.schema import SERIES, Schema
from clvlab.law.tape import ROWS, series_table

_NAMES = ("fixture_id", "market_key", "side")
UNREADABLE = (OSError, pa.ArrowException, UnicodeDecodeError)  # what pyarrow raises over files that are damaged
STORED: Schema = {name: SERIES[name] for name in _NAMES} | ROWS


def read_rows(file: pl.LazyFrame, where: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read rows, and the names of each series at its first row only.

    The streaming engine numbers the series as they are read: the fixture id and the names of every row never stand in memory.

    Parameters
    ----------
    file
        Stored ticks, in order.
    where
        What errors call them.

    Returns
    -------
    tuple
        ``ROWS`` and ``SERIES``.

    Raises
    ------
    PackFormatError
        They can't be read, or have other dtypes.
    """
    try:
        schema = file.select(*STORED).collect_schema()
        wrong = [f"{name} is {schema[name]}, not {dtype}" for name, dtype in STORED.items() if schema[name] != dtype]
        if wrong:
            raise PackFormatError(f"{where!r} has wrong dtypes: {'; '.join(wrong)}")
        number = pl.struct("fixture_id", "series").rle_id()
        rows = file.with_columns(series=number).select(*ROWS).collect(engine="streaming")
        length = rows["series"].rle().struct.field("len")
        first = (length.cum_sum() - length).implode()
        starts = file.with_row_index("start").filter(pl.col("start").is_in(first)).select(*_NAMES, "start")
        return rows, series_table(starts.collect(engine="streaming").sort("start"), rows.height)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise PackFormatError(f"{where!r} can't be read as ticks: {str(error).splitlines()[0]}") from error


def stored_frame(table: pa.Table) -> pl.DataFrame | None:
    """Return stored ticks that pyarrow read as ``STORED``; null if they have other columns or dtypes.

    Raises
    ------
    OSError, pyarrow.ArrowException, UnicodeDecodeError
        They are damaged, which Polars would not notice in time.
    """
    table.validate(full=True)
    if not STORED.keys() <= set(table.column_names):
        return None
    frame = pl.DataFrame(pa.table({name: table.column(name) for name in STORED}))  # without what else the file says of itself
    return frame if dict(frame.schema) == STORED else None
