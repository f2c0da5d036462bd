"""A sum that grows fixture by fixture, and how well each part of it is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clvlab.statistics.clusters import Clusters
from clvlab.statistics.means import estimates

_MOST = 160  # as many places as a picture has room for


@dataclass(frozen=True, slots=True)
class Running:
    """The sum over the first clusters, at some places.

    Attributes
    ----------
    places
        Index of the last cluster that is in the sum, ascending; the last one is in the last.
    totals
        The sum.
    lows, highs
        Interval of the mean so far, times the number of values; null over too few clusters.
    """

    places: list[int]
    totals: list[float]
    lows: list[float | None]
    highs: list[float | None]


def running_totals(clusters: Clusters, *, level: float = 0.95, most: int = _MOST) -> Running:
    """Sum clusters in the order of their rows.

    Parameters
    ----------
    clusters
        Sums, counts and squares of one column.
    level
        Level of the interval.
    most
        Places at most.

    Examples
    --------
    >>> one = np.array([[4.0], [-1.0], [2.0]])
    >>> found = running_totals(Clusters(one, np.ones((3, 1)), one**2))
    >>> found.places, found.totals, found.lows
    ([0, 1, 2], [4.0, 3.0, 5.0], [None, None, None])
    """
    size = len(clusters.sums)
    if not size:
        return Running([], [], [], [])
    places = np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(int))
    counted = np.arange(size)[:, None] <= places[None, :]
    parts = (np.where(counted, part, 0.0) for part in (clusters.sums, clusters.counts, clusters.squares))
    found = estimates(Clusters(*parts), level=level)
    totals = np.cumsum(clusters.sums[:, 0])[places]
    lows = [None if one.low is None else one.low * one.n for one in found]
    highs = [None if one.high is None else one.high * one.n for one in found]
    return Running(places.tolist(), totals.tolist(), lows, highs)
