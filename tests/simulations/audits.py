"""``python -m tests.simulations.audits``: in how many of the fixtures in which an agent cheats a blind draw shows it.

Where a fixture is cut at all of its messages that are drawn, and where at one of its parts alone, as a prefix of time does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from clvlab.engine import lookahead
from clvlab.engine.agent import Identity
from clvlab.engine.replay import locate
from clvlab.law.closing import Window
from clvlab.law.schema import DECISIONS
from clvlab.law.tape import Tape
from tests.simulations.moving import paths, tape_of

TICKS = 200
Uses = Callable[[pl.Expr, pl.Expr], pl.Expr]
# Whether a fixture is decided on, by its price at entry and at the last message that is known.
PLANTED: dict[str, Uses] = {
    "veto of each loser": lambda entry, last: last >= entry,
    "veto of great losers": lambda entry, last: last >= entry - 300,
    "entry before each winner": lambda entry, last: last > entry,
    "entry before great winners": lambda entry, last: last > entry + 300,
}


@dataclass(frozen=True)
class Planted:
    """Backs one side at a message of each fixture, as far as what is known last lets it."""

    uses: Uses
    at: np.ndarray  # tick of entry by fixture
    hides: bool = False  # among positions at the first ticks of every fixture, which draw the cuts that fall where it decides

    @property
    def identity(self) -> Identity:
        return Identity("planted", "planted", "1")

    def decide(self, tape: Tape) -> pl.DataFrame:
        entries = pl.LazyFrame({"fixture_id": np.arange(self.at.size) + 1, "at": self.at})
        first = tape.ticks().filter(pl.col("side") == "part1").join(entries, on="fixture_id", maintain_order="left")
        entry = first.filter(pl.col("tick_seq") == pl.col("at")).select("fixture_id", entry="prob_bps")
        last = first.group_by("fixture_id").agg(last=pl.last("prob_bps"))
        told = (
            entry.join(last, on="fixture_id").join(entries, on="fixture_id").filter(self.uses(pl.col("entry"), pl.col("last")))
        )
        taken = told.select("fixture_id", tick_seq="at")
        if self.hides:
            taken = pl.concat(
                [taken, first.filter(pl.col("tick_seq") < 5).select("fixture_id", pl.col("tick_seq").cast(pl.Int64))]
            )
        named = {"agent_id": "planted", "action": "BACK", "market_key": "WINNER||", "side": "part1", "stake": 1}
        given = taken.with_columns(pl.lit(value).alias(name) for name, value in named.items())
        nothing = [pl.lit(None).alias(name) for name in DECISIONS if name not in given.collect_schema().names()]
        return given.with_columns(nothing).select(pl.col(name).cast(kind) for name, kind in DECISIONS.items()).collect()


def shown(agent: Planted, tape: Tape, seed: int) -> tuple[int, int, float]:
    """Count fixtures in which what was decided used the future, and those of them that show if all are drawn.

    At last, how many show on average that are cut once, in one of their parts.
    """
    plan = lookahead._Plan(agent, Window(), 24, 100_000, lookahead.Draw(seed))
    located = locate(tape, agent.decide(tape))
    whole = located.select(*DECISIONS, "ts_ms")
    first = tape.ticks().filter(pl.col("side") == "part1").collect()
    at = pl.DataFrame({"fixture_id": np.arange(agent.at.size) + 1, "tick_seq": agent.at.astype(np.int32)})
    entry = first.join(at, on=["fixture_id", "tick_seq"]).select("fixture_id", "tick_seq", entry="prob_bps")
    unknowing = set(entry.filter(agent.uses(pl.col("entry"), pl.col("entry")))["fixture_id"])
    used = unknowing ^ set(whole.join(entry, on=["fixture_id", "tick_seq"])["fixture_id"])
    scored = located.join(lookahead._gains(tape, located, plan.window), on=["fixture_id", "tick_seq"], how="semi")
    cuts = lookahead._own_cuts(plan, tape, scored)

    def found(parts: slice) -> int:
        differ = lookahead._differing(plan, tape, whole, agent, {one: own[parts] for one, own in cuts.items()})
        return len(used & {fixture_id for _, fixture_id, _ in differ})

    once = [found(slice(part, part + 1)) for part in range(lookahead._BLIND_PARTS)]
    return len(used), found(slice(None)), float(np.mean(once))


def table(fixtures: int = 400, seed: int = 7) -> str:
    """State the share by kind of cheat and by where in its fixture it enters."""
    places = {"at 10 %": 0.1, "at 50 %": 0.5, "at 80 %": 0.8, "anywhere": None}
    lines = [f"{'of fixtures that cheat, show; cut once':<40}" + "".join(f"{place:>19}" for place in places)]
    for hides in (False, True):
        for name, uses in PLANTED.items():
            cells = []
            for place in places.values():
                rng = np.random.default_rng(seed)
                tape = tape_of(paths(rng, fixtures, TICKS))
                at = rng.integers(5, int(0.9 * TICKS), fixtures) if place is None else np.full(fixtures, int(place * TICKS))
                used, found, once = shown(Planted(uses, at, hides), tape, seed)
                cells.append(f"{found / used:.2f} {once / used:.3f} of {used}")
            lines.append(f"{name + ', hidden' * hides:<40}" + "".join(f"{cell:>19}" for cell in cells))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
