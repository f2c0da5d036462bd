"""``python -m tests.benchmarks [--ticks 10e6] [--decisions 1e6] [--rounds 5] [--json report.json]``."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.exploring import MESSAGES, MOVES
from tests.benchmarks.luck import LEADS, PATHS, PLAIN_SPLITS, POINTS, SPLITS
from tests.benchmarks.measure import Sample, imported, measured, prepared, spread
from tests.benchmarks.report import Budget, Equality, Figure, growth, machine, rate, ratio, table
from tests.benchmarks.stored import NAMES

_VERIFIER = Path(__file__).parents[2] / "clvlab" / "proof" / "clv_verify.py"
_STRATEGIES = ("baseline", "cumulative-drift", "sharp-momentum-v2")
_SCRIPT = "Polars script"
_ANCHORS = 20
_SIGN_FLIPS = (5_000, 500)  # resamples, fixtures

Samples = dict[str, list[Sample]]


def main() -> int:
    """Write data, run every job, print the table; 1 if jobs that must agree do not."""
    asked = _arguments()
    with tempfile.TemporaryDirectory(prefix="clvlab-benchmarks-") as name:
        folder = Path(name)
        sizes = prepared(folder, asked.ticks, asked.decisions, asked.seed)
        samples = measured(_commands(folder, sizes), asked.rounds, here=asked.here)
    figures = [*_job(samples), *_hashing(samples, sizes), *_sealing(samples, sizes), *_agents(samples, sizes)]
    figures += [*_store(samples, sizes), *_statistics(samples), *_imports(asked.rounds)]
    equalities = list(_equalities(samples, sizes))
    notes = [] if _VERIFIER.is_file() else ["the stand-alone verifier is missing and was skipped"]
    report = {
        "machine": machine(),
        "settings": {"ticks": asked.ticks, "decisions": asked.decisions, "rounds": asked.rounds, "seed": asked.seed} | sizes,
        "figures": [figure.payload() for figure in figures],
        "equalities": {equality.name: equality.holds for equality in equalities},
        "notes": notes,
    }
    sys.stdout.write(table(figures) + "\n\n")
    for equality in equalities:
        sys.stdout.write(f"{'equal' if equality.holds else 'DIFFERENT'}: {equality.name}\n")
    sys.stdout.write("".join(f"note: {note}\n" for note in notes))
    if asked.json:
        asked.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if all(equality.holds for equality in equalities) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="Measure clvlab beside its budgets.")
    parser.add_argument("--ticks", type=_count, default=10_000_000, help="rows of the large feed (budgets are for 10e6)")
    parser.add_argument("--decisions", type=_count, default=1_000_000, help="of the large run (budgets are for 1e6)")
    parser.add_argument("--rounds", type=_count, default=5, help="how often each job runs")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--here", action="store_true", help="all jobs in this process: a look whether they work, no measurement"
    )
    parser.add_argument("--json", type=Path, metavar="report.json")
    return parser.parse_args()


def _count(text: str) -> int:
    count = int(float(text))
    if count < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return count


def _commands(folder: Path, sizes: dict[str, Any]) -> dict[str, list[str]]:
    """Name every job; neighbours are what is compared."""
    small, large, run_small, run_large = (str(folder / name) for name in ("small", "large", "run-small", "run-large"))
    commands: dict[str, list[str]] = {}
    for density, threshold in sizes["thresholds"].items():
        for job in ("script", "sql", "scored", "sealed"):
            commands[f"{job} {density}"] = [job, large, str(threshold)]
    commands |= {job: [job, large] for job in ("digest", "content_hash", "verified_pack")}
    for job in ("seal_run", "verify_run"):
        commands |= {f"{job} small": [job, run_small], f"{job} large": [job, run_large]}
    commands |= {"gate": ["gate", run_large], "ticking": ["ticking", small]}
    commands |= {"decision small": ["decision", run_small], "decision large": ["decision", run_large]}
    commands |= {f"board {size}": ["board", small, str(count)] for size, count in _boards(sizes).items()}
    commands |= {f"page of {names}": ["board_page", small, str(names)] for names in NAMES}
    if _VERIFIER.is_file():
        commands["verify_alone"] = ["verify_alone", run_small, str(_VERIFIER)]
    commands |= {job: [job, run_small] for job in ("opinion", "bundled", "unbundled")}
    commands |= {"anchored": ["anchored", small, str(_ANCHORS)]}
    for strategy in _STRATEGIES:
        commands |= {f"{strategy} small": ["decide", small, strategy], f"{strategy} large": ["decide", large, strategy]}
        commands[f"{strategy} season"] = ["decide_season", small, strategy]
    few = str(sizes["decisions"]["run-small"])
    commands |= {"tear_sheet": ["tear_sheet", large, few], "estimated": ["estimated", small, *(str(n) for n in _SIGN_FLIPS)]}
    commands["explore"] = ["explore", small, str(min(MESSAGES, sizes["ticks"]["small"])), few]
    commands |= {f"split {points}": ["split", small, str(points)] for points in POINTS}
    commands |= {f"leads {updates}": ["leads", small, str(updates)] for updates in LEADS}
    commands |= {"split_plainly": ["split_plainly", small, str(POINTS[-1])], "fanned": ["fanned", small, *map(str, PATHS)]}
    return commands


def _job(samples: Samples) -> Iterator[Figure]:
    """The ten million tick job, with few and with many signals."""
    budgets = {"scored sparse": 0.5, "sealed sparse": 1.0, "sealed dense": 2.0}
    peak = Budget(1500)
    for density in ("sparse", "dense"):
        plain = samples[f"script {density}"]
        count = samples[f"scored {density}"][0].facts["decisions"]
        job = f"replay, {count} decisions"
        yield _time(job, _SCRIPT, plain)
        for key, name in ((f"sql {density}", "DuckDB"), (f"scored {density}", "scored"), (f"sealed {density}", "sealed")):
            budget = Budget(budgets[key], on="ratio") if key in budgets else None
            yield Figure(job, name, "s", _seconds(samples[key]), budget, _SCRIPT, ratio(samples[key], plain))
        yield Figure(job, f"peak memory, {_SCRIPT}", "MB", _peaks(plain))
        yield Figure(job, "peak memory, scored", "MB", _peaks(samples[f"scored {density}"]), peak)
        yield Figure(job, "peak memory, sealed", "MB", _peaks(samples[f"sealed {density}"]), peak)


def _hashing(samples: Samples, sizes: dict[str, Any]) -> Iterator[Figure]:
    ticks = sizes["ticks"]["large"]
    yield Figure("content hash", "digest pass", "ticks/s", rate(samples["digest"], ticks), Budget(50e6, at="least"))
    yield Figure("content hash", "read and recomputed", "ticks/s", rate(samples["content_hash"], ticks))
    yield Figure("content hash", "packs verify, whole", "ticks/s", rate(samples["verified_pack"], ticks))


def _sealing(samples: Samples, sizes: dict[str, Any]) -> Iterator[Figure]:
    small, large = sizes["decisions"]["run-small"], sizes["decisions"]["run-large"]
    for key, name in (("seal_run", "seal"), ("verify_run", "verify")):
        few, many = samples[f"{key} small"], samples[f"{key} large"]
        yield _time(name, f"{small} decisions", few)
        linear = growth(many, few, large / small)
        yield Figure(name, f"{large} decisions", "s", _seconds(many), Budget(6), f"{large / small:.0f} x {small}", linear)
        yield Figure(name, f"peak memory, {large} decisions", "MB", _peaks(many))
    yield Figure("gate", f"{large} proposals, all limits on", "s", _seconds(samples["gate"]), Budget(2))
    if "verify_alone" in samples:
        alone = rate(samples["verify_alone"], small)
        yield Figure("verify", "stand-alone", "decisions/s", alone, Budget(20e3, at="least"))
    for job, name in (("bundled", "made"), ("unbundled", "read")):
        yield Figure("bundle", f"{name}, {small} decisions", "s", _seconds(samples[job]))
    yield Figure("verify", "second opinion by SQL", "decisions/s", rate(samples["opinion"], small))
    each = spread([sample.seconds / _ANCHORS for sample in samples["anchored"]])
    yield Figure("anchor", "a memo on a local chain, read back", "s", each, Budget(0.05))


def _agents(samples: Samples, sizes: dict[str, Any]) -> Iterator[Figure]:
    small, large = sizes["ticks"]["small"], sizes["ticks"]["large"]
    yield Figure("agent tick by tick", f"{small} ticks", "ticks/s", rate(samples["ticking"], small), Budget(1e6, at="least"))
    for strategy in _STRATEGIES:
        few, many, season = (samples[f"{strategy} {size}"] for size in ("small", "large", "season"))
        yield Figure(f"agent {strategy}", f"{small} ticks", "ticks/s", rate(few, small))
        linear = growth(many, few, large / small)
        yield Figure(f"agent {strategy}", f"{large} ticks", "ticks/s", rate(many, large), None, "linear growth", linear)
        yield Figure(f"agent {strategy}", "season pack", "ticks/s", rate(season, season[0].facts["ticks"]))


def _boards(sizes: dict[str, Any]) -> dict[str, int]:
    """How many runs a small and a large leaderboard pool."""
    large = max(10, sizes["decisions"]["run-large"] // 10)
    return {"small": large // 10, "large": large}


def _store(samples: Samples, sizes: dict[str, Any]) -> Iterator[Figure]:
    """What stays flat as runs grow."""
    for size in ("small", "large"):
        decisions, runs = sizes["decisions"][f"run-{size}"], _boards(sizes)[size]
        yield Figure("store", f"one of {decisions} decisions", "s", _seconds(samples[f"decision {size}"]), Budget(0.05))
        yield Figure("store", f"leaderboard of {runs} runs", "s", _seconds(samples[f"board {size}"]), Budget(0.05))
    few, many = (samples[f"page of {names}"] for names in NAMES)
    name, baseline = (f"ten rows and ten groups of {names} names" for names in reversed(NAMES))
    yield Figure("store", name, "s", _seconds(many), Budget(2, on="ratio"), baseline, ratio(many, few))


def _statistics(samples: Samples) -> Iterator[Figure]:
    sheets, resamples, fixtures = samples["tear_sheet"], *_SIGN_FLIPS
    yield Figure("statistics", f"tear sheet, {sheets[0].facts['decisions']} decisions", "s", _seconds(sheets), Budget(3))
    yield Figure(
        "statistics",
        f"interval and {resamples} sign flips over {fixtures} fixtures",
        "s",
        _seconds(samples["estimated"]),
        Budget(1),
    )
    few, many, plain = (samples[name] for name in (f"split {POINTS[0]}", f"split {POINTS[1]}", "split_plainly"))
    name = f"overfitting, {SPLITS} splits of {POINTS[1]} points"
    linear = growth(many, few, POINTS[1] / POINTS[0])
    yield Figure("statistics", name, "s", _seconds(many), Budget(10), f"{POINTS[1] // POINTS[0]} x {POINTS[0]} points", linear)
    each = growth(many, plain, SPLITS / PLAIN_SPLITS)
    yield Figure("statistics", "the same, a split", "s", _seconds(many), Budget(1, on="ratio"), "split by split", each)
    name = f"bankroll, {PATHS[0]} paths of {PATHS[1]} bets"
    yield Figure("statistics", name, "s", _seconds(samples["fanned"]), Budget(10))
    one, *more = (samples[f"leads {updates}"] for updates in LEADS)
    for found, updates in zip(more, LEADS[1:], strict=True):
        linear, name = growth(found, one, updates / LEADS[0]), f"who leads of two sources of {updates} updates, 61 lags"
        yield Figure(
            "statistics", name, "s", _seconds(found), Budget(2, on="ratio"), f"{updates // LEADS[0]} x {LEADS[0]}", linear
        )
    moves = samples["explore"]
    name = f"a move through {moves[0].facts['messages']} messages of 3 sides"
    yield Figure("explorer", name, "s", spread([sample.seconds / MOVES for sample in moves]), Budget(0.15))


def _imports(rounds: int) -> Iterator[Figure]:
    statements = {
        "import clvlab": ("import clvlab", Budget(0.3)),
        "first use": ("from clvlab import backtest, open_pack", None),
    }
    for name, (statement, budget) in statements.items():
        seconds, loaded = imported(statement, rounds)
        with_libraries = f", loads {' and '.join(loaded)}" if loaded else ", without duckdb or fastapi"
        yield Figure("import", name + with_libraries, "s", seconds, budget)


def _equalities(samples: Samples, sizes: dict[str, Any]) -> Iterator[Equality]:
    for density in ("sparse", "dense"):
        for job in ("sql", "scored", "sealed"):
            same = all(
                one.facts["markets"] == other.facts["markets"]
                for one, other in zip(samples[f"{job} {density}"], samples[f"script {density}"], strict=True)
            )
            scored = any(count for count, _ in samples[f"script {density}"][0].facts["markets"].values())
            yield Equality(f"{job} and script score the same decisions and CLV, {density}", same and scored)
    hashes = [sample.facts for sample in samples["content_hash"]]
    yield Equality("content hash recomputed", all(facts["recomputed"] == facts["stated"] for facts in hashes))
    ranks = [sample.facts["ranks"] for sample in (*samples[f"split {POINTS[1]}"], *samples["split_plainly"])]
    yield Equality("splits at once rank as splits one by one", all(one == ranks[0] for one in ranks))
    pooled = {size: {sample.facts["runs"] for sample in samples[f"board {size}"]} for size in ("small", "large")}
    yield Equality("leaderboards pool every run", pooled == {size: {count} for size, count in _boards(sizes).items()})
    for size in ("small", "large"):
        verified = [sample.facts for sample in samples[f"verify_run {size}"]]
        sealed = {sample.facts["evidence_hash"] for sample in samples[f"seal_run {size}"]}
        found = {facts["evidence_hash"] for facts in verified}
        yield Equality(f"run verifies, {size}", sealed == found and len(found) == 1 and all(f["passed"] for f in verified))
    if "verify_alone" in samples:
        alone = samples["verify_alone"]
        yield Equality("run verifies with the stand-alone verifier", all(sample.facts["passed"] for sample in alone))
    yield Equality("SQL gives the sealed scores", all(sample.facts["passed"] for sample in samples["opinion"]))
    yield Equality("a bundle gives back what was put in", all(sample.facts["passed"] for sample in samples["unbundled"]))
    yield Equality("every memo stands on the chain once", all(sample.facts["passed"] for sample in samples["anchored"]))


def _time(job: str, name: str, samples: list[Sample]) -> Figure:
    return Figure(job, name, "s", _seconds(samples))


def _seconds(samples: list[Sample]) -> Any:
    return spread([sample.seconds for sample in samples])


def _peaks(samples: list[Sample]) -> Any:
    return spread([sample.peak_mb for sample in samples])


if __name__ == "__main__":
    sys.exit(main())
