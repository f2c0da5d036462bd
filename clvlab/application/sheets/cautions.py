"""What a reader of a tear sheet has to know before its figures: where they are thin, skewed, or rest on impossible prices."""

from __future__ import annotations

import polars as pl

from clvlab.application.runs.perform import PerformedRun
from clvlab.statistics import Clusters, Estimate, cluster_errors

MIN_EFFECTIVE = 10
MAX_SKEWNESS = 2.0
_OVERROUND = (0.0, 0.3)  # what no bookmaker's market is outside of


def cautions(clusters: Clusters, mean: Estimate, backtest: PerformedRun) -> list[str]:
    """Return what is to be said of a mean over fixtures, and of the prices that were backed.

    Parameters
    ----------
    clusters
        Values by fixture, one column.
    mean
        Of them.
    backtest
        What was decided.
    """
    return [*_thin(mean), *_skewed(clusters), *_impossible(backtest.result.decisions)]


def _thin(mean: Estimate) -> list[str]:
    evenly = mean.effective_clusters
    if evenly is None or evenly >= MIN_EFFECTIVE:
        return []
    return [
        f"the decisions lie in {mean.n_clusters:,} fixtures, as evenly as in {evenly:.1f} of equal size: with fewer than "
        f"{MIN_EFFECTIVE} an interval is wide, and a p-value rough"
    ]


def _skewed(clusters: Clusters) -> list[str]:
    added = cluster_errors(clusters).residuals[clusters.counts > 0]
    spread = float((added**2).mean()) if added.size else 0.0
    skewness = float((added**3).mean()) / spread**1.5 if spread > 0 else 0.0
    if abs(skewness) <= MAX_SKEWNESS:
        return []
    side = "high" if skewness > 0 else "low"
    return [
        f"a few fixtures are far {side} (skewness {skewness:+.1f} of what fixtures add to the mean): the interval holds less "
        "than it says, and the p of sign flips is rough"
    ]


def _impossible(decisions: pl.DataFrame) -> list[str]:
    """Warn of decisions on messages whose prices sum to less than a whole, or to far more."""
    margin = pl.col("sides").list.eval(1000 / pl.element().struct.field("odds_milli")).list.sum() - 1
    quoted = ~pl.col("sides").list.eval(pl.element().struct.field("odds_milli").is_null()).list.any()
    margins = decisions.filter(pl.col("sides").list.len() > 1).filter(quoted).select(margin=margin)["margin"]
    wrong = int((~margins.is_between(*_OVERROUND)).sum())
    if not wrong:
        return []
    return [
        f"{wrong:,} of {margins.len():,} decisions were made on a message whose prices have an impossible overround, below "
        f"{_OVERROUND[0]:.0%} or above {_OVERROUND[1]:.0%}: best prices of several books, or errors of the source"
    ]
