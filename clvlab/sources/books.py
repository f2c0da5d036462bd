"""Consensus ticks from books' quotes, which are spilled to disk when read, then processed a few fixtures after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from clvlab.errors import SourceError
from clvlab.law.schema import BOOKS, ODDS_MILLI, TICKS, Schema
from clvlab.odds.consensus import PROB_UNIT, BookMessages, Consensus, ConsensusTicks, Flags, Ints, basis_points, consensus_ticks
from clvlab.odds.margin import Floats, Margin, fair_probabilities, overround
from clvlab.packs.invariants import MAX_NAME_BYTES
from clvlab.sources.source import ImportStats, Options, SourcePart

# Messages of books are made from odds, whose margin is removed, or from probabilities without margin.


_MOST_OFF = 0.1  # largest distance of the sum of fair probabilities from 1


def priced_messages(
    heads: pl.DataFrame, odds: Floats, fair: Floats | None, books: list[str], options: Options, account: ImportStats
) -> BookMessages:
    """Return the messages; one that lacks a probability on a side withdraws its book's quote.

    Parameters
    ----------
    heads
        One row per message: ``market``, ``ts_ms``, ``seen_ms`` and ``book``.
    odds, fair
        Decimal odds and given probabilities, of shape (messages, sides), NaN if missing. ``fair`` is ``None`` if probabilities
        come from the odds.
    books
        All books, in order.
    options, account
        ``margin`` and ``max_overround`` of the import, and where findings are counted.
    """
    complete: Flags = np.asarray(~np.isnan(odds if fair is None else fair).any(axis=1))
    account.note("book messages without a price for every side", int((~complete).sum()))
    complete &= _is_within(odds, complete, options, account)
    prob = np.full(odds.shape, -1, dtype=np.int64)
    milli = np.full(odds.shape, -1, dtype=np.int64)
    if fair is not None:
        total = fair.sum(axis=1, where=~np.isnan(fair))
        off = complete & (np.abs(total - 1) > _MOST_OFF)
        account.note("book messages whose probabilities do not sum to 0.9 to 1.1, taken as suspended", int(off.sum()))
        complete &= ~off
        prob[complete] = np.rint(fair[complete] / total[complete, None] * PROB_UNIT).astype(np.int64)
        milli[complete] = _milli(odds[complete])
    elif complete.any():
        prob[complete], milli[complete], fell_back = book_prices(odds[complete], options.margin)
        account.margin_fallbacks += fell_back
    numbers = heads["book"].replace_strict(books, range(len(books)), return_dtype=pl.Int64)
    market, ts_ms, seen_ms = (heads[name].to_numpy() for name in ("market", "ts_ms", "seen_ms"))
    return BookMessages(market, ts_ms, numbers.to_numpy(), seen_ms, prob, milli)


def _is_within(odds: Floats, complete: Flags, options: Options, account: ImportStats) -> Flags:
    """Count the overround of complete messages, and return which messages do not exceed ``max_overround``."""
    within = np.ones(len(odds), dtype=np.bool_)
    full: Flags = complete & ~np.isnan(odds).any(axis=1)
    if full.any():
        margins = overround(odds[full])
        account.note("book messages with an overround below 0 or above 30 %", int(((margins < 0) | (margins > 0.3)).sum()))
        tens, times = np.unique(np.rint(margins * 1000).astype(np.int64) * 10, return_counts=True)
        account.overround_bps.update(dict(zip(tens.tolist(), times.tolist(), strict=True)))
        if options.max_overround is not None:  # more is a placeholder, a mistake, or sides of different markets
            beyond = margins > options.max_overround
            account.note("book messages beyond max_overround, taken as suspended", int(beyond.sum()))
            within[full] = ~beyond
    return within


def book_prices(odds: Floats, margin: Margin) -> tuple[Ints, Ints, int]:
    """Return probabilities in ``PROB_UNIT`` and odds x 1000, a row per book, and the number of rows that fell back on power."""
    fair = fair_probabilities(odds, margin)
    return np.rint(fair.prob * PROB_UNIT).astype(np.int64), _milli(odds), int(fair.fell_back.sum())


def _milli(odds: Floats) -> Ints:
    """Return odds x 1000, -1 if missing."""
    none = np.isnan(odds)
    milli: Ints = np.clip(np.floor(np.where(none, 1.0, odds) * 1000 + 0.5), *ODDS_MILLI).astype(np.int64)
    milli[none] = -1
    return milli


# One row per side in a book's message about a market. Odds are null where the side is named without a price; a message
# whose sides are not all priced withdraws the book's quote. ``seen_ms`` is when the book itself last confirmed the price.
QUOTES: Schema = {
    "event": pl.String,
    "market_key": pl.String,
    "side": pl.String,
    "book": pl.String,
    "ts_ms": pl.Int64,
    "seen_ms": pl.Int64,
    "in_running": pl.Boolean,
    "decimal_odds": pl.Float64,
    "file": pl.String,
    "line": pl.Int64,
}
_MAX_EVENT_ROWS = 50_000_000
_ROWS_PER_FILE = 100_000  # many small sources share a file
_MESSAGE = ("fixture_id", "market_key", "ts_ms", "book")


class QuoteSpill:
    """Keeps rows with a column ``event`` on disk and counts them by event; unsure rows are dropped unless kept."""

    def __init__(self, folder: Path) -> None:
        self.rows_of: dict[str, int] = {}
        self._folder = folder
        self._files = 0
        self._sure, self._unsure = _Buffer(), _Buffer()

    def add(self, rows: pl.DataFrame, *, sure: bool = True) -> None:
        if not rows.height:
            return
        self._unsure.frames.append(rows)
        self._unsure.height += rows.height
        for event, count in rows["event"].value_counts().iter_rows():
            self._unsure.rows_of[event] += count
        if sure:
            self.keep()
        elif self._unsure.height >= _ROWS_PER_FILE:
            self._write(self._sure)  # earlier rows are written first
            self._write(self._unsure)

    def keep(self) -> None:
        for event, count in self._unsure.rows_of.items():
            self.rows_of[event] = self.rows_of.get(event, 0) + count
        self._sure.frames += self._unsure.frames
        self._sure.height += self._unsure.height
        self._unsure = _Buffer()
        if self._sure.height >= _ROWS_PER_FILE:
            self._write(self._sure)

    def drop(self) -> None:
        for file in self._unsure.files:
            file.unlink()
        self._unsure = _Buffer()

    def _write(self, held: _Buffer) -> None:
        if held.frames:
            self._files += 1
            held.files.append(self._folder / f"{self._files:06}.parquet")
            pl.concat(held.frames).write_parquet(held.files[-1], compression="lz4")
            held.frames, held.height = [], 0

    def rows(self, events: Sequence[str]) -> pl.DataFrame:
        """Return the rows of one or more events, in any order."""
        self._write(self._sure)
        spilled = pl.scan_parquet(self._folder / "*.parquet")
        return spilled.filter(pl.col("event").is_in(events)).collect(engine="streaming")


@dataclass(slots=True)
class _Buffer:
    """Rows in memory, files with others, and the number of rows by event."""

    frames: list[pl.DataFrame] = field(default_factory=list)
    height: int = 0
    files: list[Path] = field(default_factory=list)
    rows_of: Counter[str] = field(default_factory=Counter)


def batches(rows_of: Mapping[str, int], fixture_ids: Mapping[str, int], chunk_rows: int) -> Iterator[list[str]]:
    """Return events in ascending order of fixture_id, up to ``chunk_rows`` rows or one event at a time.

    Raises
    ------
    SourceError
        An event has more rows than any real one; a small file that repeats one value can hold that many.
    """
    for event, rows in rows_of.items():
        if rows > _MAX_EVENT_ROWS:
            raise SourceError(f"{event!r} has {rows:,} rows, more than {_MAX_EVENT_ROWS:,}: no fixture has that many")
    batch: list[str] = []
    size = 0
    for event in sorted(rows_of, key=lambda event: fixture_ids[event]):
        if batch and size + rows_of[event] > chunk_rows:
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += rows_of[event]
    if batch:
        yield batch


def book_ticks(
    quotes: pl.DataFrame, fixture_ids: Mapping[str, int], options: Options, rules: Consensus, account: ImportStats
) -> SourcePart:
    """Make ticks from ``QUOTES`` of whole fixtures: margin is removed per book, then the fresh books form the consensus.

    A column ``fair`` gives the probabilities; the odds are then only the prices on offer. With ``options.books`` each book's
    messages are kept, and each of their times has a tick.
    """
    number = pl.col("event").replace_strict(dict(fixture_ids), return_dtype=pl.Int64)
    rows = _distinct_quotes(_check_names(quotes, account).with_columns(fixture_id=number), account)
    sides = (
        rows.select("fixture_id", "market_key", "side")
        .unique()
        .sort("fixture_id", "market_key", "side")
        .with_columns(
            side_no=pl.int_range(pl.len()).over("fixture_id", "market_key"),
            n_sides=pl.len().over("fixture_id", "market_key").cast(pl.Int64),
            market=pl.struct("fixture_id", "market_key").rle_id().cast(pl.Int64),
        )
    )
    for fixture_id, market_key, side in sides.filter(pl.col("n_sides") < 2).select(*_KEY).iter_rows():
        first = rows.filter(pl.col("fixture_id") == fixture_id, pl.col("market_key") == market_key).row(0, named=True)
        account.refuse(
            first["file"], first["line"], f"{market_key} of {first['event']} has one side, {side!r}", "a market has one side"
        )
    frames, book_frames = [pl.DataFrame(schema=TICKS)], [pl.DataFrame(schema=BOOKS)]
    for (n_sides,), known in sides.filter(pl.col("n_sides") > 1).group_by("n_sides", maintain_order=True):
        ordered = rows.join(known, on=["fixture_id", "market_key", "side"]).sort("market", "ts_ms", "book", "side_no")
        ticks, messages = _market_ticks(ordered, known, int(str(n_sides)), options, rules, account)
        frames.append(ticks)
        if options.books:
            book_frames.append(book_rows(messages, sorted(ordered["book"].unique()), known))
    numbered = number_messages(pl.concat(frames))
    return SourcePart(numbered, at_ticks(pl.concat(book_frames), numbered) if options.books else None)


_KEY = ("fixture_id", "market_key", "side")


def quote_parts(
    spill: QuoteSpill, ids: Mapping[str, int], options: Options, rules: Consensus, account: ImportStats
) -> Iterator[SourcePart]:
    """Return the ticks of spilled quotes in order of time, some events at a time."""
    for batch in batches(spill.rows_of, ids, options.chunk_rows):
        yield book_ticks(spill.rows(batch).sort("ts_ms", "file", "line"), ids, options, rules, account)


def _check_names(quotes: pl.DataFrame, account: ImportStats) -> pl.DataFrame:
    """Refuse quotes whose market or side has a name that a pack can't hold."""
    name = pl.col("market_key", "side")
    wrong = pl.any_horizontal(~name.str.len_bytes().is_between(1, MAX_NAME_BYTES) | name.str.contains(r"[\x00-\x1f\x7f]"))
    for file, line, market, side in quotes.filter(wrong).select("file", "line", "market_key", "side").iter_rows():
        text = f"{market!r:.80} and {side!r:.80} must have 1 to {MAX_NAME_BYTES} bytes and no control character"
        account.refuse(file, line, text, "a market or side has no usable name")
    return quotes.filter(~wrong)


