"""Tables scraped off OddsPortal: one row per match, or per match and book, with columns for 1, X and 2.

Columns are known by their usual names. The odds are the close; opening odds, if any, are dated a day before the kickoff. The
files do not state either time, so both are synthetic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

from clvlab.base.names import among
from clvlab.base.progress import each
from clvlab.base.times import of_iso, zone_of
from clvlab.errors import SourceError
from clvlab.sources.exchange import MARKET_KEY
from clvlab.sources.scrapers.messages import AVERAGE, CLOSING_MS, OPENING_MS, Scrapes, day_of, scrapes
from clvlab.sources.source import Options, SourceData, files_below, league_named
from clvlab.sources.tables.rows import opened_csv
from clvlab.words import counted

TWO_WAY = "MATCH_WINNER||"
# Meaning -> usual names of its column, in small letters; the first name in the table counts.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "date": ("date", "match_date", "datetime", "date_time", "kickoff", "start_time"),
    "time": ("time", "match_time", "kickoff_time", "hour"),
    "home": ("home", "home_team", "hometeam", "team_home", "team1"),
    "away": ("away", "away_team", "awayteam", "team_away", "team2"),
    "league": ("league", "league_name", "competition", "tournament"),
    "book": ("bookmaker", "bookmaker_name", "bookie", "book"),
}
_SIDES = (
    ("1", "x", "2"),
    ("odds_1", "odds_x", "odds_2"),
    ("odd_1", "odd_x", "odd_2"),
    ("home_odds", "draw_odds", "away_odds"),
    ("odds_home", "odds_draw", "odds_away"),
    ("home_odd", "draw_odd", "away_odd"),
    ("avg_1", "avg_x", "avg_2"),
)
_OPENING = ("open_", "opening_")
_NAMES = ("part1", "draw", "part2")
_PARTS: Mapping[str, Sequence[str]] = {"columns": tuple(COLUMNS), "sides": _NAMES}
_DAY = len("2026-03-01")
_CLOCK = re.compile(r"(.*?)[ ,T]+(\d{1,2}:\d{2})")


@dataclass(frozen=True, slots=True)
class ScrapedColumns:
    """Columns by meaning, and by side for the close and the opening odds, if any."""

    named: Mapping[str, str]
    sides: Mapping[str, str]
    opening: Mapping[str, str]

    @property
    def key(self) -> str:
        return MARKET_KEY if "draw" in self.sides else TWO_WAY


def find(paths: Sequence[Path]) -> dict[str, Path]:
    return files_below(paths, (".csv", ".csv.gz"))


def columns_of(header: Sequence[str], mapping: Mapping[str, Mapping[str, str]] | None = None) -> ScrapedColumns | None:
    """Return the meaning of a table's columns, by usual names or a mapping; ``None`` if a needed one is missing."""
    plain = {column.lower().replace(" ", "_"): column for column in header}
    chosen = dict((mapping or {}).get("columns") or {})
    named = {
        meaning: column
        for meaning, names in COLUMNS.items()
        if (column := chosen.get(meaning) or next((plain[name] for name in names if name in plain), None)) is not None
    }
    side_columns = dict((mapping or {}).get("sides") or {})
    usual = next((sides for sides in _SIDES if {sides[0], sides[2]} <= plain.keys()), None)
    sides = side_columns or _side_columns(usual, plain)
    if not {"date", "home", "away"} <= named.keys() or not {"part1", "part2"} <= sides.keys():
        return None
    opening = next((found for before in _OPENING if (found := _side_columns(usual, plain, before)).keys() == sides.keys()), {})
    return ScrapedColumns(named, sides, opening)


def _side_columns(usual: tuple[str, ...] | None, plain: Mapping[str, str], before: str = "") -> dict[str, str]:
    return {side: plain[before + c] for side, c in zip(_NAMES, usual or (), strict=False) if before + c in plain}


