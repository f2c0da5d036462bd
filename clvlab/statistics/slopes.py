"""Slopes through the origin over clustered values, with the errors of means over clusters.

A mean is the slope on a constant. So the formulas of ``clusters`` apply, with the sum of ``x^2`` as the size of a cluster and
the sum of ``x y`` as its total. Estimate, CR2 and degrees of freedom are those of least squares without an intercept.

References
----------
Bell and McCaffrey (2002), Survey Methodology 28(2): CR2 and its degrees of freedom. Miller (1974), "The Jackknife: A Review",
Biometrika 61(1), and Fisher (1915): the interval of a correlation, by leaving out clusters on the scale of ``artanh``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from clvlab.statistics.clusters import MIN_CLUSTERS, Clusters, Floats, cluster_errors, sum_by_cluster
from clvlab.statistics.means import finite, two_sided_quantile, upper_tail

_MOST_CORRELATION = 1 - 1e-12


@dataclass(frozen=True, slots=True)
class Slope:
    """A slope through the origin, and its uncertainty.

    Attributes
    ----------
    slope
        Gain of ``y`` per unit of ``x``; ``None`` without a value, or if ``x`` is always 0.
    standard_error, degrees_of_freedom, t
        Cluster-robust (CR2); ``t`` is against a slope of 0. ``None`` with fewer than two clusters.
    low, high
        Student's interval; ``None`` with fewer than ``MIN_CLUSTERS`` clusters.
    p_value
        Two-sided p-value against a slope of 0; ``None`` without an interval or an error.
    n, n_clusters
        Number of values, and of clusters whose ``x`` is not always 0.
    """

    slope: float | None
    standard_error: float | None
    degrees_of_freedom: float | None
    t: float | None
    low: float | None
    high: float | None
    p_value: float | None
    n: int
    n_clusters: int


@dataclass(frozen=True, slots=True)
class Share:
    """Share of the variation of ``y`` around 0 that ``x`` explains, 0..1: the square of their correlation through the origin.

    Attributes
    ----------
    share
        The share; ``None`` if ``x`` or ``y`` is always 0.
    low, high
        Interval by leaving out one cluster at a time; ``None`` with fewer than ``MIN_CLUSTERS`` clusters.
    """

    share: float | None
    low: float | None
    high: float | None


def cluster_slope(x: pl.Series, y: pl.Series, clusters: pl.Series, *, level: float = 0.95) -> Slope:
    """Return the slope of ``y`` on ``x`` through the origin.

    Parameters
    ----------
    x, y
        Numbers; rows where either is ``None`` are left out.
    clusters
        Cluster of each row, usually ``fixture_id``.
    level
        Level of the interval.

    Examples
    --------
    >>> x, y = pl.Series([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), pl.Series([2.0, 4.1, 6.3, 7.9, 9.8, 12.1])
    >>> found = cluster_slope(x, y, pl.Series([1, 2, 3, 4, 5, 6]))
    >>> round(found.slope, 3), round(found.low, 3), round(found.high, 3)
    (2.003, 1.938, 2.069)
    """
    sums, n = _sums(x, y, clusters)
    used = int((sums.counts > 0).sum())
    found = cluster_errors(sums)
    slope, error, degrees = (float(part[0]) for part in (found.means, found.errors, found.degrees))
    t = slope / error if error > 0 else float("nan")
    half = float(two_sided_quantile(np.array(degrees), level)) * error if error > 0 else 0.0
    known = used >= MIN_CLUSTERS and np.isfinite(error)
    return Slope(
        slope=finite(slope),
        standard_error=finite(error),
        degrees_of_freedom=finite(degrees),
        t=finite(t),
        low=slope - half if known else None,
        high=slope + half if known else None,
        p_value=finite(2 * float(upper_tail(np.array(degrees), np.array(abs(t))))) if known else None,
        n=n,
        n_clusters=used,
    )


def explained_share(x: pl.Series, y: pl.Series, clusters: pl.Series, *, level: float = 0.95) -> Share:
    """Return the share of the variation of ``y`` around 0 that ``x`` explains, at any slope.

    Parameters
    ----------
    x, y
        Numbers; rows where either is ``None`` are left out.
    clusters
        Cluster of each row, usually ``fixture_id``.
    level
        Level of the interval.

    Examples
    --------
    >>> x, y = pl.Series([1.0, 2.0, -1.0, -2.0, 1.0, 0.0]), pl.Series([1.0, 1.0, -1.0, -1.0, 0.0, 1.0])
    >>> found = explained_share(x, y, pl.Series([1, 2, 3, 4, 5, 6]))  # 6^2 / (11 * 5)
    >>> round(found.share, 3)
    0.655
    """
    crossed = _sums(x, y, clusters)[0]
    parts = np.column_stack([crossed.sums, crossed.counts, crossed.squares])
    whole = parts.sum(0)
    if not (whole[1:] > 0).all():
        return Share(None, None, None)
    used = parts[(parts[:, 1:] > 0).any(axis=1)]
    share = float(whole[0] ** 2 / (whole[1] * whole[2]))
    if len(used) < MIN_CLUSTERS:
        return Share(share, None, None)
    left = whole - used
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = _scaled(left[:, 0] / np.sqrt(left[:, 1] * left[:, 2]))
    centre = float(_scaled(np.array(whole[0] / np.sqrt(whole[1] * whole[2]))))
    error = np.sqrt((len(used) - 1) / len(used) * float(((apart - centre) ** 2).sum()))
    half = float(two_sided_quantile(np.array(len(used) - 1.0), level)) * error
    if not np.isfinite(half):
        return Share(share, None, None)
    low, high = np.tanh(centre - half), np.tanh(centre + half)
    return Share(share, 0.0 if low <= 0 <= high else float(min(low**2, high**2)), float(max(low**2, high**2)))


def _scaled(correlation: Floats) -> Floats:
    return np.asarray(np.arctanh(np.clip(correlation, -_MOST_CORRELATION, _MOST_CORRELATION)), dtype=np.float64)


def _sums(x: pl.Series, y: pl.Series, clusters: pl.Series) -> tuple[Clusters, int]:
    """Return per cluster the sums of ``x y``, ``x^2`` (as counts) and ``y^2`` (as squares), and the number of rows."""
    rows = pl.DataFrame({"x": x.cast(pl.Float64), "y": y.cast(pl.Float64), "cluster": clusters}).drop_nulls(["x", "y"])
    crossed, size, squares = (
        sum_by_cluster(values, rows["cluster"])[0].sums for values in (rows["x"] * rows["y"], rows["x"] ** 2, rows["y"] ** 2)
    )
    return Clusters(crossed, size, squares), rows.height
