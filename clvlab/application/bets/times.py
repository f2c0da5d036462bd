"""Times of bets and of matches: with their zone, or in one that is named; a day alone is no time of a bet."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from clvlab.errors import SourceError
from clvlab.packs.importers.times import micros_of_iso, time_ms

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?\s*([AaPp][Mm])?")
_NUMBER = re.compile(r"\d+(\.\d+)?")
_FREE_CLOCK = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p", "%I:%M%p")
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Span:
    """A kickoff as a record tells it: from one moment to another, the same where it tells the time."""

    first_ms: int
    last_ms: int

    def is_within_a_day(self, ts_ms: int) -> bool:
        """Whether a moment is at most a day away."""
        return self.first_ms - _DAY_MS <= ts_ms <= self.last_ms + _DAY_MS


def moments_of(
    cells: Sequence[str | None], zone: ZoneInfo | None, form: str | None, name: str
) -> tuple[list[int | None], list[str | None]]:
    """Return UTC milliseconds of each time, and why one can't be read.

    Parameters
    ----------
    cells
        ISO 8601, unix seconds or milliseconds, or as ``form`` says.
    zone
        Of times that carry none.
    form
        As ``strptime`` takes it, such as ``%d/%m/%Y %H:%M``; null for ISO 8601 and unix times.
    name
        What the cells are called in messages.

    Raises
    ------
    SourceError
        A time without a zone, and no zone for it.
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
    """Return when each match was to begin, a whole day where only that is told; null where it can't be read.

    A kickoff without a zone spans the moments at which it is that time somewhere.
    """
    return [_span((cell or "").strip(), zone, form) for cell in cells]


def joined(days: Sequence[str | None], clocks: Sequence[str | None] | None) -> list[str | None]:
    """Put days and times of day that stand in two columns together."""
    if clocks is None:
        return list(days)
    return [f"{day} {_as_24h(clock.strip())}" if day and clock else day for day, clock in zip(days, clocks, strict=True)]


def is_clock(cells: Sequence[str | None]) -> bool:
    """Whether cells hold times of day, and no days."""
    told = [cell.strip() for cell in cells if cell and cell.strip()]
    return bool(told) and all(_CLOCK.fullmatch(cell) for cell in told)


def check_form(form: object) -> None:
    """Refuse a form of times that none can be read by.

    Raises
    ------
    SourceError
    """
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
        text = _by_form(text, form)
    elif _NUMBER.fullmatch(text):
        return time_ms(float(text) if "." in text else int(text))
    elif _DAY.fullmatch(text):
        raise ValueError(f"{text!r} is a day without a time, and prices change within a day")
    try:
        return micros_of_iso(text, zone) // 1000  # never later than the bet
    except ValueError as error:
        if form is None and not text[:4].isdecimal():
            said = "say how times are written, as time_format='%d/%m/%Y %H:%M'"
            raise ValueError(f"{text!r:.80} is no ISO 8601 time: {said}") from error
        raise


def _by_form(text: str, form: str) -> str:
    try:
        return datetime.strptime(text, form).isoformat()  # noqa: DTZ007 - a zone is asked for afterwards
    except ValueError as error:
        raise ValueError(f"{text!r} is not written as {form!r}") from error


def _is_local(text: str, form: str | None = None) -> bool:
    """Whether a text is a time of a day without a zone."""
    try:
        moment = datetime.fromisoformat(_by_form(text, form) if form is not None else text)
    except ValueError:
        return False
    return moment.tzinfo is None and not (form is None and (_DAY.fullmatch(text) or _NUMBER.fullmatch(text)))


def _span(text: str, zone: ZoneInfo | None, form: str | None) -> Span | None:
    day = _day(text, form)
    if day is not None:
        start = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)
        return Span(start, start + _DAY_MS - 1)
    with suppress(ValueError):  # a kickoff may be written otherwise than the time of the bet
        text = _by_form(text, form) if form is not None else text
    try:
        if zone is None and _is_local(text):
            at = time_ms(text, ZoneInfo("UTC"))
            return Span(at - _DAY_MS // 2, at + _DAY_MS // 2)
        at = time_ms(float(text) if _NUMBER.fullmatch(text) else text, zone)
    except ValueError:
        return None
    return Span(at, at)


def _day(text: str, form: str | None) -> date | None:
    """Read a day alone, written as ISO 8601 has it or as the days in a form of times; null where it is none."""
    days = [part for part in (form or "").replace("T", " ").split(" ") if "%d" in part and "%H" not in part]
    for one in ("%Y-%m-%d", *days):
        try:
            return datetime.strptime(text, one).date()  # noqa: DTZ007 - a day has no zone
        except ValueError:
            continue
    return None


def _as_24h(clock: str) -> str:
    for form in _FREE_CLOCK:
        try:
            return datetime.strptime(clock, form).time().isoformat()  # noqa: DTZ007 - a time of day alone
        except ValueError:
            continue
    return clock
