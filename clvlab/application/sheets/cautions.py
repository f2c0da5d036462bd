"""What a reader of a tear sheet has to know before its figures: where they are thin, skewed, or rest on impossible prices."""

from __future__ import annotations

import polars as pl

from clvlab.application.sheets.measures import MEASURES
from clvlab.application.sheets.sheet import Sheet
from clvlab.statistics import Clusters, Estimate, cluster_errors, sum_by_cluster

MIN_EFFECTIVE = 10
MAX_SKEWNESS = 2.0
_OVERROUND_OF_A_SIDE = 0.1  # no bookmaker's market has more, nor less than nothing
_ROUNDING = 0.001  # odds have three decimals: those of a fair market may sum to as much less
_MARKET = ["fixture_id", "market_key"]


def cautions(sheet: Sheet) -> list[str]:
    """Return what is to be said of the means of a sheet over fixtures, and of the prices that they rest on."""
    sums = {f"mean {MEASURES[name].title}": sheet.sums[name] for name in ("clv", "edge")}
    if sheet.settled:
        profit = sheet.settled.frame
        sums["return on investment"] = sum_by_cluster(profit["profit"], profit["fixture_id"])[0]
    skewed = [said for name, clusters in sums.items() for said in _skewed(name, clusters)]
    run = sheet.source.result
    return [*_thin(sheet.clv), *skewed, *_impossible(run.decisions, run.closes)]


def _thin(mean: Estimate) -> list[str]:
    evenly = mean.effective_clusters
    if evenly is None or evenly >= MIN_EFFECTIVE:
        return []
    return [
        f"the decisions lie in {mean.n_clusters:,} fixtures, as evenly as in {evenly:.1f} of equal size: with fewer than "
        f"{MIN_EFFECTIVE} an interval is wide, and a p-value rough"
    ]


def _skewed(name: str, clusters: Clusters) -> list[str]:
    added = cluster_errors(clusters).residuals[clusters.counts > 0]
    spread = float((added**2).mean()) if added.size else 0.0
    skewness = float((added**3).mean()) / spread**1.5 if spread > 0 else 0.0
    if abs(skewness) <= MAX_SKEWNESS:
        return []
    side = "high" if skewness > 0 else "low"
    return [
        f"{name}: a few fixtures are far {side} (skewness {skewness:+.1f} of what fixtures add to the mean): the interval "
        "holds less than it says, and the p-values are rough"
    ]


def _impossible(decisions: pl.DataFrame, closes: pl.DataFrame) -> list[str]:
    """Warn of decisions whose entry or close is a message with prices that sum to less than a whole, or to far more."""
    odds = pl.element().struct.field("odds_milli")
    quoted = (pl.col("sides").list.len() > 1) & ~pl.col("sides").list.eval(odds.is_null()).list.any()
    margin = pl.col("sides").list.eval(1000 / odds).list.sum() - 1
    most = _OVERROUND_OF_A_SIDE * pl.col("sides").list.len()
    impossible = pl.when(quoted).then(~margin.is_between(-_ROUNDING, most + _ROUNDING))
    known = (
        decisions.select(*_MARKET, entry=impossible)
        .join(closes.select(*_MARKET, close=impossible), on=_MARKET, how="left", maintain_order="left")
        .filter(pl.any_horizontal(pl.col("entry", "close").is_not_null()))
    )
    wrong = known.filter(pl.any_horizontal(pl.col("entry", "close").fill_null(value=False))).height
    if not wrong:
        return []
    return [
        f"{wrong:,} of {known.height:,} decisions were made on a message, or are closed by one, whose prices have an "
        f"impossible overround, below 0 % or above {_OVERROUND_OF_A_SIDE:.0%} for each side: best prices of several books, or "
        "errors of the source"
    ]
