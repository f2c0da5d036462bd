"""Meaning of the columns of a record of bets: guessed from the usual names, shown, and overridable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from clvlab.base.names import among, did_you_mean
from clvlab.errors import SourceError


class Meaning(StrEnum):
    TIME = "time"
    DATE = "date"
    FIXTURE = "fixture"
    HOME = "home"
    AWAY = "away"
    KICKOFF = "kickoff"
    MARKET = "market"
    SIDE = "side"
    PRICE = "price"
    STAKE = "stake"
    BOOK = "book"
    RESULT = "result"


# Letters and digits of the usual names, in small letters.
_USUAL: Mapping[Meaning, frozenset[str]] = {
    Meaning.TIME: frozenset(
        [
            "time",
            "timestamp",
            "datetime",
            "ts",
            "placed",
            "placedat",
            "placedon",
            "placedtime",
            "timeplaced",
            "dateplaced",
            "placeddate",
            "placeddatetime",
            "bettime",
            "betdate",
            "betplaced",
            "betplacedat",
            "datetimeplaced",
            "createdat",
            "created",
        ]
    ),
    Meaning.DATE: frozenset(["date", "day"]),
    Meaning.FIXTURE: frozenset(
        [
            "fixture",
            "fixtureid",
            "event",
            "eventid",
            "eventname",
            "match",
            "matchid",
            "matchname",
            "game",
            "gameid",
            "gamename",
            "matchup",
            "sourceid",
            "teams",
        ]
    ),
    Meaning.HOME: frozenset(["home", "hometeam", "homename", "team1", "part1", "participant1"]),
    Meaning.AWAY: frozenset(["away", "awayteam", "awayname", "team2", "part2", "participant2", "visitor", "visitors"]),
    Meaning.KICKOFF: frozenset(
        [
            "kickoff",
            "kickofftime",
            "kickoffat",
            "kickoffdate",
            "commencetime",
            "starttime",
            "startdate",
            "eventdate",
            "eventtime",
            "eventstart",
            "matchdate",
            "matchtime",
            "gamedate",
            "gametime",
        ]
    ),
    Meaning.MARKET: frozenset(["market", "marketkey", "marketname", "markettype", "bettype", "wagertype"]),
    Meaning.SIDE: frozenset(["side", "selection", "pick", "selectionname", "runner", "runnername", "betselection", "backed"]),
    Meaning.PRICE: frozenset(
        [
            "price",
            "odds",
            "odd",
            "decimalodds",
            "oddsdecimal",
            "americanodds",
            "oddsamerican",
            "oddstaken",
            "pricetaken",
            "betodds",
            "betprice",
            "backodds",
            "priceobtained",
            "oddsobtained",
        ]
    ),
    Meaning.STAKE: frozenset(
        [
            "stake",
            "amount",
            "wager",
            "wagered",
            "risk",
            "risked",
            "betamount",
            "betsize",
            "stakeamount",
            "amountstaked",
            "stakedamount",
            "units",
        ]
    ),
    Meaning.BOOK: frozenset(["book", "bookmaker", "bookie", "sportsbook", "operator", "bookmakername", "venue"]),
    Meaning.RESULT: frozenset(
        ["result", "outcome", "status", "settlement", "settled", "betresult", "winloss", "wonlost", "wl"]
    ),
}
_NEEDED = (Meaning.MARKET, Meaning.SIDE)


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns by meaning: found, guessed from their name, or unused. If ``market`` is set, it is the market of every row."""

    names: Mapping[Meaning, str]
    guessed: frozenset[Meaning] = frozenset()
    unused: tuple[str, ...] = ()
    market: str | None = None

    @property
    def words(self) -> str:
        read = [f"{meaning} from {name!r}" for meaning, name in self.names.items() if meaning in self.guessed]
        explicit = [f"{meaning} from {name!r}" for meaning, name in self.names.items() if meaning not in self.guessed]
        parts = [
            *([f"guessed by their names: {', '.join(read)}"] if read else []),
            *([f"as given: {', '.join(explicit)}"] if explicit else []),
            *([f"market {self.market!r} for every row"] if self.market is not None else []),
            *([f"not read: {', '.join(map(repr, self.unused))}"] if self.unused else []),
        ]
        return "; ".join(parts)


