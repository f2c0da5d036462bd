"""Searches over a grid, judged with all trials counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isclose
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from clvlab.agents.template import Params
from clvlab.base import progress
from clvlab.engine.agent import Agent
from clvlab.law.closing import Window
from clvlab.packs.reader import Pack
from clvlab.report import axes as drawing
from clvlab.report.axes import BLUE, GREY, RED
from clvlab.report.cautions import cautions_of_points
from clvlab.report.export import Exportable, optional
from clvlab.report.html import Html, card
from clvlab.report.svg import cell_grid
from clvlab.runs.search.search import check_trials, grid_of, grid_points, grid_size, search_of, spoken
from clvlab.runs.search.sums import search_points
from clvlab.statistics import Clusters, Estimate, Overfitting, estimates, family_of, overfitting
from clvlab.statistics.means import finite
from clvlab.statistics.measures import MEASURES, Measure, stacked
from clvlab.statistics.overfitting import Statistic
from clvlab.statistics.verdict import RUN, Figure, Tone, Verdict, verdict
from clvlab.words import counted, p_value, short_p_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# The picture of a sweep.


_LABELLED_CELLS = 60
_DARK = "#111111"  # text on coloured cells: black would be replaced by the text colour of the page


def draw_heatmap(
    frame: pl.DataFrame, grid: Mapping[str, tuple[Any, ...]], measure: Measure, x: str, y: str | None, alpha: float, ax: Any
) -> Any:
    """Draw the mean over one or two parameters; white is zero, grey is a point without a scored decision."""
    shape = tuple(len(values) for values in grid.values())
    names = list(grid)
    others = tuple(k for k, name in enumerate(names) if name not in (x, y))
    means = frame[measure.mean].to_numpy().astype(float).reshape(shape)
    known = ~np.isnan(means)
    with np.errstate(invalid="ignore"):
        cells = np.where(known, means, 0).sum(axis=others) / known.sum(axis=others)
    averaged = any(shape[k] > 1 for k in others)
    good = np.asarray((frame["p_family"].fill_null(1) < alpha).to_numpy().reshape(shape).any(axis=others) & (not averaged))
    if y is None:
        cells, good = cells[None, :], good[None, :]
    elif names.index(x) < names.index(y):
        cells, good = cells.T, good.T
    reach = float(np.nanmax(np.abs(cells), initial=0)) or 1.0
    colours = optional("matplotlib", "a heatmap").colormaps["RdBu"].with_extremes(bad=GREY)
    image = ax.pcolormesh(cells, cmap=colours, vmin=-reach, vmax=reach)
    ax.figure.colorbar(image, ax=ax, label=f"mean {measure.title}, {measure.unit}")
    for (row, column), mean in np.ndenumerate(cells):
        if cells.size <= _LABELLED_CELLS and not np.isnan(mean):
            ink = "white" if abs(mean) > 0.6 * reach else _DARK
            ax.text(
                column + 0.5,
                row + 0.5,
                f"{mean:+.0f}" if reach >= 10 else f"{mean:+.1f}",
                ha="center",
                va="center",
                fontsize=8,
                color=ink,
            )
        if good[row, column]:
            ax.plot(column + 0.85, row + 0.8, marker="o", markersize=3, color=_DARK)
    ax.set_xticks(np.arange(len(grid[x])) + 0.5, [str(value) for value in grid[x]])
    ax.set_xlabel(x)
    if y is None:
        ax.set_yticks([])
    else:
        ax.set_yticks(np.arange(len(grid[y])) + 0.5, [str(value) for value in grid[y]])
        ax.set_ylabel(y)
    dots = f"dot: family-wise p < {alpha:.2g}" if not averaged else "means over the other parameters"
    ax.set_title(f"Mean {measure.title} by {x}" + (f" and {y}" if y else "") + f" ({dots})", fontsize=9)


# The picture of choices out of sample.


MOST_DOTS = 1_500


def draw_splits(found: Overfitting, quantity: str, ax: Any) -> Any:
    """Draw the figure of each split's choice in and out of sample; of many splits, equally spaced ones are drawn."""
    step = -(-found.splits // MOST_DOTS)
    splits = np.arange(0, found.splits, step)
    below = 2 * found.ranks[splits] <= 1
    for chosen, colour, label in ((~below, BLUE, "above the median"), (below, RED, "at or below it")):
        own = splits[chosen]
        ax.scatter(found.in_sample[own], found.out_of_sample[own], s=7, color=colour, alpha=0.45, linewidths=0, label=label)
    ax.axhline(0, color=GREY, linewidth=0.8)
    if np.isfinite(found.slope):
        ends = np.array([found.in_sample.min(), found.in_sample.max()])
        ax.plot(ends, found.intercept + found.slope * ends, color=GREY, linewidth=1.2, label=f"slope {found.slope:+.2f}")
    ax.legend()
    dots = f"one dot a split, {splits.size:,} of {found.splits:,}" if step > 1 else "one dot a split"
    ax.set(
        xlabel=f"{quantity}, in the half that chose ({dots})",
        ylabel="in the other half",
        title=f"PBO {found.pbo:.2f}: the choice out of sample",
    )
    return ax


# The verdict on the points of a grid, and their picture.


_MOST_COLUMNS, _MOST_ROWS = 12, 20
_ALPHA = 0.05  # level of the sentences that do not name a level


def sweep_verdict(frame: pl.DataFrame, trials: int, alpha: float, by: str = "clv") -> Verdict:
    """Return the verdict on the points of a sweep by a measure, corrected for all trials.

    The sentence also counts points by the other figure, which is not corrected: the edge, or CLV where the edge is corrected.
    It counts those that stay, or all if none does.

    Examples
    --------
    >>> p_values = {"p_alone": [0.01, 0.2], "p_family": [0.19, 1.0]}
    >>> points = pl.DataFrame(p_values | {"mean_edge_pct": [-3.0, -2.0], "edge_low": [-4.0, -5.0], "edge_high": [-2.0, 1.0]})
    >>> sweep_verdict(points, 24, 0.05).sentence.partition("; ")[2]
    'at the prices taken, 0 of 2 pay and 1 loses, if the close is right.'
    """
    known = frame.drop_nulls("p_family")
    if known.is_empty():
        return Verdict("Nothing to judge: no setting has scored decisions in enough fixtures.", Tone.NOTHING)
    left, alone = (known.filter(pl.col(name) < alpha).height for name in ("p_family", "p_alone"))
    best = short_p_value(float(known["p_family"].sort()[0]))
    judged = "" if isclose(alpha, _ALPHA) else f", judged at {alpha:.2g}"
    corrected = f"after correction for {counted(trials, 'trial')} ({alone:,} uncorrected, best {best}{judged})"
    other, tone = _other_figure(known.filter(pl.col("p_family") < alpha) if left else known, by, stays=left > 0)
    if left:
        verb = "stays" if left == 1 else "stay"
        return Verdict(f"{left:,} of {frame.height:,} settings {verb} above zero {corrected}; {other}.", tone)
    return Verdict(f"No setting stays above zero {corrected}; {other}.", tone)


def _other_figure(points: pl.DataFrame, by: str, *, stays: bool) -> tuple[str, Tone]:
    """Return what the other figure says of points in words, and the tone of both: ``beats`` only where a price pays too."""
    name = "clv" if by == "edge" else "edge"
    rows = points.select(MEASURES[name].mean, f"{name}_low", f"{name}_high").drop_nulls(MEASURES[name].mean)
    tones = [Figure(mean, low, high, 0).tone for mean, low, high in rows.iter_rows()]
    above, below = tones.count(Tone.BEATS), tones.count(Tone.LOSES)
    lost = Tone.LOSES if below == points.height and by != "edge" else Tone.UNCLEAR
    tone = lost if not stays else Tone.BEATS if above or not tones else lost
    if not tones:
        return RUN.unpriced, tone
    of = f"{above:,} of {points.height:,}"
    if by == "edge":
        return f"by the line, {of} {'is' if above == 1 else 'are'} above zero and {below:,} below", tone
    pay, lose = "pays" if above == 1 else "pay", "loses" if below == 1 else "lose"
    return f"at the prices taken, {of} {pay} and {below:,} {lose}, if the close is right", tone


def grid_picture(frame: pl.DataFrame, grid: Mapping[str, tuple[Any, ...]], measure: Measure, alpha: float) -> Html:
    """Draw the means of a grid over one or two parameters; empty if it is too large."""
    several = [name for name, values in grid.items() if len(values) > 1] or list(grid)
    x, y = several[0], several[1] if len(several) > 1 else None
    if len(grid[x]) > _MOST_COLUMNS or (y and len(grid[y]) > _MOST_ROWS) or len(several) > 2:
        return Html("")
    values, notes, framed = {}, {}, []
    for point in frame.iter_rows(named=True):
        if point[measure.mean] is None:
            continue
        place = (grid[y].index(point[y]) if y else 0, grid[x].index(point[x]))
        values[place] = point[measure.mean]
        if point["p_family"] is not None:
            notes[place] = short_p_value(point["p_family"])
            framed += [place] if point["p_family"] < alpha else []
    return cell_grid(
        [str(value) for value in grid[x]], [str(value) for value in grid[y]] if y else [""], values, notes, framed=framed,
        across=x, down=y or "", title=f"mean {measure.title} over the grid",
    )  # fmt: skip


def best_points(frame: pl.DataFrame, grid: Mapping[str, tuple[Any, ...]], measure: Measure) -> pl.DataFrame:
    """Return the best points of a large grid: parameters, mean, interval and p."""
    best = frame.drop_nulls(measure.mean).sort(measure.mean, descending=True, maintain_order=True).head(10)
    other = MEASURES["clv" if measure.name == "edge" else "edge"]
    return best.select(*grid, measure.mean, "low", "high", "p_family", other.mean, f"{other.name}_low", f"{other.name}_high")


_MAX_ROWS = 10
_STABLE, _WORTHLESS = 0.1, 0.45
_READING = (
    "PBO near one half: the choice among these settings is worth nothing, though all of them may be good or bad. Near 0 the "
    "same settings stay good. The slope leans below zero by construction, because both halves share one total. Halves of one "
    "sample share its luck: PBO is not a p-value."
)


def overfitting_of(
    sums: Sequence[pl.DataFrame], points: pl.DataFrame, measure: Measure, fixtures: pl.DataFrame, blocks: int,
    statistic: Statistic,
) -> OverfittingResult:  # fmt: skip
    """Choose among the points of a sweep in each half of its fixtures; see ``clvlab.statistics.overfitting``."""
    clusters, ids = stacked(sums, measure)
    kickoffs = pl.DataFrame({"fixture_id": ids}).with_row_index("row").join(fixtures, on="fixture_id", how="left")
    order = kickoffs.sort("kickoff_ts_ms", "fixture_id", nulls_last=True)["row"].to_numpy()
    in_time = Clusters(clusters.sums[order], clusters.counts[order], clusters.squares[order])
    return OverfittingResult(overfitting(in_time, blocks=blocks, statistic=statistic), points, measure)


@dataclass(frozen=True)
class OverfittingResult(Exportable):
    """How often the best point in half of the fixtures is no better than the median in the other half.

    Made by ``Sweep.overfitting()``; it does not change scores or ranks.

    Attributes
    ----------
    source
        The splits.
    points
        Parameters of the points, a row each.
    measure
        The measure of the points.
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

        ``point`` is the number of the chosen point, ``rank`` its relative rank out of sample, 0..1. Samples are in the
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
        """One row per chosen point, the most frequent first: (point, parameters, share of the splits)."""
        point, times = np.unique(self.source.chosen, return_counts=True)
        table = pl.DataFrame({"point": point}).hstack(self.points[point.tolist()])
        return table.with_columns(share=pl.Series(times / self.source.splits)).sort("share", "point", descending=[True, False])

    @property
    def quantity(self) -> str:
        """The ranking statistic in words, with its unit."""
        title = self.measure.title
        return f"mean {title}, {self.measure.unit}" if self.source.statistic == "mean" else f"cluster t of {title}"

    @property
    def line(self) -> str:
        """The result in one sentence."""
        found = self.source
        left = f", the last {found.left_out} fixtures left out" if found.left_out else ""
        unjudged = f" ({found.unjudged} more lack decisions in some half)" if found.unjudged else ""
        slope = f"{found.slope:+.2f}" if np.isfinite(found.slope) else "none"
        return (
            f"PBO {found.pbo:.2f} of {found.configurations} settings{unjudged} by {self.quantity.partition(',')[0]}, over "
            f"{found.splits:,} splits of {found.blocks} blocks of {found.fixtures} fixtures{left}; the choice is below zero "
            f"out of sample in {100 * found.loss:.0f} % of them, slope of out of sample on in sample {slope}"
        )

    @property
    def verdict(self) -> Verdict:
        """One sentence on the value of the choice among these points."""
        found = self.source
        basis = f"PBO {found.pbo:.2f} of {found.configurations} settings over {found.splits:,} splits"
        if found.pbo >= _WORTHLESS:
            return Verdict(f"The choice among these settings is worth nothing: {basis}.", Tone.LOSES)
        if found.pbo > _STABLE:
            return Verdict(f"Part of what the choice promises is luck: {basis}.", Tone.UNCLEAR)
        return Verdict(f"The chosen settings stay good out of sample: {basis}.", Tone.BEATS)

    def scatter(self, ax: Axes | None = None) -> Axes:
        """Draw the figure of each split's choice, in sample against out of sample.

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

    def _repr_html_(self) -> Html:
        return card(
            "overfitting.html",
            "Overfitting of the choice",
            verdict=self.verdict,
            scatter=drawing.svg(self.scatter, "in sample against out of sample"),
            line=self.line,
            explanation=self.measure.sentence,
            reading=_READING,
            rows=self.chosen.head(_MAX_ROWS),
            height=self.chosen.height,
        )


_LEVEL = 0.95
_LUCK = "The best setting is what luck over a grid can give"
_LUCKY_LOSS = "Loses at its prices, and its CLV is what luck over a grid can give"


@dataclass(frozen=True)
class Point:
    """One point: parameters, mean CLV and edge, and the p-values of ``Family`` by CLV, `None` without an interval."""

    params: Params
    clv: Estimate
    edge: Estimate
    p_family: float | None
    p_worst: float | None

    def facts(self) -> Mapping[str, object]:
        """Return the point as JSON values."""
        clv, edge = self.clv, self.edge
        figures = {"mean_clv_bps": clv.mean, "low": clv.low, "high": clv.high, "n": clv.n, "fixtures": clv.n_clusters}
        figures |= {"mean_edge_pct": edge.mean, "edge_low": edge.low, "edge_high": edge.high}
        return {
            "params": dict(self.params),
            **figures,
            "p_alone": clv.p_value,
            "p_family": self.p_family,
            "p_worst": self.p_worst,
        }


@dataclass(frozen=True)
class HonestSearch:
    """The points of a grid, the number of trials including earlier ones, and warnings."""

    points: tuple[Point, ...]
    trials: int
    cautions: tuple[str, ...]

    @property
    def best(self) -> Point | None:
        """The point with the highest mean among those with an interval; `None` without any."""
        known = [point for point in self.points if point.clv.low is not None]
        return max(known, key=lambda point: point.clv.mean or 0.0, default=None)

    @property
    def verdict(self) -> Verdict:
        """The verdict on the best point."""
        best = self.best
        if best is None or best.p_family is None:
            return Verdict("Nothing to judge: no setting has scored decisions in enough fixtures.", Tone.NOTHING)
        passed = best.p_family < 1 - _LEVEL
        chance = f"p {p_value(best.p_family)} counting all {self.trials:,} trials"
        words = RUN if passed else replace(RUN, both={**RUN.both, (Tone.BEATS, Tone.LOSES): _LUCKY_LOSS})
        spelt = verdict(best.clv, best.edge, wording=words.after("The best setting"), caveat="")
        line, price = (Figure.of(one).tone for one in (best.clv, best.edge))
        if Tone.LOSES not in (line, price) and (not passed or line is price is Tone.UNCLEAR):
            alone = spelt.sentence.partition(": ")[2].rstrip(".")
            uncorrected = ", uncorrected, but" if Tone.BEATS in (line, price) else ","
            return Verdict(f"{_LUCK}: {alone}{uncorrected} {chance}.", Tone.UNCLEAR)
        return Verdict(f"{spelt.sentence.rstrip('.')}, {chance}.", spelt.tone)

    def facts(self) -> Mapping[str, object]:
        """Return the search as JSON values."""
        best = self.best
        return {
            "trials": self.trials,
            "verdict": self.verdict.sentence,
            "tone": self.verdict.tone.value,
            "cautions": list(self.cautions),
            "best": None if best is None else best.facts(),
            "points": [point.facts() for point in self.points],
        }


def honest_search(
    pack: Pack,
    agent: str | Agent,
    grid: Mapping[str, Sequence[Any]],
    *,
    window: Window | None = None,
    fixture_ids: Sequence[int] | None = None,
    earlier: int = 0,
) -> HonestSearch:
    """Score an agent at every point of a grid, unsealed, and judge them together."""
    values = grid_of(grid)
    check_trials(earlier)
    each, count = list(grid_points(values)), grid_size(values)
    summed = search_points(search_of(pack, agent, fixture_ids, window or Window(), each[0]), each, count)
    found = list(progress.each("scoring settings", summed, count))
    progress.report("judging all settings together")
    clusters, priced = (stacked(found, MEASURES[name])[0] for name in ("clv", "edge"))
    family = family_of(clusters, earlier=earlier)
    means = (estimates(one, level=_LEVEL) for one in (clusters, priced))
    points = zip(each, *means, family.p_values, family.p_worst, strict=True)
    return HonestSearch(
        tuple(Point(params, clv, edge, finite(p), finite(worst)) for params, clv, edge, p, worst in points),
        count + earlier,
        tuple(cautions_of_points(clusters, found)),
    )


def point_text(point: Point) -> str:
    """Return the parameters of a point in words."""
    return spoken(point.params)