def _distinct_quotes(quotes: pl.DataFrame, account: ImportStats) -> pl.DataFrame:
    """Drop repeated quotes, and refuse contradictory ones."""
    key = [*_MESSAGE, "side"]
    if not quotes.select(key).is_duplicated().any():
        return quotes
    distinct = quotes.unique(
        [*key, "decimal_odds", *(["fair"] if "fair" in quotes.columns else [])], keep="first", maintain_order=True
    )
    account.note("quotes that repeat another were dropped", quotes.height - distinct.height)
    conflicting = distinct.select(key).is_duplicated()
    later = distinct.filter(conflicting & ~distinct.select(pl.struct(key).is_first_distinct()).to_series())
    for row in later.iter_rows(named=True):
        account.refuse(
            row["file"],
            row["line"],
            f"{row['book']} prices {row['side']} of {row['market_key']} twice at {row['ts_ms']}",
            "a side is priced twice at one time",
        )
    return distinct.unique(key, keep="first", maintain_order=True)


def _market_ticks(
    rows: pl.DataFrame, sides: pl.DataFrame, n_sides: int, options: Options, rules: Consensus, account: ImportStats
) -> tuple[pl.DataFrame, BookMessages]:
    """Return unnumbered ticks of markets with one number of sides, and their messages; rows are sorted by message and side."""
    message = rows.select(pl.struct("market", "ts_ms", "book").rle_id()).to_series().to_numpy().astype(np.int64)
    heads = rows.filter(pl.struct("market", "ts_ms", "book").is_first_distinct())
    odds = np.full((heads.height, n_sides), np.nan)
    odds[message, rows["side_no"].to_numpy()] = rows["decimal_odds"].to_numpy()
    fair = None
    if "fair" in rows.columns:
        fair = np.full(odds.shape, np.nan)
        fair[message, rows["side_no"].to_numpy()] = rows["fair"].to_numpy()
    books = sorted(heads["book"].unique())
    account.book_names.update(books)
    messages = priced_messages(heads, odds, fair, books, options, account)
    weights = np.array([rules.weights.get(book, 1) for book in books], dtype=np.int64)
    ticks = consensus_ticks(messages, weights, rules)
    counts = np.bincount(ticks.books)
    account.books.update({count: int(times) for count, times in enumerate(counts) if times})
    playing = rows.group_by("market", "ts_ms").agg(pl.col("in_running").any())
    return _long(ticks, sides, playing), messages


