"""Sign flips: whether a coin that decides the sign of each fixture does as well.

References
----------
Fisher (1935), "The Design of Experiments", section 21. Canay, Romano and Shaikh (2017), "Randomization Tests under an
Approximate Symmetry Assumption", Econometrica 85(3): signs of whole clusters, few clusters. Janssen (1997), "Studentized
Permutation Tests for Non-i.i.d. Hypotheses", Statistics and Probability Letters 36: why the statistic is studentised.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from clvlab.statistics.clusters import MIN_CLUSTERS, RESAMPLES, ROUNDING, Clusters, Floats

ENUMERATED_BELOW = 15  # clusters: all their signs are tried, else as many as are drawn
_CELLS = 4_000_000  # signs that are in memory at once
_TIE = 1e-9  # relative: sums in another order are equal up to rounding


def sign_flip_p_values(clusters: Clusters, *, resamples: int = RESAMPLES, seed: int = 0) -> Floats:
    """Return the two-sided p-value of each column's mean: how often random signs of whole clusters give a ``t`` as large.

    It holds where the sum of a cluster is as likely to be above zero as below by as much; ``t`` is studentised, so that
    clusters of different size and spread do little harm, and skewness some.

    Parameters
    ----------
    clusters
        Sums and counts.
    resamples, seed
        Of the signs, with ``ENUMERATED_BELOW`` clusters or more; with fewer, all are tried.

    Returns
    -------
    numpy.ndarray
        One per column; nan with fewer than ``MIN_CLUSTERS`` clusters, or where all sums are zero.

    Examples
    --------
    >>> five = np.array([[3.0], [4.0], [2.0], [5.0], [1.0]])  # all above zero: 2 of the 32 ways to set signs are as extreme
    >>> float(sign_flip_p_values(Clusters(five, np.ones_like(five), five**2))[0])
    0.0625
    """
    found = np.full(clusters.sums.shape[1], np.nan)
    for column in range(len(found)):
        used = clusters.counts[:, column] > 0
        if used.sum() >= MIN_CLUSTERS and clusters.sums[used, column].any():
            found[column] = _p_value(clusters.sums[used, column], clusters.counts[used, column], resamples, seed)
    return found


def _p_value(sums: Floats, counts: Floats, resamples: int, seed: int) -> float:
    observed = float(_extremes(np.ones((1, len(sums))), sums, counts)[0]) * (1 - _TIE)
    if len(sums) < ENUMERATED_BELOW:
        extremes = _extremes(_all_signs(len(sums)), sums, counts)
        return float(np.mean(extremes >= observed))
    as_large = sum(
        int(np.count_nonzero(_extremes(signs, sums, counts) >= observed)) for signs in _drawn(len(sums), resamples, seed)
    )
    return (1 + as_large) / (1 + resamples)


def _extremes(signs: Floats, sums: Floats, counts: Floats) -> Floats:
    """Return the square of t, of errors CR2, of the sums under each row of signs; infinite where nothing is left over."""
    total = counts.sum()
    weights = 1 / (1 - counts / total)
    means = signs @ sums / total
    crossed = signs @ (weights * sums * counts)
    whole = (weights * sums**2).sum()
    squares = whole - 2 * means * crossed + means**2 * (weights * counts**2).sum()
    # what rounding leaves of nothing is another number for each order of summing, and would break the tie of a sign with itself
    squares = np.where(squares > ROUNDING * whole, squares, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(means == 0, 0.0, means**2 / squares), dtype=np.float64)


def _all_signs(size: int) -> Floats:
    """Return every way to set the signs, up to those of all at once, which change no square."""
    numbers = np.arange(2 ** (size - 1))[:, None]
    return np.where(numbers >> np.arange(size) & 1, -1.0, 1.0)


def _drawn(size: int, resamples: int, seed: int) -> Iterator[Floats]:
    rng = np.random.default_rng(seed)
    step = max(1, _CELLS // size)
    for start in range(0, resamples, step):
        yield 1.0 - 2.0 * rng.integers(0, 2, (min(step, resamples - start), size)).astype(np.float64)
