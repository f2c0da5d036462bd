"""Positions of bets on the tape: the last tick at or before each bet, or the reason why there is no such tick."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from clvlab.base.names import nearest
from clvlab.bets.columns import Meaning
from clvlab.bets.fixtures import FixtureNames, Teams, Unmatched
from clvlab.bets.record import Row
from clvlab.law.closing import Window, fixture_closes
from clvlab.law.markets import Market, MarketKind, Role, key_parts, may_be_handicap, period_named, role_of, unread_keys
from clvlab.law.schema import CloseKind
from clvlab.law.tape import Tape
from clvlab.packs.manifest import Fixture
from clvlab.packs.matching.names import NO_ALIASES, TeamAliases, folded
from clvlab.packs.reader import Pack
from clvlab.words import market_name, moment

# Market and side of a bet are found by their keys, or by usual names that fit exactly one of them.


Markets = Mapping[str, Sequence[str]]  # sides by market key

# Usual names, folded, with their kind. Some names also imply the number of sides of a result: a moneyline of two sides is not
# taken for a result of three.
_USUAL: Mapping[str, tuple[MarketKind, int | None]] = {
    name: (kind, ways)
    for kind, ways, names in (
        (
            MarketKind.RESULT,
            None,
            "match result|match odds|full time result|full time|result|winner|match winner|h2h|to win",
        ),
        (MarketKind.RESULT, 3, "1x2|win draw win|3 way|three way"),
        (MarketKind.RESULT, 2, "moneyline|money line|ml|head to head|2 way|two way"),
        (
            MarketKind.TOTAL,
            2,
            "over under|o u|totals|total|total goals|goals over under|over under goals|total points|total runs",
        ),
        (MarketKind.TOTAL, 2, "goals"),
        (MarketKind.HANDICAP, 2, "handicap|asian handicap|spread|spreads|point spread|run line|puck line|ah"),
    )
    for name in names.split("|")
}
_LINE = re.compile(r"^(.*?[^\d.-])[(\s]*(\d+(?:\.\d+)?)\s*\)?\s*(?:goals|points|runs)?$", re.IGNORECASE)
_OF_SIDE = re.compile(r"^(.*\S)[\s(]+([+-]?\d+(?:\.\d+)?)\)?$")
_WORDS_OF_A_PERIOD = 3
_SIDES: Mapping[str, Role | str] = {"team1": Role.HOME, "team2": Role.AWAY, "yes": "yes", "y": "yes", "no": "no", "n": "no"}
_LISTED = 6


def position_of(market: str, side: str, markets: Markets, teams: Teams | None) -> tuple[str, str] | Unmatched:
    """Return market key and side, or the reason why no market or side of the pack fits.

    ``market`` and ``side`` are keys of the pack, or usual names; a line may follow either (``Over 2.5``), and a period may
    precede or follow the market (``1st half totals``). A handicap belongs to the side that it follows (``Elm +0.5``). ``teams``
    are folded names of ``part1`` or ``home``, and ``part2`` or ``away``.

    Examples
    --------
    >>> markets = {"1X2_PARTICIPANT_RESULT||": ("draw", "part1", "part2"), "totals||point=2.5": ("over", "under")}
    >>> position_of("Match Odds", "Elm", markets, (frozenset({"oak"}), frozenset({"elm"})))
    ('1X2_PARTICIPANT_RESULT||', 'part2')
    >>> position_of("Over/Under", "Over 2.5", markets, None)
    ('totals||point=2.5', 'over')
    >>> position_of("Over/Under 3.5", "over", markets, None).reason
    'market_unknown'
    """
    found = _markets_of(market, side, markets, teams)
    if len(found) > 1:
        return Unmatched("market_ambiguous", f"{market!r:.120} fits several markets: {_listed(found)}")
    if not found:
        meant = nearest(market, markets)
        near = f" (is it {meant!r}?)" if meant else ""
        unread = next(iter(unread_keys(markets)), None)
        also = "" if unread is None else f"; {unread}"
        detail = f"{market!r:.120} names no market of the fixture{near}: lines and handicaps go by their keys, as in"
        return Unmatched("market_unknown", f"{detail} {_listed(list(markets))}{also}")
    sides = markets[found[0]]
    own = _sides_of(side, found[0], sides, teams)
    if len(own) != 1:
        kind = "side_ambiguous" if own else "side_unknown"
        detail = "fits several sides" if own else "is no side"
        return Unmatched(kind, f"{side!r:.120} {detail} of {found[0]!r}, which has: {_listed(sides)}")
    return found[0], own[0]


def _markets_of(market: str, side: str, markets: Markets, teams: Teams | None) -> list[str]:
    """Return the markets that a name fits: its key, its common name, its type, or a usual name with period and line."""
    if market in markets:
        return [market]
    plain = _plain_key(market)
    same = [key for key in markets if _plain_key(key) == plain]
    if same:
        return same
    read = {key: one for key in markets if isinstance(one := Market.parse(key), Market)}
    line = _total_of(side)
    # The line of a handicap is ambiguous unless a side precedes it.
    named = [key for key in markets if not _is_handicap(key, read)]
    for name_of in (market_name, _type_of):
        found = [key for key in named if _plain_key(name_of(key)) == plain]
        if kept := _on_line(found, read, line, is_named=name_of is market_name):
            return kept
    meaning = _meaning_of(market, line)
    if meaning is None:
        return []
    (kind, ways), period, line = meaning
    if kind is MarketKind.HANDICAP:
        if line is not None:
            return []
        line = _home_line(side, teams)
    fitting = {
        key: one
        for key, one in read.items()
        if (one.kind, one.scope) == (kind, (period, "", "")) and ways in (None, len(markets[key])) and one.line == line
    }
    # Where the main line and an alternative offer the same bet, the main one is meant.
    return [key for key, one in fitting.items() if not one.alternate] or list(fitting)


def _meaning_of(market: str, line: float | None) -> tuple[tuple[MarketKind, int | None], str, float | None] | None:
    """Return kind, period and line of a market's words; ``None`` where they have no meaning, or two."""
    words = market.replace(",", " ").split()
    for size in range(min(_WORDS_OF_A_PERIOD, len(words) - 1), -1, -1):
        for start in (0, len(words) - size):
            period = period_named(" ".join(words[start : start + size]).strip("()[]-"))
            if period is None:
                continue
            rest = " ".join(words[:start] + words[start + size :]).strip(" -:")
            usual = _USUAL.get(folded(rest))
            if usual is not None:
                return usual, period, line
            parts = _LINE.match(rest)
            usual = _USUAL.get(folded(parts[1])) if parts else None
            if parts is not None and usual is not None:
                return (usual, period, float(parts[2])) if line in (None, float(parts[2])) else None
    return None


