"""Times and stretches of time in words."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(ts_ms: int) -> str:
    """Say when something was, to the second; a time that no calendar has in milliseconds, as others may have written it.

    Examples
    --------
    >>> moment(1_767_225_600_999), moment(10**17)
    ('2026-01-01 00:00:00 UTC', '100000000000000000 ms')
    """
    try:
        return f"{datetime.fromtimestamp(ts_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError):
        return f"{ts_ms} ms"


def span(seconds: float) -> str:
    """Say how long something is, in units that a reader takes in at a glance.

    Examples
    --------
    >>> [span(seconds) for seconds in (0.4, 119, 150, 7_500, 200_000)]
    ['0 s', '119 s', '2 min', '2 h 5 min', '2 d 7 h']
    """
    whole = max(0, int(seconds))
    minutes, hours = whole // 60, whole // 3600
    if whole < 120:
        return f"{whole} s"
    if minutes < 120:
        return f"{minutes} min"
    if hours < 48:
        return f"{hours} h {minutes % 60} min"
    return f"{hours // 24} d {hours % 24} h"
