"""Agents that exist for the benchmarks only: one with a rule that a plain script can repeat, one for volume, one by ticks."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from clvlab.agents.template import backs
from clvlab.agents.ticks import TickAgent
from clvlab.engine.agent import Identity, register
from clvlab.law.tape import Tape

__all__ = ["LAG", "Average", "Every", "Momentum", "decisions_on", "momentum"]

LAG = 20


def momentum(tape: Tape, threshold: int) -> pl.DataFrame:
    """Give the rows before play whose probability is more than ``threshold`` above that of 20 ticks of the side ago."""
    same_series = pl.col("series") == pl.col("series").shift(LAG)
    rise = pl.col("prob_bps") - pl.col("prob_bps").shift(LAG)
    return (
        tape.rows.lazy()
        .select("series", "tick_seq", "in_running", rise.alias("momentum"), same=same_series)
        .filter(pl.col("momentum") > threshold, "same", ~pl.col("in_running"))
        .select("series", "tick_seq", "momentum")
        .collect(engine="streaming")
    )


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Momentum:
    """Backs every side that rose by more than a threshold over its last 20 ticks."""

    threshold: int

    def __post_init__(self) -> None:
        register(self)

    @property
    def identity(self) -> Identity:
        return Identity("momentum", "bench-momentum", "1", {"threshold": self.threshold})

    def decide(self, tape: Tape) -> pl.DataFrame:
        return decisions_on(tape, momentum(tape, self.threshold), self.identity.agent_id)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Every:
    """Backs about ``count`` sides, evenly spread over the priced rows before play."""

    count: int

    def __post_init__(self) -> None:
        register(self)

    @property
    def identity(self) -> Identity:
        return Identity("every", "bench-every", "1", {"count": self.count})

    def decide(self, tape: Tape) -> pl.DataFrame:
        priced = tape.rows.filter(~pl.col("in_running"), pl.col("prob_bps").is_not_null())
        step = max(1, priced.height // self.count)
        picks = priced.gather_every(step).head(self.count).select("series", "tick_seq", momentum=pl.lit(0, pl.Int32))
        return decisions_on(tape, picks, self.identity.agent_id)


class Average(TickAgent):
    """Backs the first side of a market when it is far above its moving average, asked at every message."""

    def __init__(self) -> None:
        self.averages: dict[tuple[int, str], float] = {}

    def on_tick(self, book):
        side = book.sides()[0]
        prob = book.prob_bps(side)
        if prob is None:
            return None
        key = (book.fixture_id, book.market_key)
        average = self.averages.get(key, prob)
        self.averages[key] = average + 0.1 * (prob - average)
        return book.back(side) if prob - average > 300 else None


def decisions_on(tape: Tape, picks: pl.DataFrame, agent_id: str) -> pl.DataFrame:
    """Back the sides of some rows: ``series``, ``tick_seq`` and ``momentum``, by which each had risen."""
    names = tape.series.select(pl.col("fixture_id", "market_key", "side").gather(picks["series"]))
    reason = pl.format("rose by {} bps over {} ticks", "momentum", pl.lit(LAG))
    claims = {"claimed_edge_bps": pl.lit(None, pl.Int64), "confidence": pl.lit(0.6)}
    named = pl.concat([picks, names], how="horizontal").with_columns(reason=reason, **claims)
    return backs(named, 100).with_columns(agent_id=pl.lit(agent_id))
