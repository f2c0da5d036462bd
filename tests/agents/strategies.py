"""Generated tapes on which the templates have something to decide: prices that walk over two fixtures and three markets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
from hypothesis import strategies as st

from clvlab.agents.registry import TEMPLATES
from clvlab.law.schema import FIXTURES, TICKS
from clvlab.law.tape import Tape
from tests.factories import message

__all__ = ["EAGER", "bets_of", "cut", "tapes", "transcript_of"]

MARKETS = (
    ("1X2_PARTICIPANT_RESULT||", ("draw", "part1", "part2")),
    ("OVERUNDER_PARTICIPANT_GOALS||line=2.5", ("over", "under")),
    ("CORNERS||", ("over", "under")),
)

# Parameters with which short tapes bring decisions.
EAGER: dict[str, dict[str, Any]] = {name: {} for name in TEMPLATES} | {
    "baseline": {"min_prob_bps": 3000, "warmup_ticks": 2},
    "cumulative-drift": {"min_drift_micro_logits": 10_000, "min_persistence": 0.0, "warmup_ticks": 1, "cooldown_s": 60},
    "sharp-momentum-v2": {
        "level_alpha": 0.3, "change_allowance_micro_logits": 500, "change_threshold_micro_logits": 5_000, "cooldown_s": 60,
        "lookback_movements": 5, "min_movements": 2, "min_persistence": 0.5, "min_z_milli": 500,
        "persistence_movements": 3, "warmup_ticks": 3, "warmup_s": 1,
    },
}  # fmt: skip


@st.composite
def tapes(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Tape:
    """Up to two fixtures of up to sixty messages; some unpriced, the last ones in play."""
    rows: list[dict[str, Any]] = []
    numbers = draw(st.lists(st.sampled_from([-3, 17]), unique=True, max_size=2))
    for fixture_id in numbers:
        n = draw(st.integers(0, 60))
        kickoff = draw(st.integers(n // 2, n))
        gaps = draw(st.lists(st.sampled_from([0, 1, 30, 3600]), min_size=n, max_size=n))
        steps = draw(st.lists(st.integers(-150, 200), min_size=n, max_size=n))
        chosen = draw(st.lists(st.sampled_from([0, 0, 1, 1, 2]), min_size=n, max_size=n))
        unpriced = draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
        ts_s, levels = 0, [3300, 4800, 5000]
        for seq in range(n):
            market_key, sides = MARKETS[chosen[seq]]
            ts_s += gaps[seq]
            levels[chosen[seq]] = min(9000, max(1000, levels[chosen[seq]] + steps[seq]))
            probs = _probs(levels[chosen[seq]], len(sides)) if unpriced[seq] else [None] * len(sides)
            in_running = seq >= kickoff
            rows += message(
                seq,
                ts_s,
                dict(zip(sides, probs, strict=True)),
                market_key=market_key,
                fixture_id=fixture_id,
                in_running=in_running,
            )
    fixtures = pl.DataFrame([(number, None) for number in numbers], schema=FIXTURES, orient="row")
    return Tape.from_ticks(pl.DataFrame(rows, schema=TICKS, orient="row"), fixtures)


def _probs(level: int, n_sides: int) -> list[int]:
    rest = 10_000 - level
    return [level, rest] if n_sides == 2 else [level, rest // 3, rest - rest // 3]


def cut(tape: Tape, keep: pl.Expr) -> Tape:
    """The tape with the ticks that are to be kept only."""
    return Tape.from_ticks(tape.ticks().filter(keep).collect(), tape.fixtures)


def transcript_of(tape: Tape, every: int = 3) -> list[dict[str, Any]]:
    """Back the first side of every third message that is about a market of the tape."""
    first_sides = tape.ticks().collect().unique(["fixture_id", "tick_seq"], keep="first", maintain_order=True)
    chosen = (
        first_sides.sort("fixture_id", "tick_seq").gather_every(every).select("fixture_id", "tick_seq", "market_key", "side")
    )
    return [row | {"action": "BACK", "confidence": 0.3} for row in chosen.gather_every(every).iter_rows(named=True)]


def bets_of(tape: Tape) -> list[dict[str, Any]]:
    """The same as bets of the template ``bets``."""
    names = ("fixture_id", "tick_seq", "market_key", "side")
    return [{name: row[name] for name in names} | {"stake": 150} for row in transcript_of(tape)]
