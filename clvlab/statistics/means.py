"""Means over clusters: interval, t and p-value by Student's distribution with cluster-robust degrees of freedom.

References
----------
Bell and McCaffrey (2002), Survey Methodology 28(2). Kish (1965), "Survey Sampling": design effect, effective clusters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from clvlab.statistics.clusters import (
    MIN_CLUSTERS,
    ROUNDING,
    Clusters,
    Floats,
    cluster_errors,
    effective_clusters,
    sum_by_cluster,
)

# Student's and the normal distribution come from scipy. It is loaded at the first estimate, because loading takes longer than
# most commands.


def two_sided_quantile(degrees: Floats, level: float) -> Floats:
    """Return how many standard errors on each side of the mean cover ``level``, 0..1."""
    from scipy.special import stdtrit

    return np.asarray(stdtrit(degrees, (1 + level) / 2), dtype=np.float64)


def upper_tail(degrees: Floats, t: Floats) -> Floats:
    from scipy.special import stdtr

    return np.asarray(stdtr(degrees, -t), dtype=np.float64)


def normal_score(degrees: Floats, t: Floats) -> Floats:
    """Return the normal quantile with the same tail probability as each t."""
    from scipy.special import ndtri

    # the small tail keeps its digits; tails below the smallest float count as equal
    tail = np.maximum(upper_tail(degrees, np.abs(t)), np.finfo(np.float64).tiny)
    return np.asarray(np.copysign(ndtri(tail), t), dtype=np.float64)


def log_below(scores: Floats) -> Floats:
    from scipy.special import log_ndtr

    return np.asarray(log_ndtr(scores), dtype=np.float64)


def highest_normals(count: int, size: int) -> Floats:
    """Return ``size`` evenly spaced quantiles of the highest of ``count`` independent normal draws, ascending."""
    from scipy.special import ndtri

    return np.asarray(ndtri(((np.arange(size) + 0.5) / size) ** (1 / count)), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its uncertainty, all in the unit of the values.

    Attributes
    ----------
    mean
        ``None`` without values.
    standard_error, degrees_of_freedom, t
        Cluster-robust; ``None`` with fewer than two clusters. ``t`` is also ``None`` if the error is zero.
    low, high
        Student's interval; ``None`` with fewer than ``MIN_CLUSTERS`` clusters.
    p_value
        One-sided probability of a ``t`` as high by chance; ``None`` without an interval or an error.
    n, n_clusters
        Number of values and of clusters.
    effective_clusters
        Effective number of clusters: ``sum(n)^2 / sum(n^2)``.
    design_effect
        Variance of the mean divided by its variance under independent values; ``None`` if all values are equal.
    effective_n
        ``n / design_effect``: number of independent values with as much information.
    """

    mean: float | None
    standard_error: float | None
    degrees_of_freedom: float | None
    t: float | None
    low: float | None
    high: float | None
    p_value: float | None
    n: int
    n_clusters: int
    effective_clusters: float | None
    design_effect: float | None
    effective_n: float | None


def estimates(clusters: Clusters, *, level: float = 0.95) -> list[Estimate]:
    """Return the estimate of the mean of each column; see ``cluster_mean``."""
    found, counts = cluster_errors(clusters), clusters.counts
    total, used = counts.sum(0), (counts > 0).sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(found.errors > 0, found.means / found.errors, np.nan)
        squares = clusters.squares.sum(0)
        spread = squares - total * found.means**2
        independent = np.where(spread > ROUNDING * squares, spread, 0.0) / (total * (total - 1))
        effect = np.where(independent > 0, found.errors**2 / independent, np.nan)
        size = np.where(effect > 0, total / effect, np.nan)
    enough = used >= MIN_CLUSTERS
    half = np.where(enough, np.where(found.errors > 0, two_sided_quantile(found.degrees, level) * found.errors, 0.0), np.nan)
    p_value = np.where(enough, upper_tail(found.degrees, t), np.nan)
    columns: tuple[Floats, ...] = (
        found.means, found.errors, found.degrees, t, found.means - half, found.means + half, p_value, total, used,
        effective_clusters(counts), effect, size,
    )  # fmt: skip
    return [_estimate(*(float(column[k]) for column in columns)) for k in range(len(total))]


