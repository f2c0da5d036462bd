"""Stakes as people write them, in cents: with a currency in front or behind, and with either way to group digits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal

from clvlab.errors import SourceError
from clvlab.law.schema import SAFE_INTEGER

CENTS = 100  # of one unit of whatever the stakes are in
_SIGNS = {"£": "GBP", "€": "EUR", "$": "USD", "US$": "USD", "¥": "JPY", "₹": "INR", "₿": "BTC", "₽": "RUB", "zł": "PLN"}
_SHAPE = re.compile(r"(?P<before>[^\d.,+-]*)(?P<number>[\d.,'\u00a0\u202f ]*\d)\s*(?P<after>[^\d.,]*)")
_CODE = re.compile(r"[^\W\d_]{2,5}\$?|[A-Z]?\$|[uU£€¥₹₿₽]")
_UNITS = ("U", "UNIT", "UNITS", "PT", "PTS")  # stakes that are in no currency


def cents_of(cells: Sequence[str | None]) -> list[int | None]:
    """Return each stake in cents, half up; null of what is no positive amount.

    Raises
    ------
    SourceError
        Stakes in two currencies, which no sum has.

    Examples
    --------
    >>> cents_of(["£10", "1,234.50 GBP", "1.234,50", "10,5", "7.005", "-3", "", None])
    [1000, 123450, 123450, 1050, 701, None, None, None]
    """
    first: dict[str, int] = {}
    amounts: list[int | None] = []
    for number, cell in enumerate(cells):
        amount, currency = _read(cell)
        amounts.append(amount)
        if amount is not None and currency is not None:
            first.setdefault(currency, number)
    if len(first) > 1:
        (one, row), (other, later) = list(first.items())[:2]
        said = f"{one} (row {row + 1}: {cells[row]!r}) and in {other} (row {later + 1}: {cells[later]!r})"
        raise SourceError(
            f"stakes are in {said}, and have no sum: write them in one currency, or say columns={{'stake': None}}, "
            "which puts one unit on each bet"
        )
    return amounts


def _read(cell: str | None) -> tuple[int | None, str | None]:
    found = _SHAPE.fullmatch((cell or "").strip())
    if found is None:
        return None, None
    marks = [mark for mark in (found["before"].strip(), found["after"].strip()) if mark]
    if len(marks) > 1 or not all(_CODE.fullmatch(mark) for mark in marks):
        return None, None
    amount = _amount(found["number"])
    if amount is None:
        return None, None
    cents = int((amount * CENTS).to_integral_value(ROUND_HALF_UP))
    if not 1 <= cents <= SAFE_INTEGER:
        return None, None
    named = marks[0].upper() if marks else None
    return cents, None if named in _UNITS else _SIGNS.get(marks[0], named) if marks else None


def _amount(text: str) -> Decimal | None:
    """Read a number: of two kinds of marks the last one parts the fraction; one kind groups where three digits follow each."""
    plain = re.sub(r"['\u00a0\u202f ](?=\d{3}(?!\d))", "", text)
    if {",", "."} <= set(plain):
        group = "," if plain.rindex(".") > plain.rindex(",") else "."
        whole, mark, fraction = plain.rpartition("." if group == "," else ",")
        if not re.fullmatch(rf"\d{{1,3}}(\{group}\d{{3}})+", whole):
            return None
        plain = f"{whole.replace(group, '')}.{fraction}" if mark else plain
    elif re.fullmatch(r"\d{1,3}(,\d{3})+", plain) or re.fullmatch(r"\d{1,3}(\.\d{3}){2,}", plain):
        plain = plain.replace(",", "").replace(".", "")
    else:
        plain = plain.replace(",", ".")
    return Decimal(plain) if re.fullmatch(r"\d{1,15}(\.\d*)?|\.\d+", plain) else None
