"""The tape: frozen ticks in series order, and the state of any market at any tick by binary search.

Ticks are sorted by series and ``tick_seq``. One sorted key, ``series << 32 | tick_seq``, finds the last message of a series at
or before a tick, for all questions at once and without a hash table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from clvlab.errors import SchemaError, WindowError
from clvlab.law.lines import NONE, Categorical, Ints, changes, find, ints_of, recoded, take, texts_of
from clvlab.law.schema import FIXTURES, MAX_CLOSE_AGE_S, SERIES, TICKS, ClosingPolicy, Schema, conform

# The columns of a tape row; ``series`` is the row number in ``Tape.series``.
ROWS: Schema = {
    "series": pl.UInt32,
    "tick_seq": pl.Int32,
    "ts_ms": pl.Int64,
    "in_running": pl.Boolean,
    "prob_bps": pl.Int32,
    "odds_milli": pl.Int32,
    "suspended": pl.Boolean,
}


@dataclass(frozen=True, slots=True)
class Binding:
    """Identity of the replayed ticks."""

    pack_id: str | None
    fixture_ids: tuple[int, ...]
    content_hash: str | None


def check_close_age(max_close_age_s: object) -> None:
    """Raise ``WindowError`` unless the limit on the age of a close is ``None`` or a positive number of seconds."""
    if max_close_age_s is None or (type(max_close_age_s) is int and 1 <= max_close_age_s <= MAX_CLOSE_AGE_S):
        return
    raise WindowError(f"max_close_age_s must be a whole number of seconds from 1 to {MAX_CLOSE_AGE_S}, not {max_close_age_s!r}")


@dataclass(frozen=True, slots=True)
class Markets:
    """The markets of a tape, sorted by (fixture_id, market_key): row and series of the first side, and number of sides."""

    fixture_id: Ints
    market_key: Categorical[str]
    start: Ints
    n_sides: Ints
    series: Ints

    def find(self, fixture_id: Ints, market_key: Categorical[str]) -> Ints:
        """Return the row of each market; -1 for a market that is not on the tape."""
        keys, own = recoded(market_key, self.market_key)
        first = changes(self.fixture_id)
        fixture = find(self.fixture_id[first], fixture_id)
        unique = (np.cumsum(first) - 1) * len(keys.values) + own.codes
        return find(unique, np.where((fixture >= 0) & (keys.codes >= 0), fixture * len(keys.values) + keys.codes, -1))

    def last_rows(self, key: Ints, market: Ints, tick_seq: Ints, among: Ints | None = None) -> Ints:
        """Return the row of the last message of each market, given as its row here, at or before a tick; null without one.

        With ``among``, ascending rows of the tape, only these messages count.
        """
        wanted = (take(self.series, market, -1) << 32) + tick_seq
        row = np.searchsorted(key if among is None else key[among], wanted, side="right") - 1
        row = row if among is None else take(among, row, -1)
        return np.where((market >= 0) & (row >= take(self.start, market, 0)), row, NONE)


@dataclass(frozen=True)
class Tape:
    """Ticks of one or many fixtures, bound to their pack.

    Attributes
    ----------
    binding
        Pack id, fixture ids and content hash.
    rows
        ``ROWS``, sorted by (series, tick_seq).
    series
        ``SERIES``, one row per series, sorted by (fixture_id, market_key, side).
    fixtures
        ``FIXTURES``, sorted. An unknown ``kickoff_ts_ms`` is ``None``.
    closing_policy
        Rule for a market that is suspended at the close.
    announced
        ``FIXTURES`` for agents, if the kickoffs in ``fixtures`` became known only later; otherwise ``None``.
    max_close_age_s
        Largest age at which a market's closing message still counts; ``None`` without a limit.
    about
        ``ABOUT``, one row per fixture, sorted; ``None`` if only kickoffs are known.
    books
        ``BOOKS``, read lazily; ``None`` if the pack has no such layer.
    """

    binding: Binding
    rows: pl.DataFrame
    series: pl.DataFrame
    fixtures: pl.DataFrame
    closing_policy: ClosingPolicy = ClosingPolicy.LAST_STATE
    announced: pl.DataFrame | None = None
    max_close_age_s: int | None = None
    about: pl.DataFrame | None = None
    books: pl.LazyFrame | None = None

    @classmethod
    def from_ticks(
        cls,
        ticks: pl.DataFrame,
        fixtures: pl.DataFrame,
        *,
        closing_policy: ClosingPolicy = ClosingPolicy.LAST_STATE,
        binding: Binding | None = None,
    ) -> Tape:
        """Return the tape of long ticks (``TICKS``, any row order) and ``FIXTURES``."""
        ticks = conform(ticks, TICKS, "TICKS").sort("fixture_id", "market_key", "side", "tick_seq")
        fixtures = conform(fixtures, FIXTURES, "FIXTURES").sort("fixture_id")
        names = pl.col("fixture_id", "market_key", "side")
        ticks = ticks.with_columns(series=pl.struct(names).rle_id())
        starts = ticks.with_row_index("start").unique("series", keep="first", maintain_order=True)
        return cls(
            binding or Binding(None, tuple(fixtures["fixture_id"]), None),
            ticks.select(*ROWS),
            series_table(starts.select("fixture_id", "market_key", "side", "start"), ticks.height),
            fixtures,
            closing_policy,
        )

    def __post_init__(self) -> None:
        if (self.fixtures["kickoff_ts_ms"] < 0).any():
            raise SchemaError(f"a kickoff is before 1970: {self.fixtures['kickoff_ts_ms'].min()!r} ms")
        check_close_age(self.max_close_age_s)

    @cached_property
    def key(self) -> pl.Series:
        """``series << 32 | tick_seq`` of every row, strictly ascending, in one piece, so that no search has to copy it."""
        key = pl.col("series").cast(pl.Int64) * 2**32 + pl.col("tick_seq")
        return self.rows.select(key.set_sorted()).to_series().rechunk()

    @cached_property
    def markets(self) -> Markets:
        first_sides = self.series.with_row_index("series").filter(pl.col("side_no") == 0)
        columns = (ints_of(first_sides[name]) for name in ("market_start", "n_sides", "series"))
        return Markets(ints_of(first_sides["fixture_id"]), texts_of(first_sides["market_key"])[0], *columns)

    @cached_property
    def messages(self) -> pl.DataFrame:
        """One row per message: (fixture_id, tick_seq, ts_ms, in_running), sorted by (fixture_id, tick_seq)."""
        first_sides = self.series.with_row_index("series").filter(pl.col("side_no") == 0)
        return (
            self.rows.lazy()
            .select("series", "tick_seq", "ts_ms", "in_running")
            .join(first_sides.lazy().select("series", "fixture_id"), on="series")
            .select("fixture_id", "tick_seq", "ts_ms", "in_running")
            .sort("fixture_id", "tick_seq")
            .collect(engine="in-memory")
        )

    def ticks(self) -> pl.LazyFrame:
        """Return the ticks in the long form ``TICKS``, sorted by (fixture_id, tick_seq, market_key, side)."""
        names = self.series.lazy().with_row_index("series").select("series", "fixture_id", "market_key", "side")
        return self.rows.lazy().join(names, on="series").select(*TICKS).sort("fixture_id", "tick_seq", "market_key", "side")

    def keep(self, rows: pl.Series) -> Tape:
        """Return the tape of some rows, which form whole messages. It has no content hash, because the pack is not whole."""
        kept = self.rows.filter(rows)
        starts = kept.with_row_index("start").unique("series", keep="first", maintain_order=True)
        names = self.series[starts["series"]].select("fixture_id", "market_key", "side")
        return replace(
            self,
            binding=replace(self.binding, content_hash=None),
            rows=kept.with_columns(series=pl.col("series").rle_id()).select(*ROWS),
            series=series_table(names.with_columns(starts["start"]), kept.height),
            books=None if self.books is None else _until_messages(self.books, _messages(self, rows)),
        )

    def fixture(self, fixture_id: int) -> Tape:
        """Return the tape of one fixture, with the same rows as if that fixture had been loaded alone."""
        own = self.series.filter(pl.col("fixture_id") == fixture_id)
        start = own["start"][0] if own.height else 0
        rows = self.rows.slice(start, int(own["rows"].sum()))
        first_series = rows["series"][0] if rows.height else 0
        return Tape(
            Binding(self.binding.pack_id, (fixture_id,), self.binding.content_hash),
            rows.with_columns(pl.col("series") - pl.lit(first_series, pl.UInt32)),
            own.with_columns(pl.col("start", "market_start") - start),
            self.fixtures.filter(pl.col("fixture_id") == fixture_id),
            self.closing_policy,
            None if self.announced is None else self.announced.filter(pl.col("fixture_id") == fixture_id),
            self.max_close_age_s,
            None if self.about is None else self.about.filter(pl.col("fixture_id") == fixture_id),
            None if self.books is None else self.books.filter(pl.col("fixture_id") == fixture_id),
        )

    def at_source(self, close_source: str | None) -> Tape:
        """Return the tape of entries and closes: one book's states, or this tape for the consensus (``None``).

        Raises
        ------
        WindowError
            The tape has no books.
        """
        return self if close_source is None else self.of_book(close_source)

    def of_book(self, book: str) -> Tape:
        """Return one book's states as a tape with the same fixtures and tick numbers. Without states it has no ticks.

        Raises
        ------
        WindowError
            The tape has no books.
        """
        if self.books is None:
            raise WindowError(f"there are no books with these ticks: {book!r:.80} can't close them, the consensus does")
        found = self.books.filter(pl.col("book") == book).collect()
        playing = self.messages.select("fixture_id", "tick_seq", "in_running")
        ticks = found.drop("book").join(playing, on=["fixture_id", "tick_seq"], how="left", maintain_order="left")
        own = Tape.from_ticks(ticks.select(*TICKS), self.fixtures, closing_policy=self.closing_policy, binding=self.binding)
        return replace(own, announced=self.announced, max_close_age_s=self.max_close_age_s, about=self.about)


def _messages(tape: Tape, rows: pl.Series) -> pl.DataFrame:
    kept = tape.rows.filter(rows)
    return kept.select("tick_seq", fixture_id=tape.series["fixture_id"].gather(kept["series"])).unique()


def _until_messages(books: pl.LazyFrame, messages: pl.DataFrame) -> pl.LazyFrame:
    return books.join(messages.lazy(), on=["fixture_id", "tick_seq"], how="semi", maintain_order="left")


def series_table(starts: pl.DataFrame, n_rows: int) -> pl.DataFrame:
    market = pl.struct("fixture_id", "market_key").rle_id()
    return (
        starts.with_columns(pl.col("start").cast(pl.Int64), market=market)
        .with_columns(
            rows=pl.col("start").shift(-1, fill_value=n_rows) - pl.col("start"),
            # All sides of a market have a row in each message, so ``start + k`` and ``market_start + k`` share a message.
            market_start=pl.col("start").first().over("market"),
            side_no=pl.int_range(pl.len()).over("market"),
            n_sides=pl.len().over("market").cast(pl.Int64),
        )
        .select(pl.col(column).cast(dtype) for column, dtype in SERIES.items())
    )


def last_row_at(key: pl.Series, first_row: pl.Series, series: pl.Series, tick_seq: pl.Series) -> pl.Series:
    """Return the last row in ``key`` of each series at or before a tick; ``None`` without a row or without a series."""
    wanted = pl.lit(series).cast(pl.Int64) * 2**32 + pl.lit(tick_seq).cast(pl.Int64)
    row = pl.lit(key).search_sorted(wanted.fill_null(-1), side="right").cast(pl.Int64) - 1
    return pl.select(pl.when(row >= pl.lit(first_row)).then(row)).to_series()
