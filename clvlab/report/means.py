"""The means of one agent's scores, and how they are spelt."""

from __future__ import annotations

import polars as pl

from clvlab.drawing import html
from clvlab.drawing.html import Html
from clvlab.drawing.ink import interval_cell, scale
from clvlab.statistics import BeatRate, Estimate, estimates
from clvlab.statistics.measures import MEASURES, Measure, fixture_sums, stacked
from clvlab.words import counted, estimate, interval, share

LEVEL = 0.95
TOO_FEW = "too few fixtures for an interval"


def means_of(scores: pl.DataFrame) -> dict[str, Estimate]:
    """Return the means of ``SCORES`` with ``at_close`` that the statistics count, by name of their measure.

    Examples
    --------
    >>> import clvlab as cl
    >>> means_of(cl.backtest("starter", "cumulative-drift").scores)["clv"].n_clusters
    12
    """
    sums = [fixture_sums(scores)]
    return {name: estimates(stacked(sums, one)[0], level=LEVEL)[0] for name, one in MEASURES.items()}


def spelt_mean(found: Estimate, unit: str) -> str:
    """Spell a mean with its interval, all with the digits they can bear.

    Examples
    --------
    >>> import polars as pl
    >>> from clvlab.statistics import cluster_mean
    >>> spelt_mean(cluster_mean(pl.Series([10, 20]), pl.Series([1, 2])), "bps")
    '+15 bps, too few fixtures for an interval'
    """
    if found.mean is None:
        return "none"
    return estimate(found.mean, found.low, found.high, unit) + _too_few(found)


def key_figures(clv: Estimate, edge: Estimate, beat: BeatRate, level: str) -> dict[str, str]:
    """Return the few figures that stand beside the first picture, by name; ``level`` is that of the interval, as it is read."""
    return {
        f"mean CLV, {level} interval": spelt_mean(clv, "bps"),
        "edge at the price taken": spelt_mean(edge, "%"),
        "beat the close, of those that moved": spelt_rate(beat),
        "scored decisions": f"{clv.n:,} in {counted(clv.n_clusters, 'fixture')}",
    }


def mean_cell(mean: float | None, low: float | None, high: float | None) -> Html:
    """Spell a mean with its interval for the cell of a table, where they never part.

    Examples
    --------
    >>> mean_cell(34.2, -6.1, 76.8)
    '<span><strong>+34</strong> [-6, +77]</span>'
    """
    if mean is None:
        return Html('<span class="quiet">none</span>')
    said, blank, bounds = estimate(mean, low, high).partition(" ")
    return Html(f"<span><strong>{said}</strong>{blank}{bounds}</span>")


def spelt_rate(found: BeatRate) -> str:
    """Spell how often the close was beaten, with its interval.

    Examples
    --------
    >>> import polars as pl
    >>> from clvlab.statistics import beat_close_rate
    >>> spelt_rate(beat_close_rate(pl.Series([3, -1, 0]), pl.Series([1, 2, 3])))
    '50.0%, too few fixtures for an interval'
    """
    if found.rate is None:
        return "nothing moved"
    return f"{share(found.rate)}{interval(found.low, found.high, '.1%')}{_too_few(found)}"


def _too_few(found: Estimate | BeatRate) -> str:
    return f", {TOO_FEW}" if found.low is None or found.high is None else ""


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