def _by_side(
    messages: Mapping[str, npt.NDArray[np.generic]], prob_bps: Ints, odds_milli: Ints, sides: pl.DataFrame
) -> pl.DataFrame:
    """Return a row for each side of each message, ``None`` if a side has no price."""
    n, n_sides = prob_bps.shape
    long = pl.DataFrame(
        {name: np.repeat(column, n_sides) for name, column in messages.items()}
        | {"side_no": np.tile(np.arange(n_sides), n), "prob_bps": prob_bps.ravel(), "odds_milli": odds_milli.ravel()}
    )
    price = pl.col("prob_bps", "odds_milli")
    return long.join(sides.select("market", "side_no", *_KEY), on=["market", "side_no"]).with_columns(
        pl.when(price >= 0).then(price).cast(pl.Int32)
    )


def _long(ticks: ConsensusTicks, sides: pl.DataFrame, playing: pl.DataFrame) -> pl.DataFrame:
    messages = {"market": ticks.market, "ts_ms": ticks.ts_ms, "suspended": ticks.suspended}
    long = _by_side(messages, ticks.prob_bps, ticks.odds_milli, sides)
    return long.join(playing, on=["market", "ts_ms"]).with_columns(tick_seq=pl.lit(0, pl.Int32)).select(*TICKS)


