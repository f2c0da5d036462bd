"""The Odds API's answers, each with all quotes of its books, become the consensus of the books, market by market."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import orjson

from clvlab.base.times import time_ms
from clvlab.law.markets import compose_key, may_be_handicap
from clvlab.law.schema import ODDS_MILLI
from clvlab.odds.consensus import BookMessages, Consensus, consensus_ticks
from clvlab.odds.formats import OddsFormat, decimal_odds
from clvlab.odds.margin import Margin
from clvlab.packs.invariants import is_name
from clvlab.packs.manifest import Fixture
from clvlab.sources.books import book_prices
from clvlab.sources.capture.source import Source, StateReader
from clvlab.sources.exchange import State
from clvlab.sources.source import (
    NO_ODDS,
    ImportStats,
    fixture_id_of,
    league_named,
)

# The Odds API's answers.


class ApiOutcome(TypedDict, total=False):
    name: str
    price: float
    point: float
    description: str


class ApiMarket(TypedDict, total=False):
    key: str
    last_update: str
    outcomes: Sequence[ApiOutcome]


class ApiBook(TypedDict, total=False):
    key: str
    last_update: str
    markets: Sequence[ApiMarket]


class ApiEvent(TypedDict, total=False):
    """An event, and its books' quotes in answers with odds."""

    id: str
    sport_key: str
    commence_time: str
    home_team: str
    away_team: str
    bookmakers: Sequence[ApiBook]


def fixture_of(event: ApiEvent) -> Fixture:
    """Return the fixture of an event by itself.

    Raises
    ------
    ValueError, KeyError, TypeError, AttributeError
        The value is not an event.
    """
    return Fixture(
        fixture_id=fixture_id_of(event["id"]),
        names=(event["home_team"], event["away_team"]),
        source_id=event["id"],
        kickoff_ts_ms=time_ms(event["commence_time"]),
        league=event["sport_key"],
    )


def side_of(outcome: str, home: str, away: str) -> str:
    """Return ``part1`` for the home team, ``part2`` for the away team, else the outcome's name in small letters."""
    if outcome == home:
        return "part1"
    return "part2" if outcome == away else outcome.lower()


def home_point(market: str, side: str, point: float | None) -> float | None:
    """Return the point that all sides of a market share: the home team's for a spread.

    Raises
    ------
    ValueError
        A point is not a number.
    """
    if point is None:
        return None
    if isinstance(point, bool) or not isinstance(point, int | float) or not math.isfinite(point):
        raise ValueError(f"point {point!r} is no number")
    return (-point if may_be_handicap(market) and side == "part2" else point) + 0.0  # no negative zero


def market_key_of(market: str, point: float | None, description: str | None = None) -> str:
    """Return ``TYPE||PARAMETERS``: the point belongs to the market, as in ``totals||point=2.5``.

    Examples
    --------
    >>> market_key_of("spreads", -1.5), market_key_of("h2h", None)
    ('spreads||point=-1.5', 'h2h||')
    """
    return compose_key(market, of=description or None, point=point)


RULES = Consensus(min_books=3, max_age_s=3600)


