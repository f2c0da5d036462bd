"""A view: some fixtures, markets and messages of a pack, read through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import polars as pl

from clvlab.errors import UnsupportedError, ViewError
from clvlab.law.closing import Window, fixture_closes, market_closes
from clvlab.law.schema import BOOK_ROWS
from clvlab.law.tape import ROWS, series_table
from clvlab.packs.books import STREAM
from clvlab.packs.manifest import Fixture
from clvlab.packs.reader import Pack
from clvlab.packs.views.derivation import Derivation, DerivationKind, DerivedPack, begins_with, derived, stand_alone
from clvlab.packs.views.rule import BOOKS, MARKS, OVERROUND, Rule
from clvlab.words import counted

# Filters of messages mark some messages suspended. A suspended consensus gives neither an entry price nor a close.


_MICRO = 1_000_000


def beyond_overround(rows: pl.DataFrame, series: pl.DataFrame, max_overround_bps: int) -> pl.Series:
    """Select rows whose message is open, has a price on every side, and whose prices exceed the overround.

    Inverse odds are rounded to millionths one by one, so that every machine agrees.
    """
    message = _message(rows, series)
    odds = rows["odds_milli"].cast(pl.Int64)
    priced = odds.is_not_null().to_numpy()
    implied = ((1000 * _MICRO + odds // 2) // odds).fill_null(0).to_numpy()
    counts = np.bincount(message, weights=priced, minlength=rows.height)
    totals = np.bincount(message, weights=implied, minlength=rows.height)
    full = counts[message] == series["n_sides"].gather(rows["series"]).to_numpy()
    return pl.Series(full & (totals[message] > _MICRO + 100 * max_overround_bps)) & ~rows["suspended"]


def of_few_books(rows: pl.DataFrame, series: pl.DataFrame, books: pl.DataFrame, min_books: int) -> pl.Series:
    """Select rows whose message is open while fewer than ``min_books`` books had a price on its market.

    A book has a price from its open message until its next suspended one. ``books`` is ``BOOK_ROWS`` with the numbers of these
    ticks.
    """
    market, is_open = ["fixture_id", "market_key"], pl.col("suspended").not_().cast(pl.Int32)
    standing = (
        books.unique([*market, "book", "tick_seq"])
        .sort("tick_seq")
        .with_columns(change=is_open - is_open.shift(fill_value=0).over(*market, "book"))
        .group_by(*market, "tick_seq", maintain_order=True)
        .agg(pl.sum("change"))
        .with_columns(books=pl.col("change").cum_sum().over(market))
    )
    number = rows["series"]
    of_rows = rows.select("tick_seq").with_columns(
        series["fixture_id"].gather(number), series["market_key"].gather(number), row=pl.int_range(pl.len())
    )
    first_sides = of_rows.filter(series["side_no"].gather(number) == 0).sort("tick_seq")
    found = first_sides.join_asof(
        standing.select(*market, "tick_seq", "books"), on="tick_seq", by=market, check_sortedness=False
    )  # fmt: skip
    few = np.zeros(rows.height, dtype=np.bool_)
    few[found["row"].to_numpy()] = (found["books"].fill_null(0) < min_books).to_numpy()
    return pl.Series(few[_message(rows, series)]) & ~rows["suspended"]


def suspended(rows: pl.DataFrame, marked: pl.Series) -> pl.DataFrame:
    return rows.with_columns(
        pl.when(~marked).then(pl.col("prob_bps", "odds_milli")), suspended=pl.col("suspended") | marked
    ).select(*ROWS)


def count(rows: pl.DataFrame, series: pl.DataFrame, marked: pl.Series) -> int:
    return len(np.unique(_message(rows, series)[marked.to_numpy()]))


def _message(rows: pl.DataFrame, series: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return for each row the row of its message's first side."""
    first = series["market_start"] - series["start"]
    return (pl.select(pl.int_range(rows.height)).to_series() + first.gather(rows["series"])).to_numpy()


_LISTED_MARKETS = 10
_Ticks = tuple[pl.DataFrame, pl.DataFrame]

# The numbers that a filter removed, and the numbers before it.
REMOVED = {"filter": pl.String, "what": pl.String, "removed": pl.Int64, "of": pl.Int64}


