"""Warnings of a tear sheet: few fixtures, skewed means, missing closes, missing and impossible prices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from clvlab import words
from clvlab.report.figures import Sheet
from clvlab.statistics import BoundedClusters, Estimate, effective_clusters, mean_skewness, sum_by_cluster
from clvlab.statistics.measures import MEASURES, counted, sums_of, without_close

MIN_EFFECTIVE = 10
MAX_SKEWNESS = 0.12  # of a mean: beyond it, an error rate of 5 % on one side may be 7 %
_SIDES = {
    False: ("possible losses exceed possible gains", "above zero more often than intervals and p-values say"),
    True: ("possible gains exceed possible losses", "below zero more often than intervals say"),
}
"""Which side of a mean reaches further, and where the mean is too often without an edge."""
_OVERROUND_OF_A_SIDE = 0.1  # a bookmaker's market has an overround between 0 and this, for each side
_ROUNDING = 0.001  # odds have three decimals, so the probabilities of a fair market may sum to this much less than 1
_MARKET = ["fixture_id", "market_key"]
_MOST_GONE = 0.01  # share of the decisions that would otherwise be scored


def cautions(sheet: Sheet) -> list[str]:
    """Return the warnings about the means of a sheet and the prices behind them."""
    found = sums_of(sheet.scored)
    sums = {f"mean {MEASURES[name].title}": found[name] for name in ("clv", "edge")}
    if sheet.settled:
        sums["return on investment"] = _flat_returns(sheet.settled.frame, sheet.scored)
    skewed = [text for name, clusters in sums.items() for text in _skew_warnings(name, clusters)]
    run, scores = sheet.source.evidence, sheet.source.marked
    gone = scores.filter(without_close()).height if sheet.selection.is_whole else 0
    return [
        *_thin(sheet.clv),
        *(_thin(sheet.edge, " with a price") if sheet.edge.n < sheet.clv.n else []),
        *_without_price(sheet.clv.n - sheet.edge.n, sheet.clv.n),
        *skewed,
        *_without_close(gone, gone + scores.filter(counted()).height),
        *_impossible(run.decisions, run.closes),
    ]


def _without_price(gone: int, count: int, what: str = "decisions") -> list[str]:
    if not 0 < gone < count:
        return []  # a verdict says that no price is in the evidence
    return [f"{gone:,} of {count:,} {what} have no price. The CLV counts them, the edge does not."]


def _thin(mean: Estimate, which: str = "") -> list[str]:
    evenly = mean.effective_clusters
    if evenly is None or evenly >= MIN_EFFECTIVE:
        return []
    return [
        f"{words.counted(mean.n_clusters, 'fixture')}{which}, as informative as {evenly:.1f} of equal size. "
        f"Below {MIN_EFFECTIVE}, intervals are wide and p-values rough."
    ]


def _flat_returns(settled: pl.DataFrame, scored: pl.DataFrame) -> BoundedClusters:
    """Sum the returns of a flat stake per fixture, with the lowest and highest possible sums."""
    odds = pl.col("odds_milli") / 1000
    rows = settled.join(scored.select("seq", "odds_milli"), on="seq", maintain_order="left")
    rows = rows.drop_nulls("profit").with_columns(lowest=pl.lit(-1.0), highest=odds - 1)
    own, lowest, highest = (sum_by_cluster(rows[name], rows["fixture_id"])[0] for name in ("profit", "lowest", "highest"))
    return BoundedClusters(own.sums, own.counts, own.squares, lowest.sums, highest.sums)


def _skew_warnings(name: str, clusters: BoundedClusters) -> list[str]:
    return [
        f"{name}: {larger} (skewness of the mean {skewness:+.2f}). Without an edge, it is {often}."
        for skewness in mean_skewness(clusters)
        if abs(skewness) > MAX_SKEWNESS
        for larger, often in [_SIDES[bool(skewness > 0)]]
    ]


def cautions_of_points(clusters: BoundedClusters, each: Sequence[pl.DataFrame]) -> list[str]:
    """Return the warnings about the means of many points and their ``FIXTURE_SUMS``."""
    skewness = mean_skewness(clusters)
    found = [
        f"{rough.size:,} of {skewness.size:,} settings: {larger} (skewness of the mean up to "
        f"{rough[np.abs(rough).argmax()]:+.2f}). Without an edge, their means are {often}. p_family allows for unseen losses."
        for above, rough in ((False, skewness[skewness < -MAX_SKEWNESS]), (True, skewness[skewness > MAX_SKEWNESS]))
        if rough.size
        for larger, often in [_SIDES[above]]
    ]
    few = int((effective_clusters(clusters.counts) < MIN_EFFECTIVE).sum())
    if few:
        found.append(
            f"{few:,} of {skewness.size:,} settings are less informative than {MIN_EFFECTIVE} fixtures of equal size. "
            "Their intervals are wide and their p-values rough."
        )
    gone = [(int(own["gone"].sum()), int(own["clv_counts"].sum())) for own in each]
    most, scored = max(gone, key=lambda one: one[0] / max(sum(one), 1), default=(0, 0))
    priced = [(int(own["clv_counts"].sum()), int(own["edge_counts"].sum())) for own in each]
    whole, known = max(priced, key=lambda one: (one[0] - one[1]) / max(one[0], 1), default=(0, 0))
    what = "decisions of a setting"
    return [*found, *_without_close(most, most + scored, what), *_without_price(whole - known, whole, what)]


def _without_close(gone: int, count: int, what: str = "decisions") -> list[str]:
    if gone <= _MOST_GONE * count:
        return []
    return [
        f"{gone:,} of {count:,} {what} have no close. Their market or line was gone or suspended by then. Means and p-values "
        "leave them out. If a source takes fallen prices down, the rest looks good without an edge."
    ]


def _impossible(decisions: pl.DataFrame, closes: pl.DataFrame) -> list[str]:
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
        f"{wrong:,} of {known.height:,} decisions have an entry or a close with an impossible overround, below 0 % or above "
        f"{100 * _OVERROUND_OF_A_SIDE:.0f} % for each side. These are best prices of several books, or errors of the source."
    ]
