"""Means over decisions that come in clusters: the decisions of one fixture are not independent, fixtures are.

The mean is the ratio of two sums over clusters, and its error is that of a ratio: decisions never count as independent.

References
----------
Cameron and Miller (2015), "A Practitioner's Guide to Cluster-Robust Inference", Journal of Human Resources 50(2): the
variance CR1. Cameron, Gelbach and Miller (2008), "Bootstrap-Based Improvements for Inference with Clustered Errors", Review of
Economics and Statistics 90(3): resampling whole clusters, and the bootstrap of t. Kish (1965), "Survey Sampling": design
effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

Floats = npt.NDArray[np.float64]

MIN_CLUSTERS = 5  # with fewer there is no interval: resampling them says nothing
RESAMPLES = 5_000
_CELLS = 4_000_000  # of the weights that are in memory at once


@dataclass(frozen=True, slots=True)
class Clusters:
    """Per cluster (row) and column: the sum of the values, how many they are, and the sum of their squares."""

    sums: Floats
    counts: Floats
    squares: Floats


@dataclass(frozen=True, slots=True)
class Draws:
    """Resampled (row) means of each column, and their studentised distances from the mean of the sample."""

    means: Floats
    t: Floats


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and how well it is known, all in the unit of the values.

    Attributes
    ----------
    mean
        Null without values.
    standard_error, t
        Cluster-robust; null with fewer than two clusters, ``t`` also where the error is zero.
    low, high
        Interval of the cluster bootstrap of t; null with fewer than ``MIN_CLUSTERS`` clusters.
    p_value
        One-sided: how often chance alone gives a ``t`` as high.
    n, n_clusters
        Values and clusters.
    design_effect
        Variance of the mean over what it would be if the values were independent; 1 when they are.
    effective_n
        ``n / design_effect``: how many independent values would say as much.
    """

    mean: float | None
    standard_error: float | None
    t: float | None
    low: float | None
    high: float | None
    p_value: float | None
    n: int
    n_clusters: int
    design_effect: float | None
    effective_n: float | None


def sum_by_cluster(
    values: pl.Series, clusters: pl.Series, groups: pl.Series | None = None
) -> tuple[Clusters, pl.Series, pl.Series | None]:
    """Sum values per cluster, and per group in columns of its own.

    Parameters
    ----------
    values
        Numbers; rows with a null are left out.
    clusters
        What a value belongs to, as a rule ``fixture_id``.
    groups
        The column a value goes to; one column without.

    Returns
    -------
    tuple
        The sums, the names of their rows and of their columns, both sorted.
    """
    frame = pl.DataFrame({"value": values.cast(pl.Float64), "cluster": clusters})
    frame = frame.with_columns(group=pl.lit(0) if groups is None else groups).drop_nulls("value")
    rows, columns = frame["cluster"].unique().sort(), frame["group"].unique().sort()
    shape = (rows.len(), max(columns.len(), 1))
    row, column = (_places(frame[name]) for name in ("cluster", "group"))
    cell, size = row * shape[1] + column, shape[0] * shape[1]
    value = frame["value"].to_numpy()
    parts = (value, np.ones_like(value), value * value)
    sums, counts, squares = (np.bincount(cell, part, size).astype(np.float64).reshape(shape) for part in parts)
    return Clusters(sums, counts, squares), rows, None if groups is None else columns


def _places(names: pl.Series) -> npt.NDArray[np.int64]:
    """Number each name by its place among the sorted distinct ones, null first."""
    places = names.rank("dense").cast(pl.Int64).fill_null(0)
    return np.asarray((places if names.null_count() else places - 1).to_numpy())


