"""Formulas of a regression: a response and terms from a closed list of columns, parsed here and never evaluated as code.

```text
formula  = name "~" term { "+" term }
term     = factor { ":" factor }
factor   = name | "log" "(" name ")"
```

There is always an intercept. The order of factors in a term does not matter, and a repeated term counts once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from clvlab.base.names import did_you_mean
from clvlab.errors import StatisticsError

MOST_LETTERS, MOST_TERMS, MOST_FACTORS = 500, 12, 3
_TOKENS = re.compile(r"\s*(?:([A-Za-z_][A-Za-z_0-9]*)|([~+:()])|(\S))")


@dataclass(frozen=True, slots=True, order=True)
class Factor:
    """A column, or its natural logarithm."""

    name: str
    is_log: bool = False

    def __str__(self) -> str:
        return f"log({self.name})" if self.is_log else self.name


Term = tuple[Factor, ...]


@dataclass(frozen=True, slots=True)
class Formula:
    """A response, and terms in their order; each term has its factors in the order of the formula."""

    response: str
    terms: tuple[Term, ...]

    def __str__(self) -> str:
        return f"{self.response} ~ {' + '.join(':'.join(map(str, term)) for term in self.terms)}"

    @property
    def factors(self) -> tuple[Factor, ...]:
        """Every factor once, in order."""
        return tuple(dict.fromkeys(factor for term in self.terms for factor in term))


def parse_formula(text: object, responses: Collection[str], numbers: Collection[str], categories: Collection[str]) -> Formula:
    """Return the formula of a text.

    Parameters
    ----------
    text
        As ``clv_bps ~ log(to_close_s) + league``.
    responses, numbers, categories
        Names that may stand before ``~``, and after it; only a number has a logarithm.

    Raises
    ------
    StatisticsError
        The text is no formula, has an unknown name, or is too long.

    Examples
    --------
    >>> found = parse_formula("clv_bps ~ log(stake):side + side", ["clv_bps"], ["stake"], ["side"])
    >>> str(found), found.factors
    ('clv_bps ~ log(stake):side + side', (Factor(name='stake', is_log=True), Factor(name='side', is_log=False)))
    >>> parse_formula("clv_bps ~ legue", ["clv_bps"], ["stake"], ["league"])
    Traceback (most recent call last):
        ...
    clvlab.errors.StatisticsError: a formula has no column 'legue': did you mean 'league'? It has: stake, league
    """
    if not isinstance(text, str):
        raise StatisticsError(f"a formula is a text, as 'clv_bps ~ log(to_close_s) + league', not {text!r:.80}")
    if len(text) > MOST_LETTERS:
        raise StatisticsError(f"a formula has at most {MOST_LETTERS} letters, and this one has {len(text):,}")
    return _Parser(text, responses, numbers, categories).formula()


class _Parser:
    """The tokens of a formula that are left, and the names that it may have."""

    def __init__(self, text: str, responses: Collection[str], numbers: Collection[str], categories: Collection[str]) -> None:
        self._text, self._responses, self._numbers, self._categories = text, responses, numbers, categories
        self._left = list(self._tokens())

    def formula(self) -> Formula:
        response = self._name(self._responses, "response")
        self._take("~")
        terms = [self._term()]
        while self._left:
            self._take("+")
            terms.append(self._term())
            if len(terms) > MOST_TERMS:
                raise StatisticsError(f"a formula has at most {MOST_TERMS} terms: {self._text!r:.80} has more")
        unique: dict[frozenset[Factor], Term] = {}
        for term in terms:
            unique.setdefault(frozenset(term), term)
        return Formula(response, tuple(unique.values()))

    def _term(self) -> Term:
        factors = [self._factor()]
        while self._left[:1] == [":"]:
            self._take(":")
            factors.append(self._factor())
        if len(factors) > MOST_FACTORS:
            raise StatisticsError(
                f"a term has at most {MOST_FACTORS} factors, not {len(factors)}, as {':'.join(map(str, factors))}"
            )
        return tuple(dict.fromkeys(factors))

    def _factor(self) -> Factor:
        if self._left[:2] != ["log", "("]:
            return Factor(self._name([*self._numbers, *self._categories], "column"))
        self._take("log")
        self._take("(")
        name = self._name([*self._numbers, *self._categories], "column")
        if name not in self._numbers:
            raise StatisticsError(f"log() takes a number, and {name!r} is a category: write {name} without it")
        self._take(")")
        return Factor(name, is_log=True)

    def _name(self, known: Collection[str], kind: str) -> str:
        found = self._left.pop(0) if self._left else ""
        if found in known:
            return found
        if not found.isidentifier():
            raise self._error(found, f"the name of a {kind}")
        meant = did_you_mean(found, known)
        raise StatisticsError(
            f"a formula has no {kind} {found!r:.80}{f'{meant} It' if meant else '; it'} has: {', '.join(known)}"
        )

    def _take(self, wanted: str) -> None:
        found = self._left.pop(0) if self._left else ""
        if found != wanted:
            raise self._error(found, repr(wanted))

    def _error(self, found: str, wanted: str) -> StatisticsError:
        where = f"{found!r} stands" if found else "it ends"
        return StatisticsError(
            f"{self._text!r:.100} is not a formula: {where} where {wanted} should; a formula is as 'clv_bps ~ log(to_close_s) "
            "+ league', of columns, log(), + and :"
        )

    def _tokens(self) -> Iterator[str]:
        for match in _TOKENS.finditer(self._text):
            if match[3]:
                raise StatisticsError(f"a formula has columns, log(), + and :, not {match[3]!r}, as in {self._text!r:.100}")
            yield match[1] or match[2]
