"""What a pack has of each market: its sides, how many ticks, and from when to when."""

from __future__ import annotations

import polars as pl

from clvlab.errors import PackFormatError
from clvlab.law.schema import Schema
from clvlab.packs.manifest import TICKS_FILE
from clvlab.packs.reader import Pack

# One row per market of a fixture, in order of (fixture_id, market_key); ``sides`` in byte order.
COVERAGE: Schema = {
    "fixture_id": pl.Int64,
    "market_key": pl.String,
    "sides": pl.List(pl.String),
    "ticks": pl.Int64,
    "first_ts_ms": pl.Int64,
    "last_ts_ms": pl.Int64,
}


def coverage(pack: Pack) -> pl.DataFrame:
    """Return ``COVERAGE`` of a pack; its ticks are read once, and never stand in memory.

    Raises
    ------
    PackFormatError
        The ticks can't be read.
    """
    path = pack.folder / TICKS_FILE
    series = (
        pl.scan_parquet(path, glob=False)
        .group_by("fixture_id", "series")
        .agg(
            pl.first("market_key", "side"),
            ticks=pl.len(),  # every message of a market writes a row of each side
            first_ts_ms=pl.col("ts_ms").min(),
            last_ts_ms=pl.col("ts_ms").max(),
        )
    )
    try:
        return (
            series.group_by("fixture_id", "market_key")
            .agg(pl.first("ticks", "first_ts_ms", "last_ts_ms"), sides=pl.col("side").sort())
            .sort("fixture_id", "market_key")
            .select(pl.col(name).cast(dtype) for name, dtype in COVERAGE.items())
            .collect(engine="streaming")
        )
    except (pl.exceptions.PolarsError, OSError) as error:
        raise PackFormatError(f"{str(path)!r} can't be read as ticks: {str(error).splitlines()[0]}") from error