def columns_of(header: Sequence[str], columns: Mapping[str, Any] | None = None, market: str | None = None) -> Columns:
    """Return the meaning of a record's columns; in ``columns``, an empty name says that a meaning has no column.

    ``SourceError`` for an unknown meaning or column, two columns that fit one meaning, or a required meaning without a column.

    Examples
    --------
    >>> found = columns_of(["Placed At", "Match", "Market", "Selection", "Odds", "My note"])
    >>> found.names[Meaning.SIDE], found.unused
    ('Selection', ('My note',))
    """
    names = _explicit(header, columns or {})
    chosen = {meaning: name for meaning, name in names.items() if name is not None}
    guessed: set[Meaning] = set()
    for meaning in Meaning:
        if meaning in names or (meaning is Meaning.MARKET and market is not None):
            continue
        free = [name for name in header if name not in chosen.values()]
        found = _guess(meaning, [name for name in free if _plain(name) in _USUAL[meaning]])
        if found is not None:
            chosen[meaning] = found
            guessed.add(meaning)
    in_order = {meaning: chosen[meaning] for meaning in Meaning if meaning in chosen}
    _check(header, in_order, market)
    unused = tuple(name for name in header if name not in in_order.values())
    return Columns(in_order, frozenset(guessed), unused, market)


def _explicit(header: Sequence[str], columns: Mapping[str, Any]) -> dict[Meaning, str | None]:
    if not isinstance(columns, Mapping):
        raise SourceError(f"columns is a mapping from meanings to columns, as {{'time': 'placed_at'}}, not {columns!r:.80}")
    names: dict[Meaning, str | None] = {}
    for meaning, name in columns.items():
        if meaning not in list(Meaning):
            raise SourceError(f"no column of a bet means {meaning!r:.80}{among(meaning, Meaning)}")
        if name and name not in header:
            listed = ", ".join(map(repr, header))
            raise SourceError(f"there is no column {name!r:.80} for {meaning}{did_you_mean(name, header)}; there are: {listed}")
        names[Meaning(meaning)] = name or None
    return names


def _guess(meaning: Meaning, fitting: Sequence[str]) -> str | None:
    """Return the column that fits: the only one, or the only one with the meaning's own name."""
    own = [name for name in fitting if _plain(name) == meaning]
    if len(fitting) > 1 and len(own) != 1:
        listed = " and ".join(map(repr, fitting[:3]))
        raise SourceError(f"columns {listed} could each be the {meaning}: name one, as columns={{'{meaning}': {fitting[0]!r}}}")
    return next(iter(own or fitting), None)


def _check(header: Sequence[str], names: Mapping[Meaning, str], market: str | None) -> None:
    listed = ", ".join(map(repr, header))
    missing = [
        meaning for meaning in _NEEDED if meaning not in names and not (meaning is Meaning.MARKET and market is not None)
    ]
    if Meaning.TIME not in names and Meaning.DATE not in names:
        missing.insert(0, Meaning.TIME)
    if Meaning.FIXTURE not in names and not (Meaning.HOME in names and Meaning.AWAY in names):
        missing.insert(0, Meaning.FIXTURE)
    if missing:
        first = missing[0]
        other = (
            ", or home and away"
            if first is Meaning.FIXTURE
            else ", or market= for every row"
            if first is Meaning.MARKET
            else ""
        )
        raise SourceError(
            f"no column says the {first} of a bet: name it, as --column {first}=NAME or columns={{'{first}': 'NAME'}}{other}; "
            f"there are: {listed}"
        )


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
