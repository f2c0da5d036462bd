"""How numbers, times and names of others are written on a page."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from typing import Any

from markupsafe import Markup

from clvlab import words

_HIDDEN = ("Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp")  # categories of Unicode that show nothing, or turn what is beside them
_KEPT = "\n\t"
_ABSENT = "–"


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


def signed(number: float | None, digits: int = 1) -> str | None:
    """Write a number with its sign, as ``words.signed`` does."""
    return None if number is None else words.signed(number, digits)


def moment(ts_ms: int | None) -> Markup | None:
    """Write milliseconds since 1970 as a time that machines read too; the number itself where no calendar reaches."""
    if ts_ms is None:
        return None
    found, said = words.utc(ts_ms), words.moment(ts_ms)
    if found is None:
        return Markup.escape(said)
    machine = found.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Markup('<time datetime="{}">{}</time>').format(machine, said)


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
    return None if key is None else words.market_name(key)


FILTERS = {
    "count": words.count,
    "market": market,
    "moment": moment,
    "odds": words.odds,
    "paired": paired,
    "percent": words.percent,
    "signed": signed,
    "span": words.span_by_units,
    "spelled": spelled,
}
"""What templates write figures with."""
