"""Metrics of an agent in a run: counts, sums and means over its scores. All but the last division is in integers."""

from __future__ import annotations

from functools import cache
from typing import Literal

import polars as pl

from clvlab.law.columns import values
from clvlab.law.schema import OUTCOMES, Reason, conform

LOW_SAMPLE_BELOW = 30
_HIGH_FROM = 200
_PPM = 1_000_000


def confidence(valid_count: int) -> Literal["low", "medium", "high"]:
    """Return the grade of a sample by its number of law-valid decisions: low < 30, medium < 200, high >= 200."""
    if valid_count < LOW_SAMPLE_BELOW:
        return "low"
    return "medium" if valid_count < _HIGH_FROM else "high"


def outcomes(scores: pl.DataFrame, agent_ids: tuple[str, ...] = ()) -> pl.DataFrame:
    """Return ``OUTCOMES`` sorted by ``agent_id``, with a row for each of ``agent_ids`` even without decisions."""
    agents = sorted(values(scores["agent_id"]) | set(agent_ids))  # by code point, as bytes sort
    return conform(
        pl.LazyFrame({"agent_id": agents}, schema={"agent_id": pl.String})
        .join(scores.lazy().group_by("agent_id").agg(_counts()), on="agent_id", how="left", maintain_order="left")
        .with_columns(pl.exclude("agent_id").fill_null(0))
        .select(_outcomes())
        .collect(engine="in-memory"),
        OUTCOMES,
        "OUTCOMES",
    )


@cache
def _counts() -> list[pl.Expr]:
    is_scored = pl.col("reason") == Reason.SCORED
    beat = pl.when(pl.col("clv_bps") > 0).then(_PPM).otherwise(0)
    forecast = is_scored & pl.col("confidence_ppm").is_not_null()
    walk = pl.col("clv_bps").fill_null(0).cum_sum()
    counts = {
        "action_count": is_scored.sum(),
        "valid_count": is_scored.sum(),
        "invalid_count": (~pl.col("valid")).sum(),
        "abstention_count": (pl.col("reason") == Reason.WAIT_UNSCORED).sum(),
        "pending_count": (pl.col("reason") == Reason.PENDING_HORIZON).sum(),
        "total_clv_bps": pl.col("clv_bps").sum(),
        "sim_pnl": pl.col("edge_bps").sum(),
        "forecasts": forecast.sum(),
        # (10^6)^2 a row would overflow Int64 after nine million rows
        "squared_error": (pl.col("confidence_ppm") - beat).pow(2).filter(forecast).cast(pl.Int128).sum(),
        "max_drawdown": (walk - pl.max_horizontal(walk.cum_max(), 0)).min(),
    }
    return [expression.alias(name) for name, expression in counts.items()]


@cache
def _outcomes() -> list[pl.Expr]:
    refused = pl.col("invalid_count")
    decided = pl.col("valid_count") + pl.col("abstention_count") + pl.col("pending_count") + refused
    sample, forecasts = pl.col("action_count"), pl.col("forecasts")
    derived = {
        "valid_pct": pl.when(decided > 0).then(100 * (decided - refused) / decided).otherwise(0.0),
        "mean_clv_bps": pl.when(sample > 0).then(pl.col("total_clv_bps") / sample),
        "brier": pl.when(forecasts > 0).then(pl.col("squared_error").cast(pl.Float64) / _PPM**2 / forecasts),
    }
    return [derived.get(column, pl.col(column)).cast(dtype).alias(column) for column, dtype in OUTCOMES.items()]


def forecast_errors(scores: pl.DataFrame) -> pl.DataFrame:
    """Return the number of forecasts per agent and their squared errors in parts per million, which pool to a Brier score."""
    beat = pl.when(pl.col("clv_bps") > 0).then(_PPM).otherwise(0)
    return (
        scores.filter(pl.col("reason") == Reason.SCORED, pl.col("confidence_ppm").is_not_null())
        .group_by("agent_id", maintain_order=True)
        .agg(
            forecasts=pl.len().cast(pl.Int64),
            squared_error=((pl.col("confidence_ppm") - beat).pow(2).cast(pl.Int128).sum() // _PPM).cast(pl.Int64),
        )
        .sort("agent_id")
    )


# Rank: only by mean closing-line value, highest first.


def rank(outcomes: pl.DataFrame) -> pl.DataFrame:
    """Return ``OUTCOMES`` by mean CLV, agents without a scored action last, ties by ``agent_id``, with a 1-based ``rank``."""
    ordered = outcomes.sort("mean_clv_bps", "agent_id", descending=[True, False], nulls_last=True)
    return ordered.with_row_index("rank", offset=1)
