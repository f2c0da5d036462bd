"""The Odds API v4: snapshots as JSON (live or historical, of one event or a list), or their changes as Parquet.

A snapshot has everything that its books quoted then, so a book that no longer names a market has withdrawn from it.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from clvlab.base.progress import each
from clvlab.base.times import LAST_MS, time_in_name, time_ms
from clvlab.errors import SourceError
from clvlab.law.markets import key_parts, may_be_handicap
from clvlab.law.schema import ODDS_MILLI
from clvlab.odds.consensus import Consensus
from clvlab.odds.formats import OddsFormat, decimal_odds
from clvlab.packs.files import whole
from clvlab.packs.manifest import Fixture, KickoffKind
from clvlab.packs.parquet import check_parquet
from clvlab.packs.rows import unreadable
from clvlab.sources.books import QUOTES, QuoteSpill, batches, book_ticks
from clvlab.sources.source import (
    NO_ODDS,
    ImportStats,
    Options,
    SourceData,
    SourcePart,
    files_below,
    fixture_ids_of,
    league_named,
    reason_of,
)
from clvlab.sources.the_odds_api.messages import RULES, ApiEvent, event_quotes

# Changes of The Odds API's prices as Parquet: a row where the price or point of one outcome of a book changed.
#
# Only changes have rows, so a book's market at a time consists of the last row of each outcome. If these rows name different
# points, the book is moving between two lines and quotes neither.


CHANGES_NORMALISER = "the-odds-api-changes/1"
TICKS = "_ticks.parquet"
_CHANGES_RULES = Consensus(min_books=3, max_age_s=86_400)  # unchanged prices are not repeated, so age says little
_PRICES = ("price_decimal", "price_american")
_CHANGES_COLUMNS = (
    "event_id",
    "commence_time",
    "bookmaker",
    "market",
    "outcome",
    "point",
    "market_last_update",
    "snapshot_commit_time",
)
_STREAM = ("event", "book", "market")


def find_changes(paths: Sequence[Path]) -> dict[str, Path]:
    """Return ``NAME_ticks.parquet`` and the ``NAME_fixtures.csv`` next to it."""
    if len(paths) != 1 or not paths[0].name.endswith(TICKS):
        raise SourceError(f"give one file *{TICKS}, not {', '.join(path.name for path in paths)}")
    fixtures = paths[0].with_name(paths[0].name.removesuffix(TICKS) + "_fixtures.csv")
    if not fixtures.is_file():
        raise SourceError(f"{paths[0].name} needs {fixtures.name} next to it, with the teams and kickoffs of its events")
    return {paths[0].name: paths[0], fixtures.name: fixtures}


def normalise_changes(files: Mapping[str, Path], options: Options, _scratch: Path) -> SourceData:
    """Read the changes, in batches of events, and make consensus ticks of them."""
    account = ImportStats(options.lenient)
    rules = options.rules(_CHANGES_RULES)
    (ticks_name,) = [name for name in files if name.endswith(TICKS)]
    (fixtures_name,) = files.keys() - {ticks_name}
    rows = _scan(files[ticks_name])
    kickoff_ms = pl.col("commence_ms")
    first = kickoff_ms.filter(pl.col("ts_ms") == pl.col("ts_ms").min(), kickoff_ms.is_between(0, LAST_MS)).max()
    counted = rows.group_by("event").agg(pl.len(), pl.first("row"), moved=kickoff_ms.n_unique() > 1, first=first)
    events = _collect(counted, files[ticks_name])
    account.messages = int(events["len"].sum())
    account.note("fixtures whose kickoff moved", int(events["moved"].sum()))
    teams = _fixtures(fixtures_name, files[fixtures_name], account)
    for event, row in events.filter(~pl.col("event").is_in(list(teams))).select("event", "row").sort("row").iter_rows():
        account.refuse(ticks_name, row + 1, f"event {event} is not in {fixtures_name}", "an event without fixture")
    counts = {event: count for event, count in events.select("event", "len").iter_rows() if event in teams}
    announced = dict(events.select("event", "first").iter_rows())
    ids = fixture_ids_of(teams)
    return SourceData(
        parts=_change_parts(ticks_name, files[ticks_name], rows, counts, teams, ids, options, rules, account),
        fixtures=tuple(
            Fixture(
                fixture_id=ids[event],
                names=(home, away),
                source_id=event,
                kickoff_ts_ms=kickoff,
                scheduled_ts_ms=announced.get(event),
                league=league,
            )
            for event, (home, away, kickoff, league) in sorted(teams.items(), key=lambda item: ids[item[0]])
        ),
        account=account,
        provenance="imported-the-odds-api",
        normaliser=CHANGES_NORMALISER,
        margin=options.margin.value,
        consensus=rules.label,
        kickoff=KickoffKind.ACTUAL,
    )


def _scan(path: Path) -> pl.LazyFrame:
    """Open the changes; times are UTC, as the provider's are."""
    try:
        check_parquet(path, [*_CHANGES_COLUMNS, *_PRICES])
        rows = pl.scan_parquet(path, glob=False)
        schema = rows.collect_schema()
    except unreadable() as error:
        raise SourceError(f"{path.name}: can't be read as Parquet: {str(error).splitlines()[0]}") from error
    price = next((name for name in _PRICES if name in schema), None)
    missing = [name for name in _CHANGES_COLUMNS if name not in schema]
    if missing or price is None:
        raise SourceError(f"{path.name}: lacks the columns {missing or ['price_decimal or price_american']}")
    for name in (*_CHANGES_COLUMNS, price):
        dtype = schema[name]
        if name.endswith(("time", "update")):
            kind, fits = "timestamps", isinstance(dtype, pl.Datetime)
        elif name in ("point", price):
            kind, fits = "numbers", dtype.is_numeric() or dtype == pl.Null
        else:
            kind, fits = "text", dtype in (pl.String, pl.Categorical, pl.Enum)
        if not fits:
            raise SourceError(f"{path.name}: column {name!r} is {dtype}; it has to hold {kind}")
    text = {
        new: pl.col(old).cast(pl.String)
        for new, old in zip(("event", "book", "market", "outcome"), ("event_id", "bookmaker", "market", "outcome"), strict=True)
    }
    return rows.with_row_index("row").select(
        pl.col("row").cast(pl.Int64),
        **text,
        point=pl.col("point").cast(pl.Float64),
        price=pl.col(price).cast(pl.Float64),
        is_decimal=pl.lit(price == "price_decimal"),
        commence_ms=pl.col("commence_time").dt.epoch("ms"),
        seen_ms=pl.col("market_last_update").dt.epoch("ms"),
        ts_ms=pl.col("snapshot_commit_time").dt.epoch("ms"),
    )


