"""Canonical JSON: one byte string per value, on every machine and in every language.

The form is RFC 8785 restricted to ASCII keys, integers within 2**53 - 1 and no floats. Under these restrictions sorting keys
by byte equals the RFC's sorting by UTF-16 unit, and number formatting is trivial.
"""

from __future__ import annotations

import hashlib
import re
from decimal import Decimal
from typing import Any, TypeAlias

import orjson

from clvlab.errors import EvidenceError
from clvlab.law.schema import SAFE_INTEGER

JsonObject: TypeAlias = dict[str, Any]
"""An object as read, with unchecked keys and values."""

HASH = re.compile(r"sha256:[0-9a-f]{64}")


def sha256(data: bytes) -> str:
    """Return the hash of bytes as ``sha256:<hex>``."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def canonical(value: Any) -> bytes:
    """Return the canonical bytes of a value, without a line end; ``EvidenceError`` if it has no canonical form.

    Examples
    --------
    >>> canonical({"b": [1, None], "a": "é"}).decode()
    '{"a":"é","b":[1,null]}'
    """
    try:
        _check(value)
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, RecursionError) as error:
        raise EvidenceError(f"not canonical: {error}") from error


def parsed(line: bytes) -> Any:
    """Read a canonical value; ``EvidenceError`` unless the bytes are the canonical form of their value."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise EvidenceError(f"no JSON: {error}") from error
    if canonical(value) != line:
        raise EvidenceError("not canonical: other bytes say the same value")
    return value


def decimal_text(number: float) -> str:
    """Return a finite float as its shortest round-trip decimal, without an exponent.

    Examples
    --------
    >>> decimal_text(0.4), decimal_text(1e-7), decimal_text(2.0)
    ('0.4', '0.0000001', '2')
    """
    exact = Decimal(repr(float(number)))  # the repr of a NumPy float includes its type
    if not exact.is_finite():
        raise EvidenceError(f"a sealed number must be finite, not {number!r}")
    text = f"{exact:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def without_floats(value: Any) -> Any:
    if isinstance(value, float):
        return decimal_text(value)
    if isinstance(value, dict):
        return {key: without_floats(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_floats(item) for item in value]
    return value


def _check(value: Any) -> None:
    match value:
        case None | bool() | str():
            return
        case int():
            if not -SAFE_INTEGER <= value <= SAFE_INTEGER:
                raise EvidenceError(f"integer beyond 2**53 - 1: {value}")
        case dict():
            for key, item in value.items():
                if not isinstance(key, str) or not key.isascii():
                    raise EvidenceError(f"a key must be an ASCII string, not {key!r}")
                _check(item)
        case list() | tuple():
            for item in value:
                _check(item)
        case _:
            raise EvidenceError(f"{type(value).__name__} has no canonical form: {value!r}")
