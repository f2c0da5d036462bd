"""The same decisions against every close that a pack has: that of the consensus, and each book's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from clvlab.application.runs.entries import at_close
from clvlab.application.runs.perform import PerformedRun
from clvlab.engine.replay import locate, looked_up, numbered
from clvlab.law.clv import quoted_edge_bps, scores
from clvlab.law.positions import positions
from clvlab.law.schema import DECISIONS, Reason, Schema
from clvlab.packs.shards import shards_of
from clvlab.statistics import group_means

CONSENSUS = "consensus"

# What the scored decisions bring against each close: entry and close by the same source. ``difference_bps`` is that to the
# consensus over the decisions that both score, ``opposite`` the share of these where one says gain and the other loss.
CLOSES: Schema = {
    "close": pl.String, "n": pl.Int64, "fixtures": pl.Int64, "mean_clv_bps": pl.Float64, "low": pl.Float64, "high": pl.Float64,
    "difference_bps": pl.Float64, "difference_low": pl.Float64, "difference_high": pl.Float64, "opposite": pl.Float64,
}  # fmt: skip

# What each book offered when a side was decided on: how often a price, how often the best one, how far behind the best,
# and the value of its price at the closing probability of the consensus, in percent.
ON_OFFER: Schema = {
    "book": pl.String, "quoted": pl.Float64, "best": pl.Float64, "behind_best_pct": pl.Float64, "n": pl.Int64,
    "mean_edge_pct": pl.Float64, "low": pl.Float64, "high": pl.Float64,
}  # fmt: skip

_KEY = ["fixture_id", "tick_seq", "market_key", "side"]
_KINDS = [*_KEY, "source"]


def scored_by_source(backtest: PerformedRun, scored: pl.DataFrame) -> pl.DataFrame:
    """Score decisions by the consensus and by every book of the pack, entry and close by the same of them.

    Parameters
    ----------
    backtest
        The run.
    scored
        Rows of ``breakdowns.scored_decisions``: those that are looked at.

    Returns
    -------
    pl.DataFrame
        (source, fixture_id, tick_seq, market_key, side, clv_bps, entry_prob_bps, close_prob_bps, odds_milli): a row for each
        decision and source. CLV and closing probability are null unless scored, and for entries at the closing message;
        probability and odds at entry are null where the source had none.
    """
    decided = backtest.result.decisions.filter(pl.col("seq").is_in(scored["seq"].implode()))
    named = decided.with_columns(confidence=pl.lit(None, pl.Float64)).select(
        pl.col(name).cast(dtype) for name, dtype in DECISIONS.items()
    )
    return pl.concat([_scored_by(backtest, named, source) for source in (None, *backtest.pack.books)])


def _scored_by(backtest: PerformedRun, named: pl.DataFrame, source: str | None) -> pl.DataFrame:
    window = replace(backtest.window, close_source=source)
    parts = []
    for shard in shards_of(backtest.pack.manifest.fixtures):
        own = [fixture.fixture_id for fixture in shard]
        decided = named.filter(pl.col("fixture_id").is_in(own))
        if decided.height:
            tape = backtest.pack.tape(decided["fixture_id"].unique().to_list())
            parts.append(looked_up(tape, locate(tape, decided), window))
    again = numbered(parts)
    rows = scores(positions(again.decisions, again.closes), window, backtest.pack.manifest.max_close_age_s)
    counts = (pl.col("reason") == Reason.SCORED) & ~at_close(again.decisions, again.closes)
    kept = pl.when(counts).then(pl.col("clv_bps", "close_prob_bps"))
    return rows.with_columns(kept, source=pl.lit(source or CONSENSUS)).select(
        "source", *_KEY, "clv_bps", "entry_prob_bps", "close_prob_bps", "odds_milli"
    )


def closes_table(found: pl.DataFrame, level: float) -> pl.DataFrame:
    """Return ``CLOSES`` of what ``scored_by_source`` found, the consensus first, then books by their name."""
    counted = found.drop_nulls("clv_bps")
    consensus = counted.filter(pl.col("source") == CONSENSUS).select(*_KEY, of_consensus="clv_bps")
    both = counted.filter(pl.col("source") != CONSENSUS).join(consensus, on=_KEY, maintain_order="left")
    apart = group_means(both["clv_bps"] - both["of_consensus"], both["fixture_id"], both["source"], level=level)
    signs = both.group_by("source").agg(opposite=(pl.col("clv_bps") * pl.col("of_consensus") < 0).mean())
    return (
        group_means(counted["clv_bps"], counted["fixture_id"], counted["source"], level=level)
        .rename({"group": "close", "n_clusters": "fixtures", "mean": "mean_clv_bps"})
        .join(_apart(apart), on="close", how="left")
        .join(signs.rename({"source": "close"}), on="close", how="left")
        .sort(pl.col("close") != CONSENSUS, "close")
        .select(pl.col(name).cast(dtype) for name, dtype in CLOSES.items())
    )


def _apart(means: pl.DataFrame) -> pl.DataFrame:
    named = {"group": "close", "mean": "difference_bps", "low": "difference_low", "high": "difference_high"}
    return means.select(*named).rename(named)


def on_offer_table(found: pl.DataFrame, level: float) -> pl.DataFrame:
    """Return ``ON_OFFER`` of what ``scored_by_source`` found, books by their name."""
    closing = found.filter(pl.col("source") == CONSENSUS).select(*_KEY, closing="close_prob_bps")
    books = found.filter(pl.col("source") != CONSENSUS).with_columns(best=pl.col("odds_milli").max().over(_KEY))
    quoted = books.drop_nulls("odds_milli")
    offered = books.group_by("source").agg(quoted=pl.col("odds_milli").is_not_null().mean())
    beside = quoted.group_by("source").agg(
        best=(pl.col("odds_milli") == pl.col("best")).mean(),
        behind_best_pct=(100 * (1 - pl.col("odds_milli") / pl.col("best"))).mean(),
    )
    valued = quoted.join(closing, on=_KEY, maintain_order="left").drop_nulls("closing")
    edge_pct = valued.select(quoted_edge_bps("closing") / 100).to_series()
    means = group_means(edge_pct, valued["fixture_id"], valued["source"], level=level)
    return (
        offered.join(beside, on="source", how="left")
        .join(means.rename({"group": "source", "mean": "mean_edge_pct"}), on="source", how="left")
        .sort("source")
        .rename({"source": "book"})
        .select(pl.col(name).cast(dtype) for name, dtype in ON_OFFER.items())
    )


def tables_of(backtest: PerformedRun, scored: pl.DataFrame, level: float) -> Iterator[tuple[str, pl.DataFrame]]:
    """Return both tables by name; without rows where the pack keeps no books, or nothing was scored."""
    if not backtest.pack.books or scored.is_empty():
        yield from (("closes", pl.DataFrame(schema=CLOSES)), ("on_offer", pl.DataFrame(schema=ON_OFFER)))
        return
    found = scored_by_source(backtest, scored)
    yield from (("closes", closes_table(found, level)), ("on_offer", on_offer_table(found, level)))
