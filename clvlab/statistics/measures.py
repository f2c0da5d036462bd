"""Measures of a scored decision, and the question that each one answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from clvlab.base.names import did_you_mean
from clvlab.errors import StatisticsError
from clvlab.law.schema import Reason, Schema
from clvlab.statistics import BoundedClusters


@dataclass(frozen=True, slots=True)
class Measure:
    """A number for each scored decision, as an expression over ``SCORES``; its mean is called ``mean_<column>``.

    ``lowest`` is its value if the price had closed at 0, ``highest`` if at 1.
    """

    name: str
    column: str
    title: str
    unit: str
    question: str
    value: pl.Expr = field(repr=False)
    lowest: pl.Expr = field(repr=False)
    highest: pl.Expr = field(repr=False)

    @property
    def mean(self) -> str:
        return f"mean_{self.column}"

    @property
    def sentence(self) -> str:
        return f"By {self.title}: {self.question}?"

    @property
    def short(self) -> str:
        return self.unit.partition(" ")[0]


def priced_edge_pct() -> pl.Expr:
    """Return the edge in percent, ``None`` without a quote: there the law values the fair price, which nobody offered."""
    return pl.when(pl.col("odds_milli").is_not_null()).then(pl.col("edge_bps") / 100)


_ENTRY, _WHOLE, _ALL_LOST = pl.col("entry_prob_bps"), 10_000, pl.lit(-100)
MEASURES = {
    one.name: one
    for one in (
        Measure(
            "clv", "clv_bps", "CLV", "bps of probability", "did the price move my way after I took it", pl.col("clv_bps"),
            -_ENTRY, _WHOLE - _ENTRY,
        ),
        Measure(
            "edge", "edge_pct", "edge at the price taken", "%", "would this price have paid, if the close is right",
            priced_edge_pct(), _ALL_LOST, 100 * (pl.col("odds_milli") / 1000 - 1),
        ),
        Measure(
            "price_ratio", "price_ratio_pct", "CLV as price ratio", "%", "what would a fair price have gained",
            pl.when(_ENTRY > 0).then(100 * (pl.col("close_prob_bps") / _ENTRY - 1)), _ALL_LOST, 100 * (_WHOLE / _ENTRY - 1),
        ),
    )
}  # fmt: skip


def measure_of(by: str | Measure) -> Measure:
    """Return the measure with a name; raise ``StatisticsError`` for an unknown name.

    Examples
    --------
    >>> measure_of("edge").question
    'would this price have paid, if the close is right'
    """
    found = by if isinstance(by, Measure) else MEASURES.get(by) if isinstance(by, str) else None
    if found is None:
        raise StatisticsError(f"means are taken by {', '.join(MEASURES)}, not by {by!r:.80}{did_you_mean(by, MEASURES)}")
    return found


def counted() -> pl.Expr:
    """Return the decisions that statistics count: the scored ones, except those at the closing message."""
    return (pl.col("reason") == Reason.SCORED) & ~pl.col("at_close")


def without_close() -> pl.Expr:
    """Return the decisions without a close because their market or line was gone or suspended, perhaps after a loss."""
    return pl.col("reason").is_in([Reason.CLOSING_MARKET_ABSENT, Reason.CLOSING_SUSPENDED, Reason.CLOSING_SIDE_MISSING])


# Sums of each fixture, which determine a mean over fixtures.


_PARTS = ("sums", "counts", "squares", "lowest", "highest")

# Per fixture and measure: sum, count and sum of squares of the values, and the sums if every price had closed at 0 and at 1
# (see ``BoundedClusters``). Rows are added in order, so the last bit of a sum does not depend on the number of threads.
_SUMS: Schema = {"fixture_id": pl.Int64, **{f"{name}_{part}": pl.Float64 for name in MEASURES for part in _PARTS}}

# The number of decisions without a close.
FIXTURE_SUMS: Schema = {**_SUMS, "gone": pl.Int64}


def fixture_sums(scores: pl.DataFrame) -> pl.DataFrame:
    """Return ``FIXTURE_SUMS``, sorted by fixture, of ``SCORES`` with ``at_close``."""
    kept, gone = scores.filter(counted()), scores.filter(without_close())["fixture_id"]
    fixtures = kept["fixture_id"].append(gone).unique().sort()
    counts = np.bincount(fixtures.search_sorted(gone).to_numpy(), minlength=fixtures.len())
    return summed(kept, fixtures).hstack([pl.Series("gone", counts, pl.Int64)])


def summed(scores: pl.DataFrame, fixtures: pl.Series | None = None) -> pl.DataFrame:
    """Return the sums of some fixtures in order, by default of those in ``scores``."""
    rows = scores.select(
        "fixture_id",
        *(
            value.cast(pl.Float64).alias(f"{name}_{part}")
            for name, one in MEASURES.items()
            for part, value in (("sums", one.value), ("lowest", one.lowest), ("highest", one.highest))
        ),
    )
    fixtures = rows["fixture_id"].unique().sort() if fixtures is None else fixtures
    place, found = fixtures.search_sorted(rows["fixture_id"]).to_numpy(), {"fixture_id": fixtures}
    for name in MEASURES:
        known = rows[f"{name}_sums"].is_not_null().to_numpy()
        value, lowest, highest = (rows[f"{name}_{part}"].to_numpy()[known] for part in ("sums", "lowest", "highest"))
        for part, weights in zip(_PARTS, (value, np.ones_like(value), value * value, lowest, highest), strict=True):
            found[f"{name}_{part}"] = pl.Series(np.bincount(place[known], weights, fixtures.len()))
    return pl.DataFrame(found, schema=_SUMS)


def stacked(each: Sequence[pl.DataFrame], measure: Measure) -> tuple[BoundedClusters, pl.Series]:
    """Return several ``FIXTURE_SUMS`` as columns of one measure, and the fixtures of the rows."""
    column = np.repeat(np.arange(len(each)), [own.height for own in each])
    rows = pl.concat(each).with_columns(column=column).filter(pl.col(f"{measure.name}_counts") > 0)
    fixtures = rows["fixture_id"].unique().sort()
    place = fixtures.search_sorted(rows["fixture_id"]).to_numpy(), rows["column"].to_numpy()
    parts = {part: np.zeros((fixtures.len(), len(each))) for part in _PARTS}
    for part, values in parts.items():
        values[place] = rows[f"{measure.name}_{part}"].to_numpy()
    return BoundedClusters(**parts), fixtures


def sums_of(scores: pl.DataFrame) -> dict[str, BoundedClusters]:
    """Return the sums of the values per fixture by the names of the measures, as one column each."""
    found = [summed(scores)]
    return {name: stacked(found, one)[0] for name, one in MEASURES.items()}
