"""Checks of arguments by value."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

from clvlab.errors import PackFormatError


def value_text(value: object) -> str:
    """Return a value as text for an error message; a frame or another long value is named by its class only."""
    text = repr(value).partition("; next: ")[0][:80]
    return f"a {type(value).__module__.partition('.')[0]} {type(value).__name__}" if "\n" in text else text


def fixture_ids_argument(fixtures: Any) -> tuple[int, ...] | None:
    """Return fixture ids, which may be whole numbers of any library, as a tuple of int; `None` means all."""
    if fixtures is None:
        return None
    if isinstance(fixtures, str | bytes | Mapping) or not isinstance(fixtures, Iterable):
        meant = f": write fixtures=[{fixtures!s}]" if _is_whole(fixtures) else ""
        raise PackFormatError(f"fixtures are a list of fixture ids, not {value_text(fixtures)}{meant}")
    chosen = tuple(fixtures)
    strange = [one for one in chosen if not _is_whole(one)]
    if strange:
        number = str(strange[0])
        meant = f": write {number} without quotes" if isinstance(strange[0], str) and number.isdecimal() else ""
        raise PackFormatError(f"a fixture is named by its id, a whole number, not {value_text(strange[0])}{meant}")
    if not chosen:
        raise PackFormatError("name at least one fixture, or omit fixtures= for all")
    return tuple(operator.index(one) for one in chosen)


def _is_whole(value: Any) -> bool:
    return not isinstance(value, bool) and hasattr(value, "__index__")
