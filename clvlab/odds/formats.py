"""Odds formats: decimal, American, fractional, or an implied probability."""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from clvlab.errors import OddsError

Floats = npt.NDArray[np.float64]


class OddsFormat(StrEnum):
    """How odds are written."""

    DECIMAL = "decimal"
    AMERICAN = "american"
    FRACTIONAL = "fractional"
    PROBABILITY = "probability"


def decimal_odds(values: npt.ArrayLike, written: OddsFormat | str) -> Floats:
    """Return decimal odds of odds in any format; NaN where a value is not valid in that format.

    American odds are at least +100 or at most -100; fractional odds are texts like ``5/2``, or ``evens``; a probability is
    between 0 and 1; decimal odds are above 1.

    Examples
    --------
    >>> decimal_odds([150, -200, 50], "american").tolist()
    [2.5, 1.5, nan]
    >>> decimal_odds(["5/2", "evens", "4-1"], "fractional").tolist()
    [3.5, 2.0, 5.0]
    """
    form = _format(written)
    if form is OddsFormat.FRACTIONAL:
        return np.array([_of_fraction(str(text)) for text in np.asarray(values, dtype=object).ravel()], dtype=np.float64)
    number = np.asarray(values, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        if form is OddsFormat.AMERICAN:
            sound = np.abs(number) >= 100.0
            odds = np.where(number > 0.0, 1.0 + number / 100.0, 1.0 - 100.0 / number)
        elif form is OddsFormat.PROBABILITY:
            sound, odds = (number > 0.0) & (number < 1.0), 1.0 / number
        else:
            sound, odds = number > 1.0, number
    found: Floats = np.where(sound & np.isfinite(number) & (odds > 1.0), odds, np.nan)
    return found


def american_odds(odds: npt.ArrayLike) -> Floats:
    """Return American odds of decimal odds: at least +100 from evens on, at most -100 for favourites.

    Examples
    --------
    >>> american_odds([2.5, 1.5]).tolist()
    [150.0, -200.0]
    """
    decimal = np.asarray(odds, dtype=np.float64)
    profit = decimal - 1.0
    found: Floats = np.where(decimal >= 2.0, profit * 100.0, -100.0 / profit)
    return found


def fractional_odds(odds: float, largest_denominator: int = 100) -> str:
    """Return the nearest fraction of decimal odds.

    Examples
    --------
    >>> fractional_odds(3.5), fractional_odds(2.0)
    ('5/2', '1/1')
    """
    if not odds > 1.0 or odds == float("inf"):
        raise OddsError(f"decimal odds must be above 1 and finite, not {odds}")
    fraction = Fraction(odds - 1.0).limit_denominator(largest_denominator)
    return f"{fraction.numerator}/{fraction.denominator}"


def _format(written: OddsFormat | str) -> OddsFormat:
    try:
        return OddsFormat(written)
    except ValueError as error:
        raise OddsError(f"unknown odds format {written!r}: use one of {', '.join(OddsFormat)}") from error


def _of_fraction(text: str) -> float:
    plain = text.strip().lower()
    if plain in ("evens", "evs", "even"):
        return 2.0
    numerator, _, denominator = plain.replace("-", "/", 1).partition("/")
    if not (numerator.isdecimal() and denominator.isdecimal() and int(numerator) and int(denominator)):
        return float("nan")
    return 1.0 + int(numerator) / int(denominator)
