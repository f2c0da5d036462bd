"""Markets of football-data's files: their keys, their sides, and where each book writes their prices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clvlab.law.markets import HANDICAP_GOALS, RESULT_1X2, TOTAL_GOALS, spelled_key
from clvlab.law.schema import ODDS_MILLI
from clvlab.packs.importers.football_data_rows import Match
from clvlab.packs.importers.source import NO_ODDS, Account

PRE_MATCH_MS = 24 * 3600 * 1000
CLOSING_MS = 1000


@dataclass(frozen=True, slots=True)
class FileMarket:
    """A market of the files: its type, sides with the ends of their columns, and the columns of its line."""

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


def prices(match: Match, market: FileMarket, prefixes: Sequence[str], mark: str, account: Account) -> dict[str, float]:
    """Return the odds of every side under the first prefix that has them all, or none.

    ``mark`` is ``C`` for closing odds, and empty for those before the match.
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


def start_ms(match: Match) -> int:
    """Return the time that both observations of a match are counted back from: its kickoff, or the end of its day."""
    return match.kickoff_ts_ms if match.kickoff_ts_ms is not None else match.day_ts_ms + CLOSING_MS


def quote_rows(match: Match, key: str, book: str, ts_ms: int, odds: Mapping[str, float | None]) -> Iterator[tuple[Any, ...]]:
    """Return what a book says of a market at a time as rows of ``QUOTES``."""
    for side, decimal in odds.items():
        yield (match.source_id, key, side, book, ts_ms, ts_ms, False, decimal, match.file, match.line)


def market_key(match: Match, market: FileMarket, columns: Sequence[str]) -> str | None:
    """Return the market key; none where the line of a handicap is missing."""
    if market.kind == RESULT_1X2:
        return spelled_key(RESULT_1X2)
    if market.kind == TOTAL_GOALS:
        return spelled_key(TOTAL_GOALS, line=2.5)
    line = next((number for column in columns if (number := _number(match.cells.get(column, ""))) is not None), None)
    return None if line is None else spelled_key(market.kind, line=line)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < ODDS_MILLI[1] else None  # neither NaN nor infinite