def event_quotes(
    name: str, number: int, event: ApiEvent, ts_ms: int, form: OddsFormat, account: ImportStats
) -> Iterator[tuple[Any, ...]]:
    """Return an event of an answer visible at that time as rows of ``QUOTES``; bad prices go to the account.

    Raises
    ------
    ValueError, KeyError, TypeError, AttributeError
        The value is not an event.
    """
    home, away = event["home_team"], event["away_team"]
    texts = (event["id"], event["sport_key"], home, away)
    if not all(isinstance(text, str) and text for text in texts):
        raise ValueError(f"id, sport_key, home_team and away_team must be texts: {texts}")
    league_named(event["sport_key"], "sport_key")
    time_ms(event["commence_time"])
    for book in event.get("bookmakers") or ():
        for market in book["markets"]:
            if not isinstance(book["key"], str) or not isinstance(market["key"], str):
                raise ValueError(f"keys of a book and its market must be texts: {book['key']!r}, {market['key']!r}")
            where = f"{book['key']} {market['key']} of event {event['id']}"
            if market["key"].endswith("_lay"):
                account.note("markets of lay prices were left out")
                continue
            seen_ms = time_ms(market.get("last_update") or book["last_update"])
            if seen_ms > ts_ms:
                account.note("updates later than their snapshot count as of the snapshot")
            sides: dict[str, dict[str, float]] = defaultdict(dict)
            for outcome in market["outcomes"]:
                side = side_of(outcome["name"], home, away)
                odds = _odds(outcome["price"], form)
                account.messages += 1
                if odds is None:
                    account.refuse(name, number, f"{where}: {outcome['price']!r} is {NO_ODDS}", "no odds")
                    continue
                point = home_point(market["key"], side, outcome.get("point"))
                priced = sides[market_key_of(market["key"], point, outcome.get("description"))]
                if priced.setdefault(side, odds) != odds:
                    problem = f"{where}: {side} is priced {priced[side]} and {odds}"
                    account.refuse(name, number, problem, "a side is priced twice at one time")
            for key, priced in sides.items():
                if len(priced) < 2:
                    account.refuse(name, number, f"{where} has one side, {next(iter(priced))!r}", "a market has one side")
                    continue
                for side, odds in priced.items():
                    yield (event["id"], key, side, book["key"], ts_ms, min(seen_ms, ts_ms), False, odds, name, number)


def _odds(price: object, form: OddsFormat) -> float | None:
    if isinstance(price, bool) or not isinstance(price, int | float):
        return None
    odds = float(decimal_odds([price], form)[0])
    return odds if odds < ODDS_MILLI[1] and ODDS_MILLI[0] <= round(odds * 1000) <= ODDS_MILLI[1] else None


@dataclass(frozen=True, slots=True)
class _OddsBook:
    """A book's quotes of a market, and their last update."""

    seen_ms: int
    odds: dict[str, float]


@dataclass(frozen=True, slots=True)
class _Event:
    fixture: Fixture
    newest_ms: int
    markets: dict[str, dict[str, _OddsBook]]


