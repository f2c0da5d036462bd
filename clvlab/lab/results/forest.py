"""Means with their intervals under each other, on one scale."""

from __future__ import annotations

import polars as pl

from clvlab.application.sheets.means import mean_cell
from clvlab.application.sheets.measures import Measure
from clvlab.drawing import html
from clvlab.drawing.rows import interval_cell, scale


def forest(rows: pl.DataFrame, measure: Measure) -> str:
    """Show means with their intervals as a table with a picture in it, in the order of the rows.

    Parameters
    ----------
    rows
        With ``agent``, the mean under the measure's name, ``low``, ``high`` and ``fixtures``.
    measure
        What the means are of.
    """
    within = scale([*rows["low"], *rows["high"], *rows[measure.mean]])
    shown = [
        (
            row["agent"],
            interval_cell(row[measure.mean], row["low"], row["high"], within),
            mean_cell(row[measure.mean], row["low"], row["high"]),
            row["fixtures"],
        )
        for row in rows.iter_rows(named=True)
    ]
    return html.table(["agent", "", f"mean {measure.title}, {measure.short}", "fixtures"], shown, pictures=[1])
