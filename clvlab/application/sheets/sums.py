"""What decisions measure in each fixture: all that a mean over fixtures needs of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from clvlab.application.sheets.measures import MEASURES, Measure, counted, without_close
from clvlab.law.schema import Schema
from clvlab.statistics import BoundedClusters

_PARTS = ("sums", "counts", "squares", "lowest", "highest")

# Per fixture and measure: the sum of the values, how many they are, the sum of their squares, and what the sum would be if
# every price had closed at 0, and at 1; see ``BoundedClusters``.
_SUMS: Schema = {"fixture_id": pl.Int64, **{f"{name}_{part}": pl.Float64 for name in MEASURES for part in _PARTS}}

# And how many decisions have no close.
FIXTURE_SUMS: Schema = {**_SUMS, "gone": pl.Int64}


def fixture_sums(scores: pl.DataFrame) -> pl.DataFrame:
    """Sum what ``SCORES`` with ``at_close`` measure: ``FIXTURE_SUMS``, sorted by fixture.

    Rows are added in their order, so that the last bit of a sum is the same on any number of threads.
    """
    gone = scores.filter(without_close()).group_by("fixture_id").agg(gone=pl.len().cast(pl.Int64))
    found = summed(scores.filter(counted())).join(gone, on="fixture_id", how="full", coalesce=True)
    return found.select(pl.col(*FIXTURE_SUMS).fill_null(0)).sort("fixture_id")


def summed(scores: pl.DataFrame) -> pl.DataFrame:
    """Sum what all of some scored decisions measure; see ``fixture_sums``."""
    rows = scores.select(
        "fixture_id",
        *(
            value.cast(pl.Float64).alias(f"{name}_{part}")
            for name, one in MEASURES.items()
            for part, value in (("sums", one.value), ("lowest", one.lowest), ("highest", one.highest))
        ),
    )
    fixtures = rows["fixture_id"].unique().sort()
    place, found = fixtures.search_sorted(rows["fixture_id"]).to_numpy(), {"fixture_id": fixtures}
    for name in MEASURES:
        known = rows[f"{name}_sums"].is_not_null().to_numpy()
        value, lowest, highest = (rows[f"{name}_{part}"].to_numpy()[known] for part in ("sums", "lowest", "highest"))
        for part, weights in zip(_PARTS, (value, np.ones_like(value), value * value, lowest, highest), strict=True):
            found[f"{name}_{part}"] = pl.Series(np.bincount(place[known], weights, fixtures.len()))
    return pl.DataFrame(found, schema=_SUMS)


def stacked(each: Sequence[pl.DataFrame], measure: Measure) -> tuple[BoundedClusters, pl.Series]:
    """Put several ``FIXTURE_SUMS`` beside each other, a column each; and return the fixtures of the rows."""
    column = np.repeat(np.arange(len(each)), [own.height for own in each])
    rows = pl.concat(each).with_columns(column=column).filter(pl.col(f"{measure.name}_counts") > 0)
    fixtures = rows["fixture_id"].unique().sort()
    place = fixtures.search_sorted(rows["fixture_id"]).to_numpy(), rows["column"].to_numpy()
    parts = {part: np.zeros((fixtures.len(), len(each))) for part in _PARTS}
    for part, values in parts.items():
        values[place] = rows[f"{measure.name}_{part}"].to_numpy()
    return BoundedClusters(**parts), fixtures
