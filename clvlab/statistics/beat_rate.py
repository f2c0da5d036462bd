"""Share of decisions that beat the close, and median of the values, with errors clustered by fixture.

References
----------
Wilson (1927), "Probable Inference, the Law of Succession, and Statistical Inference", JASA 22. Dean and Pagano (2015),
"Evaluating Confidence Interval Methods for Binomial Proportions in Clustered Surveys", Journal of Survey Statistics and
Methodology 3(4): Wilson's interval on the effective sample size. Korn and Graubard (1998), "Confidence Intervals for
Proportions with Small Expected Number of Positive Counts Estimated from Survey Data", Survey Methodology 24(2): its correction
by degrees of freedom. Woodruff (1952), "Confidence Intervals for Medians and Other Position Measures", JASA 47.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Literal, cast

import numpy as np
import polars as pl

from clvlab.statistics.clusters import MIN_CLUSTERS, Clusters, Floats, cluster_errors, sum_by_cluster
from clvlab.statistics.means import two_sided_quantile


@dataclass(frozen=True, slots=True)
class BeatRate:
    """Numbers of decisions that beat, tied with and lost to the close, and the share that beat it, without ties.

    Attributes
    ----------
    beat, tied, lost
        Decisions with a positive, zero and negative CLV.
    rate
        ``beat / (beat + lost)``, 0..1; ``None`` if no price moved.
    low, high
        Wilson's interval on the effective sample size, with Student's quantile; ``None`` if prices moved in fewer than
        ``MIN_CLUSTERS`` fixtures.
    effective_n
        Number of independent decisions with the same information; the number of fixtures if all decisions went one way.
    """

    beat: int
    tied: int
    lost: int
    rate: float | None
    low: float | None
    high: float | None
    effective_n: float | None


@dataclass(frozen=True, slots=True)
class Median:
    """Median of clustered values and its interval, in their unit; ``None`` without values."""

    median: float | None
    low: float | None
    high: float | None


def wilson_interval(rate: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval of a share.

    Parameters
    ----------
    rate
        Share, 0..1.
    n
        Sample size above 0; an effective sample size need not be an integer.
    level
        Level of the interval.

    Examples
    --------
    >>> [round(bound, 4) for bound in wilson_interval(0.5, 10)]
    [0.2366, 0.7634]
    """
    z = _normal_quantile(level)
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z * sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def beat_close_rate(clv_bps: pl.Series, fixtures: pl.Series, level: float = 0.95) -> BeatRate:
    """Return the share of decisions that beat the close, among those whose price moved; ties are counted separately.

    Parameters
    ----------
    clv_bps
        CLV of scored decisions, in bps of probability; nulls are left out.
    fixtures
        Fixture of each decision; the effective sample size is clustered by fixture, and at most the number of decisions.
    level
        Level of the interval.

    Examples
    --------
    >>> found = beat_close_rate(pl.Series([5, 3, 0, -2]), pl.Series([1, 2, 3, 4]))
    >>> found.beat, found.tied, found.lost, round(found.rate, 3)
    (2, 1, 1, 0.667)
    """
    beat, tied, lost = (int(matches.sum() or 0) for matches in (clv_bps > 0, clv_bps == 0, clv_bps < 0))
    moved = beat + lost
    if not moved:
        return BeatRate(beat, tied, lost, None, None, None, None)
    rate = beat / moved
    went = pl.select(pl.when(clv_bps != 0).then((clv_bps > 0).cast(pl.Float64))).to_series()
    sums, rows, _ = sum_by_cluster(went, fixtures)
    found = cluster_errors(sums)
    error = float(found.errors[0])
    effective = min(rate * (1 - rate) / error**2, moved) if error > 0 else float(rows.len())
    if rows.len() < MIN_CLUSTERS:
        return BeatRate(beat, tied, lost, rate, None, None, effective)
    known = effective * (_normal_quantile(level) / float(two_sided_quantile(found.degrees, level)[0])) ** 2
    return BeatRate(beat, tied, lost, rate, *wilson_interval(rate, known, level), effective)


