"""Student's distribution and the normal one, of scipy: loaded at the first estimate, as it takes longer than most commands."""

from __future__ import annotations

import numpy as np

from clvlab.statistics.clusters import Floats


def two_sided_quantile(degrees: Floats, level: float) -> Floats:
    """Return how many standard errors to each side hold a level, 0..1, with so many degrees of freedom."""
    from scipy.special import stdtrit

    return np.asarray(stdtrit(degrees, (1 + level) / 2), dtype=np.float64)


def upper_tail(degrees: Floats, t: Floats) -> Floats:
    """Return how often chance gives a t as high."""
    from scipy.special import stdtr

    return np.asarray(stdtr(degrees, -t), dtype=np.float64)


def normal_score(degrees: Floats, t: Floats) -> Floats:
    """Return what is as rare in the normal distribution as each t."""
    from scipy.special import ndtri

    # the small tail, which keeps its digits; below the smallest number there is, all are as rare as that
    tail = np.maximum(upper_tail(degrees, np.abs(t)), np.finfo(np.float64).tiny)
    return np.asarray(np.copysign(ndtri(tail), t), dtype=np.float64)


def log_below(scores: Floats) -> Floats:
    """Return the logarithm of how often a normal draw lies below each score."""
    from scipy.special import log_ndtr

    return np.asarray(log_ndtr(scores), dtype=np.float64)


def highest_normals(count: int, size: int) -> Floats:
    """Return so many evenly spaced quantiles of the highest of some independent normal draws, ascending."""
    from scipy.special import ndtri

    return np.asarray(ndtri(((np.arange(size) + 0.5) / size) ** (1 / count)), dtype=np.float64)
