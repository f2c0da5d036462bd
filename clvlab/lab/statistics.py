"""The statistics of ``clvlab.statistics``, for notebooks.

>>> from clvlab.lab.statistics import cluster_mean
>>> cluster_mean.__module__
'clvlab.statistics.means'
"""

from __future__ import annotations

from clvlab import statistics

__all__ = statistics.__all__


def __getattr__(name: str) -> object:
    return getattr(statistics, name)
