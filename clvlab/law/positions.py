"""Positions: every sealed decision beside the two states that score it."""

from __future__ import annotations

import polars as pl

from clvlab.errors import EvidenceError
from clvlab.law.schema import ODDS_MILLI, POSITIONS, PROPOSALS, Action, conform


def positions(decisions: pl.DataFrame, closes: pl.DataFrame) -> pl.DataFrame:
    """Put every decision beside the two states that score it.

    Parameters
    ----------
    decisions, closes
        ``DECISION_EVENTS`` and ``CLOSE_EVENTS``: exactly what stands in evidence, in order of ``seq``.

    Returns
    -------
    pl.DataFrame
        ``POSITIONS``, in order of ``seq``.

    Raises
    ------
    EvidenceError
        Not exactly one close for every market that a BACK names, sorted by (fixture_id, market_key); or sides of a state
        that are not sorted and unique.
    """
    market = ["fixture_id", "market_key"]
    named = decisions.filter(pl.col("action") == Action.BACK, pl.col("market_key").is_not_null())
    if not closes.select(market).equals(named.select(market).unique().sort(market)):
        raise EvidenceError("there must be one MARKET_CLOSE for every market that a BACK names, sorted")
    entries, quotes = _prices(decisions.rename({"side": "own_side"}), ["seq"], "own_side"), _prices(closes, market)
    own = entries.filter(pl.col("side") == pl.col("own_side"))  # sides are unique: at most one row per decision
    asked = decisions.with_columns(
        market=pl.when(pl.col("action") == Action.BACK).then("market_key"),
        entry_present=pl.col("sides").is_not_null(),
        entry_suspended="state_suspended",
    )
    return conform(
        asked.lazy()
        .join(
            own.lazy().select("seq", entry_prob_bps="prob_bps", odds_milli="odds_milli"),
            on="seq",
            how="left",
            maintain_order="left",
        )
        .join(
            closes.lazy().select(
                "fixture_id", "end_seq", "close_ts_ms", "close_kind",
                market="market_key",
                closing_present=pl.col("sides").is_not_null(),
                closing_suspended="state_suspended",
                closing_ts_ms="state_ts_ms",
            ),
            on=["fixture_id", "market"],
            how="left",
            maintain_order="left",
        )
        .join(
            quotes.lazy().select("fixture_id", "side", market="market_key", close_prob_bps="prob_bps"),
            on=["fixture_id", "market", "side"],
            how="left",
            maintain_order="left",
        )
        .select(*POSITIONS)
        .collect(engine="in-memory"),
        POSITIONS,
        "POSITIONS",
    )  # fmt: skip


def proposals(decisions: pl.DataFrame, placed: pl.DataFrame) -> pl.DataFrame:
    """Put every decision beside the quote that it would take: ``PROPOSALS``, in order of ``seq``.

    Parameters
    ----------
    decisions, placed
        ``PROPOSAL_EVENTS`` and their ``POSITIONS``, both in order of ``seq``. There is no quote in a suspended market.
    """
    quote = pl.when(~pl.col("entry_suspended")).then("odds_milli")
    both = placed.select(pl.exclude("odds_milli"), odds_milli=quote).hstack(
        decisions.select("stake", "limit_odds_milli", quote_age_ms=pl.col("ts_ms") - pl.col("state_ts_ms"))
    )
    return conform(both.select(*PROPOSALS), PROPOSALS, "PROPOSALS")


def _prices(events: pl.DataFrame, key: list[str], *further: str) -> pl.DataFrame:
    """Return one row per key and side of every state: (key, further columns, side, prob_bps, odds_milli)."""
    states = events.filter(pl.col("sides").list.len() > 0).select(*key, *further, "state_suspended", "sides")
    prices = states.explode("sides").unnest("sides")
    if prices["side"].null_count():
        raise EvidenceError("a side without a name")
    check_prices(prices, "state_suspended")
    same = pl.all_horizontal(pl.col(column) == pl.col(column).shift(1) for column in key)
    if prices.select((same & (pl.col("side") <= pl.col("side").shift(1))).any()).item():
        raise EvidenceError("the sides of a market must be unique and in byte order")
    return prices


def check_prices(prices: pl.DataFrame, suspended: str = "suspended") -> None:
    """Refuse prices that no market has.

    Parameters
    ----------
    prices
        ``prob_bps``, ``odds_milli``, and whether the market is suspended.
    suspended
        Name of that column.

    Raises
    ------
    EvidenceError
    """
    impossible = (
        ~pl.col("prob_bps").is_between(0, 10_000)
        | ~pl.col("odds_milli").is_between(*ODDS_MILLI)
        | (pl.col(suspended) & pl.col("prob_bps").is_not_null())
    )
    if prices.select(impossible.any()).item():
        raise EvidenceError("a price out of range, or a probability in a suspended market")
