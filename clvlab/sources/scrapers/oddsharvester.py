"""OddsHarvester's files, JSON or CSV: one row per match, with a list of books per market (in a CSV, as text in one cell).

With histories every change of a book counts at its time. Without them, a row scraped before the match is a quote at that time,
and a row scraped after the match is the close.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypedDict
from zoneinfo import ZoneInfo

import orjson

from clvlab.base.progress import each
from clvlab.base.times import of_iso, zone_of
from clvlab.errors import SourceError
from clvlab.sources.archives import ArchiveKind, head_of, json_documents, kind_of
from clvlab.sources.scrapers.messages import AVERAGE, CLOSING_MS, Scrapes, market_key_named, scrapes, side_named
from clvlab.sources.source import Options, SourceData, files_below, league_named, reason_of
from clvlab.sources.tables.rows import opened_csv
from clvlab.words import counted

ENDING = "_market"
NEEDED = ("match_date", "home_team", "away_team")
_NO_SIDES = {
    "bookmaker_name",
    "period",
    "submarket_name",
    "odds_history_data",
    "market_type",
    "extraction_mode",
    "blocked_outcomes",
    "payout",
}
_OVERLAP = "double_chance"
_LINE = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*$")
_MAX_CELL = 4 << 20


def find(paths: Sequence[Path]) -> dict[str, Path]:
    return files_below(paths, (".json", ".jsonl", ".csv", ".json.gz", ".jsonl.gz", ".csv.gz"))


def normalise(files: Mapping[str, Path], options: Options, scratch: Path) -> SourceData:
    read = scrapes(options, scratch)
    zone = zone_of(options.time_zone)
    for name, path in each("reading files", sorted(files.items()), len(files)):
        try:
            for line, row in _rows(name, path, read):
                read.account.messages += 1
                try:
                    _match(read, name, line, row, zone)
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    read.account.refuse(name, line, reason_of(error), "a match can't be read")
        except SourceError as error:
            read.account.refuse_file(name, error)
        options.progress(f"{name}: {counted(read.account.messages, 'match', 'matches')} so far")
    return read.result("oddsharvester")


def _rows(name: str, path: Path, read: Scrapes) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Return the matches of a file, numbered by line or, in a JSON document, by order."""
    if kind_of(head_of(path)) is not ArchiveKind.JSON:
        yield from opened_csv(name, path, read.account)[1]
        return
    for line, document in json_documents(name, path, read.account):
        yield from enumerate(document if isinstance(document, list) else [document], line)


def _match(read: Scrapes, name: str, line: int, row: Mapping[str, Any], zone: ZoneInfo | None) -> None:
    if not isinstance(row, Mapping):
        raise ValueError(f"{str(row)[:80]!r} is no match")
    home, away, kickoff_ms = str(row["home_team"]), str(row["away_team"]), _time(row["match_date"], zone)
    scraped = row.get("scraped_date")
    scraped_ms = kickoff_ms if scraped in (None, "") else _time(scraped, zone)
    league = league_named(row.get("league_name"), "league_name")
    source_id = str(row.get("match_link") or f"{home} - {away} {row['match_date']}")
    last_ms = kickoff_ms - CLOSING_MS if scraped_ms >= kickoff_ms else scraped_ms
    odds_of = partial(read.odds, file=name, line=line)
    quotes = [
        quote
        for column, cell in row.items()
        if column.endswith(ENDING) and cell not in (None, "")
        for quote in _market(read, column.removesuffix(ENDING), cell, odds_of, last_ms, zone)
    ]
    read.learn(source_id, home, away, kickoff_ms, scraped_ms, league)
    for key, book, ts_ms, odds in quotes:
        read.quote(source_id, key, book, ts_ms, odds, name, line)


def _time(text: object, zone: ZoneInfo | None) -> int:
    if not isinstance(text, str):
        raise ValueError(f"{text!r:.80} is no time")
    return of_iso(text.strip().removesuffix(" UTC") + "+00:00" if text.strip().endswith(" UTC") else text, zone)


class _HistoricOdds(TypedDict):
    timestamp: str
    odds: float


class _History(TypedDict, total=False):
    """A book's history of a side: any field may be missing or of another type until checked."""

    opening_odds: _HistoricOdds | None
    odds_history: Sequence[_HistoricOdds] | None


_Odds = Callable[[object], float | None]
_Quoted = tuple[str, str, int, dict[str, float | None]]


def _market(read: Scrapes, market: str, cell: Any, odds_of: _Odds, last_ms: int, zone: ZoneInfo | None) -> Iterator[_Quoted]:
    if market.startswith(_OVERLAP):
        read.account.note("markets of double chances were left out: their sides overlap")
        return
    for book in _books(cell, market):
        line = _LINE.search(str(book.get("submarket_name") or "")) if "1x2" not in market else None
        key = market_key_named(market, str(book.get("period") or ""), line and line[1])
        labels = [label for label in book if label not in _NO_SIDES]
        sides = [side_named(label, market) for label in labels]
        if len(labels) < 2 or len(set(sides)) != len(sides):
            raise ValueError(f"a book of {market} has the sides {labels}")
        blocked = book.get("blocked_outcomes") or ()
        named = str(book.get("bookmaker_name") or AVERAGE)
        odds = [None if label in blocked else odds_of(book[label]) for label in labels]
        for ts_ms, then in _changes(read, book, len(labels), odds_of, last_ms, zone):
            yield key, named, ts_ms, dict(zip(sides, then, strict=True))
        yield key, named, last_ms, dict(zip(sides, odds, strict=True))


def _books(cell: Any, market: str) -> Sequence[Mapping[str, Any]]:
    """Return the books of a market: a list, or its text as JSON or Python writes it."""
    found = cell
    if isinstance(cell, str):
        if len(cell) > _MAX_CELL:
            raise ValueError(f"the books of {market} have {len(cell):,} letters, more than {_MAX_CELL:,}")
        try:
            found = orjson.loads(cell)
        except orjson.JSONDecodeError:
            try:
                found = ast.literal_eval(cell)
            except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
                raise ValueError(f"the books of {market} are no list: {cell!r:.80}") from error
    if not isinstance(found, list) or not all(isinstance(book, dict) for book in found):
        raise ValueError(f"the books of {market} are no list of books: {found!r:.80}")
    return found


def _changes(
    read: Scrapes, book: Mapping[str, Any], sides: int, odds_of: _Odds, last_ms: int, zone: ZoneInfo | None
) -> Iterator[tuple[int, list[float | None]]]:
    """Return the odds of all sides at each change before ``last_ms``, the time of the row's last odds."""
    histories: Sequence[_History] = book.get("odds_history_data") or ()
    if not histories:
        return
    if len(histories) != sides:
        raise ValueError(f"a book with {sides} sides has {len(histories)} histories")
    at: dict[int, dict[int, float | None]] = defaultdict(dict)
    for side, history in enumerate(histories):
        opening = [first] if (first := history.get("opening_odds")) else []
        for change in [*opening, *(history.get("odds_history") or ())]:
            at[_time(change["timestamp"], zone)][side] = odds_of(change["odds"])
    late = [ts_ms for ts_ms in at if ts_ms >= last_ms]
    read.account.note("changes of a history at or after the last odds of its row were left out", len(late))
    now: list[float | None] = [None] * sides
    for ts_ms in sorted(at.keys() - set(late)):
        for side, odds in at[ts_ms].items():
            now[side] = odds
        yield ts_ms, list(now)
