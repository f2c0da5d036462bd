"""Changes of The Odds API's prices as Parquet: a row where the price or point of one outcome of a book changed.

What did not change has no row, so a book's market at a time is the last row of each of its outcomes. Where these name different
points the book is between two lines and quotes none.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from clvlab.base.times import LAST_MS, time_ms
from clvlab.errors import SourceError
from clvlab.law.markets import may_be_handicap
from clvlab.law.schema import ODDS_MILLI
from clvlab.odds.consensus import Consensus
from clvlab.odds.formats import OddsFormat, decimal_odds
from clvlab.packs.files import whole
from clvlab.packs.importers.books import QUOTES, batches, book_ticks
from clvlab.packs.importers.source import NO_ODDS, ImportStats, Normalised, Options, SourcePart, fixture_ids_of, league_named
from clvlab.packs.manifest import Fixture, KickoffKind
from clvlab.packs.parquet import check_parquet
from clvlab.packs.rows import UNREADABLE

NORMALISER = "the-odds-api-changes/1"
TICKS = "_ticks.parquet"
_RULES = Consensus(min_books=3, max_age_s=86_400)  # unchanged prices are not repeated, so age says little
_PRICES = ("price_decimal", "price_american")
_COLUMNS = (
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


def find(paths: Sequence[Path]) -> dict[str, Path]:
    """Return ``NAME_ticks.parquet`` and the ``NAME_fixtures.csv`` beside it."""
    if len(paths) != 1 or not paths[0].name.endswith(TICKS):
        raise SourceError(f"give one file *{TICKS}, not {', '.join(path.name for path in paths)}")
    fixtures = paths[0].with_name(paths[0].name.removesuffix(TICKS) + "_fixtures.csv")
    if not fixtures.is_file():
        raise SourceError(f"{paths[0].name} needs {fixtures.name} beside it, with the teams and kickoffs of its events")
    return {paths[0].name: paths[0], fixtures.name: fixtures}


def normalise(files: Mapping[str, Path], options: Options, _scratch: Path) -> Normalised:
    """Read the changes some events at a time, and make consensus ticks of them."""
    account = ImportStats(options.lenient)
    rules = options.rules(_RULES)
    (ticks_name,) = [name for name in files if name.endswith(TICKS)]
    (fixtures_name,) = files.keys() - {ticks_name}
    rows = _scanned(files[ticks_name])
    said = pl.col("commence_ms")
    first = said.filter(pl.col("ts_ms") == pl.col("ts_ms").min(), said.is_between(0, LAST_MS)).max()
    counted = rows.group_by("event").agg(pl.len(), pl.first("row"), moved=said.n_unique() > 1, first=first)
    events = _collected(counted, files[ticks_name])
    account.messages = int(events["len"].sum())
    account.note("fixtures whose kickoff moved", int(events["moved"].sum()))
    teams = _fixtures(fixtures_name, files[fixtures_name], account)
    for event, first in events.filter(~pl.col("event").is_in(list(teams))).select("event", "row").sort("row").iter_rows():
        account.refuse(ticks_name, first + 1, f"event {event} is not in {fixtures_name}", "an event without fixture")
    counts = {event: count for event, count in events.select("event", "len").iter_rows() if event in teams}
    announced = dict(events.select("event", "first").iter_rows())
    ids = fixture_ids_of(teams)
    return Normalised(
        parts=_parts(ticks_name, files[ticks_name], rows, counts, teams, ids, options, rules, account),
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
        normaliser=NORMALISER,
        margin=options.margin.value,
        consensus=rules.label,
        kickoff=KickoffKind.ACTUAL,
    )


def _scanned(path: Path) -> pl.LazyFrame:
    """Open the changes; their times are UTC, as the provider's are."""
    try:
        check_parquet(path, [*_COLUMNS, *_PRICES])
        rows = pl.scan_parquet(path, glob=False)
        schema = rows.collect_schema()
    except (pl.exceptions.PolarsError, *UNREADABLE) as error:
        raise SourceError(f"{path.name}: can't be read as Parquet: {str(error).splitlines()[0]}") from error
    price = next((name for name in _PRICES if name in schema), None)
    missing = [name for name in _COLUMNS if name not in schema]
    if missing or price is None:
        raise SourceError(f"{path.name}: lacks the columns {missing or ['price_decimal or price_american']}")
    for name in (*_COLUMNS, price):
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


def _collected(rows: pl.LazyFrame, path: Path) -> pl.DataFrame:
    try:
        return rows.collect(engine="streaming")
    except (pl.exceptions.PolarsError, OSError) as error:
        raise SourceError(f"{path.name}: can't be read to its end: {str(error).splitlines()[0]}") from error


_CallableModule = tuple[str, str, int, str | None]


