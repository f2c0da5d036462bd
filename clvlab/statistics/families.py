"""Many tries: the best of many agents looks good by chance alone, and these figures take that into account.

Prices fall otherwise than they rise: whoever backs favourites wins a little often and loses much seldom, and a sample in which
the seldom did not happen knows nothing of it. So one fixture more is thought of, as large as the largest, that nobody saw: it
gains nothing, and where the prices taken could lose far more than they could win, or next to none of those seen lost, it loses
a share of what was paid. Fixtures are weighted at random, the same weights for all agents, so that agents that resemble each
other cost less than strangers; how the means fall and rise by the weights is how far chance takes them.

The mean of each has degrees of freedom of its own: five fixtures reach a t of 5 more easily than two hundred. So each t is
put on one scale, that of the normal distribution, before the highest of all is looked at.

References
----------
Gaffke (2005), "Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative variable",
Mathematical Methods of Statistics 14(4): random weights with one value more, at the bound, as ``p_worst`` has it.
Rubin (1981), "The Bayesian Bootstrap", Annals of Statistics 9(1): the weights. Romano and Wolf (2005), "Stepwise Multiple
Testing as Formalized Data Snooping", Econometrica 73(4): the step-down maximum. Beran (1988), "Prepivoting Test Statistics",
JASA 83: one scale. Bailey and Lopez de Prado (2014), "The Deflated Sharpe Ratio", Journal of Portfolio Management 40(5): the
question; their answer takes the trials' own spread for that of chance, which bad trials widen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from clvlab.statistics.clusters import MIN_CLUSTERS, RESAMPLES, BoundedClusters, Floats, cluster_errors, sum_skewness
from clvlab.statistics.means import highest_normals, log_below, normal_score

UNSEEN_LOSS = 0.35  # of the price, in the fixture that nobody saw
_SKEWED = -0.05  # of a mean, by the prices taken where they could lose more than win: below, the unseen loses
_SELDOM = 0.1  # of the fixtures that moved: where fewer lost, the unseen loses
_CELLS = 200_000  # of what is drawn at once: what a cache holds


@dataclass(frozen=True, slots=True)
class Family:
    """What is left of each of many means when all of them count.

    Attributes
    ----------
    scores
        Of each column: its t with the fixture that nobody saw, on the normal scale, so that 1.64 is as rare by chance,
        one-sided, as one in twenty; nan where it has fewer than ``MIN_CLUSTERS`` clusters or no error.
    p_values
        Of each column, one-sided: the chance that any mean at or below zero comes out as high, if what the sample did not show
        loses no more than ``UNSEEN_LOSS`` of its price; nan likewise.
    p_worst
        The same if it may lose the whole price: nothing is assumed of news, and little found.
    expected_max
        The highest score that chance gives over all trials, in the mean; nan where none is judged.
    trials
        How many count: columns, and those made earlier.
    """

    scores: Floats = field(repr=False)
    p_values: Floats = field(repr=False)
    p_worst: Floats = field(repr=False)
    expected_max: float
    trials: int


def family_of(clusters: BoundedClusters, *, earlier: int = 0, resamples: int = RESAMPLES, seed: int = 0) -> Family:
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
    >>> sums, ones = rng.normal(0, 10, (60, 3)) + [0, 0, 8], np.ones((60, 3))
    >>> found = family_of(BoundedClusters(sums, ones, sums**2, -50 * ones, 50 * ones))
    >>> [bool(p < 0.05) for p in found.p_values], round(found.expected_max, 1)
    ([False, False, True], 0.8)
    """
    errors, trials = cluster_errors(clusters), clusters.sums.shape[1] + earlier
    own = np.flatnonzero(((clusters.counts > 0).sum(0) >= MIN_CLUSTERS) & (errors.errors > 0))
    scores, p_values, p_worst = np.full((3, clusters.sums.shape[1]), np.nan)
    if not own.size:
        return Family(scores, p_values, p_worst, float("nan"), trials)
    found = clusters.columns(own)
    lost = np.where((_skewness_of_losers(found) < _SKEWED) | _seldom_lost(found), UNSEEN_LOSS, 0.0)
    (scores[own], _), (p_values[own], p_worst[own]), highest = _judged(
        found, errors.degrees[own], np.array([lost, np.ones(own.size)]), earlier, resamples, seed
    )
    return Family(scores, p_values, p_worst, _expected_max(highest, earlier), trials)


