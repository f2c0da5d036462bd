"""Means over clusters of decisions: fixtures are independent, decisions of one fixture are not.

The mean is the ratio of two sums over clusters, and its error is that of a ratio: decisions never count as independent.

References
----------
Bell and McCaffrey (2002), "Bias Reduction in Standard Errors for Linear Regression with Multi-Stage Samples", Survey
Methodology 28(2): the variance CR2 and its degrees of freedom. Imbens and Kolesár (2016), "Robust Standard Errors in Small
Samples", Review of Economics and Statistics 98(4). Kish (1965), "Survey Sampling": design effect, effective clusters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import polars as pl

Floats = npt.NDArray[np.float64]

MIN_CLUSTERS = 5  # an interval needs this many: with fewer, the variance between clusters is too uncertain
RESAMPLES = 5_000
ROUNDING = 1e-12  # relative: a smaller remainder counts as zero


@dataclass(frozen=True, slots=True)
class Clusters:
    """Sum, count and sum of squares of the values, per cluster (row) and column."""

    sums: Floats
    counts: Floats
    squares: Floats


@dataclass(frozen=True, slots=True)
class BoundedClusters(Clusters):
    """Clusters of bets with two more sums: ``lowest`` if every price had closed at 0, ``highest`` if at 1."""

    lowest: Floats
    highest: Floats

    def columns(self, places: npt.NDArray[np.int64]) -> BoundedClusters:
        """Return some columns, in the order of ``places``."""
        return BoundedClusters(*(getattr(self, part.name)[:, places] for part in fields(self)))


def side_by_side(each: Sequence[Clusters]) -> Clusters:
    """Return the columns of several clusters as columns of one, whose rows are not the same clusters."""
    height = max(len(one.sums) for one in each)

    def joined(parts: Iterable[Floats]) -> Floats:
        return np.hstack([np.pad(part, ((0, height - len(part)), (0, 0))) for part in parts])

    return Clusters(*(joined(getattr(one, part.name) for one in each) for part in fields(Clusters)))


@dataclass(frozen=True, slots=True)
class Errors:
    """Mean of each column, and its error; nan for a column without values.

    Attributes
    ----------
    means
        Sum divided by count.
    errors
        Cluster-robust standard errors (CR2); nan with fewer than two clusters.
    degrees
        Degrees of freedom of the errors (Bell and McCaffrey): the number of clusters minus one if all have equal size, and
        fewer if a few clusters hold most values.
    residuals
        Contribution of each cluster (row) to the error of the mean, per column; their squares add up to the squared error.
    """

    means: Floats
    errors: Floats
    degrees: Floats
    residuals: Floats


def sum_by_cluster(
    values: pl.Series, clusters: pl.Series, groups: pl.Series | None = None
) -> tuple[Clusters, pl.Series, pl.Series | None]:
    """Return the sums of values per cluster (row) and group (column).

    Parameters
    ----------
    values
        Numbers; rows with a null are left out.
    clusters
        Cluster of each value, usually ``fixture_id``.
    groups
        Column of each value; without groups there is one column.

    Returns
    -------
    tuple
        The sums, the names of their rows, and the names of their columns; names are sorted.
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
    places = names.rank("dense").cast(pl.Int64).fill_null(0)
    return np.asarray((places if names.null_count() else places - 1).to_numpy())


def cluster_errors(clusters: Clusters) -> Errors:
    """Return the mean of each column and its cluster-robust standard error.

    With ``S`` the sum and ``n`` the count of a cluster, ``N`` the sum of ``n`` and ``m`` the mean, the error is the root of
    ``sum((S - m n)^2 / (1 - n / N)) / N^2``, with ``N^2 / (sum(n^2) + sum(u)^2 - sum(u^2))`` degrees of freedom, where
    ``u = n^2 / (N - n)``. These are CR2 for a mean, and its degrees of freedom under independent errors of decisions.

    Examples
    --------
    >>> sums, _, _ = sum_by_cluster(pl.Series([1.0, 3.0, 5.0]), pl.Series([1, 1, 2]))
    >>> found = cluster_errors(sums)  # 3, sqrt(2^2 / (1 / 3) + 2^2 / (2 / 3)) / 3
    >>> [round(float(one[0]), 3) for one in (found.means, found.errors, found.degrees)]
    [3.0, 1.414, 1.0]
    """
    sums, counts = clusters.sums, clusters.counts
    total = counts.sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = sums.sum(0) / total
        residuals = (sums - means * counts) / np.sqrt(1 - counts / total) / total
        # with one cluster only rounding errors remain, and they would be divided by 0
        residuals = np.where((counts > 0).sum(0) >= 2, residuals, np.nan)
        errors = np.where((counts > 0).sum(0) >= 2, np.sqrt((residuals**2).sum(0)), np.nan)
        shared = counts**2 / (total - counts)
        degrees = total**2 / ((counts**2).sum(0) + shared.sum(0) ** 2 - (shared**2).sum(0))
    constant = errors <= ROUNDING * np.abs(means)
    return Errors(means, np.where(constant, 0.0, errors), np.where(np.isfinite(errors), degrees, np.nan), residuals)


