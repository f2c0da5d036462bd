"""Days on a picture: where to write a date, and how."""

from __future__ import annotations

from datetime import UTC, date, datetime

from clvlab.words import day

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
