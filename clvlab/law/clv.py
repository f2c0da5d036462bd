"""Closing-line value and edge of every decision, from its two states in evidence.

References
----------
Interface specification, "What the service does" (2) and "InspectorRecord". CLV in probability points decides the ranking. The
value of the price taken at the closing probability ("CLV %") is shown with it, but is not used for ranking.
"""

from __future__ import annotations

from functools import cache, lru_cache

import polars as pl

from clvlab.law.closing import Window
from clvlab.law.schema import POSITIONS, SCORES, Action, Reason, conform


def clv_bps() -> pl.Expr:
    """Return closing minus entry probability of the side, in basis points. A positive value beats the close."""
    return pl.col("close_prob_bps") - pl.col("entry_prob_bps")


def quoted_edge_bps(prob_bps: str) -> pl.Expr:
    """Return the expected value of ``odds_milli`` at a probability, in basis points, half up; null without a quote."""
    # Only integers are used, because floating point rounds differently between machines, and one digit changes the hash.
    return (2 * pl.col(prob_bps) * pl.col("odds_milli") + 1000) // 2000 - 10_000


def edge_bps() -> pl.Expr:
    """Return the expected value of the price taken, at the closing probability. Without a quote, use the entry's fair price."""
    close, entry = pl.col("close_prob_bps"), pl.col("entry_prob_bps")
    # Polars gives null, not an error, for an integer divided by zero.
    fair = (2 * close * 10_000 + entry) // (2 * entry) - 10_000
    return pl.when(pl.col("odds_milli").is_not_null()).then(quoted_edge_bps("close_prob_bps")).when(entry > 0).then(fair)


def is_allowed(market_allowlist: tuple[str, ...]) -> pl.Expr:
    """Check whether ``market_key`` starts with one of the prefixes. The prefix ``""`` allows every market."""
    starts = (pl.col("market_key").str.starts_with(prefix) for prefix in market_allowlist)
    return pl.any_horizontal(pl.lit(value=False), *starts)  # not a chain of |, because a thousand of them take Polars minutes


def closing_age_ms() -> pl.Expr:
    return pl.col("close_ts_ms") - pl.col("closing_ts_ms")


@lru_cache(maxsize=64)  # building the chain takes longer than applying it to a small run
def reason(window: Window, max_close_age_s: int | None) -> pl.Expr:
    """Return the first rule that a position fails, or ``scored``."""
    # An old quote hides later movement of the market, so it can't be a closing line.
    stale = pl.lit(value=False) if max_close_age_s is None else closing_age_ms() > 1000 * max_close_age_s
    # Rules about the agent (its omissions, time and entry) come before rules about the close. So a bad close never excuses a
    # fault of the agent (law.md, "Reasons").
    rules: list[tuple[Reason, pl.Expr]] = [
        # Abstentions would dilute a mean.
        (Reason.WAIT_UNSCORED, pl.col("action") == Action.WAIT),
        (Reason.MARKET_KEY_MISSING, pl.col("market_key").is_null()),
        (Reason.SIDE_MISSING, pl.col("side").is_null()),
        (Reason.MARKET_NOT_ALLOWED, ~is_allowed(window.market_allowlist)),
        # An agent that acts in play knows goals that the close does not include.
        (Reason.OUTSIDE_WINDOW, pl.col("tick_seq") >= pl.col("end_seq")),
        (Reason.ENTRY_MARKET_ABSENT, ~pl.col("entry_present")),
        # A price that was withdrawn could not be bet on.
        (Reason.ENTRY_SUSPENDED, pl.col("entry_suspended")),
        (Reason.ENTRY_SIDE_MISSING, pl.col("entry_prob_bps").is_null()),
        (Reason.CLOSING_MARKET_ABSENT, ~pl.col("closing_present")),
        (Reason.CLOSING_SUSPENDED, pl.col("closing_suspended")),
        (Reason.CLOSING_STALE, stale),
        (Reason.CLOSING_SIDE_MISSING, pl.col("close_prob_bps").is_null()),
        # An entry just before the close has a CLV near 0 by construction, and would be a way to pad a count.
        (Reason.PENDING_HORIZON, pl.col("close_ts_ms") - pl.col("ts_ms") < 1000 * window.min_clv_horizon_s),
    ]
    chain = pl.lit(Reason.SCORED.value)
    for name, failed in reversed(rules):
        chain = pl.when(failed).then(pl.lit(name.value)).otherwise(chain)
    return chain


@cache
def _score() -> list[pl.Expr]:
    """Return the columns that follow from the reason: validity and score of a position."""
    scored = pl.col("reason") == Reason.SCORED
    valid = pl.col("reason").is_in([Reason.SCORED.value, Reason.WAIT_UNSCORED.value, Reason.PENDING_HORIZON.value])
    return [
        valid.alias("valid"),
        pl.when(scored).then(clv_bps()).alias("clv_bps"),
        pl.when(scored).then(edge_bps()).alias("edge_bps"),
        closing_age_ms().alias("closing_age_ms"),
    ]


def scores(positions: pl.DataFrame, window: Window, max_close_age_s: int | None) -> pl.DataFrame:
    """Return ``SCORES``, one row per decision in order of ``seq``. ``clv_bps`` and ``edge_bps`` are null unless scored."""
    return conform(
        conform(positions, POSITIONS, "POSITIONS")
        .lazy()
        .with_columns(reason=reason(window, max_close_age_s))
        .with_columns(_score())
        .sort("seq")
        .select(*SCORES)
        .collect(engine="in-memory"),
        SCORES,
        "SCORES",
    )
