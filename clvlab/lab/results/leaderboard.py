"""Agents in the order in which the law ranks them, with the interval of each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import polars as pl

from clvlab.drawing import html
from clvlab.drawing.showing import Shown, check_settings
from clvlab.lab.results.comparison import mean_table
from clvlab.law.metrics import rank
from clvlab.report.headline import SEARCH, Phrases, verdict
from clvlab.report.means import forest
from clvlab.runs import ranking
from clvlab.runs.card import ANSWERS_PUBLIC, may_hold_past
from clvlab.runs.run import Run
from clvlab.statistics.measures import fixture_sums, measure_of

_RANKING = ("rank", "agent_id", "mean_clv_bps", "action_count", "fixtures", "total_clv_bps", "sim_pnl")


@dataclass(frozen=True)
class Leaderboard(Shown):
    """Backtests ranked by mean CLV as the law ranks them, or laid out by another mean; made by ``clvlab.leaderboard()``."""

    sources: tuple[Run, ...]
    by: str = "clv"
    level: float = 0.95

    def __post_init__(self) -> None:
        check_settings(self.level)
        measure_of(self.by)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """``OUTCOMES`` with the law's ``rank``; beside it ``fixtures``, ``low``, ``high``, ``t`` and ``p_value`` of the mean.

        Agents that can't hold the past come first; those of which ``hindsight_possible`` is true come after them.
        By another measure than CLV, rows are in order of its mean, which stands under its name; the rank is still the law's.
        Means and intervals leave entries at the closing message out, which the law ranks.
        """
        if not self.sources:
            return ranking.leaderboard([]).with_columns(hindsight_possible=pl.lit(value=False))
        measure = measure_of(self.by)
        found = mean_table([fixture_sums(source.marked) for source in self.sources], measure, self.level)
        held = [may_hold_past(source.agent, source.started["source_mode"]) for source in self.sources]
        made = pl.concat([source.outcomes for source in self.sources]).hstack(found.drop("n", "mean_clv_bps"))
        ranked = rank(made.with_columns(hindsight_possible=pl.Series(held, dtype=pl.Boolean)))
        if self.by != "clv":
            ranked = ranked.sort(measure.mean, descending=True, nulls_last=True, maintain_order=True)
        return ranked.sort("hindsight_possible", maintain_order=True)

    def __repr__(self) -> str:
        firm = self._firm
        first = "" if firm.is_empty() else f", {firm['agent_id'][0]} first"
        return f"Leaderboard of {len(self.sources)} backtests{first}; next: .frame, clvlab.compare(backtests)"

    @property
    def _firm(self) -> pl.DataFrame:
        """Rows of agents that can't hold the past."""
        return self.frame.remove("hindsight_possible")

    def parts(self) -> list[str]:
        """Return what is said of the first, the forest of all, and the whole ranking folded away, as HTML.

        Agents that may hold the past have a forest of their own, of whose first nothing is said.
        """
        measure, rows = measure_of(self.by), self.frame
        if rows.is_empty():
            return []
        doubtful = rows.filter("hindsight_possible").rename({"agent_id": "agent"})
        named = dict.fromkeys((*_RANKING[:2], measure.mean, "low", "high", "t", "p_value", *_RANKING[2:]))
        shown = rows.select([column for column in named if column in rows.columns])
        return [
            *self._firm_parts(),
            *([html.section(ANSWERS_PUBLIC, forest(doubtful, measure))] if doubtful.height else []),
            f'<p class="quiet">{measure.sentence} Intervals hold {self.level:.0%}, over fixtures; '
            "the rank is that of the law, by mean CLV.</p>",
            html.details("All figures", html.section("", html.table(shown.columns, shown.rows()))),
        ]

    def _firm_parts(self) -> list[str]:
        """Return what is said of the first agent that can't hold the past, and the forest of all of those."""
        measure, rows = measure_of(self.by), self._firm
        if rows.is_empty():
            return []
        first = rows.row(0, named=True)
        name = first["agent_id"]
        words = Phrases(
            f"{name} stands first, above zero", f"{name} stands first, below zero",
            f"{name} stands first, not distinguishable from zero", f"{name} stands first: nothing was scored",
        )  # fmt: skip
        best = f"the best of {rows.height} looks better than it is" if rows.height > 1 else SEARCH
        said = verdict(
            first[measure.mean], first["low"], first["high"], fixtures=first["fixtures"], unit=measure.short,
            wording=words, caveat=best,
        )  # fmt: skip
        return [html.verdict(said.sentence, said.tone), html.section("", forest(rows.rename({"agent_id": "agent"}), measure))]

    def _repr_html_(self) -> str:
        measure = measure_of(self.by)
        return html.block(f"Leaderboard by mean {measure.title} ({measure.unit})", *self.parts())
