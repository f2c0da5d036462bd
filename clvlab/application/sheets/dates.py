"""Scored decisions by the date of their close: the sum so far, which cards and tear sheets draw."""

from __future__ import annotations

import polars as pl

from clvlab.drawing.walk import cumulative_line, fall_area
from clvlab.statistics.cumulating import cumulative, falls, rolling

_LEAST_ROLLED = 20


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


def dated_pictures(scored: pl.DataFrame, level: float) -> list[str]:
    """Draw scored decisions by the close of their fixtures: the sum, the rolling mean, and the fall from the last peak.

    Parameters
    ----------
    scored
        With ``fixture_id``, ``clv_bps`` and ``close_ts_ms``.
    level
        Level of the bands, over fixtures.
    """
    if scored.is_empty():
        return []
    by_date = scored["clv_bps"], scored["fixture_id"], scored["close_ts_ms"]
    width = max(_LEAST_ROLLED, scored["fixture_id"].n_unique() // 10)
    rolled, fallen = rolling(*by_date, width, level=level), falls(*by_date)
    mean = cumulative_line(
        *(rolled[name].to_list() for name in ("time_ms", "mean", "low", "high")),
        title=f"Mean CLV of the last {width} fixtures, {level:.0%} band", unit="bps",
    )  # fmt: skip
    fall = fall_area(fallen["time_ms"].to_list(), fallen["fall"].to_list(), title="Fall from the peak")
    return [part for part in (cumulative_picture(cumulative(*by_date, level=level), level), mean, fall) if part]
