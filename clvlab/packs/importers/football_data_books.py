"""What every book of football-data's files offers, beside the one source that ticks are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from clvlab.law.schema import BOOKS
from clvlab.odds.consensus import Consensus
from clvlab.packs.importers.books import QUOTES, QuoteSpill, at_ticks, book_ticks
from clvlab.packs.importers.football_data_markets import (
    CLOSING_MS,
    MARKETS,
    PRE_MATCH_MS,
    market_key,
    prices,
    quote_rows,
    start_ms,
)
from clvlab.packs.importers.football_data_rows import Match
from clvlab.packs.importers.source import Account, Options

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
    """Prices of all books, on disk as they are read."""

    def __init__(self, folder: Path) -> None:
        own = folder / "books"
        own.mkdir()
        self._spill, self._rows, self._refused = QuoteSpill(own), list[tuple[Any, ...]](), 0
        self._account = Account(lenient=True)

    def add(self, match: Match) -> None:
        """Take what all books say of a match."""
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
                if before and (not close or first != last):  # what it said before the match is not its close
                    self._rows += quote_rows(match, str(first), book, start - CLOSING_MS, dict.fromkeys(before))
                self._rows += quote_rows(match, str(last), book, start - CLOSING_MS, close)

    def flush(self) -> int:
        """Put on disk what was taken, and count the prices of it that could not be read."""
        self._spill.add(pl.DataFrame(self._rows, schema=QUOTES, orient="row"))
        before, self._refused, self._rows = self._refused, sum(self._account.refused.values()), []
        return self._refused - before

    def books(self, events: Sequence[str], ids: Mapping[str, int], options: Options, ticks: pl.DataFrame) -> pl.DataFrame:
        """Return ``BOOKS`` of some matches at the ticks they have."""
        known = [event for event in events if event in self._spill.rows_of]
        if not known:
            return pl.DataFrame(schema=BOOKS)
        rows = self._spill.rows(known).sort("file", "line")
        said = book_ticks(rows, ids, options, _ANY, Account(lenient=True)).books
        return pl.DataFrame(schema=BOOKS) if said is None else at_ticks(said, ticks)
