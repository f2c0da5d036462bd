"""How outcomes, points and sports of The Odds API become sides, market keys and leagues."""

from __future__ import annotations

import math

from clvlab.packs.manifest import MAX_LEAGUE


def side_of(outcome: str, home: str, away: str) -> str:
    """``part1`` for the home team, ``part2`` for the away team, else the outcome's name in small letters."""
    if outcome == home:
        return "part1"
    return "part2" if outcome == away else outcome.lower()


def is_spread(market: str) -> bool:
    """Whether the points of a market's sides are opposite."""
    return "spread" in market


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
    return (-point if is_spread(market) and side == "part2" else point) + 0.0  # no negative zero


def market_key_of(market: str, point: float | None, description: str | None = None) -> str:
    """Return ``TYPE||PARAMETERS``: the point belongs to the market, as in ``totals||point=2.5``.

    Examples
    --------
    >>> market_key_of("spreads", -1.5), market_key_of("h2h", None)
    ('spreads||point=-1.5', 'h2h||')
    """
    about = [f"of={description}"] if description else []
    return f"{market}||" + "|".join([*about, *([] if point is None else [f"point={point:g}"])])


def league_named(sport_key: str | None) -> str | None:
    """Return the league of an event: its ``sport_key``, which names sport and competition, as ``soccer_epl``; null without one.

    Raises
    ------
    ValueError
        A text that is too long for a pack.
    """
    if sport_key and len(sport_key) > MAX_LEAGUE:
        raise ValueError(f"sport_key {sport_key!r:.80} has {len(sport_key):,} letters, a league has {MAX_LEAGUE} at most")
    return sport_key or None