def view_of(pack: Pack, rule: Rule) -> Pack:
    """Return the view of a pack by a rule; the pack itself where the rule has no filter.

    Raises
    ------
    ViewError
        The pack lacks a league, season or fixture, keeps fewer books than required, or no fixture remains.
    """
    if not rule.payload():
        return pack
    own = pack.manifest
    if rule.min_books is not None and rule.min_books > len(pack.books):
        kept = counted(len(pack.books), "book") if pack.books else "the consensus alone: import it with books=True"
        raise ViewError(f"min_books= is {rule.min_books:,}, and pack {pack.pack_id!r} keeps {kept}")
    fixtures, _ = rule.chosen(own.fixtures, pack.pack_id)
    limits = [limit for limit in (own.max_close_age_s, rule.max_close_age_s) if limit is not None]
    manifest = own.model_copy(update={"fixtures": fixtures, "max_close_age_s": min(limits, default=None)})
    derivation = Derivation(DerivationKind.WHERE, rule.payload(), (pack,))
    return derived(derivation, manifest, ViewFiles(pack, rule, fixtures))


@dataclass(frozen=True)
class ViewFiles:
    parent: Pack
    rule: Rule
    fixtures: tuple[Fixture, ...] = field(repr=False)

    @property
    def verification(self) -> str:
        return self.parent.verification

    @property
    def folder(self) -> Path:
        raise UnsupportedError(f"a view of {self.parent.pack_id!r} has no folder of its own: name the one of its parent")

    def content(self, name: str, expected: str, what: str) -> bytes:
        return self.parent.files.content(name, expected, what)

    def ticks(self, fixtures: Sequence[Fixture] | None) -> _Ticks:
        wanted = self.fixtures if fixtures is None else fixtures
        every = len(wanted) == len(self.parent.manifest.fixtures)
        found = self.parent.files.ticks(None if every else self._of_parent(wanted))
        kept = _of_markets(*found, self.rule.markets) if self.rule.markets else found
        if fixtures is None and found[0].height and not kept[0].height:
            raise self._no_market(found[1])
        for marked in self.marked(*kept, wanted).values():
            kept = suspended(kept[0], marked), kept[1]
        return kept

    def marked(self, rows: pl.DataFrame, series: pl.DataFrame, fixtures: Sequence[Fixture]) -> dict[str, pl.Series]:
        """Return, for each filter, the rows that it marks suspended among those that earlier filters left open."""
        found: dict[str, pl.Series] = {}
        if self.rule.max_overround_bps is not None:
            found[OVERROUND] = beyond_overround(rows, series, self.rule.max_overround_bps)
        if self.rule.min_books is not None:
            few = of_few_books(rows, series, self.books(fixtures).collect(engine="in-memory"), self.rule.min_books)
            found[BOOKS] = few & ~found[OVERROUND] if OVERROUND in found else few
        return found

    def books(self, fixtures: Sequence[Fixture] | None) -> pl.LazyFrame:
        wanted = self.fixtures if fixtures is None else fixtures
        found = self.parent.files.books(self._of_parent(wanted))
        return pl.defer(partial(self._books_of_markets, wanted, found), schema=BOOK_ROWS) if self.rule.markets else found

    def ladders(self, fixtures: Sequence[Fixture] | None) -> pl.LazyFrame:
        found = self.parent.files.ladders(self._of_parent(self.fixtures if fixtures is None else fixtures))
        return found.filter(begins_with(self.rule.markets)) if self.rule.markets else found

    def _books_of_markets(self, wanted: Sequence[Fixture], found: pl.LazyFrame) -> pl.DataFrame:
        """Return the books of the remaining markets, each state moved to the first remaining tick at or after its own."""
        rows, series = self.parent.files.ticks(self._of_parent(wanted))
        left = rows.filter(series.select(begins_with(self.rule.markets)).to_series().gather(rows["series"]))
        fixture_id = series["fixture_id"].gather(left["series"])
        ticks = left.select("tick_seq", fixture_id=fixture_id, new=_renumbered(fixture_id, left["tick_seq"]))
        own = found.filter(begins_with(self.rule.markets)).collect().sort("tick_seq")
        placed = own.join_asof(
            ticks.unique().sort("tick_seq"),
            on="tick_seq", by="fixture_id", strategy="forward", check_sortedness=False,
        )  # fmt: skip
        quotes = placed.filter(pl.col("new").is_not_null()).sort(*STREAM, "tick_seq").drop("tick_seq")
        named = quotes.rename({"new": "tick_seq"}).unique([*STREAM, "tick_seq"], keep="last", maintain_order=True)
        return named.select(*BOOK_ROWS)

    def _of_parent(self, wanted: Sequence[Fixture]) -> list[Fixture]:
        ids = {fixture.fixture_id for fixture in wanted}
        return [fixture for fixture in self.parent.manifest.fixtures if fixture.fixture_id in ids]

    def _no_market(self, series: pl.DataFrame) -> ViewError:
        names = series["market_key"].unique().sort().to_list()
        more = ", ..." if len(names) > _LISTED_MARKETS else ""
        return ViewError(
            f"no market of {self.parent.pack_id!r} begins with {' or '.join(map(repr, self.rule.markets or ()))}; "
            f"it has {', '.join(names[:_LISTED_MARKETS])}{more}"
        )