def book_rows(messages: BookMessages, names: Sequence[str], sides: pl.DataFrame) -> pl.DataFrame:
    """Return ``BOOKS`` without tick numbers: each message of a book as shares of 10000 basis points."""
    is_priced = messages.prob[:, 0] >= 0
    prob_bps = np.full(messages.prob.shape, -1, dtype=np.int64)
    if is_priced.any():
        prob_bps[is_priced] = basis_points(messages.prob[is_priced])
    heads = {"market": messages.market, "number": messages.book, "ts_ms": messages.ts_ms, "suspended": ~is_priced}
    book = pl.lit(pl.Series(names, dtype=pl.String)).gather(pl.col("number"))
    long = _by_side(heads, prob_bps, messages.odds_milli, sides)
    return long.with_columns(book=book, tick_seq=pl.lit(0, pl.Int32)).select(*BOOKS)


def at_ticks(books: pl.DataFrame, ticks: pl.DataFrame) -> pl.DataFrame:
    """Return ``BOOKS`` at the ticks of their markets and times, sorted; rows without a tick are left out."""
    messages = ticks.select("fixture_id", "market_key", "ts_ms", "tick_seq").unique()
    found = books.drop("tick_seq").join(messages, on=["fixture_id", "market_key", "ts_ms"])
    return found.select(*BOOKS).sort(*_KEY, "book", "tick_seq")


def number_messages(ticks: pl.DataFrame) -> pl.DataFrame:
    """Number the messages of each fixture by time, then by market_key."""
    ordered = ticks.sort("fixture_id", "ts_ms", "market_key", "side")
    message = pl.struct("fixture_id", "ts_ms", "market_key").rle_id()
    return (
        ordered.with_columns(message=message)
        .with_columns(tick_seq=(pl.col("message") - pl.col("message").min().over("fixture_id")).cast(pl.Int32))
        .select(*TICKS)
    )
