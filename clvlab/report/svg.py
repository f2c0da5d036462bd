"""Pictures as plain SVG: horizontal positions are percentages, so the picture stretches but its text does not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from math import floor, log10
from typing import Protocol

from clvlab.report.html import Html, escape_text
from clvlab.words import amount, counted, day, plus, signed, with_interval

BLUE, RED, GREY = "#3b82c4", "#d1495b", "#8a8a8a"  # visible on white and on black
_WIDTH = 1000


def picture(title: str, height: int, *parts: str) -> Html:
    """Return parts as an SVG element of full width; the title is for screen readers."""
    return Html(
        f'<svg role="img" aria-label="{escape_text(title)}" width="100%" height="{height}" '
        f'font-family="system-ui,sans-serif" font-size="11" fill="currentColor">{"".join(parts)}</svg>'
    )


def stretch(height: int, *parts: str) -> str:
    """Return paths with x from 0 to 1000, stretched to the full width."""
    return (
        f'<svg width="100%" height="{height}" viewBox="0 0 {_WIDTH} {height}" preserveAspectRatio="none">{"".join(parts)}</svg>'
    )


def path(points: Sequence[tuple[float, float]], *, closed: bool = False) -> str:
    """Return the ``d`` of a path through points (share of the width, y)."""
    steps = " ".join(f"{_WIDTH * x:.1f},{y:.1f}" for x, y in points)
    return f"M{steps}{'Z' if closed else ''}"


def text(
    at: float, y: float, content: str, anchor: str = "middle", *, gap: float = 0, quiet: bool = False, bold: bool = False
) -> str:
    """Return a text at a share of the width, or ``gap`` pixels further in the direction in which it is written."""
    style = f' dx="{-gap if anchor == "end" else gap:g}"' if gap else ""
    style += ' opacity=".7"' if quiet else ""
    style += ' font-weight="600"' if bold else ""
    return f'<text x="{100 * at:.2f}%" y="{y:g}" text-anchor="{anchor}"{style}>{escape_text(content)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, colour: str = "currentColor", width: float = 1, more: str = "") -> str:
    """Return a straight line between shares of the width and pixels from the top."""
    ends = f'x1="{100 * x1:.2f}%" y1="{y1:g}" x2="{100 * x2:.2f}%" y2="{y2:g}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width:g}"{more}/>'


def dot(at: float, y: float, *, hollow: bool = False, radius: float = 4.5) -> str:
    """Return a point; a hollow one has no interval."""
    fill = f'fill="none" stroke="{BLUE}" stroke-width="1.5"' if hollow else f'fill="{BLUE}"'
    return f'<circle cx="{100 * at:.2f}%" cy="{y:g}" r="{radius:g}" {fill}/>'


def round_steps(low: float, high: float, most: int = 4) -> list[float]:
    """Return at most ``most`` + 1 round numbers between two bounds.

    Examples
    --------
    >>> round_steps(-130.0, 420.0)
    [0, 200, 400]
    """
    if not high > low:
        return [low]
    rough = (high - low) / most
    size = 10 ** floor(log10(rough))
    step = next(size * times for times in (1, 2, 5, 10) if size * times >= rough * (1 - 1e-9))
    first = -floor(-low / step)
    return [step * number for number in range(first, floor(high / step) + 1)]


# A grid of coloured numbers, with frames around some.


_GRID_LABEL = 0.17
_GRID_ROW, _GRID_HEAD = 36, 34
_STRONGEST = 0.5  # opacity of the strongest colour: light or dark text on it stays readable


def cell_grid(
    columns: Sequence[str],
    rows: Sequence[str],
    values: Mapping[tuple[int, int], float],
    notes: Mapping[tuple[int, int], str],
    *,
    framed: Collection[tuple[int, int]] = (),
    across: str = "",
    down: str = "",
    title: str = "",
) -> Html:
    """Draw a grid of numbers, blue above zero and red below, with notes under them and frames around some.

    Examples
    --------
    >>> drawn = cell_grid(["5", "10"], ["a"], {(0, 0): 12.0, (0, 1): -3.0}, {(0, 0): "p .01"}, framed=[(0, 0)])
    >>> drawn.count("<rect"), "+12" in drawn, "p .01" in drawn
    (3, True, True)
    """
    reach = max(map(abs, values.values()), default=0.0) or 1.0
    digits, width = (0 if reach >= 10 else 1), (1 - _GRID_LABEL) / max(len(columns), 1)
    parts = [
        text(_GRID_LABEL, 11, across, anchor="start", quiet=True),
        text(0, _GRID_HEAD - 5, down, anchor="start", quiet=True),
    ]
    parts += [text(_GRID_LABEL + width * (k + 0.5), _GRID_HEAD - 5, name) for k, name in enumerate(columns)]
    parts += [text(0, _GRID_HEAD + _GRID_ROW * k + 21, name, anchor="start") for k, name in enumerate(rows)]
    for (row, column), value in values.items():
        x, y, inside = _GRID_LABEL + width * column, _GRID_HEAD + _GRID_ROW * row, _GRID_HEAD + _GRID_ROW * row + 15
        place = f'x="{100 * x + 0.2:.2f}%" y="{y + 1}" width="{100 * width - 0.4:.2f}%" height="{_GRID_ROW - 2}"'
        opacity = _STRONGEST * abs(value) / reach
        parts.append(f'<rect {place} fill="{BLUE if value >= 0 else RED}" fill-opacity="{opacity:.3f}"/>')
        if (row, column) in framed:
            parts.append(f'<rect {place} fill="none" stroke="currentColor" stroke-width="2"/>')
        parts.append(text(x + width / 2, inside, plus(value, digits), bold=(row, column) in framed))
        parts.append(text(x + width / 2, inside + 14, notes.get((row, column), ""), quiet=True))
    return picture(title, _GRID_HEAD + _GRID_ROW * len(rows) + 4, *parts)


# One mean with its interval and zero.


_EDGE = 0.2  # share of the width for numbers on each side, also on a telephone
_MIDDLE, _BAR_HEIGHT = 27, 50
_GAP = 3  # pixels between a label and the place that it is of, so that two labels of one place stay apart


def interval_bar(mean: float | None, low: float | None, high: float | None, *, unit: str = "bps", digits: int = 1) -> Html:
    """Draw a mean, its interval and zero; empty without a mean.

    Examples
    --------
    >>> drawn = interval_bar(34.2, -6.1, 76.8)
    >>> "mean +34.2 bps, interval -6.1 to +76.8" in drawn, interval_bar(None, None, None) == ""
    (True, True)
    >>> interval_bar(0.0, 0.0, 0.0).count("<text")  # all at one place: a label for the mean, and one for the bounds
    2
    """
    if mean is None:
        return Html("")
    known = low is not None and high is not None
    bounds = [0.0, mean, *(bound for bound in (low, high) if bound is not None)]
    least, most = min(bounds), max(bounds)
    reach = (most - least) or 1.0
    digits = digits if max(most, -least) < 1000 else 0

    def at(value: float) -> float:
        return _EDGE + (1 - 2 * _EDGE) * (value - least) / reach

    label, away, toward = amount(mean, unit, digits), *(("start", "end") if mean >= 0 else ("end", "start"))
    parts = [
        line(0, _MIDDLE, 1, _MIDDLE, width=1, more=' opacity=".2"'),
        line(at(0), _MIDDLE - 14, at(0), _MIDDLE + 10, more=' stroke-dasharray="3 2" opacity=".7"'),
        *([text(at(0), 11, "0", anchor=toward, gap=_GAP, quiet=True)] if mean else []),
    ]
    if low is not None and high is not None:
        parts += [
            line(at(low), _MIDDLE, at(high), _MIDDLE, BLUE, 6, ' stroke-opacity=".55"'),
            *(line(at(end), _MIDDLE - 6, at(end), _MIDDLE + 6, BLUE, 2) for end in (low, high)),
            *_bounds(at(low), plus(low, digits), at(high), plus(high, digits)),
        ]
    parts += [dot(at(mean), _MIDDLE, hollow=not known), text(at(mean), 11, label, anchor=away, gap=_GAP, bold=True)]
    return picture(f"mean {with_interval(label, low, high, digits)}", _BAR_HEIGHT, *parts)


def _bounds(left: float, low: str, right: float, high: str) -> list[str]:
    """Label the ends of an interval, outwards; one label is enough for ends that are the same after rounding."""
    y = _BAR_HEIGHT - 3
    if low == high:
        return [text((left + right) / 2, y, low)]
    return [text(left, y, low, anchor="end", gap=_GAP), text(right, y, high, anchor="start", gap=_GAP)]


# Round edges, and how many more fixtures would show them.


class Mark(Protocol):
    """An edge of a ruler; see ``clvlab.statistics.power.Power``."""

    @property
    def edge(self) -> float: ...
    @property
    def more(self) -> int: ...


def edge_ruler(marks: Sequence[Mark], unit: str = "bps") -> Html:
    """Draw edges in a row, filled if the fixtures that there are show them, else with the number that is missing.

    Examples
    --------
    >>> from clvlab.statistics.power import Power
    >>> drawn = edge_ruler([Power(20, 0.2, 60, 1260, 1200, 900, 1700), Power(50, 0.9, 60, 50, 0, 0, 0)])
    >>> "20 bps takes 1,200 more fixtures, 50 bps shows now" in drawn, edge_ruler([]) == ""
    (True, True)
    """
    if not marks:
        return Html("")
    parts, spoken = [line(0, _MIDDLE, 1, _MIDDLE, more=' opacity=".2"')], []
    for number, one in enumerate(marks):
        at, name = (number + 0.5) / len(marks), f"{one.edge:g} {unit}"
        below = f"+{one.more:,}" if one.more else "now"
        parts += [
            text(at, 14, name),
            dot(at, _MIDDLE, hollow=bool(one.more)),
            text(at, _BAR_HEIGHT - 3, below, bold=not one.more),
        ]
        spoken.append(f"{name} takes {counted(one.more, 'more fixture')}" if one.more else f"{name} shows now")
    return picture(f"edges by the fixtures that they take: {', '.join(spoken)}", _BAR_HEIGHT, *parts)


# Pictures in table cells: intervals on one scale, and small lines.


_ROW_HEIGHT = 20
_ROW_EDGE = 0.03


def scale(bounds: Sequence[float | None]) -> tuple[float, float]:
    """Return the common scale of a forest, from the lowest to the highest of the bounds and zero.

    Examples
    --------
    >>> scale([None, 3.0, 8.0]), scale([])
    ((0.0, 8.0), (0.0, 1.0))
    """
    known = [0.0, *(bound for bound in bounds if bound is not None)]
    least, most = min(known), max(known)
    return (least, most) if most > least else (least, least + 1.0)


def interval_cell(mean: float | None, low: float | None, high: float | None, within: tuple[float, float]) -> Html:
    """Draw one row of a forest: a mean, its interval and zero; a hollow point has no interval."""
    if mean is None:
        return Html("")
    least, most = within

    def at(value: float) -> float:
        return _ROW_EDGE + (1 - 2 * _ROW_EDGE) * (value - least) / (most - least)

    middle, parts = _ROW_HEIGHT / 2, [line(at(0), 0, at(0), _ROW_HEIGHT, more=' stroke-dasharray="3 2" opacity=".5"')]
    known = low is not None and high is not None
    if low is not None and high is not None:
        parts.append(line(at(low), middle, at(high), middle, BLUE, 2.5))
    parts.append(dot(at(mean), middle, hollow=not known, radius=3.5))
    return picture(with_interval(plus(mean, 1), low, high), _ROW_HEIGHT, *parts)


def scale_axis(within: tuple[float, float]) -> Html:
    """Draw the numbers of a scale above its rows, zero first and then the largest; see ``scale``."""
    least, most = within
    places = [(mark, _ROW_EDGE + (1 - 2 * _ROW_EDGE) * (mark - least) / (most - least)) for mark in round_steps(least, most, 3)]
    named = [(at, f"{mark:+,g}" if mark else "0") for mark, at in sorted(places, key=lambda one: (one[0] != 0, -abs(one[0])))]
    return picture(f"scale from {plus(least)} to {plus(most)}", 15, *_labels(named, 11, edge=0.1, narrowest=_NARROW_CELL))


def _inward(at: float, edge: float) -> str:
    """Return the anchor that keeps a text inside the picture."""
    return "start" if at < edge else "end" if at > 1 - edge else "middle"


_LETTER = 6  # pixels of a letter, about
_NARROW, _NARROW_CELL = 300, 100  # pixels of the narrowest pictures, on a telephone


def _labels(
    named: Iterable[tuple[float, str]], y: float, *, edge: float, narrowest: float = _NARROW, quiet: bool = False
) -> list[str]:
    """Write labels along an axis, without those that would touch an earlier one where the picture is narrow."""
    texts: list[str] = []
    taken: list[tuple[float, float]] = []
    for at, label in named:
        anchor, length = _inward(at, edge), _LETTER * len(label)
        left = narrowest * at - length * {"start": 0, "middle": 0.5, "end": 1}[anchor]
        if all(left >= right + _GAP or left + length <= start - _GAP for start, right in taken):
            taken.append((left, left + length))
            texts.append(text(at, y, label, anchor=anchor, quiet=quiet))
    return texts


_PANEL_HEIGHT = 44


def panel_line(
    points: Sequence[tuple[float, float]], within_ms: tuple[float, float], within: tuple[float, float], unit: str = "bps"
) -> Html:
    """Draw a sum by date, (milliseconds, sum), on axes that several panels share; empty without two dates.

    Examples
    --------
    >>> drawn = panel_line([(0, 0.0), (5, 8.0)], (0, 10), (-2.0, 8.0))
    >>> "M0.0,34.0 500.0,2.0" in drawn, "sum +8 bps" in drawn, panel_line([(0, 1.0)], (0, 10), (0.0, 1.0)) == ""
    (True, True, True)
    """
    if len(points) < 2 or within_ms[1] <= within_ms[0]:
        return Html("")

    def y(value: float) -> float:
        return _PANEL_HEIGHT - 2 - (_PANEL_HEIGHT - 4) * (value - within[0]) / (within[1] - within[0])

    shares = [((t - within_ms[0]) / (within_ms[1] - within_ms[0]), y(total)) for t, total in points]
    drawn = f'<path d="{path(shares)}" fill="none" stroke="{BLUE}" stroke-width="1.6" vector-effect="non-scaling-stroke"/>'
    zero = line(0, round(y(0), 1), 1, round(y(0), 1), more=' opacity=".3"')
    return picture(f"sum {amount(points[-1][1], unit)}", _PANEL_HEIGHT, zero, stretch(_PANEL_HEIGHT, drawn))


def step_cell(
    before: float,
    after: float,
    within: tuple[float, float],
    *,
    bounds: tuple[float | None, float | None] = (None, None),
    is_total: bool = False,
) -> Html:
    """Draw a step of a waterfall: a bar from one value to the next, or from zero to a total, with the total's interval.

    Examples
    --------
    >>> drawn = step_cell(1.0, -3.0, (-4.0, 1.0))
    >>> "from +1.00 to -3.00" in drawn, RED in drawn
    (True, True)
    """
    least, most = within

    def at(value: float) -> float:
        return _ROW_EDGE + (1 - 2 * _ROW_EDGE) * (min(max(value, least), most) - least) / (most - least)

    left, right = sorted((at(before), at(after)))
    colour = GREY if is_total else BLUE if after >= before else RED
    parts = [
        line(at(0), 0, at(0), _ROW_HEIGHT, more=' stroke-dasharray="3 2" opacity=".5"'),
        f'<rect x="{100 * left:.2f}%" y="3" width="{max(100 * (right - left), 0.3):.2f}%" height="{_ROW_HEIGHT - 6}" '
        f'fill="{colour}" fill-opacity="{0.55 if is_total else 0.85}"/>',
    ]
    low, high = bounds
    if low is not None and high is not None:
        middle = _ROW_HEIGHT / 2
        parts.append(line(at(low), middle, at(high), middle, width=1.5))
        parts += [
            line(at(end), middle - 4, at(end), middle + 4, width=1.5) for end in (low, high) if least <= end <= most
        ]  # an end outside of the scale has no mark
    words = f"total {plus(after, 2)}" if is_total else f"from {plus(before, 2)} to {plus(after, 2)}"
    return picture(with_interval(words, low, high, 2) if is_total else words, _ROW_HEIGHT, *parts)


DAY_MS = 86_400_000
_MONTHS = (1, 2, 3, 6, 12, 24, 60)
_DAYS = (1, 2, 7, 14)
_MINUTES = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720)


def day_of(time_ms: float) -> date:
    """Return the day, UTC, of milliseconds since 1970."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).date()