def _collect(rows: pl.LazyFrame, path: Path) -> pl.DataFrame:
    try:
        return rows.collect(engine="streaming")
    except unreadable() as error:
        raise SourceError(f"{path.name}: can't be read to its end: {str(error).splitlines()[0]}") from error


_ListedFixture = tuple[str, str, int, str | None]


def _fixtures(name: str, path: Path, account: ImportStats) -> dict[str, _ListedFixture]:
    """Return event -> home team, away team, kickoff, and league if the file has a column for it."""
    try:
        reader = csv.DictReader(io.StringIO(whole(path).decode()), strict=True)
        rows = [(reader.line_num, row) for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"{name} is not a list of fixtures: {error}") from error
    missing = {"event_id", "home_team", "away_team", "commence_time"} - {*(reader.fieldnames or ())}
    if missing:
        raise SourceError(f"{name} is not a list of fixtures: it lacks the columns {', '.join(sorted(missing))}")
    teams: dict[str, _ListedFixture] = {}
    for line, row in rows:
        try:
            if None in row.values() or None in row:
                raise ValueError("more or fewer cells than the header")
            found = _listed_fixture(row)
        except ValueError as error:
            account.refuse(name, line, str(error), "a fixture can't be read")
            continue
        if teams.setdefault(row["event_id"], found) is not found:
            account.refuse(name, line, f"fixture {row['event_id']!r} is listed twice", "a fixture is listed twice")
    return teams


def _listed_fixture(row: Mapping[str, str]) -> _ListedFixture:
    league = league_named(row.get("sport_key"), "sport_key")
    return row["home_team"], row["away_team"], time_ms(row["commence_time"]), league


