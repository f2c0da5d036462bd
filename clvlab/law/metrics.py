"""Metrics of an agent in a run: counts, sums and means over its scores. All but the last division is in integers."""

from __future__ import annotations

from typing import Literal

import numpy as np
import polars as pl

from clvlab.law.lines import Bools, Ints, columns_of, known, texts_of
from clvlab.law.schema import OUTCOMES, Reason

LOW_SAMPLE_BELOW = 30
_HIGH_FROM = 200
_PPM = 1_000_000
_PLACES = {reason.value: place for place, reason in enumerate(Reason)}


def confidence(valid_count: int) -> Literal["low", "medium", "high"]:
    """Return the grade of a sample by its number of law-valid decisions: low < 30, medium < 200, high >= 200."""
    if valid_count < LOW_SAMPLE_BELOW:
        return "low"
    return "medium" if valid_count < _HIGH_FROM else "high"


def outcomes(scores: pl.DataFrame, agent_ids: tuple[str, ...] = ()) -> pl.DataFrame:
    """Return ``OUTCOMES`` sorted by ``agent_id``, with a row for each of ``agent_ids`` even without decisions."""
    columns = columns_of(scores.select("reason", "valid", "clv_bps", "edge_bps", "confidence_ppm"))
    columns = {**columns, "reason": columns["reason"].map(lambda reason: _PLACES.get(reason, -1), default=-1)}
    agents = texts_of(scores["agent_id"])[0]
    order = np.argsort(agents.codes, kind="stable")[int((agents.codes < 0).sum()) :]  # each agent's rows stay in order
    ends = np.searchsorted(agents.codes[order], np.arange(len(agents.values)), side="right")
    rows = dict(zip(agents.values, np.split(order, ends)[:-1], strict=True))
    none = order[:0]
    names = sorted({*agents.values, *agent_ids})  # by code point, as bytes sort
    found = [_outcome(**{name: column[rows.get(agent, none)] for name, column in columns.items()}) for agent in names]
    return pl.DataFrame([{"agent_id": agent} | one for agent, one in zip(names, found, strict=True)], schema=OUTCOMES)


def _outcome(reason: Ints, valid: Bools, clv_bps: Ints, edge_bps: Ints, confidence_ppm: Ints) -> dict[str, float | None]:
    """Return the metrics of one agent's scores in order."""
    scored = reason == _PLACES[Reason.SCORED]
    clv, edge = clv_bps[known(clv_bps)], edge_bps[known(edge_bps)]
    refused, waited, pending = (
        int(rows.sum()) for rows in (~valid, reason == _PLACES[Reason.WAIT_UNSCORED], reason == _PLACES[Reason.PENDING_HORIZON])
    )
    count, total = int(scored.sum()), int(clv.sum())
    decided = count + waited + pending + refused
    forecast = scored & known(confidence_ppm)
    error = confidence_ppm[forecast] - np.where(clv_bps[forecast] > 0, _PPM, 0)
    walk = np.cumsum(clv)
    return {
        "action_count": count,
        "valid_count": count,
        "invalid_count": refused,
        "abstention_count": waited,
        "pending_count": pending,
        "valid_pct": 100 * (decided - refused) / decided if decided else 0.0,
        "total_clv_bps": total,
        "mean_clv_bps": total / count if count else None,
        "sim_pnl": int(edge.sum()),
        "brier": _squares(error) / _PPM**2 / len(error) if len(error) else None,
        "max_drawdown": float((walk - np.maximum(np.maximum.accumulate(walk), 0)).min()) if len(walk) else 0.0,
    }


def _squares(errors: Ints) -> int:
    """Return the sum of squares, which overflows 64 bits after nine million errors of a whole."""
    squares = errors * errors
    return (int((squares >> 32).sum()) << 32) + int((squares & 0xFFFFFFFF).sum())


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
