"""The picture of one mean: its interval on a line, and zero."""

from __future__ import annotations

from clvlab.drawing.ink import BLUE, dot, line, picture, text
from clvlab.words import amount, plus, with_interval

_EDGE = 0.2  # room for numbers on both sides, also on a telephone
_MIDDLE, _HEIGHT = 27, 50


def interval_bar(mean: float | None, low: float | None, high: float | None, *, unit: str = "bps", digits: int = 1) -> str:
    """Draw a mean and its interval beside zero, as an SVG element that is as wide as its place; empty without a mean.

    Parameters
    ----------
    mean
        Null without values.
    low, high
        Bounds of its interval; a hollow point is a mean without one.
    unit
        Unit of all three.
    digits
        Number of decimals.

    Examples
    --------
    >>> drawn = interval_bar(34.2, -6.1, 76.8)
    >>> drawn[:4], "mean +34.2 bps, interval -6.1 to +76.8" in drawn, interval_bar(None, None, None)
    ('<svg', True, '')
    """
    if mean is None:
        return ""
    known = low is not None and high is not None
    bounds = [0.0, mean, *(bound for bound in (low, high) if bound is not None)]
    least, most = min(bounds), max(bounds)
    reach = (most - least) or 1.0

    def at(value: float) -> float:
        return _EDGE + (1 - 2 * _EDGE) * (value - least) / reach

    said, away, toward = amount(mean, unit, digits), *(("start", "end") if mean >= 0 else ("end", "start"))
    parts = [
        line(0, _MIDDLE, 1, _MIDDLE, width=1, more=' opacity=".2"'),
        line(at(0), _MIDDLE - 14, at(0), _MIDDLE + 10, more=' stroke-dasharray="3 2" opacity=".7"'),
        text(at(0), 11, "0 ", anchor=toward, quiet=True),
    ]
    if low is not None and high is not None:
        parts += [
            line(at(low), _MIDDLE, at(high), _MIDDLE, BLUE, 6, ' stroke-opacity=".55"'),
            *(line(at(end), _MIDDLE - 6, at(end), _MIDDLE + 6, BLUE, 2) for end in (low, high)),
            text(at(low), _HEIGHT - 3, plus(low, digits), anchor="end"),
            text(at(high), _HEIGHT - 3, plus(high, digits), anchor="start"),
        ]
    parts += [dot(at(mean), _MIDDLE, hollow=not known), text(at(mean), 11, said, anchor=away, bold=True)]
    return picture(f"mean {with_interval(said, low, high, digits)}", _HEIGHT, *parts)
