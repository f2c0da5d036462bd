"""An archive of trades as a table: a row a trade, prices of ``yes`` in cents."""

import random

import polars as pl

from tests.samples.kalshi import trade
from tests.samples.walks import mapping, matches


def write(folder, seed=1, unit="cents", count=300):
    """Write an archive in two files, the later one first, and the mapping that its tickers need."""
    dice = random.Random(seed)
    match = matches(count=1)[0]
    rows = []
    for number in range(count):
        ticker = dice.choice(match.shares)
        rows.append(trade(dice, ticker, match.kickoff_s - 20 * (count - number) - 30, unit, number))
    frame = pl.DataFrame(rows)
    time = pl.col("created_time").str.to_datetime(time_zone="UTC")
    frame[: count // 2].with_columns(time).write_parquet(folder / "trades_b.parquet")
    frame[count // 2 :].write_csv(folder / "trades_a.csv")
    (folder.parent / f"{folder.name}.yml").write_text(mapping([match]))
