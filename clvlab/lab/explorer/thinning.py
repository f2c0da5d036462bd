"""Thinning: from all points to those that a picture of so many pixels can show, extremes kept."""

from __future__ import annotations

import polars as pl


def thin(rows: pl.DataFrame, span_ms: tuple[int, int], width: int) -> pl.DataFrame:
    """Keep, of each side and pixel, the first, the last, the lowest and the highest row: the picture stays the same.

    References
    ----------
    Jugel, Jerzak, Hackenbroich, Markl: "M4: A Visualization-Oriented Time Series Data Aggregation", VLDB 2014.
    """
    if rows.height <= 4 * width:
        return rows
    pixel = _pixel(span_ms, width)
    row, prob = pl.col("row"), pl.col("prob_bps")
    kept = (
        rows.lazy()
        .with_row_index("row")
        .group_by("side", pixel)
        .agg(
            first=row.first(),
            last=row.last(),
            low=row.get(prob.arg_min(), null_on_oob=True),
            high=row.get(prob.arg_max(), null_on_oob=True),
        )
        .select(pl.concat_list("first", "last", "low", "high").explode().drop_nulls().unique().sort())
        .collect(engine="in-memory")
        .to_series()
    )
    return rows[kept]


def _pixel(span_ms: tuple[int, int], width: int) -> pl.Expr:
    low, high = span_ms
    return ((pl.col("ts_ms") - low) * width // max(high - low, 1)).alias("pixel")


def pool(marks: pl.DataFrame, span_ms: tuple[int, int], width: int) -> pl.DataFrame:
    """Draw one mark where more would cover each other: eight pixels and a hundredth of the height apart."""
    if marks.height <= width // 8:
        return marks
    cell = ["side", "outcome", _pixel(span_ms, width // 8), (pl.col("prob_bps") // 100).alias("height")]
    cells = marks.group_by(cell, maintain_order=True).agg(pl.col("n").sum().alias("many"), pl.all().first())
    return cells.with_columns(n="many").select(marks.columns)


def suspensions(past: pl.DataFrame, now_ms: int, span_ms: tuple[int, int], width: int) -> pl.DataFrame:
    """Return the times without a price, those together that no pixel parts."""
    low, high = span_ms
    until = pl.col("ts_ms").shift(-1, fill_value=now_ms)
    gap = pl.col("from_ts_ms") - pl.col("to_ts_ms").shift(1)
    return (
        past.select("suspended", from_ts_ms="ts_ms", to_ts_ms=until)
        .filter("suspended", pl.col("to_ts_ms") >= low, pl.col("from_ts_ms") <= high)
        .with_columns(run=(gap > (high - low) / width).fill_null(value=True).cum_sum())
        .group_by("run", maintain_order=True)
        .agg(pl.first("from_ts_ms").clip(low), pl.last("to_ts_ms").clip(None, high))
        .drop("run")
    )
