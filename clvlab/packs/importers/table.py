"""Anybody's table of odds, CSV or Parquet, long or wide: what its columns mean is said by a mapping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from clvlab.errors import SourceError
from clvlab.odds.consensus import Consensus
from clvlab.packs.importers.books import QUOTES, QuoteSpill, batches, book_ticks
from clvlab.packs.importers.source import Account, Normalised, Options, Part, files_below, fixture_ids_of
from clvlab.packs.importers.table_columns import TableRows, meant
from clvlab.packs.importers.table_files import Chunk, csv_chunks, parquet_chunks
from clvlab.packs.manifest import Fixture, KickoffKind
from clvlab.packs.results import RESULTS

NORMALISER = "table/1"
_RULES = Consensus(min_books=1, max_age_s=86_400)


def find_csv(paths: Sequence[Path]) -> dict[str, Path]:
    """Return ``*.csv`` and ``*.csv.gz``."""
    return files_below(paths, (".csv", ".csv.gz"))


def find_parquet(paths: Sequence[Path]) -> dict[str, Path]:
    """Return ``*.parquet``."""
    return files_below(paths, (".parquet",))


def normalise(files: Mapping[str, Path], options: Options, scratch: Path) -> Normalised:
    """Read tables a chunk of rows at a time; a book's message is all its rows about one market at one time."""
    account = Account(options.lenient)
    rules = options.rules(_RULES)
    spill = QuoteSpill(scratch)
    known = _Known(account)
    for name, path in sorted(files.items()):
        for chunk in _chunks(name, path, options, account):
            account.messages += chunk.rows.height
            known.actual = known.actual or chunk.mapping.kickoff_kind is KickoffKind.ACTUAL
            rows = meant(chunk, options, account)
            known.learn(rows)
            spill.add(rows.quotes.select(*QUOTES, *(["fair"] if chunk.mapping.has_fair else [])))
            options.progress(f"{account.messages:,} rows read")
    ids = fixture_ids_of(known.names)
    account.note("fixtures whose kickoff moved", known.moved)
    return Normalised(
        parts=_parts(spill, ids, options, rules, account),
        fixtures=known.fixtures(ids),
        account=account,
        provenance="imported-table",
        normaliser=NORMALISER,
        margin=options.margin.value,
        consensus=rules.label,
        closing_source="consensus",
        kickoff=KickoffKind.ACTUAL if known.actual or known.moved else None,
        results=known.results(ids),
    )


def _chunks(name: str, path: Path, options: Options, account: Account) -> Iterator[Chunk]:
    """Read a file; when lenient, one that is no such table, as of an older header or of something else, is passed over."""
    read = parquet_chunks if name.endswith(".parquet") else csv_chunks
    try:
        yield from read(name, path, options, account)
    except SourceError as error:
        account.refuse_file(name, error, "a file is no such table")


def _parts(spill: QuoteSpill, ids: Mapping[str, int], options: Options, rules: Consensus, account: Account) -> Iterator[Part]:
    for batch in batches(spill.rows_of, ids, options.chunk_rows):
        yield book_ticks(spill.rows(batch).sort("ts_ms", "file", "line"), ids, options, rules, account)


class _Known:
    """Names, kickoffs and results of the fixtures met so far."""

    def __init__(self, account: Account) -> None:
        self.names: dict[str, tuple[str, ...]] = {}
        self.announced: dict[str, tuple[int, int]] = {}  # event -> (when it was said, kickoff), as said first
        self.kickoffs: dict[str, tuple[int, int]] = {}  # the same, as said last
        self.leagues: dict[str, tuple[str | None, str | None]] = {}
        self.actual = False
        self._settled: dict[tuple[str, str, str], str] = {}
        self._account = account

    @property
    def moved(self) -> int:
        """How many kickoffs were said otherwise before."""
        return sum(self.announced[event][1] != kickoff for event, (_, kickoff) in self.kickoffs.items())

    def fixtures(self, ids: Mapping[str, int]) -> tuple[Fixture, ...]:
        """Return the fixtures; where kickoffs moved, with the one that was announced first."""
        announced = {event: kickoff for event, (_, kickoff) in self.announced.items()} if self.moved else {}
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
        """Take the facts of some more rows; of a kickoff the one said last counts."""
        names = rows.facts.group_by("event").agg(pl.col("home", "away").drop_nulls().last())
        for event, home, away in names.iter_rows():
            self.names[event] = tuple(name for name in (home, away) if name) or self.names.get(event, ())
        named = rows.facts.filter(~pl.all_horizontal(pl.col("league", "season").is_null()))
        leagues = named.group_by("event").agg(pl.col("league", "season").drop_nulls().last())
        self.leagues |= {event: (league, season) for event, league, season in leagues.iter_rows()}
        said = rows.facts.filter(pl.col("kickoff_ms").is_not_null()).sort("ts_ms", maintain_order=True)
        ends = said.group_by("event", maintain_order=True).agg(
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
        """Return ``RESULTS``, null where there are none."""
        settled: list[tuple[Any, ...]] = [
            (ids[event], market, side, result, None) for (event, market, side), result in self._settled.items()
        ]
        return pl.DataFrame(settled, schema=RESULTS, orient="row") if settled else None
