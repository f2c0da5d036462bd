"""football-data.co.uk seasons: pre-match and closing odds of many books, and results, one row per match.

Each market takes closing and pre-match odds from one source: the first in an order of preference with all closing odds. The
files do not say when odds were observed. The ticks' times, at fixed spans before the kickoff, are therefore synthetic.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl

from clvlab.base.progress import each
from clvlab.base.times import by_forms
from clvlab.errors import SourceError
from clvlab.law.markets import HANDICAP_GOALS, RESULT_1X2, TOTAL_GOALS, Market, MarketKind, UnreadKey, compose_key
from clvlab.law.schema import BOOKS, ODDS_MILLI
from clvlab.odds.consensus import Consensus
from clvlab.packs.files import whole
from clvlab.packs.manifest import Fixture
from clvlab.packs.rows import RESULTS, Payout
from clvlab.sources.books import QUOTES, QuoteSpill, at_ticks, batches, book_ticks
from clvlab.sources.source import NO_ODDS, ImportStats, Options, SourceData, SourcePart, files_below, fixture_ids_of
from clvlab.words import counted

# Rows of football-data.co.uk: encodings, headers of every generation, dates in UK time.


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
    """One match: teams, time, goals if played, and its cells by column; ``source_id`` is league, day in the UK and teams."""

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


def matches(name: str, path: Path, account: ImportStats) -> Iterator[MatchRow]:
    """Read the matches of one file; rows that can't be read, or have another width than the header, are refused."""
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


def _text(name: str, path: Path, account: ImportStats) -> str:
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


# Markets of football-data's files: their keys, their sides, and the columns of each book's prices.


PRE_MATCH_MS = 24 * 3600 * 1000
CLOSING_MS = 1000


@dataclass(frozen=True, slots=True)
class FileMarket:
    """A market of the files: type, sides with the endings of their columns, and columns of its line."""

    kind: str
    sides: tuple[tuple[str, str], ...]
    prefixes: int
    line: tuple[str, ...] = ()
    closing_line: tuple[str, ...] = ()


MARKETS = (
    FileMarket(RESULT_1X2, (("part1", "H"), ("draw", "D"), ("part2", "A")), 0),
    FileMarket(TOTAL_GOALS, (("over", ">2.5"), ("under", "<2.5")), 1),
    FileMarket(HANDICAP_GOALS, (("part1", "AHH"), ("part2", "AHA")), 1, ("AHh", "BbAHh"), ("AHCh",)),
)


def prices(match: MatchRow, market: FileMarket, prefixes: Sequence[str], mark: str, account: ImportStats) -> dict[str, float]:
    """Return the odds of every side under the first prefix that has them all; empty without one.

    ``mark`` is ``C`` for closing odds, and empty for pre-match odds.
    """
    for prefix in prefixes:
        cells = {side: (prefix + mark + end, match.cells.get(prefix + mark + end, "")) for side, end in market.sides}
        odds: dict[str, float] = {}
        for side, (column, text) in cells.items():
            if not text:
                continue
            price = _number(text)
            if price is None or not ODDS_MILLI[0] <= round(price * 1000) <= ODDS_MILLI[1]:
                account.refuse(match.file, match.line, f"{column} {text!r} is {NO_ODDS}", "no odds")
                continue
            odds[side] = price
        if len(odds) == len(cells):
            return odds
        if odds:
            account.note("sources that lack a side of a market were passed over")
    return {}


def start_ms(match: MatchRow) -> int:
    """Return the time from which observations are counted back: the match's kickoff, or the end of its day."""
    return match.kickoff_ts_ms if match.kickoff_ts_ms is not None else match.day_ts_ms + CLOSING_MS


def quote_rows(match: MatchRow, key: str, book: str, ts_ms: int, odds: Mapping[str, float | None]) -> Iterator[tuple[Any, ...]]:
    """Return a book's prices of a market at one time as rows of ``QUOTES``."""
    for side, decimal in odds.items():
        yield (match.source_id, key, side, book, ts_ms, ts_ms, False, decimal, match.file, match.line)


