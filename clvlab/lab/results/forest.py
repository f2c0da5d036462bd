"""Means with their intervals under each other, on one scale."""

from __future__ import annotations

import polars as pl

from clvlab.application.sheets.measures import Measure
from clvlab.application.sheets.verdict import signed
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
            _numbers(row[measure.mean], row["low"], row["high"]),
            row["fixtures"],
        )
        for row in rows.iter_rows(named=True)
    ]
    return html.table(["agent", "", f"mean {measure.title}, {measure.short}", "fixtures"], shown, pictures=[1])


def _numbers(mean: float | None, low: float | None, high: float | None) -> html.Html:
    if mean is None:
        return html.Html('<span class="quiet">none</span>')
    if low is None or high is None:
        return html.Html(f"<span>{signed(mean)}</span>")
    said = [signed(value, mean, low, high) for value in (mean, low, high)]
    return html.Html(f"<span><strong>{said[0]}</strong> [{said[1]}, {said[2]}]</span>")
