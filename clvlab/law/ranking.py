"""Rank: mean closing-line value, highest first, and nothing else."""

from __future__ import annotations

import polars as pl


def rank(outcomes: pl.DataFrame) -> pl.DataFrame:
    """Order ``OUTCOMES`` by mean CLV, agents without a scored action last, ties by ``agent_id``; adds a 1-based ``rank``.

    References
    ----------
    Interface specification, "CompetitionLeaderboardRow".
    """
    ordered = outcomes.sort("mean_clv_bps", "agent_id", descending=[True, False], nulls_last=True)
    return ordered.with_row_index("rank", offset=1)
