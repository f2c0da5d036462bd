"""Archives of trades of Kalshi and Polymarket as tables, one row per trade; they serve as entry prices, not as closes.

A trade is a price paid, not an offer. A side's probability is that of its last trade, and only the side that was bought has
odds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl

from clvlab.base.names import among
from clvlab.base.progress import each, report
from clvlab.base.times import micros_of_iso, of_iso, of_unix, zone_of
from clvlab.errors import SourceError
from clvlab.sources.archives import ArchiveKind, head_of, kind_of
from clvlab.sources.shares import AssetMap, ShareSpill, Trade, asset_map, taker, trade_price
from clvlab.sources.source import ImportStats, Options, SourceData, files_below
from clvlab.sources.tables.rows import opened_csv, parquet_columns, parquet_rows
from clvlab.words import counted

NORMALISER = "trades/1"
# Meaning -> the columns that may hold it; the first column in the table counts.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "asset": ("ticker", "market_ticker", "asset_id", "token_id", "market"),
    "time": ("created_time", "timestamp", "time", "ts"),
    "yes_price": ("yes_price",),
    "yes_price_dollars": ("yes_price_dollars",),
    "taker_side": ("taker_side",),
    "trade": ("trade_id",),
}
PRICES = ("yes_price", "yes_price_dollars")
_NEEDED = ("asset", "time", "taker_side")


def find(paths: Sequence[Path]) -> dict[str, Path]:
    return files_below(paths, (".parquet", ".csv", ".csv.gz"))


def normalise(files: Mapping[str, Path], options: Options, scratch: Path) -> SourceData:
    """Read archives in any order; trades are sorted by time."""
    account = ImportStats(options.lenient)
    assets = asset_map("trades", options)
    spill = ShareSpill(assets, scratch)
    zone = zone_of(options.time_zone)
    for name, path in each("reading files", sorted(files.items()), len(files)):
        read = _parquet if kind_of(head_of(path)) is ArchiveKind.PARQUET else _csv
        try:
            for rows in read(name, path, assets, options, account):
                _take(name, rows, spill, zone, options, account)
                options.progress(f"{counted(account.messages, 'trade')} of mapped assets so far")
                if len(files) == 1:
                    report("reading trades", account.messages)
        except SourceError as error:
            account.refuse_file(name, error)
        assets.check()
    return SourceData(
        parts=spill.parts(options, account),
        fixtures=assets.fixtures,
        account=account,
        provenance="imported-trades",
        normaliser=NORMALISER,
        margin="multiplicative",
        consensus="single-venue",
        closing_source="last trade, which is no quote",
        kickoff=assets.kickoff,
    )


def _take(
    name: str, rows: pl.DataFrame, spill: ShareSpill, zone: ZoneInfo | None, options: Options, account: ImportStats
) -> None:
    assets = spill.assets
    known = pl.col("asset").is_in(list(assets.markets))
    others = rows.filter(~known | known.is_null()).group_by("asset").len()
    for asset, count in others.iter_rows():
        assets.find(str(asset), account, count)
    for row in rows.filter(known).iter_rows(named=True):
        account.messages += 1
        try:
            trade = _trade(row, zone)
        except (ValueError, KeyError, TypeError) as error:
            account.refuse(name, row["line"], str(error), "a trade can't be read")
            continue
        market = assets.markets[row["asset"]]
        share = trade.share(row["asset"], name, row["line"])._replace(event=str(market.fixture_id))
        spill.add(share, market, options.chunk_rows)


def _trade(row: Mapping[str, Any], zone: ZoneInfo | None) -> Trade:
    time = row["time"]
    if isinstance(time, str) and not time.isdecimal():
        ts_ms, ts_us = of_iso(time, zone), micros_of_iso(time, zone)
    else:
        ts_ms = of_unix(float(time) if isinstance(time, str) else time)
        ts_us = ts_ms * 1000
    trade_id = None if row["trade"] is None else str(row["trade"])
    in_dollars = row["yes_price_dollars"] is not None
    price = trade_price(row["yes_price_dollars" if in_dollars else "yes_price"], in_dollars=in_dollars)
    return Trade(ts_ms, ts_us, price, taker(row["taker_side"]), trade_id)


def _columns(name: str, header: Sequence[str], chosen: Mapping[str, str]) -> dict[str, str]:
    """Return meaning -> column, by the mapping or the archives' usual names.

    Raises
    ------
    SourceError
        A column is missing, or the mapping names an unknown meaning or column.
    """
    strange = next((meaning for meaning in chosen if meaning not in COLUMNS), None)
    if strange is not None:
        raise SourceError(f"{strange!r:.80} is no meaning of a column of trades{among(strange, COLUMNS)}")
    found = {meaning: next((c for c in names if c in header), None) for meaning, names in COLUMNS.items()} | dict(chosen)
    missing = [meaning for meaning in _NEEDED if found[meaning] is None]
    missing += ["yes_price"] if all(found[meaning] is None for meaning in PRICES) else []
    gone = next((column for column in chosen.values() if column not in header), None)
    if missing or gone is not None:
        lacks = repr(gone) if gone is not None else f"for {' and '.join(missing)}"
        raise SourceError(
            f"{name}: there is no column {lacks} of a trade among {', '.join(map(repr, header[:20]))}; "
            f"the mapping can name it, as in columns: {{{missing[0] if missing else next(iter(chosen))}: NAME}}"
        )
    return {meaning: column for meaning, column in found.items() if column is not None}


def _csv(name: str, path: Path, assets: AssetMap, options: Options, account: ImportStats) -> Iterator[pl.DataFrame]:
    header, rows = opened_csv(name, path, account)
    columns = _columns(name, header, assets.columns)
    schema = {"line": pl.Int64} | dict.fromkeys(COLUMNS, pl.String)
    held = []
    for line, cells in rows:
        held.append((line, *(cells.get(columns.get(meaning, "")) for meaning in COLUMNS)))
        if len(held) >= options.chunk_rows:
            yield pl.DataFrame(held, schema=schema, orient="row")
            held = []
    yield pl.DataFrame(held, schema=schema, orient="row")


def _parquet(name: str, path: Path, assets: AssetMap, options: Options, _account: ImportStats) -> Iterator[pl.DataFrame]:
    columns = _columns(name, parquet_columns(name, path), assets.columns)
    line = 1
    for rows in parquet_rows(name, path, sorted(set(columns.values())), options.chunk_rows, times=(columns["time"],)):
        yield rows.select(
            pl.int_range(line, line + rows.height, eager=True).alias("line"),
            *(_read(meaning, columns.get(meaning), rows.schema) for meaning in COLUMNS),
        )
        line += rows.height


def _read(meaning: str, column: str | None, schema: Mapping[str, Any]) -> pl.Expr:
    """Return a column by its meaning: assets and ids as text, timestamps as ISO 8601, with their zone if any."""
    if column is None:
        return pl.lit(None, pl.String).alias(meaning)
    dtype, values = schema[column], pl.col(column)
    if isinstance(dtype, pl.Datetime):
        utc = values.dt.convert_time_zone("UTC") if dtype.time_zone else values
        return utc.dt.strftime("%Y-%m-%dT%H:%M:%S%.6f" + ("Z" if dtype.time_zone else "")).alias(meaning)
    if meaning in ("asset", "trade", "taker_side") and dtype != pl.String:
        values = values.cast(pl.String)
    return values.alias(meaning)
