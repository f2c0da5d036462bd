"""A sweep of momentum in vectorbt: each signal buys one unit of probability, and what is held is worth the last price."""

from pathlib import Path

import pandas as pd
import vectorbt as vbt

_CASH = 1e12  # what is bought never runs out of it


def run(feed: Path, lags: list[int], thresholds: list[int], horizon_ms: int) -> list[tuple[int, int]]:
    ticks = pd.read_parquet(feed, columns=["fixture_id", "market_key", "side", "ts_ms", "in_running", "prob_bps"])
    ticks = ticks[~ticks["in_running"]]
    series = ["fixture_id", "market_key", "side"]
    ticks["step"] = ticks.groupby(series, observed=True).cumcount()
    wide = ticks.pivot(index="step", columns=series, values=["prob_bps", "ts_ms"])
    prices, times = wide["prob_bps"].astype(float), wide["ts_ms"]
    early = times.max() - times >= horizon_ms
    found = []
    for lag in lags:
        rise = prices - prices.shift(lag)
        for threshold in thresholds:
            entries = (rise > threshold) & early & prices.iloc[-1].notna()
            portfolio = vbt.Portfolio.from_orders(prices, size=entries.astype(float).where(entries), init_cash=_CASH)
            found.append((int(entries.vbt.signals.total().sum()), round(portfolio.total_profit().sum())))
    return found
