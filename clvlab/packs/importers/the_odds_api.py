"""The Odds API v4: snapshots as JSON, live or historical, one event or a list; or their changes as Parquet.

A snapshot says all that its books quoted at its time, so a book in it that no longer names a market has withdrawn from it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, TypedDict

import orjson
import polars as pl

from clvlab.base.times import time_in_name, time_ms
from clvlab.errors import SourceError
from clvlab.law.markets import compose_key, key_parts, may_be_handicap
from clvlab.law.schema import ODDS_MILLI
from clvlab.odds.consensus import Consensus
from clvlab.odds.formats import OddsFormat, decimal_odds
from clvlab.packs.files import whole
from clvlab.packs.importers import the_odds_api_changes as changes
from clvlab.packs.importers.books import QUOTES, QuoteSpill, batches, book_ticks
from clvlab.packs.importers.source import (
    NO_ODDS,
    ImportStats,
    Normalised,
    Options,
    SourcePart,
    files_below,
    fixture_id_of,
    fixture_ids_of,
    league_named,
    reason_of,
)
from clvlab.packs.manifest import Fixture, KickoffKind

# What is read of The Odds API's answers: any of it may be missing or of another type until it was checked.


class ApiOutcome(TypedDict, total=False):
    """What a side costs."""

    name: str
    price: float
    point: float
    description: str


class ApiMarket(TypedDict, total=False):
    """What a book quotes of a market."""

    key: str
    last_update: str
    outcomes: Sequence[ApiOutcome]


class ApiBook(TypedDict, total=False):
    """What a book quotes of an event."""

    key: str
    last_update: str
    markets: Sequence[ApiMarket]


class ApiEvent(TypedDict, total=False):
    """An event, and what its books quote where odds were asked for."""

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
        It is no event.
    """
    return Fixture(
        fixture_id=fixture_id_of(event["id"]),
        names=(event["home_team"], event["away_team"]),
        source_id=event["id"],
        kickoff_ts_ms=time_ms(event["commence_time"]),
        league=event["sport_key"],
    )


# How outcomes and points of The Odds API become sides and market keys.


def side_of(outcome: str, home: str, away: str) -> str:
    """``part1`` for the home team, ``part2`` for the away team, else the outcome's name in small letters."""
    if outcome == home:
        return "part1"
    return "part2" if outcome == away else outcome.lower()


