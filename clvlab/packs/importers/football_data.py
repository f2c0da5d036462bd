"""football-data.co.uk seasons: pre-match and closing odds of many books, and results, a row a match.

Of each market the closing odds of one source are taken, the first in an order of preference that has them all, and the
pre-match odds of the same source. The files say of no observation when it was made: the ticks' times, at fixed spans before
the kickoff, are synthetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from clvlab.errors import SourceError
from clvlab.law.markets import Market
from clvlab.odds.consensus import Consensus
from clvlab.packs.importers.books import QUOTES, QuoteSpill, batches, book_ticks
from clvlab.packs.importers.football_data_books import OfferedBooks
from clvlab.packs.importers.football_data_markets import (
    CLOSING_MS,
    MARKETS,
    PRE_MATCH_MS,
    FileMarket,
    market_key,
    prices,
    quote_rows,
    start_ms,
)
from clvlab.packs.importers.football_data_rows import Match, matches
from clvlab.packs.importers.football_data_settling import settled
from clvlab.packs.importers.source import Account, Normalised, Options, Part, files_below, fixture_ids_of
from clvlab.packs.manifest import Fixture
from clvlab.packs.results import RESULTS

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
    """Return ``*.csv`` and ``*.csv.gz``."""
    return files_below(paths, (".csv", ".csv.gz"))


def normalise(files: Mapping[str, Path], options: Options, scratch: Path) -> Normalised:
    """Read seasons, and return each match at most two ticks a market."""
    preference = options.closing or CLOSING
    unknown = [name for name in preference if name not in _PREFIXES]
    if unknown:
        raise SourceError(f"unknown closing source {unknown[0]!r}: use some of {', '.join(_PREFIXES)}")
    account = Account(options.lenient)
    spill, offered = QuoteSpill(scratch), OfferedBooks(scratch) if options.books else None
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
                if offered is not None:
                    offered.add(match)
                settled += _settled(match, {quote[1] for quote in quotes})
                rows += quotes
                if len(rows) >= options.chunk_rows // 4:
                    spill.add(pl.DataFrame(rows, schema=QUOTES, orient="row"))
                    rows = []
        except SourceError as error:
            account.refuse_file(name, error)
        spill.add(pl.DataFrame(rows, schema=QUOTES, orient="row"))
        if offered is not None:
            account.note("prices of single books that can't be read", offered.flush())
        options.progress(f"{name}: {len(fixtures):,} matches so far")
    ids = fixture_ids_of(fixtures)
    results = pl.DataFrame([(ids[row[0]], *row[1:]) for row in settled], schema=RESULTS, orient="row")
    return Normalised(
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
    spill: QuoteSpill, offered: OfferedBooks | None, ids: Mapping[str, int], options: Options, account: Account
) -> Iterator[Part]:
    for batch in batches(spill.rows_of, ids, options.chunk_rows):
        rows = spill.rows(batch).sort("file", "line")
        part = book_ticks(rows, ids, replace(options, books=False), _ALWAYS_FRESH, account)
        yield part if offered is None else Part(part.ticks, offered.books(batch, ids, options, part.ticks))


def _quotes(match: Match, preference: Sequence[str], account: Account) -> Iterator[tuple[Any, ...]]:
    """Return the quotes of one match: before it, and at its close."""
    start = start_ms(match)
    for market in MARKETS:
        chosen = _chosen(match, market, preference, account)
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


def _chosen(
    match: Match, market: FileMarket, preference: Sequence[str], account: Account
) -> tuple[str, dict[str, float], dict[str, float]] | None:
    """Return the first source with closing odds: pre-match odds if it has them, and closing odds; else pre-match odds."""
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


def _settled(match: Match, keys: set[str]) -> Iterator[tuple[str, str, str, str, str]]:
    """Settle the markets of a match that was played."""
    if match.goals is None:
        return
    home, away = match.goals
    for key in sorted(keys):
        for side, result in settled(Market.parse(key), home, away).items():
            yield (match.source_id, key, side, result.value, f"{home}-{away}")