def _on_line(found: list[str], read: Mapping[str, Market], line: float | None, *, is_named: bool) -> list[str]:
    lined = {key: read[key].line for key in found if key in read and read[key].line is not None}
    if not lined or (is_named and line is None):
        return found
    return [key for key in found if lined.get(key) == line]


def _sides_of(side: str, market: str, sides: Sequence[str], teams: Teams | None) -> list[str]:
    if side in sides:
        return [side]
    same = [one for one in sides if _plain_key(one) == _plain_key(side)]
    if same:
        return same
    read = Market.parse(market)
    known = read if isinstance(read, Market) else None
    meant = _meant(side, teams)
    if not meant and known is not None and known.kind is MarketKind.HANDICAP and (parts := _OF_SIDE.match(side)):
        meant = _meant(parts[1], teams) if _home_line(side, teams) == known.line else set()
    if not meant and known is not None and known.line is not None and _total_of(side) == known.line:
        meant = _meant(side.rpartition(" ")[0], teams)
    # In a market whose key has no known meaning, a side of one letter may be anything, such as the score of a set.
    roles = {one: role_of(one, known) if known or len(one) > 1 else None for one in sides}
    return [one for one, role in roles.items() if (role or one.casefold()) in meant]


def _meant(side: str, teams: Teams | None) -> set[Role | str]:
    """Return the meanings of a side's name: by the names of the teams, else by its usual name."""
    found = {role for team, role in zip(teams or (), (Role.HOME, Role.AWAY), strict=False) if folded(side) in team}
    usual = None if found else role_of(_plain_key(side)) or _SIDES.get(_plain_key(side))
    return {*found, *({usual} if usual else ())}


def _total_of(side: str) -> float | None:
    name, _, number = side.strip().rpartition(" ")
    is_total = role_of(folded(name)) in (Role.OVER, Role.UNDER)
    return float(number) if is_total and re.fullmatch(r"\d+(\.\d+)?", number) else None


def _home_line(side: str, teams: Teams | None) -> float | None:
    parts = _OF_SIDE.match(side.strip())
    meant = _meant(parts[1], teams) if parts else set()
    if parts is None or meant not in ({Role.HOME}, {Role.AWAY}):
        return None
    return (float(parts[2]) if meant == {Role.HOME} else -float(parts[2])) + 0.0  # no negative zero


def _type_of(key: str) -> str:
    return key_parts(key)[0]


def _is_handicap(key: str, read: Mapping[str, Market]) -> bool:
    if key in read:
        return read[key].kind is MarketKind.HANDICAP
    return may_be_handicap(_type_of(key))


@lru_cache(maxsize=10_000)  # every bet reads the same keys again
def _plain_key(name: str) -> str:
    """Fold a name of a market but keep the sign of its line, as -0.5 and 0.5 are two markets."""
    return folded(re.sub(r"([+-])(?=\d)", _signed, name.replace("_", " ")))


