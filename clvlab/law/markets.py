"""Meaning of market keys as sources write them. Only this module reads kind, period, line and team of a bet.

A key stays as its source wrote it. A key that can't be read is reported as such, and its meaning is never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache


class MarketKind(StrEnum):
    RESULT = "result"
    HANDICAP = "handicap"
    TOTAL = "total"


class Role(StrEnum):
    HOME = "home"
    DRAW = "draw"
    AWAY = "away"
    OVER = "over"
    UNDER = "under"


_OTHER = {Role.HOME: Role.AWAY, Role.AWAY: Role.HOME}
RESULT_1X2, TOTAL_GOALS, HANDICAP_GOALS = (
    "1X2_PARTICIPANT_RESULT",
    "OVERUNDER_PARTICIPANT_GOALS",
    "ASIANHANDICAP_PARTICIPANT_GOALS",
)
"""Types of markets in the spelling of TxLINE, also for importers whose source has no names of its own."""


@dataclass(frozen=True, slots=True)
class Market:
    """Meaning of a market key.

    Attributes
    ----------
    key
        Text as its source writes it.
    kind
        Result, handicap or total.
    period
        Part of play, such as ``first half``; empty for the whole match, as the source settles it.
    line
        Line of the home side for a handicap; ``None`` for a result.
    of
        Team of a team total; empty for the total of both teams.
    stat
        Quantity that is counted, such as ``corners``; empty for the score.
    goals
        Whether the key itself says that the score is goals.
    alternate
        Whether the line is an alternative to the main one.
    ways
        Number of sides of a result, if the key says it.
    sides
        Role of each side, if sides were passed.
    no
        The "no" side of a market that asks about one role with yes and no.
    """

    key: str
    kind: MarketKind
    period: str = ""
    line: float | None = None
    of: str = ""
    stat: str = ""
    goals: bool = False
    alternate: bool = False
    ways: int | None = None
    sides: tuple[tuple[str, Role], ...] = ()
    no: str | None = None

    @classmethod
    def parse(cls, key: str, sides: Iterable[str] = ()) -> Market | UnreadKey:
        """Read a market key, ``TYPE|PERIOD|PARAMETERS``.

        Parameters
        ----------
        key
            Any text. Missing parts are empty, and case does not matter.
        sides
            Names of sides. Each must have a role, and all roles must differ. Without names only the key is read.

        References
        ----------
        ``docs/reference/market-keys.md`` lists the spellings.

        Examples
        --------
        >>> Market.parse("alternate_totals||point=2.5").about == Market.parse("OVER_UNDER_25||").about
        True
        >>> Market.parse("totals_h1||point=1.25").period, Market.parse("ASIANHANDICAP_PARTICIPANT_GOALS|half=1|line=-0.75").line
        ('first half', -0.75)
        >>> print(Market.parse("corners||point=9.5"))
        'corners||point=9.5' is not read: the type 'corners' is not known
        >>> [role.value for _, role in Market.parse("h2h||", ["1", "X", "2"]).sides]
        ['home', 'draw', 'away']
        >>> print(Market.parse("h2h||", ["part1", "Ash"]))
        'h2h||' is not read: the side 'Ash' is not understood
        """
        market = _parsed(key)
        if isinstance(market, UnreadKey):
            return market
        known = dict[Role, str]()
        for side in sides:
            role = role_of(side, market)
            if role is None or role in known:
                why = "is not understood" if role is None else f"and {known[role]!r:.80} stand for one"
                return UnreadKey(key, f"the side {side!r:.80} {why}")
            known[role] = side
        return replace(market, sides=tuple((side, role) for role, side in known.items())) if known else market

    @property
    def quarters(self) -> int:
        """The line times four, and 0 for a result."""
        return int(4 * (self.line or 0))

    @property
    def roles(self) -> frozenset[Role]:
        """The roles of its sides."""
        return frozenset(role for _, role in self.sides)

    @property
    def scope(self) -> tuple[str, str, str]:
        """Period, statistic and team. Markets with the same scope count the same thing."""
        return self.period, self.stat, self.of.casefold()

    @property
    def about(self) -> tuple[MarketKind, float | None, tuple[str, str, str]]:
        """The bet itself, equal for two keys of the same bet, even from different sources."""
        return self.kind, self.line, self.scope

    @property
    def swapped(self) -> Market:
        """Return the same market with home and away exchanged."""
        line = -self.line if self.kind is MarketKind.HANDICAP and self.line else self.line
        return replace(self, line=line, sides=tuple((side, _OTHER.get(role, role)) for side, role in self.sides))


@dataclass(frozen=True, slots=True)
class UnreadKey:
    """A market key without a reading, and the reason."""

    key: str
    reason: str

    def __str__(self) -> str:
        return f"{self.key!r:.120} is not read: {self.reason}"


# Folded name of a type, with its kind, and the number of sides of a result if the name says it.
_KINDS: Mapping[str, tuple[MarketKind, int | None]] = {
    name: (kind, ways)
    for kind, ways, names in (
        (MarketKind.RESULT, 3, "1x2_participant_result 1x2 h2h_3_way half_time"),
        (MarketKind.RESULT, 2, "moneyline home_away"),
        (MarketKind.RESULT, None, "h2h match_odds match_winner winner result"),
        (MarketKind.TOTAL, None, "overunder_participant_goals totals total over_under ou goals"),
        (MarketKind.HANDICAP, None, "asianhandicap_participant_goals spreads spread asian_handicap handicap draw_no_bet dnb"),
    )
    for name in names.split()
}
_NO_LINE = {"draw_no_bet", "dnb"}  # a handicap of 0 by its name
_STATS = {"corners": "corners", "cornr": "corners", "cards": "cards", "games": "games", "sets": "sets"}
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
_UNITS = {"half": 2, "quarter": 4, "period": 3, "set": 5, "inning": 9}  # with the number of them in a match
_SHORT = {"h": "half", "q": "quarter", "p": "period", "s": "set"}
_WHOLE = {"", "ft", "full", "fulltime", "match", "game"}
_REGULATION, _OVERTIME = "regulation time", "including overtime"
_PERIODS = {
    "ht": "first half", "halftime": "first half", "fullincludingot": _OVERTIME, "includingovertime": _OVERTIME,
    "regulation": _REGULATION, "regulationtime": _REGULATION,
}  # fmt: skip
_N = r"(?:(?P<n{0}>[1-9])(?:st|nd|rd|th)?|(?P<word{0}>" + "|".join(_ORDINALS) + "))"
_UNIT = rf"(?P<unit{{0}}>{'|'.join([*_UNITS, *_SHORT])})"
_PERIOD = re.compile(
    f"{_N.format(1)}{_UNIT.format(1)}|{_UNIT.format(2)}=?{_N.format(2)}|(?:first|1st)(?P<innings>[1-9])innings?"
)
_TYPE = re.compile(
    r"(?P<alternate>alternate_)?(?P<before>(?:first|second)_half_)?(?P<team>team_)?"
    rf"(?P<kind>{'|'.join(sorted(_KINDS, key=len, reverse=True))})"
    rf"(?:_(?P<tenths>[0-9]{{1,2}}5))?(?:_(?P<stat>{'|'.join(_STATS)}))?(?:_(?P<after>[hqp][1-9]|1st_[1-9]_innings))?"
)
_NUMBER = re.compile(r"[+-]?[0-9]{1,5}(?:\.[0-9]{1,4})?")
_LINES = ("line", "point", "handicap", "total")


@lru_cache(maxsize=10_000)
def _parsed(key: str) -> Market | UnreadKey:
    try:
        return _read(key)
    except ValueError as error:
        return UnreadKey(key, str(error))


def unread_keys(keys: Iterable[str]) -> list[UnreadKey]:
    return [one for one in map(Market.parse, keys) if isinstance(one, UnreadKey)]


def key_parts(key: str) -> tuple[str, str, str]:
    """Return type, period and parameters of a market key, uninterpreted.

    Examples
    --------
    >>> key_parts("totals|half=1|of=Ash|point=1.5"), key_parts("h2h")
    (('totals', 'half=1', 'of=Ash|point=1.5'), ('h2h', '', ''))
    """
    name, period, rest = (*key.split("|", 2), "", "")[:3]
    return name, period, rest


def compose_key(name: str, period: str = "", **parameters: str | float | None) -> str:
    """Return the key of a market. A parameter that is ``None`` is left out.

    Examples
    --------
    >>> compose_key(TOTAL_GOALS, line=2.50), compose_key("team_totals", "half=1", of="Ash", point=-0.0), compose_key("h2h")
    ('OVERUNDER_PARTICIPANT_GOALS||line=2.5', 'team_totals|half=1|of=Ash|point=0', 'h2h||')
    """
    values = {one: value for one, value in parameters.items() if value is not None}
    # A negative zero would make a second key for the same line.
    texts = (f"{one}={value if isinstance(value, str) else f'{value + 0.0:g}'}" for one, value in values.items())
    return f"{name}|{period}|{'|'.join(texts)}"


def may_be_handicap(name: str) -> bool:
    """Check whether a type's name says handicap, even if it can't be read."""
    return any(word in name.casefold() for word in ("handicap", "spread"))


def _read(key: str) -> Market:
    name, period, rest = key_parts(key)
    found = _TYPE.fullmatch({"corners_1x2": "1x2_corners"}.get(name.casefold(), name.casefold()))
    if found is None:
        raise ValueError(f"the type {name!r:.80} is not known")
    parameters = _parameters(rest)
    (kind, ways), word = _KINDS[found["kind"]], found["kind"]
    of, line = parameters.get("of", ""), _line(word, found["tenths"], parameters)
    if bool(found["team"]) != bool(of) or (of and kind is not MarketKind.TOTAL):
        raise ValueError(f"it is of {of!r:.80} alone" if of else f"{name!r:.80} is one side's total and does not say whose")
    if kind is MarketKind.RESULT and (line is not None or found["alternate"]):
        raise ValueError("a result has no line")
    if kind is not MarketKind.RESULT and line is None:
        raise ValueError("it has no line")
    if kind is MarketKind.TOTAL and line is not None and line < 0:
        raise ValueError(f"{line} is no line of a total")
    if kind is MarketKind.HANDICAP and word == "spreads" and "line" in parameters:
        # Polymarket's line belongs to the team that its market names first, which may be home or away.
        raise ValueError("a line of 'spreads' belongs to the team that is named first, and the key does not say which that is")
    return Market(
        key=key,
        kind=kind,
        period=_one_period(word, found["before"], found["after"], period),
        line=None if line is None else float(line) + 0.0,
        of=of,
        stat=_STATS[found["stat"]] if found["stat"] else "",
        goals=word.endswith("goals") or bool(found["tenths"] and not found["stat"]),
        alternate=bool(found["alternate"]),
        ways=ways,
    )


def _parameters(text: str) -> dict[str, str]:
    """Return the pairs of ``NAME=VALUE|NAME=VALUE``. A market's id only separates markets with the same meaning."""
    found: dict[str, str] = {}
    for part in text.split("|") if text else ():
        name, equals, value = part.partition("=")
        name = name.casefold()
        if not equals or not value or name in found or name not in ("of", "market", *_LINES):
            raise ValueError(f"the parameter {part!r:.80} is not known, or stands twice")
        found[name] = value
    return found


