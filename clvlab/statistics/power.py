"""How many fixtures would show an edge: the power of an interval over fixtures.

An edge shows if its interval is above zero. The reader names the edge ``d``; a mean over ``n`` fixtures has an error ``s`` of
``v`` degrees of freedom. Wanted are the fewest fixtures ``m`` with ``d >= (t.975(v') + t.80(v')) s sqrt(n / m)``, for 95 %
and a power of 80 %. Degrees of freedom grow with the fixtures, ``v' = (v + 1) m / n - 1``, and quantiles fall with them, so
there is one such ``m``, and bisection finds it. An observed mean can't replace the edge, because power at that mean is
its p-value in other words.

References
----------
Guenther (1981), "Sample Size Formulas for Normal Theory T Tests", The American Statistician 35(4): quantiles of Student's
distribution in the place of normal ones. Satterthwaite (1946), Biometrics Bulletin 2(6): the variance of a sample as chi-square
on its effective degrees of freedom, which gives the range. Hoenig and Heisey (2001), "The Abuse of Power", The American
Statistician 55(1): on power at the observed mean.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite
from numbers import Real

import numpy as np
import numpy.typing as npt
import polars as pl

from clvlab.errors import StatisticsError
from clvlab.statistics.clusters import MIN_CLUSTERS, Clusters, Floats, cluster_errors, sum_by_cluster

POWER = 0.8  # power that counts as enough
_RANGE = 0.95  # level of the range of fixtures
_LEAST_DEGREES = 1.0
_MOST_FIXTURES = 1e9  # an edge that needs more is refused
_ROUND = (1, 2, 5)
_BELOW = 3  # edges of a ruler that do not show yet


@dataclass(frozen=True, slots=True)
class Power:
    """The power of the present fixtures to show an edge, and the number of further fixtures for a power of ``POWER``.

    Attributes
    ----------
    edge
        The edge, in the unit of the mean.
    power
        Probability, 0..1, that the interval over as many fixtures is above zero if the true mean is the edge.
    n_clusters, needed, more
        Number of present fixtures, of fixtures that show the edge, and the difference; ``more`` is 0 if there are enough.
    more_low, more_high
        The same as ``more`` at the bounds of a 95 % interval of the error, chi-square on its degrees of freedom; too short with
        fat tails, and far too short if fixtures are skewed.
    """

    edge: float
    power: float
    n_clusters: int
    needed: int
    more: int
    more_low: int
    more_high: int


@dataclass(frozen=True, slots=True)
class MeanErrors:
    """Errors of means that share a threshold, one entry a mean: float64.

    Attributes
    ----------
    errors, degrees
        Standard errors, and their degrees of freedom.
    range_degrees
        Degrees of freedom that the range uses: those, or as many as the spread of the squared residuals says if that is fewer,
        because fat tails and unequal fixtures make an error less certain.
    n_clusters
        Number of fixtures of each.
    threshold
        Normal quantile that the score of a mean must exceed: of two-sided 95 % 1.96, or that of a family.
    unseen_share, unseen_loss
        For a family: size of the unseen fixture as a share of all decisions, and its loss as a share of their sum, at least 0,
        in the unit of the mean; 0 for a mean that is alone.
    """

    errors: Floats
    degrees: Floats
    range_degrees: Floats
    n_clusters: Floats
    threshold: float
    unseen_share: Floats = field(default_factory=lambda: np.zeros(1))
    unseen_loss: Floats = field(default_factory=lambda: np.zeros(1))


def check_edge(edge: object) -> float:
    """Return an edge; raise ``StatisticsError`` unless it is a number above 0."""
    if isinstance(edge, bool) or not isinstance(edge, Real):
        raise StatisticsError(f"an edge is a number above 0 in the unit of the mean, as 34 for 34 bps, not {edge!r:.80}")
    value = float(edge)
    if not isfinite(value) or value <= 0:
        raise StatisticsError(
            f"an edge is above 0, not {edge!r:.80}: name the smallest one that matters to you, as 34 for 34 bps; a loss of "
            "as much needs as many fixtures"
        )
    return value


def power(values: pl.Series, clusters: pl.Series, edge: float, *, level: float = 0.95) -> Power:
    """Return how many more fixtures would show an edge, at the error of the mean of some values.

    Parameters
    ----------
    values
        Numbers, of which only the spread is used; rows with a null are left out.
    clusters
        Cluster of each value, usually ``fixture_id``.
    edge
        The edge of interest, above 0, in the unit of the values.
    level
        Level of the two-sided interval that must lie above zero.

    Raises
    ------
    StatisticsError
        The edge is not above 0, or too small for any number of fixtures; or there are fewer than ``MIN_CLUSTERS`` clusters, or
        all of them have the same mean.

    Examples
    --------
    >>> found = power(pl.Series(range(-30, 31)), pl.Series(range(61)), edge=3.0)
    >>> found.needed, found.more, round(found.power, 2)
    (277, 216, 0.25)
    """
    return powers(alone(sum_by_cluster(values, clusters)[0], level), [check_edge(edge)])[0]


def alone(clusters: Clusters, level: float = 0.95) -> MeanErrors:
    """Return the error of the mean of one column, which is judged by its own interval; see ``power``."""
    from scipy.special import ndtri

    known = mean_errors(clusters, float(-ndtri((1 - level) / 2)))
    n = int(known.n_clusters[0])
    if n < MIN_CLUSTERS:
        raise StatisticsError(f"power takes the error of {MIN_CLUSTERS} fixtures or more, and {n} have a decision that counts")
    if not known.errors[0] > 0:
        raise StatisticsError(f"all {n} fixtures have the same mean, so there is no error that an edge must exceed")
    return known


def mean_errors(clusters: Clusters, threshold: float) -> MeanErrors:
    """Return the errors of all columns; see ``MeanErrors``."""
    found, n = cluster_errors(clusters), np.asarray((clusters.counts > 0).sum(0), dtype=np.float64)
    squares = found.residuals**2
    with np.errstate(divide="ignore", invalid="ignore"):
        # Satterthwaite: twice the squared mean of a chi-square variable over its variance, which the squares estimate
        spread = ((squares - squares.sum(0) / n) ** 2 * (clusters.counts > 0)).sum(0) * n / (n - 1)
        observed = 2 * squares.sum(0) ** 2 / spread
    return MeanErrors(found.errors, found.degrees, np.fmin(found.degrees, observed), n, threshold)


def powers(known: MeanErrors, edges: Sequence[float]) -> list[Power]:
    """Return the power of each mean at the edge of the same place; one mean or one edge stands for all."""
    from scipy.special import chdtri

    edge = np.array(edges, dtype=np.float64)
    tails = np.array([[(1 - _RANGE) / 2], [(1 + _RANGE) / 2]])  # upper tails: the smallest error first
    scales = np.sqrt(known.range_degrees / chdtri(known.range_degrees, tails))
    fixtures = [_fewest(known, edge, scale) for scale in (np.ones(1), *scales)]
    if (fixtures[0] >= _MOST_FIXTURES).any():
        raise StatisticsError(
            f"an edge of {edge.min():g} would take more than {_MOST_FIXTURES:,.0f} fixtures at an error of "
            f"{known.errors.max():g}: name a larger one"
        )
    now, n = np.broadcast_arrays(_power_of(known, edge), known.n_clusters)
    return [
        Power(float(value), float(chance), int(there), int(need), *(max(0, int(one - there)) for one in (need, low, high)))
        for value, chance, there, need, low, high in zip(np.broadcast_to(edge, now.shape), now, n, *fixtures, strict=True)
    ]


def smallest_edge(known: MeanErrors) -> float:
    """Return the smallest edge that the fixtures of one mean show with a power of ``POWER``."""
    from scipy.special import stdtrit

    threshold, _ = _thresholds(known, known.degrees)
    return float(((threshold + stdtrit(known.degrees, POWER)) * known.errors)[0])


def ruler(known: MeanErrors) -> list[Power]:
    """Return the power of one mean at round edges: three that its fixtures do not show yet, and the first one that they show.

    The edges depend on the error alone.
    """
    smallest = smallest_edge(known)
    tens = int(np.floor(np.log10(smallest)))
    edges = [float(f"{digit}e{ten}") for ten in range(tens - 1, tens + 2) for digit in _ROUND]
    first = bisect_left(edges, smallest)
    return powers(known, edges[first - _BELOW : first + 1])


def _thresholds(known: MeanErrors, degrees: Floats) -> tuple[Floats, Floats]:
    """Return the quantiles of Student's distribution for the threshold and for ``POWER``."""
    from scipy.special import ndtr, stdtrit

    return np.asarray(-stdtrit(degrees, ndtr(-known.threshold))), np.asarray(stdtrit(degrees, POWER))


