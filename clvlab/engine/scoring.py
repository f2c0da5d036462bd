"""Scores without evidence: what the law says of decisions that nobody seals, such as the points of a search."""

from __future__ import annotations

import polars as pl

from clvlab.engine.agent import Agent, decisions_of
from clvlab.engine.replay import confidence_ppm, locate, market_rows
from clvlab.law.closing import Window, fixture_closes, market_closes
from clvlab.law.clv import scores
from clvlab.law.positions import check_prices
from clvlab.law.schema import POSITIONS, Action
from clvlab.law.tape import Tape
from clvlab.proof.events import SEALED_ORDER

_MARKET = ["fixture_id", "market_key"]


class Scorer:
    """A tape and a window, made ready to score one agent after another.

    A replay writes each state down side by side, for evidence to carry, and the law reads the prices back from it. Here they
    are read from the tape itself; the scores are those of the replay (tests/engine/test_scoring.py).

    Parameters
    ----------
    tape
        The ticks.
    window
        What is scored, and where it closes.

    Raises
    ------
    EvidenceError
        The tape has prices that no evidence may carry.
    """

    def __init__(self, tape: Tape, window: Window) -> None:
        own = tape.judged_by(window.close_source)
        check_prices(own.rows)
        self.tape, self.window, self._own = tape, window, own
        ends = fixture_closes(tape, window)
        first_sides = own.series.filter(pl.col("side_no") == 0)
        self._closes = market_closes(own, first_sides.select(_MARKET), ends).select(*_MARKET, "close_row")
        self._ends = ends.select("fixture_id", "end_seq", "close_ts_ms", "close_kind")
        self._sides = own.series.select(*_MARKET, "side", "side_no", "rows")

    def scores(self, agent: Agent) -> pl.DataFrame:
        """Return ``SCORES`` of what an agent decides, with ``at_close``: whether it acted on the message that closes a market.

        Raises
        ------
        SchemaError, DecisionError
            It returned no frame, decisions that can't be sealed, or one at a tick that does not exist.
        """
        return self.timed_scores(agent).drop("ts_ms")

    def timed_scores(self, agent: Agent) -> pl.DataFrame:
        """Return what ``scores`` does, and the ``ts_ms`` of each decision."""
        located = locate(self.tape, decisions_of(agent, self.tape)).sort(SEALED_ORDER, nulls_last=False)
        if self._own is not self.tape:
            located = located.with_columns(*market_rows(self._own, located))
        rows, back = self._own.rows, pl.col("action") == Action.BACK
        closing = pl.col("end_seq", "close_ts_ms", "close_kind", "close_row")
        found = (
            located.lazy()
            .join(self._sides.lazy(), on=[*_MARKET, "side"], how="left", maintain_order="left")
            .join(self._closes.lazy(), on=_MARKET, how="left", maintain_order="left")
            .join(self._ends.lazy(), on="fixture_id", how="left", maintain_order="left")
            .with_columns(
                pl.when(back & pl.col("market_key").is_not_null()).then(closing),
                entry_row=pl.when(back).then("market_row"),
                offset=pl.col("side_no") * pl.col("rows"),
            )
            .collect(engine="in-memory")
        )
        entry, close = found["entry_row"], found["close_row"]
        own_entry, own_close = entry + found["offset"], close + found["offset"]
        positions = found.with_columns(
            confidence_ppm=confidence_ppm(),
            seq=pl.int_range(1, pl.len() + 1),
            entry_present=entry.is_not_null(),
            entry_suspended=rows["suspended"].gather(entry),
            entry_prob_bps=rows["prob_bps"].gather(own_entry),
            odds_milli=rows["odds_milli"].gather(own_entry),
            closing_present=close.is_not_null(),
            closing_suspended=rows["suspended"].gather(close),
            close_prob_bps=rows["prob_bps"].gather(own_close),
            closing_ts_ms=rows["ts_ms"].gather(close),
        )
        scored = scores(positions.select(*POSITIONS), self.window, self.tape.max_close_age_s)
        return scored.with_columns(found["ts_ms"], at_close=(entry == close).fill_null(value=False))
