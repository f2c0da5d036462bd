"""Conversion of times from sources and users to UTC milliseconds. A time without a zone needs a named zone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from clvlab.errors import SourceError

LAST_MS = 253_402_300_799_999  # the end of the year 9999
_MS_FROM = 100_000_000_000  # as seconds this is in the year 5138, as milliseconds in 1973
_IN_NAME = re.compile(r"(\d{4}-\d\d-\d\d)[T_](\d\d)[:-]?(\d\d)[:-]?(\d\d)(Z|[+-]\d\d:?\d\d)")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?\s*([AaPp][Mm])?")
_NUMBER = re.compile(r"\d+(\.\d+)?")
_FREE_CLOCK = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p", "%I:%M%p")
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Span:
    """A stated kickoff, from one moment to another. If it has a time of day, both moments are the same."""

    first_ms: int
    last_ms: int

    def is_within_a_day(self, ts_ms: int) -> bool:
        return self.first_ms - _DAY_MS <= ts_ms <= self.last_ms + _DAY_MS


def time_in_name(name: str) -> int | None:
    """Return the time in a file's name, or ``None``.

    Examples
    --------
    >>> time_in_name("worldcup_2026-07-04T113035+0000.json.gz"), time_in_name("worldcup.json")
    (1783164635000, None)
    """
    written = _IN_NAME.search(name)
    return None if written is None else time_ms("{}T{}:{}:{}{}".format(*written.groups()))


def time_ms(value: object, zone: ZoneInfo | None = None) -> int:
    """Return UTC milliseconds of ISO 8601 or unix (milli)seconds; ``ValueError`` for another text or a missing zone."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is not a time")
    return of_iso(value, zone) if isinstance(value, str) else of_unix(value)


def of_unix(value: float) -> int:
    """Return milliseconds of a unix time, in seconds below 10^11 and in milliseconds from there."""
    found = value if value >= _MS_FROM else value * 1000
    if not 0 <= found <= LAST_MS:
        raise ValueError(f"{value!r} is not a unix time")
    return round(found)


def of_iso(text: str, zone: ZoneInfo | None = None) -> int:
    return _ms(iso_moment(text.strip()), text, zone)


