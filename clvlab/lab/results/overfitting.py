"""What the best point of a sweep is worth on fixtures that did not choose it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from clvlab.application.sheets.measures import Measure
from clvlab.application.sheets.sums import stacked
from clvlab.application.sheets.verdict import Tone, Verdict
from clvlab.drawing import axes as drawing
from clvlab.drawing import html
from clvlab.drawing.showing import Shown
from clvlab.lab.drawing.splits import draw_splits
from clvlab.statistics import Clusters, Overfitting, overfitting
from clvlab.statistics.overfitting import Statistic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHOWN_ROWS = 10
_STABLE, _WORTHLESS = 0.1, 0.45
_READING = (
    "PBO near one half: the choice among these points is worth nothing, though all of them may be good or bad. Near 0 the same "
    "points stay good. The slope leans below zero by construction, because what one half has the other lacks. Halves of one "
    "sample share its luck: PBO is no p-value."
)


def overfitting_of(
    sums: Sequence[pl.DataFrame], points: pl.DataFrame, measure: Measure, fixtures: pl.DataFrame, blocks: int,
    statistic: Statistic,
) -> OverfittingResult:  # fmt: skip
    """Choose among the points of a sweep in each half of its fixtures; see ``clvlab.statistics.overfitting``.

    Parameters
    ----------
    sums
        ``FIXTURE_SUMS`` of each point; fixtures in which none decided are left out.
    points
        Their parameters, a row each.
    measure
        What they are judged by.
    fixtures
        ``fixture_id, kickoff_ts_ms`` of the pack: blocks are cut in order of kickoff, then of id, unknown kickoffs last.
    blocks, statistic
        Number of blocks, and what chooses: ``mean`` or ``t``.

    Raises
    ------
    StatisticsError
        Too few points or fixtures, or blocks that can't be halved.
    """
    clusters, ids = stacked(sums, measure)
    kickoffs = pl.DataFrame({"fixture_id": ids}).with_row_index("row").join(fixtures, on="fixture_id", how="left")
    order = kickoffs.sort("kickoff_ts_ms", "fixture_id", nulls_last=True)["row"].to_numpy()
    in_time = Clusters(clusters.sums[order], clusters.counts[order], clusters.squares[order])
    return OverfittingResult(overfitting(in_time, blocks=blocks, statistic=statistic), points, measure)


@dataclass(frozen=True)
class OverfittingResult(Shown):
    """How often the best point of one half of the fixtures is no better than the median point in the other half.

    Made by ``Sweep.overfitting()``; of no influence on any score or rank.

    Attributes
    ----------
    source
        The splits.
    points
        Parameters of the points, a row each.
    measure
        What they are judged by.
    """

    source: Overfitting
    points: pl.DataFrame = field(repr=False)
    measure: Measure

    @property
    def pbo(self) -> float:
        """Probability of backtest overfitting, 0..1."""
        return self.source.pbo

    @property
    def frame(self) -> pl.DataFrame:
        """One row per split: (point, in_sample, out_of_sample, rank, logit).

        ``point`` is the number of the point that was chosen, ``rank`` its relative rank out of sample, 0..1. Samples are in the
        unit of the measure, or in standard errors where ``t`` chose.
        """
        found = self.source
        return pl.DataFrame(
            {
                "point": found.chosen,
                "in_sample": found.in_sample,
                "out_of_sample": found.out_of_sample,
                "rank": found.ranks,
                "logit": found.logits,
            }
        )

    @property
    def chosen(self) -> pl.DataFrame:
        """One row per point that was ever chosen, the most frequent first: (point, parameters, share of the splits)."""
        point, times = np.unique(self.source.chosen, return_counts=True)
        table = pl.DataFrame({"point": point}).hstack(self.points[point.tolist()])
        return table.with_columns(share=pl.Series(times / self.source.splits)).sort("share", "point", descending=[True, False])

    @property
    def quantity(self) -> str:
        """What chooses and ranks, in words with its unit."""
        title = self.measure.title
        return f"mean {title}, {self.measure.unit}" if self.source.statistic == "mean" else f"cluster t of {title}"

    @property
    def line(self) -> str:
        """What came out, in one sentence."""
        found = self.source
        left = f", the last {found.left_out} fixtures left out" if found.left_out else ""
        unjudged = f" ({found.unjudged} more lack decisions in some half)" if found.unjudged else ""
        slope = f"{found.slope:+.2f}" if np.isfinite(found.slope) else "none"
        return (
            f"PBO {found.pbo:.2f} of {found.configurations} points{unjudged} by {self.quantity.partition(',')[0]}, over "
            f"{found.splits:,} splits of {found.blocks} blocks of {found.fixtures} fixtures{left}; the choice is below zero "
            f"out of sample in {100 * found.loss:.0f} % of them, slope of out of sample on in sample {slope}"
        )

    @property
    def verdict(self) -> Verdict:
        """What the choice among these points is worth, in one sentence."""
        found = self.source
        said = f"PBO {found.pbo:.2f} of {found.configurations} points over {found.splits:,} splits"
        if found.pbo >= _WORTHLESS:
            return Verdict(f"The choice among these points is worth nothing: {said}.", Tone.LOSES)
        if found.pbo > _STABLE:
            return Verdict(f"Part of what the choice promises is luck: {said}.", Tone.UNCLEAR)
        return Verdict(f"The points that are chosen stay good out of sample: {said}.", Tone.BEATS)

    def scatter(self, ax: Axes | None = None) -> Axes:
        """Draw what each split chose: in the half that chose it against the other half.

        Raises
        ------
        MissingLibraryError
            matplotlib is not installed.
        """
        ax = drawing.axes_or_new(ax)
        draw_splits(self.source, self.quantity, ax)
        return ax

    def __repr__(self) -> str:
        return f"Overfitting: {self.line}; next: .frame, .chosen, .scatter()"

    def _repr_html_(self) -> str:
        shown = self.chosen.head(_SHOWN_ROWS)
        return html.block(
            "Overfitting of the choice",
            html.verdict(self.verdict.sentence, self.verdict.tone),
            html.figures([drawing.svg(self.scatter, "in sample against out of sample")]),
            f"<p>{html.unbroken(self.line)}.</p>",
            f'<p class="quiet">{self.measure.asked} {_READING}</p>',
            html.details(
                "Points by how often they were chosen",
                html.section("", html.table(shown.columns, shown.rows())),
                html.rest(self.chosen.height, shown.height, ".chosen"),
            ),
        )
