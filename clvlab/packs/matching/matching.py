"""Matches of two sources: taken where only one pair is possible and the prices agree, else refused and listed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Generic, NamedTuple, TypeVar

from clvlab.law.markets import Role
from clvlab.packs.matching.fixtures import ListedFixture, MatchResult, Pair, RefusedMatch
from clvlab.packs.matching.names import NO_ALIASES, TeamAliases, may_be_alike, words_of
from clvlab.packs.matching.prices import PriceGap, gap_between

# Connected groups are the teams of a competition, or the fixtures of two sources that could be one match.


T = TypeVar("T")


class Components(Generic[T]):
    def __init__(self) -> None:
        self._parent: dict[T, T] = {}

    def root(self, node: T) -> T:
        parent = self._parent
        parent.setdefault(node, node)
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    def join(self, one: T, other: T) -> None:
        self._parent[self.root(one)] = self.root(other)


# Where teams play on following days, the day decides the match.


DAILY_MS = 40 * 3_600_000  # no team plays twice within this time in a weekly competition
WEEK_MS = 7 * 24 * 3_600_000
DAILY_SHARE = 0.1  # share of a team's games within a week of its last; a few moved kickoffs do not reach it


def playing_daily(first: Sequence[ListedFixture], second: Sequence[ListedFixture]) -> set[int]:
    """Return the fixtures of the first source in competitions whose teams play on following days.

    Teams that meet are of one competition, also through others. The time between a team's games is taken within one source,
    which lists each match once.
    """
    leagues, soon = Components[str](), defaultdict[str, list[bool]](list)
    for listed in (first, second):
        played = defaultdict[str, list[int]](list)
        for one in listed:
            teams = _teams(one)
            for team in teams:
                leagues.join(teams[0], team)
                played[team] += [one.kickoff_ts_ms] if one.kickoff_ts_ms is not None else []
        for team, times in played.items():
            gaps = (late - early for early, late in pairwise(sorted(times)))
            soon[team] += [gap < DAILY_MS for gap in gaps if gap < WEEK_MS]
    known = defaultdict[str, list[bool]](list)
    for team, seen in soon.items():
        known[leagues.root(team)] += seen
    daily = {league for league, seen in known.items() if sum(seen) > DAILY_SHARE * len(seen)}
    return {one.fixture_id for one in first if one.names and leagues.root(_teams(one)[0]) in daily}


def _teams(one: ListedFixture) -> list[str]:
    return [" ".join(words_of(name)) for name in one.names]


UNTIMED = "it has no kickoff, and teams meet more than once"

EXACT_MS = 20 * 60_000
NEAR_MS = 3 * 3_600_000
FAR_MS = 30 * 3_600_000  # a kickoff may be moved by a day
LEAST_ALIKE = 0.72  # for each team
SURELY_ALIKE = 0.85  # for each team, where the kickoffs are far apart
MARGIN = 0.1  # lead in likeness that a pair needs over another
SAME, LEAST_ORDERED = 0.99, 0.03  # for equal names a smaller lead over the reverse order is enough
LARGEST_GAP_BPS = 2_000  # of a side's probability, between sources of one match
LARGEST_FAR_GAP_BPS = 800  # where the kickoffs are far apart
_FEW = 16  # fixtures within the time by which a kickoff is moved
TURN_BPS = 300  # lead in price fit that the reverse order needs against the names


class _Edge(NamedTuple):
    first: int
    second: int
    swapped: bool
    alike: float
    gap_ms: int
    ordered: bool  # whether the names decide the order of teams

    @property
    def tier(self) -> int:
        """Distance of the kickoffs: 0 equal, 1 hours apart, 2 further."""
        return 0 if abs(self.gap_ms) <= EXACT_MS else 1 if abs(self.gap_ms) <= NEAR_MS else 2


Gaps = Callable[[int, int, bool], PriceGap | None]
"""Returns the price gap of a fixture of each source, the second reversed or not; ``None`` without a common market."""


def matched(
    first: Sequence[ListedFixture], second: Sequence[ListedFixture], gaps: Gaps | None = None, aliases: TeamAliases = NO_ALIASES
) -> MatchResult:
    """Match the fixtures of two sources; without ``gaps`` prices are not compared.

    A pair is taken if its teams are alike, it is the best pair for both fixtures, and the prices of both are those of one match
    with the teams in that order. Fixtures that several matches could claim are refused together.
    """
    edges = _pruned(_edges(first, second, aliases))
    pairs = list[Pair]()
    refused = [RefusedMatch((one.fixture_id,), (), UNTIMED) for one in first if one.kickoff_ts_ms is None]
    refused += [RefusedMatch((), (one.fixture_id,), UNTIMED) for one in second if one.kickoff_ts_ms is None]
    daily = playing_daily(first, second)
    drawn = [
        {one.fixture_id for one in source if any(Role.DRAW in own.roles for own in one.markets)} for source in (first, second)
    ]
    for part in _components(edges):
        chosen, left = _resolved(part)
        if left is not None:
            refused.append(left)
        for edge in chosen:
            without_draw = edge.first not in drawn[0] and edge.second not in drawn[1]
            judged = _judged(edge, gaps, daily=without_draw or edge.first in daily)
            if isinstance(judged, Pair):
                pairs.append(judged)
            else:
                refused.append(judged)
    used = {one.first for one in pairs} | {number for one in refused for number in one.first}
    taken = {one.second for one in pairs} | {number for one in refused for number in one.second}
    return MatchResult(
        tuple(sorted(pairs, key=lambda pair: pair.first)),
        tuple(sorted(refused, key=lambda one: (one.first, one.second))),
        tuple(one.fixture_id for one in first if one.fixture_id not in used),
        tuple(one.fixture_id for one in second if one.fixture_id not in taken),
    )


class LikelyPair(NamedTuple):
    """A fixture of the first source that may be one of the second, by teams and kickoff alone.

    ``alike`` is the likeness of the less alike team in the better order, ``gap_ms`` the second kickoff minus the first, and
    ``daily`` says that only the day decides the match.
    """

    first: int
    second: int
    alike: float
    gap_ms: int
    daily: bool

    @property
    def is_near(self) -> bool:
        return abs(self.gap_ms) <= NEAR_MS


def likely_pairs(
    first: Sequence[ListedFixture], second: Sequence[ListedFixture], calendar: Sequence[ListedFixture]
) -> list[LikelyPair]:
    """Return likely pairs, each judged alone and without prices; a fixture may have several, so that every match is found.

    A fixture with several kickoffs may be listed with each. ``calendar`` lists all fixtures of the first source once, to show
    where teams play on following days.
    """
    edges = _edges(first, second)
    of_first = defaultdict[int, list[_Edge]](list)
    for edge in edges:
        of_first[edge.first].append(edge)
    left = [edge for edge in edges if not any(_beats(one, edge) for one in of_first[edge.first])]
    daily = playing_daily(calendar, ()) if any(edge.tier == 2 for edge in left) else set()
    return [LikelyPair(edge.first, edge.second, edge.alike, edge.gap_ms, edge.first in daily) for edge in left]


def _edges(first: Sequence[ListedFixture], second: Sequence[ListedFixture], aliases: TeamAliases = NO_ALIASES) -> list[_Edge]:
    times = sorted(one.kickoff_ts_ms for one in second if one.kickoff_ts_ms is not None)
    timed = [
        (at, one)
        for one in first
        if (at := one.kickoff_ts_ms) is not None and bisect_left(times, at - FAR_MS) < bisect_right(times, at + FAR_MS)
    ]
    calendar = _Calendar(second, aliases)
    found = []
    for at, one in timed:
        for then, other in calendar.near(one, at):
            edge = _edge(one, other, then - at, aliases)
            if edge is not None:
                found.append(edge)
    return found


class _Calendar:
    """The fixtures of a source by time and team.

    Where few fixtures are near a time, their names are compared one by one. Where many are, similar names are found once for
    all matches.
    """

    def __init__(self, listed: Sequence[ListedFixture], aliases: TeamAliases) -> None:
        self._aliases = aliases
        timed = [(one.kickoff_ts_ms, place, one) for place, one in enumerate(listed) if one.kickoff_ts_ms is not None]
        self._all = sorted((item for item in timed if len(item[2].names) == 2), key=itemgetter(0, 1))
        self._of_team = defaultdict[str, list[tuple[int, int, ListedFixture]]](list)
        for item in self._all:
            for name in set(item[2].names):
                self._of_team[name].append(item)
        self._alike: dict[str, list[str]] = {}

    def near(self, one: ListedFixture, at: int) -> list[tuple[int, ListedFixture]]:
        """Return the fixtures within about a day, in order, that have a team similar to the first team of ``one``."""
        if len(one.names) != 2:
            return []
        low, high = _far(self._all, at)
        if high - low <= _FEW:
            near = self._all[low:high]
            return [(then, other) for then, _, other in near if any(self._are_like(one.names[0], name) for name in other.names)]
        found = dict[int, tuple[int, ListedFixture]]()
        for name in self._like(one.names[0]):
            own = self._of_team[name]
            low, high = _far(own, at)
            found |= {place: (then, other) for then, place, other in own[low:high]}
        return [found[place] for place in sorted(found, key=lambda place: (found[place][0], place))]

    def _like(self, name: str) -> list[str]:
        if name not in self._alike:
            self._alike[name] = [other for other in self._of_team if self._are_like(name, other)]
        return self._alike[name]

    def _are_like(self, one: str, other: str) -> bool:
        return (self._aliases.teams or may_be_alike(one, other)) and self._aliases.likeness(one, other) >= LEAST_ALIKE


def _far(timed: Sequence[tuple[int, int, ListedFixture]], at: int) -> tuple[int, int]:
    """Return the bounds of the fixtures near enough to a time that a moved kickoff explains the distance."""
    return bisect_left(timed, at - FAR_MS, key=itemgetter(0)), bisect_right(timed, at + FAR_MS, key=itemgetter(0))


def _edge(one: ListedFixture, other: ListedFixture, gap_ms: int, aliases: TeamAliases) -> _Edge | None:
    if len(one.names) != 2 or len(other.names) != 2:
        return None
    likeness = aliases.likeness
    straight = min(likeness(one.names[0], other.names[0]), likeness(one.names[1], other.names[1]))
    swapped = min(likeness(one.names[0], other.names[1]), likeness(one.names[1], other.names[0]))
    alike = max(straight, swapped)
    if alike < LEAST_ALIKE:
        return None
    ordered = abs(straight - swapped) >= (MARGIN if alike < SAME else LEAST_ORDERED)
    return _Edge(one.fixture_id, other.fixture_id, swapped > straight, alike, gap_ms, ordered)


def _pruned(edges: Iterable[_Edge]) -> list[_Edge]:
    """Leave out a pair if one of its fixtures has another pair as near in time and clearly more alike."""
    listed = list(edges)
    by_first, by_second = defaultdict[int, list[_Edge]](list), defaultdict[int, list[_Edge]](list)
    for edge in listed:
        by_first[edge.first].append(edge)
        by_second[edge.second].append(edge)

    def is_beaten(edge: _Edge) -> bool:
        return any(_beats(one, edge) for one in (*by_first[edge.first], *by_second[edge.second]))

    return [edge for edge in listed if not is_beaten(edge)]


def _beats(one: _Edge, edge: _Edge) -> bool:
    return one.alike >= edge.alike + MARGIN and one.tier <= edge.tier


def _components(edges: Sequence[_Edge]) -> list[list[_Edge]]:
    groups = Components[tuple[int, int]]()
    for edge in edges:
        groups.join((0, edge.first), (1, edge.second))
    found = defaultdict[tuple[int, int], list[_Edge]](list)
    for edge in edges:
        found[groups.root((0, edge.first))].append(edge)
    return list(found.values())


def _resolved(edges: list[_Edge]) -> tuple[list[_Edge], RefusedMatch | None]:
    """Return the pairs of a group if they can be decided, nearest kickoffs first; each must be the only choice."""
    if len(edges) == 1:
        return edges, None
    firsts, seconds = {edge.first for edge in edges}, {edge.second for edge in edges}
    chosen, left = list[_Edge](), edges
    for tier in (0, 1):
        near = [edge for edge in left if edge.tier == tier]
        if len({edge.first for edge in near}) < len(near) or len({edge.second for edge in near}) < len(near):
            return [], _several(firsts, seconds)
        chosen += near
        used, taken = {edge.first for edge in chosen}, {edge.second for edge in chosen}
        left = [edge for edge in left if edge.first not in used and edge.second not in taken]
    if len(chosen) < max(len(firsts), len(seconds)):  # a remaining fixture may have been moved onto the time of another
        return [], _several(firsts, seconds)
    return chosen, None


def _several(firsts: Iterable[int], seconds: Iterable[int]) -> RefusedMatch:
    return RefusedMatch(tuple(sorted(firsts)), tuple(sorted(seconds)), "several matches could be meant")


def _judged(edge: _Edge, gaps: Gaps | None, *, daily: bool) -> Pair | RefusedMatch:
    def refused(reason: str) -> RefusedMatch:
        return RefusedMatch((edge.first,), (edge.second,), reason)

    gap_s = round(edge.gap_ms / 1000)
    far = edge.tier == 2
    if not edge.ordered:
        return refused("the names do not say which team is which")
    if far and daily:
        return refused("the kickoffs are far apart, and where there is no draw, or teams play on following days, a day decides")
    if far and edge.alike < SURELY_ALIKE:
        return refused("the kickoffs are far apart, and the names not quite the same")
    if gaps is None:
        return Pair(edge.first, edge.second, edge.swapped, edge.alike, gap_s, 0)
    own, other = (gaps(edge.first, edge.second, way) for way in (edge.swapped, not edge.swapped))
    if own is None:
        return refused("no market in common has prices at one time")
    if other is not None and own.gap_bps - other.gap_bps > TURN_BPS:
        return refused(
            f"by the names the teams stand {'the other way round' if edge.swapped else 'in one order'}, not by the prices: a "
            f"side differs by {own.gap_bps / 100:g} points, and by {other.gap_bps / 100:g} the other way"
        )
    limit = LARGEST_FAR_GAP_BPS if far else LARGEST_GAP_BPS
    if own.gap_bps > limit:
        return refused(f"the prices are not those of one match: a side differs by {own.gap_bps / 100:g} points")
    return Pair(edge.first, edge.second, edge.swapped, edge.alike, gap_s, own.gap_bps)


def gaps_of(
    first: dict[int, ListedFixture], second: dict[int, ListedFixture], first_prices: Prices, second_prices: Prices
) -> Gaps:
    def gap(one: int, other: int, swapped: bool) -> PriceGap | None:  # noqa: FBT001  as ``Gaps`` is called
        ours, theirs = first[one], second[other]
        known = [at for at in (ours.kickoff_ts_ms, theirs.kickoff_ts_ms) if at is not None]
        return gap_between(
            (ours.markets, first_prices(one)),
            ([market.swapped if swapped else market for market in theirs.markets], second_prices(other)),
            min(known, default=None),
        )

    return gap


Prices = Callable[[int], "dict[tuple[str, str], tuple[list[int], list[int]]]"]
"""Returns the prices of a fixture: by market and side, times and probabilities in basis points."""