def _signed(sign: re.Match[str]) -> str:
    return " minus " if sign[1] == "-" else " plus "


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(repr(name) for name in names[:_LISTED]) + more


@dataclass(frozen=True, slots=True)
class Position:
    fixture_id: int
    tick_seq: int
    market_key: str
    side: str


def positions_of(
    rows: Sequence[Row], pack: Pack, window: Window, aliases: TeamAliases = NO_ALIASES
) -> list[Position | Unmatched]:
    """Return the position of every bet on the tape of a pack, or the reason why it has no position.

    Several fixtures may fit the names of a bet. The bet is then on the one whose market was quoted by that time and had not
    closed, if there is exactly one.
    """
    known, held_out = FixtureNames(pack.manifest.fixtures, aliases), dict(pack.held_out)
    fixtures = [_fixture(row, known, held_out) for row in rows]
    meant = [(one.fixture_id,) if isinstance(one, Fixture) else one.fixture_ids for one in fixtures]
    meant = [() if any(one in held_out for one in own) else own for own in meant]  # ticks of held-out fixtures may not be read
    wanted = sorted({one for own in meant for one in own})
    if not wanted:
        return [one for one in fixtures if isinstance(one, Unmatched)]
    places, by_id = _Places(pack.tape(wanted), window), {one.fixture_id: one for one in pack.manifest.fixtures}
    found: list[Position | Unmatched] = []
    for row, one, own in zip(rows, fixtures, meant, strict=True):
        placed = [places.place(row, by_id[fixture_id], known.teams_of(by_id[fixture_id])) for fixture_id in own]
        if isinstance(one, Unmatched):
            open_then = [place for place in placed if isinstance(place, Position)]
            found.append(open_then[0] if len(open_then) == 1 else one)
        else:
            found += placed
    return found


def _fixture(row: Row, known: FixtureNames, held_out: dict[int, str]) -> Fixture | Unmatched:
    market, side = row.cells.get(Meaning.MARKET, ""), row.cells[Meaning.SIDE]
    if row.ts_ms is None:
        return Unmatched("time_unreadable", row.no_time or "there is no time")
    if row.stake is None:
        return Unmatched("stake_unreadable", f"stake {row.cells.get(Meaning.STAKE)!r:.80} is no amount of a cent or more")
    if market is None or side is None:
        return Unmatched("market_unknown" if market is None else "side_unknown", "the cell is empty")
    found = known.find(row)
    if isinstance(found, Fixture) and found.fixture_id in held_out:
        plan = held_out[found.fixture_id]
        return Unmatched("fixture_held_out", f"fixture {found.fixture_id} is held out by plan {plan} until that is opened")
    return found


class _Places:
    def __init__(self, tape: Tape, window: Window) -> None:
        self._ticks: dict[int, tuple[list[int], list[int]]] = {
            fixture_id: (times, ticks)
            for fixture_id, times, ticks in tape.messages.group_by("fixture_id").agg("ts_ms", "tick_seq").iter_rows()
        }
        first = tape.rows["ts_ms"].gather(tape.series["start"])
        self._markets: dict[int, dict[str, tuple[int, list[str]]]] = defaultdict(dict)
        for fixture_id, market, side, ts_ms in tape.series.select("fixture_id", "market_key", "side", ts_ms=first).iter_rows():
            self._markets[fixture_id].setdefault(market, (ts_ms, []))[1].append(side)
        columns = ("fixture_id", "close_ts_ms", "close_kind")
        self._closes = {row[0]: row[1:] for row in fixture_closes(tape, window).select(columns).iter_rows()}

    def place(self, row: Row, fixture: Fixture, teams: Teams | None) -> Position | Unmatched:
        ts_ms, own = row.ts_ms or 0, fixture.fixture_id
        if own not in self._ticks:
            return Unmatched("before_first_tick", f"fixture {own} has no tick in the pack")
        sides = {market: sides for market, (_, sides) in self._markets[own].items()}
        found = position_of(row.cells.get(Meaning.MARKET) or "", row.cells[Meaning.SIDE] or "", sides, teams)
        if isinstance(found, Unmatched):
            return found
        first_ms, (close_ms, kind) = self._markets[own][found[0]][0], self._closes[own]
        if ts_ms < first_ms:
            return Unmatched(
                "before_first_tick", f"placed at {moment(ts_ms)}, and {found[0]!r} is first quoted at {moment(first_ms)}"
            )
        if ts_ms > close_ms or (ts_ms == close_ms and kind in (CloseKind.IN_RUNNING, CloseKind.KICKOFF)):
            return Unmatched("after_close", f"placed at {moment(ts_ms)}, and the market closed at {moment(close_ms)}")
        times, ticks = self._ticks[own]
        return Position(own, ticks[bisect_right(times, ts_ms) - 1], *found)