def cluster_median(values: pl.Series, clusters: pl.Series, level: float = 0.95) -> Median:
    """Return the median and Woodruff's interval: the clustered error of the share below the median, turned into quantiles.

    Parameters
    ----------
    values
        Numbers such as ``clv_bps``; nulls are left out.
    clusters
        Cluster of each value, usually ``fixture_id``.
    level
        Level of the interval, which is ``None`` with fewer than ``MIN_CLUSTERS`` clusters.

    Examples
    --------
    >>> cluster_median(pl.Series(range(101)), pl.Series(range(101)))
    Median(median=50.0, low=40.0, high=60.0)
    """
    median = values.median()
    if not isinstance(median, int | float):
        return Median(None, None, None)
    # a value at the median counts as half below it, which also covers a median that many values share
    below = pl.select((values < median).cast(pl.Float64) + 0.5 * (values == median).cast(pl.Float64)).to_series()
    sums, rows, _ = sum_by_cluster(below, clusters)
    if rows.len() < MIN_CLUSTERS:
        return Median(float(median), None, None)
    found = cluster_errors(sums)
    reach = float(two_sided_quantile(found.degrees, level)[0] * found.errors[0])
    low, high = _quantile(values, 0.5 - reach, "nearest"), _quantile(values, 0.5 + reach, "nearest")
    # a median between two values is not itself a value, so the nearest value may be on its other side
    if low > median:
        low = _quantile(values, 0.5 - reach, "lower")
    if high < median:
        high = _quantile(values, 0.5 + reach, "higher")
    return Median(float(median), low, high)


def _normal_quantile(level: float) -> float:
    return NormalDist().inv_cdf((1 + level) / 2)


def _quantile(values: pl.Series, share: float, method: Literal["nearest", "lower", "higher"]) -> float:
    return cast("float", values.quantile(min(max(share, 0.0), 1.0), method))


# Two agents over the same fixtures: the difference of their means, fixture by fixture.
#
# References
# ----------
# Cochran (1977), "Sampling Techniques", chapter 6: the variance of a difference of two ratios from one sample. Bell and
# McCaffrey (2002), Survey Methodology 28(2): CR2 and its degrees of freedom, here of two means at once.


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference of two means, in their unit.

    Attributes
    ----------
    difference
        First minus second; ``None`` where either has no value.
    standard_error, t
        Clustered and paired: a fixture that is equally good for both adds no error. ``None`` if either has fewer than two
        fixtures; ``t`` is also ``None`` if the error is zero.
    low, high
        Student's interval; ``None`` with fewer than ``MIN_CLUSTERS`` fixtures.
    n_clusters
        Number of fixtures in which at least one of them has a value.
    """

    difference: float | None
    standard_error: float | None
    t: float | None
    low: float | None
    high: float | None
    n_clusters: int


def paired_difference(clusters: Clusters, first: int = 0, second: int = 1, *, level: float = 0.95) -> Difference:
    """Return how far the mean of one column is above that of another.

    Parameters
    ----------
    clusters
        One column per agent, one row per fixture.
    first, second
        Numbers of the columns.
    level
        Level of the interval.

    Examples
    --------
    >>> sums = np.array([[5.0, 1.0], [2.0, 0.0], [9.0, 4.0], [3.0, 1.0], [-4.0, -7.0]])
    >>> found = paired_difference(Clusters(sums, np.ones_like(sums), sums**2))
    >>> round(found.difference, 2), round(found.t, 2)
    (3.2, 5.49)
    """
    used = (clusters.counts[:, [first, second]] > 0).any(axis=1)
    both = Clusters(*(part[used][:, [first, second]] for part in (clusters.sums, clusters.counts, clusters.squares)))
    size = int(used.sum())
    if not size or not both.counts.sum(0).all():
        return Difference(None, None, None, None, None, size)
    found = cluster_errors(both)
    difference = float(found.means[0] - found.means[1])
    error = float(np.sqrt(((found.residuals[:, 0] - found.residuals[:, 1]) ** 2).sum()))
    if not np.isfinite(error):
        return Difference(difference, None, None, None, None, size)
    if error <= 1e-12 * float(np.abs(found.means).max()):
        error = 0.0
    half = float(two_sided_quantile(_degrees(both), level)) * error if error else 0.0
    known = size >= MIN_CLUSTERS
    return Difference(
        difference,
        error,
        difference / error if error else None,
        difference - half if known else None,
        difference + half if known else None,
        size,
    )


def _degrees(both: Clusters) -> Floats:
    counts = both.counts
    total = counts.sum(0)
    scaled = counts / np.sqrt(1 - counts / total)
    trace, squares = (1 / total).sum(), 0.0
    # of B = B1 + B2, whose parts are (1 / N^2) (n on the diagonal, -(scaled scaled') / N elsewhere): the trace of B B'
    for j in (0, 1):
        for k in (0, 1):
            products = scaled[:, j] * scaled[:, k]
            apart = (products.sum() ** 2 - (products**2).sum()) / (total[j] * total[k])
            squares += ((counts[:, j] * counts[:, k]).sum() + apart) / (total[j] * total[k]) ** 2
    return np.asarray(trace**2 / squares)
