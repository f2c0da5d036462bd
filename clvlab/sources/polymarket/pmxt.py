"""PMXT's hourly files of Polymarket's order books: full books and changes of their levels, a Parquet file an hour.

Changes count after a full book. A missing hour is a gap: every market is suspended from its start, and changes are applied only
after the next full book of their asset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from clvlab.base.progress import each
from clvlab.base.times import LAST_MS, of_iso
from clvlab.errors import SourceError
from clvlab.packs.manifest import Capture, Gap
from clvlab.sources.ladders import SpilledLadders
from clvlab.sources.polymarket.messages import AssetBooks, Change, book_change, level_change
from clvlab.sources.shares import AssetMap, StateSpill, asset_map, markets_of
from clvlab.sources.source import ImportStats, Options, SourceData, files_below, reason_of
from clvlab.sources.tables.rows import parquet_columns, parquet_rows
from clvlab.words import counted

NORMALISER = "pmxt/1"
COLUMNS = ("timestamp", "market", "event_type", "asset_id", "bids", "asks", "price", "size", "side")
_READ = tuple(name for name in COLUMNS if name != "market")
_NAME = re.compile(r"(?:.*/)?polymarket_orderbook_(\d{4}-\d\d-\d\dT\d\d)\.parquet")
_HOUR_MS = 3_600_000
_LATE_MS = 60_000  # limit after the hour of a file: a book with a time far ahead would refuse all changes until then
_AGAIN_MS = 60_000  # an unmoved market is returned again after this time, so that its close is recent
_FULL, _CHANGE = ("book_snapshot", "book"), "price_change"


def find(paths: Sequence[Path]) -> dict[str, Path]:
    """Return ``polymarket_orderbook_YYYY-MM-DDTHH.parquet``; hours are UTC."""
    found = files_below(paths, (".parquet",))
    named = {name: path for name, path in found.items() if _NAME.fullmatch(name) or path in paths}
    strange = next((name for name in named if not _NAME.fullmatch(name)), None)
    if strange is not None or not named:
        raise SourceError(
            f"{strange or next(iter(found))!r} does not say of which hour it is: PMXT's files are named "
            "polymarket_orderbook_YYYY-MM-DDTHH.parquet"
        )
    return named


def normalise(files: Mapping[str, Path], options: Options, scratch: Path) -> SourceData:
    account = ImportStats(options.lenient)
    assets = asset_map("pmxt", options)
    hours = _hours(files)
    ladders = SpilledLadders(scratch / "ladders") if options.ladders else None
    reading = _HoursReader(assets, options, account, StateSpill(scratch, ladders))
    gaps = []
    before = None
    for hour, name in each("reading files", hours, len(hours)):
        if before is not None and hour > before + _HOUR_MS:
            gaps.append(Gap(from_ts_ms=before + _HOUR_MS, to_ts_ms=hour, cause="missing hour"))
            account.note("hours without a file", (hour - before) // _HOUR_MS - 1)
            reading.cut(before + _HOUR_MS)
        if not reading.hour(name, files[name], hour):
            gaps.append(Gap(from_ts_ms=hour, to_ts_ms=hour + _HOUR_MS, cause="empty or unreadable hour"))
        assets.check()
        before = hour
        options.progress(f"{name}: {counted(account.messages, 'row')} of mapped assets so far")
    reading.end(hours[-1][0] + _HOUR_MS)
    return SourceData(
        parts=reading.spill.parts(options, account),
        fixtures=assets.fixtures,
        account=account,
        provenance="imported-pmxt",
        normaliser=NORMALISER,
        margin="multiplicative",
        consensus="single-venue",
        closing_source="venue",
        kickoff=assets.kickoff,
        capture=Capture(
            method="hourly files of order books",
            tool="PMXT",
            started_ts_ms=hours[0][0],
            ended_ts_ms=hours[-1][0] + _HOUR_MS,
            gaps=tuple(gaps),
        ),
    )


def _hours(files: Mapping[str, Path]) -> list[tuple[int, str]]:
    hours: dict[int, str] = {}
    for name in sorted(files):
        match = _NAME.fullmatch(name)
        if match is None:
            raise SourceError(f"{name!r} does not say of which hour it is")
        try:
            hour = of_iso(f"{match[1]}:00+00:00")
        except ValueError as error:
            raise SourceError(f"{name!r}: {match[1]!r} is no hour") from error
        if hour in hours:
            raise SourceError(f"two files are of the hour {match[1]}: {hours[hour]!r} and {name!r}")
        hours[hour] = name
    return sorted(hours.items())


class _HoursReader:
    """Reads hours in order, and keeps the states after them."""

    def __init__(self, assets: AssetMap, options: Options, account: ImportStats, spill: StateSpill) -> None:
        self.spill = spill
        self._assets, self._options, self._account = assets, options, account
        ladders = None if spill.ladders is None else spill.ladders.log
        self._books = AssetBooks(again_after_ms=_AGAIN_MS, ladders=ladders)
        for market in markets_of(assets):
            self._books.name(market.fixture_id, market.key, market.sides, market.opposite)

    def cut(self, ts_ms: int, assets: Sequence[str] = ()) -> None:
        """Mark books unknown from a time on, and their markets suspended."""
        self.spill.add(self._books.suspend(assets, ts_ms), self._options.chunk_rows)

    def end(self, ts_ms: int) -> None:
        """Mark fixtures that kick off after the last hour unknown from then on: hours before their kickoff are missing."""
        later = {fixture.fixture_id for fixture in self._assets.fixtures if (fixture.kickoff_ts_ms or 0) > ts_ms}
        open_still = [asset for asset, market in self._assets.markets.items() if market.fixture_id in later]
        if open_still:
            self._account.note(
                "markets that serve to enter, not to close: the hours before their kickoff are missing",
                len({(market.fixture_id, market.key) for market in map(self._assets.markets.__getitem__, open_still)}),
            )
            self.cut(ts_ms, open_still)

    def hour(self, name: str, path: Path, hour: int) -> bool:
        """Read a file, and return whether it has rows, all of them readable."""
        line, at_ms = 0, hour
        try:
            for rows in _batches(name, path, self._options.chunk_rows):
                at_ms = self._take(name, rows, line, at_ms, hour)
                line += rows.height
        except SourceError as error:
            self._account.refuse_file(name, error)
            self.cut(at_ms)
            return False
        if not line:
            self._account.note("hours whose file is empty")
            self.cut(hour)
        return bool(line)

    def _take(self, name: str, rows: pl.DataFrame, line: int, at_ms: int, hour: int) -> int:
        """Apply some rows of an hour, the first of which follows ``line``, and return their latest time."""
        numbered = rows.with_row_index("line", line + 1)
        known = pl.col("asset_id").is_in(list(self._assets.markets))
        others = numbered.filter(~known).group_by("asset_id").len()
        for asset, count in others.iter_rows():
            self._assets.find(str(asset), self._account, count)
        for row in numbered.filter(known).iter_rows(named=True):
            self._account.messages += 1
            try:
                change = _change(row)
                if change is not None and change.ts_ms >= hour + _HOUR_MS + _LATE_MS:
                    self._account.note("rows of a time after the hour of their file are of the last one in it")
                    change = replace(change, ts_ms=at_ms)
            except (ValueError, KeyError, TypeError) as error:
                self._account.refuse(name, row["line"], reason_of(error))
                own = row["timestamp"] or hour
                at_ms = max(at_ms, own if hour <= own < hour + _HOUR_MS else hour)
                self.cut(at_ms, [row["asset_id"]])  # this row's change is missing
                continue
            at_ms = at_ms if change is None else max(at_ms, change.ts_ms)
            if change is None:
                self._account.note("rows that are neither full books nor changes")
            elif change.kind == "changes" and not self._books.is_known(change.asset):
                self._account.note("changes before a full book are not applied")
            elif self._books.is_stale(change):
                self._account.note("books and changes that are older than what they would change are not applied")
            else:
                self.spill.add(self._books.take([change], lambda _: False), self._options.chunk_rows)
        return at_ms


def _batches(name: str, path: Path, chunk_rows: int) -> Iterator[pl.DataFrame]:
    """Read a file in batches of rows: times as milliseconds, assets as text.

    Raises
    ------
    SourceError
        The file can't be read to its end, or lacks a column.
    """
    missing = [column for column in _READ if column not in parquet_columns(name, path)]
    if missing:
        raise SourceError(f"{name}: lacks the columns {', '.join(missing)} of PMXT's hourly files")
    for rows in parquet_rows(name, path, _READ, chunk_rows, times=("timestamp",), listed=("bids", "asks")):
        yield rows.with_columns(_times(name, rows.schema["timestamp"]), pl.col("asset_id").cast(pl.String))


def _times(name: str, dtype: pl.DataType) -> pl.Expr:
    """Read times: timestamps, UTC without a zone, or whole milliseconds."""
    column = pl.col("timestamp")
    if isinstance(dtype, pl.Datetime):
        return column.dt.epoch("ms")
    if not dtype.is_integer():
        raise SourceError(f"{name}: column 'timestamp' is {dtype}; it has to hold timestamps or milliseconds")
    return column.cast(pl.Int64, strict=False)


def _change(row: Mapping[str, Any]) -> Change | None:
    """Return the change in a row; ``None`` if it is neither a book nor a change of one."""
    kind, ts_ms = row["event_type"], row["timestamp"]
    if kind not in (*_FULL, _CHANGE):
        return None
    if ts_ms is None or not 0 <= ts_ms <= LAST_MS:
        raise ValueError(f"timestamp {ts_ms!r} is no time in milliseconds")
    if kind == _CHANGE:
        return level_change(row["asset_id"], ts_ms, row["side"], row["price"], row["size"])
    bids, asks = (map(_price_and_size, _levels(row[name], name)) for name in ("bids", "asks"))
    return book_change(row["asset_id"], ts_ms, bids, asks)


def _levels(value: Any, name: str) -> list[Any]:
    found = orjson.loads(value) if isinstance(value, str) else value
    if not isinstance(found, list):
        raise ValueError(f"{name} of a full book must be a list of levels, not {found!r:.80}")
    return found


def _price_and_size(level: Any) -> tuple[Any, Any]:
    """Return price and size of a level, an object or a pair."""
    if isinstance(level, dict):
        return level["price"], level["size"]
    if not isinstance(level, list) or len(level) != 2:
        raise ValueError(f"a level is a price and a size, not {level!r:.80}")
    return level[0], level[1]
