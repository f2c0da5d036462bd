"""The job as one writes it without clvlab: a lazy Polars script and a DuckDB query over the feed as it arrived.

Both count the scored decisions and add up their closing-line value, market by market.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl

__all__ = ["duckdb_query", "polars_script"]

HORIZON_MS = 60_000


def polars_script(path: Path, threshold: int) -> dict[str, list[int]]:
    """Read, close, 20-tick momentum, join, value, horizon, group: the named baseline."""
    market = ["fixture_id", "market_key", "side"]
    ticks = pl.scan_parquet(path).filter(~pl.col("in_running"))
    closes = ticks.group_by(market).agg(close_bps=pl.col("prob_bps").last(), close_ts_ms=pl.col("ts_ms").last())
    rise = (pl.col("prob_bps") - pl.col("prob_bps").shift(20)).over(market)
    table = (
        ticks.with_columns(momentum=rise)
        .filter(pl.col("momentum") > threshold)
        .join(closes, on=market)
        .filter(pl.col("close_ts_ms") - pl.col("ts_ms") >= HORIZON_MS, pl.col("close_bps").is_not_null())
        .with_columns(clv_bps=pl.col("close_bps") - pl.col("prob_bps"))
        .group_by("market_key")
        .agg(pl.len(), pl.col("clv_bps").sum())
        .collect(engine="streaming")
    )
    return {key: [count, total] for key, count, total in table.cast({"market_key": pl.String}).sort("market_key").iter_rows()}


def duckdb_query(path: Path, threshold: int) -> dict[str, list[int]]:
    """The same in SQL."""
    query = """
        with ticks as (select * from read_parquet($path) where not in_running),
        closes as (
            select fixture_id, market_key, side, arg_max_null(prob_bps, tick_seq) close_bps, max(ts_ms) close_ts_ms
            from ticks group by all
        ),
        rises as (
            select *, prob_bps - lag(prob_bps, 20) over (partition by fixture_id, market_key, side order by tick_seq) rise
            from ticks
        )
        select market_key, count(*), sum(close_bps - prob_bps)
        from rises join closes using (fixture_id, market_key, side)
        where rise > $threshold and close_ts_ms - ts_ms >= $horizon and close_bps is not null
        group by 1 order by 1
    """
    with duckdb.connect() as connection:
        connection.execute("set threads = 2")
        connection.execute("set preserve_insertion_order = false")
        parameters = {"path": str(path), "threshold": threshold, "horizon": HORIZON_MS}
        rows = connection.execute(query, parameters).fetchall()
    return {str(key): [int(count), int(total)] for key, count, total in rows}
