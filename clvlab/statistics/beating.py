"""How often the close was beaten, and the middle of the values: shares, with ties apart, that know of clusters.

References
----------
Wilson (1927), "Probable Inference, the Law of Succession, and Statistical Inference", JASA 22. Dean and Pagano (2015),
"Evaluating Confidence Interval Methods for Binomial Proportions in Clustered Surveys", Journal of Survey Statistics and
Methodology 3(4): Wilson's interval on the effective sample size. Korn and Graubard (1998), "Confidence Intervals for
Proportions with Small Expected Number of Positive Counts Estimated from Survey Data", Survey Methodology 24(2): that size by
the degrees of freedom. Woodruff (1952), "Confidence Intervals for Medians and Other Position Measures", JASA 47.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Literal, cast

import polars as pl

from clvlab.statistics.clusters import MIN_CLUSTERS, cluster_errors, sum_by_cluster
from clvlab.statistics.student import two_sided_quantile


@dataclass(frozen=True, slots=True)
class BeatRate:
    """Decisions above, at and below the close, and the share of those above among those that moved.

    Attributes
    ----------
    beat, tied, lost
        Decisions with a positive, zero and negative CLV.
    rate
        ``beat / (beat + lost)``, 0..1; null if nothing moved.
    low, high
        Wilson's interval on the effective sample size, with Student's quantile in place of the normal one; null with fewer
        than ``MIN_CLUSTERS`` fixtures that moved.
    effective_n
        Independent decisions that would say as much; the number of fixtures where all went one way.
    """

    beat: int
    tied: int
    lost: int
    rate: float | None
    low: float | None
    high: float | None
    effective_n: float | None


@dataclass(frozen=True, slots=True)
class Middle:
    """The median of clustered values and its interval, in their unit; null without values."""

    median: float | None
    low: float | None
    high: float | None


def wilson_interval(rate: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval of a share.

    Parameters
    ----------
    rate
        The share, 0..1.
    n
        Its sample size, which may be an effective one and so no integer; above 0.
    level
        Of the interval.

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
    """Return the share of decisions that beat the close among those whose market moved; ties stand apart.

    Parameters
    ----------
    clv_bps
        CLV of scored decisions, in bps of probability; nulls are left out.
    fixtures
        The fixture of each: the effective sample size is that of shares clustered by fixture, never above the count.
    level
        Of the interval.

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


def cluster_median(values: pl.Series, clusters: pl.Series, level: float = 0.95) -> Middle:
    """Return the median and Woodruff's interval: the clustered error of the share below it, read back as quantiles.

    Parameters
    ----------
    values
        Numbers, for example ``clv_bps``; nulls are left out.
    clusters
        What each belongs to, as a rule ``fixture_id``.
    level
        Of the interval, null with fewer than ``MIN_CLUSTERS`` clusters.

    Examples
    --------
    >>> cluster_median(pl.Series(range(101)), pl.Series(range(101)))
    Middle(median=50.0, low=40.0, high=60.0)
    """
    median = values.median()
    if not isinstance(median, int | float):
        return Middle(None, None, None)
    # a value at the median is half below it: so a median that many values share is no surprise
    below = pl.select((values < median).cast(pl.Float64) + 0.5 * (values == median).cast(pl.Float64)).to_series()
    sums, rows, _ = sum_by_cluster(below, clusters)
    if rows.len() < MIN_CLUSTERS:
        return Middle(float(median), None, None)
    found = cluster_errors(sums)
    reach = float(two_sided_quantile(found.degrees, level)[0] * found.errors[0])
    low, high = _quantile(values, 0.5 - reach, "nearest"), _quantile(values, 0.5 + reach, "nearest")
    # a median between two values is no value: the nearest may lie on its other side
    if low > median:
        low = _quantile(values, 0.5 - reach, "lower")
    if high < median:
        high = _quantile(values, 0.5 + reach, "higher")
    return Middle(float(median), low, high)


def _normal_quantile(level: float) -> float:
    return NormalDist().inv_cdf((1 + level) / 2)


def _quantile(values: pl.Series, share: float, method: Literal["nearest", "lower", "higher"]) -> float:
    return cast("float", values.quantile(min(max(share, 0.0), 1.0), method))
