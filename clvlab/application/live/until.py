"""When a capture or a live run ends, as somebody says it: at a time, or so many seconds from now."""

from __future__ import annotations

from datetime import datetime

from clvlab.errors import FeedError
from clvlab.times import iso_moment

Until = datetime | float
_MOST_S = 10**11


def until_of(text: str) -> Until:
    """Read a time with its zone, or ``+SECONDS``.

    Raises
    ------
    FeedError
        Neither, or a time without a zone.

    Examples
    --------
    >>> until_of("+90"), until_of("2026-07-11T19:00Z").isoformat()
    (90.0, '2026-07-11T19:00:00+00:00')
    """
    try:
        until = float(text) if text.startswith("+") else _with_zone(iso_moment(text))
        until_ts_ms(until, 0)
    except ValueError as error:
        raise FeedError(f"{text!r:.80} is neither a time, as 2026-07-11T19:00Z, nor +SECONDS") from error
    return until


def until_ts_ms(until: Until | None, now_ms: int) -> int | None:
    """Return a time in UTC milliseconds; null is no bound.

    Raises
    ------
    FeedError
        Neither a time with its zone nor a number of seconds, or one that no calendar holds.
    """
    if until is None:
        return None
    if isinstance(until, datetime):
        return round(_with_zone(until).timestamp() * 1000)
    if isinstance(until, int | float) and not isinstance(until, bool) and abs(until) <= _MOST_S:  # a NaN is not
        return now_ms + round(until * 1000)
    raise FeedError(f"until is a datetime with a time zone, or seconds from now, not {until!r:.80}")


def _with_zone(when: datetime) -> datetime:
    if when.tzinfo is None:
        raise FeedError(f"{str(when)!r} has no time zone: write it as 2026-07-11T19:00Z, in Python with a tzinfo")
    return when
