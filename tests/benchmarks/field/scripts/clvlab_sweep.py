"""A sweep of momentum in clvlab."""

from pathlib import Path

import polars as pl

import clvlab as cl
from tests.benchmarks.field.scripts.clvlab_momentum import momentum


def run(pack: Path, lags: list[int], thresholds: list[int], horizon_s: int) -> list[tuple[int, int]]:
    grid, window = {"lag": lags, "threshold": thresholds}, cl.Window(min_clv_horizon_s=horizon_s)
    found = cl.sweep(cl.open_pack(pack), momentum, grid, window=window, progress=False).frame
    found = found.sort("lag", "threshold").select("n", pl.col("mean_clv_bps").fill_null(0))
    return [(n, round(n * mean)) for n, mean in found.iter_rows()]
