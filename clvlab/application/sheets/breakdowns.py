"""Scored decisions in groups: by time, market, side, probability and fixture, and why others were not scored."""

from __future__ import annotations

import numpy as np
import polars as pl

from clvlab.application.runs.perform import PerformedRun
from clvlab.application.sheets.measures import MEASURES
from clvlab.law.schema import Reason
from clvlab.statistics import group_means
from clvlab.statistics.delaying import EDGES_S
from clvlab.words import seconds, tally

TITLES = {
    "by_time": "Mean CLV (bps of probability) by time to the close",
    "by_market": "Mean CLV (bps of probability) by market",
    "by_side": "Mean CLV (bps of probability) by side",
    "by_probability": "Mean CLV (bps of probability) by entry probability",
    "by_gap": "Mean CLV (bps of probability) by gaps of the capture",
    "closes": "Against every close there is: entry and close by the same source (bps of probability)",
    "on_offer": "On offer by book when it was decided, valued at the closing probability of the consensus",
    "reasons": "Decisions by reason",
    "refusals": "Refused by the policy, by reason (scores do not depend on it)",
    "quality": "Data quality of the scored decisions",
}
_MOST_MARKETS = 12
_TIMES = (
    "under 5 min", "5-15 min", "15-30 min", "30-60 min", "1-2 h", "2-3 h", "3-6 h", "6-12 h", "12-24 h", "1-2 d", "2-4 d",
    "4 d and more",
)  # fmt: skip


def scored_decisions(backtest: PerformedRun) -> pl.DataFrame:
    """Return the scored decisions of a backtest, in order of time.

    Returns
    -------
    pl.DataFrame
        ``seq, fixture_id, tick_seq, market_key, side, entry_prob_bps, close_prob_bps, odds_milli, clv_bps, edge_bps, stake``;
        ``close_ts_ms`` of the fixture; ``edge_pct`` and ``price_ratio_pct`` in percent, the ratio null where nothing was
        asked for the side; ``to_close_s`` from decision to close and ``closing_age_s`` of the closing message, in seconds;
        ``confidence`` 0..1; ``in_gap``, whether a gap of the capture touches its entry or close; ``at_close``, whether it was
        entered at the closing message.
    """
    closes = backtest.result.closes.select("fixture_id", "close_ts_ms").unique()
    return (
        backtest.scores.lazy()
        .with_columns(in_gap=backtest.in_gap, at_close=backtest.at_close)
        .filter(pl.col("reason") == Reason.SCORED)
        .join(backtest.result.decisions.lazy().select("seq", "ts_ms", "stake"), on="seq", how="left", maintain_order="left")
        .join(closes.lazy(), on="fixture_id", how="left", maintain_order="left")
        .select(
            "seq", "fixture_id", "tick_seq", "market_key", "side", "entry_prob_bps", "close_prob_bps", "odds_milli", "clv_bps",
            "edge_bps", "stake", "in_gap", "at_close", "close_ts_ms",
            *(one.value.alias(one.column) for one in (MEASURES["edge"], MEASURES["price_ratio"])),
            to_close_s=(pl.col("close_ts_ms") - pl.col("ts_ms")) / 1000,
            closing_age_s=pl.col("closing_age_ms") / 1000,
            confidence=pl.col("confidence_ppm") / 1_000_000,
        )
        .collect(engine="in-memory")
    )  # fmt: skip