def home_point(market: str, side: str, point: float | None) -> float | None:
    """Return the point that all sides of a market share: of a spread the home team's.

    Raises
    ------
    ValueError
        A point that is no number.
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


NORMALISER = "the-odds-api/1"
RULES = Consensus(min_books=3, max_age_s=3600)


_ENDINGS = (".json", ".json.gz")


def find(paths: Sequence[Path]) -> dict[str, Path]:
    """Return snapshots, ``*.json`` and ``*.json.gz``; or one ``*_ticks.parquet`` of changes with the fixtures beside it.

    Of a folder without snapshots the changes in it are returned.
    """
    below = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    ticks = [file for file in below if file.name.endswith(changes.TICKS)]
    if any(path.suffix == ".parquet" for path in paths):
        return changes.find(paths)
    return (
        changes.find(ticks)
        if ticks and not any(file.name.endswith(_ENDINGS) for file in below)
        else files_below(paths, _ENDINGS)
    )


def normalise(files: Mapping[str, Path], options: Options, scratch: Path) -> Normalised:
    """Read snapshots, or changes, and make consensus ticks of them."""
    if any(name.endswith(".parquet") for name in files):
        return changes.normalise(files, options, scratch)
    account = ImportStats(options.lenient)
    rules = options.rules(RULES)
    spill = QuoteSpill(scratch)
    known = _Known()
    rows: list[tuple[Any, ...]] = []
    for n, (name, path) in enumerate(sorted(files.items())):
        rows += _snapshot(name, path, known, options, account)
        if len(rows) >= options.chunk_rows // 4 or n == len(files) - 1:
            spill.add(pl.DataFrame(rows, schema=QUOTES, orient="row"))
            rows = []
        options.progress(f"{n + 1:,} of {len(files):,} snapshots read")
    ids = fixture_ids_of(known.events)
    account.note("fixtures whose kickoff moved", sum(len({*event.kickoffs.values()}) > 1 for event in known.events.values()))
    return Normalised(
        parts=_parts(spill, ids, known, options, rules, account),
        fixtures=tuple(
            Fixture(
                fixture_id=ids[event_id],
                names=(event.home, event.away),
                source_id=event_id,
                kickoff_ts_ms=event.kickoffs[max(event.kickoffs)],
                scheduled_ts_ms=event.kickoffs[min(event.kickoffs)],
                league=known.sport_of[event_id],
            )
            for event_id, event in sorted(known.events.items(), key=lambda item: ids[item[0]])
        ),
        account=account,
        provenance="imported-the-odds-api",
        normaliser=NORMALISER,
        margin=options.margin.value,
        consensus=rules.label,
        kickoff=KickoffKind.ACTUAL,
    )


@dataclass(slots=True)
class _ApiEvent:
    home: str
    away: str
    kickoffs: dict[int, int] = field(default_factory=dict)  # when it was said -> kickoff


@dataclass(slots=True)
class _Known:
    """Events met so far, and the times of snapshots by (sport or event, type of market, book) that they speak of."""

    events: dict[str, _ApiEvent] = field(default_factory=dict)
    covered: dict[tuple[str, str, str], set[int]] = field(default_factory=lambda: defaultdict(set))
    sport_of: dict[str, str] = field(default_factory=dict)


def _parts(
    spill: QuoteSpill, ids: Mapping[str, int], known: _Known, options: Options, rules: Consensus, account: ImportStats
) -> Iterator[SourcePart]:
    for batch in batches(spill.rows_of, ids, options.chunk_rows):
        quotes = spill.rows(batch).sort("ts_ms", "file", "line")
        yield book_ticks(_with_withdrawals(quotes, known, batch), ids, options, rules, account)


def _with_withdrawals(quotes: pl.DataFrame, known: _Known, batch: Sequence[str]) -> pl.DataFrame:
    """Add a message without prices at the first snapshot in which a book no longer quotes what it did in the one before."""
    alone = {scope for scope, _, _ in known.covered}
    scopes = {event: event if event in alone else known.sport_of[event] for event in batch}
    rows = [
        (scope, kind, book, n, at)
        for scope in sorted({*scopes.values()})
        for kind, book in sorted({(kind, book) for _, kind, book in known.covered})
        for n, at in enumerate(sorted(_times(known, scope, kind, book)))
    ]
    times = pl.DataFrame(rows, schema=_TIMES, orient="row")
    said = (
        quotes.unique(["event", "market_key", "book", "ts_ms"], keep="first", maintain_order=True)
        .with_columns(kind=pl.col("market_key").str.extract(r"^([^|]*)"), scope=pl.col("event").replace_strict(scopes))
        .join(times, on=["scope", "kind", "book", "ts_ms"], how="left")
        .sort("event", "market_key", "book", "ts_ms")
        .with_columns(then=pl.col("n").shift(-1).over("event", "market_key", "book"))
        .filter(pl.col("then").is_null() | (pl.col("then") > pl.col("n") + 1))
        .with_columns(pl.col("n") + 1)
    )
    gone = said.drop("ts_ms").join(times, on=["scope", "kind", "book", "n"])
    return pl.concat([quotes, gone.with_columns(decimal_odds=pl.lit(None, pl.Float64), seen_ms="ts_ms").select(*QUOTES)])


_TIMES = {"scope": pl.String, "kind": pl.String, "book": pl.String, "n": pl.Int64, "ts_ms": pl.Int64}


def _times(known: _Known, scope: str, kind: str, book: str) -> set[int]:
    """Times of the snapshots in which a book would have quoted that type of market of an event, or of a sport's events."""
    alone = known.covered.get((scope, kind, book), set())
    return alone | known.covered.get((known.sport_of.get(scope, scope), kind, book), set())


