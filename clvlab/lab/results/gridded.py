"""What can be said of the points of a grid, and their picture."""

from __future__ import annotations

from collections.abc import Mapping
from math import isclose
from typing import Any

import polars as pl

from clvlab.application.sheets.measures import Measure
from clvlab.application.sheets.verdict import Tone, Verdict
from clvlab.drawing import html
from clvlab.drawing.cells import cell_grid
from clvlab.words import short_p_value

_MOST_COLUMNS, _MOST_ROWS = 12, 20
_ALPHA = 0.05  # of sentences that do not name it


def sweep_verdict(frame: pl.DataFrame, trials: int, alpha: float) -> Verdict:
    """Say what is left of the points of a sweep when all trials are counted.

    Parameters
    ----------
    frame
        ``Sweep.frame``.
    trials
        Trials on record: these points and those made before.
    alpha
        A point stays where its family-wise p is below.

    Examples
    --------
    >>> points = pl.DataFrame({"p_alone": [0.01, 0.2], "p_family": [0.19, 1.0]})
    >>> sweep_verdict(points, 24, 0.05).sentence
    'No point stays above zero when all 24 trials are counted (best p .19); taken alone 1 would.'
    """
    known = frame.drop_nulls("p_family")
    if known.is_empty():
        return Verdict("Nothing to judge: no point has scored decisions in enough fixtures.", Tone.NOTHING)
    left, alone = (known.filter(pl.col(name) < alpha).height for name in ("p_family", "p_alone"))
    best = short_p_value(float(known["p_family"].sort()[0]))
    counted = (
        f"when all {trials:,} trials are counted (best {best}{'' if isclose(alpha, _ALPHA) else f', judged at {alpha:.2g}'})"
    )
    if left:
        verb = "stays" if left == 1 else "stay"
        return Verdict(
            f"{left:,} of {frame.height:,} points {verb} above zero {counted}; taken alone {alone:,} would.", Tone.BEATS
        )
    return Verdict(f"No point stays above zero {counted}; taken alone {alone:,} would.", Tone.UNCLEAR)


def grid_picture(frame: pl.DataFrame, grid: Mapping[str, tuple[Any, ...]], measure: Measure, alpha: float) -> str:
    """Draw the means of a grid over its first two parameters with several values; with more, one picture for each of the rest.

    Parameters
    ----------
    frame
        ``Sweep.frame``.
    grid
        Values of each parameter.
    measure
        What the means are of.
    alpha
        A point whose family-wise p is below gets a frame.
    """
    several = [name for name, values in grid.items() if len(values) > 1] or list(grid)
    x, y = several[0], several[1] if len(several) > 1 else None
    if len(grid[x]) > _MOST_COLUMNS or (y and len(grid[y]) > _MOST_ROWS) or len(several) > 2:
        return _best_rows(frame, grid, measure)
    values, notes, framed = {}, {}, []
    for point in frame.iter_rows(named=True):
        if point[measure.mean] is None:
            continue
        place = (grid[y].index(point[y]) if y else 0, grid[x].index(point[x]))
        values[place] = point[measure.mean]
        if point["p_family"] is not None:
            notes[place] = short_p_value(point["p_family"])
            framed += [place] if point["p_family"] < alpha else []
    drawn = cell_grid(
        [str(value) for value in grid[x]], [str(value) for value in grid[y]] if y else [""], values, notes, framed=framed,
        across=x, down=y or "", title=f"mean {measure.title} over the grid",
    )  # fmt: skip
    key = f"Mean {measure.title}, {measure.unit}; p counts all trials on record; a frame marks p < {alpha:.2g}."
    return f'{drawn}<p class="quiet">{key}</p>'


def _best_rows(frame: pl.DataFrame, grid: Mapping[str, tuple[Any, ...]], measure: Measure) -> str:
    """Show the best points of a grid that no picture holds: parameters, mean, interval and p."""
    best = frame.drop_nulls(measure.mean).sort(measure.mean, descending=True, maintain_order=True).head(10)
    columns = [*grid, measure.mean, "low", "high", "p_family"]
    return html.section(f"The ten highest of {frame.height:,} points", html.table(columns, best.select(columns).rows()))