def _line(word: str, tenths: str | None, parameters: Mapping[str, str]) -> Decimal | None:
    texts = [parameters[name] for name in _LINES if name in parameters]
    if tenths and word not in ("over_under", "goals"):
        raise ValueError(f"a line of {tenths} tenths stands in the name of a total only")
    lines = {Decimal(tenths) / 10} if tenths else {Decimal(0)} if word in _NO_LINE else set()
    for text in texts:
        if not _NUMBER.fullmatch(text) or Decimal(text) * 4 % 1:
            raise ValueError(f"the line {text!r:.80} is no multiple of a quarter")
        lines.add(Decimal(text))
    if len(lines) > 1:
        raise ValueError(f"it has the lines {' and '.join(map(str, sorted(lines)))}")
    return lines.pop() if lines else None


def _one_period(word: str, *spelt: str | None) -> str:
    """Return the period that a key names in its type or next to it."""
    found = {"first half"} if word == "half_time" else set[str]()
    for text in filter(None, spelt):
        period = period_named(text)
        if period is None:
            raise ValueError(f"the period {text!r:.80} is not known")
        found |= {period} - {""}
    if len(found) > 1:
        raise ValueError(f"it has the periods {' and '.join(sorted(found))}")
    # A three-way result excludes overtime, which the two-way result counts. A half or quarter has no overtime.
    return found.pop() if found else _REGULATION if word == "h2h_3_way" else ""


