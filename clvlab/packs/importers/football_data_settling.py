"""How bets on football are settled by the score."""

from __future__ import annotations

from clvlab.law.markets import Kind, Market, UnreadKey
from clvlab.packs.results import Settled

_OPPOSITE = {
    Settled.WON: Settled.LOST,
    Settled.HALF_WON: Settled.HALF_LOST,
    Settled.VOID: Settled.VOID,
    Settled.HALF_LOST: Settled.HALF_WON,
    Settled.LOST: Settled.WON,
}


def settled(market: Market | UnreadKey, home: int, away: int) -> dict[str, Settled]:
    """Settle the sides of a market by the goals of a match; nothing of one that is not read, or about anything else than these.

    Examples
    --------
    >>> settled(Market.parse("OVER_UNDER_25||"), 2, 1)["over"].value, settled(Market.parse("totals_h1||point=2.5"), 2, 1)
    ('won', {})
    """
    if isinstance(market, UnreadKey) or any(market.scope):
        return {}
    if market.line is None:
        return result_1x2(home - away)
    return totals(home + away, market.line) if market.kind is Kind.TOTAL else handicap(home - away, market.line)


def result_1x2(lead: int) -> dict[str, Settled]:
    """Settle home win, draw and away win by the home team's lead."""
    won = "part1" if lead > 0 else "part2" if lead < 0 else "draw"
    return {side: Settled.WON if side == won else Settled.LOST for side in ("part1", "draw", "part2")}


def totals(goals: int, line: float) -> dict[str, Settled]:
    """Settle over and under."""
    over = _by_margin(goals - line)
    return {"over": over, "under": _OPPOSITE[over]}


def handicap(lead: int, line: float) -> dict[str, Settled]:
    """Settle an Asian handicap, the line being the home team's; quarter lines halve the stake.

    Examples
    --------
    >>> handicap(0, -0.25)["part1"].value, handicap(1, -1.0)["part2"].value
    ('half_lost', 'void')
    """
    home = _by_margin(lead + line)
    return {"part1": home, "part2": _OPPOSITE[home]}


def _by_margin(margin: float) -> Settled:
    if margin == 0:
        return Settled.VOID
    if abs(margin) < 0.5:
        return Settled.HALF_WON if margin > 0 else Settled.HALF_LOST
    return Settled.WON if margin > 0 else Settled.LOST