class TheOddsApiReader(StateReader):
    """Reads answers into states of markets whose price changed or that are no longer quoted.

    ``rules`` and ``margin`` define how books become one price, ``odds_format`` is the format of prices.
    """

    def __init__(
        self,
        rules: Consensus = RULES,
        margin: Margin = Margin.POWER,
        odds_format: OddsFormat = OddsFormat.DECIMAL,
    ) -> None:
        super().__init__()
        self._rules, self._margin, self._format = rules, margin, odds_format
        self._last: dict[tuple[int, str], State] = {}

    def take(self, text: bytes, received_ts_ms: int) -> Sequence[State]:  # noqa: ARG002
        """Return the states of markets that an answer changes."""
        try:
            answer = orjson.loads(text)
            if not isinstance(answer, list):
                raise ValueError("no list of events")
            events = [self._event(number, event) for number, event in enumerate(answer, 1)]
        except orjson.JSONDecodeError as error:
            raise ValueError("no JSON") from error
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no answer of The Odds API: {type(error).__name__} {error}") from error
        if len({event.fixture.fixture_id for event in events}) != len(events):
            raise ValueError("an event stands twice in one answer")
        states = [state for event in events for state in self._consensus_states(event)]
        newest = {event.fixture.fixture_id: event.newest_ms for event in events}
        self._fixtures |= {event.fixture.fixture_id: event.fixture for event in events}
        here = {(state.fixture_id, state.market_key) for state in states}
        states += [self._withdrawn_state(market, newest.get(market[0], 0)) for market in self._known - here]
        changed = [state for state in states if self._is_new(state)]
        self._last |= {(state.fixture_id, state.market_key): state for state in states}
        self._known |= here
        return sorted(changed, key=lambda state: (state.ts_ms, state.fixture_id, state.market_key))

    def forget(self, markets: Collection[str]) -> Collection[tuple[int, str]]:  # noqa: ARG002 - polls are of everything
        forgotten, self._known = self._known, set()
        return forgotten

    def _is_new(self, state: State) -> bool:
        market = state.fixture_id, state.market_key
        return market not in self._known or self._last[market][3:] != state[3:]

    def _event(self, number: int, event: ApiEvent) -> _Event:
        """Read an event without recording it; a book with a false time counts as one without quotes."""
        books = [(book, _updates(book)) for book in event.get("bookmakers") or ()]
        sound = [(book, updates) for book, updates in books if all(self.clock.holds(ts_ms) for ts_ms in updates)]
        event = {**event, "bookmakers": [book for book, _ in sound]}
        newest_ms = max((ts_ms for _, updates in sound for ts_ms in updates), default=0)
        markets: dict[str, dict[str, _OddsBook]] = defaultdict(dict)
        for row in event_quotes("", number, event, newest_ms, self._format, ImportStats(lenient=True)):
            _, key, side, book, _, seen_ms, _, odds, *_ = row
            if is_name(key) and is_name(side):
                markets[key].setdefault(book, _OddsBook(seen_ms, {})).odds[side] = odds
        fixture = fixture_of(event)
        known = self._fixtures.get(fixture.fixture_id, fixture)
        if (known.source_id, known.names) != (fixture.source_id, fixture.names):
            raise ValueError(f"event {event['id']!r:.80} is {fixture.names!r:.80}, and was {known.names!r:.80}")
        return _Event(fixture, newest_ms, markets)

    def _consensus_states(self, event: _Event) -> Iterator[State]:
        """Return the consensus of each market of an event, over the sides of its first quotes."""
        fixture_id, kickoff = event.fixture.fixture_id, event.fixture.kickoff_ts_ms or 0
        for key, books in event.markets.items():
            last = self._last.get((fixture_id, key))
            sides = last.sides if last else tuple(sorted({side for book in books.values() for side in book.odds}))
            if len(sides) < 2:
                continue
            ts_ms = max([book.seen_ms for book in books.values()] + ([last.ts_ms] if last else []))
            complete = [book for book in books.values() if book.odds.keys() == set(sides)]
            prob_bps, odds_milli = self._consensus(complete, sides, event.newest_ms)
            yield State(fixture_id, key, ts_ms, ts_ms >= kickoff, sides, prob_bps, odds_milli)

    def _consensus(
        self, books: Sequence[_OddsBook], sides: tuple[str, ...], newest_ms: int
    ) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
        nothing = (None,) * len(sides)
        if not books:
            return nothing, nothing
        n = len(books)
        prob, odds_milli, _ = book_prices(np.array([[book.odds[side] for side in sides] for book in books]), self._margin)
        numbers, zeros = np.arange(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        seen_ms = np.array([book.seen_ms for book in books], dtype=np.int64)
        quotes = BookMessages(zeros, zeros + newest_ms, numbers, seen_ms, prob, odds_milli)
        ticks = consensus_ticks(quotes, zeros + 1, self._rules)
        if ticks.suspended[0]:
            return nothing, nothing
        return tuple(ticks.prob_bps[0].tolist()), tuple(ticks.odds_milli[0].tolist())

    def _withdrawn_state(self, market: tuple[int, str], newest_ms: int) -> State:
        last = self._last[market]
        ts_ms, nothing = max(last.ts_ms, newest_ms), (None,) * len(last.sides)
        kickoff = self._fixtures[market[0]].kickoff_ts_ms or 0
        return last._replace(ts_ms=ts_ms, in_running=last.in_running or ts_ms >= kickoff, prob_bps=nothing, odds_milli=nothing)


def _updates(book: ApiBook) -> list[int]:
    return [time_ms(entry["last_update"]) for entry in (book, *book["markets"]) if entry.get("last_update") is not None]


SOURCE = Source(
    feed="the-odds-api",
    new_reader=lambda _live: TheOddsApiReader(),
    margin=Margin.POWER.value,
    consensus=RULES.label,
)
