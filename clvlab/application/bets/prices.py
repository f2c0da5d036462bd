"""Prices as people write them: decimal, American and fractional beside each other, as far as each says which it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from clvlab.errors import OddsError
from clvlab.law.schema import ODDS_MILLI
from clvlab.naming import did_you_mean
from clvlab.odds.formats import OddsFormat, decimal_odds

_NUMBER = re.compile(r"[+-]?\s?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]{1,2}|[0-9]{1,2},[0-9]{3}")  # of thousands is one with a sign: American odds
_FRACTION = re.compile(r"[0-9]+\s?/\s?[0-9]+|evens|even|evs", re.IGNORECASE)
_LEAST_AMERICAN = 100


def odds_milli_of(cells: Sequence[str | None], written: str | None = None) -> list[int | None]:
    """Return decimal odds x 1000 of each cell; null where it holds no price.

    A cell mostly says which format it is in: a number with a sign, from 100 on, is American; a fraction is fractional; a number
    above 1 and below 100 is decimal, and so is one with a fraction. A whole number of 100 or more without a sign may be
    either. It is American where the others are, all of them, and else what ``written`` says.

    Parameters
    ----------
    cells
        Text as it stands in the file.
    written
        ``decimal`` or ``american``, for cells that do not say which they are; ``fractional`` or ``probability``, for all.

    Raises
    ------
    OddsError
        A price that could be in two formats; the message names it, and the argument that decides.

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
    """Refuse a format that there is not.

    Raises
    ------
    OddsError
    """
    if written is not None and written not in list(OddsFormat):
        meant = did_you_mean(written, OddsFormat)
        raise OddsError(f"unknown odds format {written!r:.80}: use one of {', '.join(OddsFormat)}{meant}")


def _tidy(cell: str | None) -> str | None:
    text = (cell or "").strip().lstrip("@").strip().replace("\u2212", "-").replace("\u2013", "-")
    return text.replace(",", ".") if _COMMA.fullmatch(text) else text or None


def _forms(texts: Sequence[str | None], written: str | None) -> list[OddsFormat | None]:
    """Return the format of each price; null of what is no price."""
    found = [_form(text) for text in texts]
    signed = OddsFormat.AMERICAN in found
    unsigned = [number for number, text in enumerate(texts) if text is not None and found[number] is None and _is_open(text)]
    if unsigned and written is None and (not signed or OddsFormat.DECIMAL in found):
        row = unsigned[0]
        raise OddsError(
            f"price {texts[row]!r} of row {row + 1} may be American or decimal{_beside(found)}: say odds_format='american' or "
            "odds_format='decimal', or write American odds with their sign"
        )
    for number in unsigned:
        found[number] = OddsFormat(written or OddsFormat.AMERICAN)
    return found


def _form(text: str | None) -> OddsFormat | None:
    """Return the format that a price can only be in; null where it may be in two, or in none."""
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
    """Whether a price without a sign may be American, as whole numbers may be, or decimal."""
    if not _NUMBER.fullmatch(text) or text[0] in "+-":
        return False
    number = float(text)
    return number >= _LEAST_AMERICAN and number.is_integer()


def _beside(found: Iterable[OddsFormat | None]) -> str:
    others = sorted({str(form) for form in found if form is not None})
    return f", beside {' and '.join(others)} ones" if others else ""


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
    milli = round(odds * 1000) if odds == odds else 0  # NaN is not itself
    return milli if ODDS_MILLI[0] <= milli <= ODDS_MILLI[1] else None
