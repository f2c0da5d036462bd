"""Columns of probabilities in a table without odds, told by their names and by what they sum to."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from clvlab.packs.importers.csv_rows import delimiter_of, header_of

_SIDES = {
    "part1": ("home", "team1", "1", "h"), "draw": ("draw", "tie", "x", "d"), "part2": ("away", "team2", "2", "a"),
}  # fmt: skip
_SIDE_OF = {word: side for side, words in _SIDES.items() for word in words}
_WORDS = "|".join(sorted(_SIDE_OF, key=len, reverse=True))
_COLUMN = re.compile(
    rf"(?P<before>.*?)(?P<side>{_WORDS})(?P<after>(?:team)?(?:win|wins)?(?:probability|prob|pct|percent|chance|odds?|p)?)"
)
_BEFORE = re.compile(r"(?:implied|fair|model|avg|close|closing)?(?:probability|prob|pct|percent|chance|win|odds?|p)?(?:of)?")
_ROWS = 200
_OFF = 0.02  # of a sum from 1, which rounding to two places explains


@dataclass(frozen=True, slots=True)
class Probabilities:
    """The columns by side, whether they are percent, and how many rows show it."""

    sides: Mapping[str, str]
    percent: bool
    rows: int

    def __str__(self) -> str:
        *first, last = self.sides.values()
        return f"{', '.join(first)} and {last}, which sum to {'100 %' if self.percent else '1'} in {self.rows:,} rows"


def probabilities_of(text: str) -> Probabilities | None:
    r"""Return the columns of probabilities in the head of a table; null where there are none.

    They are named by the home team, the away team and maybe the draw, hold numbers from 0 to 1 or 0 to 100 in every row but
    blank ones, and sum to about 1 or 100 in nine rows of ten: odds never do.

    Examples
    --------
    >>> str(probabilities_of("date,home,away,p_home,p_draw,p_away\nd,Ash,Elm,.5,.3,.2\n"))
    'p_home, p_draw and p_away, which sum to 1 in 1 rows'
    """
    lines = [line for line in text.splitlines() if line.strip()][: _ROWS + 1]
    header = header_of(lines[0]) if lines else []
    try:
        rows = (
            [row for row in csv.reader(lines[1:], delimiter=delimiter_of(lines[0])) if len(row) == len(header)] if lines else []
        )
    except csv.Error:
        return None
    for sides in _styles(header):
        places = [header.index(column) for column in sides.values()]
        numbers = [[_number(row[place]) for place in places] for row in rows if any(row[place].strip() for place in places)]
        known = [[number for number in row if number is not None] for row in numbers]
        if not known or any(len(row) < len(places) or min(row) < 0 for row in known):
            continue
        sums = [sum(row) for row in known]
        whole = 100 if median(sums) > 2 else 1
        near = sum(abs(total - whole) <= _OFF * whole for total in sums)
        if near * 10 >= len(sums) * 9 and all(max(row) <= whole for row in known):
            return Probabilities(sides, percent=whole == 100, rows=near)
    return None


def _styles(header: Sequence[str]) -> list[dict[str, str]]:
    """Return the columns by side that are named alike, those with a draw first."""
    teams: dict[tuple[str, str, int], dict[str, str]] = defaultdict(dict)
    draws: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for column in header:
        named = _COLUMN.fullmatch("".join(letter for letter in column.lower() if letter.isalnum()))
        if not named or not _BEFORE.fullmatch(named["before"]):
            continue
        side, before, after = _SIDE_OF[named["side"]], named["before"], named["after"]
        word = _SIDES[side].index(named["side"])
        if side == "draw":
            draws[before, after].setdefault(word, column)
        else:
            teams[before, after, word].setdefault(side, column)
    found = []
    for (before, after, word), sides in teams.items():
        own = draws.get((before, after.removeprefix("team")), {})
        draw = own.get(word, next(iter(own.values()), None))
        if {"part1", "part2"} <= sides.keys():
            two = {"part1": sides["part1"], "part2": sides["part2"]}
            found += [two] if draw is None else [{"part1": two["part1"], "draw": draw, "part2": two["part2"]}, two]
    return sorted(found, key=len, reverse=True)


def _number(text: str) -> float | None:
    try:
        return float(text.strip().removesuffix("%"))
    except ValueError:
        return None
