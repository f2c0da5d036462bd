"""``python -m tests.benchmarks.sheet [--fixtures 13500] [--decisions 100000] [--books 14] [--moved 0.38] [--folder FOLDER]``.

The tear sheet of a season, part by part, in processor and wall time. Fixtures have three markets of three messages (a day,
three hours and a second before the kickoff), most of them said by every book. A share of the handicaps has another line at the
close, as in football-data's files.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from clvlab.engine.agent import Identity, register
from clvlab.law.markets import HANDICAP_GOALS, RESULT_1X2, TOTAL_GOALS
from clvlab.law.schema import BOOKS, TICKS
from clvlab.law.tape import Tape
from clvlab.packs.manifest import Fixture, PackManifest
from clvlab.packs.reader import load_pack
from clvlab.packs.rows import RESULTS
from clvlab.packs.writer import write_pack
from clvlab.report.breakdowns import tables_of
from clvlab.report.tearsheet import TearSheet
from clvlab.runs.run import Run
from tests.benchmarks.agents import decisions_on
from tests.benchmarks.report import machine
from tests.factories import performed

_START_MS = 1_767_225_600_000
_BEFORE_S = (86_400, 10_800, 1)
_CLOSING_SEQ = 6
_GOALS = np.arange(21)
_FACTORIALS = np.append(1.0, np.arange(1.0, 21)).cumprod()


def season(fixtures: int, books: int, moved: float, seed: int = 7) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return ``TICKS``, ``BOOKS`` and ``RESULTS`` of a season."""
    rng = np.random.default_rng(seed)
    logs = rng.normal([0.35, 0.15], 0.3, (fixtures, 2))
    first, second = rng.normal(0, 0.04, (2, fixtures, 2))
    moves = np.array([np.zeros((fixtures, 2)), first, 1.5 * first + second])  # what rose goes on rising
    grids = [_scores(np.exp(logs + move)) for move in moves]
    margin, total = _GOALS[:, None] - _GOALS, _GOALS[:, None] + _GOALS
    expected = np.exp(logs) @ [1, -1]
    line = -np.round(4 * expected) / 4
    new_line = line + np.where(rng.random(fixtures) < moved, rng.choice([-0.25, 0.25], fixtures), 0.0)
    rows = []
    for at, grid in enumerate(grids):
        result = np.stack([grid[:, margin > 0].sum(1), grid[:, margin == 0].sum(1), grid[:, margin < 0].sum(1)], 1)
        rows.append(_messages(at, f"{RESULT_1X2}||", ("part1", "draw", "part2"), result, 3 * at))
        over = grid[:, total > 2.5].sum(1)
        rows.append(_messages(at, f"{TOTAL_GOALS}||line=2.5", ("over", "under"), np.stack([over, 1 - over], 1), 3 * at + 1))
        for own in np.unique(np.concatenate([line, new_line])):
            here = np.flatnonzero((new_line if at == 2 else line) == own)
            gone = np.flatnonzero((at == 2) & (line == own) & (new_line != own))
            halves = [margin + half for half in ((own - 0.25, own + 0.25) if 4 * own % 2 else (own, own))]
            won, lost = (sum(grid[:, sign * half > 0].sum(1) for half in halves) for sign in (1, -1))
            probs, key = np.stack([won, lost], 1) / (won + lost)[:, None], f"{HANDICAP_GOALS}||line={own:g}"
            for at_line, quoted, seq in ((here, probs[here], 3 * at + 2), (gone, np.full((gone.size, 2), np.nan), 9)):
                if at_line.size:
                    rows.append(_messages(at, key, ("part1", "part2"), quoted, seq, at_line))
    ticks = pl.concat(rows)
    said = pl.concat([_of_book(ticks, f"book {number:02}", rng) for number in range(books)]) if books else ticks.clear()
    sides = ticks.filter(pl.col("tick_seq") == 0).select("fixture_id", "market_key", "side")
    won = rng.choice(["part1", "draw", "part2"], fixtures)
    results = sides.with_columns(won=pl.Series(won)[sides["fixture_id"] - 1]).select(
        "fixture_id",
        "market_key",
        "side",
        result=pl.when(pl.col("side") == pl.col("won")).then(pl.lit("won")).otherwise(pl.lit("lost")),
        detail=pl.lit("by the benchmark"),
    )
    return ticks, said, results


