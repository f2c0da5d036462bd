"""The leaderboard with an interval beside each mean: from the sealed decisions of the runs that a row is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import polars as pl

from clvlab.answers.leaderboard import LeaderboardRow
from clvlab.application.leaderboard import Leaderboard, Wanted
from clvlab.application.runs.decisions import RunDecisions
from clvlab.cache import BoundedCache
from clvlab.drawing.rows import interval_cell, scale, scale_axis
from clvlab.errors import RunRemovedError, UnknownRunError
from clvlab.law.schema import Reason
from clvlab.statistics import Clusters, estimates
from clvlab.store import standings
from clvlab.store.standings import Row

_KEPT_BYTES = 16 << 20
_RUNS_AT_ONCE = 40  # runs that one page may read which nobody read before; the next page goes on from there

# Per agent and fixture: the sum of the CLV of its scored decisions, how many they are, and the sum of their squares.
_Sums = Mapping[tuple[str, int], tuple[float, float, float]]


class _EnoughError(Exception):
    """A page has read as many runs as it may."""


@dataclass(frozen=True, slots=True)
class ForestRow:
    """A row of the leaderboard.

    Attributes
    ----------
    row
        As the leaderboard has it.
    low, high
        Interval of 95 % of its mean, over fixtures. Null with fewer than five fixtures, where a run that it needs was removed
        or is not stored as it was sealed, and while its runs were not all read yet.
    fixtures
        Fixtures that it counts.
    picture
        An SVG element on the scale of all rows; empty without a mean.
    """

    row: LeaderboardRow
    low: float | None
    high: float | None
    fixtures: int
    picture: str


@dataclass(frozen=True, slots=True)
class ForestPage:
    """Some rows, and the SVG element of the scale that they share; empty without rows."""

    rows: tuple[ForestRow, ...]
    axis: str


def _kept() -> BoundedCache[_Sums]:
    return BoundedCache(_KEPT_BYTES, lambda sums: 1024 + 256 * len(sums))


@dataclass(frozen=True)
class Forest:
    """Use case of pages; what a run adds to a row is kept, since sealed runs never change."""

    leaderboard: Leaderboard
    decisions: RunDecisions
    _sums: BoundedCache[_Sums] = field(default_factory=_kept)

    def page(self, after_rank: int = 0, limit: int = 50) -> ForestPage:
        """Rank agents by their means, each with its interval and picture: those that can't hold the past come first. Blocks.

        Of an owner's rows with the same decisions the first stands for all.

        Raises
        ------
        PageError
        """
        keyed = self.leaderboard.keyed_rows(after_rank, limit, Wanted(grouped=True, apart=True))
        with self.leaderboard.database.read() as connection:
            counted = [standings.counted_in(connection, key) for key, _ in keyed]
        allowance = [_RUNS_AT_ONCE]
        spans = [self._span(key, row, own, allowance) for (key, row), own in zip(keyed, counted, strict=True)]
        within = scale([*(row["avg_clv_bps"] for _, row in keyed), *(bound for span in spans for bound in span)])
        found = [
            ForestRow(row, low, high, len(own), interval_cell(row["avg_clv_bps"], low, high, within))
            for (_, row), (low, high), own in zip(keyed, spans, counted, strict=True)
        ]
        return ForestPage(tuple(found), scale_axis(within) if found else "")

    def _span(
        self, key: Row, row: LeaderboardRow, counted: Sequence[Mapping[str, Any]], allowance: list[int]
    ) -> tuple[float | None, float | None]:
        try:
            parts = [
                part
                for run_id, fixtures in groupby(counted, key=lambda one: str(one["run_id"]))
                for part in self._parts(run_id, key[1], [one["fixture_id"] for one in fixtures], allowance)
            ]
        except (_EnoughError, UnknownRunError, RunRemovedError):
            return None, None
        sums = np.array(parts, dtype=np.float64).reshape(-1, 3)
        if (sums[:, 0].sum(), sums[:, 1].sum()) != (row["total_clv_bps"], row["action_count"]) or not parts:
            return None, None  # the row is not what these runs say: an interval of something else would be worse than none
        found = estimates(Clusters(sums[:, :1], sums[:, 1:2], sums[:, 2:]))[0]
        return found.low, found.high

    def _parts(
        self, run_id: str, agent_id: str, fixture_ids: Sequence[int], allowance: list[int]
    ) -> list[tuple[float, float, float]]:
        sums = self._sums.get(run_id, lambda: self._read(run_id, allowance))
        return [sums[agent_id, fixture_id] for fixture_id in fixture_ids if (agent_id, fixture_id) in sums]

    def _read(self, run_id: str, allowance: list[int]) -> _Sums:
        if not allowance[0]:
            raise _EnoughError
        allowance[0] -= 1
        clv = pl.col("clv_bps").cast(pl.Float64)
        scored = self.decisions.rows(run_id).filter(pl.col("reason") == Reason.SCORED)
        found = scored.group_by(pl.col("agent_id").cast(pl.String), "fixture_id").agg(
            total=clv.sum(), number=pl.len().cast(pl.Float64), squares=(clv * clv).sum()
        )
        return {
            (agent_id, fixture_id): (total, number, squares)
            for agent_id, fixture_id, total, number, squares in found.iter_rows()
        }
