"""A sum that grows by date, with the interval that its mean had by then."""

from __future__ import annotations

import numpy as np
import polars as pl

from clvlab.law.schema import Schema
from clvlab.statistics.clusters import Clusters
from clvlab.statistics.means import estimates

# One row per date that is looked at, ascending: what had been counted by then. ``low`` and ``high`` bound ``total``.
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
    """Return ``CUMULATIVE``: sums of values by the time that their clusters end, at no more dates than a picture can show.

    The bounds are those of the mean over the clusters so far, times their values: the last ones say what the interval of the
    mean says, so that a band which holds zero at its end and a mean which can't be told from zero are one fact.

    Parameters
    ----------
    values
        Numbers, for example ``clv_bps``, without nulls.
    clusters
        What each belongs to, as a rule ``fixture_id``.
    times_ms
        When the cluster of each ends, UTC milliseconds: the same for all of a cluster.
    level
        Level of the interval.

    Examples
    --------
    >>> found = cumulative(pl.Series([1, 2, -4]), pl.Series([7, 7, 8]), pl.Series([10, 10, 30]))
    >>> found.select("time_ms", "fixtures", "n", "total").rows()
    [(10, 1, 2, 3.0), (30, 2, 3, -1.0)]
    """
    each = (
        pl.DataFrame({"value": values.cast(pl.Float64), "cluster": clusters, "time_ms": times_ms.cast(pl.Int64)})
        .group_by("cluster")
        .agg(pl.sum("value"), pl.max("time_ms"), n=pl.len(), squares=(pl.col("value") ** 2).sum())
        .sort("time_ms", "cluster")
    )
    if each.is_empty():
        return pl.DataFrame(schema=CUMULATIVE)
    ends = each.with_row_index("last").group_by("time_ms").agg(pl.max("last")).sort("time_ms")
    most = max(12, min(_MOST_POINTS, _MOST_CELLS // each.height))
    chosen = ends[np.unique(np.linspace(0, ends.height - 1, min(ends.height, most)).round().astype(int))]
    so_far = np.arange(each.height)[:, None] <= chosen["last"].to_numpy()[None, :]
    parts = (np.where(so_far, each[name].to_numpy().astype(float)[:, None], 0.0) for name in ("value", "n", "squares"))
    found = estimates(Clusters(*parts), level=level)
    rows = [
        (time_ms, one.n_clusters, one.n, (one.mean or 0.0) * one.n, _times(one.low, one.n), _times(one.high, one.n))
        for time_ms, one in zip(chosen["time_ms"], found, strict=True)
    ]
    return pl.DataFrame(rows, schema=CUMULATIVE, orient="row")


def _times(bound: float | None, n: int) -> float | None:
    return None if bound is None else bound * n