def market_key(match: MatchRow, market: FileMarket, columns: Sequence[str]) -> str | None:
    """Return the market key; ``None`` if a handicap's line is missing."""
    if market.kind == RESULT_1X2:
        return compose_key(RESULT_1X2)
    if market.kind == TOTAL_GOALS:
        return compose_key(TOTAL_GOALS, line=2.5)
    line = next((number for column in columns if (number := _number(match.cells.get(column, ""))) is not None), None)
    return None if line is None else compose_key(market.kind, line=line)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < ODDS_MILLI[1] else None  # neither NaN nor infinite


# Prices of every book in football-data's files, besides the one source of the ticks.


_ANY = Consensus(min_books=1, max_age_s=10**9)

# Book -> the prefix of its columns for 1X2, and that for totals and handicaps.
_BOOKS = {
    "1xbet": ("1XB", "1XB"), "bet365": ("B365", "B365"), "betfair": ("BF", "BF"), "betfair-exchange": ("BFE", "BFE"),
    "betfred": ("BFD", "BFD"), "betmgm": ("BMGM", "BMGM"), "betvictor": ("BV", "BV"), "betwin": ("BW", "BW"),
    "bluesquare": ("BS", "BS"), "coral": ("CL", "CL"), "gamebookers": ("GB", "GB"), "interwetten": ("IW", "IW"),
    "ladbrokes": ("LB", "LB"), "pinnacle": ("PS", "P"), "sporting-odds": ("SO", "SO"), "sportingbet": ("SB", "SB"),
    "stan-james": ("SJ", "SJ"), "stanleybet": ("SY", "SY"), "vc-bet": ("VC", "VC"), "william-hill": ("WH", "WH"),
}  # fmt: skip


class OfferedBooks:
    """Prices of all books, spilled to disk."""

    def __init__(self, folder: Path) -> None:
        own = folder / "books"
        own.mkdir()
        self._spill, self._rows, self._refused = QuoteSpill(own), list[tuple[Any, ...]](), 0
        self._account = ImportStats(lenient=True)

    def add(self, match: MatchRow) -> None:
        start, markets = (
            start_ms(match),
            [
                (market, market_key(match, market, market.line), market_key(match, market, market.closing_line))
                for market in MARKETS
            ],
        )
        for market, first, last in markets:
            for book, prefixes in _BOOKS.items():
                own = prefixes[market.prefixes : market.prefixes + 1]
                before = prices(match, market, own, "", self._account) if first else {}
                close = prices(match, market, own, "C", self._account) if last else {}
                if before:
                    self._rows += quote_rows(match, str(first), book, start - PRE_MATCH_MS, before)
                if before and (not close or first != last):  # a book's pre-match price is not its close
                    self._rows += quote_rows(match, str(first), book, start - CLOSING_MS, dict.fromkeys(before))
                self._rows += quote_rows(match, str(last), book, start - CLOSING_MS, close)

    def flush(self) -> int:
        """Write the prices to disk, and count those that could not be read."""
        self._spill.add(pl.DataFrame(self._rows, schema=QUOTES, orient="row"))
        before, self._refused, self._rows = self._refused, sum(self._account.refused.values()), []
        return self._refused - before

    def books(self, events: Sequence[str], ids: Mapping[str, int], options: Options, ticks: pl.DataFrame) -> pl.DataFrame:
        """Return ``BOOKS`` of some matches at their existing ticks."""
        known = [event for event in events if event in self._spill.rows_of]
        if not known:
            return pl.DataFrame(schema=BOOKS)
        rows = self._spill.rows(known).sort("file", "line")
        frame = book_ticks(rows, ids, options, _ANY, ImportStats(lenient=True)).books
        return pl.DataFrame(schema=BOOKS) if frame is None else at_ticks(frame, ticks)


# How bets on football are settled by the score.