def normalise(files: Mapping[str, Path], options: Options, scratch: Path) -> SourceData:
    read = scrapes(options, scratch)
    zone = zone_of(options.time_zone)
    for name, path in each("reading files", sorted(files.items()), len(files)):
        try:
            header, rows = opened_csv(name, path, read.account)
            columns = _columns(name, header, options)
            for line, cells in rows:
                read.account.messages += 1
                try:
                    _match(read, columns, name, line, cells, zone)
                except ValueError as error:
                    read.account.refuse(name, line, str(error), "a match can't be read")
        except SourceError as error:
            read.account.refuse_file(name, error)
        options.progress(f"{name}: {counted(read.account.messages, 'row')} so far")
    return read.result("oddsportal")


def _columns(name: str, header: Sequence[str], options: Options) -> ScrapedColumns:
    mapping = options.mapping or {}
    strange = next((key for key in mapping if key not in _PARTS), None)
    if strange is not None:
        raise SourceError(f"a mapping of this source has no key {strange!r:.80}{among(strange, _PARTS)}")
    for part, known in _PARTS.items():
        named = mapping.get(part) or {}
        if not isinstance(named, Mapping):
            raise SourceError(f"{part} of a mapping go from what they mean to your columns, not {named!r:.80}")
        strange = next((meaning for meaning in named if meaning not in known), None)
        if strange is not None:
            raise SourceError(f"{strange!r:.80} is no meaning here{among(strange, known)}")
        gone = next((column for column in named.values() if column not in header), None)
        if gone is not None:
            raise SourceError(f"{name}: the mapping names {gone!r:.80}, which is not one of the columns {header}")
    columns = columns_of(header, mapping)
    if columns is None:
        raise SourceError(
            f"{name}: no match can be read of the columns {', '.join(map(repr, header[:20]))}; say which they are, as --column "
            "date=DAY --column home=HOME --column away=AWAY --side part1=H --side draw=D --side part2=A"
        )
    return columns


def _match(
    read: Scrapes, columns: ScrapedColumns, name: str, line: int, cells: Mapping[str, str], zone: ZoneInfo | None
) -> None:
    texts = {meaning: cells.get(column, "") for meaning, column in columns.named.items()}
    kickoff_ms, day_ms, when = _kickoff(texts["date"], texts.get("time", ""), zone)
    if kickoff_ms is None:
        read.account.note("matches without a time of day have no kickoff")
    close_ms = day_ms if kickoff_ms is None else kickoff_ms - CLOSING_MS
    source_id = f"{texts['home']} - {texts['away']} {when}"
    book = texts.get("book") or AVERAGE
    quotes = [
        (ts_ms, {side: read.odds(cells.get(column), name, line) for side, column in sides.items()})
        for ts_ms, sides in ((close_ms - OPENING_MS, columns.opening), (close_ms, columns.sides))
        if sides
    ]
    read.learn(source_id, texts["home"], texts["away"], kickoff_ms, close_ms, league_named(texts.get("league"), "league"))
    for ts_ms, odds in quotes:
        read.quote(source_id, columns.key, book, ts_ms, odds, name, line)


def _kickoff(date: str, time: str, zone: ZoneInfo | None) -> tuple[int | None, int, str]:
    """Return the kickoff (``None`` without a time of day), its day, and a text that tells apart matches of the same teams.

    Raises
    ------
    ValueError
        The date is missing, or a time of day has no zone.
    """
    within = _CLOCK.fullmatch(date)
    day, clock = (within[1].strip(), within[2]) if within and day_of(within[1].strip()) else (date, time)
    known = day_of(day)
    if known is None and len(day) > _DAY:
        kickoff_ms = of_iso(day, zone)
        return kickoff_ms, kickoff_ms, day
    day = day if known is None else known.date().isoformat()
    text = f"{day}T{clock:0>5}" if clock else day
    return (of_iso(text, zone) if clock else None), of_iso(day, zone or ZoneInfo("UTC")), text
