"""Walk forward: the best point so far is scored on the next fold, one fold after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from clvlab.base.names import names_checked
from clvlab.engine.agent import Agent
from clvlab.errors import StatisticsError
from clvlab.lab.progress import Progress, progress_bar
from clvlab.lab.results.sweep import agent_name
from clvlab.law.closing import Window
from clvlab.packs.reader import Pack
from clvlab.report import axes as drawing
from clvlab.report.export import Exportable
from clvlab.report.html import Html, card
from clvlab.report.power import PowerResult
from clvlab.report.tearsheet import TearSheet
from clvlab.runs.folds import FoldStep, decided_after, last_close_ms, pooled
from clvlab.runs.run import Run
from clvlab.runs.search.scorer import tape_of
from clvlab.runs.search.search import grid_points, search_of
from clvlab.runs.search.sums import KeptSums, search_points
from clvlab.runs.spec import resolve
from clvlab.statistics import Clusters, estimates
from clvlab.statistics.measures import MEASURES, Measure, fixture_sums, measure_of, stacked
from clvlab.statistics.verdict import RUN, Verdict, verdict
from clvlab.words import counted, interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OUT_OF_SAMPLE = RUN.after("Out of sample,", "Nothing to judge: no decision out of sample counts")


@dataclass(frozen=True)
class Forward:
    """One step: the best point on the folds before, and its score on this fold.

    Attributes
    ----------
    fold
        Number of the test fold, from 1; fold 0 is only used for training.
    params
        Parameters of the best point.
    train_mean, test_mean
        Means of the measure, in its unit. The test fold counts decisions after the last training close; `None` if it has none.
    n, removed
        Number of decisions of the test fold that count, and of those before the last training close.
    """

    fold: int
    train_fixtures: int
    test_fixtures: int
    params: Mapping[str, Any]
    train_mean: float
    test_mean: float | None
    n: int
    removed: int


@dataclass(frozen=True)
class WalkForward(Exportable):
    """A search that walks forward over folds; made by ``clvlab.walk_forward()``.

    Attributes
    ----------
    steps
        One step for each fold but the first.
    run
        The decisions out of sample, scored as one run.
    by
        Measure that chose points.
    points
        Number of points of the grid.
    """

    agent: str
    steps: tuple[Forward, ...]
    run: Run
    by: str
    points: int
    level: float = 0.95

    @cached_property
    def sheet(self) -> TearSheet:
        """The tear sheet of all decisions out of sample, pooled."""
        return TearSheet(self.run, self.level)

    @property
    def _measure(self) -> Measure:
        return measure_of(self.by)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row per step: fixtures, chosen parameters, means in and out of sample, decisions, removed decisions."""
        rows = [
            {
                "fold": one.fold,
                "train_fixtures": one.train_fixtures,
                "test_fixtures": one.test_fixtures,
                **one.params,
                f"train_{self._measure.column}": one.train_mean,
                f"test_{self._measure.column}": one.test_mean,
                "n": one.n,
                "removed": one.removed,
            }
            for one in self.steps
        ]
        return pl.DataFrame(rows, infer_schema_length=None)

    @property
    def removed(self) -> int:
        """Number of decisions before the last training close; they do not count."""
        return sum(one.removed for one in self.steps)

    @property
    def line(self) -> str:
        """The walk in one sentence."""
        found, measure = self.sheet.means[self.by], self._measure
        if found.mean is None:
            return f"{len(self.steps)} folds out of sample, and no decision that counts"
        train = float(np.mean([one.train_mean for one in self.steps]))
        bounds = interval(found.low, found.high, "+z.2f")
        return (
            f"{self.points} points over {len(self.steps)} folds out of sample: mean {measure.title} {found.mean:+z.2f} "
            f"{measure.unit}{bounds}, where the chosen points had {train:+z.2f} in training; {counted(found.n, 'decision')}, "
            f"{self.removed:,} removed as made before the last training close"
        )

    @property
    def verdict(self) -> Verdict:
        """The verdict on the choices out of sample, in one sentence."""
        line, means = MEASURES["clv"] if self.by == "edge" else self._measure, self.sheet.means
        return verdict(means[line.name], means["edge"], wording=_OUT_OF_SAMPLE, caveat="", unit=line.short, of=line.title)

    @names_checked
    def power(self, edge: float | None = None) -> PowerResult:
        """Return how many more fixtures out of sample would show an edge, by the measure that chose points."""
        return self.sheet.power(edge, by=self.by)

    def degradation(self, ax: Axes | None = None) -> Axes:
        """Draw the mean of each chosen point in training and on the next fold."""
        ax, measure = drawing.axes_or_new(ax), self._measure
        for one in self.steps:
            test = np.nan if one.test_mean is None else one.test_mean
            ax.plot([0, 1], [one.train_mean, test], color=drawing.BLUE, marker="o", markersize=4, linewidth=1)
            ax.annotate(f"fold {one.fold}", (1, test), textcoords="offset points", xytext=(6, -3), fontsize=8)
        ax.axhline(0, color=drawing.GREY, linewidth=0.8)
        ax.set_xticks([0, 1], ["in training", "out of sample"])
        ax.set(xlim=(-0.2, 1.3), xlabel="", ylabel=f"mean {measure.title}, {measure.unit}")
        ax.set_title("From training to the next fold")
        return ax

    def __repr__(self) -> str:
        return f"Walk forward of {self.agent}: {self.line}; next: .frame, .sheet, .degradation()"

    def _repr_html_(self) -> Html:
        return card(
            "walk_forward.html",
            f"Walk forward of {self.agent} on {self.run.pack.pack_id}",
            verdict=self.verdict,
            degradation=drawing.svg(self.degradation, "from training to the next fold"),
            line=self.line,
            explanation=self._measure.sentence,
            pooled=self.sheet.line,
            folds=self.frame,
        )


