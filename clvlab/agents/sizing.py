"""Stakes of a fraction of Kelly, from the consensus probability and the quote that an action sees."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from clvlab.law.message import Message
from clvlab.law.schema import SAFE_INTEGER, Action
from clvlab.law.tape import Tape, last_row_at


@dataclass(frozen=True, slots=True)
class Kelly:
    """A fraction of the Kelly stake on a bankroll.

    Attributes
    ----------
    fraction_bps
        Part of the full Kelly stake, basis points.
    bankroll
        Integer units; it does not change within a run.

    References
    ----------
    Kelly (1956), "A New Interpretation of Information Rate": stake (p o - 1) / (o - 1) of the bankroll at decimal odds o.
    """

    fraction_bps: int
    bankroll: int

    def stake_at(self, message: Message, side: str) -> int:
        """Return the stake on a side at a message, as ``sized`` does."""
        at = message.sides.index(side)
        prob_bps, odds_milli = message.prob_bps[at], message.odds_milli[at]
        if prob_bps is None or odds_milli is None:
            return 0
        edge = prob_bps * odds_milli - 10_000_000
        full = self.bankroll * self.fraction_bps * edge // (100_000_000 * (odds_milli - 1000))
        return min(max(full, 0), SAFE_INTEGER)

    def sized(self, tape: Tape, decisions: pl.DataFrame) -> pl.DataFrame:
        """Return ``DECISIONS`` with the stake of every BACK replaced, rounded down; 0 without a quote or an edge at it."""
        key = ["fixture_id", "market_key", "side"]
        series = tape.series.with_row_index("series").select(*key, "series", "start")
        asked = decisions.join(series, on=key, how="left", maintain_order="left")
        row = last_row_at(tape.key, asked["start"], asked["series"], asked["tick_seq"])
        quotes = tape.rows.select(pl.col("prob_bps", "odds_milli").cast(pl.Int128).gather(row))
        # p o - 1 in units of 10^-7 and o - 1 in units of 10^-3: their quotient is the full stake in units of 10^-4.
        edge = pl.col("prob_bps") * pl.col("odds_milli") - 10_000_000
        full = self.bankroll * self.fraction_bps * edge // (100_000_000 * (pl.col("odds_milli") - 1000))
        bounded = quotes.select(full.clip(0, SAFE_INTEGER).fill_null(0).cast(pl.Int64)).to_series()
        return decisions.with_columns(stake=pl.when(pl.col("action") == Action.BACK).then(bounded).otherwise(pl.col("stake")))