def cluster_errors(clusters: Clusters) -> tuple[Floats, Floats]:
    """Return the mean of each column and its cluster-robust standard error (CR1), nan where there is none.

    With ``S`` the sum and ``n`` the count of a cluster, ``N`` the sum of ``n``, ``G`` the clusters that have values and ``m``
    the mean, the error is the root of ``G / (G - 1) * sum((S - m n)^2) / N^2``.

    Examples
    --------
    >>> sums, _, _ = sum_by_cluster(pl.Series([1.0, 3.0, 5.0]), pl.Series([1, 1, 2]))
    >>> [round(float(column[0]), 3) for column in cluster_errors(sums)]  # 3, sqrt(2 * (2^2 + 2^2)) / 3
    [3.0, 1.333]
    """
    sums, counts = clusters.sums, clusters.counts
    with np.errstate(divide="ignore", invalid="ignore"):
        means = sums.sum(0) / counts.sum(0)
        residuals = ((sums - means * counts) ** 2).sum(0)
        return means, np.sqrt(_correction(clusters) * residuals) / counts.sum(0)


def _correction(clusters: Clusters) -> Floats:
    used = (clusters.counts > 0).sum(0)
    return np.asarray(np.where(used > 1, used / np.maximum(used - 1, 1), np.nan), dtype=np.float64)


def resample(clusters: Clusters, resamples: int = RESAMPLES, seed: int = 0) -> Draws:
    """Draw whole clusters with replacement, the same ones for all columns, and take the means again.

    Parameters
    ----------
    clusters
        Sums and counts.
    resamples
        How often.
    seed
        The same seed draws the same clusters.

    Returns
    -------
    Draws
        One row per resample, one column per column. A resample without a value of a column is nan there.
    """
    return _resampled([clusters], resamples, seed)[0]


def _resampled(parts: Sequence[Clusters], resamples: int, seed: int) -> list[Draws]:
    """Resample each as if it were alone; those of as many clusters share their draws, which cost most of the time."""
    shapes = [(resamples, part.sums.shape[1]) for part in parts]
    found = [Draws(np.full(shape, np.nan), np.full(shape, np.nan)) for shape in shapes]
    for size in {len(part.sums) for part in parts}:
        alike = [(part, draws) for part, draws in zip(parts, found, strict=True) if len(part.sums) == size]
        for start, weights in drawn_weights(size, resamples, seed):
            for part, draws in alike:
                _fill(draws, part, start, weights)
    return found


def _fill(draws: Draws, clusters: Clusters, start: int, weights: npt.NDArray[np.int64]) -> None:
    """Take the means of a block of resamples, of which the first is number ``start``."""
    sums, counts = clusters.sums, clusters.counts
    means, _ = cluster_errors(clusters)
    drawn = np.hstack([sums, counts, sums * sums, sums * counts, counts * counts])
    s, n, ss, sn, nn = np.hsplit(weights @ drawn, 5)
    with np.errstate(divide="ignore", invalid="ignore"):
        again = s / n
        error = np.sqrt(_correction(clusters) * np.maximum(ss - 2 * again * sn + again**2 * nn, 0)) / n
        draws.means[start : start + len(weights)] = again
        draws.t[start : start + len(weights)] = (again - means) / error