def _scores(means: Any) -> Any:
    home, away = (np.exp(-mean) * mean**_GOALS / _FACTORIALS for mean in means.T[:, :, None])
    grid = home[:, :, None] * away[:, None, :]
    return grid / grid.sum((1, 2), keepdims=True)


def _messages(at: int, key: str, sides: tuple[str, ...], probs: Any, seq: int, fixtures: Any = None) -> pl.DataFrame:
    number = np.arange(len(probs)) if fixtures is None else fixtures
    bps = np.rint(np.nan_to_num(probs) * 10_000).astype(np.int64)
    bps[:, 0] += 10_000 - bps.sum(1)
    kickoff_ms = _START_MS + number * 1_800_000 + 100_000_000
    frame = pl.DataFrame(
        {
            "fixture_id": np.repeat(number + 1, len(sides)),
            "tick_seq": seq,
            "ts_ms": np.repeat(kickoff_ms - 1000 * _BEFORE_S[at], len(sides)),
            "in_running": False,
            "market_key": key,
            "side": np.tile(sides, len(number)),
            "prob_bps": bps.ravel(),
            "odds_milli": 9_500_000 // np.maximum(bps.ravel(), 100),
            "suspended": np.repeat(np.isnan(probs[:, 0]), len(sides)),
        }
    )
    priced = frame.with_columns(pl.when(~pl.col("suspended")).then(pl.col("prob_bps", "odds_milli")))
    return priced.select(pl.col(name).cast(dtype) for name, dtype in TICKS.items())


def _of_book(ticks: pl.DataFrame, book: str, rng: Any) -> pl.DataFrame:
    """Return the messages of a book, which has each price a little off and says one message in ten not at all."""
    message = ["fixture_id", "tick_seq"]
    own = ticks.select(message).unique(maintain_order=True)
    own = own.with_columns(off=pl.Series(rng.integers(-60, 61, own.height))).filter(pl.Series(rng.random(own.height) < 0.9))
    sign = pl.when(pl.col("side").is_in(["part1", "over"])).then(1).when(pl.col("side") == "draw").then(0).otherwise(-1)
    return (
        ticks.join(own, on=message, maintain_order="left")
        .with_columns(
            pl.col("prob_bps") + sign * pl.col("off"), pl.col("odds_milli") + 3 * pl.col("off") * sign, book=pl.lit(book)
        )
        .with_columns(pl.col("prob_bps").clip(1, 9_999), pl.col("odds_milli").clip(1_001))
        .select(pl.col(name).cast(dtype) for name, dtype in BOOKS.items())
    )