def _change_parts(
    name: str,
    path: Path,
    rows: pl.LazyFrame,
    counts: Mapping[str, int],
    teams: Mapping[str, _ListedFixture],
    ids: Mapping[str, int],
    options: Options,
    rules: Consensus,
    account: ImportStats,
) -> Iterator[SourcePart]:
    named = pl.DataFrame(
        [(event, home, away) for event, (home, away, *_) in teams.items()],
        schema={"event": pl.String, "home": pl.String, "away": pl.String},
        orient="row",
    )
    for batch in batches(counts, ids, options.chunk_rows):
        found = _collect(rows.filter(pl.col("event").is_in(batch)), path).join(named, on="event", maintain_order="left")
        quotes = _messages(_check_rows(name, found, options.odds_format, account), name)
        yield book_ticks(quotes, ids, options, rules, account)


def _check_rows(name: str, rows: pl.DataFrame, chosen: str | None, account: ImportStats) -> pl.DataFrame:
    """Refuse unreadable rows, and clear invalid odds: the price is unknown from that row on."""
    form = chosen or (OddsFormat.DECIMAL if rows["is_decimal"].all() else OddsFormat.AMERICAN)
    odds = pl.Series("odds", decimal_odds(rows["price"].to_numpy(), form))
    has_odds = odds.is_not_nan() & (odds * 1000).round().is_between(*ODDS_MILLI)
    for row, price, event, book in rows.filter(~has_odds).select("row", "price", "event", "book").iter_rows():
        account.refuse(name, row + 1, f"{book}: {price!r} for event {event} is {NO_ODDS}", "no odds")
    in_time = pl.all_horizontal(pl.col("seen_ms", "ts_ms").is_between(0, LAST_MS).fill_null(value=False))
    wrong = pl.any_horizontal(pl.col("book", "market", "outcome").is_null()) | ~in_time | ~pl.col("point").is_finite()
    wrong = wrong.fill_null(value=False)  # a point may be null
    for row, *values in rows.filter(wrong).select("row", "book", "market", "outcome", "point", "seen_ms", "ts_ms").iter_rows():
        problem = f"bookmaker, market, outcome, point and times in milliseconds are {values}"
        account.refuse(name, row + 1, problem, "a name or time is missing, or a number is not valid")
    away, home = pl.col("outcome") == pl.col("away"), pl.col("outcome") == pl.col("home")
    side = pl.when(home).then(pl.lit("part1")).when(away).then(pl.lit("part2")).otherwise(pl.col("outcome").str.to_lowercase())
    spreads = [market for market in rows["market"].drop_nulls().unique() if may_be_handicap(market)]
    opposite = pl.col("market").is_in(spreads) & away & ~home
    return (
        rows.with_columns(
            odds.set(~has_odds, None),
            side=side,
            point=pl.when(opposite).then(-pl.col("point")).otherwise("point") + 0.0,
            seen_ms=pl.min_horizontal("seen_ms", "ts_ms"),
        )
        .filter(~wrong)
        .sort("ts_ms", "row")
    )