def walk(
    pack: Pack,
    agent: str | Agent,
    grid: Mapping[str, Sequence[Any]],
    folds: Sequence[tuple[int, ...]],
    *,
    by: str = "clv",
    window: Window | None = None,
    level: float = 0.95,
    kept: KeptSums | None = None,
    executor: Executor | None = None,
    progress: Progress | bool = True,
) -> WalkForward:
    """Score a grid on every fold, and choose the best point so far for the next fold; see ``clvlab.walk_forward``.

    An agent starts again for each fold, so it learns nothing from other folds.
    """
    whole_window, measure = window or Window(), measure_of(by)
    points, closed_ms = list(grid_points(grid)), 0
    sums: list[Clusters] = []
    steps, chosen, decided = [], [], []
    with progress_bar(f"Walk-forward of {agent_name(agent)}", "scoring settings", progress=progress) as tell:
        for number, fold in enumerate(folds):
            search, own = search_of(pack, agent, fold, whole_window, points[0]), []
            for found in search_points(search, points, len(points), executor=executor, kept=kept):
                own.append(found)
                tell(number * len(points) + len(own), len(points) * len(folds))
            tape = tape_of(search)
            if sums:
                best, train_mean = _best(sums)
                step = FoldStep(tape, resolve(agent, points[best], whole_window), closed_ms)
                later, removed = decided_after(step)
                steps.append(step)
                decided.append(later)
                chosen.append((number, sum(map(len, folds[:number])), len(fold), points[best], train_mean, removed))
            sums.append(stacked(own, measure)[0])
            closed_ms = max(closed_ms, last_close_ms(tape, whole_window))
    run = pooled(pack, steps, decided, whole_window, {"by": by, "folds": len(folds), "points": len(points)})
    out_of_sample = fixture_sums(run.scores.with_columns(run.at_close))
    forwards = []
    for (number, train_size, test_size, params, train_mean, removed), step in zip(chosen, steps, strict=True):
        tested = out_of_sample.filter(pl.col("fixture_id").is_in(step.fixture_ids))
        (mean,) = estimates(stacked([tested], measure)[0])
        forwards.append(Forward(number, train_size, test_size, params, train_mean, mean.mean, mean.n, removed))
    return WalkForward(agent_name(agent), tuple(forwards), run, by, len(points), level)


def _best(parts: Sequence[Clusters]) -> tuple[int, float]:
    """Return the point with the highest mean over some folds among those with an interval, and its mean."""
    stacked = Clusters(*(np.vstack([getattr(part, name) for part in parts]) for name in ("sums", "counts", "squares")))
    means = [np.nan if one.low is None or one.mean is None else one.mean for one in estimates(stacked)]
    if np.isnan(means).all():
        raise StatisticsError("no point of the grid has an interval in training: scored decisions in too few fixtures")
    best = int(np.nanargmax(means))
    return best, means[best]
