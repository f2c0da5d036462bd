"""Backtests beside each other: what differs between them, and by how much, fixture by fixture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from clvlab.application import backtests
from clvlab.drawing import html
from clvlab.drawing.showing import Shown, check_settings
from clvlab.errors import StatisticsError
from clvlab.lab.results.contender import Contender
from clvlab.law.ranking import rank
from clvlab.law.schema import Reason, Schema
from clvlab.statistics import Clusters, Estimate, estimates, paired_difference

_MEANS: Schema = {
    "agent": pl.String, "n": pl.Int64, "fixtures": pl.Int64, "mean_clv_bps": pl.Float64, "low": pl.Float64, "high": pl.Float64,
    "t": pl.Float64, "mean_edge_bps": pl.Float64,
}  # fmt: skip
_DIFFERENCES: Schema = {
    "difference": pl.String, "fixtures": pl.Int64, "mean_clv_bps": pl.Float64, "low": pl.Float64, "high": pl.Float64,
    "t": pl.Float64,
}  # fmt: skip
_RANKING = ("rank", "agent_id", "mean_clv_bps", "low", "high", "t", "action_count", "fixtures", "total_clv_bps", "sim_pnl")
_KEY = ("fixture_id", "tick_seq", "market_key", "side")


def fixture_sums(scores: Sequence[pl.DataFrame]) -> tuple[Clusters, pl.Series]:
    """Return the CLV of several ``SCORES`` per fixture, a column each, in bps; and the fixtures."""
    clv, scored = pl.col("clv_bps"), pl.col("reason") == Reason.SCORED
    each = [
        frame.filter(scored).group_by("fixture_id").agg(sums=clv.sum(), counts=pl.len(), squares=(clv * clv).sum())
        for frame in scores
    ]
    fixtures = pl.concat([own["fixture_id"] for own in each]).unique().sort()
    parts = {name: np.zeros((fixtures.len(), len(scores))) for name in ("sums", "counts", "squares")}
    for column, own in enumerate(each):
        rows = fixtures.search_sorted(own["fixture_id"]).to_numpy()
        for name, part in parts.items():
            part[rows, column] = own[name].to_numpy()
    return Clusters(**parts), fixtures


def unique_names(names: Sequence[str]) -> list[str]:
    """Number the names that are there more than once: ``a, b, a (2)``."""
    return [name if not (n := names[:k].count(name)) else f"{name} ({n + 1})" for k, name in enumerate(names)]


@dataclass(frozen=True)
class Comparison(Shown):
    """Several agents over the same pack; made by ``clvlab.compare()``.

    Attributes
    ----------
    sources
        The agents; the others are compared with the first.
    level
        Of all intervals.
    resamples, seed
        Of the bootstrap over fixtures.
    """

    sources: tuple[Contender, ...]
    level: float = 0.95
    resamples: int = 5_000
    seed: int = 0

    def __post_init__(self) -> None:
        check_settings(self.level, resamples=self.resamples)
        if len(self.sources) < 2:
            raise StatisticsError(f"a comparison needs at least two backtests, not {len(self.sources)}")
        first = self.sources[0]
        for other in self.sources[1:]:
            if other.content_hash != first.content_hash:
                raise StatisticsError(
                    f"backtests over different packs have no fixtures in common: {first.pack_id!r} is {first.content_hash}, "
                    f"{other.pack_id!r} is {other.content_hash}"
                )

    @cached_property
    def names(self) -> list[str]:
        return unique_names([source.agent_id for source in self.sources])

    @cached_property
    def _sums(self) -> tuple[Clusters, pl.Series]:
        return fixture_sums([source.scores for source in self.sources])

    @cached_property
    def estimates(self) -> list[Estimate]:
        """Mean CLV of each backtest, in bps of probability."""
        return estimates(self._sums[0], level=self.level, resamples=self.resamples, seed=self.seed)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row per backtest: mean CLV in bps of probability, its interval, and the mean edge at the price taken, in bps."""
        rows = [
            (name, one.n, one.n_clusters, one.mean, one.low, one.high, one.t, source.scores["edge_bps"].mean())
            for name, one, source in zip(self.names, self.estimates, self.sources, strict=True)
        ]
        return pl.DataFrame(rows, schema=_MEANS, orient="row")

    @cached_property
    def differences(self) -> pl.DataFrame:
        """One row per other backtest: its mean CLV less that of the first, paired by fixture, in bps of probability."""
        rows = []
        for k in range(1, len(self.sources)):
            one = paired_difference(self._sums[0], k, 0, level=self.level, resamples=self.resamples, seed=self.seed)
            rows.append((f"{self.names[k]} - {self.names[0]}", one.n_clusters, one.difference, one.low, one.high, one.t))
        return pl.DataFrame(rows, schema=_DIFFERENCES, orient="row")

    @cached_property
    def fixtures(self) -> pl.DataFrame:
        """One row per fixture: the mean CLV of each backtest in it, in bps; null without a scored decision."""
        sums, fixtures = self._sums
        means = {
            name: pl.select(pl.when(pl.Series(n) > 0).then(pl.Series(s) / pl.Series(n))).to_series()
            for name, s, n in zip(self.names, sums.sums.T, sums.counts.T, strict=True)
        }
        return pl.DataFrame({"fixture_id": fixtures} | means)

    @cached_property
    def settings(self) -> pl.DataFrame:
        """One row per setting that is not the same everywhere: (setting, one column per backtest), as text."""
        each = [_settings(source) for source in self.sources]
        known = list(dict.fromkeys(name for own in each for name in own))
        rows = [(name, *(own.get(name) for own in each)) for name in known]
        differing = [row for row in rows if len(set(row[1:])) > 1]
        return pl.DataFrame(differing, schema=dict.fromkeys(["setting", *self.names], pl.String), orient="row")

    @cached_property
    def overlap(self) -> pl.DataFrame:
        """One row per pair: positions (tick, market and side) of both, of one alone, and the shared part of all in percent."""
        keys = [source.scores.drop_nulls(["market_key", "side"]).select(_KEY).unique() for source in self.sources]
        rows = []
        for a, b in combinations(range(len(keys)), 2):
            both = keys[a].join(keys[b], on=_KEY, how="semi").height
            either = keys[a].height + keys[b].height - both
            shared = 100 * both / either if either else None
            rows.append((f"{self.names[a]}, {self.names[b]}", both, keys[a].height - both, keys[b].height - both, shared))
        schema = {
            "pair": pl.String,
            "both": pl.Int64,
            "first_only": pl.Int64,
            "second_only": pl.Int64,
            "shared_pct": pl.Float64,
        }
        return pl.DataFrame(rows, schema=schema, orient="row")

    def __repr__(self) -> str:
        said = "; ".join(
            f"{row['difference']}: " + ("no difference to estimate" if row["mean_clv_bps"] is None else _said(row))
            for row in self.differences.iter_rows(named=True)
        )
        return f"Comparison of {len(self.sources)} backtests: {said}; next: .differences, .settings, .overlap, .fixtures"

    def _repr_html_(self) -> str:
        parts = {
            f"Mean CLV, bps of probability, {self.level:.0%} interval over fixtures": self.frame,
            "Difference of mean CLV, paired by fixture, bps of probability": self.differences,
            "Settings that differ": self.settings,
            "Positions in common": self.overlap,
        }
        return html.block(
            f"Comparison on {self.sources[0].pack_id}",
            *(html.section(title, html.table(frame.columns, frame.rows())) for title, frame in parts.items() if frame.height),
        )