def _fixtures(name: str, path: Path, account: ImportStats) -> dict[str, _CallableModule]:
    """Event -> home team, away team, kickoff, and league where the list has a column of it."""
    try:
        reader = csv.DictReader(io.StringIO(whole(path).decode()), strict=True)
        rows = [(reader.line_num, row) for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"{name} is no list of fixtures: {error}") from error
    missing = {"event_id", "home_team", "away_team", "commence_time"} - {*(reader.fieldnames or ())}
    if missing:
        raise SourceError(f"{name} is no list of fixtures: it lacks the columns {', '.join(sorted(missing))}")
    teams: dict[str, _CallableModule] = {}
    for line, row in rows:
        try:
            if None in row.values() or None in row:
                raise ValueError("more or fewer cells than the header")
            found = _listed(row)
        except ValueError as error:
            account.refuse(name, line, str(error), "a fixture can't be read")
            continue
        if teams.setdefault(row["event_id"], found) is not found:
            account.refuse(name, line, f"fixture {row['event_id']!r} is listed twice", "a fixture is listed twice")
    return teams


def _listed(row: Mapping[str, str]) -> _CallableModule:
    league = league_named(row.get("sport_key"), "sport_key")
    return row["home_team"], row["away_team"], time_ms(row["commence_time"]), league


def _parts(
    name: str,
    path: Path,
    rows: pl.LazyFrame,
    counts: Mapping[str, int],
    teams: Mapping[str, _CallableModule],
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
        found = _collected(rows.filter(pl.col("event").is_in(batch)), path).join(named, on="event", maintain_order="left")
        quotes = _messages(_checked(name, found, options.odds_format, account), name)
        yield book_ticks(quotes, ids, options, rules, account)


def _checked(name: str, rows: pl.DataFrame, asked: str | None, account: ImportStats) -> pl.DataFrame:
    """Refuse rows that can't be read, and take the price from those whose odds are not valid: from there on it is not known."""
    form = asked or (OddsFormat.DECIMAL if rows["is_decimal"].all() else OddsFormat.AMERICAN)
    odds = pl.Series("odds", decimal_odds(rows["price"].to_numpy(), form))
    sound = odds.is_not_nan() & (odds * 1000).round().is_between(*ODDS_MILLI)
    for row, price, event, book in rows.filter(~sound).select("row", "price", "event", "book").iter_rows():
        account.refuse(name, row + 1, f"{book}: {price!r} for event {event} is {NO_ODDS}", "no odds")
    in_time = pl.all_horizontal(pl.col("seen_ms", "ts_ms").is_between(0, LAST_MS).fill_null(value=False))
    lost = pl.any_horizontal(pl.col("book", "market", "outcome").is_null()) | ~in_time | ~pl.col("point").is_finite()
    lost = lost.fill_null(value=False)  # a point may be null
    for row, *values in rows.filter(lost).select("row", "book", "market", "outcome", "point", "seen_ms", "ts_ms").iter_rows():
        said = f"bookmaker, market, outcome, point and times in milliseconds are {values}"
        account.refuse(name, row + 1, said, "a name or time is missing, or a number is not valid")
    away, home = pl.col("outcome") == pl.col("away"), pl.col("outcome") == pl.col("home")
    side = pl.when(home).then(pl.lit("part1")).when(away).then(pl.lit("part2")).otherwise(pl.col("outcome").str.to_lowercase())
    spreads = [market for market in rows["market"].drop_nulls().unique() if may_be_handicap(market)]
    opposite = pl.col("market").is_in(spreads) & away & ~home
    return (
        rows.with_columns(
            odds.set(~sound, None),
            side=side,
            point=pl.when(opposite).then(-pl.col("point")).otherwise("point") + 0.0,
            seen_ms=pl.min_horizontal("seen_ms", "ts_ms"),
        )
        .filter(~lost)
        .sort("ts_ms", "row")
    )


def _messages(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return ``QUOTES``: a book's whole market at each time at which one of its outcomes changed, and what it withdrew then."""
    # Streams, messages and slots (a side of a stream) get numbers, because windows over whole numbers are the fast ones.
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
    before = (
        times.join(keys, on="message", how="left")
        .sort("message")
        .with_columns(pl.col("side").shift(1).over("stream"), before=pl.col("market_key").shift(1).over("stream"))
    )
    left = before.filter(pl.col("before").is_not_null() & pl.col("before").ne_missing(pl.col("market_key")))
    withdrawn = left.join(streams, on="stream").with_columns(market_key="before", decimal_odds=pl.lit(None, pl.Float64))
    columns = [column for column in QUOTES if column not in ("in_running", "file", "line")]
    both = pl.concat([frame.select(*columns, "row") for frame in (quoted, withdrawn)])
    return both.with_columns(in_running=pl.lit(value=False), file=pl.lit(name), line=pl.col("row") + 1).select(*QUOTES)


def _on_one_line(state: pl.DataFrame) -> pl.DataFrame:
    """Keep the messages whose known sides name one point, and name their market by it; null is a point of its own."""
    known = pl.col("at").is_not_null()
    line = pl.col("point").filter(known)
    messages = state.group_by("message").agg(lines=line.n_unique(), line=line.first())
    points = messages["line"].drop_nulls().unique().to_list()
    text = pl.col("line").replace_strict(points, [f"point={value:g}" for value in points], default="", return_dtype=pl.String)
    named = messages.filter(pl.col("lines") == 1).select("message", text=text)
    return state.join(named, on="message").with_columns(market_key=pl.concat_str("market", pl.lit("||"), "text"))
