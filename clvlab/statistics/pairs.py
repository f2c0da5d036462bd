"""Two agents over the same fixtures: the difference of their means, fixture by fixture.

References
----------
Cochran (1977), "Sampling Techniques", chapter 6: the variance of a difference of two ratios from one sample. Cameron, Gelbach
and Miller (2008), Review of Economics and Statistics 90(3): the bootstrap of t over clusters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clvlab.statistics.clusters import MIN_CLUSTERS, RESAMPLES, Clusters, Floats, drawn_weights


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference of two means, in their unit.

    Attributes
    ----------
    difference
        First less second; null where either has no value.
    standard_error, t
        Clustered and paired: a fixture that is good for both adds no error.
    low, high
        Interval of the cluster bootstrap of t; null with fewer than ``MIN_CLUSTERS`` fixtures.
    n_clusters
        Fixtures in which either has a value.
    """

    difference: float | None
    standard_error: float | None
    t: float | None
    low: float | None
    high: float | None
    n_clusters: int


def paired_difference(
    clusters: Clusters, first: int = 0, second: int = 1, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> Difference:
    """Estimate how far the mean of one column is above that of another.

    Parameters
    ----------
    clusters
        A column per agent, a row per fixture.
    first, second
        Columns.
    level
        Of the interval.
    resamples, seed
        Of the bootstrap over the fixtures of either.

    Examples
    --------
    >>> sums = np.array([[5.0, 1.0], [2.0, 0.0], [9.0, 4.0], [3.0, 1.0], [-4.0, -7.0]])
    >>> found = paired_difference(Clusters(sums, np.ones_like(sums), sums**2))
    >>> round(found.difference, 2), round(found.t, 2)
    (3.2, 5.49)
    """
    used = (clusters.counts[:, [first, second]] > 0).any(axis=1)
    sums, counts = clusters.sums[used][:, [first, second]], clusters.counts[used][:, [first, second]]
    size = len(sums)
    if not size or not counts.sum(0).all():
        return Difference(None, None, None, None, None, size)
    difference, error = (float(one[0]) for one in _differences(np.ones((1, size)), sums, counts))
    t = difference / error if size > 1 and error > 0 else None
    low = high = None
    if t is not None and size >= MIN_CLUSTERS:
        drawn = np.empty(resamples)
        for start, weights in drawn_weights(size, resamples, seed):
            again, errors = _differences(weights.astype(np.float64), sums, counts)
            with np.errstate(divide="ignore", invalid="ignore"):
                drawn[start : start + len(weights)] = (again - difference) / errors
        tail = (1 - level) / 2
        below, above = np.quantile(drawn[~np.isnan(drawn)], [tail, 1 - tail], method="inverted_cdf")
        low, high = difference - above * error, difference - below * error
    return Difference(difference, error if size > 1 else None, t, low, high, size)


def _differences(weights: Floats, sums: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Return the weighted difference of the two ratios and its error, one per row of weights."""
    total, n = weights @ sums, weights @ counts
    size = len(sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = total / n
        added = [(sums[:, k] - means[:, [k]] * counts[:, k]) / n[:, [k]] for k in (0, 1)]
        variance = (weights * (added[0] - added[1]) ** 2).sum(1)
    return means[:, 0] - means[:, 1], np.sqrt(variance * size / max(size - 1, 1))