def _estimate(
    mean: float, error: float, degrees: float, t: float, low: float, high: float, p_value: float, n: float, used: float,
    evenly: float, effect: float, size: float,
) -> Estimate:  # fmt: skip
    return Estimate(
        mean=finite(mean),
        standard_error=finite(error),
        degrees_of_freedom=finite(degrees),
        t=finite(t),
        low=finite(low),
        high=finite(high),
        p_value=finite(p_value),
        n=int(n),
        n_clusters=int(used),
        effective_clusters=finite(evenly),
        design_effect=finite(effect),
        effective_n=finite(size),
    )


def finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def cluster_mean(values: pl.Series, clusters: pl.Series, *, level: float = 0.95) -> Estimate:
    """Return the estimate of the mean of clustered values.

    Parameters
    ----------
    values
        Numbers such as ``clv_bps``; nulls are left out.
    clusters
        Cluster of each value, usually ``fixture_id``.
    level
        Level of the interval.

    Examples
    --------
    >>> clv_bps, fixtures = pl.Series([10, 10, 10, -4, -4, 6, 6, 6, 1, -3, 5]), pl.Series([1, 1, 1, 2, 2, 3, 3, 3, 4, 5, 6])
    >>> found = cluster_mean(clv_bps, fixtures)
    >>> round(found.mean, 2), round(found.t, 2), found.n, found.n_clusters, round(found.effective_clusters, 1)
    (3.91, 1.45, 11, 6, 4.8)
    """
    return estimates(sum_by_cluster(values, clusters)[0], level=level)[0]


def weighted_mean(values: pl.Series, weights: pl.Series, clusters: pl.Series, *, level: float = 0.95) -> Estimate:
    """Return the estimate of a weighted mean, such as a return for each unit of stake: the ratio of two sums over clusters.

    Its error is that of the ratio, linearised, so weights may depend on values. Rows without a value or a weight are left out;
    ``n`` counts the others. There is no design effect.

    Examples
    --------
    >>> found = weighted_mean(pl.Series([1.0, 4.0, None]), pl.Series([3.0, 1.0, 2.0]), pl.Series([1, 2, 2]))
    >>> found.mean, found.n, found.n_clusters
    (1.75, 2, 2)
    """
    frame = pl.DataFrame({"value": values, "weight": weights, "cluster": clusters}).drop_nulls().filter(pl.col("weight") > 0)
    value, weight = (frame[name].cast(pl.Float64).to_numpy() for name in ("value", "weight"))
    place = np.unique(frame["cluster"].to_numpy(), return_inverse=True)[1]
    parts = [np.bincount(place, part).astype(np.float64)[:, None] for part in (value * weight, weight, value * value * weight)]
    found = estimates(Clusters(*parts), level=level)[0]
    return replace(found, n=frame.height, design_effect=None, effective_n=None)


def group_means(values: pl.Series, clusters: pl.Series, groups: pl.Series, *, level: float = 0.95) -> pl.DataFrame:
    """Return (group, n, n_clusters, mean, low, high, t) per group, sorted; null is a group of its own. See ``Estimate``.

    Examples
    --------
    >>> group_means(pl.Series([1, 2, 3]), pl.Series([1, 1, 2]), pl.Series(["a", "b", "a"])).select("group", "n", "mean").rows()
    [('a', 2, 2.0), ('b', 1, 2.0)]
    """
    names = groups.rename("group")
    sums, _, columns = sum_by_cluster(values, clusters, names)
    found = estimates(sums, level=level) if columns is not None and columns.len() else []
    listed = ("n", "n_clusters", "mean", "low", "high", "t")
    schema = {name: pl.Int64 if name.startswith("n") else pl.Float64 for name in listed}
    table = pl.DataFrame([[getattr(one, name) for name in listed] for one in found], schema=schema, orient="row")
    return table.insert_column(0, names.clear() if columns is None else columns.rename("group"))
