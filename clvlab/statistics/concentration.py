"""How evenly values are spread over clusters: how many equal clusters would say as much, and what the largest hold.

References
----------
Kish (1965), "Survey Sampling", chapter 11.7: ``(sum of weights)^2 / (sum of squared weights)`` is the effective sample size
under unequal weights; here the weight of a cluster is its size. It is the inverse of Herfindahl's index.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

TOP = 5


@dataclass(frozen=True, slots=True)
class Concentration:
    """The spread of values over clusters.

    Attributes
    ----------
    effective_clusters
        Equal clusters that are spread as evenly: from 1, where one cluster holds nearly all, to the number of clusters.
    largest_share, top_share
        Share of the values, 0..1, that the largest cluster and the ``TOP`` largest hold.
    """

    effective_clusters: float | None
    largest_share: float | None
    top_share: float | None


def concentration(clusters: pl.Series) -> Concentration:
    """Return how evenly values are spread over their clusters; all null without values.

    Parameters
    ----------
    clusters
        What each value belongs to, as a rule ``fixture_id``, one row per value.

    Examples
    --------
    >>> concentration(pl.Series([1, 1, 1, 2]))  # 4^2 / (3^2 + 1^2)
    Concentration(effective_clusters=1.6, largest_share=0.75, top_share=1.0)
    """
    sizes = clusters.value_counts(name="n")["n"].cast(pl.Int64).sort(descending=True).to_list()
    n = sum(sizes)
    if not n:
        return Concentration(None, None, None)
    return Concentration(n * n / sum(size * size for size in sizes), sizes[0] / n, sum(sizes[:TOP]) / n)
