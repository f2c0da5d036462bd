"""Pictures that stand in the cells of a table: intervals on one scale, and small lines."""

from __future__ import annotations

from collections.abc import Sequence

from clvlab.drawing.html import Html
from clvlab.drawing.ink import BLUE, dot, line, path, picture, round_steps, stretched, text
from clvlab.words import plus, with_interval

_HEIGHT = 20
_EDGE = 0.03


def scale(bounds: Sequence[float | None]) -> tuple[float, float]:
    """Return the least and greatest of bounds, zero among them: the scale that all rows of a forest share.

    Examples
    --------
    >>> scale([None, 3.0, 8.0]), scale([])
    ((0.0, 8.0), (0.0, 1.0))
    """
    known = [0.0, *(bound for bound in bounds if bound is not None)]
    least, most = min(known), max(known)
    return (least, most) if most > least else (least, least + 1.0)


def interval_cell(mean: float | None, low: float | None, high: float | None, within: tuple[float, float]) -> Html:
    """Draw one row of a forest: a mean and its interval beside zero; a hollow point has no interval.

    Parameters
    ----------
    mean
        Empty without one.
    low, high
        Null without an interval.
    within
        Scale of all rows; see ``scale``.
    """
    if mean is None:
        return Html("")
    least, most = within

    def at(value: float) -> float:
        return _EDGE + (1 - 2 * _EDGE) * (value - least) / (most - least)

    middle, parts = _HEIGHT / 2, [line(at(0), 0, at(0), _HEIGHT, more=' stroke-dasharray="3 2" opacity=".5"')]
    known = low is not None and high is not None
    if low is not None and high is not None:
        parts.append(line(at(low), middle, at(high), middle, BLUE, 2.5))
    parts.append(dot(at(mean), middle, hollow=not known, radius=3.5))
    return Html(picture(with_interval(plus(mean, 1), low, high), _HEIGHT, *parts))


def scale_axis(within: tuple[float, float]) -> Html:
    """Draw the numbers of a scale over the rows that share it; see ``scale``."""
    least, most = within
    places = [(mark, _EDGE + (1 - 2 * _EDGE) * (mark - least) / (most - least)) for mark in round_steps(least, most, 4)]
    said = [text(at, 11, f"{mark:+,g}" if mark else "0", anchor=_inward(at)) for mark, at in places]
    return Html(picture(f"scale from {plus(least)} to {plus(most)}", 15, *said))


def _inward(at: float) -> str:
    return "start" if at < 0.1 else "end" if at > 0.9 else "middle"


def sparkline(totals: Sequence[float]) -> Html:
    """Draw how a sum went, beside zero; empty without two values."""
    if len(totals) < 2:
        return Html("")
    least, most = scale(totals)

    def y(value: float) -> float:
        return _HEIGHT - 2 - (_HEIGHT - 4) * (value - least) / (most - least)

    points = [(number / (len(totals) - 1), y(total)) for number, total in enumerate(totals)]
    drawn = f'<path d="{path(points)}" fill="none" stroke="{BLUE}" stroke-width="1.4" vector-effect="non-scaling-stroke"/>'
    zero = line(0, y(0), 1, y(0), more=' opacity=".3"')
    return Html(picture(f"from {plus(totals[0])} to {plus(totals[-1])}", _HEIGHT, zero, stretched(_HEIGHT, drawn)))
