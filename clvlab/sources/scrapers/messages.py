"""Matches as scrapers of OddsPortal write them, one row per match: the common part of all their shapes.

A row that was written after the match has closing odds without a time. They are dated one second before the kickoff; this time
is synthetic, as the pack's consensus label says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from math import nan
from pathlib import Path

import polars as pl

from clvlab.base.times import by_forms
from clvlab.law.markets import HANDICAP_GOALS, RESULT_1X2, TOTAL_GOALS, compose_key
from clvlab.law.schema import ODDS_MILLI
from clvlab.odds.consensus import Consensus
from clvlab.odds.formats import OddsFormat, decimal_odds
from clvlab.packs.manifest import Fixture, KickoffKind
from clvlab.sources.books import QUOTES, QuoteSpill, quote_parts
from clvlab.sources.source import NO_ODDS, ImportStats, Options, SourceData, fixture_ids_of

CLOSING_MS = 1000
OPENING_MS = 24 * 3600 * 1000
AVERAGE = "average"
RULES = Consensus(min_books=1, max_age_s=86_400)
_HOME = {"1", "home", "h", "player_1", "player1", "team_1", "team1"}
_AWAY = {"2", "away", "a", "player_2", "player2", "team_2", "team2"}
_DRAW = {"x", "draw", "d"}
_LINE = re.compile(r"_(\d+)(?:_(\d+))?$")
_DAYS = ("%d/%m/%Y", "%d.%m.%Y", "%d-%m-%Y", "%d %b %Y", "%d %B %Y")


@dataclass(slots=True)
class _ScrapedMatch:
    """A match: teams, league, and its kickoffs by the time of the statement."""

    home: str
    away: str
    league: str | None = None
    kickoffs: dict[int, int | None] = field(default_factory=dict)


@dataclass(slots=True)
class Scrapes:
    options: Options
    account: ImportStats
    spill: QuoteSpill
    _matches: dict[str, _ScrapedMatch] = field(default_factory=dict)
    _rows: list[tuple[object, ...]] = field(default_factory=list)
    _times: dict[tuple[str, str], set[int]] = field(default_factory=dict)

    def learn(
        self, source_id: str, home: str, away: str, kickoff_ms: int | None, at_ms: int, league: str | None = None
    ) -> None:
        """Record a match, with its last stated kickoff and its first stated league.

        Raises
        ------
        ValueError
            The match has other teams elsewhere, or no teams.
        """
        if not home or not away or home == away:
            raise ValueError(f"no match: {home!r:.80} - {away!r:.80}")
        known = self._matches.setdefault(source_id, _ScrapedMatch(home, away))
        if (known.home, known.away) != (home, away):
            raise ValueError(f"{source_id} is {known.home} - {known.away} elsewhere, not {home} - {away}")
        known.kickoffs[at_ms] = kickoff_ms
        known.league = known.league or league

    def odds(self, text: object, file: str, line: int) -> float | None:
        """Return decimal odds in the options' format, see ``decimal_of``; refuse invalid ones and return ``None``."""
        try:
            return decimal_of(text, self.options.odds_format or OddsFormat.DECIMAL)
        except ValueError as error:
            self.account.refuse(file, line, str(error), "no odds")
            return None

    def quote(
        self, source_id: str, key: str, book: str, ts_ms: int, odds: dict[str, float | None], file: str, line: int
    ) -> None:
        """Add a book's odds of every side of a market at one time."""
        self._times.setdefault((source_id, key), set()).add(ts_ms)
        for side, decimal in odds.items():
            self._rows.append((source_id, key, side, book, ts_ms, ts_ms, False, decimal, file, line))
        if len(self._rows) >= self.options.chunk_rows // 4:
            self._flush()

    def _flush(self) -> None:
        self.spill.add(pl.DataFrame(self._rows, schema=QUOTES, orient="row"))
        self._rows = []

    def result(self, source: str) -> SourceData:
        self._flush()
        rules = self.options.rules(RULES)
        ids = fixture_ids_of(self._matches)
        moved = sum(len({*match.kickoffs.values()}) > 1 for match in self._matches.values())
        self.account.note("fixtures whose kickoff moved", moved)
        once = sum(len(times) == 1 for times in self._times.values())
        self.account.note("markets that can't be entered before their close: they were seen once", once)
        return SourceData(
            parts=quote_parts(self.spill, ids, self.options, rules, self.account),
            fixtures=tuple(
                Fixture(
                    fixture_id=ids[source_id],
                    names=(match.home, match.away),
                    source_id=source_id,
                    kickoff_ts_ms=match.kickoffs[max(match.kickoffs)],
                    scheduled_ts_ms=match.kickoffs[min(match.kickoffs)] if moved else None,
                    league=match.league,
                )
                for source_id, match in sorted(self._matches.items(), key=lambda item: ids[item[0]])
            ),
            account=self.account,
            provenance=f"imported-{source}",
            normaliser=f"{source}/1",
            margin=self.options.margin.value,
            consensus=f"{rules.label}; times of closing ticks are synthetic",
            kickoff=KickoffKind.ACTUAL if moved else None,
        )