def tables(backtest: PerformedRun, scored: pl.DataFrame, level: float, *, whole: bool = True) -> dict[str, pl.DataFrame]:
    """Return every breakdown by name; see ``TITLES``, and ``fixtures``, the best first.

    ``by_gap`` has no row where no scored decision is touched by a gap; ``reasons`` and ``refusals``, which are counts of the
    run, have none where the scored decisions are not the whole.
    """

    def means(groups: pl.Series) -> pl.DataFrame:
        return group_means(scored["clv_bps"], scored["fixture_id"], groups, level=level)

    time = pl.Series(np.searchsorted(EDGES_S[1:], scored["to_close_s"].to_numpy(), side="right"))
    tenth = (scored["entry_prob_bps"] // 1000).clip(0, 9)
    by_gap = _labelled(means(scored["in_gap"].cast(pl.Int64)), "entry and close", ("clear of gaps", "touched by a gap"))
    return {
        "by_time": _labelled(means(time), "time to close", _TIMES),
        "by_market": means(_markets(scored["market_key"]))
        .sort("n", "group", descending=[True, False])
        .rename(_NAMES | {"group": "market"}),
        "by_side": means(scored["side"]).rename(_NAMES | {"group": "side"}),
        "by_probability": _labelled(means(tenth), "entry probability", [f"{10 * k}-{10 * k + 10} %" for k in range(10)]),
        "by_gap": by_gap if scored["in_gap"].any() else by_gap.clear(),
        "fixtures": fixture_totals(scored),
        "reasons": _counts(backtest.report["reasons"] if whole else {}, "reason"),
        "refusals": _counts(backtest.report["policy"]["refused"] if whole else {}, "reason"),
        "quality": _quality(backtest, scored, whole=whole),
    }


def fixture_totals(scored: pl.DataFrame) -> pl.DataFrame:
    """Return (fixture_id, n, total_clv_bps), the best fixture first."""
    totals = scored.group_by("fixture_id").agg(n=pl.len(), total_clv_bps=pl.sum("clv_bps"))
    return totals.sort("total_clv_bps", "fixture_id", descending=[True, False])


_NAMES = {"n_clusters": "fixtures", "mean": "mean_clv_bps"}


def _labelled(means: pl.DataFrame, name: str, labels: list[str] | tuple[str, ...]) -> pl.DataFrame:
    names = pl.Series(name, [labels[number] for number in means["group"]], dtype=pl.String)
    return means.drop("group").rename(_NAMES).insert_column(0, names)


def _markets(keys: pl.Series) -> pl.Series:
    """Keep the markets with most decisions, and pool the others."""
    sizes = keys.value_counts(name="n").sort("n", "market_key", descending=[True, False])
    if sizes.height <= _MOST_MARKETS:
        return keys
    kept = sizes["market_key"].head(_MOST_MARKETS - 1)
    pooled = f"{sizes.height - kept.len()} other markets"
    return pl.select(pl.when(keys.is_in(kept.implode())).then(keys).otherwise(pl.lit(pooled))).to_series()


def market_walks(scored: pl.DataFrame) -> dict[str, list[float]]:
    """Return how the CLV of each market of ``by_market`` added up, by the close of its fixtures, from 0 on."""
    named = scored.select("clv_bps", "close_ts_ms", "fixture_id", market=_markets(scored["market_key"]))
    walks = {}
    for (market,), rows in named.group_by("market"):
        totals = rows.group_by("fixture_id").agg(pl.sum("clv_bps"), pl.max("close_ts_ms")).sort("close_ts_ms", "fixture_id")
        walk = [0.0, *totals["clv_bps"].cum_sum().to_list()]
        walks[str(market)] = [walk[place] for place in np.unique(np.linspace(0, len(walk) - 1, min(len(walk), 60)).astype(int))]
    return walks


def _counts(counts: dict[str, int], name: str) -> pl.DataFrame:
    return pl.DataFrame(list(counts.items()), schema={name: pl.String, "decisions": pl.Int64}, orient="row")


def _quality(backtest: PerformedRun, scored: pl.DataFrame, *, whole: bool) -> pl.DataFrame:
    report = backtest.report
    age = scored["closing_age_s"]
    facts = [
        ("source of the close", f"{report['closing_source']} ({report['provenance']}, {backtest.pack.verified_grade})"),
        *([("decisions by kind of close", tally(report["close_kinds"]) or "none")] if whole else []),
        ("age of the closing message, median", _seconds(age.median())),
        ("age of the closing message, nine in ten at most", _seconds(age.quantile(0.9, "nearest"))),
        ("age of the closing message, at most", _seconds(age.max())),
        ("fixtures with a scored decision", f"{scored['fixture_id'].n_unique():,} of {report['n_fixtures']:,}"),
        ("scored decisions with a quote", f"{scored['odds_milli'].count():,} of {scored.height:,}"),
    ]
    return pl.DataFrame(facts, schema={"fact": pl.String, "value": pl.String}, orient="row")


def _seconds(age: object) -> str:
    return seconds(age) if isinstance(age, int | float) else "none"
