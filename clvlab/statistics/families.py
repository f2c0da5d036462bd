"""Many tries: the best of many agents looks good by chance alone, and these figures take that into account.

The mean of each is a t with degrees of freedom of its own: five fixtures reach a t of 5 more easily than two hundred. So each
t is first put on one scale, that of the normal distribution; then the highest of all is drawn as chance would have it, whole
fixtures at a time and the same ones for all agents, so that agents that resemble each other cost less than strangers.

References
----------
Romano and Wolf (2005), "Stepwise Multiple Testing as Formalized Data Snooping", Econometrica 73(4): the step-down maximum.
Chernozhukov, Chetverikov and Kato (2013), "Gaussian Approximations and Multiplier Bootstrap for Maxima of Sums", Annals of
Statistics 41(6): the maximum drawn with normal multipliers. Beran (1988), "Prepivoting Test Statistics", JASA 83: one scale.
Bailey and Lopez de Prado (2014), "The Deflated Sharpe Ratio", Journal of Portfolio Management 40(5): the question; their answer
takes the trials' own spread for that of chance, which bad trials widen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from clvlab.statistics.clusters import MIN_CLUSTERS, RESAMPLES, Clusters, Floats, cluster_errors
from clvlab.statistics.student import highest_normals, log_below, normal_score

_CELLS = 4_000_000  # of what is drawn, in memory at once


@dataclass(frozen=True, slots=True)
class Family:
    """What is left of each of many means when all of them count.

    Attributes
    ----------
    scores
        Of each column: its t on the normal scale, so that 1.64 is as rare by chance, one-sided, as one in twenty; nan where
        it has fewer than ``MIN_CLUSTERS`` clusters or no error.
    p_values
        Of each column, one-sided: the chance that any mean at or below zero comes out as high; nan likewise.
    expected_max
        The highest score that chance gives over all trials, in the mean; nan where none is judged.
    trials
        How many count: columns, and those made earlier.
    """

    scores: Floats = field(repr=False)
    p_values: Floats = field(repr=False)
    expected_max: float
    trials: int


def normal_scores(clusters: Clusters) -> Floats:
    """Return the t of each column on the normal scale; nan with too few clusters or no error."""
    found = cluster_errors(clusters)
    judged = ((clusters.counts > 0).sum(0) >= MIN_CLUSTERS) & (found.errors > 0)
    t = np.divide(found.means, found.errors, out=np.full(len(judged), np.nan), where=judged)
    return normal_score(found.degrees, t)


def family_of(clusters: Clusters, *, earlier: int = 0, resamples: int = RESAMPLES, seed: int = 0) -> Family:
    """Judge many means at once.

    Parameters
    ----------
    clusters
        A column per agent, a row per fixture.
    earlier
        Trials made before, of which nothing is known but their number: each counts as a stranger to these and to the others,
        as Sidak has it.
    resamples, seed
        Of the draws.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sums = rng.normal(0, 10, (60, 3)) + [0, 0, 8]
    >>> found = family_of(Clusters(sums, np.ones_like(sums), sums**2))
    >>> [bool(p < 0.05) for p in found.p_values], round(found.expected_max, 1)
    ([False, False, True], 0.8)
    """
    scores, count = normal_scores(clusters), clusters.sums.shape[1]
    own = np.flatnonzero(~np.isnan(scores))
    p_values = np.full(count, np.nan)
    if not own.size:
        return Family(scores, p_values, float("nan"), count + earlier)
    own = own[np.argsort(-scores[own], kind="stable")]
    residuals = cluster_errors(
        Clusters(*(part[:, own] for part in (clusters.sums, clusters.counts, clusters.squares)))
    ).residuals
    as_high, highest = np.zeros(own.size), []
    for drawn in _drawn(residuals / np.sqrt((residuals**2).sum(0)), resamples, seed):
        # step-down: each score against the highest of its own and all lower ones; never below the p-value of a higher one
        over = np.maximum.accumulate(drawn[:, ::-1], axis=1)[:, ::-1]
        as_high += (over >= scores[own]).sum(0)
        highest.append(over[:, 0])
    among = np.maximum.accumulate((1 + as_high) / (1 + resamples))
    # neither these nor any stranger comes out as high
    p_values[own] = -np.expm1(np.log1p(-np.minimum(among, 1 - 1e-16)) + earlier * log_below(scores[own]))
    return Family(scores, p_values, _expected_max(np.concatenate(highest), earlier), count + earlier)


def _drawn(columns: Floats, resamples: int, seed: int) -> Iterator[Floats]:
    """Draw scores of all columns as chance gives them, in blocks of rows: normal, and as alike as the columns are."""
    rng = np.random.default_rng(seed)
    step = max(1, _CELLS // max(columns.shape))
    for start in range(0, resamples, step):
        yield rng.standard_normal((min(step, resamples - start), len(columns))) @ columns


def _expected_max(highest: Floats, earlier: int) -> float:
    """Return the mean of the highest of a draw and of so many strangers."""
    if not earlier:
        return float(highest.mean())
    own, strangers = np.sort(highest), highest_normals(earlier, highest.size)
    both = np.sort(np.concatenate([own, strangers]))
    below = np.searchsorted(own, both, side="right") * np.searchsorted(strangers, both, side="right") / highest.size**2
    return float(both @ np.diff(below, prepend=0.0))
