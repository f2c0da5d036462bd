"""Correction for many tries: the best of many agents looks good by chance alone.

A bettor on favourites often wins a little and rarely loses much, and a sample without the rare loss does not show it. So one
unseen fixture is added, as large as the largest. It gains nothing. It loses a share of the price if the prices taken could lose
far more than they could win, or if almost no fixture in the sample lost. Fixtures get random weights, the same for all agents,
so similar agents cost less than independent ones. The spread of the means over the weights measures chance.

Each mean has its own degrees of freedom: five fixtures reach a t of 5 more easily than two hundred. So each t is put on the
scale of the normal distribution before the highest of all is taken.

References
----------
Gaffke (2005), "Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative variable",
Mathematical Methods of Statistics 14(4): random weights with one more value, at the bound, as in ``p_worst``.
Rubin (1981), "The Bayesian Bootstrap", Annals of Statistics 9(1): the weights. Romano and Wolf (2005), "Stepwise Multiple
Testing as Formalized Data Snooping", Econometrica 73(4): the step-down maximum. Beran (1988), "Prepivoting Test Statistics",
JASA 83: one scale. Bailey and Lopez de Prado (2014), "The Deflated Sharpe Ratio", Journal of Portfolio Management 40(5): the
question; their answer estimates chance by the spread of the trials, which bad trials widen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from clvlab.statistics.clusters import MIN_CLUSTERS, RESAMPLES, BoundedClusters, Floats, cluster_errors, sum_skewness
from clvlab.statistics.means import highest_normals, log_below, normal_score

UNSEEN_LOSS = 0.35  # share of the price that the unseen fixture loses
_SKEWED = -0.05  # skewness of a mean over prices that can lose more than win: below this, the unseen fixture loses
_SELDOM = 0.1  # share of the fixtures that moved: if fewer lost, the unseen fixture loses
_HALVINGS = 50  # of the range of a threshold
_CELLS = 200_000  # number of weights drawn at once, to fit the cache


@dataclass(frozen=True, slots=True)
class Family:
    """Scores and p-values of many means, corrected for their number.

    Attributes
    ----------
    scores
        t of each column with the unseen fixture, on the normal scale: chance alone exceeds 1.64 in one case of twenty,
        one-sided. It is nan with fewer than ``MIN_CLUSTERS`` clusters, or without an error.
    p_values
        One-sided chance that any mean at or below zero scores as high, if the unseen fixture loses at most ``UNSEEN_LOSS`` of
        its price; nan as above.
    p_worst
        The same chance if the unseen fixture may lose its whole price: it assumes nothing about news, and has little power.
    expected_max
        Mean of the highest score by chance over all trials; nan if no column is judged.
    trials
        Number of trials: the columns, and the earlier ones.
    highest
        Highest score by chance in each draw, ascending; empty if no column is judged.
    losses
        Sum that the unseen fixture loses in each column, at most 0; 0 for a column that is not judged.
    """

    scores: Floats = field(repr=False)
    p_values: Floats = field(repr=False)
    p_worst: Floats = field(repr=False)
    expected_max: float
    trials: int
    highest: Floats = field(repr=False)
    losses: Floats = field(repr=False)

    def threshold(self, alpha: float) -> float:
        """Return the score that chance alone exceeds in a share ``alpha`` of all draws, in any trial; nan if none is judged.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> sums, ones = rng.normal(0, 10, (60, 20)), np.ones((60, 20))
        >>> found = family_of(BoundedClusters(sums, ones, sums**2, -50 * ones, 50 * ones))
        >>> round(found.threshold(0.05), 1)
        2.9
        """
        if not self.highest.size:
            return float("nan")
        earlier = self.trials - self.scores.size
        low, high = -40.0, 40.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            as_high = self.highest.size - np.searchsorted(self.highest, middle)
            among = np.log1p(-np.minimum((1 + as_high) / (1 + self.highest.size), 1 - 1e-16))
            above = -np.expm1(among + earlier * log_below(np.array(middle))) > alpha
            low, high = (middle, high) if above else (low, middle)
        return high


def family_of(clusters: BoundedClusters, *, earlier: int = 0, resamples: int = RESAMPLES, seed: int = 0) -> Family:
    """Return scores and p-values of many means at once.

    Parameters
    ----------
    clusters
        One column per agent, one row per fixture.
    earlier
        Number of earlier trials without data; each counts as independent of all others (Sidak).
    resamples, seed
        Number of draws, and their seed.

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
    losses = np.zeros(clusters.sums.shape[1])
    if not own.size:
        return Family(scores, p_values, p_worst, float("nan"), trials, np.empty(0), losses)
    found = clusters.columns(own)
    lost = np.where((_skewness_of_losers(found) < _SKEWED) | _seldom_lost(found), UNSEEN_LOSS, 0.0)
    (scores[own], _), (p_values[own], p_worst[own]), highest = _judged(
        found, errors.degrees[own], np.array([lost, np.ones(own.size)]), earlier, resamples, seed
    )
    losses[own] = lost * found.lowest.min(0)
    return Family(scores, p_values, p_worst, _expected_max(highest, earlier), trials, np.sort(highest), losses)