def _snapshot(name: str, path: Path, known: _Known, options: Options, account: ImportStats) -> list[tuple[Any, ...]]:
    """Return the quotes of one file."""
    try:
        answer = orjson.loads(whole(path))
    except SourceError as error:
        account.refuse_file(name, error)
        return []
    except orjson.JSONDecodeError as error:
        account.refuse(name, error.lineno, f"no JSON: {error.msg}", "no JSON")
        return []
    try:
        ts_ms, events = _opened(name, answer, account)
        form = _format_of(events, options.odds_format)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        account.refuse(name, 1, f"no answer of The Odds API v4: {reason_of(error)}", "no answer of The Odds API v4")
        return []
    rows: list[tuple[Any, ...]] = []
    single = isinstance(answer, dict) and not isinstance(answer.get("data"), list)
    sports = [str(event.get("sport_key")) for event in events if isinstance(event, dict)]
    for number, event in enumerate(events, 1):
        try:
            if event["sport_key"] != sports[0]:
                raise ValueError(f"sport {event['sport_key']!r} in a file of {sports[0]!r}: import one sport at a time")
            found = list(event_quotes(name, number, event, ts_ms, form, account))
            _learn(known, event, ts_ms)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            account.refuse(name, number, reason_of(error), "an event can't be read")
            continue
        rows += found
    scopes = {row[0] if single else sports[0] for row in rows}
    kinds, books = {key_parts(row[1])[0] for row in rows}, {row[3] for row in rows}
    for scope, kind, book in product(scopes, kinds, books):
        known.covered[str(scope), kind, book].add(ts_ms)
    return rows


def _opened(name: str, answer: Any, account: ImportStats) -> tuple[int, Sequence[ApiEvent]]:
    """Return the time at which a snapshot could be seen, and its events."""
    if isinstance(answer, dict) and "data" in answer:
        data = answer["data"]
        return time_ms(answer["timestamp"]), data if isinstance(data, list) else [data]
    events = answer if isinstance(answer, list) else [answer]
    if any(not isinstance(event, dict) or "id" not in event for event in events):
        raise ValueError(f"neither an event nor a list of events: {str(answer)[:80]}")
    written = time_in_name(name)
    if written is not None:
        return written, events
    account.note("snapshots without a time of their own, dated by the latest update in them")
    updates = [time_ms(book["last_update"]) for event in events for book in event.get("bookmakers") or ()]
    return max(updates, default=0), events


def _format_of(events: Sequence[ApiEvent], asked: str | None) -> OddsFormat:
    """Find how the prices of a file are written: whole numbers from 100 on, of either sign, are American."""
    if asked is not None:
        return OddsFormat(asked)
    prices = [
        outcome["price"]
        for event in events
        for book in event.get("bookmakers") or ()
        for market in book["markets"]
        for outcome in market["outcomes"]
    ]
    numbers = [price for price in prices if isinstance(price, int | float) and not isinstance(price, bool)]
    american = [price for price in numbers if abs(price) >= 100 and price == int(price)]
    if american and len(american) < len(numbers) and (min(numbers) <= -100 or _far_apart(numbers, american)):
        other = next(price for price in numbers if price not in american)
        raise ValueError(f"American odds ({american[0]}) and decimal odds ({other}) in one file")
    return OddsFormat.AMERICAN if american and len(american) == len(numbers) else OddsFormat.DECIMAL


def _far_apart(numbers: Sequence[float], american: Sequence[float]) -> bool:
    """Tell a mixture from decimal odds with some longshots at 100 and above: these are few."""
    return len(american) * 2 > len(numbers)


def _learn(known: _Known, event: Mapping[str, Any], ts_ms: int) -> None:
    kickoff = time_ms(event["commence_time"])
    new = _ApiEvent(event["home_team"], event["away_team"])
    seen = known.events.setdefault(event["id"], new)
    if (seen.home, seen.away) != (new.home, new.away):
        raise ValueError(f"event {event['id']} is {seen.home} - {seen.away} elsewhere, not {new.home} - {new.away}")
    seen.kickoffs[ts_ms] = kickoff
    known.sport_of[event["id"]] = event["sport_key"]


def event_quotes(
    name: str, number: int, event: ApiEvent, ts_ms: int, form: OddsFormat, account: ImportStats
) -> Iterator[tuple[Any, ...]]:
    """Read an event of an answer that could be seen at that time, as rows of ``QUOTES``; bad prices go to the account.

    Raises
    ------
    ValueError, KeyError, TypeError, AttributeError
        It is no event.
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
                    said = f"{where}: {side} is priced {priced[side]} and {odds}"
                    account.refuse(name, number, said, "a side is priced twice at one time")
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
