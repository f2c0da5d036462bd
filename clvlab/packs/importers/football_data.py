"""football-data.co.uk seasons: pre-match and closing odds of many books, and results, a row a match.

Of each market the closing odds of one source are taken, the first in an order of preference that has them all, and the
pre-match odds of the same source. The files say of no observation when it was made: the ticks' times, at fixed spans before
the kickoff, are synthetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from clvlab.errors import SourceError
from clvlab.law.schema import ODDS_MILLI
from clvlab.odds.consensus import Consensus
from clvlab.packs.importers.books import QUOTES, QuoteSpill, batches, book_ticks
from clvlab.packs.importers.football_data_rows import Match, matches
from clvlab.packs.importers.football_data_settling import handicap, result_1x2, totals
from clvlab.packs.importers.source import NO_ODDS, Account, Normalised, Options, files_below, fixture_ids_of
from clvlab.packs.manifest import Fixture
from clvlab.packs.results import RESULTS

NORMALISER = "football-data/1"
CLOSING = ("pinnacle", "betfair-exchange", "average", "maximum")
_PRE_MATCH_MS = 24 * 3600 * 1000
_CLOSING_MS = 1000
_ALWAYS_FRESH = Consensus(min_books=1, max_age_s=10**9)
_1X2, _TOTALS, _HANDICAP = "1X2_PARTICIPANT_RESULT", "OVERUNDER_PARTICIPANT_GOALS", "ASIANHANDICAP_PARTICIPANT_GOALS"

# Source -> prefixes of its columns, newest first: for 1X2, and for totals and handicaps.
_PREFIXES = {
    "pinnacle": (("PS",), ("P",)),
    "betfair-exchange": (("BFE",), ("BFE",)),
    "average": (("Avg", "BbAv"), ("Avg", "BbAv")),
    "maximum": (("Max", "BbMx"), ("Max", "BbMx")),
    "bet365": (("B365",), ("B365",)),
}


@dataclass(frozen=True, slots=True)
class _Market:
    """A market of the files: its type, sides with the ends of their columns, and the columns of its line."""

    kind: str
    sides: tuple[tuple[str, str], ...]
    prefixes: int
    line: tuple[str, ...] = ()
    closing_line: tuple[str, ...] = ()


_MARKETS = (
    _Market(_1X2, (("part1", "H"), ("draw", "D"), ("part2", "A")), 0),
    _Market(_TOTALS, (("over", ">2.5"), ("under", "<2.5")), 1),
    _Market(_HANDICAP, (("part1", "AHH"), ("part2", "AHA")), 1, ("AHh", "BbAHh"), ("AHCh",)),
)


def find(paths: Sequence[Path]) -> dict[str, Path]:
    """Return ``*.csv`` and ``*.csv.gz``."""
    return files_below(paths, (".csv", ".csv.gz"))


def normalise(files: Mapping[str, Path], options: Options, scratch: Path) -> Normalised:
    """Read seasons, and return each match at most two ticks a market."""
    preference = options.closing or CLOSING
    unknown = [name for name in preference if name not in _PREFIXES]
    if unknown:
        raise SourceError(f"unknown closing source {unknown[0]!r}: use some of {', '.join(_PREFIXES)}")
    account = Account(options.lenient)
    spill = QuoteSpill(scratch)
    fixtures: dict[str, tuple[str, str, int | None]] = {}
    settled: list[tuple[str, str, str, str, str]] = []
    for name, path in sorted(files.items()):
        rows: list[tuple[Any, ...]] = []
        try:
            for match in matches(name, path, account):
                if match.source_id in fixtures:
                    account.refuse(name, match.line, f"{match.source_id} is listed twice", "a match is listed twice")
                    continue
                fixtures[match.source_id] = (match.home, match.away, match.kickoff_ts_ms)
                quotes = list(_quotes(match, preference, account))
                settled += _settled(match, {quote[1] for quote in quotes})
                rows += quotes
                if len(rows) >= options.chunk_rows // 4:
                    spill.add(pl.DataFrame(rows, schema=QUOTES, orient="row"))
                    rows = []
        except SourceError as error:
            account.refuse_file(name, error)
        spill.add(pl.DataFrame(rows, schema=QUOTES, orient="row"))
        options.progress(f"{name}: {len(fixtures):,} matches so far")
    ids = fixture_ids_of(fixtures)
    results = pl.DataFrame([(ids[row[0]], *row[1:]) for row in settled], schema=RESULTS, orient="row")
    return Normalised(
        parts=_parts(spill, ids, options, account),
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


def _parts(spill: QuoteSpill, ids: Mapping[str, int], options: Options, account: Account) -> Iterator[pl.DataFrame]:
    for batch in batches(spill.rows_of, ids, options.chunk_rows):
        yield book_ticks(spill.rows(batch).sort("file", "line"), ids, options.margin, _ALWAYS_FRESH, account)


def _quotes(match: Match, preference: Sequence[str], account: Account) -> Iterator[tuple[Any, ...]]:
    """Return the quotes of one match: before it, and at its close."""
    day = match.kickoff_ts_ms if match.kickoff_ts_ms is not None else match.day_ts_ms + _CLOSING_MS
    for market in _MARKETS:
        chosen = _chosen(match, market, preference, account)
        if chosen is None:
            continue
        source, before, close = chosen
        before_key, close_key = _key(match, market, market.line), _key(match, market, market.closing_line)
        priced: list[tuple[int, str, Mapping[str, float | None]]] = []
        if before and before_key:
            priced.append((day - _PRE_MATCH_MS, before_key, before))
        if close and close_key:
            if before_key and priced and before_key != close_key:
                priced.append((day - _CLOSING_MS, before_key, dict.fromkeys(before)))
                account.note("handicap lines that moved: the first line has no close")
            priced.append((day - _CLOSING_MS, close_key, close))
        for ts_ms, key, odds in priced:
            for side, decimal in odds.items():
                yield (match.source_id, key, side, source, ts_ms, ts_ms, False, decimal, match.file, match.line)


def _chosen(
    match: Match, market: _Market, preference: Sequence[str], account: Account
) -> tuple[str, dict[str, float], dict[str, float]] | None:
    """Return the first source with closing odds: pre-match odds if it has them, and closing odds; else pre-match odds."""
    before = {source: _prices(match, market, source, "", account) for source in preference}
    for source in preference:
        close = _prices(match, market, source, "C", account)
        if close:
            account.note(f"closing {market.kind} of {source}")
            return source, before[source], close
    first = next((source for source in preference if before[source]), None)
    if first is None:
        return None
    account.note(f"no closing {market.kind}: {first} before the match only")
    return first, before[first], {}


def _prices(match: Match, market: _Market, source: str, mark: str, account: Account) -> dict[str, float]:
    """Return the odds of every side, or none where one is missing."""
    for prefix in _PREFIXES[source][market.prefixes]:
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


def _key(match: Match, market: _Market, columns: Sequence[str]) -> str | None:
    """Return the market key; none where the line of a handicap is missing."""
    if market.kind == _1X2:
        return f"{_1X2}||"
    if market.kind == _TOTALS:
        return f"{_TOTALS}||line=2.5"
    line = next((number for column in columns if (number := _number(match.cells.get(column, ""))) is not None), None)
    return None if line is None else f"{market.kind}||line={line + 0.0:g}"


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < ODDS_MILLI[1] else None  # neither NaN nor infinite


def _settled(match: Match, keys: set[str]) -> Iterator[tuple[str, str, str, str, str]]:
    """Settle the markets of a match that was played."""
    if match.goals is None:
        return
    home, away = match.goals
    for key in sorted(keys):
        kind, _, line = key.partition("||line=")
        if kind == _TOTALS:
            sides = totals(home + away, float(line))
        else:
            sides = handicap(home - away, float(line)) if kind == _HANDICAP else result_1x2(home - away)
        for side, result in sides.items():
            yield (match.source_id, key, side, result.value, f"{home}-{away}")