def _messages(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return ``QUOTES``: a book's whole market at each change of an outcome, also withdrawals."""
    # Streams, messages and slots (a side of a stream) get numbers, because windows over whole numbers are faster.
    streams = rows.select(_STREAM).unique(maintain_order=True).with_row_index("stream")
    numbered = rows.join(streams, on=_STREAM, maintain_order="left").with_columns(at=pl.int_range(pl.len()))
    times = numbered.group_by("stream", "ts_ms").agg(pl.max("seen_ms"), pl.min("row")).sort("stream", "ts_ms")
    times = times.with_row_index("message")
    slots = streams.join(rows.select("event", "market", "side").unique(), on=["event", "market"]).with_row_index("slot")
    changed = numbered.join(slots.select("stream", "side", "slot"), on=["stream", "side"], maintain_order="left")
    latest = changed.group_by("slot", "ts_ms").agg(pl.last("at"))  # the last of several rows at one time
    state = (
        times.join(slots, on="stream")
        .join(latest, on=["slot", "ts_ms"], how="left")
        .sort("slot", "ts_ms")
        .with_columns(pl.col("at").forward_fill().over("slot"))
    )
    state = state.with_columns(decimal_odds=numbered["odds"].gather(state["at"]), point=numbered["point"].gather(state["at"]))
    quoted = _on_one_line(state)
    keys = quoted.group_by("message").agg(pl.first("market_key", "side"))
    previous = (
        times.join(keys, on="message", how="left")
        .sort("message")
        .with_columns(pl.col("side").shift(1).over("stream"), before=pl.col("market_key").shift(1).over("stream"))
    )
    moved = previous.filter(pl.col("before").is_not_null() & pl.col("before").ne_missing(pl.col("market_key")))
    withdrawn = moved.join(streams, on="stream").with_columns(market_key="before", decimal_odds=pl.lit(None, pl.Float64))
    columns = [column for column in QUOTES if column not in ("in_running", "file", "line")]
    both = pl.concat([frame.select(*columns, "row") for frame in (quoted, withdrawn)])
    return both.with_columns(in_running=pl.lit(value=False), file=pl.lit(name), line=pl.col("row") + 1).select(*QUOTES)


def _on_one_line(state: pl.DataFrame) -> pl.DataFrame:
    """Keep messages whose known sides share one point, which names their market; ``None`` counts as a point."""
    known = pl.col("at").is_not_null()
    line = pl.col("point").filter(known)
    messages = state.group_by("message").agg(lines=line.n_unique(), line=line.first())
    points = messages["line"].drop_nulls().unique().to_list()
    text = pl.col("line").replace_strict(points, [f"point={value:g}" for value in points], default="", return_dtype=pl.String)
    named = messages.filter(pl.col("lines") == 1).select("message", text=text)
    return state.join(named, on="message").with_columns(market_key=pl.concat_str("market", pl.lit("||"), "text"))


# Snapshots as JSON.


NORMALISER = "the-odds-api/1"
_ENDINGS = (".json", ".json.gz")


def find(paths: Sequence[Path]) -> dict[str, Path]:
    """Return snapshots, ``*.json`` and ``*.json.gz``; if there are none, one ``*_ticks.parquet`` with its fixtures."""
    below = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    ticks = [file for file in below if file.name.endswith(TICKS)]
    if any(path.suffix == ".parquet" for path in paths):
        return find_changes(paths)
    return (
        find_changes(ticks)
        if ticks and not any(file.name.endswith(_ENDINGS) for file in below)
        else files_below(paths, _ENDINGS)
    )


def normalise(files: Mapping[str, Path], options: Options, scratch: Path) -> SourceData:
    if any(name.endswith(".parquet") for name in files):
        return normalise_changes(files, options, scratch)
    account = ImportStats(options.lenient)
    rules = options.rules(RULES)
    spill = QuoteSpill(scratch)
    index = _EventIndex()
    rows: list[tuple[Any, ...]] = []
    for n, (name, path) in enumerate(each("reading files", sorted(files.items()), len(files))):
        rows += _read_snapshot(name, path, index, options, account)
        if len(rows) >= options.chunk_rows // 4 or n == len(files) - 1:
            spill.add(pl.DataFrame(rows, schema=QUOTES, orient="row"))
            rows = []
        options.progress(f"{n + 1:,} of {len(files):,} snapshots read")
    ids = fixture_ids_of(index.events)
    account.note("fixtures whose kickoff moved", sum(len({*event.kickoffs.values()}) > 1 for event in index.events.values()))
    return SourceData(
        parts=_parts(spill, ids, index, options, rules, account),
        fixtures=tuple(
            Fixture(
                fixture_id=ids[event_id],
                names=(event.home, event.away),
                source_id=event_id,
                kickoff_ts_ms=event.kickoffs[max(event.kickoffs)],
                scheduled_ts_ms=event.kickoffs[min(event.kickoffs)],
                league=index.sport_of[event_id],
            )
            for event_id, event in sorted(index.events.items(), key=lambda item: ids[item[0]])
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
    kickoffs: dict[int, int] = field(default_factory=dict)  # time of the snapshot -> the kickoff that it states


@dataclass(slots=True)
class _EventIndex:
    """Events read so far, and the times of snapshots that cover them, by (sport or event, type of market, book)."""

    events: dict[str, _ApiEvent] = field(default_factory=dict)
    covered: dict[tuple[str, str, str], set[int]] = field(default_factory=lambda: defaultdict(set))
    sport_of: dict[str, str] = field(default_factory=dict)


def _parts(
    spill: QuoteSpill, ids: Mapping[str, int], index: _EventIndex, options: Options, rules: Consensus, account: ImportStats
) -> Iterator[SourcePart]:
    for batch in batches(spill.rows_of, ids, options.chunk_rows):
        quotes = spill.rows(batch).sort("ts_ms", "file", "line")
        yield book_ticks(_with_withdrawals(quotes, index, batch), ids, options, rules, account)


def _with_withdrawals(quotes: pl.DataFrame, index: _EventIndex, batch: Sequence[str]) -> pl.DataFrame:
    """Add an unpriced message at the first snapshot in which a book no longer quotes a market that it quoted before."""
    single_events = {scope for scope, _, _ in index.covered}
    scopes = {event: event if event in single_events else index.sport_of[event] for event in batch}
    rows = [
        (scope, kind, book, n, at)
        for scope in sorted({*scopes.values()})
        for kind, book in sorted({(kind, book) for _, kind, book in index.covered})
        for n, at in enumerate(sorted(_times(index, scope, kind, book)))
    ]
    times = pl.DataFrame(rows, schema=_TIMES, orient="row")
    offers = (
        quotes.unique(["event", "market_key", "book", "ts_ms"], keep="first", maintain_order=True)
        .with_columns(kind=pl.col("market_key").str.extract(r"^([^|]*)"), scope=pl.col("event").replace_strict(scopes))
        .join(times, on=["scope", "kind", "book", "ts_ms"], how="left")
        .sort("event", "market_key", "book", "ts_ms")
        .with_columns(then=pl.col("n").shift(-1).over("event", "market_key", "book"))
        .filter(pl.col("then").is_null() | (pl.col("then") > pl.col("n") + 1))
        .with_columns(pl.col("n") + 1)
    )
    gone = offers.drop("ts_ms").join(times, on=["scope", "kind", "book", "n"])
    return pl.concat([quotes, gone.with_columns(decimal_odds=pl.lit(None, pl.Float64), seen_ms="ts_ms").select(*QUOTES)])


_TIMES = {"scope": pl.String, "kind": pl.String, "book": pl.String, "n": pl.Int64, "ts_ms": pl.Int64}


def _times(index: _EventIndex, scope: str, kind: str, book: str) -> set[int]:
    """Return the times of snapshots in which a book would have quoted that type of market of an event or sport."""
    own = index.covered.get((scope, kind, book), set())
    return own | index.covered.get((index.sport_of.get(scope, scope), kind, book), set())


def _read_snapshot(name: str, path: Path, index: _EventIndex, options: Options, account: ImportStats) -> list[tuple[Any, ...]]:
    try:
        answer = orjson.loads(whole(path))
    except SourceError as error:
        account.refuse_file(name, error)
        return []
    except orjson.JSONDecodeError as error:
        account.refuse(name, error.lineno, f"no JSON: {error.msg}", "no JSON")
        return []
    try:
        ts_ms, events = _time_and_events(name, answer, account)
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
            _add_event(index, event, ts_ms)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            account.refuse(name, number, reason_of(error), "an event can't be read")
            continue
        rows += found
    scopes = {row[0] if single else sports[0] for row in rows}
    kinds, books = {key_parts(row[1])[0] for row in rows}, {row[3] for row in rows}
    for scope, kind, book in product(scopes, kinds, books):
        index.covered[str(scope), kind, book].add(ts_ms)
    return rows


def _time_and_events(name: str, answer: Any, account: ImportStats) -> tuple[int, Sequence[ApiEvent]]:
    """Return the time at which a snapshot was visible, and its events."""
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


def _format_of(events: Sequence[ApiEvent], chosen: str | None) -> OddsFormat:
    """Return the format of a file's prices: whole numbers of 100 or more, of either sign, are American."""
    if chosen is not None:
        return OddsFormat(chosen)
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
    """Return whether the numbers mix both formats; a few longshots at 100 and above can also be decimal odds."""
    return len(american) * 2 > len(numbers)


def _add_event(index: _EventIndex, event: Mapping[str, Any], ts_ms: int) -> None:
    kickoff = time_ms(event["commence_time"])
    new = _ApiEvent(event["home_team"], event["away_team"])
    seen = index.events.setdefault(event["id"], new)
    if (seen.home, seen.away) != (new.home, new.away):
        raise ValueError(f"event {event['id']} is {seen.home} - {seen.away} elsewhere, not {new.home} - {new.away}")
    seen.kickoffs[ts_ms] = kickoff
    index.sport_of[event["id"]] = event["sport_key"]