def _said(row: dict[str, Any]) -> str:
    interval = "" if row["low"] is None else f" [{row['low']:.2f}, {row['high']:.2f}]"
    return f"{row['mean_clv_bps']:+.2f} bps of probability{interval}"


def _settings(source: Contender) -> dict[str, str | None]:
    """Return everything that shapes a backtest, as text: agent, parameters, window, policy, fixtures."""
    started, agent = source.started, source.agent
    named: dict[str, object] = {name: agent[name] for name in ("strategy", "strategy_version", "source_sha256")}
    named |= {f"config.{name}": value for name, value in agent["config"].items()}
    named |= {f"window.{name}": value for name, value in started["window"].items()}
    named |= {f"policy.{name}": value for name, value in started["policy"].items()}
    named["fixtures"] = len(started["binding"]["fixture_ids"])
    return {name: None if value is None else str(value) for name, value in named.items()}


@dataclass(frozen=True)
class Leaderboard(Shown):
    """Backtests ranked by mean CLV, and by nothing else; made by ``clvlab.leaderboard()``."""

    sources: tuple[Contender, ...]
    level: float = 0.95
    resamples: int = 5_000
    seed: int = 0

    def __post_init__(self) -> None:
        check_settings(self.level, resamples=self.resamples)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """``OUTCOMES`` with ``rank``, and beside them fixtures, interval and cluster t of the mean, which do not rank."""
        if not self.sources:
            return backtests.leaderboard([])
        found = estimates(
            fixture_sums([source.scores for source in self.sources])[0],
            level=self.level,
            resamples=self.resamples,
            seed=self.seed,
        )
        rows = [(one.n_clusters, one.low, one.high, one.t) for one in found]
        schema = {"fixtures": pl.Int64, "low": pl.Float64, "high": pl.Float64, "t": pl.Float64}
        return rank(
            pl.concat([source.outcomes for source in self.sources]).hstack(pl.DataFrame(rows, schema=schema, orient="row"))
        )

    def __repr__(self) -> str:
        first = "" if self.frame.is_empty() else f", {self.frame['agent_id'][0]} first"
        return f"Leaderboard of {len(self.sources)} backtests{first}; next: .frame, clvlab.compare(backtests)"

    def table(self) -> str:
        """Return the ranking as an HTML table."""
        shown = self.frame.select([name for name in _RANKING if name in self.frame.columns])
        return html.table(shown.columns, shown.rows())

    def _repr_html_(self) -> str:
        return html.block(
            "Leaderboard by mean CLV (bps of probability)",
            self.table(),
            f'<p class="quiet">Intervals hold {self.level:.0%}, over fixtures; nothing but the mean ranks.</p>',
        )
