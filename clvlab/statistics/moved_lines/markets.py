"""Lines that markets price: their own, or the handicaps that a result is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from clvlab.law.markets import Kind, Market, Role

_MOST_GOALS_QUARTERS = 40

FIRST_ROLES: Mapping[Kind, tuple[Role, Role]] = {
    Kind.HANDICAP: (Role.HOME, Role.AWAY),
    Kind.TOTAL: (Role.OVER, Role.UNDER),
}
"""The sides of a line, the one first whose probability a ``Quote`` has."""


@dataclass(frozen=True, slots=True)
class Quote:
    """A line that is priced.

    Attributes
    ----------
    kind, quarters
        Handicap or total, and its line times four.
    prob
        Probability of home or over among the stakes that are not returned, 0 to 1.
    market_key
        Where it is quoted.
    is_derived
        The market is a result, which is some handicaps too.
    """

    kind: Kind
    quarters: int
    prob: float
    market_key: str
    is_derived: bool = False


def quotes_of(market: Market, prob_bps: Mapping[Role, int | None]) -> Iterator[Quote]:
    """Return the lines that a market prices: its own, or the handicaps that a result is.

    A home win is a handicap of -0.5, an away win the other side of +0.5, and without the draw a handicap of 0.

    Examples
    --------
    >>> for quote in quotes_of(Market.parse("h2h||"), {Role.HOME: 5000, Role.DRAW: 3000, Role.AWAY: 2000}):
    ...     print(quote.quarters, round(quote.prob, 4))
    -2 0.5
    0 0.7143
    2 0.8
    """
    first, second = FIRST_ROLES.get(market.kind, FIRST_ROLES[Kind.HANDICAP])
    wins, losses, draw = prob_bps.get(first), prob_bps.get(second), prob_bps.get(Role.DRAW)
    known = {first, second} | ({Role.DRAW} if market.kind is Kind.RESULT else set())
    if wins is None or losses is None or wins + losses <= 0 or not known.issuperset(prob_bps):
        return
    if market.kind is not Kind.RESULT:
        yield Quote(market.kind, market.quarters, wins / (wins + losses), market.key)
        return
    if draw is not None:
        yield Quote(Kind.HANDICAP, -2, wins / (wins + losses + draw), market.key, is_derived=True)
    yield Quote(Kind.HANDICAP, 0, wins / (wins + losses), market.key, is_derived=True)
    if draw is not None:
        yield Quote(Kind.HANDICAP, 2, (wins + draw) / (wins + losses + draw), market.key, is_derived=True)


def scored_by_goals(markets: Iterable[tuple[Market, bool]]) -> bool:
    """Whether goals are counted: a key says so, or a result can be a draw and no total is above ten.

    Parameters
    ----------
    markets
        The markets of one fixture and period, and whether each has a draw among its sides.
    """
    listed = list(markets)
    if any(market.goals for market, _ in listed):
        return True
    totals = [market.quarters for market, _ in listed if market.kind is Kind.TOTAL]
    return any(draw for _, draw in listed) and max(totals, default=0) <= _MOST_GOALS_QUARTERS
