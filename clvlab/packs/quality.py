"""The quality report of an import: rows read and refused, and how well the ticks can be scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from clvlab.law.closing import Window, fixture_closes, market_closes
from clvlab.law.tape import Tape
from clvlab.words import counted, share, span_in_one, spread

_BPS = 10_000
_MS = 1000
_LINE = 200


class _QualityModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Spread(_QualityModel):
    """The distribution of a quantity: count, extremes and quantiles (each an observed value)."""

    n: int
    min: int
    p05: int
    median: int
    p95: int
    max: int

    @classmethod
    def of(cls, counts: Mapping[int, int]) -> Spread | None:
        """Return the spread of values with their counts; ``None`` without values."""
        total = sum(counts.values())
        if not total:
            return None
        ordered = sorted(counts.items())
        found = []
        for percent in (5, 50, 95):
            rank, passed = max(1, -(-total * percent // 100)), 0
            for value, count in ordered:
                passed += count
                if passed >= rank:
                    found.append(value)
                    break
        return cls(n=total, min=ordered[0][0], p05=found[0], median=found[1], p95=found[2], max=ordered[-1][0])


class RefusedRows(_QualityModel):
    """Source rows refused for one reason, with the first few as examples."""

    reason: str
    count: int
    examples: tuple[str, ...]

    @property
    def first_examples(self) -> str:
        """The first examples that fit on a line: one to three."""
        some = self.examples[:3]
        while len(some) > 1 and sum(map(len, some)) > _LINE:
            some = some[:-1]
        return "; ".join(some)

    def __str__(self) -> str:
        return f"{self.reason}: {self.count:,}, as {self.first_examples}"


class Quality(_QualityModel):
    """The quality report of an import.

    Attributes
    ----------
    files, messages
        Numbers of source files and of rows or messages read in them.
    refused, notes
        Refused rows by reason, and counted remarks.
    fixtures, fixtures_without_ticks, fixtures_without_kickoff, markets, ticks, in_running_ticks, suspended_ticks
        Counts; a tick is one message about one market.
    books_per_tick
        Fresh books in each consensus.
    book_overround_bps, price_overround_bps
        Overround of each book's message, and of the prices on offer in the ticks, in steps of 10 basis points.
    largest_gap_s
        Longest silence of each market before its close, in seconds.
    first_tick_before_kickoff_s, last_tick_before_kickoff_s
        Seconds from the first and the last tick to kickoff, per fixture with a kickoff.
    closing_age_s
        Age of each market's closing message under the ``pre_match`` window, in seconds.
    markets_without_close, markets_suspended_at_close
        Markets that can't be scored for this reason.
    margin_fallbacks
        Book messages on which the margin method was not defined and power was used.
    """

    schema_: Literal["clvlab-quality/1"] = Field(default="clvlab-quality/1", alias="schema")
    files: int
    messages: int
    refused: tuple[RefusedRows, ...]
    notes: dict[str, int]
    fixtures: int
    fixtures_without_ticks: int
    fixtures_without_kickoff: int
    markets: int
    ticks: int
    in_running_ticks: int
    suspended_ticks: int
    books_per_tick: Spread | None
    book_overround_bps: Spread | None
    price_overround_bps: Spread | None
    largest_gap_s: Spread | None
    first_tick_before_kickoff_s: Spread | None
    last_tick_before_kickoff_s: Spread | None
    closing_age_s: Spread | None
    markets_without_close: int
    markets_suspended_at_close: int
    margin_fallbacks: int

    @property
    def suspended_share(self) -> float:
        """Share of ticks in which a market is suspended; 0.0 without ticks."""
        return self.suspended_ticks / self.ticks if self.ticks else 0.0

    @property
    def refused_rows(self) -> int:
        return sum(reason.count for reason in self.refused)

    @property
    def remarks(self) -> list[str]:
        """Lines of text: rows read, rows refused with an example of each reason, and notes."""
        refused = self.refused_rows
        return [
            f"Read {counted(self.messages, 'message')} of {counted(self.files, 'file')}: {counted(self.ticks, 'tick')}, "
            f"{self.suspended_ticks:,} of them suspended; refused {refused:,}",
            *(f"  {rows}" for rows in self.refused),
            *(f"  {note}: {count:,}" for note, count in self.notes.items()),
        ]

    @property
    def facts(self) -> dict[str, str]:
        """The other figures as text, by name."""
        before = " before kickoff"
        return {
            "fixtures": f"{self.fixtures:,}, {self.fixtures_without_ticks:,} without ticks, "
            f"{self.fixtures_without_kickoff:,} without kickoff",
            "markets": f"{self.markets:,}, {self.markets_without_close:,} not quoted before the close, "
            f"{self.markets_suspended_at_close:,} suspended at it",
            "suspended": f"{share(self.suspended_share)} of ticks; in running {counted(self.in_running_ticks, 'tick')}",
            "books per tick": spread(self.books_per_tick, "{:,}".format),
            "overround, books": spread(self.book_overround_bps, "{:,} bps".format),
            "overround, prices": spread(self.price_overround_bps, "{:,} bps".format),
            "margin fallbacks": f"{self.margin_fallbacks:,}",
            "first tick": spread(self.first_tick_before_kickoff_s, span_in_one, before),
            "last tick": spread(self.last_tick_before_kickoff_s, span_in_one, before),
            "largest gap": spread(self.largest_gap_s, span_in_one, " in a market"),
            "age of the close": spread(self.closing_age_s, span_in_one),
        }

    def __repr__(self) -> str:
        return "\n".join([*self.remarks, *(f"  {name:<20} {text}" for name, text in self.facts.items())])


class QualityAccount:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.overround: Counter[int] = Counter()
        self.gap: Counter[int] = Counter()
        self.first: Counter[int] = Counter()
        self.last: Counter[int] = Counter()
        self.age: Counter[int] = Counter()

    def add(self, tape: Tape) -> None:
        messages = _messages(tape)
        self.counts["markets"] += tape.series.filter(pl.col("side_no") == 0).height
        self.counts["with_ticks"] += tape.series["fixture_id"].n_unique()
        self.counts["ticks"] += messages.height
        self.counts["suspended"] += int(messages["suspended"].sum())
        self.counts["in_running"] += int(messages["in_running"].sum())
        _count(self.overround, messages.select((pl.col("overround") * _BPS / 10).round() * 10))
        if not messages.height:
            return
        ends = fixture_closes(tape, Window())
        before = messages.join(ends, on="fixture_id").filter(pl.col("tick_seq") < pl.col("end_seq"))
        gaps = before.group_by("fixture_id", "market_key").agg(pl.col("ts_ms").sort().diff().max())
        _count(self.gap, gaps.select(pl.col("ts_ms") // _MS))
        self._add_coverage(before, tape.fixtures)
        self._add_closes(tape, ends)

    def _add_coverage(self, before: pl.DataFrame, fixtures: pl.DataFrame) -> None:
        lead = before.join(fixtures, on="fixture_id").filter(pl.col("kickoff_ts_ms").is_not_null())
        seconds = (pl.col("kickoff_ts_ms") - pl.col("ts_ms")) // _MS
        per_fixture = lead.group_by("fixture_id").agg(first=seconds.max(), last=seconds.min())
        _count(self.first, per_fixture.select("first"))
        _count(self.last, per_fixture.select("last"))

    def _add_closes(self, tape: Tape, ends: pl.DataFrame) -> None:
        closes = market_closes(tape, tape.series.select("fixture_id", "market_key").unique(), ends)
        self.counts["without_close"] += closes["close_row"].null_count()
        closed = closes.filter(pl.col("close_row").is_not_null())
        row = closed["close_row"]
        self.counts["suspended_at_close"] += int(tape.rows["suspended"].gather(row).sum())
        age = (closed["close_ts_ms"] - tape.rows["ts_ms"].gather(row)) // _MS
        _count(self.age, age.filter(~tape.rows["suspended"].gather(row)).to_frame())

    def report(
        self,
        *,
        files: int,
        fixtures: Iterable[int | None],
        messages: int = 0,
        refused: Iterable[RefusedRows] = (),
        notes: Mapping[str, int] | None = None,
        books: Mapping[int, int] | None = None,
        book_overround_bps: Mapping[int, int] | None = None,
        margin_fallbacks: int = 0,
    ) -> Quality:
        """Return the report; ``fixtures`` are the kickoffs of all declared fixtures."""
        kickoffs = list(fixtures)
        return Quality(
            files=files,
            messages=messages,
            refused=tuple(refused),
            notes=dict(sorted((notes or {}).items())),
            fixtures=len(kickoffs),
            fixtures_without_ticks=len(kickoffs) - self.counts["with_ticks"],
            fixtures_without_kickoff=sum(kickoff is None for kickoff in kickoffs),
            markets=self.counts["markets"],
            ticks=self.counts["ticks"],
            in_running_ticks=self.counts["in_running"],
            suspended_ticks=self.counts["suspended"],
            books_per_tick=Spread.of(books or {}),
            book_overround_bps=Spread.of(book_overround_bps or {}),
            price_overround_bps=Spread.of(self.overround),
            largest_gap_s=Spread.of(self.gap),
            first_tick_before_kickoff_s=Spread.of(self.first),
            last_tick_before_kickoff_s=Spread.of(self.last),
            closing_age_s=Spread.of(self.age),
            markets_without_close=self.counts["without_close"],
            markets_suspended_at_close=self.counts["suspended_at_close"],
            margin_fallbacks=margin_fallbacks,
        )


def _messages(tape: Tape) -> pl.DataFrame:
    """Return a row per message: fixture_id, market_key, tick_seq, ts_ms, in_running, suspended and its prices' overround."""
    named = tape.series.with_row_index("series").select("series", "fixture_id", "market_key", "n_sides")
    inverse = 1000.0 / pl.col("odds_milli")
    return (
        tape.rows.lazy()
        .join(named.lazy(), on="series")
        .group_by("fixture_id", "tick_seq")
        .agg(
            pl.first("market_key", "ts_ms", "in_running", "suspended", "n_sides"),
            priced=pl.col("odds_milli").count(),
            overround=inverse.sum() - 1.0,
        )
        .with_columns(pl.when(pl.col("priced") == pl.col("n_sides")).then("overround"))
        .collect(engine="in-memory")
    )


def _count(counter: Counter[int], values: pl.DataFrame) -> None:
    column = values.to_series().drop_nulls().cast(pl.Int64)
    for value, count in column.value_counts().iter_rows():
        counter[value] += count