def _fewest(known: MeanErrors, edge: Floats, scale: Floats) -> npt.NDArray[np.float64]:
    """Return the fewest fixtures at which each edge shows, if the errors are larger by a factor."""
    shape = np.broadcast_shapes(known.errors.shape, edge.shape)
    low, high = np.full(shape, MIN_CLUSTERS - 1.0), np.full(shape, float(MIN_CLUSTERS))
    # a bound of a range stops where the number is beyond any use
    while (unsure := ~_shows(known, edge, scale, high) & (high < _MOST_FIXTURES)).any():
        low, high = np.where(unsure, high, low), np.where(unsure, 2 * high, high)
    while (wide := high - low > 1).any():
        middle = np.where(wide, np.floor((low + high) / 2), high)
        enough = _shows(known, edge, scale, middle)
        low, high = np.where(wide & ~enough, middle, low), np.where(enough, middle, high)
    return high


def _shows(known: MeanErrors, edge: Floats, scale: Floats, fixtures: Floats) -> npt.NDArray[np.bool_]:
    """Return whether so many fixtures show an edge with a power of ``POWER``."""
    times = fixtures / known.n_clusters
    degrees = np.maximum((known.degrees + 1) * times - 1, _LEAST_DEGREES)
    threshold, chance = _thresholds(known, degrees)
    error = scale * known.errors / np.sqrt(times)
    loss, kept = _unseen(known, edge, times)
    return np.asarray(edge - loss >= threshold * np.hypot(kept * error, loss) + chance * kept * error)


def _unseen(known: MeanErrors, edge: Floats, times: Floats) -> tuple[Floats, Floats]:
    """Return by how much the unseen fixture of a family lowers a mean, and the share of the error that it leaves."""
    return (edge * known.unseen_share + known.unseen_loss) / (times + known.unseen_share), times / (times + known.unseen_share)


def _power_of(known: MeanErrors, edge: Floats) -> Floats:
    """Return the power at the fixtures that there are, by the noncentral distribution of t."""
    from scipy.special import nctdtr, ndtr

    threshold, _ = _thresholds(known, known.degrees)
    loss, kept = _unseen(known, edge, np.ones(1))
    error = kept * known.errors
    away, wanted = (edge - loss) / error, threshold * np.hypot(error, loss) / error
    with np.errstate(all="ignore"):
        found = np.asarray(1 - nctdtr(known.degrees, away, wanted))
    return np.clip(np.where(np.isfinite(found), found, ndtr(away - wanted)), 0, 1)
