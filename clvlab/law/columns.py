"""Operations on whole columns without expressions. Setting up an expression takes longer than judging a small run."""

from __future__ import annotations

from typing import Any, cast

import polars as pl


def taken(column: pl.Series, rows: pl.Series) -> pl.Series:
    return column[rows.cast(pl.UInt32)]  # Polars takes an unsigned index as it is


def neighbours(column: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return a column without its last value, and the column without its first value."""
    return column.slice(0, max(len(column) - 1, 0)), column.slice(1)


def changes(column: pl.Series) -> pl.Series:
    """Return whether each value is the first or differs from the previous value. Null counts as a value."""
    before, after = neighbours(column)
    differs = before.ne_missing(after) if column.null_count() else before != after
    return pl.Series([True][: len(column)], dtype=pl.Boolean).append(differs)


def runs(starts: pl.Series) -> pl.Series:
    """Number runs of equal values from 0, given a Boolean for the start of each run."""
    return starts.cast(pl.Int64).cum_sum() - 1


def repeated(size: pl.Series) -> pl.Series:
    """Return each row's number as many times as its size (at least 1)."""
    starts = pl.Series([False], dtype=pl.Boolean).new_from_index(0, int(size.sum()))
    return runs(starts.scatter((size.cum_sum() - size).cast(pl.UInt32), values=True))


def nulls(count: int, dtype: type[pl.DataType] = pl.Int64) -> pl.Series:
    return pl.Series([None], dtype=dtype).new_from_index(0, count)


def in_range(column: pl.Series, low: int, high: int | None = None) -> bool:
    least, largest = cast("int | None", column.min()), cast("int | None", column.max())
    return (least is None or least >= low) and (largest is None or high is None or largest <= high)


def values(column: pl.Series) -> set[Any]:
    return set(column.unique().to_list()) - {None}