_OPPOSITE = {
    Payout.WON: Payout.LOST,
    Payout.HALF_WON: Payout.HALF_LOST,
    Payout.VOID: Payout.VOID,
    Payout.HALF_LOST: Payout.HALF_WON,
    Payout.LOST: Payout.WON,
}


def settlement(market: Market | UnreadKey, home: int, away: int) -> dict[str, Payout]:
    """Settle the sides of a market by the goals of a match; empty for an unread market, or one about something else.

    Examples
    --------
    >>> settlement(Market.parse("OVER_UNDER_25||"), 2, 1)["over"].value, settlement(Market.parse("totals_h1||point=2.5"), 2, 1)
    ('won', {})
    """
    if isinstance(market, UnreadKey) or any(market.scope):
        return {}
    if market.line is None:
        return result_1x2(home - away)
    return totals(home + away, market.line) if market.kind is MarketKind.TOTAL else handicap(home - away, market.line)


def result_1x2(lead: int) -> dict[str, Payout]:
    won = "part1" if lead > 0 else "part2" if lead < 0 else "draw"
    return {side: Payout.WON if side == won else Payout.LOST for side in ("part1", "draw", "part2")}


def totals(goals: int, line: float) -> dict[str, Payout]:
    over = _by_margin(goals - line)
    return {"over": over, "under": _OPPOSITE[over]}


def handicap(lead: int, line: float) -> dict[str, Payout]:
    """Settle an Asian handicap with the home team's line; quarter lines halve the stake.

    Examples
    --------
    >>> handicap(0, -0.25)["part1"].value, handicap(1, -1.0)["part2"].value
    ('half_lost', 'void')
    """
    home = _by_margin(lead + line)
    return {"part1": home, "part2": _OPPOSITE[home]}


def _by_margin(margin: float) -> Payout:
    if margin == 0:
        return Payout.VOID
    if abs(margin) < 0.5:
        return Payout.HALF_WON if margin > 0 else Payout.HALF_LOST
    return Payout.WON if margin > 0 else Payout.LOST


NORMALISER = "football-data/1"
CLOSING = ("pinnacle", "betfair-exchange", "average", "maximum")
_ALWAYS_FRESH = Consensus(min_books=1, max_age_s=10**9)
# Source -> prefixes of its columns, newest first: for 1X2, and for totals and handicaps.
_PREFIXES = {
    "pinnacle": (("PS",), ("P",)),
    "betfair-exchange": (("BFE",), ("BFE",)),
    "average": (("Avg", "BbAv"), ("Avg", "BbAv")),
    "maximum": (("Max", "BbMx"), ("Max", "BbMx")),
    "bet365": (("B365",), ("B365",)),
}


def find(paths: Sequence[Path]) -> dict[str, Path]:
    return files_below(paths, (".csv", ".csv.gz"))


