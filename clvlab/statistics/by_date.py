"""Values by date: the sum so far and the rolling mean, each with its interval, and the fall from the last peak."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from clvlab.law.schema import Schema
from clvlab.statistics.clusters import Clusters
from clvlab.statistics.means import estimates

# One row per date, ascending, with the totals up to it. ``low`` and ``high`` bound ``total``.
CUMULATIVE: Schema = {
    "time_ms": pl.Int64,
    "fixtures": pl.Int64,
    "n": pl.Int64,
    "total": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
}
_MOST_POINTS = 120
_MOST_CELLS = 4_000_000


def cumulative(values: pl.Series, clusters: pl.Series, times_ms: pl.Series, *, level: float = 0.95) -> pl.DataFrame:
    """Return ``CUMULATIVE``: sums of values by the time that their clusters end, thinned to the resolution of a picture.

    The bounds are those of the mean over the clusters so far, times the number of values. So the end of the band holds zero
    exactly if the interval of the mean does.

    Examples
    --------
    >>> found = cumulative(pl.Series([1, 2, -4]), pl.Series([7, 7, 8]), pl.Series([10, 10, 30]))
    >>> found.select("time_ms", "fixtures", "n", "total").rows()
    [(10, 1, 2, 3.0), (30, 2, 3, -1.0)]
    """
    return cumulative_sums(_fixtures(values, clusters, times_ms), level=level)


def cumulative_sums(each: pl.DataFrame, *, level: float = 0.95) -> pl.DataFrame:
    """Return ``CUMULATIVE`` of sums: ``time_ms, value, n, squares``, a row per cluster in order of time; see ``cumulative``."""
    if each.is_empty():
        return pl.DataFrame(schema=CUMULATIVE)
    ends = each.with_row_index("last").group_by("time_ms").agg(pl.max("last")).sort("time_ms")
    most = max(12, min(_MOST_POINTS, _MOST_CELLS // each.height))
    chosen = ends[np.unique(np.linspace(0, ends.height - 1, min(ends.height, most)).round().astype(int))]
    so_far = np.arange(each.height)[:, None] <= chosen["last"].to_numpy()[None, :]
    found = estimates(_clusters(each, so_far), level=level)
    rows = [
        (time_ms, one.n_clusters, one.n, (one.mean or 0.0) * one.n, _times(one.low, one.n), _times(one.high, one.n))
        for time_ms, one in zip(chosen["time_ms"], found, strict=True)
    ]
    return pl.DataFrame(rows, schema=CUMULATIVE, orient="row")


def rolling(values: pl.Series, clusters: pl.Series, times_ms: pl.Series, width: int, *, level: float = 0.95) -> pl.DataFrame:
    """Return (time_ms, mean, low, high) over the last ``width`` clusters, ascending; empty with ``width`` clusters or fewer.

    Examples
    --------
    >>> rolling(pl.Series([1, 3, 8]), pl.Series([7, 8, 9]), pl.Series([10, 20, 30]), 2).select("time_ms", "mean").rows()
    [(20, 2.0), (30, 5.5)]
    """
    each, schema = _fixtures(values, clusters, times_ms), dict.fromkeys(("mean", "low", "high"), pl.Float64)
    if each.height <= width:
        return pl.DataFrame(schema={"time_ms": pl.Int64, **schema})
    most = max(12, min(_MOST_POINTS, _MOST_CELLS // each.height))
    places = each.height - width + 1
    last = width - 1 + np.unique(np.linspace(0, places - 1, min(places, most)).round().astype(int))
    row = np.arange(each.height)[:, None]
    found = estimates(_clusters(each, (row <= last) & (row > last - width)), level=level)
    rows = [(one.mean, one.low, one.high) for one in found]
    return pl.DataFrame(rows, schema=schema, orient="row").insert_column(0, each["time_ms"].gather(last))


def falls(values: pl.Series, clusters: pl.Series, times_ms: pl.Series) -> pl.DataFrame:
    """Return (time_ms, fall) of the sum, which starts at 0, below its last peak; a thinned row has the deepest fall.

    Examples
    --------
    >>> falls(pl.Series([5, -8, 4]), pl.Series([1, 2, 3]), pl.Series([10, 20, 30])).rows()
    [(10, 0.0), (20, -8.0), (30, -4.0)]
    """
    walk = _fixtures(values, clusters, times_ms).group_by("time_ms").agg(pl.sum("value")).sort("time_ms")
    total = pl.col("value").cum_sum()
    peak = pl.max_horizontal(total.cum_max(), pl.lit(0.0))
    fallen = walk.select("time_ms", fall=total - peak)
    width = -(-fallen.height // _MOST_POINTS) or 1
    groups = (pl.int_range(pl.len()) // width).alias("point")
    return fallen.group_by(groups, maintain_order=True).agg(pl.last("time_ms"), pl.min("fall")).drop("point")


def _fixtures(values: pl.Series, clusters: pl.Series, times_ms: pl.Series) -> pl.DataFrame:
    return (
        pl.DataFrame({"value": values.cast(pl.Float64), "cluster": clusters, "time_ms": times_ms.cast(pl.Int64)})
        .group_by("cluster")
        .agg(pl.sum("value"), pl.max("time_ms"), n=pl.len(), squares=(pl.col("value") ** 2).sum())
        .sort("time_ms", "cluster")
    )


def _clusters(each: pl.DataFrame, taken: npt.NDArray[np.bool_]) -> Clusters:
    parts = (np.where(taken, each[name].to_numpy().astype(float)[:, None], 0.0) for name in ("value", "n", "squares"))
    return Clusters(*parts)


def _times(bound: float | None, n: int) -> float | None:
    return None if bound is None else bound * n
