"""Momentum in clvlab: a function of all ticks, run apart, audited for look-ahead, scored and sealed."""

from pathlib import Path

import polars as pl

import clvlab as cl


@cl.strategy
def momentum(ticks, *, lag=20, threshold=100):
    rise = pl.col("prob_bps") - pl.col("prob_bps").shift(lag).over("series")
    return ticks.filter(rise > threshold, ~pl.col("in_running"))


def run(pack: Path, threshold: int, horizon_s: int) -> pl.DataFrame:
    window = cl.Window(min_clv_horizon_s=horizon_s)
    return cl.backtest(cl.open_pack(pack), momentum, params={"threshold": threshold}, window=window).scores


def run_stream(stream: Path, pack: Path, threshold: int, horizon_s: int) -> pl.DataFrame:
    cl.import_odds("betfair", stream, pack)
    return run(pack, threshold, horizon_s)
