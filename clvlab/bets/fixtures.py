"""The fixture of a bet, found by its id, by its source's id, or by the names of both teams; it is never guessed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from clvlab.base.names import nearest
from clvlab.base.times import Span
from clvlab.bets.columns import Meaning
from clvlab.bets.record import Row
from clvlab.law.schema import SAFE_INTEGER
from clvlab.packs.manifest import Fixture
from clvlab.packs.matching.names import NO_ALIASES, TeamAliases, folded, usual_aliases

_DAY_MS = 86_400_000
_BETWEEN = re.compile(r"\s+(?:vs?\.?|versus|[-\u2013\u2014:/])\s+", re.IGNORECASE)
_AT = re.compile(r"\s+(?:@|at)\s+")
_LISTED = 4
_MOST_HINTS = 20


Teams = tuple[frozenset[str], frozenset[str]]
"""Names of home and away, folded."""


@dataclass(frozen=True, slots=True)
class Unmatched:
    """Reason why a bet is not on the tape: a key, a sentence with its values, and fixtures that the tape may tell apart."""

    reason: str
    detail: str
    fixture_ids: tuple[int, ...] = ()


class FixtureNames:
    """The fixtures of a pack by all their names.

    Names of teams are compared without case, accents and punctuation, or through ``aliases``. Both teams must match, in the
    pack's order.
    """

    def __init__(self, fixtures: Iterable[Fixture], aliases: TeamAliases = NO_ALIASES) -> None:
        self._aliases = TeamAliases((*usual_aliases().teams, *aliases.teams))
        self._by_id: dict[str, set[int]] = defaultdict(set)
        self._by_names: dict[Teams, set[int]] = defaultdict(set)
        self._known: dict[int, Fixture] = {}
        self._hints: dict[str, str | None] = {}
        for fixture in fixtures:
            self._known[fixture.fixture_id] = fixture
            self._by_id[str(fixture.fixture_id)].add(fixture.fixture_id)
            if fixture.source_id is not None:
                self._by_id[fixture.source_id].add(fixture.fixture_id)
            teams = self.teams_of(fixture)
            if teams is not None:
                self._by_names[teams].add(fixture.fixture_id)

    def teams_of(self, fixture: Fixture) -> Teams | None:
        """Return all names of home and away; ``None`` unless the fixture has two names."""
        names = teams_of(fixture)
        return None if names is None else (self._aliases.names_of(names[0]), self._aliases.names_of(names[1]))

    def find(self, row: Row) -> Fixture | Unmatched:
        text = row.cells.get(Meaning.FIXTURE)
        found = self._by_id.get(text or "") or self._by_id.get(_as_whole(text or ""), set())
        if len(found) == 1:
            return self._known[next(iter(found))]
        if found:
            both = self._ambiguous(f"{text!r:.200} is the id of one fixture and the source's id of another", found)
            return replace(both, fixture_ids=())  # time can't tell the two apart
        teams = _teams(row)
        if teams is None:
            detail = (
                "no fixture is named" if not text else f"no fixture has the id {text!r:.200}, and it does not name two teams"
            )
            return Unmatched("fixture_unknown", detail)
        return self._by_teams(row, teams)

    def _by_teams(self, row: Row, teams: tuple[str, str]) -> Fixture | Unmatched:
        key = (self._aliases.names_of(teams[0]), self._aliases.names_of(teams[1]))
        found, title = self._by_names.get(key, set()), f"{teams[0]} - {teams[1]}"[:200]
        if not found:
            if self._by_names.get((key[1], key[0])):
                return Unmatched("teams_swapped", f"{title!r} is in the pack with its teams the other way round: name it so")
            meant = self._meant(title)
            return Unmatched("fixture_unknown", f"no fixture is {title!r}" + (f"; is it {meant!r}?" if meant else ""))
        if row.kickoff is not None:
            return self._on_the_day(row.kickoff, found, title)
        left = self._left(row.ts_ms, found)
        if len(left) > 1:
            return self._ambiguous(f"{title!r} fits several fixtures: add a column of kickoffs, or name it by its id", left)
        return self._known[next(iter(left))]

    def _meant(self, title: str) -> str | None:
        """Return the fixture that was probably meant; only for the first few unknown titles, as each is compared with all."""
        if title not in self._hints and len(self._hints) < _MOST_HINTS:
            names = {" - ".join(names) for names in map(teams_of, self._known.values()) if names is not None}
            self._hints[title] = nearest(title, names)
        return self._hints.get(title)

    def _left(self, ts_ms: int | None, found: set[int]) -> set[int]:
        """Return the possible fixtures of a bet without a kickoff: the only one within a day, else those not over, else all."""
        if ts_ms is None or len(found) == 1:
            return found
        placed = Span(ts_ms, ts_ms)
        soon = {one for one in found if any(map(placed.is_within_a_day, _kickoffs(self._known[one])))}
        return soon if len(soon) == 1 else {one for one in found if self._ends_after(one, ts_ms - _DAY_MS)} or found

    def _on_the_day(self, kickoff: Span, found: set[int], title: str) -> Fixture | Unmatched:
        """Return the fixture that kicks off within a day of the stated time; of several, the one at exactly that time."""
        near = {one for one in found if any(map(kickoff.is_within_a_day, _kickoffs(self._known[one])))}
        exact = {one for one in near if kickoff.first_ms == kickoff.last_ms and kickoff.first_ms in _kickoffs(self._known[one])}
        if len(near) == 1 or len(exact) == 1:
            return self._known[next(iter(near if len(near) == 1 else exact))]
        if near:
            return self._ambiguous(f"{title!r} fits several fixtures within a day of its kickoff: name it by its id", near)
        if not any(_kickoffs(self._known[one]) for one in found):
            return Unmatched("kickoff_differs", f"{title!r} has no kickoff in the pack: name it by its id")
        return Unmatched("kickoff_differs", f"no fixture {title!r} kicks off within a day of the time told")

    def _ends_after(self, fixture_id: int, ts_ms: int) -> bool:
        kickoffs = _kickoffs(self._known[fixture_id])
        return not kickoffs or max(kickoffs) >= ts_ms

    def _ambiguous(self, detail: str, found: set[int]) -> Unmatched:
        listed = ", ".join(map(str, sorted(found)[:_LISTED])) + (", ..." if len(found) > _LISTED else "")
        return Unmatched("fixture_ambiguous", f"{detail} ({listed})", tuple(sorted(found)))


def teams_of(fixture: Fixture) -> tuple[str, str] | None:
    """Return the two teams of a fixture, the home team first; ``None`` unless it has two names."""
    if len(fixture.names) == 2:
        return fixture.names[0], fixture.names[1]
    return split_teams(fixture.names[0]) if len(fixture.names) == 1 else None


def split_teams(text: str) -> tuple[str, str] | None:
    """Return the two teams in a text, the home team first; ``None`` unless it names two.

    Examples
    --------
    >>> split_teams("Oak vs. Elm"), split_teams("Oak @ Elm"), split_teams("Oak-Elm")
    (('Oak', 'Elm'), ('Elm', 'Oak'), None)
    """
    for between, is_away_first in ((_BETWEEN, False), (_AT, True)):
        parts = between.split(text.strip())
        if len(parts) == 2 and all(map(folded, parts)):
            return (parts[1], parts[0]) if is_away_first else (parts[0], parts[1])
    return None


def _as_whole(text: str) -> str:
    """Return an id without the fraction that a column of floats added, such as 90000000.0."""
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() and abs(number) <= SAFE_INTEGER else text


def _teams(row: Row) -> tuple[str, str] | None:
    home, away = row.cells.get(Meaning.HOME), row.cells.get(Meaning.AWAY)
    if home and away and folded(home) and folded(away):
        return home, away
    return split_teams(row.cells.get(Meaning.FIXTURE) or "")


def _kickoffs(fixture: Fixture) -> list[int]:
    return [ts for ts in (fixture.kickoff_ts_ms, fixture.scheduled_ts_ms) if ts is not None]
