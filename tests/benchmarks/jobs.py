"""The jobs: each takes a folder of data and gives what to time; what that gives are facts to compare between jobs.

What stands before the inner function is preparation and is not timed. A job runs once, in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from clvlab.agents.registry import template
from clvlab.arena.packs import bundled_catalog
from clvlab.engine.run import run
from clvlab.law.closing import Window
from clvlab.law.clv import scores
from clvlab.law.gate import verdicts
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.positions import placed, proposals
from clvlab.law.schema import Reason
from clvlab.law.tape import Tape
from clvlab.packs.catalog import Catalog
from clvlab.packs.files import fixture_digests
from clvlab.packs.verification import verify_pack
from clvlab.proof.bundle import bundle, read_bundle
from clvlab.proof.evidence import read_evidence
from clvlab.proof.seal import seal
from clvlab.proof.verify import verify
from clvlab.report.tearsheet import TearSheet
from clvlab.runs.search.scorer import Scorer
from clvlab.runs.shards import sharded
from clvlab.statistics import estimates, sign_flip_p_values, sum_by_cluster
from clvlab.store.folder import read_run
from tests.benchmarks import baseline
from tests.benchmarks.agents import Average, Every, Momentum
from tests.benchmarks.data import FEED, PACK
from tests.benchmarks.exploring import explore
from tests.benchmarks.luck import fanned, leads, split, split_plainly
from tests.benchmarks.stored import board, board_page, decision
from tests.factories import performed

__all__ = ["JOBS", "Facts", "Job", "per_market"]

Facts = dict[str, Any]
Job = Callable[[], Facts]
_WINDOW = Window(min_clv_horizon_s=baseline.HORIZON_MS // 1000)


def script(folder: Path, threshold: str) -> Job:
    return lambda: {"markets": baseline.polars_script(folder / FEED, int(threshold))}


def sql(folder: Path, threshold: str) -> Job:
    return lambda: {"markets": baseline.duckdb_query(folder / FEED, int(threshold))}


def scored(folder: Path, threshold: str) -> Job:
    """Open an admitted pack, decide, replay, score, group: the same as the script does, from the pack."""

    def job() -> Facts:
        agent = Momentum(int(threshold))
        with ThreadPoolExecutor(2) as pool:  # as a search scores a point
            return per_market(pl.concat(pool.map(lambda read: Scorer(read(), _WINDOW).scores(agent), _shards(folder))))

    return job


def _shards(folder: Path) -> list[Callable[[], Tape]]:
    """Open an admitted pack, and return what reads its shards."""
    pack = Catalog(folder).open(PACK)
    return [partial(pack.tape, shard) for shard in sharded(pack, pack.fixture_ids, ())]


def sealed(folder: Path, threshold: str) -> Job:
    """The same, sealed."""

    def job() -> Facts:
        result = run(_shards(folder), [Momentum(int(threshold))], _WINDOW)
        return per_market(result.scores) | {"evidence_hash": result.sealed.evidence_hash}

    return job


def per_market(scored: pl.DataFrame) -> Facts:
    """Count the scored decisions of each market, and add up their CLV."""
    sums = (
        scored.filter(pl.col("reason") == Reason.SCORED)
        .group_by("market_key")
        .agg(pl.len(), pl.col("clv_bps").sum())
        .sort("market_key")
    )
    return {"markets": {key: [count, total] for key, count, total in sums.iter_rows()}, "decisions": scored.height}


def digest(folder: Path) -> Job:
    """Hash every tick of a pack in memory."""
    tape = Catalog(folder).open(PACK).tape()
    return lambda: {"fixtures": len(fixture_digests(tape)), "ticks": tape.rows.height}


def content_hash(folder: Path) -> Job:
    """Read a pack and recompute its content hash."""

    def job() -> Facts:
        pack = Catalog(folder).open(PACK)
        tape = pack.tape()
        digests = fixture_digests(tape)
        fixtures = tuple(
            fixture.model_copy(update={"digest": digests[fixture.fixture_id]}) for fixture in pack.manifest.fixtures
        )
        recomputed = pack.manifest.model_copy(update={"fixtures": fixtures}).content_hash
        return {"stated": pack.content_hash, "recomputed": recomputed, "ticks": tape.rows.height}

    return job


def verified_pack(folder: Path) -> Job:
    """What ``packs verify`` does."""
    return lambda: {"content_hash": verify_pack(folder / PACK).content_hash}


def seal_run(folder: Path) -> Job:
    """Seal the events of a stored run again."""
    evidence = read_evidence(read_run(_stored(folder)).events)
    scored = scores(placed(*evidence.events.lines, evidence.market), evidence.window, evidence.max_close_age_s)

    def job() -> Facts:
        run = seal(evidence.started, evidence.events, [], scored)
        return {"evidence_hash": run.evidence_hash, "decisions": scored.height}

    return job


def verify_run(folder: Path) -> Job:
    stored = read_run(_stored(folder))

    def job() -> Facts:
        found = verify(stored)
        return {"passed": found.passed, "evidence_hash": found.recomputed_evidence_hash}

    return job


def verify_alone(folder: Path, verifier: str) -> Job:
    """Start the stand-alone verifier on a stored run, as its user does."""

    def job() -> Facts:
        command = [sys.executable, "-I", verifier, str(_stored(folder)), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return {"passed": done.returncode == 0, "output": done.stdout[-2000:] + done.stderr[-2000:]}

    return job


def anchored(folder: Path, count: str) -> Job:
    """Write memos to a chain on loopback."""
    from tests.benchmarks.anchoring import memos  # the chain's library would weigh on every other job

    return memos(folder, int(count))


def opinion(folder: Path) -> Job:
    """Score a stored run by SQL and compare."""
    from clvlab.sql import second_opinion

    stored = read_run(_stored(folder))
    return lambda: {"passed": second_opinion(stored.events, stored.scores).agrees}


def bundled(folder: Path) -> Job:
    """Put a stored run into a bundle."""
    stored = read_run(_stored(folder))
    return lambda: {"bytes": len(bundle(stored))}


def unbundled(folder: Path) -> Job:
    """Take a bundle apart, the hash of every part checked."""
    stored = read_run(_stored(folder))
    content = bundle(stored)
    return lambda: {"passed": read_bundle(content)["events.jsonl"] == stored.events}


def gate(folder: Path) -> Job:
    """Judge the proposals of a stored run under a policy whose every limit is on."""
    evidence = read_evidence(read_run(_stored(folder)).events)
    made, closes = evidence.events.lines
    proposed = proposals(made, placed(made, closes, evidence.market))
    caps = {"max_orders": len(made) // 2, "max_exposure_per_market": 10**6, "max_exposure_per_fixture": 10**7}
    envelope = PolicyEnvelope(cooldown_s=60, warmup_ticks=5, min_edge_bps=-600, **caps)

    def job() -> Facts:
        judged = verdicts(proposed, envelope)
        return {"allowed": int(((judged.pre == 0) & (judged.post == 0)).sum())}

    return job


def ticking(folder: Path) -> Job:
    """Ask a Python agent at every message of a pack in memory, building the book included."""
    tape = Catalog(folder).open(PACK).tape()
    agent = Average()
    return lambda: {"decisions": agent.decide(tape).height, "ticks": tape.rows.height}


def _stored(folder: Path) -> Path:
    (run,) = (folder / "runs").iterdir()
    return run


def decide(folder: Path, strategy: str) -> Job:
    """Let a template decide over a whole pack in memory."""
    tape = Catalog(folder).open(PACK).tape()
    return _decided(tape, strategy)


def decide_season(_: Path, strategy: str) -> Job:
    return _decided(bundled_catalog().open("season").tape(), strategy)


def _decided(tape: Any, strategy: str) -> Job:
    agent = template(strategy)
    return lambda: {"decisions": agent.decide(tape).height, "ticks": tape.rows.height}


def tear_sheet(folder: Path, decisions: str) -> Job:
    """Make every table and picture of a backtest of so many decisions, as a page; loading matplotlib is in the time."""
    backtest = performed(Catalog(folder).open(PACK), Every(int(decisions)))
    backtest.report  # noqa: B018  a report is verified, which has figures of its own

    def job() -> Facts:
        sheet = TearSheet(backtest)
        return {"decisions": sheet.clv.n, "characters": len(sheet._repr_html_()), "mean_clv_bps": sheet.clv.mean}

    return job


def estimated(_: Path, resamples: str, fixtures: str) -> Job:
    """Estimate a mean, its interval and its sign flips over fixtures of 200 decisions each."""
    ids = np.repeat(np.arange(int(fixtures)), 200)
    clv_bps = pl.Series(np.random.default_rng(0).normal(5, 40, int(fixtures))[ids])
    names = pl.Series(ids)

    def job() -> Facts:
        sums, _, _ = sum_by_cluster(clv_bps, names)
        (found,), (p_value,) = estimates(sums), sign_flip_p_values(sums, resamples=int(resamples))
        return {"low": found.low, "high": found.high, "decisions": found.n, "p_value": float(p_value)}

    return job


JOBS: dict[str, Callable[..., Job]] = {
    job.__name__: job
    for job in (
        script, sql, scored, sealed, digest, content_hash, verified_pack, seal_run, verify_run, verify_alone,
        anchored, opinion, bundled, unbundled, gate, ticking, decide, decide_season, decision, board, board_page,
        tear_sheet, estimated, explore, split, split_plainly, fanned, leads,
    )
}  # fmt: skip
