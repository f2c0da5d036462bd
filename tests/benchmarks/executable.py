"""``python -m tests.benchmarks.executable [--decisions 100000] [--rounds 3]``: what taking offers would have paid.

A pack of 800 fixtures of one market keeps five levels of each side, which change at every message. Runs of a quarter of the
decisions, all of them and four times as many are valued: all that a card shows without its curves, and with them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from clvlab.engine.agent import Identity, register
from clvlab.law.schema import TICKS
from clvlab.law.tape import Tape
from clvlab.packs.ladders import LADDERS
from clvlab.packs.manifest import Fixture, PackManifest
from clvlab.packs.reader import load_pack
from clvlab.packs.writer import write_pack
from clvlab.report.executable import Executable
from clvlab.runs.run import Run
from tests.benchmarks.agents import decisions_on
from tests.factories import performed

_START_MS, _STEP_MS, _MESSAGES, _LEVELS = 1_767_225_600_000, 30_000, 300, 5
_TIMES = (0.25, 1, 4)


def write(folder: Path, fixtures: int, seed: int = 7) -> None:
    """Write the pack."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(-12, 13, (fixtures, _MESSAGES)).cumsum(1)
    first = np.clip(5000 + rng.integers(-2000, 2001, (fixtures, 1)) + steps, 500, 9500)
    probs = np.stack([first, 10_000 - first], 1).ravel()
    seq = np.tile(np.arange(_MESSAGES), 2 * fixtures)
    ticks = pl.DataFrame(
        {
            "fixture_id": np.repeat(np.arange(1, fixtures + 1), 2 * _MESSAGES),
            "tick_seq": seq,
            "ts_ms": _START_MS + seq * _STEP_MS,
            "in_running": False,
            "market_key": "WINNER||",
            "side": np.tile(np.repeat(["away", "home"], _MESSAGES), fixtures),
            "prob_bps": probs,
            "odds_milli": 9_900_000 // probs,
            "suspended": False,
        }
    ).select(pl.col(name).cast(dtype) for name, dtype in TICKS.items())
    size = pl.Series(2 * rng.integers(500, 20_000, _LEVELS * ticks.height))
    ladders = (
        pl.concat(
            ticks.with_columns(level=pl.lit(level, pl.Int8), odds_milli=pl.col("odds_milli") - 10 * level)
            for level in range(_LEVELS)
        )
        .with_columns(stake_cents=size + pl.col("tick_seq") % 2)
        .select(pl.col(name).cast(dtype) for name, dtype in LADDERS.items())
    )
    kickoff_ms = _START_MS + _MESSAGES * _STEP_MS
    declared = tuple(
        Fixture(fixture_id=number, names=(f"home {number}", f"away {number}"), kickoff_ts_ms=kickoff_ms)
        for number in range(1, fixtures + 1)
    )
    about = PackManifest(pack_id=folder.name, provenance="synthetic-benchmark", fixtures=declared, ladders=_LEVELS)
    write_pack(ticks, about, folder, ladders=ladders)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Evenly:
    """Backs ``count`` states, evenly spread over those before the last messages."""

    count: int

    def __post_init__(self) -> None:
        register(self)

    @property
    def identity(self) -> Identity:
        return Identity("evenly", "bench-evenly", "1", {"count": self.count})

    def decide(self, tape: Tape) -> pl.DataFrame:
        early = tape.rows.select("series", "tick_seq", momentum=pl.lit(0)).filter(pl.col("tick_seq") < _MESSAGES - 5)
        picks = early[np.linspace(0, early.height - 1, min(self.count, early.height)).astype(np.int64)]
        return decisions_on(tape, picks, self.identity.agent_id)


def seconds(run: Run, *, curves: bool) -> tuple[float, int]:
    """Return the time of all that a card shows, with or without its curves, and the number of orders."""
    start = time.perf_counter()
    found = Executable(run, stake=50, delay_s=20, commission="betfair")
    orders = int(found.summary["orders"].max() or 0) and found.frame.height
    if curves:
        _ = found.delays, found.stakes
    return time.perf_counter() - start, orders


def main() -> int:
    """Write the pack, and print the least time of several rounds at each size, next to that of the first."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.executable", description="Measure taking offers.")
    parser.add_argument("--decisions", type=int, default=100_000)
    parser.add_argument("--fixtures", type=int, default=800)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="clvlab-executable-") as scratch:
        folder = Path(scratch) / "deep"
        write(folder, asked.fixtures)
        first: dict[bool, float] = {}
        sys.stdout.write(f"{'orders':>10}{'':3}{'without curves':>18}{'with curves':>18}\n")
        for times in _TIMES:
            run = performed(load_pack(folder), Evenly(int(asked.decisions * times)))
            run.report  # noqa: B018  the evidence is read before
            cells, orders = [], 0
            for curves in (False, True):
                rounds = [seconds(run, curves=curves) for _ in range(asked.rounds)]
                least, orders = min(one for one, _ in rounds), rounds[0][1]
                cells.append(f"{least:>9.2f} s x{least / first.setdefault(curves, least):>5.1f}")
            sys.stdout.write(f"{orders:>10,}{'':3}{''.join(cells)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
