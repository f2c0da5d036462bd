"""ISO 8601 durations of a fixed length."""

from __future__ import annotations

import re

from clvlab.errors import WindowError

_FORM = re.compile(r"P(?:(\d{1,9})W|(?=\d|T\d)(?:(\d{1,9})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})S)?)?)")
_UNITS_S = (7 * 86_400, 86_400, 3_600, 60, 1)


def duration_s_of(text: str) -> int:
    """Return a duration in seconds.

    Parameters
    ----------
    text
        Weeks, or days to seconds, in whole numbers: ``P1W``, ``PT90M``, ``P1DT12H``.

    Raises
    ------
    WindowError
        Another form, years or months (which have no fixed length), or a length of zero.

    References
    ----------
    ISO 8601-1:2019, 5.5.2.

    Examples
    --------
    >>> duration_s_of("PT1H30M")
    5400
    """
    found = _FORM.fullmatch(text) if text.isascii() else None
    seconds = sum(int(number) * unit for number, unit in zip(found.groups(), _UNITS_S, strict=True) if number) if found else 0
    if found is None or text.endswith("T") or seconds == 0:
        raise WindowError(f"{text!r} is no ISO 8601 duration of weeks to seconds, such as PT90M or P1DT12H")
    return seconds
