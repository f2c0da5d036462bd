"""Where teams play on following days, a day decides which match it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from clvlab.packs.matching.fixtures import Listed
from clvlab.packs.matching.groups import Groups
from clvlab.packs.matching.names import words_of

DAILY_MS = 40 * 3_600_000  # in which no team plays twice where it plays weekly
WEEK_MS = 7 * 24 * 3_600_000
DAILY_SHARE = 0.1  # of the times that a team plays again within a week, which a few kickoffs that were moved do not reach


def playing_daily(first: Sequence[Listed], second: Sequence[Listed]) -> set[int]:
    """Return the fixtures of the first source that are of competitions in which teams play on following days.

    Teams that meet each other are of one competition, and so are those that they meet. How soon a team plays again is seen
    within one source, where a match stands once.
    """
    leagues, soon = Groups[str](), defaultdict[str, list[bool]](list)
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


def _teams(one: Listed) -> list[str]:
    return [" ".join(words_of(name)) for name in one.names]
