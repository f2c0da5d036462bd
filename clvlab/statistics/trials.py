"""Many tries: the best of many agents looks good by chance alone, and these figures take that into account.

References
----------
Romano and Wolf (2005), "Stepwise Multiple Testing as Formalized Data Snooping", Econometrica 73(4): the step-down maximum of t.
Bailey and Lopez de Prado (2014), "The Deflated Sharpe Ratio", Journal of Portfolio Management 40(5): the highest of N
statistics that chance gives, and the correction for skewness and kurtosis. Theirs is a Sharpe ratio over days;
here it is the cluster-robust t of the mean CLV over fixtures, which is a Sharpe ratio of fixtures times the root of their
number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import e, sqrt
from statistics import NormalDist, variance

import numpy as np
import numpy.typing as npt

from clvlab.statistics.clusters import MIN_CLUSTERS, RESAMPLES, Clusters, cluster_errors, resample

_EULER = 0.5772156649015329
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Deflated:
    """A t that was the best of many.

    Attributes
    ----------
    t
        As measured.
    trials
        How many were tried.
    expected_max
        The highest t that chance gives over so many trials.
    deflated
        Standard errors by which ``t`` is above it, corrected for skewness and kurtosis.
    probability
        The deflated statistic's place in the normal distribution, which the paper calls the deflated Sharpe ratio: one less
        a one-sided p-value. It is no chance that the agent is good.
    """

    t: float
    trials: int
    expected_max: float
    deflated: float
    probability: float


def expected_max_t(trials: int, spread: float = 1.0) -> float:
    """Return the highest t to be expected by chance over some trials.

    Parameters
    ----------
    trials
        How many t; at least 1, and 1 gives 0.
    spread
        Standard deviation of the trials' t. Trials that resemble each other spread little.

    Examples
    --------
    >>> [round(expected_max_t(trials), 2) for trials in (1, 10, 100, 1000)]
    [0.0, 1.57, 2.53, 3.26]
    """
    if trials < 2:
        return 0.0
    return spread * ((1 - _EULER) * _NORMAL.inv_cdf(1 - 1 / trials) + _EULER * _NORMAL.inv_cdf(1 - 1 / (trials * e)))


def deflated_t(
    t: float, n_clusters: int, trial_ts: Sequence[float], *, earlier: int = 0, skewness: float = 0.0, kurtosis: float = 3.0
) -> Deflated:
    """Deflate the t of the best of some trials.

    Parameters
    ----------
    t
        The best cluster-robust t.
    n_clusters
        Fixtures it rests on.
    trial_ts
        The t of all trials, this one included.
    earlier
        Trials made before these, whose t is no longer known.
    skewness, kurtosis
        Of what each fixture adds to the mean; 0 and 3 when normal.

    Examples
    --------
    >>> best = deflated_t(2.5, 400, [-1.2, -0.4, 0.1, 0.6, 2.5])
    >>> round(best.expected_max, 2), round(best.probability, 2)
    (1.66, 0.8)
    """
    trials = len(trial_ts) + earlier
    spread = sqrt(variance(trial_ts)) if len(trial_ts) > 1 else 1.0
    highest = expected_max_t(trials, spread)
    ratio = t / sqrt(n_clusters)
    scale = 1 - skewness * ratio + (kurtosis - 1) / 4 * ratio**2
    deflated = (t - highest) / sqrt(scale) if scale > 0 else float("nan")
    return Deflated(t, trials, highest, deflated, _NORMAL.cdf(deflated))


def influence_shape(clusters: Clusters, column: int = 0) -> tuple[float, float]:
    """Return skewness and kurtosis of what each cluster adds to the mean; 0 and 3 where it never varies."""
    means, _ = cluster_errors(clusters)
    used = clusters.counts[:, column] > 0
    added = clusters.sums[used, column] - means[column] * clusters.counts[used, column]
    second = float((added**2).mean()) if added.size else 0.0
    if second == 0:
        return 0.0, 3.0
    return float((added**3).mean() / second**1.5), float((added**4).mean() / second**2)


def family_wise_p_values(clusters: Clusters, *, resamples: int = RESAMPLES, seed: int = 0) -> npt.NDArray[np.float64]:
    """Return one-sided p-values that hold for all columns at once: the chance that any of them is wrongly called good.

    The same clusters are drawn for all columns, so that agents that resemble each other cost less than strangers.

    Parameters
    ----------
    clusters
        A column per agent, a row per fixture.
    resamples, seed
        Of the bootstrap.

    Returns
    -------
    numpy.ndarray
        One per column; nan where a column has fewer than ``MIN_CLUSTERS`` clusters or no error.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sums = rng.normal(0, 10, (60, 3)) + [0, 0, 8]
    >>> found = family_wise_p_values(Clusters(sums, np.ones_like(sums), sums**2))
    >>> [bool(p < 0.05) for p in found]
    [False, False, True]
    """
    means, errors = cluster_errors(clusters)
    judged = ((clusters.counts > 0).sum(0) >= MIN_CLUSTERS) & (errors > 0)
    p_values = np.full(means.shape, np.nan)
    if not judged.any():
        return p_values
    own = np.flatnonzero(judged)
    own = own[np.argsort(-(means / np.where(judged, errors, 1))[own], kind="stable")]
    t = means[own] / errors[own]
    drawn = np.nan_to_num(resample(clusters, resamples, seed).t[:, own], nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    # step-down: each t against the highest of its own and all lower ones; never below the p-value of a higher t
    highest = np.maximum.accumulate(drawn[:, ::-1], axis=1)[:, ::-1]
    single = (1 + (highest >= t).sum(0)) / (1 + resamples)
    p_values[own] = np.maximum.accumulate(single)
    return p_values
