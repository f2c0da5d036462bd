"""How outcomes and points of The Odds API become sides and market keys."""

from __future__ import annotations

import math

from clvlab.law.markets import may_be_handicap, spelled_key


def side_of(outcome: str, home: str, away: str) -> str:
    """``part1`` for the home team, ``part2`` for the away team, else the outcome's name in small letters."""
    if outcome == home:
        return "part1"
    return "part2" if outcome == away else outcome.lower()


def home_point(market: str, side: str, point: float | None) -> float | None:
    """Return the point that all sides of a market share: of a spread the home team's.

    Raises
    ------
    ValueError
        A point that is no number.
    """
    if point is None:
        return None
    if isinstance(point, bool) or not isinstance(point, int | float) or not math.isfinite(point):
        raise ValueError(f"point {point!r} is no number")
    return (-point if may_be_handicap(market) and side == "part2" else point) + 0.0  # no negative zero


def market_key_of(market: str, point: float | None, description: str | None = None) -> str:
    """Return ``TYPE||PARAMETERS``: the point belongs to the market, as in ``totals||point=2.5``.

    Examples
    --------
    >>> market_key_of("spreads", -1.5), market_key_of("h2h", None)
    ('spreads||point=-1.5', 'h2h||')
    """
    return spelled_key(market, of=description or None, point=point)
