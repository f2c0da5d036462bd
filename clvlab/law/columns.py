"""Whole columns taken, compared and repeated without an expression.

An expression costs more to set up than a run of a few hundred decisions takes to judge. What is done here costs next to nothing
then, and as much as an expression where columns are long.
"""

from __future__ import annotations

from typing import Any, cast

import polars as pl


def taken(column: pl.Series, rows: pl.Series) -> pl.Series:
    """Return a column at some rows, null where the row is null."""
    return column[rows.cast(pl.UInt32)]  # as an index without a sign Polars takes it as it is


def neighbours(column: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return a column without its last value, and one without its first: each beside the one before it."""
    return column.slice(0, max(len(column) - 1, 0)), column.slice(1)


def changes(column: pl.Series) -> pl.Series:
    """Tell of each value whether it is the first, or another than the one before it; a null is like another."""
    before, after = neighbours(column)
    differs = before.ne_missing(after) if column.null_count() else before != after
    return pl.Series([True][: len(column)], dtype=pl.Boolean).append(differs)


def runs(starts: pl.Series) -> pl.Series:
    """Number runs from 0, by where each starts."""
    return starts.cast(pl.Int64).cum_sum() - 1


def repeated(size: pl.Series) -> pl.Series:
    """Return each row's number as often as its size says; sizes are at least 1."""
    starts = pl.Series([False], dtype=pl.Boolean).new_from_index(0, int(size.sum()))
    return runs(starts.scatter((size.cum_sum() - size).cast(pl.UInt32), values=True))


def nulls(count: int, dtype: type[pl.DataType] = pl.Int64) -> pl.Series:
    """Return a column of nulls."""
    return pl.Series([None], dtype=dtype).new_from_index(0, count)


def in_range(column: pl.Series, low: int, high: int | None = None) -> bool:
    """Tell whether no value is below or above; nulls are no values."""
    least, largest = cast("int | None", column.min()), cast("int | None", column.max())
    return (least is None or least >= low) and (largest is None or high is None or largest <= high)


def values(column: pl.Series) -> set[Any]:
    """Return the different values of a column, without null."""
    return set(column.unique().to_list()) - {None}
