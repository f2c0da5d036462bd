"""One fixture of a season reads a small share of its bytes."""

import numpy as np
import polars as pl
import pytest

import clvlab as cl
from clvlab.arena.packs import push_pack
from clvlab.law.schema import FIXTURES, TICKS
from clvlab.law.tape import Tape
from clvlab.packs.manifest import Fixture, PackManifest
from clvlab.packs.writer import PackWriter

COUNT, MESSAGES, AT_ONCE = 3_000, 1_000, 250
KICKOFF_MS = 1_000_000_000


def make_season(folder):
    """Prices that are drawn at random, and compress no better than those of markets do."""
    random = np.random.default_rng(7)
    fixtures = tuple(Fixture(fixture_id=number, names=("Ash", "Birch"), kickoff_ts_ms=KICKOFF_MS) for number in range(COUNT))
    with PackWriter(folder, fixtures) as writer:
        for start in range(0, COUNT, AT_ONCE):
            ids = np.arange(start, start + AT_ONCE)
            kickoffs = pl.DataFrame({"fixture_id": ids, "kickoff_ts_ms": KICKOFF_MS}, schema=FIXTURES)
            writer.add(Tape.from_ticks(messages(ids, random), kickoffs))
        writer.finish(PackManifest(pack_id=folder.name, provenance="synthetic-noise"))


def messages(ids, random):
    size = len(ids) * MESSAGES
    home = pl.DataFrame(
        {
            "fixture_id": ids.repeat(MESSAGES),
            "tick_seq": np.tile(np.arange(MESSAGES), len(ids)),
            "ts_ms": np.sort(random.integers(0, KICKOFF_MS, (len(ids), MESSAGES)), axis=1).ravel(),
            "prob_bps": random.integers(2_000, 8_000, size),
            "odds_milli": random.integers(1_500, 5_000, size),
        }
    ).with_columns(side=pl.lit("home"), in_running=False, market_key=pl.lit("WINNER||"), suspended=False)
    away = home.with_columns(side=pl.lit("away"), prob_bps=10_000 - pl.col("prob_bps"))
    return pl.concat([home, away]).select(pl.col(name).cast(dtype) for name, dtype in TICKS.items())


@pytest.mark.long
def test_one_fixture_of_three_thousand_reads_a_twentieth_of_them_at_most(s3, tmp_path):
    folder = tmp_path / "season"
    make_season(folder)
    push_pack(folder, "s3://tested/season")
    s3.asked.clear()

    test = cl.backtest(cl.open_pack("s3://tested/season"), "cumulative-drift", fixtures=[1_234])

    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{s3.bytes_served:,} of {size:,} bytes in {len(s3.asked)} requests")
    assert test.report["n_fixtures"] == 1
    assert 0 < s3.bytes_served < size / 20
    assert len(s3.asked) <= 4
    assert test.run.source == cl.backtest(folder, "cumulative-drift", fixtures=[1_234]).run.source
