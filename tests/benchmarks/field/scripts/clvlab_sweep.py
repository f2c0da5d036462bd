"""A sweep of momentum in clvlab."""

from pathlib import Path

import clvlab as cl
from tests.benchmarks.field.scripts.clvlab_momentum import momentum


def run(pack: Path, lags: list[int], thresholds: list[int], horizon_s: int) -> list[tuple[int, int]]:
    grid, window = {"lag": lags, "threshold": thresholds}, cl.Window(min_clv_horizon_s=horizon_s)
    found = cl.sweep(cl.open_pack(pack), momentum, grid, window=window, progress=False).frame
    return [(n, round(n * mean)) for n, mean in found.sort("lag", "threshold").select("n", "mean_clv_bps").iter_rows()]
