"""Markets of two sources as one: what a market is about, and which of its sides is which."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from clvlab.packs.matching.names import folded, likeness

_ALIKE = 0.85
_LINE = re.compile(r"(?:line|point|handicap|total)=([+-]?\d+(?:\.\d+)?)")
_WINNER = ("1x2_participant_result", "h2h", "winner", "match_odds", "moneyline", "1x2", "match_winner", "result")
_TOTAL = ("overunder_participant_goals", "totals", "total", "over_under", "ou")
_HANDICAP = ("asianhandicap_participant_goals", "spreads", "spread", "asian_handicap", "handicap")
_KINDS = {name: kind for kind, names in (("winner", _WINNER), ("total", _TOTAL), ("handicap", _HANDICAP)) for name in names}
_BINARY = {"yes", "no"}


class Role(StrEnum):
    """What a side stands for."""

    HOME = "home"
    DRAW = "draw"
    AWAY = "away"
    OVER = "over"
    UNDER = "under"


_ROLES = {
    "part1": Role.HOME, "home": Role.HOME, "1": Role.HOME, "h": Role.HOME,
    "draw": Role.DRAW, "x": Role.DRAW, "tie": Role.DRAW, "the draw": Role.DRAW, "d": Role.DRAW,
    "part2": Role.AWAY, "away": Role.AWAY, "2": Role.AWAY, "a": Role.AWAY,
    "over": Role.OVER, "o": Role.OVER, "under": Role.UNDER, "u": Role.UNDER,
}  # fmt: skip
_OTHER = {Role.HOME: Role.AWAY, Role.AWAY: Role.HOME}


@dataclass(frozen=True, slots=True)
class Market:
    """A market whose sides are understood.

    Attributes
    ----------
    key
        As its source writes it.
    about
        Kind, period and line, which are those of the same market elsewhere.
    sides
        Role of each side that stands for one.
    no
        The side that says that its role does not come, where it asks about one role with yes and no.
    """

    key: str
    about: tuple[str, str, float | None]
    sides: tuple[tuple[str, Role], ...]
    no: str | None = None

    @property
    def roles(self) -> frozenset[Role]:
        return frozenset(role for _, role in self.sides)

    def turned(self) -> Market:
        """Return it with home and away changed, as it stands where the teams do."""
        kind, period, line = self.about
        about = (kind, period, -line if kind == "handicap" and line else line)
        return Market(self.key, about, tuple((side, _OTHER.get(role, role)) for side, role in self.sides), self.no)


def market_of(key: str, sides: Iterable[str], teams: Sequence[str]) -> Market | None:
    """Return what a market is; null where its sides can't be told apart.

    Parameters
    ----------
    key
        ``TYPE|PERIOD|PARAMETERS``.
    sides
        Its sides.
    teams
        Names of home and away, by which sides may be called.

    Examples
    --------
    >>> market_of("totals||point=2.5", ["over", "under"], []).about
    ('total', '', 2.5)
    >>> market_of("winner_home||", ["yes", "no"], []).sides
    (('yes', <Role.HOME: 'home'>),)
    """
    kind, period, parameters = (*key.split("|", 2), "", "")[:3]
    named = sorted(sides)
    if set(map(str.casefold, named)) == _BINARY:
        return _binary(key, kind, period, named, teams)
    roles = [_role(side, teams) for side in named]
    found = [(side, role) for side, role in zip(named, roles, strict=True) if role is not None]
    if len(found) < len(named) or len({role for _, role in found}) < len(found):
        return None
    line = _LINE.search(parameters)
    about = (_KINDS.get(kind.casefold(), kind), period.casefold(), float(line[1]) if line else None)
    return Market(key, about, tuple(found))


def _binary(key: str, kind: str, period: str, sides: Sequence[str], teams: Sequence[str]) -> Market | None:
    """Return a market of yes and no, if its name says which role it asks about."""
    words = re.split(r"[^a-z0-9]+", kind.casefold())
    asked = {_ROLES[word] for word in words if word in _ROLES} - {Role.OVER, Role.UNDER}
    if not asked and len(teams) == 2:
        team = " ".join(word for word in folded(kind) if word not in ("winner", "h2h", "will", "win", "result", "match", "1x2"))
        asked = {role for role in (_role(team, teams),) if role is not None}
    if len(asked) != 1:
        return None
    no, yes = sorted(sides, key=str.casefold)
    return Market(key, ("winner", period.casefold(), None), ((yes, next(iter(asked))),), no)


def _role(side: str, teams: Sequence[str]) -> Role | None:
    known = _ROLES.get(side.casefold())
    if known is not None or len(teams) != 2:
        return known
    scores = [likeness(side, team) for team in teams]
    if max(scores) < _ALIKE or abs(scores[0] - scores[1]) < 1 - _ALIKE:
        return None
    return Role.HOME if scores[0] > scores[1] else Role.AWAY
