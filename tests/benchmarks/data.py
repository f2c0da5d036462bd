"""The data of the benchmarks, from a seed: one market feed as an unsorted file and as an admitted pack, and sealed runs.

Every fixture sends rounds of four messages, one a market, at one time. The last round before kickoff and the first in play
have the same time, so that a market's last message before kickoff and the close of its fixture are equally late.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from clvlab.engine.run import run
from clvlab.law.closing import Window
from clvlab.law.schema import TICKS
from clvlab.law.tape import Tape
from clvlab.packs.catalog import Catalog
from clvlab.packs.manifest import Fixture, PackManifest
from clvlab.packs.writer import write_pack
from clvlab.store.folder import write_run
from tests.benchmarks.agents import Every, momentum

__all__ = ["FEED", "PACK", "ROWS_PER_FIXTURE", "feed", "fixtures", "keep_run", "main", "thresholds", "write_feed"]

FEED, PACK = "feed.parquet", "bench"
_MARKETS = (
    ("1X2_PARTICIPANT_RESULT||", ("draw", "part1", "part2"), (2700.0, 4500.0, 2800.0)),
    ("ASIANHANDICAP_PARTICIPANT_GOALS||line=-0.5", ("part1", "part2"), (4800.0, 5200.0)),
    ("OVERUNDER_PARTICIPANT_GOALS||line=2.5", ("over", "under"), (5200.0, 4800.0)),
    ("OVERUNDER_PARTICIPANT_GOALS|half=1|line=1.5", ("over", "under"), (3500.0, 6500.0)),
)
_SIDES = sum(len(sides) for _, sides, _ in _MARKETS)
ROWS_PER_FIXTURE = 20_000
_FIRST_FIXTURE = 17_000_000
_START_MS = 1_767_225_600_000
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class _Rounds:
    """What the rounds of one fixture have in common."""

    ts_ms: np.ndarray
    in_running: np.ndarray


def feed(ticks: int, seed: int, first: int = 0) -> tuple[pl.DataFrame, tuple[Fixture, ...]]:
    """Give about so many ``TICKS`` in order of arrival, fixture by fixture from a first number on, and their fixtures."""
    n_fixtures = max(1, ticks // ROWS_PER_FIXTURE)
    n_rounds = ticks // (_SIDES * n_fixtures)
    rng = np.random.default_rng(seed)
    numbers = range(first, first + n_fixtures)
    frames = [_ticks(_FIRST_FIXTURE + number, n_rounds, _START_MS + number * _HOUR_MS, rng) for number in numbers]
    return pl.concat(frames), fixtures(numbers)


def fixtures(numbers: Iterable[int]) -> tuple[Fixture, ...]:
    """Give the fixtures of a feed by number."""
    return tuple(Fixture(fixture_id=_FIRST_FIXTURE + number, names=(f"home {number}", f"away {number}")) for number in numbers)


def _ticks(fixture_id: int, n_rounds: int, start_ms: int, rng: np.random.Generator) -> pl.DataFrame:
    kickoff = n_rounds - n_rounds // 12
    gaps = rng.integers(500, 9000, n_rounds)
    gaps[kickoff] = 0
    rounds = _Rounds(start_ms + gaps.cumsum(), np.arange(n_rounds) >= kickoff)
    markets = [_market(number, rounds, rng) for number in range(len(_MARKETS))]
    return pl.concat(markets).with_columns(fixture_id=pl.lit(fixture_id, pl.Int64)).select(*TICKS).sort("tick_seq", "side")


def _market(number: int, rounds: _Rounds, rng: np.random.Generator) -> pl.DataFrame:
    """Walk one market's sides, normalise them to 10000, and leave one message in a hundred unpriced."""
    key, sides, opening = _MARKETS[number]
    n = len(rounds.ts_ms)
    level = np.clip(rng.normal(0, 12, (n, len(sides))).cumsum(axis=0) + np.array(opening), 100, 9900)
    prob = np.rint(level / level.sum(axis=1, keepdims=True) * 10_000).astype(np.int32)
    suspended = rng.random(n) < 0.01
    suspended[0] = False
    unpriced = pl.col("suspended")
    return (
        pl.DataFrame(
            {
                "tick_seq": np.repeat(np.arange(n, dtype=np.int32) * len(_MARKETS) + number, len(sides)),
                "ts_ms": np.repeat(rounds.ts_ms, len(sides)),
                "in_running": np.repeat(rounds.in_running, len(sides)),
                "prob_bps": prob.ravel(),
                "odds_milli": (9_700_000 // prob.ravel()).clip(1001).astype(np.int32),
                "suspended": np.repeat(suspended, len(sides)),
            }
        )
        .with_columns(pl.when(~unpriced).then(pl.col("prob_bps", "odds_milli")))
        .with_columns(market_key=pl.lit(key), side=pl.Series(sides).gather(np.tile(np.arange(len(sides)), n)))
    )


def write_feed(folder: Path, ticks: int, seed: int) -> int:
    """Write the feed in order of arrival, and as the only pack of a catalog; give the number of rows."""
    rows, declared = feed(ticks, seed)
    folder.mkdir(parents=True)
    # Names as dictionaries: the plain script is given the fastest file that it can have.
    rows.with_columns(pl.col("market_key", "side").cast(pl.Categorical)).write_parquet(
        folder / FEED, compression="zstd", compression_level=3, row_group_size=262_144
    )
    write_pack(rows, PackManifest(pack_id=PACK, provenance="synthetic-benchmark", fixtures=declared), folder / PACK)
    Catalog(folder).admit(PACK)
    return rows.height


def thresholds(tape: Tape, counts: tuple[int, ...]) -> tuple[int, ...]:
    """Find, for each count, the momentum above which there are about so many signals."""
    rises = momentum(tape, 0)["momentum"].sort(descending=True)
    return tuple(int(rises[min(count, rises.len() - 1)]) for count in counts)


def keep_run(folder: Path, tape: Tape, count: int) -> int:
    """Seal and keep a run of about so many decisions; give their number."""
    result = run(tape, [Every(count)], Window())
    write_run(result.sealed, folder / "runs")
    return result.scores.height


def main(folder: Path, ticks: int, decisions: int, seed: int) -> dict[str, Any]:
    """Write everything: ``small`` and ``large`` feeds, ten times apart, and two runs of the large one, ten times apart."""
    rows = {name: write_feed(folder / name, n, seed) for name, n in (("small", ticks // 10), ("large", ticks))}
    tape = Catalog(folder / "large").open(PACK).tape()
    sparse, dense = thresholds(tape, (ticks // 500, ticks // 100))
    runs = {name: keep_run(folder / name, tape, n) for name, n in (("run-small", decisions // 10), ("run-large", decisions))}
    return {"ticks": rows, "decisions": runs, "thresholds": {"sparse": sparse, "dense": dense}}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), *(int(number) for number in sys.argv[2:]))))
