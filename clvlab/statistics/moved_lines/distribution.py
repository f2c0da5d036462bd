"""Distributions of margin and total, fitted to the lines that are quoted, and what they say of any line.

A line is priced among the stakes that are not returned, as a bookmaker's two prices are once the margin is removed: of an
integer line that is no push, and a quarter line is half a stake on each of its neighbours.

References
----------
Skellam (1946), Journal of the Royal Statistical Society 109: the difference of two Poisson variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from clvlab.law.markets import Kind
from clvlab.statistics.clusters import Floats
from clvlab.statistics.moved_lines.markets import Quote

_MOST_GOALS = 40
_GOALS = np.arange(_MOST_GOALS + 1)
_LOG_FACTORIALS = np.append(0.0, np.log(np.arange(1, _MOST_GOALS + 1)).cumsum())
_FEWEST_GOALS, _MANY_GOALS = 0.02, 12.0
# Two unknowns need lines of two kinds: without them this little weight decides, and elsewhere it does nothing.
_USUAL_GOALS, _PRIOR_WEIGHT = 2.7, 0.003
_STEPS, _STEP, _SETTLED = 40, 1e-6, 1e-9
_LEAST_TOTAL = 0.5
# Variance over mean of the total of a game that isn't scored by goals, and of its margin: measured on baseball (docs).
_TOTAL_DISPERSION, _MARGIN_DISPERSION = 2.5, 2.0


class Distribution(Protocol):
    """Probabilities of whole numbers."""

    def at_most(self, number: int) -> float:
        """Return the probability of a number and all below it."""
        ...


@dataclass(frozen=True)
class Listed:
    """Probabilities by whole number, from ``first`` on."""

    first: int
    cumulated: Floats

    def at_most(self, number: int) -> float:
        place = number - self.first
        return 0.0 if place < 0 else float(self.cumulated[min(place, len(self.cumulated) - 1)])


@dataclass(frozen=True)
class Rounded:
    """A normal distribution, rounded to whole numbers."""

    mean: float
    spread: float

    def at_most(self, number: int) -> float:
        from scipy.special import ndtr

        return float(ndtr((number + 0.5 - self.mean) / self.spread))


def above(found: Distribution, quarters: int) -> float:
    """Return the probability of more than a threshold among the stakes that are not returned.

    Parameters
    ----------
    found
        Of the number that is bet on.
    quarters
        The threshold times four.

    Examples
    --------
    >>> fair = Listed(0, np.array([0.2, 0.5, 0.7, 1.0]))  # of 0, 1, 2 and 3 goals: .2, .3, .2 and .3
    >>> [round(above(fair, line), 4) for line in (6, 7, 8, 9, 10)]
    [0.5, 0.4444, 0.375, 0.3333, 0.3]
    """
    won = lost = 0.0
    for half in (quarters - 1, quarters + 1) if quarters % 2 else (quarters, quarters):
        won += 1 - found.at_most(half // 4)
        lost += found.at_most(-(-half // 4) - 1)
    return won / (won + lost) if won + lost > 0 else 0.5


@dataclass(frozen=True)
class Model:
    """Margin and total of one period of one fixture.

    Attributes
    ----------
    name
        ``goals``, two independent Poisson variables; or ``points``, two rounded normal ones.
    margin, total
        Null where the lines don't tell.
    """

    name: str
    margin: Distribution | None
    total: Distribution | None

    @classmethod
    def of_goals(cls, quotes: Sequence[Quote]) -> Model:
        """Fit the goals of both sides by least squares over the probabilities of all lines."""
        means = _fitted_goals(quotes)
        return cls("goals", *_goals(means))

    @classmethod
    def of_points(cls, quotes: Sequence[Quote]) -> Model:
        """Fit a mean to the lines of each kind; the spread comes from the total, or from lines at least 1 apart."""
        totals, margins = (_thresholds(quotes, kind) for kind in (Kind.TOTAL, Kind.HANDICAP))
        middle = max(float(totals[:, 0].mean()), _LEAST_TOTAL) if len(totals) else None
        if middle is None:
            return cls("points", _rounded(margins, _spread_of(margins)), None)
        return cls(
            "points",
            _rounded(margins, float(np.sqrt(_MARGIN_DISPERSION * middle))),
            _rounded(totals, float(np.sqrt(_TOTAL_DISPERSION * middle))),
        )

    def prob(self, kind: Kind, quarters: int) -> float | None:
        """Return the probability of home or over at a line; null where the lines don't tell."""
        found = self.margin if kind is Kind.HANDICAP else self.total
        return None if found is None else above(found, -quarters if kind is Kind.HANDICAP else quarters)


def _poisson(mean: float) -> Floats:
    listed = np.exp(_GOALS * np.log(mean) - mean - _LOG_FACTORIALS)
    return np.asarray(listed / listed.sum(), dtype=np.float64)


def _goals(means: Floats) -> tuple[Listed, Listed]:
    first, second = (_poisson(float(mean)) for mean in means)
    margin, total = np.convolve(first, second[::-1]), np.convolve(first, second)
    return Listed(-_MOST_GOALS, margin.cumsum()), Listed(0, total.cumsum())


def _fitted_goals(quotes: Sequence[Quote]) -> Floats:
    """Return the mean goals of both sides: damped Gauss-Newton over their logarithms, from one start and in bounded steps."""

    def errors(logs: Floats) -> Floats:
        model = Model("goals", *_goals(np.exp(logs)))
        apart = [(model.prob(quote.kind, quote.quarters) or 0.0) - quote.prob for quote in quotes]
        prior = [logs[0] + logs[1] - 2 * np.log(_USUAL_GOALS / 2), logs[0] - logs[1]]
        return np.array([*apart, *(_PRIOR_WEIGHT * one for one in prior)])

    logs, damping = np.full(2, np.log(_USUAL_GOALS / 2)), 1e-5
    found = errors(logs)
    for _ in range(_STEPS):
        slopes = np.column_stack([(errors(logs + _STEP * axis) - found) / _STEP for axis in np.eye(2)])
        step = np.linalg.solve(slopes.T @ slopes + damping * np.eye(2), -slopes.T @ found)
        moved = np.clip(logs + np.clip(step, -1, 1), np.log(_FEWEST_GOALS), np.log(_MANY_GOALS))
        after = errors(moved)
        if np.abs(moved - logs).max() < _SETTLED:
            break
        if after @ after < found @ found:
            logs, found, damping = moved, after, damping / 10
        else:
            damping *= 10
    return np.asarray(np.exp(logs), dtype=np.float64)


def _thresholds(quotes: Sequence[Quote], kind: Kind) -> Floats:
    """Return (threshold, standard score) of the lines of a kind, a row each."""
    from scipy.special import ndtri

    sign = -0.25 if kind is Kind.HANDICAP else 0.25
    rows = [(sign * quote.quarters, float(ndtri(quote.prob))) for quote in quotes if quote.kind is kind and 0 < quote.prob < 1]
    return np.array(sorted(rows), dtype=np.float64).reshape(-1, 2)


def _spread_of(rows: Floats) -> float | None:
    """Return how far the scores of lines at least 1 apart say that a number spreads."""
    if len(rows) < 2 or np.ptp(rows[:, 0]) < 1:
        return None
    slope = -float(np.polyfit(rows[:, 0], rows[:, 1], 1)[0])
    return 1 / slope if slope > 0 else None


def _rounded(rows: Floats, spread: float | None) -> Rounded | None:
    return Rounded(float((rows[:, 0] + spread * rows[:, 1]).mean()), spread) if spread is not None and len(rows) else None