def micros_of_iso(text: str, zone: ZoneInfo | None = None) -> int:
    """Return microseconds of an ISO 8601 text. They order events within a millisecond."""
    return (_in_utc(iso_moment(text.strip()), text, zone) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def iso_moment(text: str) -> datetime:
    """Read an ISO 8601 text, with or without a zone."""
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not an ISO 8601 time, such as 2026-03-01T12:00:00+00:00") from error


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
    """Return milliseconds of a text in a format of ``strptime``; ``ValueError`` for another text or a missing zone."""
    return _ms(_by_form(text, form), text, zone)


def _by_form(text: str, form: str) -> datetime:
    moment = by_forms(text.strip(), form)
    if moment is None:
        raise ValueError(f"{text!r} is not written as {form!r}")
    return moment


def by_forms(text: str, *forms: str) -> datetime | None:
    """Read a text in the first format of ``strptime`` that it fits; ``None`` if it fits no format.

    Examples
    --------
    >>> by_forms("1.3.26", "%d/%m/%Y", "%d.%m.%y"), by_forms("1.3.26", "%H:%M")
    (datetime.datetime(2026, 3, 1, 0, 0), None)
    """
    for form in forms:
        with suppress(ValueError):
            return datetime.strptime(text, form)  # noqa: DTZ007  the caller adds the zone
    return None


def zone_of(name: str | None) -> ZoneInfo | None:
    """Return an IANA time zone; ``SourceError`` for an unknown name."""
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        near = sorted(zone for zone in available_timezones() if zone.rpartition("/")[2].lower() == name.lower())
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise SourceError(f"unknown time zone {name!r}: use an IANA name as in 'Europe/London'{meant}") from error


def moments_of(
    cells: Sequence[str | None], zone: ZoneInfo | None, form: str | None, name: str
) -> tuple[list[int | None], list[str | None]]:
    """Return UTC milliseconds of each time, and the reason why a time can't be read.

    Cells are ISO 8601, unix seconds or milliseconds, or in the format ``form`` of ``strptime``. ``zone`` is for times without
    a zone, and ``name`` is the name of the cells in errors. ``SourceError`` for a time without any zone.
    """
    read: list[int | None] = []
    reasons: list[str | None] = []
    for number, cell in enumerate(cells):
        text = (cell or "").strip()
        if zone is None and _is_local(text, form):
            raise SourceError(
                f"{name} {text!r} of row {number + 1} has no time zone, and an hour more or less is another price: name the "
                "zone of such times, as time_zone='Europe/London'"
            )
        try:
            read.append(_moment(text, zone, form))
            reasons.append(None)
        except ValueError as error:
            read.append(None)
            reasons.append(str(error))
    return read, reasons


def days_of(cells: Sequence[str | None], zone: ZoneInfo | None, form: str | None) -> list[Span | None]:
    """Return the stated kickoff of each match; ``None`` if it can't be read. A kickoff without a time spans its whole day.

    A kickoff without a zone spans every moment that has this time in some zone.
    """
    return [_span((cell or "").strip(), zone, form) for cell in cells]


def with_clocks(days: Sequence[str | None], clocks: Sequence[str | None] | None) -> list[str | None]:
    if clocks is None:
        return list(days)
    return [f"{day} {_as_24h(clock.strip())}" if day and clock else day for day, clock in zip(days, clocks, strict=True)]


def are_clocks(cells: Sequence[str | None]) -> bool:
    texts = [cell.strip() for cell in cells if cell and cell.strip()]
    return bool(texts) and all(_CLOCK.fullmatch(cell) for cell in texts)


def check_form(form: object) -> None:
    if form is None:
        return
    if not isinstance(form, str) or "%" not in form:
        raise SourceError(f"time_format is written as strptime takes it, such as '%d/%m/%Y %H:%M', not {form!r:.80}")
    try:
        datetime.strptime(datetime(2026, 1, 2, tzinfo=UTC).strftime(form), form)  # noqa: DTZ007 - only whether it can be read
    except ValueError as error:
        raise SourceError(f"time_format {form!r:.80} can't be used: {error}") from error


def _moment(text: str, zone: ZoneInfo | None, form: str | None) -> int:
    if not text:
        raise ValueError("there is no time")
    if form is not None:
        text = _by_form(text, form).isoformat()
    elif _NUMBER.fullmatch(text):
        return time_ms(float(text) if "." in text else int(text))
    elif _DAY.fullmatch(text):
        raise ValueError(f"{text!r} is a day without a time, and prices change within a day")
    try:
        return micros_of_iso(text, zone) // 1000  # never later than the bet
    except ValueError as error:
        if form is None and not text[:4].isdecimal():
            advice = "say how times are written, as time_format='%d/%m/%Y %H:%M'"
            raise ValueError(f"{text!r:.80} is not an ISO 8601 time: {advice}") from error
        raise


def _is_local(text: str, form: str | None = None) -> bool:
    try:
        moment = _by_form(text, form) if form is not None else iso_moment(text)
    except ValueError:
        return False
    return moment.tzinfo is None and not (form is None and (_DAY.fullmatch(text) or _NUMBER.fullmatch(text)))


def _span(text: str, zone: ZoneInfo | None, form: str | None) -> Span | None:
    day = _day(text, form)
    if day is not None:
        start = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)
        return Span(start, start + _DAY_MS - 1)
    with suppress(ValueError):  # a kickoff and the time of the bet may be written differently
        text = _by_form(text, form).isoformat() if form is not None else text
    try:
        if zone is None and _is_local(text):
            at = time_ms(text, ZoneInfo("UTC"))
            return Span(at - _DAY_MS // 2, at + _DAY_MS // 2)
        at = time_ms(float(text) if _NUMBER.fullmatch(text) else text, zone)
    except ValueError:
        return None
    return Span(at, at)


def _day(text: str, form: str | None) -> date | None:
    """Read a day alone, in ISO 8601 or the date part of ``form``; ``None`` for anything else."""
    days = [part for part in (form or "").replace("T", " ").split(" ") if "%d" in part and "%H" not in part]
    found = by_forms(text, "%Y-%m-%d", *days)
    return None if found is None else found.date()


def _as_24h(clock: str) -> str:
    found = by_forms(clock, *_FREE_CLOCK)
    return clock if found is None else found.time().isoformat()