def write(folder: Path, fixtures: int, books: int, moved: float) -> None:
    ticks, said, results = season(fixtures, books, moved)
    declared = tuple(
        Fixture(
            fixture_id=number + 1,
            names=(f"home {number}", f"away {number}"),
            kickoff_ts_ms=_START_MS + number * 1_800_000 + 100_000_000,
        )
        for number in range(fixtures)
    )
    about = PackManifest(pack_id=folder.name, provenance="synthetic-benchmark", fixtures=declared)
    known = results.select(pl.col(name).cast(dtype) for name, dtype in RESULTS.items())
    write_pack(ticks, about, folder, books=said if books else None, results=known)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Early:
    """Backs about ``count`` sides before the close: evenly spread, or with ``skill`` those first that had risen."""

    count: int
    skill: bool

    def __post_init__(self) -> None:
        register(self)

    @property
    def identity(self) -> Identity:
        return Identity("early", "bench-early", "1", {"count": self.count, "skill": self.skill})

    def decide(self, tape: Tape) -> pl.DataFrame:
        same = pl.col("series") == pl.col("series").shift(1)
        rise = pl.when(same).then(pl.col("prob_bps") - pl.col("prob_bps").shift(1)).fill_null(0).alias("momentum")
        priced = tape.rows.select("series", "tick_seq", "prob_bps", rise).filter(pl.col("tick_seq") < _CLOSING_SEQ)
        if self.skill:
            best = priced.with_row_index("row").sort(-pl.col("momentum").clip(0, 1), "row", maintain_order=True)
            picks = best.head(self.count).sort("row")
        else:
            picks = priced[np.linspace(0, priced.height - 1, min(self.count, priced.height)).astype(np.int64)]
        return decisions_on(tape, picks.select("series", "tick_seq", "momentum"), self.identity.agent_id)


def parts(sheet: TearSheet) -> dict[str, Callable[[], object]]:
    """Return the parts of a sheet in an order in which each is computed once, and the page at the end."""
    return {
        "scored decisions": lambda: sheet.scored,
        "means and intervals": lambda: (sheet.means, sheet.median, sheet.beat, sheet.with_at_close),
        "sign flips": lambda: sheet.sign_flips,
        "settlement": lambda: sheet.settled,
        "moved lines": lambda: sheet.moved_lines,
        "closes of books": lambda: dict(tables_of(sheet.source, sheet.scored, sheet.level)),
        "permutation": lambda: sheet.permutation,
        "delay": lambda: sheet.delay,
        "page, with all": lambda: TearSheet(sheet.source)._repr_html_(),
    }


def measured(run: Run) -> dict[str, tuple[float, float]]:
    """Return processor and wall time of each part, in seconds."""
    found = {}
    for name, part in parts(TearSheet(run)).items():
        wall, cpu = time.perf_counter(), time.process_time()
        part()
        found[name] = (time.process_time() - cpu, time.perf_counter() - wall)
    return found


def main() -> int:
    """Write the season, back it, and print each part with the least of several rounds."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.sheet", description="Measure the tear sheet of a season.")
    parser.add_argument("--fixtures", type=int, default=13_500)
    parser.add_argument("--decisions", type=int, default=100_000)
    parser.add_argument("--books", type=int, default=14)
    parser.add_argument("--moved", type=float, default=0.38, help="share of the handicaps with another line at the close")
    parser.add_argument("--skill", action="store_true", help="back what rises, so that no p is settled early")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where the pack is kept for another time")
    parser.add_argument("--json", type=Path, metavar="report.json")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="clvlab-sheet-") as scratch:
        folder = (asked.folder or Path(scratch)) / f"{asked.fixtures}-{asked.books}-{asked.moved}"
        if not folder.exists():
            write(folder, asked.fixtures, asked.books, asked.moved)
        run = performed(load_pack(folder), Early(asked.decisions, asked.skill))
        run.report  # noqa: B018  a report is verified, which has figures of its own
        rounds = [measured(run) for _ in range(asked.rounds)]
        sheet = TearSheet(run)
        facts = {"decisions": sheet.clv.n, "fixtures": sheet.clv.n_clusters, "moved": sheet.moved_lines.height}
    figures = {name: [min(one[name][place] for one in rounds) for place in (0, 1)] for name in rounds[0]}
    sys.stdout.write(f"{facts}\n{'part':<22}{'processor':>10}{'wall':>9}\n")
    for name, (cpu, wall) in figures.items():
        sys.stdout.write(f"{name:<22}{cpu:>8.2f} s{wall:>7.2f} s\n")
    sys.stdout.write(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB\n")
    if asked.json:
        asked.json.write_text(json.dumps({"machine": machine(), "facts": facts, "figures": figures}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