def normalise(files: Mapping[str, Path], options: Options, scratch: Path) -> SourceData:
    """Read seasons into at most two ticks per market of each match."""
    preference = options.closing or CLOSING
    unknown = [name for name in preference if name not in _PREFIXES]
    if unknown:
        raise SourceError(f"unknown closing source {unknown[0]!r}: use some of {', '.join(_PREFIXES)}")
    account = ImportStats(options.lenient)
    spill, offered = QuoteSpill(scratch), OfferedBooks(scratch) if options.books else None
    fixtures: dict[str, tuple[str, str, int | None]] = {}
    settled: list[tuple[str, str, str, str, str]] = []
    for name, path in each("reading files", sorted(files.items()), len(files)):
        rows: list[tuple[Any, ...]] = []
        try:
            for match in matches(name, path, account):
                if match.source_id in fixtures:
                    account.refuse(name, match.line, f"{match.source_id} is listed twice", "a match is listed twice")
                    continue
                fixtures[match.source_id] = (match.home, match.away, match.kickoff_ts_ms)
                quotes = list(_quotes(match, preference, account))
                if offered is not None:
                    offered.add(match)
                settled += _results(match, {quote[1] for quote in quotes})
                rows += quotes
                if len(rows) >= options.chunk_rows // 4:
                    spill.add(pl.DataFrame(rows, schema=QUOTES, orient="row"))
                    rows = []
        except SourceError as error:
            account.refuse_file(name, error)
        spill.add(pl.DataFrame(rows, schema=QUOTES, orient="row"))
        if offered is not None:
            account.note("prices of single books that can't be read", offered.flush())
        options.progress(f"{name}: {counted(len(fixtures), 'match', 'matches')} so far")
    ids = fixture_ids_of(fixtures)
    results = pl.DataFrame([(ids[row[0]], *row[1:]) for row in settled], schema=RESULTS, orient="row")
    return SourceData(
        parts=_parts(spill, offered, ids, options, account),
        fixtures=tuple(
            Fixture(fixture_id=ids[source_id], names=(home, away), source_id=source_id, kickoff_ts_ms=kickoff)
            for source_id, (home, away, kickoff) in sorted(fixtures.items(), key=lambda item: ids[item[0]])
        ),
        account=account,
        provenance="imported-football-data",
        normaliser=NORMALISER,
        margin=options.margin.value,
        consensus=f"one source a market, in this order: {', '.join(preference)}; times of ticks are synthetic",
        closing_source=" > ".join(preference),
        results=results if results.height else None,
    )


def _parts(
    spill: QuoteSpill, offered: OfferedBooks | None, ids: Mapping[str, int], options: Options, account: ImportStats
) -> Iterator[SourcePart]:
    for batch in batches(spill.rows_of, ids, options.chunk_rows):
        rows = spill.rows(batch).sort("file", "line")
        part = book_ticks(rows, ids, replace(options, books=False), _ALWAYS_FRESH, account)
        yield part if offered is None else SourcePart(part.ticks, offered.books(batch, ids, options, part.ticks))


def _quotes(match: MatchRow, preference: Sequence[str], account: ImportStats) -> Iterator[tuple[Any, ...]]:
    start = start_ms(match)
    for market in MARKETS:
        chosen = _choose_source(match, market, preference, account)
        if chosen is None:
            continue
        source, before, close = chosen
        before_key, close_key = market_key(match, market, market.line), market_key(match, market, market.closing_line)
        priced: list[tuple[int, str, Mapping[str, float | None]]] = []
        if before and before_key:
            priced.append((start - PRE_MATCH_MS, before_key, before))
        if close and close_key:
            if before_key and priced and before_key != close_key:
                priced.append((start - CLOSING_MS, before_key, dict.fromkeys(before)))
                account.note("handicap lines that moved: the first line has no close")
            priced.append((start - CLOSING_MS, close_key, close))
        for ts_ms, key, odds in priced:
            yield from quote_rows(match, key, source, ts_ms, odds)


def _choose_source(
    match: MatchRow, market: FileMarket, preference: Sequence[str], account: ImportStats
) -> tuple[str, dict[str, float], dict[str, float]] | None:
    """Return the first source with closing odds, with its pre-match odds if any; without one the first with pre-match odds."""
    before = {source: prices(match, market, _PREFIXES[source][market.prefixes], "", account) for source in preference}
    for source in preference:
        close = prices(match, market, _PREFIXES[source][market.prefixes], "C", account)
        if close:
            account.note(f"closing {market.kind} of {source}")
            return source, before[source], close
    first = next((source for source in preference if before[source]), None)
    if first is None:
        return None
    account.note(f"no closing {market.kind}: {first} before the match only")
    return first, before[first], {}


def _results(match: MatchRow, keys: set[str]) -> Iterator[tuple[str, str, str, str, str]]:
    if match.goals is None:
        return
    home, away = match.goals
    for key in sorted(keys):
        for side, result in settlement(Market.parse(key), home, away).items():
            yield (match.source_id, key, side, result.value, f"{home}-{away}")