def spelt(time_ms: float) -> str:
    """Return the day, UTC, of milliseconds since 1970 as text.

    Examples
    --------
    >>> spelt(0)
    '1 Jan 1970'
    """
    return day(day_of(time_ms))


def day_marks(first_ms: float, last_ms: float, most: int = 5) -> list[tuple[float, str]]:
    """Return at most ``most`` times, UTC milliseconds, with their dates, on round times of a day, days or months.

    Examples
    --------
    >>> [label for _, label in day_marks(1_754_000_000_000, 1_778_000_000_000)]
    ['Sep 2025', 'Nov', 'Jan 2026', 'Mar', 'May']
    >>> [label for _, label in day_marks(1_778_000_000_000, 1_778_009_000_000)]
    ['5 May 2026 17:00', '17:30', '18:00', '18:30', '19:00']
    """
    if last_ms - first_ms < DAY_MS and (marks := _hours(first_ms, last_ms, most)):
        return marks
    if last_ms - first_ms < _DAYS[-1] * DAY_MS * most:
        return _days(first_ms, last_ms, most)
    found = next((marks for step in _MONTHS if len(marks := _months(first_ms, last_ms, step)) <= most), [])
    return found or _days(first_ms, last_ms, most)


def _hours(first_ms: float, last_ms: float, most: int) -> list[tuple[float, str]]:
    for minutes in _MINUTES:
        step = 60_000 * minutes
        marks = [step * number for number in range(int(-(-first_ms // step)), int(last_ms // step) + 1)]
        if 0 < len(marks) <= most:
            times = [datetime.fromtimestamp(mark / 1000, UTC) for mark in marks]
            return [
                (mark, f"{time:%H:%M}" if k else f"{day(time)} {time:%H:%M}")
                for k, (mark, time) in enumerate(zip(marks, times, strict=True))
            ]
    return []


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
        month = datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC)
        time_ms = 1000 * month.timestamp()
        if number % step == 0 and first_ms <= time_ms <= last_ms:
            found.append((time_ms, f"{month:%b}" if month.year == year else f"{month:%b %Y}"))
            year = month.year
    return found


# A calendar: weeks by weekdays, or months by years where there are many days.


_MOST_WEEKS = 60
_LABEL = 0.07
_HEAD, _MAP_FLOOR, _TALL = 18, 18, 15
_WEEKDAYS = ("Mon", "", "Wed", "", "Fri", "", "Sun")
_Cell = tuple[int, int, float, str]


def calendar_map(days: Mapping[date, tuple[float, int]], *, unit: str = "bps", what: str = "decision") -> Html:
    """Draw means and counts by day, blue above zero and red below; empty without a day.

    Examples
    --------
    >>> drawn = calendar_map({date(2026, 1, 5): (12.0, 3), date(2026, 1, 6): (-4.0, 1)})
    >>> drawn.count("<rect"), "5 Jan 2026: +12 bps, 3 decisions" in drawn
    (2, True)
    """
    if not days:
        return Html("")
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
    return _calendar(cells, weeks, heads, _WEEKDAYS, unit)


def _by_month(days: Mapping[date, tuple[float, int]], unit: str, what: str) -> Html:
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
    return _calendar(cells, 12, heads, [str(year) for year in years], unit)


def _calendar(cells: list[_Cell], columns: int, heads: Mapping[int, str], rows: tuple[str, ...] | list[str], unit: str) -> Html:
    # a few extreme days would leave all others pale
    sizes = sorted(abs(mean) for _, _, mean, _ in cells)
    reach = sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))] or 1.0
    width = (1 - _LABEL) / max(columns, 8)
    parts = [
        text(_LABEL + width * column, _HEAD + _MAP_FLOOR - 6, label, anchor="start", quiet=True)
        for column, label in heads.items()
    ]
    top = _HEAD + _MAP_FLOOR
    parts += [text(0, top + _TALL * k + 11, label, anchor="start", quiet=True) for k, label in enumerate(rows)]
    for column, row, mean, hint in cells:
        colour = (BLUE if mean > 0 else RED) if mean else GREY
        opacity = 0.15 + 0.8 * min(abs(mean) / reach, 1.0)
        parts.append(
            f'<rect x="{100 * (_LABEL + width * column):.2f}%" y="{top + _TALL * row}" width="{92 * width:.2f}%" '
            f'height="{_TALL - 2}" fill="{colour}" fill-opacity="{opacity:.2f}"><title>{escape_text(hint)}</title></rect>'
        )
    label = f"Mean CLV by {'day' if rows == _WEEKDAYS else 'month'} of the close, {unit}"
    head = text(0, 11, f"{label} (red: below 0)", anchor="start", bold=True)
    return picture(label, top + _TALL * len(rows) + 2, head, *parts)


