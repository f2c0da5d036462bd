"""Any table of odds, CSV or Parquet, long or wide, whose columns a mapping explains."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from clvlab.base.progress import each, report
from clvlab.base.times import LAST_MS, of_format, time_ms, zone_of
from clvlab.errors import SourceError
from clvlab.law.schema import ODDS_MILLI
from clvlab.odds.consensus import Consensus
from clvlab.odds.formats import OddsFormat, decimal_odds
from clvlab.packs.manifest import Fixture, KickoffKind
from clvlab.packs.rows import RESULTS, Payout
from clvlab.sources.books import QUOTES, QuoteSpill, quote_parts
from clvlab.sources.mapping import Meaning, TableMap
from clvlab.sources.source import NO_ODDS, ImportStats, Options, SourceData, files_below, fixture_ids_of
from clvlab.sources.tables.files import TableChunk, csv_chunks, parquet_chunks
from clvlab.words import counted

# Columns become quotes: times, odds and sides are checked column by column.


_BOOK = "book"
_AMERICAN, _FRACTION = re.compile(r"[+-][1-9][0-9]{2,}(\.0+)?"), re.compile(r"[0-9]+/[0-9]+")
_SHARE, _COMMA = re.compile(r"0?\.[0-9]*[1-9][0-9]*"), re.compile(r"[0-9]+,[0-9]+")
_RESULTS = {
    "won": Payout.WON, "win": Payout.WON, "1": Payout.WON, "true": Payout.WON, "lost": Payout.LOST, "lose": Payout.LOST,
    "0": Payout.LOST, "false": Payout.LOST, "void": Payout.VOID, "push": Payout.VOID, "half_won": Payout.HALF_WON,
    "half_lost": Payout.HALF_LOST,
}  # fmt: skip
_FLAGS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


@dataclass(frozen=True, slots=True)
class TableRows:
    """``QUOTES`` of some rows, facts of their fixtures, and results by side."""

    quotes: pl.DataFrame
    facts: pl.DataFrame
    results: pl.DataFrame


def table_rows(chunk: TableChunk, options: Options, account: ImportStats) -> TableRows:
    """Return the content of a chunk; a row with a bad time, odds or flag is refused as a whole."""
    mapping = chunk.mapping
    zone = zone_of(options.time_zone or mapping.time_zone)
    form = OddsFormat(options.odds_format) if options.odds_format else mapping.odds_format
    heads, sound_rows = _heads(chunk, mapping, zone, account)
    long = _sides(heads.filter(sound_rows), chunk.rows.filter(sound_rows), mapping)
    odds = pl.Series("decimal_odds", decimal_odds(_prices_for(long["price"], form), form))
    sound = odds.is_not_nan() & (odds * 1000).round().is_between(*ODDS_MILLI)
    priced = long["price"].is_not_null()
    for line, side, price in long.filter(~sound & priced).select("line", "side", "price").iter_rows():
        account.refuse(
            chunk.file, line, f"{side or ''} {price!r} as {form} odds is {NO_ODDS}{_format_of(price, form)}", "no odds"
        )
    unnamed = long["side"].is_null()
    for (line,) in long.filter(unnamed).select("line").iter_rows():
        account.refuse(chunk.file, line, "names no side", "a row names no side")
    fair, is_fair = _fair(long, mapping, chunk.file, account)
    kept = long.with_columns(odds.set(~sound, None), fair).filter((sound | ~priced) & is_fair & ~unnamed)
    only_fair = "odds" not in mapping.columns and not mapping.sides
    account.note(
        "probabilities without odds: nothing is on offer that could be bet" if only_fair else "sides without a price",
        kept["price"].null_count(),
    )
    quotes = kept.with_columns(file=pl.lit(chunk.file), seen_ms=pl.min_horizontal("seen_ms", "ts_ms"))
    facts = heads.filter(sound_rows).select("event", "ts_ms", "kickoff_ms", "home", "away", "league", "season")
    return TableRows(quotes, facts, _results(quotes, chunk, account))


def _fair(long: pl.DataFrame, mapping: TableMap, file: str, account: ImportStats) -> tuple[pl.Series, pl.Series]:
    """Return a table's probabilities, and the rows whose probability is valid or missing; the others are refused."""
    if not mapping.has_fair:
        return pl.Series("fair", [None] * long.height, dtype=pl.Float64), pl.Series([True] * long.height, dtype=pl.Boolean)
    written = long["probability"]
    plain = written.str.strip_suffix("%") if written.dtype == pl.String else written
    fair = pl.Series("fair", _prices_for(plain, OddsFormat.PROBABILITY) / (100 if mapping.percent else 1)).fill_nan(None)
    sound = ((fair > 0) & (fair < 1)).fill_null(value=False)
    wrong = ~sound & written.is_not_null()
    for line, side, value in long.select("line", "side", "probability").filter(wrong).iter_rows():
        account.refuse(file, line, f"{side or ''} {value!r} is no probability between 0 and 1", "no probability")
    return fair.set(~sound, None), ~wrong


