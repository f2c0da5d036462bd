"""How numbers, times and names of others are written on a page."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from clvlab.application.sheets.wording import market_name

_HIDDEN = ("Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp")  # categories of Unicode that show nothing, or turn what is beside them
_KEPT = "\n\t"
_ABSENT = "–"
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def visible(value: Any) -> Any:
    r"""Return text in which nothing hides: letters that turn a line around or show nothing stand as their code point.

    Examples
    --------
    >>> visible("safe\u202egnp.exe"), visible(None), visible(7)
    ('safe[U+202E]gnp.exe', '–', 7)
    """
    if value is None:
        return _ABSENT
    if isinstance(value, Markup) or not isinstance(value, str) or (value.isascii() and value.isprintable()):
        return value
    return "".join(map(_shown, value))


def _shown(letter: str) -> str:
    hidden = letter not in _KEPT and unicodedata.category(letter) in _HIDDEN
    return f"[U+{ord(letter):04X}]" if hidden else letter


def count(number: int | None) -> str | None:
    """Write a number with its thousands apart."""
    return None if number is None else f"{number:,}"


def decimal(number: float | None, digits: int = 2) -> str | None:
    """Write a number with some decimals."""
    return None if number is None else f"{number:,.{digits}f}"


def signed(number: float | None, digits: int = 1) -> str | None:
    """Write a number with its sign; zero has none, however it came about."""
    if number is None:
        return None
    return f"{number:+,.{digits}f}" if round(number, digits) else f"{0:.{digits}f}"


def percent(bps: int | None) -> str | None:
    """Write basis points of probability as percent.

    Examples
    --------
    >>> percent(5430)
    '54.30 %'
    """
    return None if bps is None else f"{bps / 100:.2f} %"


def odds(milli: int | None) -> str | None:
    """Write decimal odds that are given in thousandths."""
    return None if milli is None else f"{milli / 1000:.3f}"


def moment(ts_ms: int | None) -> Markup | None:
    """Write milliseconds since 1970 as a time that machines read too; the number itself where no calendar reaches."""
    if ts_ms is None:
        return None
    try:
        found = datetime.fromtimestamp(ts_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return Markup("{} ms").format(ts_ms)
    return Markup('<time datetime="{}">{}</time>').format(
        found.isoformat(timespec="milliseconds").replace("+00:00", "Z"), f"{found:%Y-%m-%d %H:%M:%S} UTC"
    )


def span(length_ms: int | None) -> str | None:
    """Write a length of time by its two largest units.

    Examples
    --------
    >>> span(3_725_000), span(999)
    ('1 h 2 min', '0 s')
    """
    if length_ms is None:
        return None
    said, rest = [], abs(length_ms)
    for size, unit in _UNITS:
        number, rest = divmod(rest, size)
        if number:
            said.append(f"{number:,} {unit}")
    return ("-" if length_ms < 0 else "") + (" ".join(said[:2]) or "0 s")


def spelled(value: Any) -> str:
    """Write a value as JSON, for people."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def paired(names: Iterable[Any]) -> list[tuple[str, str]]:
    """Return each name with what it is called: itself."""
    return [(str(name), str(name).replace("_", " ").lower()) for name in names]


def market(key: str | None) -> str | None:
    """Return what people call a market; nothing of an action that names none.

    Examples
    --------
    >>> market("OVERUNDER_PARTICIPANT_GOALS||line=2.5"), market(None)
    ('Over/Under 2.5 goals', None)
    """
    return None if key is None else market_name(key)


FILTERS = {
    "count": count,
    "decimal": decimal,
    "market": market,
    "moment": moment,
    "odds": odds,
    "paired": paired,
    "percent": percent,
    "signed": signed,
    "span": span,
    "spelled": spelled,
}
"""What templates write figures with."""
