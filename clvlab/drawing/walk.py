"""Pictures of a number by date: a line with a band around it, and how far a sum has fallen."""

from __future__ import annotations

from collections.abc import Sequence

from clvlab.drawing.calendar import day_marks, spelt
from clvlab.drawing.ink import BLUE, RED, line, path, picture, round_steps, stretched, text
from clvlab.words import amount, signed

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
    head = text(0, 11, f"{title}, {unit}", anchor="start", bold=True)
    rules = _rules([(value, y(value)) for value in round_steps(least, most, 3)])
    said = f"{title} by date: {amount(totals[-1], unit)} at the end"
    return picture(said, _HEIGHT, head, stretched(_FLOOR + 2, *paths), *rules, *_dates(first, last, _HEIGHT - 4))


def fall_area(
    times_ms: Sequence[float], falls: Sequence[float], *, unit: str = "bps", title: str = "Fall from the peak"
) -> str:
    """Draw how far a sum lies below its last peak, by date, as an SVG element; empty without two dates.

    Parameters
    ----------
    times_ms
        UTC milliseconds, ascending.
    falls
        Distances from the peak, at most 0.
    unit, title
        As for ``cumulative_line``.

    Examples
    --------
    >>> "deepest -8 bps on 2 Jan 1970" in fall_area([0, 864e5, 2 * 864e5], [0.0, -8.0, -4.0])
    True
    """
    if len(times_ms) < 2 or times_ms[-1] <= times_ms[0]:
        return ""
    first, last, deepest = times_ms[0], times_ms[-1], min(falls)
    when = spelt(times_ms[list(falls).index(deepest)])
    floor, height = 84, 104

    def y(fall: float) -> float:
        return _TOP + 4 + (floor - _TOP - 4) * (fall / deepest if deepest else 0.0)

    points = [((t - first) / (last - first), y(fall)) for t, fall in zip(times_ms, falls, strict=True)]
    area = f'<path d="{path([(0.0, y(0)), *points, (1.0, y(0))], closed=True)}" fill="{RED}" fill-opacity=".35"/>'
    shown = f"{title}, at most {deepest:,.0f} {unit}" if deepest else f"{title}: none"
    said = f"{title}, deepest {amount(deepest, unit)} on {when}" if deepest else f"{title}: none"
    rules = _rules([(value, y(value)) for value in round_steps(deepest, 0, 2)])
    head = text(0, 11, shown, anchor="start", bold=True)
    return picture(said, height, head, stretched(floor + 2, area), *rules, *_dates(first, last, height - 4))


def _rules(places: Sequence[tuple[float, float]]) -> list[str]:
    """Draw a line and its number at each height; the one at zero is darker."""
    return [
        part
        for value, y in places
        for part in (
            line(0, y, 1, y, more=f' opacity="{0.6 if value == 0 else 0.15}"'),
            text(0, y - 3, signed(value, 0), anchor="start", quiet=True),
        )
    ]


def _dates(first_ms: float, last_ms: float, y: float) -> list[str]:
    marks = [((t - first_ms) / (last_ms - first_ms), said) for t, said in day_marks(first_ms, last_ms, 4)]
    return [text(at, y, said, anchor=_inward(at), quiet=True) for at, said in marks]


def _kept(bounds: list[float], totals: Sequence[float]) -> list[float]:
    """Leave out bounds so wide, while fixtures were few, that the line would be flat; the band is cut off there."""
    reach = 3 * max(max(totals), 0.0, -min(totals))
    last = bounds[-2:]
    return [bound for bound in bounds if abs(bound) <= reach] + last


def _inward(at: float) -> str:
    return "start" if at < 0.06 else "end" if at > 0.94 else "middle"
