"""Prices, results and stakes as users write them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal

from clvlab.base.names import did_you_mean
from clvlab.errors import OddsError, SourceError
from clvlab.law.schema import ODDS_MILLI, SAFE_INTEGER
from clvlab.odds.formats import OddsFormat, decimal_odds
from clvlab.packs.rows import Payout

# Users may mix decimal, American and fractional prices if each price shows its format.


_NUMBER = re.compile(r"[+-]?\s?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]{1,2}|[0-9]{1,2},[0-9]{3}")  # a decimal comma; in +1,200 it marks thousands
_FRACTION = re.compile(r"[0-9]+\s?/\s?[0-9]+|evens|even|evs", re.IGNORECASE)
_LEAST_AMERICAN = 100


def odds_milli_of(cells: Sequence[str | None], written: str | None = None) -> list[int | None]:
    """Return decimal odds x 1000 of each cell; ``None`` if it is not a price.

    A number with a sign, from 100 on, is American; a fraction is fractional; a number above 1 and below 100, or with decimals,
    is decimal. A whole number of 100 or more without a sign is American if all other prices are; otherwise ``written`` decides.
    ``fractional`` and ``probability`` apply to all cells. ``OddsError`` for a price that may be in two formats.

    Examples
    --------
    >>> odds_milli_of(["2.5", "+150", "-110", "5/2", "2,10", "void", None])
    [2500, 2500, 1909, 3500, 2100, None, None]
    >>> odds_milli_of(["150", "-200"])
    [2500, 1500]
    """
    check_format(written)
    texts = [_tidy(cell) for cell in cells]
    if written in (OddsFormat.FRACTIONAL, OddsFormat.PROBABILITY):
        forms: list[OddsFormat | None] = [OddsFormat(written)] * len(texts)
    else:
        forms = _forms(texts, written)
    return [_milli(text, form) for text, form in zip(texts, forms, strict=True)]


def check_format(written: object) -> None:
    if written is not None and written not in list(OddsFormat):
        meant = did_you_mean(written, OddsFormat)
        raise OddsError(f"unknown odds format {written!r:.80}: use one of {', '.join(OddsFormat)}{meant}")


def _tidy(cell: str | None) -> str | None:
    text = (cell or "").strip().lstrip("@").strip().replace("\u2212", "-").replace("\u2013", "-")
    return text.replace(",", ".") if _COMMA.fullmatch(text) else text or None


def _forms(texts: Sequence[str | None], written: str | None) -> list[OddsFormat | None]:
    found = [_form(text) for text in texts]
    signed = OddsFormat.AMERICAN in found
    unsigned = [number for number, text in enumerate(texts) if text is not None and found[number] is None and _is_open(text)]
    if unsigned and written is None and (not signed or OddsFormat.DECIMAL in found):
        row = unsigned[0]
        raise OddsError(
            f"price {texts[row]!r} of row {row + 1} may be American or decimal{_other_formats(found)}: say "
            "odds_format='american' or odds_format='decimal', or write American odds with their sign"
        )
    for number in unsigned:
        found[number] = OddsFormat(written or OddsFormat.AMERICAN)
    return found


def _form(text: str | None) -> OddsFormat | None:
    """Return the only format that a price can be in; ``None`` where it may be in two, or in no format."""
    if text is None:
        return None
    if _FRACTION.fullmatch(text):
        return OddsFormat.FRACTIONAL
    if not _NUMBER.fullmatch(text):
        return None
    number = float(text.replace(" ", ""))
    if text[0] in "+-":
        return OddsFormat.AMERICAN if abs(number) >= _LEAST_AMERICAN else None
    return OddsFormat.DECIMAL if number > 1 and not _is_open(text) else None


def _is_open(text: str) -> bool:
    """Return whether a price may be American or decimal, as whole numbers without a sign may be."""
    if not _NUMBER.fullmatch(text) or text[0] in "+-":
        return False
    number = float(text)
    return number >= _LEAST_AMERICAN and number.is_integer()


def _other_formats(found: Iterable[OddsFormat | None]) -> str:
    others = sorted({str(form) for form in found if form is not None})
    return f", and also {' and '.join(others)} ones" if others else ""


def _milli(text: str | None, form: OddsFormat | None) -> int | None:
    if text is None or form is None:
        return None
    if form is OddsFormat.FRACTIONAL:
        plain: str | float = text.replace(" ", "")
    elif _NUMBER.fullmatch(text):
        plain = float(text.replace(" ", ""))
    else:
        return None
    odds = float(decimal_odds([plain], form)[0])
    milli = round(odds * 1000) if odds == odds else 0  # NaN differs from itself
    return milli if ODDS_MILLI[0] <= milli <= ODDS_MILLI[1] else None


# Usual words for a settled bet.


_USUAL = {
    Payout.WON: "won win w winner",
    Payout.HALF_WON: "halfwon halfwin hw",
    Payout.VOID: "void voided push pushed refund refunded cancelled canceled",
    Payout.HALF_LOST: "halflost halfloss halflose hl",
    Payout.LOST: "lost lose loss l loser",
}
_RESULTS = {name: settled for settled, names in _USUAL.items() for name in names.split()}


def result_of(cell: str | None) -> Payout | None:
    """Return how a bet was settled; ``None`` where it is not stated, or can't be read.

    Examples
    --------
    >>> result_of("Won"), result_of("half-lost"), result_of("2-1")
    (<Payout.WON: 'won'>, <Payout.HALF_LOST: 'half_lost'>, None)
    """
    plain = "".join(letter for letter in (cell or "").lower() if letter.isalnum())
    return _RESULTS.get(plain)


CENTS = 100  # per unit of the stakes' currency
_SIGNS = {"£": "GBP", "€": "EUR", "$": "USD", "US$": "USD", "¥": "JPY", "₹": "INR", "₿": "BTC", "₽": "RUB", "zł": "PLN"}
_SHAPE = re.compile(r"(?P<before>[^\d.,+-]*)(?P<number>[\d.,'\u00a0\u202f ]*\d)\s*(?P<after>[^\d.,]*)")
_CODE = re.compile(r"[^\W\d_]{2,5}\$?|[A-Z]?\$|[uU£€¥₹₿₽]")
_UNITS = ("U", "UNIT", "UNITS", "PT", "PTS")  # of stakes without a currency


def cents_of(cells: Sequence[str | None]) -> list[int | None]:
    """Return each stake in cents, half up, ``None`` if it is not a positive amount; ``SourceError`` for two currencies.

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
        currencies = f"{one} (row {row + 1}: {cells[row]!r}) and in {other} (row {later + 1}: {cells[later]!r})"
        raise SourceError(
            f"stakes are in {currencies}, and have no sum: write them in one currency, or say columns={{'stake': None}}, "
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
    """Read a number, whose marks are commas or points.

    With both kinds, the last mark begins the fraction. Marks of one kind group thousands if three digits follow each.
    """
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
