"""Two agents over the same fixtures: the difference of their means, fixture by fixture.

References
----------
Cochran (1977), "Sampling Techniques", chapter 6: the variance of a difference of two ratios from one sample. Bell and McCaffrey
(2002), Survey Methodology 28(2): CR2 and its degrees of freedom, here of two means at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clvlab.statistics.clusters import MIN_CLUSTERS, Clusters, Floats, cluster_errors
from clvlab.statistics.student import two_sided_quantile


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference of two means, in their unit.

    Attributes
    ----------
    difference
        First less second; null where either has no value.
    standard_error, t
        Clustered and paired: a fixture that is good for both adds no error. Null with fewer than two fixtures of either,
        ``t`` also where the error is zero.
    low, high
        Student's interval; null with fewer than ``MIN_CLUSTERS`` fixtures.
    n_clusters
        Fixtures in which either has a value.
    """

    difference: float | None
    standard_error: float | None
    t: float | None
    low: float | None
    high: float | None
    n_clusters: int


def paired_difference(clusters: Clusters, first: int = 0, second: int = 1, *, level: float = 0.95) -> Difference:
    """Estimate how far the mean of one column is above that of another.

    Parameters
    ----------
    clusters
        A column per agent, a row per fixture.
    first, second
        Columns.
    level
        Of the interval.

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
    """Return the degrees of freedom of the difference's error, if decisions had independent errors."""
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
