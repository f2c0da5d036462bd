"""What a scored decision can be measured by, and which question each measure answers."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from clvlab.errors import StatisticsError
from clvlab.law.schema import Reason
from clvlab.naming import did_you_mean


@dataclass(frozen=True, slots=True)
class Measure:
    """A number for each scored decision.

    Attributes
    ----------
    name
        What ``by=`` takes.
    column
        Name of the values, with their unit; their mean is ``mean_<column>``.
    title, unit
        In words.
    question
        What its mean answers.
    value
        Over the columns of ``SCORES``.
    lowest, highest
        What the value would be if the price had closed at 0, and at 1.
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
        """Name of the column of its mean."""
        return f"mean_{self.column}"

    @property
    def asked(self) -> str:
        """What its means answer, as a sentence under them."""
        return f"By {self.title}: {self.question}?"

    @property
    def short(self) -> str:
        """The unit as it stands behind a number."""
        return self.unit.partition(" ")[0]


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
            pl.col("edge_bps") / 100, _ALL_LOST, 100 * (pl.col("odds_milli") / 1000 - 1),
        ),
        Measure(
            "price_ratio", "price_ratio_pct", "CLV as price ratio", "%", "what would a fair price have gained",
            pl.when(_ENTRY > 0).then(100 * (pl.col("close_prob_bps") / _ENTRY - 1)), _ALL_LOST, 100 * (_WHOLE / _ENTRY - 1),
        ),
    )
}  # fmt: skip


def measure_of(by: str | Measure) -> Measure:
    """Return the measure of a name.

    Raises
    ------
    StatisticsError
        There is none of that name.

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
    """Tell which decisions the statistics count: those that are scored and were not made on the closing message itself.

    An entry at the closing message is the close: its CLV is 0 by construction, and dilutes a mean. The law scores it.
    """
    return (pl.col("reason") == Reason.SCORED) & ~pl.col("at_close")


def without_close() -> pl.Expr:
    """Tell which decisions no close judges because their market or line was gone or suspended: perhaps because they lost."""
    return pl.col("reason").is_in([Reason.CLOSING_MARKET_ABSENT, Reason.CLOSING_SUSPENDED, Reason.CLOSING_SIDE_MISSING])
