"""The picture of how many things lie where in time."""

from __future__ import annotations

from collections.abc import Sequence

from clvlab.drawing.calendar import DAY_MS, day_marks, spelt
from clvlab.drawing.ink import BLUE, line, picture, text
from clvlab.words import counted

_TOP, _FLOOR, _HEIGHT = 20, 82, 102
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
        f'<rect x="{100 * width * (number + 0.1):.2f}%" width="{80 * width:.2f}%" y="{_FLOOR - height:.1f}" '
        f'height="{height:.1f}" fill="{BLUE}" fill-opacity=".8"/>'
        for number, count in enumerate(counts)
        if (height := (_FLOOR - _TOP) * count / most)
    ]
    per = "a day" if size == 1 else f"in {size} days"
    return picture(
        said,
        _HEIGHT,
        text(0, 11, said, anchor="start", bold=True),
        text(1, 11, f"at most {most:,} {per}", anchor="end", quiet=True),
        *rects,
        line(0, _FLOOR, 1, _FLOOR, more=' opacity=".4"'),
        *(
            text(at, _HEIGHT - 4, day, anchor="start" if at < 0.08 else "end" if at > 0.92 else "middle", quiet=True)
            for time_ms, day in day_marks(begun, ended, 4)
            if 0 <= (at := (time_ms - begun) / (ended - begun)) <= 1
        ),
    )
