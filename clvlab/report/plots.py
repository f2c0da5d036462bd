"""The pictures of a tear sheet."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from clvlab.base.progress import each
from clvlab.report.axes import BLUE, GREY, RED, axes_or_new, svg
from clvlab.report.breakdowns import group_names
from clvlab.report.figures import Sheet
from clvlab.report.html import Html
from clvlab.statistics import Calibration
from clvlab.words import counted, interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_POINTS = 400
_MOST_DOTS = 1_000
_TENTHS = ",.1f"
_CLV = "CLV, bps of probability"
# The sums by date and the means by group are drawn without a library.
_ALWAYS = ("clv", "fixtures", "entry_and_close", "permutation")
_COMPUTED = ("tables", "permutation", "sign_flips", "delay", "moved_lines")
_AWAITED = {"fixtures", "permutation"}  # drawn from what threads compute


def pictures(sheet: Sheet) -> dict[str, Html]:
    """Draw the pictures of a sheet's page as SVG elements, by name, while threads compute what the page waits for."""
    if sheet.scored.is_empty():
        return {}
    plots, settled = Plots(sheet), ("settled", "results") if sheet.settled else ()
    names = (*_ALWAYS, *(("calibration",) if sheet.calibration else ()), *settled)
    early = [name for name in names if name not in _AWAITED]
    with ThreadPoolExecutor(2) as pool:
        computed = pool.map(partial(getattr, sheet), _COMPUTED)
        drawn = {name: _drawn(plots, name) for name in each("drawing pictures", early)}
        list(each("computing nulls and breakdowns", computed, len(_COMPUTED)))
    return {name: drawn.get(name) or _drawn(plots, name) for name in each("drawing pictures", names)}


def _drawn(plots: Plots, name: str) -> Html:
    return svg(getattr(plots, name), name.replace("_", " "))


