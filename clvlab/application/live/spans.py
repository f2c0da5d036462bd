"""Stretches of time in words, for whoever watches."""

from __future__ import annotations


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
