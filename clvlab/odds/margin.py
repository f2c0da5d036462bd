"""Margin removal: from the odds of a book to probabilities that sum to one.

Every method takes a matrix with a row per market and a column per outcome, so that millions of rows cost a few array passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from clvlab.errors import OddsError

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_ROWS_AT_ONCE = 16_384  # a few columns of this many rows stay in the processor's cache
_MAX_STEPS = 100
_STEP = 1e-13
_LEAST = float(np.finfo(np.float64).tiny)


class Margin(StrEnum):
    """Methods that remove the margin of a book."""

    MULTIPLICATIVE = "multiplicative"
    ADDITIVE = "additive"
    POWER = "power"
    SHIN = "shin"
    ODDS_RATIO = "odds-ratio"
    GOTO = "goto"


@dataclass(frozen=True, slots=True)
class FairPrices:
    """Probabilities without margin: every row sums to one, and NaN marks an outcome that the market does not have.

    ``fell_back`` marks rows that use ``power``, because the method is not defined there or leaves (0, 1).
    """

    prob: Floats
    fell_back: Flags


def overround(decimal_odds: npt.ArrayLike) -> Floats:
    """Return the sum of inverse odds minus one, for each row (a market); NaN marks an outcome that the market does not have.

    Examples
    --------
    >>> overround([[1.90, 1.90]]).round(4).tolist()
    [0.0526]
    """
    inverse: Floats = 1.0 / _checked(decimal_odds)
    total: Floats = np.nansum(inverse, axis=1)
    return total - 1.0


def fair_probabilities(decimal_odds: npt.ArrayLike, method: Margin | str = Margin.POWER) -> FairPrices:
    """Return probabilities from decimal odds (rows of markets, columns of outcomes; NaN where a market has no such outcome).

    Additive and goto can leave (0, 1), and Shin's model does not cover a book below 100 %. Such rows use ``power``, which is
    always defined. ``OddsError`` for odds of 1 or less, or a row with fewer than two outcomes.

    References
    ----------
    Shin, "Measuring the Incidence of Insider Trading in a Market for State-Contingent Claims", Economic Journal 103 (1993),
    in the form of Jullien and Salanie (1994); Cheung, "Fixed-odds betting and traditional odds" (2015), for the odds ratio;
    Vovk and Zhdanov, "Prediction with expert advice for the Brier game" (2009), for power; Goto, "goto_conversion" (2023).

    Examples
    --------
    >>> fair_probabilities([[1.5, 4.0, 7.0]]).prob.round(4).tolist()
    [[0.6482, 0.2271, 0.1248]]
    """
    odds = _checked(decimal_odds)
    try:
        remove = _METHODS[Margin(method)]
    except ValueError as error:
        raise OddsError(f"unknown margin method {method!r}: use one of {', '.join(Margin)}") from error
    prob = np.empty_like(odds)
    fell_back = np.zeros(len(odds), dtype=np.bool_)
    for start in range(0, len(odds), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        here = ~np.isnan(odds[part])
        inverse = np.where(here, 1.0 / odds[part], 0.0)
        found = remove(inverse, here)
        outside = (~np.isfinite(found) | (found <= 0.0) | (found >= 1.0)) & here
        lost = outside.any(axis=1)
        if lost.any():
            found[lost] = _power(inverse[lost], here[lost])
        prob[part] = np.where(here, found, np.nan)
        fell_back[part] = lost
    return FairPrices(prob, fell_back)


def _checked(decimal_odds: npt.ArrayLike) -> Floats:
    odds: Floats = np.asarray(decimal_odds, dtype=np.float64)
    if odds.ndim != 2:
        raise OddsError(f"odds must be a matrix of markets by outcomes, not of {odds.ndim} dimension(s)")
    wrong = ~(odds > 1.0) & ~np.isnan(odds) | np.isinf(odds)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise OddsError(f"decimal odds must be above 1 and finite: row {row}, column {column} has {odds[row, column]}")
    few = (~np.isnan(odds)).sum(axis=1) < 2
    if few.any():
        raise OddsError(f"a market needs odds of at least two outcomes: row {int(few.argmax())} has {odds[few][0].tolist()}")
    return odds


def _multiplicative(inverse: Floats, _here: Flags) -> Floats:
    found: Floats = inverse / inverse.sum(axis=1, keepdims=True)
    return found


def _additive(inverse: Floats, here: Flags) -> Floats:
    excess = inverse.sum(axis=1, keepdims=True) - 1.0
    found: Floats = inverse - excess / here.sum(axis=1, keepdims=True)
    return found


def _goto(inverse: Floats, here: Flags) -> Floats:
    """Subtract from every outcome the same number of its standard errors, sqrt((p - p^2) / p)."""
    error = np.where(here, np.sqrt(1.0 - inverse), 0.0)
    step = (inverse.sum(axis=1, keepdims=True) - 1.0) / error.sum(axis=1, keepdims=True)
    found: Floats = inverse - error * step
    return found


def _power(inverse: Floats, here: Flags) -> Floats:
    """Solve p = q^k: ln(sum of q^k) is convex and falls in k, so Newton reaches its root from the left."""
    log_inverse = np.log(np.where(here, inverse, 1.0))
    k = np.ones((len(inverse), 1))
    for _ in range(_MAX_STEPS):
        term = np.where(here, np.exp(k * log_inverse), 0.0)
        total = term.sum(axis=1, keepdims=True)
        step = np.log(total) * total / (term * log_inverse).sum(axis=1, keepdims=True)
        k -= step
        if np.abs(step).max(initial=0.0) <= _STEP * max(1.0, float(np.abs(k).max(initial=1.0))):
            break
    found: Floats = np.maximum(np.exp(k * log_inverse), _LEAST)  # with two near-certain outcomes a third may be 0 in floats
    return found


def _shin(inverse: Floats, here: Flags) -> Floats:
    """Solve sum(p) = 1 for the share z of insiders; the sum is convex in z, and Newton's steps from 0 never pass its root."""
    total = inverse.sum(axis=1, keepdims=True)
    share = 4.0 * inverse**2 / total
    others = here.sum(axis=1, keepdims=True) - 2.0
    z = np.zeros((len(inverse), 1))
    for _ in range(_MAX_STEPS):
        root = np.where(here, np.sqrt(z * z + (1.0 - z) * share), 1.0)
        value = np.where(here, root, 0.0).sum(axis=1, keepdims=True) - 2.0 - others * z
        slope = np.where(here, (2.0 * z - share) / (2.0 * root), 0.0).sum(axis=1, keepdims=True) - others
        step = value / slope
        z = z - step
        if np.abs(step).max(initial=0.0) <= _STEP:
            break
    root = np.sqrt(z * z + (1.0 - z) * share)
    found: Floats = share / 2.0 / (root + z)  # (root - z) / (2 (1 - z)) without its cancellation
    found[(total < 1.0 - 1e-12)[:, 0]] = np.nan
    return found