# Counts in time.


_COLUMNS_TOP, _COLUMNS_FLOOR, _COLUMNS_HEIGHT = 20, 82, 102
_MOST_BARS = 70
_BINS = (1, 7, 28, 91, 364)


def time_columns(times_ms: Sequence[int], *, what: str = "fixture") -> Html:
    """Draw the number of times by day, or by spans of days; empty without any.

    Examples
    --------
    >>> drawn = time_columns([0, 3_600_000, 172_800_000])
    >>> drawn.count("<rect"), "3 fixtures, 1 Jan 1970 to 3 Jan 1970" in drawn, time_columns([]) == ""
    (2, True, True)
    """
    if not times_ms:
        return Html("")
    first, last = min(times_ms) // DAY_MS, max(times_ms) // DAY_MS
    size = next((days for days in _BINS if (last - first) // days < _MOST_BARS), (last - first) // _MOST_BARS + 1)
    bars = (last - first) // size + 1
    counts = [0] * bars
    for time_ms in times_ms:
        counts[(time_ms // DAY_MS - first) // size] += 1
    most, width = max(counts), 1 / bars
    start_ms, end_ms = first * DAY_MS, (first + bars * size) * DAY_MS
    label = f"{counted(len(times_ms), what)}, {spelt(first * DAY_MS)} to {spelt(last * DAY_MS)}"
    rects = [
        f'<rect x="{100 * width * (number + 0.1):.2f}%" width="{80 * width:.2f}%" y="{_COLUMNS_FLOOR - height:.1f}" '
        f'height="{height:.1f}" fill="{BLUE}" fill-opacity=".8"/>'
        for number, count in enumerate(counts)
        if (height := (_COLUMNS_FLOOR - _COLUMNS_TOP) * count / most)
    ]
    per = "a day" if size == 1 else f"in {size} days"
    return picture(
        label,
        _COLUMNS_HEIGHT,
        text(0, 11, label, anchor="start", bold=True),
        text(1, 11, f"at most {most:,} {per}", anchor="end", quiet=True),
        *rects,
        line(0, _COLUMNS_FLOOR, 1, _COLUMNS_FLOOR, more=' opacity=".4"'),
        *_dates(start_ms, end_ms, _COLUMNS_HEIGHT - 4, edge=0.08),
    )


# A sum by date with its band, and its fall from the peak.


_TOP, _FLOOR, _HEIGHT = 22, 146, 166
_CURVE_EDGE = 0.12


def cumulative_line(
    times_ms: Sequence[float],
    totals: Sequence[float],
    lows: Sequence[float | None],
    highs: Sequence[float | None],
    *,
    unit: str = "bps",
    title: str = "Cumulative CLV",
    height: int = _HEIGHT,
    within_ms: tuple[float, float] | None = None,
    parts: Mapping[str, Sequence[tuple[float, float]]] | None = None,
) -> Html:
    """Draw a sum by date and its band; empty without two dates.

    ``within_ms`` are the first and the last date of a common axis. ``parts`` are sums of parts by the classes of their lines,
    as (milliseconds, sum): they are transparent, and a style sheet shows them.

    Examples
    --------
    >>> drawn = cumulative_line([0, 864e5, 2 * 864e5], [1.0, 3.0, 2.0], [None, -1.0, -2.0], [None, 7.0, 6.0])
    >>> drawn.count("<path"), "1 Jan 1970" in drawn, cumulative_line([0], [1.0], [None], [None]) == ""
    (2, True, True)
    """
    if len(times_ms) < 2 or times_ms[-1] <= times_ms[0]:
        return Html("")
    first, last = within_ms or (times_ms[0], times_ms[-1])
    floor = height - _HEIGHT + _FLOOR
    banded = [
        (t, low, high) for t, low, high in zip(times_ms, lows, highs, strict=True) if low is not None and high is not None
    ]
    inner = [0.0, *totals, *inner_bounds([bound for _, low, high in banded for bound in (low, high)], totals)]
    least, most = min(inner), max(inner)
    reach = (most - least) or 1.0

    def x(time_ms: float) -> float:
        return (time_ms - first) / (last - first)

    def y(value: float) -> float:
        return floor - (floor - _TOP - 12) * (min(max(value, least), most) - least) / reach

    band = [(x(t), y(low)) for t, low, _ in banded] + [(x(t), y(high)) for t, _, high in reversed(banded)]
    paths = [
        *([f'<path d="{path(band, closed=True)}" fill="{BLUE}" fill-opacity=".2"/>'] if len(banded) > 1 else []),
        f'<path d="{path([(x(t), y(total)) for t, total in zip(times_ms, totals, strict=True)])}" fill="none" '
        f'stroke="{BLUE}" stroke-width="1.8" stroke-linejoin="round" vector-effect="non-scaling-stroke"/>',
        *(
            f'<path class="{escape_text(name)}" d="{path([(x(t), y(total)) for t, total in points])}" fill="none" opacity="0" '
            f'stroke="{RED}" stroke-width="1.8" stroke-linejoin="round" vector-effect="non-scaling-stroke"/>'
            for name, points in (parts or {}).items()
        ),
    ]
    head = text(0, 11, f"{title}, {unit}", anchor="start", bold=True)
    rules = _rules([(value, y(value)) for value in round_steps(least, most, 3)])
    label = f"{title} by date: {amount(totals[-1], unit)} at the end"
    return picture(label, height, head, stretch(floor + 2, *paths), *rules, *_dates(first, last, height - 4))


def band_line(
    labels: Sequence[str],
    means: Sequence[float | None],
    lows: Sequence[float | None],
    highs: Sequence[float | None],
    *,
    unit: str = "bps",
    title: str,
) -> Html:
    """Draw means at evenly spaced settings, and their intervals; empty without two means.

    Examples
    --------
    >>> drawn = band_line(["0", "1", "5"], [3.0, 1.0, -2.0], [1.0, None, -4.0], [5.0, None, 0.0], title="By delay")
    >>> drawn.count("<circle"), "By delay: +3 bps at 0, -2 bps at 5" in drawn, band_line(["0"], [1.0], [None], [None], title="")
    (3, True, Html(''))
    """
    known = [
        (number / max(len(labels) - 1, 1), label, mean, low, high)
        for number, (label, mean, low, high) in enumerate(zip(labels, means, lows, highs, strict=True))
        if mean is not None
    ]
    if len(known) < 2:
        return Html("")
    least, most = scale([bound for _, _, *bounds in known for bound in bounds])

    def y(value: float) -> float:
        return _FLOOR - (_FLOOR - _TOP - 12) * (value - least) / (most - least)

    def at(place: float) -> float:
        return _CURVE_EDGE + (1 - 2 * _CURVE_EDGE) * place

    points = [
        part
        for place, label, mean, low, high in known
        for part in (
            *([line(at(place), y(low), at(place), y(high), BLUE, 2.5)] if low is not None and high is not None else []),
            dot(at(place), y(mean), hollow=low is None or high is None, radius=3.5),
            text(at(place), _HEIGHT - 4, label, quiet=True),
        )
    ]
    first, last = known[0], known[-1]
    label = f"{title}: {amount(first[2], unit)} at {first[1]}, {amount(last[2], unit)} at {last[1]}"
    rules = _rules([(value, y(value)) for value in round_steps(least, most, 3)])
    return picture(label, _HEIGHT, text(0, 11, f"{title}, {unit}", anchor="start", bold=True), *rules, *points)


def lag_line(
    lags_s: Sequence[float],
    values: Sequence[float],
    lows: Sequence[float] = (),
    highs: Sequence[float] = (),
    *,
    title: str,
    mark_s: float | None = None,
) -> Html:
    """Draw values by lag, with a band, zero, and a mark at one lag.

    Examples
    --------
    >>> drawn = lag_line([-1, 0, 1], [0.1, 0.8, 0.3], title="Correlation", mark_s=1)
    >>> drawn.count("<path"), "Correlation by lag, -1 to 1 s" in drawn
    (1, True)
    """
    first, last = lags_s[0], lags_s[-1]
    bounds = [0.0, *values, *lows, *highs]
    least, most = min(bounds), max(bounds)
    reach = (most - least) or 1.0

    def x(lag_s: float) -> float:
        return (lag_s - first) / ((last - first) or 1)

    def y(value: float) -> float:
        return _FLOOR - (_FLOOR - _TOP - 12) * (value - least) / reach

    band = [*zip(lags_s, lows, strict=False), *reversed(list(zip(lags_s, highs, strict=False)))]
    drawn = path([(x(lag), y(value)) for lag, value in band], closed=True) if band else ""
    paths = [
        *([f'<path d="{drawn}" fill="{GREY}" fill-opacity=".25"/>'] if drawn else []),
        f'<path d="{path([(x(lag), y(value)) for lag, value in zip(lags_s, values, strict=True)])}" fill="none" '
        f'stroke="{BLUE}" stroke-width="1.8" stroke-linejoin="round" vector-effect="non-scaling-stroke"/>',
    ]
    marked = [] if mark_s is None else [line(x(mark_s), _TOP, x(mark_s), _FLOOR, RED, 1.5, ' stroke-dasharray="3 2"')]
    heights = [
        part
        for value in round_steps(least, most, 3)
        for part in (
            line(0, y(value), 1, y(value), more=f' opacity="{0.6 if value == 0 else 0.15}"'),
            text(0, y(value) - 3, f"{value:g}", anchor="start", quiet=True),
        )
    ]
    labels = _labels([(x(lag), f"{lag:g} s") for lag in round_steps(first, last)], _HEIGHT - 4, edge=0.06, quiet=True)
    head = text(0, 11, title, anchor="start", bold=True)
    label = f"{title} by lag, {first:g} to {last:g} s"
    return picture(label, _HEIGHT, head, stretch(_FLOOR + 2, *paths), *heights, *labels, *marked)


def fall_area(
    times_ms: Sequence[float], falls: Sequence[float], *, unit: str = "bps", title: str = "Fall from the peak"
) -> Html:
    """Draw the fall of a sum from its last peak, by date; empty without two dates.

    Examples
    --------
    >>> "deepest -8 bps on 2 Jan 1970" in fall_area([0, 864e5, 2 * 864e5], [0.0, -8.0, -4.0])
    True
    """
    if len(times_ms) < 2 or times_ms[-1] <= times_ms[0]:
        return Html("")
    first, last, deepest = times_ms[0], times_ms[-1], min(falls)
    when = spelt(times_ms[list(falls).index(deepest)])
    floor, height = 84, 104

    def y(fall: float) -> float:
        return _TOP + 4 + (floor - _TOP - 4) * (fall / deepest if deepest else 0.0)

    points = [((t - first) / (last - first), y(fall)) for t, fall in zip(times_ms, falls, strict=True)]
    area = f'<path d="{path([(0.0, y(0)), *points, (1.0, y(0))], closed=True)}" fill="{RED}" fill-opacity=".35"/>'
    heading = f"{title}, at most {deepest:,.0f} {unit}" if deepest else f"{title}: none"
    label = f"{title}, deepest {amount(deepest, unit)} on {when}" if deepest else f"{title}: none"
    rules = _rules([(value, y(value)) for value in round_steps(deepest, 0, 2)])
    head = text(0, 11, heading, anchor="start", bold=True)
    return picture(label, height, head, stretch(floor + 2, area), *rules, *_dates(first, last, height - 4))


def _rules(places: Sequence[tuple[float, float]]) -> list[str]:
    """Draw a line and its number at each height, darker at zero."""
    return [
        part
        for value, y in places
        for part in (
            line(0, y, 1, y, more=f' opacity="{0.6 if value == 0 else 0.15}"'),
            text(0, y - 3, signed(value, 0), anchor="start", quiet=True),
        )
    ]


def _dates(first_ms: float, last_ms: float, y: float, edge: float = 0.06) -> list[str]:
    marks = [((t - first_ms) / (last_ms - first_ms), label) for t, label in day_marks(first_ms, last_ms, 4)]
    return _labels([(at, label) for at, label in marks if 0 <= at <= 1], y, edge=edge, quiet=True)


def inner_bounds(bounds: list[float], totals: Sequence[float]) -> list[float]:
    """Leave out bounds that would flatten the line, as long as fixtures are few."""
    reach = 3 * max(max(totals), 0.0, -min(totals))
    last = bounds[-2:]
    return [bound for bound in bounds if abs(bound) <= reach] + last
