"""The statistics of a backtest as plain values: what a tear sheet says, for those who read JSON."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite

from clvlab.answers.answer import pick
from clvlab.answers.backtests import BacktestStatistics, BeatCloseStatistics, FigureRow, MeanStatistics, MedianStatistics
from clvlab.application.runs.perform import PerformedRun
from clvlab.application.sheets.settling import Figure
from clvlab.application.sheets.tearsheet import TearSheet


def statistics_of(performed: PerformedRun, level: float = 0.95, resamples: int = 5_000, seed: int = 0) -> BacktestStatistics:
    """Return the statistics of a backtest of one agent, as JSON values: those of its tear sheet over all it scored.

    Parameters
    ----------
    performed
        The backtest.
    level
        Level of the intervals, above 0 and below 1.
    resamples, seed
        Number and seed of the sign flips by fixture; the same seed gives the same statistics.

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
    sheet = TearSheet(performed, level, resamples, seed=seed, all_scored=True)
    spread = sheet.concentration
    return {
        "clv_bps": _mean(sheet, "clv"),
        "price_ratio_pct": _mean(sheet, "price_ratio"),
        "edge_pct": _mean(sheet, "edge"),
        "median_clv_bps": pick(MedianStatistics, {**asdict(sheet.median), "level": level}),
        "beat_close": pick(BeatCloseStatistics, {**asdict(sheet.beat), "level": level}),
        "effective_clusters": spread.effective_clusters,
        "largest_fixture_share": spread.largest_share,
        "top_five_share": spread.top_share,
        "resamples": resamples,
        "seed": seed,
        "figures": [_row(figure) for figure in sheet.figures(moved=False)],
    }


def _mean(sheet: TearSheet, name: str) -> MeanStatistics:
    found = asdict(sheet.means[name])
    return pick(MeanStatistics, {**found, "level": sheet.level, "sign_flip_p": sheet.sign_flips[name]})


def _row(figure: Figure) -> FigureRow:
    name, value, low, high, unit = figure
    return {"figure": name, "value": _finite(value), "low": _finite(low), "high": _finite(high), "unit": unit}


def _finite(value: float | None) -> float | None:
    """Return what JSON has a number for, else null."""
    return value if value is not None and isfinite(value) else None
