"""Rows of football-data.co.uk: encodings, headers of every generation, dates in UK time."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from clvlab.base.times import by_forms
from clvlab.errors import SourceError
from clvlab.packs.files import whole
from clvlab.packs.importers.source import Account

_UK = ZoneInfo("Europe/London")
_DATES = ("%d/%m/%Y", "%d/%m/%y")
# Meaning -> its column in the main leagues, and in the extra leagues.
_COLUMNS = {
    "home": ("HomeTeam", "Home"),
    "away": ("AwayTeam", "Away"),
    "home_goals": ("FTHG", "HG"),
    "away_goals": ("FTAG", "AG"),
    "result": ("FTR", "Res"),
    "league": ("Div", "League"),
}


@dataclass(frozen=True, slots=True)
class MatchRow:
    """One match: who, when, the goals if it was played, and its cells by column.

    ``source_id`` is what the source has for an id: league, day in the UK and teams.
    """

    file: str
    line: int
    source_id: str
    league: str
    home: str
    away: str
    day_ts_ms: int
    kickoff_ts_ms: int | None
    goals: tuple[int, int] | None
    cells: Mapping[str, str]


def matches(name: str, path: Path, account: Account) -> Iterator[MatchRow]:
    """Read the matches of one file; rows of another width than the header, or that can't be read, are refused."""
    rows = csv.reader(io.StringIO(_text(name, path, account), newline=""), strict=True)
    header: list[str] = []
    league = ""
    try:
        for row in rows:
            if not any(cell.strip() for cell in row):
                account.note("blank rows were passed over")
                continue
            if not header:
                header = _header(name, row)
                continue
            account.messages += 1
            try:
                match = _match(name, rows.line_num, header, row)
                league = league or match.league
                if match.league != league:
                    raise ValueError(f"league {match.league!r} in a file of {league!r}")
            except ValueError as error:
                account.refuse(name, rows.line_num, str(error), "a row can't be read")
                continue
            if match.kickoff_ts_ms is None:
                account.note("matches without a time of day have no kickoff")
            if match.goals is None:
                account.note("matches without a score")
            yield match
    except csv.Error as error:
        raise SourceError(f"{name}:{rows.line_num}: no CSV: {error}") from error
    if not header:
        raise SourceError(f"{name}: has no header")


def _text(name: str, path: Path, account: Account) -> str:
    content = whole(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass  # older seasons: names in the encoding of western Windows
    try:
        text = content.decode("cp1252")
    except UnicodeDecodeError as error:
        raise SourceError(f"{name}: is neither UTF-8 nor cp1252: {error.reason} at byte {error.start}") from error
    account.note("files in cp1252")
    return text


def _header(name: str, row: list[str]) -> list[str]:
    header = [cell.strip() for cell in row]
    named = [cell for cell in header if cell]
    twice = sorted({cell for cell in named if named.count(cell) > 1})
    missing = ["Date"] * ("Date" not in header) + [
        columns[0]
        for meaning, columns in _COLUMNS.items()
        if meaning in ("home", "away", "league") and not {*columns} & {*header}
    ]
    if twice or missing:
        found = f"names {twice[0]!r} twice" if twice else f"lacks {missing[0]!r}"
        raise SourceError(f"{name}:1: the header {found}; it is {named[:8]}...")
    return header


def _match(name: str, line: int, header: list[str], row: list[str]) -> MatchRow:
    if len(row) != len(header):
        raise ValueError(f"{len(row)} cells under a header of {len(header)}")
    cells = {column: cell.strip() for column, cell in zip(header, row, strict=True) if column}
    by = {meaning: next((cells[c] for c in columns if c in cells), "") for meaning, columns in _COLUMNS.items()}
    if not (by["home"] and by["away"] and by["league"]) or by["home"] == by["away"]:
        raise ValueError(f"no match: {by['league']!r}, {by['home']!r} - {by['away']!r}")
    league = " ".join(filter(None, (cells.get("Country"), by["league"])))
    day = _day(cells["Date"])
    clock = cells.get("Time")
    kickoff = _ms(datetime.combine(day.date(), _clock(clock), tzinfo=_UK)) if clock else None
    source_id = f"{league}|{day.date().isoformat()}|{by['home']}|{by['away']}"
    return MatchRow(name, line, source_id, league, by["home"], by["away"], _ms(day), kickoff, _goals(by), cells)


def _day(text: str) -> datetime:
    day = by_forms(text, *_DATES)
    if day is None:
        raise ValueError(f"Date {text!r} is neither dd/mm/yyyy nor dd/mm/yy")
    return day.replace(tzinfo=_UK)


def _clock(text: str) -> time:
    clock = by_forms(text, "%H:%M")
    if clock is None:
        raise ValueError(f"Time {text!r} is not hh:mm")
    return clock.time()


def _ms(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _goals(by: Mapping[str, str]) -> tuple[int, int] | None:
    home, away, result = by["home_goals"], by["away_goals"], by["result"]
    if not home and not away:
        return None
    if not (home.isdecimal() and away.isdecimal()):
        raise ValueError(f"goals {home!r} and {away!r} are no score")
    goals = int(home), int(away)
    expected = "H" if goals[0] > goals[1] else "A" if goals[0] < goals[1] else "D"
    if result and result != expected:
        raise ValueError(f"result {result!r} is not that of {home}-{away}")
    return goals
