"""A number for each day, as a calendar: weeks along, weekdays down; months along and years down where there are many."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from html import escape

from clvlab.drawing.ink import BLUE, GREY, RED, picture, text
from clvlab.words import amount, counted, day

_MOST_WEEKS = 60
_LABEL = 0.07
_HEAD, _FLOOR, _TALL = 18, 18, 15
_WEEKDAYS = ("Mon", "", "Wed", "", "Fri", "", "Sun")
_Cell = tuple[int, int, float, str]


def calendar_map(days: Mapping[date, tuple[float, int]], *, unit: str = "bps", what: str = "decision") -> str:
    """Draw means by day, blue above zero and red below, the stronger the further; empty without a day.

    Parameters
    ----------
    days
        Mean and count of each day.
    unit
        Unit of the means.
    what
        What is counted, one of it.

    Examples
    --------
    >>> drawn = calendar_map({date(2026, 1, 5): (12.0, 3), date(2026, 1, 6): (-4.0, 1)})
    >>> drawn.count("<rect"), "5 Jan 2026: +12 bps, 3 decisions" in drawn
    (2, True)
    """
    if not days:
        return ""
    first = min(days) - timedelta(days=min(days).weekday())
    weeks = (max(days) - first).days // 7 + 1
    if weeks > _MOST_WEEKS:
        return _months(days, unit, what)
    cells = [
        ((when - first).days // 7, when.weekday(), mean, f"{day(when)}: {amount(mean, unit)}, {counted(n, what)}")
        for when, (mean, n) in sorted(days.items())
    ]
    sundays = [first + timedelta(days=7 * week + 6) for week in range(weeks)]
    heads = {k: f"{day:%b}" for k, day in enumerate(sundays) if k == 0 or day.month != sundays[k - 1].month}
    return _drawn(cells, weeks, heads, _WEEKDAYS, unit)


def _months(days: Mapping[date, tuple[float, int]], unit: str, what: str) -> str:
    sums: dict[tuple[int, int], tuple[float, int]] = {}
    for when, (mean, n) in days.items():
        total, count = sums.get((when.year, when.month), (0.0, 0))
        sums[when.year, when.month] = total + mean * n, count + n
    years = range(min(days).year, max(days).year + 1)
    cells = [
        (
            month - 1,
            years.index(year),
            total / n,
            f"{date(year, month, 1):%b %Y}: {amount(total / n, unit)}, {counted(n, what)}",
        )
        for (year, month), (total, n) in sorted(sums.items())
    ]
    heads = {k: f"{date(2000, k + 1, 1):%b}" for k in range(0, 12, 2)}
    return _drawn(cells, 12, heads, [str(year) for year in years], unit)


def _drawn(cells: list[_Cell], columns: int, heads: Mapping[int, str], rows: tuple[str, ...] | list[str], unit: str) -> str:
    # a few extreme days would leave all others pale
    sizes = sorted(abs(mean) for _, _, mean, _ in cells)
    reach = sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))] or 1.0
    width = (1 - _LABEL) / max(columns, 8)
    parts = [
        text(_LABEL + width * column, _HEAD + _FLOOR - 6, said, anchor="start", quiet=True) for column, said in heads.items()
    ]
    top = _HEAD + _FLOOR
    parts += [text(0, top + _TALL * k + 11, said, anchor="start", quiet=True) for k, said in enumerate(rows)]
    for column, row, mean, hint in cells:
        colour = (BLUE if mean > 0 else RED) if mean else GREY
        opacity = 0.15 + 0.8 * min(abs(mean) / reach, 1.0)
        parts.append(
            f'<rect x="{100 * (_LABEL + width * column):.2f}%" y="{top + _TALL * row}" width="{92 * width:.2f}%" '
            f'height="{_TALL - 2}" fill="{colour}" fill-opacity="{opacity:.2f}"><title>{escape(hint)}</title></rect>'
        )
    said = f"Mean CLV by {'day' if rows == _WEEKDAYS else 'month'} of the close, {unit}"
    head = text(0, 11, f"{said} (red: below 0)", anchor="start", bold=True)
    return picture(said, top + _TALL * len(rows) + 2, head, *parts)
