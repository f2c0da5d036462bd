"""Agents in the order in which the law ranks them, with the interval of each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import polars as pl

from clvlab.application import backtests
from clvlab.application.sheets.measures import measure_of
from clvlab.application.sheets.sums import fixture_sums
from clvlab.application.sheets.verdict import SEARCH, Wording, verdict
from clvlab.drawing import html
from clvlab.drawing.showing import Shown, check_settings
from clvlab.lab.results.comparison import mean_table
from clvlab.lab.results.contender import Contender
from clvlab.lab.results.forest import forest
from clvlab.law.ranking import rank

_RANKING = ("rank", "agent_id", "mean_clv_bps", "action_count", "fixtures", "total_clv_bps", "sim_pnl")


@dataclass(frozen=True)
class Leaderboard(Shown):
    """Backtests ranked by mean CLV as the law ranks them, or laid out by another mean; made by ``clvlab.leaderboard()``."""

    sources: tuple[Contender, ...]
    by: str = "clv"
    level: float = 0.95

    def __post_init__(self) -> None:
        check_settings(self.level)
        measure_of(self.by)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """``OUTCOMES`` with the law's ``rank``; beside it ``fixtures``, ``low``, ``high``, ``t`` and ``p_value`` of the mean.

        By another measure than CLV, rows are in order of its mean, which stands under its name; the rank is still the law's.
        Means and intervals leave entries at the closing message out, which the law ranks.
        """
        if not self.sources:
            return backtests.leaderboard([])
        measure = measure_of(self.by)
        found = mean_table([fixture_sums(source.scores) for source in self.sources], measure, self.level)
        ranked = rank(pl.concat([source.outcomes for source in self.sources]).hstack(found.drop("n", "mean_clv_bps")))
        if self.by == "clv":
            return ranked
        return ranked.sort(measure.mean, descending=True, nulls_last=True, maintain_order=True)

    def __repr__(self) -> str:
        first = "" if self.frame.is_empty() else f", {self.frame['agent_id'][0]} first"
        return f"Leaderboard of {len(self.sources)} backtests{first}; next: .frame, clvlab.compare(backtests)"

    def parts(self) -> list[str]:
        """Return what is said of the first, the forest of all, and the whole ranking folded away, as HTML."""
        measure, rows = measure_of(self.by), self.frame
        if rows.is_empty():
            return []
        first = rows.row(0, named=True)
        name = first["agent_id"]
        words = Wording(
            f"{name} stands first, above zero", f"{name} stands first, below zero",
            f"{name} stands first, not distinguishable from zero", f"{name} stands first: nothing was scored",
        )  # fmt: skip
        best = f"the best of {rows.height} looks better than it is" if rows.height > 1 else SEARCH
        said = verdict(
            first[measure.mean], first["low"], first["high"], fixtures=first["fixtures"], unit=measure.short,
            wording=words, caveat=best,
        )  # fmt: skip
        named = dict.fromkeys((*_RANKING[:2], measure.mean, "low", "high", "t", "p_value", *_RANKING[2:]))
        shown = rows.select([column for column in named if column in rows.columns])
        return [
            html.verdict(said.sentence, said.tone),
            html.section("", forest(rows.rename({"agent_id": "agent"}), measure)),
            f'<p class="quiet">By {measure.title}: {measure.question}? Intervals hold {self.level:.0%}, over fixtures; '
            "the rank is that of the law, by mean CLV.</p>",
            html.details("All figures", html.section("", html.table(shown.columns, shown.rows()))),
        ]

    def _repr_html_(self) -> str:
        measure = measure_of(self.by)
        return html.block(f"Leaderboard by mean {measure.title} ({measure.unit})", *self.parts())
