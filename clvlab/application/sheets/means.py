"""The means of one agent's scores, and how they are spelt."""

from __future__ import annotations

import polars as pl

from clvlab.application.sheets.measures import MEASURES
from clvlab.application.sheets.sums import fixture_sums, stacked
from clvlab.statistics import Estimate, estimates
from clvlab.statistics.verdict import signed

LEVEL = 0.95


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
    if found.low is None or found.high is None:
        return f"{signed(found.mean)} {unit}, too few fixtures for an interval"
    mean, low, high = (signed(value, found.mean, found.low, found.high) for value in (found.mean, found.low, found.high))
    return f"{mean} {unit} [{low}, {high}]"