def _of_markets(rows: pl.DataFrame, series: pl.DataFrame, prefixes: Sequence[str]) -> _Ticks:
    """Return the rows of markets with these prefixes; ticks of each fixture are renumbered, as agents rely on their count."""
    chosen = series.select(begins_with(prefixes)).to_series()
    kept, named = rows.filter(chosen.gather(rows["series"])), series.filter(chosen)
    number = kept["series"].rle_id()
    starts = named.select("fixture_id", "market_key", "side", start=pl.col("rows").cum_sum() - pl.col("rows"))
    table = series_table(starts, kept.height)
    counted = _renumbered(table["fixture_id"].gather(number), kept["tick_seq"])
    return kept.with_columns(number.alias("series"), counted.alias("tick_seq")).select(*ROWS), table


def _renumbered(fixture_id: pl.Series, tick_seq: pl.Series) -> pl.Series:
    """Number the remaining ticks of each fixture 0, 1, 2, ... in order; rows of a fixture are adjacent."""
    fixture = fixture_id.rle_id().to_numpy().astype(np.int64)
    key = fixture << 32 | tick_seq.to_numpy()
    ticks = np.unique(key)
    first = np.searchsorted(ticks, fixture << 32)
    return pl.Series((np.searchsorted(ticks, key) - first).astype(np.int32))


def removed(pack: DerivedPack) -> pl.DataFrame:
    """Return ``REMOVED``: the removals of each filter of a view, relative to the filters before it.

    Ticks are read only for filters of markets or messages; closes are those before the kickoff or the first message in play.
    Held-out fixtures are neither read nor counted.
    """
    files = pack.files
    if not isinstance(files, ViewFiles):
        return pl.DataFrame(schema=REMOVED)
    _, steps = files.rule.chosen(files.parent.manifest.fixtures, files.parent.pack_id)
    found = [(step.filter, "fixtures", step.fixtures, step.of) for step in steps]
    found += [(step.filter, "fixtures of which it is not known", step.without, step.of) for step in steps if step.without]
    return pl.DataFrame(found + list(_OfTicks(pack, files).removed()), schema=REMOVED, orient="row")


@dataclass(frozen=True)
class _OfTicks:
    pack: DerivedPack
    files: ViewFiles

    def removed(self) -> list[tuple[str, str, int, int]]:
        rule = self.files.rule
        return [
            *([self._markets()] if rule.markets is not None else []),
            *([] if MARKS.isdisjoint(rule.payload()) else self._messages()),
            *([self._closes(rule.max_close_age_s)] if rule.max_close_age_s is not None else []),
        ]

    @cached_property
    def _fixtures(self) -> list[Fixture]:
        held_out = set(dict(self.pack.held_out))
        return [one for one in self.pack.manifest.fixtures if one.fixture_id not in held_out]

    @cached_property
    def _read(self) -> _Ticks:
        return self.files.parent.files.ticks(self._fixtures)

    @cached_property
    def _kept(self) -> _Ticks:
        return _of_markets(*self._read, self.files.rule.markets) if self.files.rule.markets else self._read

    def _markets(self) -> tuple[str, str, int, int]:
        before, after = (int(series["side_no"].eq(0).sum()) for _, series in (self._read, self._kept))
        return "markets", "markets", before - after, before

    def _messages(self) -> list[tuple[str, str, int, int]]:
        rows, series = self._kept
        left = int(series.filter(pl.col("side_no") == 0)["rows"].sum())
        found = []
        for name, marked in self.files.marked(rows, series, self._fixtures).items():
            found.append((name, "messages, marked suspended", gone := count(rows, series, marked), left))
            left -= gone
        return found

    def _closes(self, limit: int) -> tuple[str, str, int, int]:
        wanted = tuple(one for one in self.pack.fixture_ids if one not in set(dict(self.pack.held_out)))
        tape = self.pack.tape(wanted) if wanted else stand_alone(*self._kept)
        markets = tape.series.filter(pl.col("side_no") == 0).select("fixture_id", "market_key")
        closes = market_closes(tape, markets, fixture_closes(tape, Window()))
        ages = closes["close_ts_ms"] - tape.rows["ts_ms"].gather(closes["close_row"])
        return "drop_close_older_than_s", "closes", int((ages > limit * 1000).sum()), ages.count()
