"""What market keys say of lines: the kind of bet, the period of play, and the line; the one place that knows their forms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from re import compile as pattern

_MOST_GOALS_QUARTERS = 40
_TYPE = pattern(r"(alternate_)?(h2h|spreads|totals)(_(?:[hqp]\d|1st_\d_innings))?")
_PARAMETER = pattern(r"(?:line|point)=([+-]?\d{1,5}(?:\.\d{1,4})?)")


class Kind(StrEnum):
    """What is bet on."""

    RESULT = "result"
    HANDICAP = "handicap"
    TOTAL = "total"


FIRST_SIDES: Mapping[Kind, tuple[str, str]] = {Kind.HANDICAP: ("part1", "part2"), Kind.TOTAL: ("over", "under")}
"""The sides of a line, the one first whose probability a ``Quote`` has."""

_KINDS = {
    "1X2_PARTICIPANT_RESULT": Kind.RESULT,
    "ASIANHANDICAP_PARTICIPANT_GOALS": Kind.HANDICAP,
    "OVERUNDER_PARTICIPANT_GOALS": Kind.TOTAL,
    "h2h": Kind.RESULT,
    "spreads": Kind.HANDICAP,
    "totals": Kind.TOTAL,
}


@dataclass(frozen=True, slots=True)
class LineMarket:
    """What a market key says.

    Attributes
    ----------
    kind
        Result, handicap or total.
    period
        The part of play, as the source names it; empty for all of it.
    quarters
        The line times four, of a handicap that of ``part1``; 0 of a result.
    goals
        The key itself says that goals are counted.
    """

    kind: Kind
    period: str
    quarters: int
    goals: bool


def line_market(market_key: str) -> LineMarket | None:
    """Read a market key; null where it is of no form that is known, or its line is no multiple of a quarter.

    Examples
    --------
    >>> line_market("ASIANHANDICAP_PARTICIPANT_GOALS|half=1|line=-0.75")
    LineMarket(kind=<Kind.HANDICAP: 'handicap'>, period='half=1', quarters=-3, goals=True)
    >>> line_market("alternate_totals||point=8.5").quarters, line_market("h2h_h1||").period, line_market("corners||point=8.5")
    (34, 'h1', None)
    """
    parts = market_key.split("|")
    if len(parts) != 3:
        return None
    name, period, parameters = parts
    source = _TYPE.fullmatch(name)
    if source:
        name, period = source[2], period or (source[3] or "")[1:]
    kind, line = _KINDS.get(name), _PARAMETER.fullmatch(parameters)
    if kind is None or (parameters if kind is Kind.RESULT else line is None):
        return None
    quarters = Decimal(line[1] if line else 0) * 4
    if quarters != int(quarters):
        return None
    return LineMarket(kind, period, int(quarters), name.endswith("_GOALS"))


@dataclass(frozen=True, slots=True)
class Quote:
    """A line that is priced.

    Attributes
    ----------
    kind, quarters
        Handicap or total, and its line times four.
    prob
        Probability of ``part1`` or ``over`` among the stakes that are not returned, 0 to 1.
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


def quotes_of(market_key: str, market: LineMarket, prob_bps: Mapping[str, int | None]) -> Iterator[Quote]:
    """Return the lines that a market prices: its own, or the handicaps that a result is.

    A home win is a handicap of -0.5, an away win the other side of +0.5, and without the draw a handicap of 0.

    Examples
    --------
    >>> key = "1X2_PARTICIPANT_RESULT||"
    >>> for quote in quotes_of(key, line_market(key), {"part1": 5000, "draw": 3000, "part2": 2000}):
    ...     print(quote.quarters, round(quote.prob, 4))
    -2 0.5
    0 0.7143
    2 0.8
    """
    first, second = FIRST_SIDES.get(market.kind, FIRST_SIDES[Kind.HANDICAP])
    wins, losses, draw = prob_bps.get(first), prob_bps.get(second), prob_bps.get("draw")
    known = {first, second} | ({"draw"} if market.kind is Kind.RESULT else set())
    if wins is None or losses is None or wins + losses <= 0 or not known.issuperset(prob_bps):
        return
    if market.kind is not Kind.RESULT:
        yield Quote(market.kind, market.quarters, wins / (wins + losses), market_key)
        return
    if draw is not None:
        yield Quote(Kind.HANDICAP, -2, wins / (wins + losses + draw), market_key, is_derived=True)
    yield Quote(Kind.HANDICAP, 0, wins / (wins + losses), market_key, is_derived=True)
    if draw is not None:
        yield Quote(Kind.HANDICAP, 2, (wins + draw) / (wins + losses + draw), market_key, is_derived=True)


def scored_by_goals(markets: Iterable[tuple[LineMarket, bool]]) -> bool:
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
