"""The statistics of a backtest as plain values: what a tear sheet says, for those who read JSON."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite

from clvlab.answers.answer import pick
from clvlab.answers.backtests import BacktestStatistics, BeatCloseStatistics, FigureRow, MeanStatistics, MedianStatistics
from clvlab.application.runs.perform import PerformedRun
from clvlab.application.sheets.settling import Figure
from clvlab.application.sheets.tearsheet import TearSheet
from clvlab.statistics import Estimate


def statistics_of(performed: PerformedRun, level: float = 0.95, resamples: int = 5_000, seed: int = 0) -> BacktestStatistics:
    """Return the statistics of a backtest of one agent, as JSON values: those of its tear sheet, without the placebos.

    Parameters
    ----------
    performed
        The backtest.
    level
        Level of the intervals, above 0 and below 1.
    resamples, seed
        Size and seed of the bootstrap over fixtures; the same seed gives the same statistics.

    Raises
    ------
    StatisticsError
        A level outside 0..1, or fewer than one resample.

    Examples
    --------
    >>> import clvlab as cl
    >>> found = statistics_of(cl.backtest("starter", "cumulative-drift").source)
    >>> found["clv_bps"]["n"], found["clv_bps"]["n_clusters"], round(found["effective_clusters"], 1)
    (129, 12, 10.6)
    """
    sheet = TearSheet(performed, level, resamples, seed=seed)
    spread = sheet.concentration
    return {
        "clv_bps": _mean(sheet.clv, level),
        "price_ratio_pct": _mean(sheet.price_ratio, level),
        "edge_pct": _mean(sheet.edge, level),
        "median_clv_bps": pick(MedianStatistics, {**asdict(sheet.median), "level": level}),
        "beat_close": pick(BeatCloseStatistics, {**asdict(sheet.beat), "level": level}),
        "effective_clusters": spread.effective_clusters,
        "largest_fixture_share": spread.largest_share,
        "top_five_share": spread.top_share,
        "resamples": resamples,
        "seed": seed,
        "figures": [_row(figure) for figure in sheet.figures(placebos=False)],
    }


def _mean(found: Estimate, level: float) -> MeanStatistics:
    return pick(MeanStatistics, {**asdict(found), "level": level})


def _row(figure: Figure) -> FigureRow:
    name, value, low, high, unit = figure
    return {"figure": name, "value": _finite(value), "low": _finite(low), "high": _finite(high), "unit": unit}


def _finite(value: float | None) -> float | None:
    """Return what JSON has a number for, else null."""
    return value if value is not None and isfinite(value) else None
