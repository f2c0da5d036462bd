"""Student's distribution, of scipy, which is loaded when something is first estimated: it takes longer than most commands."""

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

    tail = upper_tail(degrees, np.abs(t))  # the small tail, which keeps its digits
    return np.asarray(np.copysign(ndtri(tail), t), dtype=np.float64)
