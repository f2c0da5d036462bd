"""Calibration: whether a stated probability equals the share of cases in which it came true.

References
----------
Brier (1950), "Verification of Forecasts Expressed in Terms of Probability", Monthly Weather Review 78. Murphy (1973), "A New
Vector Partition of the Probability Score", Journal of Applied Meteorology 12. Stephenson, Coelho and Jolliffe (2008), "Two
Extra Components in the Brier Score Decomposition", Weather and Forecasting 23: the remainder of binning belongs to the
resolution.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from clvlab.statistics.means import group_means


@dataclass(frozen=True)
class Calibration:
    """The Brier score and its parts; ``brier = reliability - resolution + uncertainty``, all 0..1.

    Attributes
    ----------
    n
        Decisions with a stated probability, the confidence, and a known outcome.
    brier
        Mean of ``(confidence - outcome)^2``: 0 is best, and 0.5 on everything scores 0.25.
    reliability
        Distance between the confidence of a bin and the share that came true; 0 is best.
    resolution
        Distance of the bins' shares from the overall share; a larger one is better.
    uncertainty
        ``share * (1 - share)``: the score of always stating the overall share.
    frame
        One row per bin: ``bin`` (lower edge), ``n``, ``n_clusters``, ``confidence`` (mean), ``share`` that came true with
        ``low`` and ``high`` over clusters.
    """

    n: int
    brier: float
    reliability: float
    resolution: float
    uncertainty: float
    frame: pl.DataFrame


def calibration(confidence: pl.Series, clv_bps: pl.Series, fixtures: pl.Series, *, bins: int = 10) -> Calibration | None:
    """Compare confidences with how often the close was beaten; ``None`` if no scored decision has a confidence.

    Parameters
    ----------
    confidence
        Confidence of each decision, 0..1; nulls are left out.
    clv_bps
        CLV in bps of probability; nulls are left out, and 0 does not beat the close, as in the law's Brier score.
    fixtures
        Fixture of each decision.
    bins
        Number of equal parts of 0..1.

    Examples
    --------
    >>> found = calibration(pl.Series([0.2, 0.2, 0.8, 0.8]), pl.Series([-1, -1, 5, 5]), pl.Series([1, 2, 3, 4]))
    >>> round(found.brier, 3), round(found.reliability, 3), found.resolution, found.uncertainty
    (0.04, 0.04, 0.25, 0.25)
    """
    beat = pl.select(pl.when(clv_bps.is_not_null()).then((clv_bps > 0).cast(pl.Float64))).to_series()
    return calibrate(confidence, beat, fixtures, bins=bins)


def calibrate(stated: pl.Series, happened: pl.Series, fixtures: pl.Series, *, bins: int = 10) -> Calibration | None:
    """Compare stated probabilities with outcomes; ``None`` without a pair of them.

    Parameters
    ----------
    stated
        Probabilities, 0..1; nulls are left out.
    happened
        Outcomes, 0 or 1; nulls are left out.
    fixtures
        Fixture of each probability.
    bins
        Number of equal parts of 0..1.

    Examples
    --------
    >>> found = calibrate(pl.Series([0.5, 0.5]), pl.Series([1, 0]), pl.Series([1, 2]))
    >>> found.brier, found.frame["share"].to_list()
    (0.25, [0.5])
    """
    place = (pl.col("confidence") * bins).floor().clip(0, bins - 1) / bins
    frame = (
        pl.DataFrame({"confidence": stated, "beat": happened.cast(pl.Float64), "fixture_id": fixtures})
        .drop_nulls()
        .with_columns(bin=place)
    )
    if frame.is_empty():
        return None
    table = frame.group_by("bin").agg(pl.col("confidence", "beat").mean(), n=pl.len()).sort("bin")
    share = float(frame["beat"].to_numpy().mean())
    brier = float(((frame["confidence"] - frame["beat"]) ** 2).to_numpy().mean())
    reliability = float((table["n"] * (table["confidence"] - table["beat"]) ** 2).sum()) / frame.height
    uncertainty = share * (1 - share)
    known = group_means(frame["beat"], frame["fixture_id"], frame["bin"])
    result = known.select(
        "n", "n_clusters", table["confidence"], pl.col("mean").alias("share"), pl.col("low", "high").clip(0, 1)
    ).insert_column(0, known["group"].rename("bin"))
    return Calibration(frame.height, brier, reliability, reliability + uncertainty - brier, uncertainty, result)
