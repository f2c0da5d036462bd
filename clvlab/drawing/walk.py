"""The picture of a sum that grows by date, with a band around it."""

from __future__ import annotations

from collections.abc import Sequence

from clvlab.drawing.calendar import day_marks
from clvlab.drawing.ink import BLUE, line, path, picture, round_steps, stretched, text

_TOP, _FLOOR, _HEIGHT = 22, 146, 166


def cumulative_line(
    times_ms: Sequence[float],
    totals: Sequence[float],
    lows: Sequence[float | None],
    highs: Sequence[float | None],
    *,
    unit: str = "bps",
    title: str = "Cumulative CLV",
) -> str:
    """Draw a sum by date and its band, as an SVG element that is as wide as its place; empty without two dates.

    Parameters
    ----------
    times_ms
        UTC milliseconds, ascending.
    totals
        The sum up to each.
    lows, highs
        Bounds of the band; null where there is none yet.
    unit
        Unit of the sum.
    title
        What is summed.

    Examples
    --------
    >>> drawn = cumulative_line([0, 864e5, 2 * 864e5], [1.0, 3.0, 2.0], [None, -1.0, -2.0], [None, 7.0, 6.0])
    >>> drawn.count("<path"), "1 Jan 1970" in drawn, cumulative_line([0], [1.0], [None], [None])
    (2, True, '')
    """
    if len(times_ms) < 2 or times_ms[-1] <= times_ms[0]:
        return ""
    first, last = times_ms[0], times_ms[-1]
    banded = [
        (t, low, high) for t, low, high in zip(times_ms, lows, highs, strict=True) if low is not None and high is not None
    ]
    inner = [0.0, *totals, *_kept([bound for _, low, high in banded for bound in (low, high)], totals)]
    least, most = min(inner), max(inner)
    reach = (most - least) or 1.0

    def x(time_ms: float) -> float:
        return (time_ms - first) / (last - first)

    def y(value: float) -> float:
        return _FLOOR - (_FLOOR - _TOP - 12) * (min(max(value, least), most) - least) / reach

    band = [(x(t), y(low)) for t, low, _ in banded] + [(x(t), y(high)) for t, _, high in reversed(banded)]
    paths = [
        *([f'<path d="{path(band, closed=True)}" fill="{BLUE}" fill-opacity=".2"/>'] if len(banded) > 1 else []),
        f'<path d="{path([(x(t), y(total)) for t, total in zip(times_ms, totals, strict=True)])}" fill="none" '
        f'stroke="{BLUE}" stroke-width="1.8" stroke-linejoin="round" vector-effect="non-scaling-stroke"/>',
    ]
    rules = [
        part
        for value in round_steps(least, most, 3)
        for part in (
            line(0, y(value), 1, y(value), more=f' opacity="{0.6 if value == 0 else 0.15}"'),
            text(0, y(value) - 3, f"{value:+,.0f}" if value else "0", anchor="start", quiet=True),
        )
    ]
    dates = [text(x(t), _HEIGHT - 4, said, anchor=_inward(x(t)), quiet=True) for t, said in day_marks(first, last, 4)]
    head = text(0, 11, f"{title}, {unit}", anchor="start", bold=True)
    return picture(
        f"{title} by date: {totals[-1]:+,.0f} {unit} at the end", _HEIGHT, head, stretched(_FLOOR + 2, *paths), *rules, *dates
    )


def _kept(bounds: list[float], totals: Sequence[float]) -> list[float]:
    """Leave out bounds so wide, while fixtures were few, that the line would be flat; the band is cut off there."""
    reach = 3 * max(max(totals), 0.0, -min(totals))
    last = bounds[-2:]
    return [bound for bound in bounds if abs(bound) <= reach] + last


def _inward(at: float) -> str:
    return "start" if at < 0.06 else "end" if at > 0.94 else "middle"
