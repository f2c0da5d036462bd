"""Matching of markets of two sources: the subject of a market, and the roles of its sides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from clvlab.law.markets import Market, MarketKind, Role, UnreadKey, key_parts, role_of
from clvlab.packs.matching.names import likeness, words_of

MATCHING_VERSION = "2"
"""Version of the rules by which markets and fixtures of two sources are matched."""
MATCHING_VERSIONS = ("1", MATCHING_VERSION)
"""All versions so far: a join keeps the rules under which its runs were made."""

_ALIKE = 0.85
_BINARY = {"yes", "no"}
_WINNER_WORDS = {"winner", "h2h", "will", "win", "wins", "result", "match", "1x2", "moneyline"}
_WINNERS = (Role.HOME, Role.DRAW, Role.AWAY)
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


def market_of(key: str, sides: Iterable[str], teams: Sequence[str], version: str = MATCHING_VERSION) -> Market | None:
    """Return the market of a key; ``None`` where the key is not read, or its sides can't be told apart.

    ``teams`` are the names of home and away, which sides can have too. Version 1 matched an unknown key with an equal key.

    Examples
    --------
    >>> ours, theirs = (market_of(key, ["over", "under"], []) for key in ("totals||point=2.5", "OVER_UNDER_25||"))
    >>> ours.about == theirs.about
    True
    >>> market_of("winner_home||", ["yes", "no"], []).sides
    (('yes', <Role.HOME: 'home'>),)
    """
    sorted_sides = sorted(sides)
    if set(map(str.casefold, sorted_sides)) == _BINARY:
        return _binary(key, sorted_sides, teams, version)
    market = _market_1(key) if version == "1" else Market.parse(key)
    if isinstance(market, UnreadKey):
        return None
    roles = [_role(side, teams, None if version == "1" else market) for side in sorted_sides]
    found = tuple((side, role) for side, role in zip(sorted_sides, roles, strict=True) if role is not None)
    if len(found) < len(sorted_sides) or len({role for _, role in found}) < len(found):
        return None
    return replace(market, sides=found)


def _binary(key: str, sides: Sequence[str], teams: Sequence[str], version: str) -> Market | None:
    kind, period, _ = key_parts(key)
    roles = (_winner_roles_1 if version == "1" else _winner_roles)(kind, teams)
    market = _market_1(f"winner|{period}") if version == "1" else Market.parse(f"winner{key.removeprefix(kind)}")
    if isinstance(market, UnreadKey) or len(roles) != 1:
        return None
    no, yes = sorted(sides, key=str.casefold)
    return replace(market, key=key, sides=((yes, next(iter(roles))),), no=no)


def _winner_roles(kind: str, teams: Sequence[str]) -> set[Role]:
    """Return the roles of a name without further words: ``home_clean_sheet`` is not about the winner."""
    words = [word for word in words_of(kind) if word not in _WINNER_WORDS]
    role = role_of(words[0]) if len(words) == 1 and len(words[0]) > 1 else None
    if role is None and words and (role := _role(" ".join(words), teams)) is not None:
        team = teams[0 if role is Role.HOME else 1]
        is_alike = all(any(likeness(word, own) >= _ALIKE for own in words_of(team)) for word in words)
        role = role if is_alike or likeness(" ".join(words), team) == 1 else None
    return {one for one in (role,) if one in _WINNERS}


def _winner_roles_1(kind: str, teams: Sequence[str]) -> set[Role]:
    found = {role_of(word) for word in re.split(r"[^a-z0-9]+", kind.casefold())} & set(_WINNERS)
    if found or len(teams) != 2:
        return {role for role in found if role}
    team = " ".join(word for word in words_of(kind) if word not in _WINNER_WORDS - {"wins", "moneyline"})
    return {role for role in (_role(team, teams),) if role is not None}


def _market_1(key: str) -> Market:
    """Return a market by version 1, in which keys match only if their words are equal; later versions compare the subject."""
    kind, period, parameters = key_parts(key)
    line, word = _LINE_1.search(parameters), _KINDS_1.get(kind.casefold(), kind)
    market_kind = MarketKind.HANDICAP if word == MarketKind.HANDICAP else MarketKind.TOTAL
    return Market(key, market_kind, period.casefold(), float(line[1]) if line else None, stat=word)


def _role(side: str, teams: Sequence[str], market: Market | None = None) -> Role | None:
    known = role_of(side, market)
    if known is not None or len(teams) != 2 or (market is not None and market.kind is MarketKind.TOTAL):
        return known
    scores = [likeness(side, team) for team in teams]
    if max(scores) < _ALIKE or abs(scores[0] - scores[1]) < 1 - _ALIKE:
        return None
    return Role.HOME if scores[0] > scores[1] else Role.AWAY