class Plots:
    """The pictures of one tear sheet, on given or new axes; a picture that aggregates many decisions says so."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet

    def clv(self, ax: Axes | None = None) -> Axes:
        """Distribution of CLV, with mean, interval and median."""
        ax, sheet = axes_or_new(ax), self._sheet
        values, clv = sheet.scored["clv_bps"].to_numpy(), sheet.clv
        if clv.mean is not None and sheet.median.median is not None:
            low, high = np.quantile(values, [0.005, 0.995])
            inside = np.clip(values, low, high)
            ax.hist(inside, bins=min(60, max(10, int(np.sqrt(values.size)))), color=BLUE, alpha=0.7)
            _span(ax, clv.low, clv.high)
            ax.axvline(clv.mean, color=RED, linewidth=1.2, label=f"mean {clv.mean:+.1f}{interval(clv.low, clv.high, _TENTHS)}")
            ax.axvline(sheet.median.median, color=GREY, linestyle="--", label=f"median {sheet.median.median:+.1f}")
            ax.legend()
        ax.set(
            xlabel=f"{_CLV} (outer 0.5 % at the edges)", ylabel="decisions", title=f"CLV of {counted(values.size, 'decision')}"
        )
        return ax

    def cumulative(self, ax: Axes | None = None) -> Axes:
        """Cumulative CLV in order of time, and its fall from the last peak."""
        ax, clv = axes_or_new(ax), self._sheet.clv
        walk = self._sheet.scored["clv_bps"].cum_sum().to_numpy()
        fall = walk - np.maximum(np.maximum.accumulate(walk), 0) if walk.size else walk
        places, width = _places(walk.size)
        starts = np.arange(0, walk.size, width)
        if walk.size:
            ax.plot(places, walk[places - 1], color=BLUE, linewidth=1.2, label="cumulative CLV")
            deepest = np.minimum.reduceat(fall, starts)
            ax.fill_between(places, deepest, 0, color=RED, alpha=0.35, linewidth=0, label="below the peak")
            ax.legend()
        low, high = (None if bound is None else bound * clv.n for bound in (clv.low, clv.high))
        title = f"Total {walk[-1]:+,} bps{interval(low, high, ',.0f')}" if walk.size else "No scored decision"
        ax.set(xlabel=f"decisions, in order of time{_point_note(width)}", ylabel="bps")
        ax.set_title(title)
        return ax

    def by_time(self, ax: Axes | None = None) -> Axes:
        """Mean CLV by time from decision to close."""
        return self._means("by_time", "Mean CLV by time to the close", ax)

    def by_market(self, ax: Axes | None = None) -> Axes:
        """Mean CLV by market."""
        return self._means("by_market", "Mean CLV by market", ax)

    def by_side(self, ax: Axes | None = None) -> Axes:
        """Mean CLV by side."""
        return self._means("by_side", "Mean CLV by side", ax)

    def by_probability(self, ax: Axes | None = None) -> Axes:
        """Mean CLV by tenth of the entry probability."""
        return self._means("by_probability", "Mean CLV by entry probability", ax)

    def fixtures(self, ax: Axes | None = None) -> Axes:
        """Total CLV of the fixtures, the best first, and the share of the five best."""
        ax = axes_or_new(ax)
        totals = self._sheet.tables["fixtures"]["total_clv_bps"].to_numpy()
        width = -(-totals.size // _MOST_POINTS) or 1
        starts = np.arange(0, totals.size, width)
        if totals.size:
            means = np.add.reduceat(totals, starts) / np.minimum(width, totals.size - starts)
            edges, heights = np.append(starts, totals.size), np.append(means, means[-1])
            for part, colour in ((np.maximum(heights, 0), BLUE), (np.minimum(heights, 0), RED)):
                ax.fill_between(edges, part, step="post", color=colour, linewidth=0)
        share = self._sheet.top_five[0]
        title = "Total CLV by fixture" if share is None else f"The five best fixtures bring {share:.0f} % of the total"
        ax.set(xlabel=f"{counted(totals.size, 'fixture')}, the best first{_point_note(width)}", ylabel=_CLV, title=title)
        return ax

    def entry_and_close(self, ax: Axes | None = None) -> Axes:
        """Entry probability against closing probability; decisions above the line beat the close."""
        ax, scored = axes_or_new(ax), self._sheet.scored
        pooled = scored.height > _MOST_DOTS
        points = scored.select(pl.col("entry_prob_bps", "close_prob_bps") / 100)
        if pooled:
            points = points.select((pl.all() / 5).floor() * 5 + 2.5)
        cells = points.group_by("entry_prob_bps", "close_prob_bps").agg(n=pl.len()).sort("entry_prob_bps", "close_prob_bps")
        most = int(cells["n"].to_numpy().max(initial=1))
        sizes = (4 + 80 * cells["n"] / most).to_numpy() if pooled else 6
        ax.scatter(cells["entry_prob_bps"], cells["close_prob_bps"], s=sizes, color=BLUE, alpha=0.6, linewidths=0)
        ax.plot([0, 100], [0, 100], color=GREY, linewidth=0.8)
        title = counted(scored.height, "decision") + (f" in cells of 5 %, at most {most:,} in one" if pooled else "")
        ax.set(xlabel="entry probability, %", ylabel="closing probability, %", title=title)
        return ax

    def permutation(self, ax: Axes | None = None) -> Axes:
        """Mean CLV of the decisions, and of the same decisions in other fixtures."""
        ax, found = axes_or_new(ax), self._sheet.permutation
        ax.set(xlabel=f"mean {_CLV}", ylabel="draws", title="No decision that other fixtures have a price for")
        if found:
            ax.hist(found.draws, bins=20, color=GREY, alpha=0.7, label="in other fixtures")
            _span(ax, found.low, found.high)
            ax.axvline(found.observed, color=RED, linewidth=1.2, label="the agent")
            ax.legend()
            ax.set_title(
                f"Agent {found.observed:+.1f}, other fixtures {found.mean:+.1f}{interval(found.low, found.high, _TENTHS)} bps"
            )
        return ax

    def calibration(self, ax: Axes | None = None) -> Axes:
        """Stated confidence against the share that beat the close."""
        return _calibration_plot(axes_or_new(ax), self._sheet.calibration, "confidence", "share that beat the close")

    def results(self, ax: Axes | None = None) -> Axes:
        """Closing probability against the share of sides that won."""
        settled = self._sheet.settled
        close = settled.close if settled else None
        return _calibration_plot(axes_or_new(ax), close, "closing probability", "share that won")

    def settled(self, ax: Axes | None = None) -> Axes:
        """Settled profit of a flat stake in order of time, and the profit that was expected at the close."""
        ax, found = axes_or_new(ax), self._sheet.settled
        title = "No decision is settled at a price"
        if found and found.roi.mean is not None:
            priced = found.frame.drop_nulls("profit")
            places, width = _places(priced.height)
            for name, colour, label in (("profit", BLUE, "settled profit"), ("expected", GREY, "expected at the close")):
                walk = priced[name].fill_null(0).cum_sum().to_numpy()
                ax.plot(places, walk[places - 1], color=colour, linewidth=1.2, label=label)
            ax.legend()
            ax.set_xlabel(f"settled decisions, in order of time{_point_note(width)}")
            title = (
                f"Return {found.roi.mean:+.1f} %{interval(found.roi.low, found.roi.high, _TENTHS)}, no measure of skill alone"
            )
        ax.set(ylabel="profit, flat stakes", title=title)
        return ax

    def _means(self, table: str, title: str, ax: Axes | None) -> Axes:
        ax, rows = axes_or_new(ax), self._sheet.tables[table]
        words = group_names(table, rows, self._sheet.scored)
        names = [name if len(name) <= 26 else f"{name[:11]}…{name[-14:]}" for name in words]
        places = np.arange(rows.height)[::-1]
        _points(ax, places, rows["mean_clv_bps"], rows["low"], rows["high"], flat=True)
        ax.axvline(0, color=GREY, linewidth=0.8)
        ax.set_ylim(-0.7, max(rows.height, 1) - 0.3)
        ax.set_yticks(places, [f"{name} ({n:,})" for name, n in zip(names, rows["n"], strict=True)], parse_math=False)
        ax.set(xlabel=f"{_CLV}, {self._sheet.level:.0%} interval", title=title)
        return ax


def _places(size: int) -> tuple[Any, int]:
    """Return the number of the last decision at each point of a long line, counted from 1, and the decisions per point."""
    width = -(-size // _MOST_POINTS) or 1
    return np.minimum(np.arange(0, size, width) + width, size), width


def _calibration_plot(ax: Axes, found: Calibration | None, stated: str, share: str) -> Axes:
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8)
    if found:
        rows = found.frame
        _points(ax, rows["confidence"].to_numpy(), rows["share"], rows["low"], rows["high"])
    title = f"No decision has a {stated}" if found is None else f"Brier {found.brier:.3f}, {counted(found.n, 'decision')}"
    ax.set(xlabel=stated, ylabel=share, title=title)
    return ax


def _points(ax: Any, places: Any, mean: pl.Series, low: pl.Series, high: pl.Series, *, flat: bool = False) -> None:
    """Draw means with intervals, vertical or ``flat``; a hollow point has no interval."""
    middle, bottom, top = (one.to_numpy().astype(float) for one in (mean, low, high))
    known = ~np.isnan(bottom)
    lines = ax.hlines if flat else ax.vlines
    lines(np.asarray(places)[known], bottom[known], top[known], color=BLUE, linewidth=1.5)
    for chosen, face in ((known, BLUE), (~known, "none")):
        x, y = np.asarray(places)[chosen], middle[chosen]
        ax.scatter(*((y, x) if flat else (x, y)), s=16, facecolors=face, edgecolors=BLUE, zorder=3)


def _span(ax: Any, low: float | None, high: float | None) -> None:
    if low is not None and high is not None:
        ax.axvspan(low, high, color=RED, alpha=0.15, linewidth=0)


def _point_note(width: int) -> str:
    return f" ({width:,} to a point)" if width > 1 else ""