def _heads(chunk: TableChunk, mapping: TableMap, zone: ZoneInfo | None, account: ImportStats) -> tuple[pl.DataFrame, pl.Series]:
    """Return the columns that all quotes of a row share, and the rows that can be read."""
    rows, columns = chunk.rows, mapping.columns
    nothing = pl.Series([None] * rows.height, dtype=pl.String)

    def text(meaning: Meaning) -> pl.Series:
        return rows[columns[meaning]].cast(pl.String) if meaning in columns else nothing

    stamps: tuple[Meaning, ...] = ("time", "kickoff", "updated")
    written = {name: rows[columns[name]] for name in stamps if name in columns}
    if "date" in columns:
        written["time"] = text("date") + " " + text("time")
    read = {name: _times(written[name], zone, mapping.time_format) if name in written else None for name in stamps}
    bad = pl.Series([None] * rows.height, dtype=pl.String)
    found: dict[str, pl.Series] = {}
    for meaning, result in read.items():
        found[meaning] = pl.Series([None] * rows.height, dtype=pl.Int64) if result is None else result[0]
        if result is not None:
            bad = bad.zip_with(bad.is_not_null(), result[1])
    flag = text("in_running").str.to_lowercase()
    playing = flag.replace_strict(_FLAGS, default=None, return_dtype=pl.Boolean)
    no_flag = playing.is_null() & flag.is_not_null()
    event = text("fixture")
    problems = pl.DataFrame({"bad": bad, "flag": flag, "no_flag": no_flag, "event": event, "ts": found["time"]}).select(
        pl.when(pl.col("bad").is_not_null())
        .then("bad")
        .when(pl.col("event").is_null())
        .then(pl.lit("names no fixture"))
        .when(pl.col("ts").is_null())
        .then(pl.lit("has no time"))
        .when("no_flag")
        .then(pl.format("in_running {} is neither true nor false", "flag"))
    )
    reasons = problems.to_series()
    for line, reason in pl.DataFrame({"line": chunk.line, "reason": reasons}).filter(reasons.is_not_null()).iter_rows():
        account.refuse(chunk.file, line, reason, "a time, fixture or flag can't be read")
    heads = {
        "event": event,
        "ts_ms": found["time"],
        "kickoff_ms": found["kickoff"],
        "seen_ms": found["updated"].fill_null(found["time"]),
        "in_running": playing.fill_null(value=False),
        "market_key": text("market").fill_null(mapping.market),
        "book": text("book").fill_null(_BOOK),
        "home": text("home"),
        "away": text("away"),
        "league": text("league"),
        "season": text("season"),
        "line": chunk.line,
    }
    return pl.DataFrame(heads), reasons.is_null()


def _times(column: pl.Series, zone: ZoneInfo | None, form: str | None = None) -> tuple[pl.Series, pl.Series]:
    """Return UTC milliseconds, and the reason why a value is not a valid time; each distinct value is read once."""
    if isinstance(column.dtype, pl.Datetime):
        aware = column.dtype.time_zone is not None
        if not aware and zone is None:
            reason = pl.Series(
                [f"column {column.name!r} has no time zone: name the zone of such times, as time_zone='Europe/London'"],
                dtype=pl.String,
            )
            return pl.Series([None] * len(column), dtype=pl.Int64), reason.new_from_index(0, len(column))
        moments = (
            column
            if aware or zone is None
            else column.dt.replace_time_zone(zone.key, ambiguous="earliest", non_existent="null")
        )
        stamps = moments.dt.epoch("ms")
        wrong = column.is_not_null() & ~stamps.is_between(0, LAST_MS).fill_null(value=False)
        problems = pl.DataFrame({"us": column.dt.epoch("us").cast(pl.String), "wrong": wrong})
        no_time = pl.format("{} microseconds are no time from 1970 to 9999, or one that the clocks of its zone left out", "us")
        return stamps.set(wrong, None), problems.select(pl.when("wrong").then(no_time)).to_series()
    values = column.unique().drop_nulls()
    read: list[int | None] = []
    reasons: list[str | None] = []
    for value in [*map(_number, values)] if form is None else values:
        try:
            read.append(of_format(value, form, zone) if form is not None and isinstance(value, str) else time_ms(value, zone))
            reasons.append(None)
        except ValueError as error:
            read.append(None)
            reasons.append(str(error))
    return (
        column.replace_strict(values, pl.Series(read, dtype=pl.Int64), default=None, return_dtype=pl.Int64),
        column.replace_strict(values, pl.Series(reasons, dtype=pl.String), default=None, return_dtype=pl.String),
    )