def period_named(text: str) -> str | None:
    """Return the period that a text means, empty for the whole match; ``None`` if it means no period.

    Examples
    --------
    >>> period_named("half=1"), period_named("h1"), period_named("1st Half"), period_named("ThirdQuarter"), period_named("FT")
    ('first half', 'first half', 'first half', 'third quarter', '')
    >>> period_named("1st_5_innings"), period_named("half=3")
    ('first 5 innings', None)
    """
    plain = re.sub(r"[\s_-]+", "", text.casefold())
    if plain in _WHOLE or plain in _PERIODS:
        return _PERIODS.get(plain, "")
    found = _PERIOD.fullmatch(plain)
    if found is None:
        return None
    if found["innings"]:
        return "first inning" if found["innings"] == "1" else f"first {found['innings']} innings"
    unit = found["unit1"] or found["unit2"]
    unit, word = _SHORT.get(unit, unit), found["word1"] or found["word2"]
    number = _ORDINALS.index(word) + 1 if word else int(found["n1"] or found["n2"])
    return f"{_ORDINALS[number - 1]} {unit}" if number <= _UNITS[unit] else None


_ROLES = {
    "part1": Role.HOME, "home": Role.HOME, "1": Role.HOME, "h": Role.HOME,
    "draw": Role.DRAW, "x": Role.DRAW, "tie": Role.DRAW, "the draw": Role.DRAW, "d": Role.DRAW,
    "part2": Role.AWAY, "away": Role.AWAY, "2": Role.AWAY, "a": Role.AWAY,
    "over": Role.OVER, "o": Role.OVER, "under": Role.UNDER, "u": Role.UNDER,
}  # fmt: skip
# Betfair's runners in totals of goals have the same ids in every match, and its stream has no names of runners.
_RUNNERS = {
    "5851482": (2, Role.UNDER), "5851483": (2, Role.OVER), "1221385": (6, Role.UNDER), "1221386": (6, Role.OVER),
    "47972": (10, Role.UNDER), "47973": (10, Role.OVER), "1222344": (14, Role.UNDER), "1222345": (14, Role.OVER),
    "1222347": (18, Role.UNDER), "1222346": (18, Role.OVER),
}  # fmt: skip
_ALLOWED = {
    MarketKind.RESULT: {Role.HOME, Role.DRAW, Role.AWAY},
    MarketKind.HANDICAP: {Role.HOME, Role.DRAW, Role.AWAY},
    MarketKind.TOTAL: {Role.OVER, Role.UNDER},
}


