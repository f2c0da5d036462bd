"""Scored decisions by the date of their close: the sum so far, which cards and tear sheets draw."""

from __future__ import annotations

import polars as pl

from clvlab.drawing.walk import cumulative_line
from clvlab.statistics.cumulating import cumulative


def cumulative_clv(scored: pl.DataFrame, closes: pl.DataFrame, level: float = 0.95) -> pl.DataFrame:
    """Return ``CUMULATIVE`` of the CLV of scored decisions, in bps of probability, by the close of their fixture.

    Parameters
    ----------
    scored
        With ``fixture_id`` and ``clv_bps``: the decisions that count.
    closes
        With ``fixture_id`` and ``close_ts_ms``.
    level
        Level of the interval, over fixtures.
    """
    ends = closes.group_by("fixture_id").agg(pl.max("close_ts_ms"))
    dated = scored.select("fixture_id", "clv_bps").join(ends, on="fixture_id", maintain_order="left")
    return cumulative(dated["clv_bps"], dated["fixture_id"], dated["close_ts_ms"], level=level)


def cumulative_picture(found: pl.DataFrame, level: float = 0.95) -> str:
    """Draw ``CUMULATIVE`` of CLV as an SVG element; empty where all lies on one date."""
    columns = (found[name].to_list() for name in ("time_ms", "total", "low", "high"))
    return cumulative_line(*columns, title=f"Cumulative CLV by date of the close, {level:.0%} band", unit="bps")
