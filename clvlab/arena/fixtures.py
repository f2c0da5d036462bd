"""The fixtures of a pack as a table for choosing replays."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import polars as pl

from clvlab.arena.tables import first_rows
from clvlab.errors import PackFormatError, PageError
from clvlab.law.schema import Schema
from clvlab.packs.manifest import TICKS_FILE, KickoffKind
from clvlab.packs.reader import Pack
from clvlab.packs.rows import unreadable

# Coverage of each market: its sides, number of ticks, first and last time.


# One row per market of a fixture, in order of (fixture_id, market_key); ``sides`` in byte order.
COVERAGE: Schema = {
    "fixture_id": pl.Int64,
    "market_key": pl.String,
    "sides": pl.List(pl.String),
    "ticks": pl.Int64,
    "first_ts_ms": pl.Int64,
    "last_ts_ms": pl.Int64,
}


def coverage(pack: Pack) -> pl.DataFrame:
    """Return ``COVERAGE`` of a pack; its ticks are read once, and never all in memory."""
    path = pack.folder / TICKS_FILE
    series = (
        pl.scan_parquet(path, glob=False)
        .group_by("fixture_id", "series")
        .agg(
            pl.first("market_key", "side"),
            ticks=pl.len(),  # every message of a market writes a row of each side
            first_ts_ms=pl.col("ts_ms").min(),
            last_ts_ms=pl.col("ts_ms").max(),
        )
    )
    try:
        return (
            series.group_by("fixture_id", "market_key")
            .agg(pl.first("ticks", "first_ts_ms", "last_ts_ms"), sides=pl.col("side").sort())
            .sort("fixture_id", "market_key")
            .select(pl.col(name).cast(dtype) for name, dtype in COVERAGE.items())
            .collect(engine="streaming")
        )
    except unreadable() as error:
        raise PackFormatError(f"{str(path)!r} can't be read as ticks: {str(error).splitlines()[0]}") from error


_MARKET: Schema = {"market_key": pl.String, "sides": pl.List(pl.String), "ticks": pl.Int64}
_DECLARED = ("fixture_id", "names", "source_id", "announced_ts_ms", "kickoff_ts_ms")
_CURSOR = re.compile(r"-?[0-9]{1,16}")
_OVERHEAD_BYTES = 4096

# One row per fixture, in order of ``fixture_id``.
FIXTURE_ROWS: Schema = {
    "fixture_id": pl.Int64,
    "names": pl.List(pl.String),
    "source_id": pl.String,
    "announced_ts_ms": pl.Int64,
    "kickoff_ts_ms": pl.Int64,
    "first_ts_ms": pl.Int64,
    "last_ts_ms": pl.Int64,
    "ticks": pl.Int64,
    "markets": pl.List(pl.Struct(_MARKET)),
}


@dataclass(frozen=True, slots=True)
class FixtureFilter:
    """Filters of fixtures.

    ``market`` is a prefix of market keys: a fixture must have such a market, and only these markets are listed. The announced
    kickoff must be at or after ``after`` and before ``before``, in UTC milliseconds.
    """

    market: str | None = None
    after: int | None = None
    before: int | None = None


@dataclass(frozen=True, slots=True)
class FixtureTable:
    """Fixtures of one pack: ``FIXTURE_ROWS`` without ``markets``, ``COVERAGE``, and the quality report (JSON or ``None``)."""

    fixtures: pl.DataFrame
    markets: pl.DataFrame
    quality: dict[str, Any] | None

    @classmethod
    def of(cls, pack: Pack) -> FixtureTable:
        actual = pack.manifest.kickoff is KickoffKind.ACTUAL
        declared = pl.DataFrame(
            [
                {
                    "fixture_id": fixture.fixture_id,
                    "names": list(fixture.names),
                    "source_id": fixture.source_id,
                    "announced_ts_ms": fixture.scheduled_ts_ms if actual else fixture.kickoff_ts_ms,
                    "kickoff_ts_ms": fixture.kickoff_ts_ms,
                }
                for fixture in pack.manifest.fixtures
            ],
            schema={name: FIXTURE_ROWS[name] for name in _DECLARED},
        )
        markets = coverage(pack)
        spans = markets.group_by("fixture_id").agg(
            pl.col("first_ts_ms").min(), pl.col("last_ts_ms").max(), pl.col("ticks").sum()
        )
        fixtures = declared.join(spans, on="fixture_id", how="left", maintain_order="left")
        quality = pack.quality
        return cls(
            fixtures.with_columns(pl.col("ticks").fill_null(0)),
            markets.select("fixture_id", *_MARKET),
            None if quality is None else quality.model_dump(mode="json", by_alias=True),
        )

    @property
    def size_bytes(self) -> int:
        return int(self.fixtures.estimated_size() + self.markets.estimated_size()) + _OVERHEAD_BYTES

    def page(self, wanted: FixtureFilter, cursor: str | None, limit: int | None) -> tuple[pl.DataFrame, int, str | None]:
        """Return a page of ``FIXTURE_ROWS``, the number of all matches, and the cursor of the next page or None."""
        found, markets = self.fixtures, self.markets
        if wanted.market is not None:
            keys = [key for key in markets["market_key"].unique() if key.startswith(wanted.market)]
            markets = markets.filter(pl.col("market_key").is_in(keys))
            found = found.join(markets, on="fixture_id", how="semi", maintain_order="left")
        if wanted.after is not None:
            found = found.filter(pl.col("announced_ts_ms") >= wanted.after)
        if wanted.before is not None:
            found = found.filter(pl.col("announced_ts_ms") < wanted.before)
        rest = found if cursor is None else found.filter(pl.col("fixture_id") > _last(cursor))
        page, more = first_rows(rest, limit)
        return _with_markets(page, markets), found.height, str(page["fixture_id"][-1]) if more else None


def _with_markets(page: pl.DataFrame, markets: pl.DataFrame) -> pl.DataFrame:
    own = markets.join(page.select("fixture_id"), on="fixture_id", how="semi", maintain_order="left")
    lists = own.group_by("fixture_id", maintain_order=True).agg(markets=pl.struct(*_MARKET))
    listed = page.join(lists, on="fixture_id", how="left", maintain_order="left")
    none = pl.lit([], FIXTURE_ROWS["markets"])
    return listed.with_columns(pl.col("markets").fill_null(none)).select(
        pl.col(name).cast(dtype) for name, dtype in FIXTURE_ROWS.items()
    )


def _last(cursor: str) -> int:
    if not _CURSOR.fullmatch(cursor):
        raise PageError(f"cursor {cursor!r:.80} was not given by a page of this list")
    return int(cursor)
