"""``python -m tests.simulations.blocks``: what an agent gains that looks ahead within a block, and how often a cut shows it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from clvlab.engine.agent import Identity
from clvlab.engine.decisions import decisions_by_blocks
from clvlab.law.schema import DECISIONS, TICKS
from clvlab.law.tape import Tape
from tests.simulations.moving import paths, tape_of

FIXTURES, TICKS_EACH, AT_ONCE = 120, 200, 4
_EVERY = 20  # ticks between two decisions
_MINUTE_MS = 60_000
Uses = Callable[[pl.Expr, pl.Expr], pl.Expr]
# Whether a side is backed, by its price now and at the message that it looks ahead to, or at the last one that it has.
PLANTED: dict[str, Uses] = {
    "backs what is about to rise": lambda now, then: then > now,
    "leaves out what is about to fall": lambda now, then: then >= now,
}


@dataclass(frozen=True)
class Peeking:
    """Backs one side at every twentieth tick; in some fixtures as far as a later message of theirs lets it."""

    uses: Uses
    ahead: int
    cheated: int  # how many fixtures

    @property
    def identity(self) -> Identity:
        return Identity("peeking", "peeking", "1")

    def decide(self, tape: Tape) -> pl.DataFrame:
        first = tape.ticks().filter(pl.col("side") == "part1").sort("fixture_id", "tick_seq")
        own = pl.col("prob_bps")
        then = own.shift(-self.ahead).over("fixture_id").fill_null(own.last().over("fixture_id"))
        honest = pl.col("fixture_id") > self.cheated
        told = first.with_columns(then=then).filter(
            pl.col("tick_seq") % _EVERY == _EVERY // 2, honest | self.uses(own, pl.col("then"))
        )
        named = {"agent_id": "peeking", "action": "BACK", "market_key": "WINNER||", "side": "part1", "stake": 1}
        given = told.select("fixture_id", "tick_seq").with_columns(pl.lit(value).alias(name) for name, value in named.items())
        nothing = [pl.lit(None).alias(name) for name in DECISIONS if name not in given.collect_schema().names()]
        return given.with_columns(nothing).select(pl.col(name).cast(kind) for name, kind in DECISIONS.items()).collect()


def season(seed: int, fixtures: int = FIXTURES) -> Tape:
    """Return fixtures of which a few are on at once, and none gains by itself."""
    found = paths(np.random.default_rng(seed), fixtures, TICKS_EACH)
    whole = tape_of(found)
    later = (pl.col("fixture_id") - 1) * (TICKS_EACH // AT_ONCE) * _MINUTE_MS
    ticks = whole.ticks().with_columns(pl.col("ts_ms") + later).select(*TICKS).collect()
    return Tape.from_ticks(ticks, whole.fixtures.with_columns(pl.col("kickoff_ts_ms") + later))


def gain_bps(agent: Peeking, tape: Tape) -> float:
    """Return the mean of what the side gained from each decision to the last message of its fixture."""
    first = tape.ticks().filter(pl.col("side") == "part1").sort("fixture_id", "tick_seq").collect()
    closes = first.group_by("fixture_id").agg(close=pl.last("prob_bps"))
    entries = agent.decide(tape).join(first, on=["fixture_id", "tick_seq"]).join(closes, on="fixture_id")
    return float((entries["close"] - entries["prob_bps"]).mean() or 0)


def passed(agent: Peeking, tape: Tape, seed: int) -> bool:
    return decisions_by_blocks(agent, tape, seed=seed).passed


def table(rounds: int = 20) -> str:
    """State the gain, and of how many seeds all cuts pass the agent, by how far it looks and in how many fixtures."""
    lines = [f"{FIXTURES} fixtures, {AT_ONCE} at once, {TICKS_EACH} messages each; {rounds} tapes and seeds a cell"]
    lines.append(f"{'looks ahead':<34}{'messages':>9}{'fixtures':>9}{'gain, bps':>11}{'passed':>8}{'gain of these':>15}")
    tapes = [season(seed) for seed in range(rounds)]
    for name, uses in PLANTED.items():
        for ahead in (1, 20):
            for cheated in (FIXTURES, FIXTURES // 4, FIXTURES // 20, 1):
                agent, honest = Peeking(uses, ahead, cheated), Peeking(uses, ahead, 0)
                gains = [gain_bps(agent, tape) - gain_bps(honest, tape) for tape in tapes]
                through = [
                    gain for seed, (tape, gain) in enumerate(zip(tapes, gains, strict=True)) if passed(agent, tape, seed)
                ]
                said = f"{np.mean(through):+.1f}" if through else "none"
                lines.append(f"{name:<34}{ahead:>9}{cheated:>9}{np.mean(gains):>+11.1f}{len(through):>5}/{rounds}{said:>12}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
