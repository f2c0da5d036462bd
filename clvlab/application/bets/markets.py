"""Which market and side of a fixture a bet names: by their keys, or by usual names that fit exactly one of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from clvlab.application.bets.fixtures import NoMatch, folded
from clvlab.application.sheets.wording import market_name
from clvlab.naming import nearest

Markets = Mapping[str, Sequence[str]]  # sides by market key

_RESULT = ("1X2_PARTICIPANT_RESULT", "h2h", "MATCH_ODDS", "1X2", "WINNER", "moneyline")
_TOTALS = ("OVERUNDER_PARTICIPANT_GOALS", "totals")
# Usual names, folded: the types of markets that go by them, and how many sides those have, where the name says it. Handicaps
# are not among them: whose line it is, none says. Nor is a moneyline of two sides taken for a result of three.
_USUAL: Mapping[str, tuple[Sequence[str], int | None]] = {
    name: (types, sides)
    for types, sides, names in (
        (_RESULT, None, "match result|match odds|full time result|full time|result|winner|match winner|h2h|to win|ft result"),
        (_RESULT, 3, "1x2|win draw win|3 way|three way"),
        (_RESULT, 2, "moneyline|money line|ml|head to head|2 way|two way"),
        (_TOTALS, 2, "over under|o u|totals|total|total goals|goals over under|over under goals|total points|total runs"),
    )
    for name in names.split("|")
}
_LINE = re.compile(r"^(.*?[^\d.-])[(\s]*(\d+(?:\.\d+)?)\s*\)?\s*(?:goals|points|runs)?$", re.IGNORECASE)
_POINT = re.compile(r"(?:line|point)=(-?\d+(?:\.\d+)?)")
_SIDES: Mapping[str, Sequence[str]] = {
    name: sides
    for names, sides in (
        ("home|1|h|part1|team1", ("part1", "home")),
        ("away|2|a|part2|team2", ("part2", "away")),
        ("draw|x|d|tie", ("draw",)),
        ("over|o", ("over",)),
        ("under|u", ("under",)),
        ("yes|y", ("yes",)),
        ("no|n", ("no",)),
    )
    for name in names.split("|")
}
_SHOWN = 6


def position_of(market: str, side: str, markets: Markets, teams: tuple[str, str] | None) -> tuple[str, str] | NoMatch:
    """Return market key and side, or why there is none.

    Parameters
    ----------
    market, side
        As the bet names them: keys of the pack, or usual names; a line may stand behind either (``Over 2.5``).
    markets
        Of the fixture.
    teams
        Whose names stand for ``part1`` or ``home``, and ``part2`` or ``away``.

    Examples
    --------
    >>> markets = {"1X2_PARTICIPANT_RESULT||": ("draw", "part1", "part2"), "totals||point=2.5": ("over", "under")}
    >>> position_of("Match Odds", "Elm", markets, ("Oak", "Elm"))
    ('1X2_PARTICIPANT_RESULT||', 'part2')
    >>> position_of("Over/Under", "Over 2.5", markets, None)
    ('totals||point=2.5', 'over')
    >>> position_of("Over/Under 3.5", "over", markets, None).reason
    'market_unknown'
    """
    line = _line_of(side)
    found = _markets_of(market, line, markets)
    if len(found) > 1:
        return NoMatch("market_ambiguous", f"{market!r:.120} fits several markets: {_listed(found)}")
    if not found:
        meant = nearest(market, markets)
        near = f" (is it {meant!r}?)" if meant else ""
        said = f"{market!r:.120} names no market of the fixture{near}: lines and handicaps go by their keys, as in"
        return NoMatch("market_unknown", f"{said} {_listed(list(markets))}")
    sides = markets[found[0]]
    own = _sides_of(side, found[0], sides, teams)
    if len(own) != 1:
        kind = "side_ambiguous" if own else "side_unknown"
        said = "fits several sides" if own else "is no side"
        return NoMatch(kind, f"{side!r:.120} {said} of {found[0]!r}, which has: {_listed(sides)}")
    return found[0], own[0]


def _markets_of(market: str, line: float | None, markets: Markets) -> list[str]:
    """Return the markets that a name fits: its key, what people call it, its type, or a usual name with its line."""
    if market in markets:
        return [market]
    plain = _plain_key(market)
    same = [key for key in markets if _plain_key(key) == plain]
    if same:
        return same
    # Of a handicap nobody can say whose line it is: it goes by its key alone.
    named = [key for key in markets if not _is_handicap(key)]
    for name_of in (market_name, _type_of):
        found = [key for key in named if _plain_key(name_of(key)) == plain]
        if found:
            return _on_line(found, line, is_named=name_of is market_name)
    usual = _USUAL.get(folded(market))
    if usual is None and (parts := _LINE.match(market)):
        usual = _USUAL.get(folded(parts[1]))
        if line is not None and line != float(parts[2]):
            return []
        line = float(parts[2])
    if usual is None:
        return []
    types, sides = {one.casefold() for one in usual[0]}, usual[1]
    fitting = [key for key in named if _type_of(key).casefold() in types and not _period(key)]
    return _on_line([key for key in fitting if sides in (None, len(markets[key]))], line)


def _on_line(found: list[str], line: float | None, *, is_named: bool = False) -> list[str]:
    """Keep the markets on the line that is told; of markets with lines none is meant where no line is."""
    lined = {key: float(point[1]) for key in found if (point := _POINT.search(key))}
    if not lined or (is_named and line is None):
        return found
    return [key for key in found if lined.get(key) == line]


def _sides_of(side: str, market: str, sides: Sequence[str], teams: tuple[str, str] | None) -> list[str]:
    if side in sides:
        return [side]
    plain = folded(side)
    same = [one for one in sides if _plain_key(one) == _plain_key(side)]
    if same:
        return same
    ours = (("part1", "home"), ("part2", "away"))
    found = [known for team, known in zip(teams or (), ours, strict=False) if folded(team) == plain]
    names = [name for known in found for name in known] or list(_SIDES.get(_plain_key(side), ()))
    line, point = _line_of(side), _POINT.search(market)
    if not names and line is not None and point is not None and float(point[1]) == line:
        names = list(_SIDES[folded(side.rpartition(" ")[0])])
    return [one for one in sides if one in names]


def _line_of(side: str) -> float | None:
    """Return the line behind over or under; null where there is none."""
    name, _, number = side.strip().rpartition(" ")
    is_total = set(_SIDES.get(folded(name), ())) & {"over", "under"}
    return float(number) if is_total and re.fullmatch(r"\d+(\.\d+)?", number) else None


def _type_of(key: str) -> str:
    return key.partition("|")[0]


def _is_handicap(key: str) -> bool:
    return any(word in _type_of(key).lower() for word in ("handicap", "spread"))


def _period(key: str) -> str:
    return (*key.split("|"), "", "")[1]


@lru_cache(maxsize=10_000)  # of the same keys every bet asks again
def _plain_key(name: str) -> str:
    """Fold a name of a market, but for the sign of its line: -0.5 and 0.5 are two markets."""
    return folded(re.sub(r"([+-])(?=\d)", _signed, name.replace("_", " ")))


def _signed(sign: re.Match[str]) -> str:
    return " minus " if sign[1] == "-" else " plus "


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(repr(name) for name in names[:_SHOWN]) + more