def _skewness_of_losers(clusters: BoundedClusters) -> Floats:
    """Return the skewness that a sum would have over the clusters that can lose more than win, if prices closed at 0 or 1.

    Outcomes are not asked: a sample without a loss would choose itself. Nor are the other clusters, which could hide them.
    """
    balance = np.minimum(clusters.highest + clusters.lowest, 0)
    variances = -clusters.lowest * clusters.highest * (balance < 0)
    return sum_skewness(variances, variances * balance)


def _seldom_lost(clusters: BoundedClusters) -> npt.NDArray[np.bool_]:
    """Tell where next to none lost of the clusters that moved: outcomes may make it more careful, and never less."""
    return np.asarray((clusters.sums < 0).sum(0) < _SELDOM * (clusters.sums != 0).sum(0))


def _judged(
    clusters: BoundedClusters, degrees: Floats, shares: Floats, earlier: int, resamples: int, seed: int
) -> tuple[Floats, Floats, Floats]:
    """Return scores and p-values of columns, by rows of shares that the unseen loses, and the highest draws by the first."""

    def means() -> Iterator[Floats]:
        return _drawn_means(clusters, shares, resamples, seed)

    near = clusters.sums.sum(0) / clusters.counts.sum(0)  # what squares are taken about, so that they keep their digits
    first, second = np.sum([[(part := drawn - near).sum(1), (part**2).sum(1)] for drawn in means()], axis=0) / resamples
    centre, spread = near + first, np.sqrt(second - first**2)
    scores = normal_score(degrees, centre / spread)
    orders = np.argsort(-scores, axis=1, kind="stable")
    as_high, highest = np.zeros(scores.shape), []
    for drawn in means():
        for row, order in enumerate(orders):
            # step-down: each score against the highest of its own and all lower ones; never below the p-value of a higher one
            chance = ((centre[row] - drawn[row]) / spread[row])[:, order]
            over = np.maximum.accumulate(chance[:, ::-1], axis=1)[:, ::-1]
            as_high[row, order] += (over >= scores[row, order]).sum(0)
            if not row:
                highest.append(over[:, 0])
    p_values = np.empty_like(scores)
    for row, order in enumerate(orders):
        among = np.maximum.accumulate((1 + as_high[row, order]) / (1 + resamples))
        # neither these nor any stranger comes out as high
        p_values[row, order] = -np.expm1(np.log1p(-np.minimum(among, 1 - 1e-16)) + earlier * log_below(scores[row, order]))
    return scores, p_values, np.concatenate(highest)


def _drawn_means(clusters: BoundedClusters, shares: Floats, resamples: int, seed: int) -> Iterator[Floats]:
    """Draw the mean of each column with random weights for all fixtures: blocks of (row of shares, draw, column)."""
    rng = np.random.default_rng(seed)
    losses, largest = shares * clusters.lowest.min(0), clusters.counts.max(0)
    step = max(1, _CELLS // max(clusters.sums.shape))
    for start in range(0, resamples, step):
        weights = rng.standard_exponential((min(step, resamples - start), 1 + len(clusters.sums)))
        unseen, seen = weights[:, :1], weights[:, 1:]
        yield (seen @ clusters.sums + unseen * losses[:, None]) / (seen @ clusters.counts + unseen * largest)


def _expected_max(highest: Floats, earlier: int) -> float:
    """Return the mean of the highest of a draw and of so many strangers."""
    if not earlier:
        return float(highest.mean())
    own, strangers = np.sort(highest), highest_normals(earlier, highest.size)
    both = np.sort(np.concatenate([own, strangers]))
    below = np.searchsorted(own, both, side="right") * np.searchsorted(strangers, both, side="right") / highest.size**2
    return float(both @ np.diff(below, prepend=0.0))
