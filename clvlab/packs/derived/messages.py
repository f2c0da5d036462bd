"""Filters of a view about messages: which of them it marks suspended: there the consensus enters and closes nothing."""

from __future__ import annotations

import numpy as np
import polars as pl

from clvlab.law.tape import ROWS

_MICRO = 1_000_000


def beyond_overround(rows: pl.DataFrame, series: pl.DataFrame, max_overround_bps: int) -> pl.Series:
    """Tell of each row whether its message is open, has a price on every side, and its prices sum to more.

    In millionths, each rounded by itself, so that every machine agrees.
    """
    message = _message(rows, series)
    odds = rows["odds_milli"].cast(pl.Int64)
    priced = odds.is_not_null().to_numpy()
    implied = ((1000 * _MICRO + odds // 2) // odds).fill_null(0).to_numpy()
    counts = np.bincount(message, weights=priced, minlength=rows.height)
    totals = np.bincount(message, weights=implied, minlength=rows.height)
    full = counts[message] == series["n_sides"].gather(rows["series"]).to_numpy()
    return pl.Series(full & (totals[message] > _MICRO + 100 * max_overround_bps)) & ~rows["suspended"]


def of_few_books(rows: pl.DataFrame, series: pl.DataFrame, books: pl.DataFrame, min_books: int) -> pl.Series:
    """Tell of each row whether its message is open, and fewer books had a price on its market then.

    A book has a price from a message of its own that is not suspended until one that is; ``books`` is ``BOOK_ROWS``, in the
    numbers of these ticks.
    """
    market, said = ["fixture_id", "market_key"], pl.col("suspended").not_().cast(pl.Int32)
    standing = (
        books.unique([*market, "book", "tick_seq"])
        .sort("tick_seq")
        .with_columns(change=said - said.shift(fill_value=0).over(*market, "book"))
        .group_by(*market, "tick_seq", maintain_order=True)
        .agg(pl.sum("change"))
        .with_columns(books=pl.col("change").cum_sum().over(market))
    )
    number = rows["series"]
    of_rows = rows.select("tick_seq").with_columns(
        series["fixture_id"].gather(number), series["market_key"].gather(number), row=pl.int_range(pl.len())
    )
    first_sides = of_rows.filter(series["side_no"].gather(number) == 0).sort("tick_seq")
    found = first_sides.join_asof(
        standing.select(*market, "tick_seq", "books"), on="tick_seq", by=market, check_sortedness=False
    )  # fmt: skip
    few = np.zeros(rows.height, dtype=np.bool_)
    few[found["row"].to_numpy()] = (found["books"].fill_null(0) < min_books).to_numpy()
    return pl.Series(few[_message(rows, series)]) & ~rows["suspended"]


def suspended(rows: pl.DataFrame, marked: pl.Series) -> pl.DataFrame:
    """Return the rows, the marked ones suspended and without prices."""
    return rows.with_columns(
        pl.when(~marked).then(pl.col("prob_bps", "odds_milli")), suspended=pl.col("suspended") | marked
    ).select(*ROWS)


def count(rows: pl.DataFrame, series: pl.DataFrame, marked: pl.Series) -> int:
    """Return how many messages marked rows are of."""
    return len(np.unique(_message(rows, series)[marked.to_numpy()]))


def _message(rows: pl.DataFrame, series: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return of each row the row of its message's first side."""
    first = series["market_start"] - series["start"]
    return (pl.select(pl.int_range(rows.height)).to_series() + first.gather(rows["series"])).to_numpy()