def scrapes(options: Options, scratch: Path) -> Scrapes:
    return Scrapes(options, ImportStats(options.lenient), QuoteSpill(scratch))


def decimal_of(text: object, form: str = OddsFormat.DECIMAL) -> float | None:
    """Return decimal odds from a text in that format, or a fraction; ``None`` for a dash.

    Examples
    --------
    >>> decimal_of("2.05"), decimal_of("4/5"), decimal_of("+150", "american"), decimal_of("-")
    (2.05, 1.8, 2.5, None)
    """
    plain = text.strip() if isinstance(text, str) else text
    if plain in (None, "", "-"):
        return None
    if isinstance(plain, bool) or not isinstance(plain, str | int | float):
        raise ValueError(f"{text!r:.80} is {NO_ODDS}")
    fraction = isinstance(plain, str) and "/" in plain
    try:
        odds = float(decimal_odds([plain if fraction else float(plain)], OddsFormat.FRACTIONAL if fraction else form)[0])
    except ValueError:
        odds = nan
    if not odds < ODDS_MILLI[1] or not ODDS_MILLI[0] <= round(odds * 1000) <= ODDS_MILLI[1]:
        raise ValueError(f"{text!r:.80} is {NO_ODDS}")
    return odds


def side_named(label: str, market: str = "") -> str:
    """Return the side that a column or key means.

    Examples
    --------
    >>> side_named("X"), side_named("odds_over"), side_named("btts_yes", "btts"), side_named("team1_handicap")
    ('draw', 'over', 'yes', 'part1')
    """
    plain = label.strip().lower().removeprefix("odds_").removeprefix("odd_").removesuffix("_handicap")
    plain = plain.removeprefix(f"{market}_") if market else plain
    if plain in _HOME | _AWAY:
        return "part1" if plain in _HOME else "part2"
    return "draw" if plain in _DRAW else plain


def market_key_named(market: str, period: str, line: str | None) -> str:
    """Return the key of a market by the scraper's name, period and line, which may end the name.

    Examples
    --------
    >>> market_key_named("1x2", "FullTime", None), market_key_named("over_under_2_5", "FullTime", None)
    ('1X2_PARTICIPANT_RESULT||', 'OVERUNDER_PARTICIPANT_GOALS||line=2.5')
    >>> market_key_named("over_under_games_39_5", "FirstSet", "39.5")
    'over_under_games|FirstSet|line=39.5'
    """
    ended = _LINE.search(market)
    kind = market[: ended.start()] if ended else market
    if line is None and ended:
        line = f"{ended[1]}.{ended[2]}" if ended[2] else ended[1]
    named = {"1x2": RESULT_1X2, "over_under": TOTAL_GOALS, "asian_handicap": HANDICAP_GOALS}
    return compose_key(
        named.get(kind, kind), "" if period == "FullTime" else period, line=None if line is None else float(line)
    )


def day_of(text: str) -> datetime | None:
    """Return a day written the European way, or ``None``."""
    return by_forms(text, *_DAYS)
