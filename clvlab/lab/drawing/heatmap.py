"""The picture of a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from clvlab.application.sheets.measures import Measure
from clvlab.drawing.axes import GREY
from clvlab.drawing.showing import optional

_LABELLED_CELLS = 60
_DARK = "#111111"  # on cells, which have colours of their own: black would become the ink of the page


def draw_heatmap(
    frame: pl.DataFrame, grid: Mapping[str, tuple[Any, ...]], measure: Measure, x: str, y: str | None, alpha: float, ax: Any
) -> Any:
    """Draw the mean over one or two parameters; white is zero, grey is no scored decision.

    Parameters
    ----------
    frame
        Rows in order of the grid, with the mean of the measure and ``p_family``.
    grid
        Values of each parameter, in the order of the rows: the last one changes fastest.
    measure
        What is drawn the mean of.
    x, y
        Parameters along the axes; means over the others are drawn.
    alpha
        Family-wise p-values below it get a dot, where no other parameter is averaged over.
    ax
        Where to draw.
    """
    shape = tuple(len(values) for values in grid.values())
    names = list(grid)
    others = tuple(k for k, name in enumerate(names) if name not in (x, y))
    means = frame[measure.mean].to_numpy().astype(float).reshape(shape)
    counted = ~np.isnan(means)
    with np.errstate(invalid="ignore"):
        cells = np.where(counted, means, 0).sum(axis=others) / counted.sum(axis=others)
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
