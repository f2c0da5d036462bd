"""Times as sources write them, to UTC milliseconds; a time without a zone is refused, unless the caller names the zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from clvlab.errors import SourceError

LAST_MS = 253_402_300_799_999  # the end of the year 9999
_MS_FROM = 100_000_000_000  # seconds this large lie in the year 5138, milliseconds in 1973
_IN_NAME = re.compile(r"(\d{4}-\d\d-\d\d)[T_](\d\d)[:-]?(\d\d)[:-]?(\d\d)(Z|[+-]\d\d:?\d\d)")


def time_in_name(name: str) -> int | None:
    """Return the time that a file's name tells, or null.

    Examples
    --------
    >>> time_in_name("worldcup_2026-07-04T113035+0000.json.gz"), time_in_name("worldcup.json")
    (1783164635000, None)
    """
    written = _IN_NAME.search(name)
    return None if written is None else time_ms("{}T{}:{}:{}{}".format(*written.groups()))


def time_ms(value: object, zone: ZoneInfo | None = None) -> int:
    """Return UTC milliseconds of an ISO 8601 text or of unix seconds or milliseconds.

    Raises
    ------
    ValueError
        Neither, or a text without a zone where none is given.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is no time")
    return of_iso(value, zone) if isinstance(value, str) else of_unix(value)


def of_unix(value: float) -> int:
    """Return milliseconds of unix seconds or, from 10^11 on, milliseconds."""
    found = value if value >= _MS_FROM else value * 1000
    if not 0 <= found <= LAST_MS:
        raise ValueError(f"{value!r} is no unix time")
    return round(found)


def of_iso(text: str, zone: ZoneInfo | None = None) -> int:
    """Return milliseconds of an ISO 8601 text."""
    return _ms(_read(text), text, zone)


def micros_of_iso(text: str, zone: ZoneInfo | None = None) -> int:
    """Return microseconds of an ISO 8601 text, which tell apart what happened within a millisecond."""
    return (_in_utc(_read(text), text, zone) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _read(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ValueError(f"{text!r} is no ISO 8601 time, such as 2026-03-01T12:00:00+00:00") from error


def _ms(moment: datetime, text: str, zone: ZoneInfo | None) -> int:
    return round(_in_utc(moment, text, zone).timestamp() * 1000)


def _in_utc(moment: datetime, text: str, zone: ZoneInfo | None) -> datetime:
    if moment.tzinfo is None:
        if zone is None:
            raise ValueError(f"{text!r} has no time zone: name the zone of such times, as time_zone='Europe/London'")
        local, moment = moment, moment.replace(tzinfo=zone)
        if moment.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != local:
            raise ValueError(f"{text!r} is a time that the clocks of {zone.key} left out")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:  # in UTC the first or the last day has another year
        raise ValueError(f"{text!r} is outside of the years 1 to 9999") from error


def of_format(text: str, form: str, zone: ZoneInfo | None = None) -> int:
    """Return milliseconds of a text in a format of ``strptime``.

    Raises
    ------
    ValueError
        Not written so, or without a zone where none is given.
    """
    try:
        moment = datetime.strptime(text.strip(), form)  # noqa: DTZ007  its zone is asked for below
    except ValueError as error:
        raise ValueError(f"{text!r} is not written as {form!r}") from error
    return _ms(moment, text, zone)


def zone_of(name: str | None) -> ZoneInfo | None:
    """Return an IANA time zone.

    Raises
    ------
    SourceError
        No zone of that name.
    """
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        near = sorted(zone for zone in available_timezones() if zone.rpartition("/")[2].lower() == name.lower())
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise SourceError(f"unknown time zone {name!r}: use an IANA name as in 'Europe/London'{meant}") from error