def _skewness_of_losers(clusters: BoundedClusters) -> Floats:
    """Return the skewness, if prices closed at 0 or 1, of the sum over the clusters that can lose more than win.

    Outcomes are ignored, because a sample without a loss would pass. Other clusters are left out, because they could hide the
    skewed ones.
    """
    balance = np.minimum(clusters.highest + clusters.lowest, 0)
    variances = -clusters.lowest * clusters.highest * (balance < 0)
    return sum_skewness(variances, variances * balance)


def _seldom_lost(clusters: BoundedClusters) -> npt.NDArray[np.bool_]:
    """Return whether almost no cluster that moved lost, per column; this can only make the test more careful."""
    return np.asarray((clusters.sums < 0).sum(0) < _SELDOM * (clusters.sums != 0).sum(0))


def _judged(
    clusters: BoundedClusters, degrees: Floats, shares: Floats, earlier: int, resamples: int, seed: int
) -> tuple[Floats, Floats, Floats]:
    """Return scores and p-values of columns, a row per share of the unseen loss, and the highest draws for the first share."""

    def means() -> Iterator[Floats]:
        return _drawn_means(clusters, shares, resamples, seed)

    near = clusters.sums.sum(0) / clusters.counts.sum(0)  # centre of the squares, so that they keep their digits
    first, second = np.sum([[(part := drawn - near).sum(1), (part**2).sum(1)] for drawn in means()], axis=0) / resamples
    centre, spread = near + first, np.sqrt(second - first**2)
    scores = normal_score(degrees, centre / spread)
    orders = np.argsort(-scores, axis=1, kind="stable")
    as_high, highest = np.zeros(scores.shape), []
    for drawn in means():
        for row, order in enumerate(orders):
            # step-down: each score is compared with the highest draw of its own and all lower columns; p-values never fall
            chance = ((centre[row] - drawn[row]) / spread[row])[:, order]
            over = np.maximum.accumulate(chance[:, ::-1], axis=1)[:, ::-1]
            as_high[row, order] += (over >= scores[row, order]).sum(0)
            if not row:
                highest.append(over[:, 0])
    p_values = np.empty_like(scores)
    for row, order in enumerate(orders):
        among = np.maximum.accumulate((1 + as_high[row, order]) / (1 + resamples))
        # probability that neither these nor any independent trial scores as high
        p_values[row, order] = -np.expm1(np.log1p(-np.minimum(among, 1 - 1e-16)) + earlier * log_below(scores[row, order]))
    return scores, p_values, np.concatenate(highest)


def _drawn_means(clusters: BoundedClusters, shares: Floats, resamples: int, seed: int) -> Iterator[Floats]:
    """Yield means of each column under random fixture weights, in blocks of (share, draw, column)."""
    rng = np.random.default_rng(seed)
    losses, largest = shares * clusters.lowest.min(0), clusters.counts.max(0)
    step = max(1, _CELLS // max(clusters.sums.shape))
    for start in range(0, resamples, step):
        weights = rng.standard_exponential((min(step, resamples - start), 1 + len(clusters.sums)))
        unseen, seen = weights[:, :1], weights[:, 1:]
        yield (seen @ clusters.sums + unseen * losses[:, None]) / (seen @ clusters.counts + unseen * largest)


def _expected_max(highest: Floats, earlier: int) -> float:
    if not earlier:
        return float(highest.mean())
    own, strangers = np.sort(highest), highest_normals(earlier, highest.size)
    both = np.sort(np.concatenate([own, strangers]))
    below = np.searchsorted(own, both, side="right") * np.searchsorted(strangers, both, side="right") / highest.size**2
    return float(both @ np.diff(below, prepend=0.0))
