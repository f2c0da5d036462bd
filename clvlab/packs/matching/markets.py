"""Markets of two sources as one: what a market is about, and which of its sides is which."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from clvlab.market_keys import Kind, MarketKey, Role, UnreadKey, read_market, role_of
from clvlab.packs.matching.names import folded, likeness

MATCHING_VERSION = "2"
"""By which rules markets and fixtures of two sources are matched."""
MATCHING_VERSIONS = ("1", MATCHING_VERSION)
"""All by which sources were ever joined: a join stays what it was when its runs were made."""

_ALIKE = 0.85
_BINARY = {"yes", "no"}
_ASKING = {"winner", "h2h", "will", "win", "wins", "result", "match", "1x2", "moneyline"}
_WINNERS = (Role.HOME, Role.DRAW, Role.AWAY)
_OTHER = {Role.HOME: Role.AWAY, Role.AWAY: Role.HOME}
_LINE_1 = re.compile(r"(?:line|point|handicap|total)=([+-]?\d+(?:\.\d+)?)")
_KINDS_1 = {
    name: kind
    for kind, names in (
        ("winner", "1x2_participant_result h2h winner match_odds moneyline 1x2 match_winner result"),
        ("total", "overunder_participant_goals totals total over_under ou"),
        ("handicap", "asianhandicap_participant_goals spreads spread asian_handicap handicap"),
    )
    for name in names.split()
}

About = tuple[str, float | None, tuple[str, ...]]
"""Kind and line of a market, and its scope: period, what is counted, and whose."""


@dataclass(frozen=True, slots=True)
class Market:
    """A market whose sides are understood.

    Attributes
    ----------
    key
        As its source writes it.
    about
        What is bet on, which is that of the same market elsewhere.
    sides
        Role of each side that stands for one.
    no
        The side that says that its role does not come, where it asks about one role with yes and no.
    alternate
        Whether its line stands beside a main one.
    """

    key: str
    about: About
    sides: tuple[tuple[str, Role], ...]
    no: str | None = None
    alternate: bool = False

    @property
    def roles(self) -> frozenset[Role]:
        return frozenset(role for _, role in self.sides)

    def turned(self) -> Market:
        """Return it with home and away changed, as it stands where the teams do."""
        kind, line, scope = self.about
        about = (kind, -line if kind == Kind.HANDICAP and line else line, scope)
        return replace(self, about=about, sides=tuple((side, _OTHER.get(role, role)) for side, role in self.sides))


def market_of(key: str, sides: Iterable[str], teams: Sequence[str], version: str = MATCHING_VERSION) -> Market | None:
    """Return what a market is; null where its key is not read, or its sides can't be told apart.

    Parameters
    ----------
    key
        ``TYPE|PERIOD|PARAMETERS``.
    sides
        Its sides.
    teams
        Names of home and away, by which sides may be called.
    version
        Of the rules; the first took a key that it did not know for the same market as an equal one.

    Examples
    --------
    >>> ours, theirs = (market_of(key, ["over", "under"], []) for key in ("totals||point=2.5", "OVER_UNDER_25||"))
    >>> ours.about == theirs.about
    True
    >>> market_of("winner_home||", ["yes", "no"], []).sides
    (('yes', <Role.HOME: 'home'>),)
    """
    named = sorted(sides)
    if set(map(str.casefold, named)) == _BINARY:
        return _binary(key, named, teams, version)
    read = None if version == "1" else read_market(key)
    if isinstance(read, UnreadKey):
        return None
    roles = [_role(side, teams, read) for side in named]
    found = [(side, role) for side, role in zip(named, roles, strict=True) if role is not None]
    if len(found) < len(named) or len({role for _, role in found}) < len(found):
        return None
    return (
        Market(key, _about(read), tuple(found), alternate=read.alternate) if read else Market(key, _about_1(key), tuple(found))
    )


def _binary(key: str, sides: Sequence[str], teams: Sequence[str], version: str) -> Market | None:
    """Return a market of yes and no, if its name says which role it asks about."""
    kind, bar, rest = key.partition("|")
    winner = f"winner{bar}{rest}"
    if version == "1":
        asked, about = _asked_1(kind, teams), _about_1("|".join(winner.split("|")[:2]))
    else:
        read = read_market(winner)
        if isinstance(read, UnreadKey):
            return None
        asked, about = _asked(kind, teams), _about(read)
    no, yes = sorted(sides, key=str.casefold)
    return Market(key, about, ((yes, next(iter(asked))),), no) if len(asked) == 1 else None


def _asked(kind: str, teams: Sequence[str]) -> set[Role]:
    """Return whom a name asks about that says nothing else: ``home_clean_sheet`` is not about who wins."""
    words = [word for word in folded(kind) if word not in _ASKING]
    role = role_of(words[0]) if len(words) == 1 and len(words[0]) > 1 else None
    if role is None and words and (role := _role(" ".join(words), teams)) is not None:
        team = teams[0 if role is Role.HOME else 1]
        told = all(any(likeness(word, own) >= _ALIKE for own in folded(team)) for word in words)
        role = role if told or likeness(" ".join(words), team) == 1 else None
    return {one for one in (role,) if one in _WINNERS}


def _asked_1(kind: str, teams: Sequence[str]) -> set[Role]:
    found = {role_of(word) for word in re.split(r"[^a-z0-9]+", kind.casefold())} & set(_WINNERS)
    if found or len(teams) != 2:
        return {role for role in found if role}
    team = " ".join(word for word in folded(kind) if word not in _ASKING - {"wins", "moneyline"})
    return {role for role in (_role(team, teams),) if role is not None}


def _about(read: MarketKey) -> About:
    return read.kind, read.line, read.scope


def _about_1(key: str) -> About:
    kind, period, parameters = (*key.split("|", 2), "", "")[:3]
    line = _LINE_1.search(parameters)
    return _KINDS_1.get(kind.casefold(), kind), float(line[1]) if line else None, (period.casefold(),)


def _role(side: str, teams: Sequence[str], market: MarketKey | None = None) -> Role | None:
    known = role_of(side, market)
    if known is not None or len(teams) != 2 or (market is not None and market.kind is Kind.TOTAL):
        return known
    scores = [likeness(side, team) for team in teams]
    if max(scores) < _ALIKE or abs(scores[0] - scores[1]) < 1 - _ALIKE:
        return None
    return Role.HOME if scores[0] > scores[1] else Role.AWAY
