"""Nothing grows faster than its work: four times as much takes at most six times the processor, of which four is linear.

Ratios within one process, of processor time, each the least of several rounds: a slow machine changes them little.
"""

import time

import numpy as np
import polars as pl
import pytest

import clvlab as cl
from clvlab.arena.run_store import KeptRuns
from clvlab.engine.run import run
from clvlab.law.closing import Window
from clvlab.law.tape import Tape
from clvlab.log.log import commit
from clvlab.packs.synthetic import Recipe, build
from clvlab.packs.verification import verify_pack
from clvlab.proof.verify import verify
from clvlab.report.tearsheet import TearSheet
from clvlab.runs.execute import perform
from clvlab.runs.spec import ReplaySpec, backtest_spec, rename, resolve
from clvlab.statistics import BoundedClusters, estimates, family_of
from clvlab.store.runlog import RunLog
from tests.factories import kept_run, make_agent, make_decisions
from tests.logs import audited, entries, hashed, run_of

pytestmark = pytest.mark.long

TIMES, MOST = 4, 6
ROUNDS = 3


def fixtures(count, folder):
    """Verify a pack, backtest it, verify the run and draw up its sheet."""
    build(Recipe(seed=3, fixtures=count, messages=60), folder / f"pack-{count}")

    def job():
        pack = verify_pack(folder / f"pack-{count}")
        done = perform(backtest_spec(pack, "cumulative-drift"))
        verify(done.sealed, done.receipts)
        return TearSheet(done).line

    return job


def markets(count, _):
    """Run an agent over one fixture with so many markets."""
    market = np.repeat(np.arange(count), 40)
    keys = [f"OU|line={number}" for number in market]
    ticks = pl.DataFrame({"fixture_id": 1, "market_key": keys, "tick_seq": np.arange(market.size), "in_running": False})
    ticks = ticks.with_columns(ts_ms=60_000 * pl.col("tick_seq"), suspended=pl.lit(value=False))
    sides = [
        ticks.with_columns(side=pl.lit(side), prob_bps=prob, odds_milli=1950)
        for side, prob in (("over", 5000 + pl.col("tick_seq") % 50), ("under", 5000 - pl.col("tick_seq") % 50))
    ]
    kickoff = pl.DataFrame({"fixture_id": [1], "kickoff_ts_ms": [60_000 * market.size]})
    tape = Tape.from_ticks(pl.concat(sides).select(pl.exclude("prob_bps"), pl.col("prob_bps").cast(pl.Int32)), kickoff)
    agent = resolve("baseline")
    return lambda: verify(run(tape, [agent], Window()).sealed)


def agents(count, _):
    """Let so many agents compete."""
    pack = cl.open_pack("starter").source
    found = [rename(resolve("cumulative-drift", {"warmup_ticks": n}), f"a{n}") for n in range(count)]
    return lambda: perform(ReplaySpec(pack=pack, agents=found, window=Window())).report


def events(count, _):
    """Seal and verify so many decisions."""
    pack = cl.open_pack("season").source
    tape = pack.tape(pack.fixture_ids[:40])
    messages = tape.messages.head(count)
    market = tape.series.filter(pl.col("side_no") == 0).unique("fixture_id", keep="first")
    at = messages.join(market.select("fixture_id", "market_key", "side"), on="fixture_id", how="left", maintain_order="left")
    agent = make_agent(make_decisions(*at.select("fixture_id", "tick_seq", "market_key", "side").iter_rows(named=True)))
    return lambda: verify(run(tape, [agent], Window()).sealed)


def points(count, _):
    """Judge so many points over 100 fixtures."""
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 9, (100, count)).astype(float)
    sums = counts * rng.normal(0, 50, counts.shape)
    clusters = BoundedClusters(sums, counts, sums**2, -5_000 * counts, 5_000 * counts)
    return lambda: (estimates(clusters), family_of(clusters, resamples=500))


def runs(count, _):
    """Keep so many runs, list them all and rank their agents."""
    pack = cl.open_pack("starter").source
    plans = [
        ReplaySpec(pack=pack, agents=[resolve("baseline", {"stake": stake + 1})], fixtures=pack.fixture_ids[:1])
        for stake in range(count)
    ]

    def job():
        kept = KeptRuns()
        for plan in plans:
            kept_run(kept, plan)
        page = kept.runs.page(None, 200)
        board = kept.leaderboard.rows()["rows"]
        kept.close()
        return len(page["runs"]), len(board)

    return job


def log_entries(count, _):
    """Append so many entries to a run log, and audit them."""

    def job():
        log = RunLog()
        for number in range(count):
            with log.write() as rows:
                commit(rows, run_of(number), "local", hashed(number), None, number)
        return audited(entries(log)).broken

    return job


def books(count, folder):
    """Import the odds of so many books."""
    path = folder / f"books-{count}.csv"
    times = [f"2026-03-01T1{hour}:{minute:02}Z" for hour in range(10) for minute in (0, 30)]
    rows = [
        f"match {match},2026-03-01T2{match % 3}:00Z,{time},ML,{side},{odds + book / 1000:.3f},b{book}"
        for match in range(10) for time in times for book in range(count) for side, odds in (("home", 2.0), ("away", 1.9))
    ]  # fmt: skip
    path.write_text("\n".join(["fixture,kickoff,time,market,side,odds,book", *rows]) + "\n")
    made = iter(range(10**6))
    return lambda: cl.import_odds("csv", path, folder / f"pack-{count}-{next(made)}")


SIZES = {
    fixtures: 400, markets: 2_000, agents: 40, events: 8_000, points: 1_500, runs: 5, log_entries: 200, books: 50,
}  # fmt: skip


def least_s(job):
    """Processor time of a job: the least of several rounds."""
    found = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        job()
        found.append(time.process_time() - begun)
    return min(found)


@pytest.mark.parametrize("work", SIZES, ids=lambda work: work.__name__)
def test_four_times_the_work_takes_at_most_six_times_the_processor(work, tmp_path):
    size = SIZES[work]
    small, large = work(size, tmp_path), work(TIMES * size, tmp_path)
    small()  # what is loaded once

    assert least_s(large) <= MOST * least_s(small)
