"""A mean and its interval over fixtures in clvlab."""

import polars as pl

from clvlab.statistics import cluster_mean


def run(values: pl.Series, fixtures: pl.Series) -> tuple[float, float, float]:
    found = cluster_mean(values, fixtures)
    return found.standard_error, found.low, found.high
