"""Hourly files of order books as PMXT keeps them of Polymarket, of which one hour is missing."""

import json
import random
from datetime import UTC, datetime, timedelta

import polars as pl

from tests.samples.walks import mapping, matches, walk

HOURS = (11, 12, 14)  # of the day of the match, which begins at three
SCHEMA = {
    "timestamp": pl.Datetime("ms", "UTC"), "market": pl.String, "event_type": pl.String, "asset_id": pl.String,
    "bids": pl.String, "asks": pl.String, "price": pl.Float64, "size": pl.Float64, "side": pl.String,
}  # fmt: skip


def book(at, asset, bid, ask):
    """Return the row of a full book: two levels a side."""
    levels = [[{"price": f"{cents / 100:.2f}", "size": "25"} for cents in pair] for pair in ((bid - 1, bid), (ask + 1, ask))]
    return (at, "0xmarket", "book_snapshot", asset, json.dumps(levels[0]), json.dumps(levels[1]), None, None, None)


def change(at, asset, cents, size, side):
    """Return the row of a change of one level."""
    return (at, "0xmarket", "price_change", asset, None, None, cents / 100, float(size), side)


def hour_of(dice, day, hour, shares, steps=60):
    """Return the rows of an hour: full books at its start, then the best levels walk."""
    start = datetime(day.year, day.month, day.day, hour, tzinfo=UTC)
    rows = []
    for share, asset in enumerate(shares):
        prices = walk(dice, share, steps)
        bid, ask = prices[0]
        rows.append(book(start + timedelta(seconds=share), asset, bid, ask))
        for step, (new_bid, new_ask) in enumerate(prices[1:], 1):
            at = start + timedelta(seconds=step * 3600 // steps, milliseconds=dice.randrange(1000))
            rows += [change(at, asset, bid, 0, "BUY"), change(at, asset, ask, 0, "SELL")]
            rows += [change(at, asset, new_bid, dice.randint(1, 50), "BUY"), change(at, asset, new_ask, 5, "SELL")]
            bid, ask = new_bid, new_ask
    return sorted(rows, key=lambda row: row[0])


def named(day, hour):
    return f"polymarket_orderbook_{day:%Y-%m-%d}T{hour:02}.parquet"


def write(folder, seed=1):
    """Write three hours, and the mapping that their assets need."""
    dice = random.Random(seed)
    match = matches(count=1)[0]._replace(shares=tuple(str(7 * 10**70 + share) for share in range(3)))
    for hour in HOURS:
        rows = hour_of(dice, match.kickoff, hour, match.shares)
        pl.DataFrame(rows, schema=SCHEMA, orient="row").write_parquet(folder / named(match.kickoff, hour))
    (folder.parent / f"{folder.name}.yml").write_text(mapping([match]))