def role_of(side: str, market: Market | None = None) -> Role | None:
    """Return the role that a side's own name says; ``None`` without such a role, or if the market has no such side.

    Examples
    --------
    >>> role_of("part1").value, role_of("X").value, role_of("Ash"), role_of("47973", Market.parse("OVER_UNDER_25||")).value
    ('home', 'draw', None, 'over')
    """
    role = _ROLES.get(side.casefold())
    if market is None:
        return role
    if role is None and market.goals and not market.stat and side in _RUNNERS:
        quarters, role = _RUNNERS[side]
        role = role if quarters == market.quarters else None
    return role if role in _ALLOWED[market.kind] else None


def named_market(market: Market) -> str:
    """Return the common name of a market.

    Examples
    --------
    >>> named_market(Market.parse("totals_h1||point=1.5")), named_market(Market.parse("spreads||point=-1.0"))
    ('Over/Under 1.5, first half', 'Handicap -1')
    """
    line = "" if market.line is None else f" {market.line:.9g}"
    counted = market.stat or ("goals" if market.goals else "")
    kind = {
        MarketKind.RESULT: "Match result" + (f", {counted}" if market.stat else ""),
        MarketKind.HANDICAP: f"{'Asian handicap' if market.goals else 'Handicap'}{line}"
        + (f", {counted}" if market.stat else ""),
        MarketKind.TOTAL: f"Over/Under{line}" + (f" {counted}" if counted else ""),
    }[market.kind]
    return ", ".join(filter(None, (kind, market.of and f"of {market.of}", market.period, "alternate" * market.alternate)))
