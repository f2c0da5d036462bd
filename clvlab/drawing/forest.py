"""Means and intervals under each other, on one scale: a row of a table each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clvlab.drawing.ink import BLUE, dot, line, picture, round_steps, text

_EDGE, _HEIGHT, _MIDDLE = 0.03, 24, 12
_WIDE = 3.0  # an interval may reach so many times beyond the means before it is cut off
Bounds = tuple[float | None, float | None, float | None]
"""A mean with the bounds of its interval; each may be missing."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What lies at the edges of every row."""

    least: float
    most: float

    def place(self, value: float) -> float:
        """Return where a value stands, as a share of the width; what lies outside stands at the edge."""
        share = (min(max(value, self.least), self.most) - self.least) / (self.most - self.least)
        return _EDGE + (1 - 2 * _EDGE) * share


def common_scale(rows: Sequence[Bounds]) -> Scale:
    """Choose a scale that holds zero, every mean, and intervals as far as they leave the others room.

    Examples
    --------
    >>> common_scale([(10.0, -5.0, 25.0), (-2.0, -900.0, 896.0)])
    Scale(least=-30.0, most=30.0)
    >>> common_scale([])
    Scale(least=-1.0, most=1.0)
    """
    means = [mean for mean, _, _ in rows if mean is not None]
    reach = _WIDE * max(map(abs, means), default=0.0)
    ends = [end for _, low, high in rows for end in (low, high) if end is not None]
    held = [0.0, *means, *(min(max(end, -reach), reach) for end in ends)]
    least, most = min(held), max(held)
    return Scale(least, most) if most > least else Scale(-1.0, 1.0)


def forest_row(mean: float | None, low: float | None, high: float | None, scale: Scale, *, unit: str = "bps") -> str:
    """Draw a mean and its interval, as an SVG element as wide as its place; empty without a mean.

    A hollow point has no interval, and an end without a cap lies outside the scale.
    """
    if mean is None:
        return ""
    zero, title = scale.place(0), f"mean {mean:+,.1f} {unit}, no interval"
    parts = [line(zero, 0, zero, _HEIGHT, more=' stroke-dasharray="3 2" opacity=".55"')]
    if low is not None and high is not None:
        title = f"mean {mean:+,.1f} {unit}, interval {low:+,.1f} to {high:+,.1f}"
        parts.append(line(scale.place(low), _MIDDLE, scale.place(high), _MIDDLE, BLUE, 4, ' stroke-opacity=".55"'))
        inside = [end for end in (low, high) if scale.least <= end <= scale.most]
        parts += [line(scale.place(end), _MIDDLE - 5, scale.place(end), _MIDDLE + 5, BLUE, 2) for end in inside]
    return picture(title, _HEIGHT, *parts, dot(scale.place(mean), _MIDDLE, hollow=low is None or high is None))


def forest_axis(scale: Scale, *, unit: str = "bps") -> str:
    """Draw the numbers of a scale, as an SVG element as wide as its place."""
    marks = round_steps(scale.least, scale.most, 4)
    said = [text(scale.place(mark), 12, f"{mark:+,g}" if mark else "0", anchor=_inward(scale.place(mark))) for mark in marks]
    return picture(f"scale of the pictures below, {scale.least:+,.0f} to {scale.most:+,.0f} {unit}", 16, *said)


def _inward(at: float) -> str:
    return "start" if at < 0.12 else "end" if at > 0.88 else "middle"