def _number(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return float(value) if not value.isdecimal() else int(value)
    except ValueError:
        return value


def _sides(heads: pl.DataFrame, rows: pl.DataFrame, mapping: TableMap) -> pl.DataFrame:
    """Return one row per quote with ``side``, ``price``, ``probability`` and ``result``; a wide table is split by side."""
    shared = heads.drop("kickoff_ms", "home", "away", "league", "season")
    nothing = pl.lit(None, pl.String)
    own = mapping.columns
    result = rows[own["result"]].cast(pl.String) if "result" in own else nothing
    if not mapping.by_name:
        side, price = rows[own["side"]].cast(pl.String), rows[own["odds"]] if "odds" in own else nothing
        probability = rows[own["probability"]] if "probability" in own else nothing
        return shared.with_columns(side=side, price=price, probability=probability, result=result)
    parts = [
        shared.with_columns(
            side=pl.lit(side),
            price=rows[column] if mapping.sides else nothing,
            probability=rows[mapping.probabilities[side]] if mapping.probabilities else nothing,
            result=rows[mapping.results[side]].cast(pl.String) if mapping.results else result,
        )
        for side, column in mapping.by_name.items()
    ]
    return pl.concat(parts, how="vertical_relaxed").sort("line", maintain_order=True)


def _format_of(price: object, form: OddsFormat) -> str:
    """Return a hint at another format in which a price would be valid."""
    text = str(price).strip()
    if form is not OddsFormat.DECIMAL:
        return ""
    if _AMERICAN.fullmatch(text):
        likely = OddsFormat.AMERICAN
    elif _FRACTION.fullmatch(text):
        likely = OddsFormat.FRACTIONAL
    elif _SHARE.fullmatch(text):
        likely = OddsFormat.PROBABILITY
    else:
        return "; write it with a point" if _COMMA.fullmatch(text) else ""
    return f": if the column is {likely}, say odds_format={str(likely)!r}"


def _prices_for(prices: pl.Series, form: OddsFormat) -> np.ndarray[Any, Any]:
    """Return prices in the type that the format needs: texts, or numbers with NaN for an invalid price."""
    if form is OddsFormat.FRACTIONAL:
        return np.array(prices.cast(pl.String).fill_null("").to_list(), dtype=object)
    numbers = (
        prices.str.strip_prefix("+").cast(pl.Float64, strict=False) if prices.dtype == pl.String else prices.cast(pl.Float64)
    )
    return numbers.fill_null(float("nan")).to_numpy()


def _results(quotes: pl.DataFrame, chunk: TableChunk, account: ImportStats) -> pl.DataFrame:
    """Return how sides were settled: each side's result, or in a wide table the winner's name."""
    named = quotes.filter(pl.col("result").is_not_null())
    text = pl.col("result").str.to_lowercase()
    if chunk.mapping.by_name and not chunk.mapping.results:
        won = pl.when(pl.col("result") == pl.col("side")).then(pl.lit(Payout.WON.value)).otherwise(pl.lit(Payout.LOST.value))
        known = pl.col("result").is_in(list(chunk.mapping.by_name))
        settled = pl.when(known).then(won).otherwise(None)
    else:
        settled = text.replace_strict({name: of.value for name, of in _RESULTS.items()}, default=None, return_dtype=pl.String)
    found = named.with_columns(settled=settled)
    for line, result in found.filter(pl.col("settled").is_null()).select("line", "result").unique().sort("line").iter_rows():
        account.refuse(chunk.file, line, f"result {result!r} is not a valid result", "a result can't be read")
    key = ["event", "market_key", "side", "settled"]
    return found.drop_nulls("settled").unique(key, keep="first", maintain_order=True).select("file", "line", *key)


NORMALISER = "table/1"
_RULES = Consensus(min_books=1, max_age_s=86_400)


def find_csv(paths: Sequence[Path]) -> dict[str, Path]:
    return files_below(paths, (".csv", ".csv.gz"))


def find_parquet(paths: Sequence[Path]) -> dict[str, Path]:
    return files_below(paths, (".parquet",))


def normalise(files: Mapping[str, Path], options: Options, scratch: Path) -> SourceData:
    """Read tables in chunks of rows; a book's message is all its rows about one market at one time."""
    account = ImportStats(options.lenient)
    rules = options.rules(_RULES)
    spill = QuoteSpill(scratch)
    known = _KnownColumns(account)
    for name, path in each("reading files", sorted(files.items()), len(files)):
        for chunk in _chunks(name, path, options, account):
            account.messages += chunk.rows.height
            known.actual = known.actual or chunk.mapping.kickoff_kind is KickoffKind.ACTUAL
            rows = table_rows(chunk, options, account)
            known.learn(rows)
            spill.add(rows.quotes.select(*QUOTES, *(["fair"] if chunk.mapping.has_fair else [])))
            options.progress(f"{counted(account.messages, 'row')} read")
            if len(files) == 1:
                report("reading rows", account.messages)
    ids = fixture_ids_of(known.names)
    account.note("fixtures whose kickoff moved", known.moved_count)
    return SourceData(
        parts=quote_parts(spill, ids, options, rules, account),
        fixtures=known.fixtures(ids),
        account=account,
        provenance="imported-table",
        normaliser=NORMALISER,
        margin=options.margin.value,
        consensus=rules.label,
        kickoff=KickoffKind.ACTUAL if known.actual or known.moved_count else None,
        results=known.results(ids),
    )


def _chunks(name: str, path: Path, options: Options, account: ImportStats) -> Iterator[TableChunk]:
    """Read a file; when lenient, one with another header or content is left out."""
    read = parquet_chunks if name.endswith(".parquet") else csv_chunks
    try:
        yield from read(name, path, options, account)
    except SourceError as error:
        account.refuse_file(name, error, "a file is no such table")


class _KnownColumns:
    """Names, kickoffs and results of the fixtures so far."""

    def __init__(self, account: ImportStats) -> None:
        self.names: dict[str, tuple[str, ...]] = {}
        self.announced: dict[str, tuple[int, int]] = {}  # event -> (time of the first statement, its kickoff)
        self.kickoffs: dict[str, tuple[int, int]] = {}  # the same of the last statement
        self.leagues: dict[str, tuple[str | None, str | None]] = {}
        self.actual = False
        self._settled: dict[tuple[str, str, str], str] = {}
        self._account = account

    @property
    def moved_count(self) -> int:
        """Number of kickoffs that differ from the first announced one."""
        return sum(self.announced[event][1] != kickoff for event, (_, kickoff) in self.kickoffs.items())

    def fixtures(self, ids: Mapping[str, int]) -> tuple[Fixture, ...]:
        """Return the fixtures; one with a moved kickoff also has the first announced one."""
        announced = {event: kickoff for event, (_, kickoff) in self.announced.items()} if self.moved_count else {}
        return tuple(
            Fixture(
                fixture_id=ids[event],
                names=names,
                source_id=event,
                league=self.leagues.get(event, (None, None))[0],
                season=self.leagues.get(event, (None, None))[1],
                kickoff_ts_ms=self.kickoffs.get(event, (0, None))[1],
                scheduled_ts_ms=None if self.actual else announced.get(event),
            )
            for event, names in sorted(self.names.items(), key=lambda item: ids[item[0]])
        )

    def learn(self, rows: TableRows) -> None:
        """Record facts of more rows; the last stated kickoff counts."""
        names = rows.facts.group_by("event").agg(pl.col("home", "away").drop_nulls().last())
        for event, home, away in names.iter_rows():
            self.names[event] = tuple(name for name in (home, away) if name) or self.names.get(event, ())
        named = rows.facts.filter(~pl.all_horizontal(pl.col("league", "season").is_null()))
        leagues = named.group_by("event").agg(pl.col("league", "season").drop_nulls().last())
        self.leagues |= {event: (league, season) for event, league, season in leagues.iter_rows()}
        kickoffs = rows.facts.filter(pl.col("kickoff_ms").is_not_null()).sort("ts_ms", maintain_order=True)
        ends = kickoffs.group_by("event", maintain_order=True).agg(
            pl.first("ts_ms"), pl.first("kickoff_ms"), last_ms=pl.last("ts_ms"), last=pl.last("kickoff_ms")
        )
        for event, first_ms, first, last_ms, last in ends.iter_rows():
            if event not in self.announced or first_ms < self.announced[event][0]:
                self.announced[event] = (first_ms, first)
            if last_ms >= self.kickoffs.get(event, (-1, None))[0]:
                self.kickoffs[event] = (last_ms, last)
        for file, line, event, market, side, result in rows.results.iter_rows():
            known = self._settled.setdefault((event, market, side), result)
            if known != result:
                text = f"{side} of {market} of {event} is {result!r} here and {known!r} above"
                self._account.refuse(file, line, text, "a result changes")

    def results(self, ids: Mapping[str, int]) -> pl.DataFrame | None:
        settled: list[tuple[Any, ...]] = [
            (ids[event], market, side, result, None) for (event, market, side), result in self._settled.items()
        ]
        return pl.DataFrame(settled, schema=RESULTS, orient="row") if settled else None