def effective_clusters(counts: Floats) -> Floats:
    """Return, for each column of counts, the effective number of clusters (Kish); nan without any."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(counts.sum(0) ** 2 / (counts**2).sum(0))


def mean_skewness(clusters: BoundedClusters) -> Floats:
    """Return the signed skewness of the mean of each column; nan without variation.

    It is the larger of two: the skewness of the fixtures' contributions to the mean, and their skewness if every price closed
    at 0 or 1. The second includes losses that the sample did not show: for backed favourites it is below zero, whatever
    happened. Both are skewnesses of the mean, not of values: they shrink with the root of the number of fixtures.

    Examples
    --------
    >>> ones = np.ones((100, 1))  # a hundred prices of .8 that close at .81: each may lose four times what it may win
    >>> round(float(mean_skewness(BoundedClusters(0.01 * ones, ones, 1e-4 * ones, -0.8 * ones, 0.2 * ones))[0]), 3)
    -0.15
    """
    residuals = clusters.sums - clusters.sums.sum(0) / np.maximum(clusters.counts.sum(0), 1) * clusters.counts
    residuals[np.abs(residuals) <= ROUNDING * np.abs(clusters.sums)] = 0
    variances = -clusters.lowest * clusters.highest
    observed = sum_skewness(residuals**2, residuals**3)
    possible = sum_skewness(variances, variances * (clusters.highest + clusters.lowest))
    return np.where(np.nan_to_num(np.abs(observed)) > np.nan_to_num(np.abs(possible)), observed, possible)


def sum_skewness(seconds: Floats, thirds: Floats) -> Floats:
    """Return the skewness of each column's sum, from the second and third central moments of its terms; nan without terms."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(thirds.sum(0) / seconds.sum(0) ** 1.5)


# Spread of values over clusters: the effective number of clusters, and the share of the largest.
#
# References
# ----------
# Kish (1965), "Survey Sampling", chapter 11.7: ``(sum of weights)^2 / (sum of squared weights)`` is the effective sample size
# under unequal weights; here the weight of a cluster is its size. This number is the inverse of Herfindahl's index.


TOP = 5


@dataclass(frozen=True, slots=True)
class Concentration:
    """Spread of values over clusters.

    Attributes
    ----------
    effective_clusters
        Effective number of clusters: from 1, if one cluster holds nearly all values, to the number of clusters, if they are
        equal.
    largest_share, top_share
        Share of the values, 0..1, in the largest cluster and in the ``TOP`` largest.
    """

    effective_clusters: float | None
    largest_share: float | None
    top_share: float | None


def concentration(clusters: pl.Series) -> Concentration:
    """Return how evenly values are spread over their clusters; every figure is ``None`` without values.

    Parameters
    ----------
    clusters
        Cluster of each value, usually ``fixture_id``.

    Examples
    --------
    >>> concentration(pl.Series([1, 1, 1, 2]))  # 4^2 / (3^2 + 1^2)
    Concentration(effective_clusters=1.6, largest_share=0.75, top_share=1.0)
    """
    sizes = clusters.value_counts(name="n")["n"].cast(pl.Int64).sort(descending=True).to_list()
    n = sum(sizes)
    if not n:
        return Concentration(None, None, None)
    return Concentration(n * n / sum(size * size for size in sizes), sizes[0] / n, sum(sizes[:TOP]) / n)
