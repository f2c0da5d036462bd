"""Where bets lie on the tape: the last tick that is not later than each, or the reason why there is none."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from clvlab.application.bets.columns import Meaning
from clvlab.application.bets.fixtures import FixtureNames, NoMatch, Teams
from clvlab.application.bets.markets import position_of
from clvlab.application.bets.reading import Row
from clvlab.law.closing import Window, fixture_closes
from clvlab.law.schema import CloseKind
from clvlab.law.tape import Tape
from clvlab.packs.manifest import Fixture
from clvlab.packs.matching.names import NO_ALIASES, TeamAliases
from clvlab.packs.reader import Pack
from clvlab.words import moment


@dataclass(frozen=True, slots=True)
class Position:
    """Where a bet lies: fixture, tick, market and side."""

    fixture_id: int
    tick_seq: int
    market_key: str
    side: str


def positions_of(
    rows: Sequence[Row], pack: Pack, window: Window, aliases: TeamAliases = NO_ALIASES
) -> list[Position | NoMatch]:
    """Put every bet on the tape of a pack, or say why it is not on it.

    A bet is taken at the last tick of its fixture that is not later than it: prices after it were not known to the bettor.
    Where several fixtures fit its names, it is on the one whose market was quoted by then and had not closed, if that is one.
    """
    known, held_out = FixtureNames(pack.manifest.fixtures, aliases), dict(pack.held_out)
    fixtures = [_fixture(told, known, held_out) for told in rows]
    meant = [(one.fixture_id,) if isinstance(one, Fixture) else one.fixture_ids for one in fixtures]
    meant = [() if any(one in held_out for one in own) else own for own in meant]  # whose ticks nobody may read
    wanted = sorted({one for own in meant for one in own})
    if not wanted:
        return [one for one in fixtures if isinstance(one, NoMatch)]
    places, by_id = _Places(pack.tape(wanted), window), {one.fixture_id: one for one in pack.manifest.fixtures}
    found: list[Position | NoMatch] = []
    for told, one, own in zip(rows, fixtures, meant, strict=True):
        placed = [places.place(told, by_id[fixture_id], known.teams_of(by_id[fixture_id])) for fixture_id in own]
        if isinstance(one, NoMatch):
            open_then = [place for place in placed if isinstance(place, Position)]
            found.append(open_then[0] if len(open_then) == 1 else one)
        else:
            found += placed
    return found


def _fixture(told: Row, known: FixtureNames, held_out: dict[int, str]) -> Fixture | NoMatch:
    """Return the fixture of a bet that says what is needed of it."""
    market, side = told.cells.get(Meaning.MARKET, ""), told.cells[Meaning.SIDE]
    if told.ts_ms is None:
        return NoMatch("time_unreadable", told.no_time or "there is no time")
    if told.stake is None:
        return NoMatch("stake_unreadable", f"stake {told.cells.get(Meaning.STAKE)!r:.80} is no amount of a cent or more")
    if market is None or side is None:
        return NoMatch("market_unknown" if market is None else "side_unknown", "the cell is empty")
    found = known.find(told)
    if isinstance(found, Fixture) and found.fixture_id in held_out:
        plan = held_out[found.fixture_id]
        return NoMatch("fixture_held_out", f"fixture {found.fixture_id} is held out by plan {plan} until that is opened")
    return found


class _Places:
    """Ticks, markets and closes of some fixtures, by fixture."""

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

    def place(self, told: Row, fixture: Fixture, teams: Teams | None) -> Position | NoMatch:
        """Return where a bet lies, whose time is told."""
        ts_ms, own = told.ts_ms or 0, fixture.fixture_id
        if own not in self._ticks:
            return NoMatch("before_first_tick", f"fixture {own} has no tick in the pack")
        sides = {market: sides for market, (_, sides) in self._markets[own].items()}
        found = position_of(told.cells.get(Meaning.MARKET) or "", told.cells[Meaning.SIDE] or "", sides, teams)
        if isinstance(found, NoMatch):
            return found
        first_ms, (close_ms, kind) = self._markets[own][found[0]][0], self._closes[own]
        if ts_ms < first_ms:
            return NoMatch(
                "before_first_tick", f"placed at {moment(ts_ms)}, and {found[0]!r} is first quoted at {moment(first_ms)}"
            )
        if ts_ms > close_ms or (ts_ms == close_ms and kind in (CloseKind.IN_RUNNING, CloseKind.KICKOFF)):
            return NoMatch("after_close", f"placed at {moment(ts_ms)}, and the market closed at {moment(close_ms)}")
        times, ticks = self._ticks[own]
        return Position(own, ticks[bisect_right(times, ts_ms) - 1], *found)
