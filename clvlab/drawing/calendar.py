"""Pictures by date: where to write a date, numbers by day, how many things lie where in time, and a line with its band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from html import escape

from clvlab.drawing.ink import BLUE, GREY, RED, line, path, picture, round_steps, stretched, text
from clvlab.words import amount, counted, day, signed

DAY_MS = 86_400_000
_MONTHS = (1, 2, 3, 6, 12, 24, 60)
_DAYS = (1, 2, 7, 14)


def day_of(time_ms: float) -> date:
    """Return the day, UTC, of milliseconds since 1970."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).date()


def spelt(time_ms: float) -> str:
    """Spell the day, UTC, of milliseconds since 1970.

    Examples
    --------
    >>> spelt(0)
    '1 Jan 1970'
    """
    return day(day_of(time_ms))


def day_marks(first_ms: float, last_ms: float, most: int = 5) -> list[tuple[float, str]]:
    """Return times, UTC milliseconds, and dates to write at them: at most ``most``, on round days or months.

    Examples
    --------
    >>> [said for _, said in day_marks(1_754_000_000_000, 1_778_000_000_000)]
    ['Sep 2025', 'Nov', 'Jan 2026', 'Mar', 'May']
    """
    if last_ms - first_ms < _DAYS[-1] * DAY_MS * most:
        return _days(first_ms, last_ms, most)
    found = next((marks for step in _MONTHS if len(marks := _months(first_ms, last_ms, step)) <= most), [])
    return found or _days(first_ms, last_ms, most)


def _days(first_ms: float, last_ms: float, most: int) -> list[tuple[float, str]]:
    first, last = -(-first_ms // DAY_MS), last_ms // DAY_MS
    if first > last:
        return [((first_ms + last_ms) / 2, day(day_of(first_ms)))]
    step = next((days for days in _DAYS if (last - first) / days < most), _DAYS[-1])
    marks = [DAY_MS * (first + step * number) for number in range(int((last - first) // step) + 1)]
    return [(mark, day(day_of(mark), year=not k)) for k, mark in enumerate(marks)]


def _months(first_ms: float, last_ms: float, step: int) -> list[tuple[float, str]]:
    first, last = day_of(first_ms), day_of(last_ms)
    found: list[tuple[float, str]] = []
    year = None
    for number in range(12 * first.year + first.month - 1, 12 * last.year + last.month):
        begun = datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC)
        time_ms = 1000 * begun.timestamp()
        if number % step == 0 and first_ms <= time_ms <= last_ms:
            found.append((time_ms, f"{begun:%b}" if begun.year == year else f"{begun:%b %Y}"))
            year = begun.year
    return found


# A number for each day, as a calendar: weeks along, weekdays down; months along and years down where there are many.


_MOST_WEEKS = 60
_LABEL = 0.07
_HEAD, _MAP_FLOOR, _TALL = 18, 18, 15
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
        return _by_month(days, unit, what)
    cells = [
        ((when - first).days // 7, when.weekday(), mean, f"{day(when)}: {amount(mean, unit)}, {counted(n, what)}")
        for when, (mean, n) in sorted(days.items())
    ]
    sundays = [first + timedelta(days=7 * week + 6) for week in range(weeks)]
    heads = {k: f"{day:%b}" for k, day in enumerate(sundays) if k == 0 or day.month != sundays[k - 1].month}
    return _drawn(cells, weeks, heads, _WEEKDAYS, unit)


def _by_month(days: Mapping[date, tuple[float, int]], unit: str, what: str) -> str:
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
        text(_LABEL + width * column, _HEAD + _MAP_FLOOR - 6, said, anchor="start", quiet=True)
        for column, said in heads.items()
    ]
    top = _HEAD + _MAP_FLOOR
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


# The picture of how many things lie where in time.


_COLUMNS_TOP, _COLUMNS_FLOOR, _COLUMNS_HEIGHT = 20, 82, 102
_MOST_BARS = 70
_BINS = (1, 7, 28, 91, 364)


def time_columns(times_ms: Sequence[int], *, what: str = "fixture") -> str:
    """Draw how many times lie on each day, or in spans of days where there are many, as an SVG element; empty without any.

    Parameters
    ----------
    times_ms
        UTC milliseconds, in any order.
    what
        What is counted, one of it.

    Examples
    --------
    >>> drawn = time_columns([0, 3_600_000, 172_800_000])
    >>> drawn.count("<rect"), "3 fixtures, 1 Jan 1970 to 3 Jan 1970" in drawn, time_columns([])
    (2, True, '')
    """
    if not times_ms:
        return ""
    first, last = min(times_ms) // DAY_MS, max(times_ms) // DAY_MS
    size = next((days for days in _BINS if (last - first) // days < _MOST_BARS), (last - first) // _MOST_BARS + 1)
    bars = (last - first) // size + 1
    counts = [0] * bars
    for time_ms in times_ms:
        counts[(time_ms // DAY_MS - first) // size] += 1
    most, width = max(counts), 1 / bars
    begun, ended = first * DAY_MS, (first + bars * size) * DAY_MS
    said = f"{counted(len(times_ms), what)}, {spelt(first * DAY_MS)} to {spelt(last * DAY_MS)}"
    rects = [
        f'<rect x="{100 * width * (number + 0.1):.2f}%" width="{80 * width:.2f}%" y="{_COLUMNS_FLOOR - height:.1f}" '
        f'height="{height:.1f}" fill="{BLUE}" fill-opacity=".8"/>'
        for number, count in enumerate(counts)
        if (height := (_COLUMNS_FLOOR - _COLUMNS_TOP) * count / most)
    ]
    per = "a day" if size == 1 else f"in {size} days"
    return picture(
        said,
        _COLUMNS_HEIGHT,
        text(0, 11, said, anchor="start", bold=True),
        text(1, 11, f"at most {most:,} {per}", anchor="end", quiet=True),
        *rects,
        line(0, _COLUMNS_FLOOR, 1, _COLUMNS_FLOOR, more=' opacity=".4"'),
        *(
            text(at, _COLUMNS_HEIGHT - 4, day, anchor="start" if at < 0.08 else "end" if at > 0.92 else "middle", quiet=True)
            for time_ms, day in day_marks(begun, ended, 4)
            if 0 <= (at := (time_ms - begun) / (ended - begun)) <= 1
        ),
    )


# Pictures of a number by date: a line with a band around it, and how far a sum has fallen.


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