def _odds_ratio(inverse: Floats, here: Flags) -> Floats:
    """Divide all odds p / (1 - p) by one ratio: Newton's method for its logarithm, within an interval that is halved."""
    logit = np.log(np.where(here, inverse, 0.5) / np.where(here, 1.0 - inverse, 0.5))
    even = np.log(here.sum(axis=1, keepdims=True) - 1.0)  # at logit - t = -ln(n - 1) each of n outcomes has 1 / n
    low = np.where(here, logit, np.inf).min(axis=1, keepdims=True) + even
    high = np.where(here, logit, -np.inf).max(axis=1, keepdims=True) + even
    t = np.clip(0.0, low, high)
    for _ in range(_MAX_STEPS):
        term = np.where(here, 1.0 / (1.0 + np.exp(t - logit)), 0.0)
        value = term.sum(axis=1, keepdims=True) - 1.0
        low, high = np.where(value > 0.0, t, low), np.where(value > 0.0, high, t)
        after = t + value / (term * (1.0 - term)).sum(axis=1, keepdims=True)
        after = np.where((after >= low) & (after <= high), after, (low + high) / 2.0)
        moved, t = np.abs(after - t), after
        if moved.max(initial=0.0) <= _STEP * 10.0:
            break
    found: Floats = 1.0 / (1.0 + np.exp(t - logit))
    return found


_METHODS: dict[Margin, Callable[[Any, Any], Floats]] = {
    Margin.MULTIPLICATIVE: _multiplicative,
    Margin.ADDITIVE: _additive,
    Margin.POWER: _power,
    Margin.SHIN: _shin,
    Margin.ODDS_RATIO: _odds_ratio,
    Margin.GOTO: _goto,
}