def drawn_weights(size: int, resamples: int, seed: int) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Draw clusters with replacement, in blocks: the number of the first resample, and how often each cluster is in each."""
    rng = np.random.default_rng(seed)
    step = max(1, _CELLS // max(size, 1))
    for start in range(0, resamples if size else 0, step):
        rows = min(step, resamples - start)
        picks = rng.integers(0, size, (rows, size)) + np.arange(rows)[:, None] * size
        yield start, np.bincount(picks.ravel(), minlength=rows * size).reshape(rows, size)


def estimates(clusters: Clusters, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0) -> list[Estimate]:
    """Estimate the mean of each column; see ``cluster_mean``."""
    return estimates_together([clusters], level=level, resamples=resamples, seed=seed)[0]


def estimates_together(
    parts: Sequence[Clusters], *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> list[list[Estimate]]:
    """Return for each of several sums what ``estimates`` gives, in less time: clusters are drawn once for all of one size."""
    found = []
    for clusters, draws in zip(parts, _resampled(parts, resamples, seed), strict=True):
        means, errors = cluster_errors(clusters)
        columns = range(len(means))
        found.append([_estimate(clusters, k, float(means[k]), float(errors[k]), draws.t[:, k], level) for k in columns])
    return found


def _estimate(clusters: Clusters, k: int, mean: float, error: float, t_drawn: Floats, level: float) -> Estimate:
    n, used = int(clusters.counts[:, k].sum()), int((clusters.counts[:, k] > 0).sum())
    t = mean / error if error > 0 else np.nan
    low = high = p_value = np.nan
    known = t_drawn[~np.isnan(t_drawn)]
    if used >= MIN_CLUSTERS and error > 0 and known.size:
        tail = (1 - level) / 2
        # the quantile of an observed value: interpolating between infinities gives none
        below, above = np.quantile(known, [tail, 1 - tail], method="inverted_cdf")
        low, high = mean - above * error, mean - below * error
        p_value = (1 + np.count_nonzero(known >= t)) / (1 + known.size)
    elif used >= MIN_CLUSTERS and error == 0:
        low = high = mean
    independent = (clusters.squares[:, k].sum() - n * mean**2) / (n * (n - 1)) if n > 1 else np.nan
    effect = error**2 / independent if independent > 0 else np.nan
    return Estimate(
        mean=_finite(mean),
        standard_error=_finite(error),
        t=_finite(t),
        low=_finite(low),
        high=_finite(high),
        p_value=_finite(p_value),
        n=n,
        n_clusters=used,
        design_effect=_finite(effect),
        effective_n=_finite(n / effect if effect > 0 else np.nan),
    )


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def cluster_mean(
    values: pl.Series, clusters: pl.Series, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """Estimate the mean of values that come in clusters.

    Parameters
    ----------
    values
        Numbers, for example ``clv_bps``; nulls are left out.
    clusters
        What each belongs to, as a rule ``fixture_id``.
    level
        Of the interval.
    resamples, seed
        Of the bootstrap of t: the quantiles of ``(mean* - mean) / error*`` over resampled clusters take the place of Student's.

    Examples
    --------
    >>> clv_bps, fixtures = pl.Series([10, 10, 10, -4, -4, 6, 6, 6, 1, -3, 5]), pl.Series([1, 1, 1, 2, 2, 3, 3, 3, 4, 5, 6])
    >>> found = cluster_mean(clv_bps, fixtures)
    >>> round(found.mean, 2), round(found.t, 2), found.n, found.n_clusters, round(found.design_effect, 1)
    (3.91, 1.5, 11, 6, 2.4)
    """
    return estimates(sum_by_cluster(values, clusters)[0], level=level, resamples=resamples, seed=seed)[0]


def group_means(
    values: pl.Series,
    clusters: pl.Series,
    groups: pl.Series,
    *,
    level: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> pl.DataFrame:
    """Estimate the mean of every group, from the same resampled clusters.

    Returns
    -------
    pl.DataFrame
        (group, n, n_clusters, mean, low, high, t), sorted by group; see ``Estimate``. Rows with a null group are a group.

    Examples
    --------
    >>> group_means(pl.Series([1, 2, 3]), pl.Series([1, 1, 2]), pl.Series(["a", "b", "a"])).select("group", "n", "mean").rows()
    [('a', 2, 2.0), ('b', 1, 2.0)]
    """
    names = groups.rename("group")
    sums, _, columns = sum_by_cluster(values, clusters, names)
    found = estimates(sums, level=level, resamples=resamples, seed=seed) if columns is not None and columns.len() else []
    shown = ("n", "n_clusters", "mean", "low", "high", "t")
    schema = {name: pl.Int64 if name.startswith("n") else pl.Float64 for name in shown}
    table = pl.DataFrame([[getattr(one, name) for name in shown] for one in found], schema=schema, orient="row")
    return table.insert_column(0, names.clear() if columns is None else columns.rename("group"))
