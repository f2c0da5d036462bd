"""``python -m tests.benchmarks.small [--answers 100] [--seconds 3] [--clients 8] [--json report.json]``: small and warm."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from clvlab.engine.run import run
from clvlab.law.closing import Window
from clvlab.law.clv import scores
from clvlab.law.positions import placed
from clvlab.packs.lookup import bundled_catalog
from clvlab.proof import checks
from clvlab.proof.events import score_lines
from clvlab.proof.evidence import read_evidence
from clvlab.proof.merkle import root_of_lines
from clvlab.proof.verify import verify
from tests.benchmarks.agents import Every
from tests.benchmarks.http import Ask, burst
from tests.benchmarks.measure import Spread, spread
from tests.benchmarks.report import Budget, Figure, machine, table
from tests.benchmarks.serving import Owner, serving

_DECISIONS = (1, 14, 125, 500, 2_000, 8_000)
_BUDGETED = 500
_IN_ONE_FIXTURE = 500
_MANY = 20  # fixtures of the larger runs
_WARM = 5
_VERIFY_S, _BACKTEST_S = Budget(0.008), Budget(0.012)
_HTTP_S = {"verify": Budget(0.02), "backtest, one fixture, each a new one": Budget(0.04), "proof card": Budget(0.003)}
_PROCESSOR_S = {"proof card": Budget(0.002)}
_VERIFIES_A_SECOND = Budget(100, at="least")


def main() -> int:
    """Measure in this process, then over HTTP; print the table."""
    asked = _arguments()
    figures = [figure for decisions in asked.decisions for figure in _in_process(decisions, asked.answers)]
    with tempfile.TemporaryDirectory(prefix="clvlab-small-") as name:
        figures += _over_http(Path(name), asked)
    sys.stdout.write(table(figures) + "\n")
    if asked.json:
        settings = {"answers": asked.answers, "seconds": asked.seconds, "clients": asked.clients}
        figured = [figure.payload() for figure in figures]
        asked.json.write_text(json.dumps({"machine": machine(), "settings": settings, "figures": figured}, indent=2) + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.small", description="Measure small answers, warm.")
    parser.add_argument("--decisions", type=int, nargs="+", default=_DECISIONS, help="sizes of the runs")
    parser.add_argument("--answers", type=int, default=100, help="of each kind, in this process")
    parser.add_argument("--seconds", type=float, default=3, help="how long each burst over HTTP lasts")
    parser.add_argument("--clients", type=int, default=8, help="connections that ask one after the other")
    parser.add_argument("--json", type=Path, metavar="report.json")
    return parser.parse_args()


def _in_process(decisions: int, answers: int) -> list[Figure]:
    """Processor time of a sealed backtest and of its verification, and of the parts of both."""
    pack = bundled_catalog().open("season")
    fixtures = pack.fixture_ids[: 1 if decisions <= _IN_ONE_FIXTURE else _MANY]
    tape, agent, window = pack.tape(fixtures), Every(decisions), Window()
    result = run(tape, [agent], window)
    sealed, evidence = result.sealed, read_evidence(result.sealed.events)
    located = placed(*evidence.events.lines, evidence.market)

    def scored() -> pl.DataFrame:
        return scores(placed(*evidence.events.lines, evidence.market), evidence.window, evidence.max_close_age_s)

    rederived = scored()
    jobs: dict[str, dict[str, tuple[Callable[[], object], Budget | None]]] = {
        "verify": {
            "whole": (lambda: verify(sealed), _VERIFY_S),
            "reading the evidence": (lambda: read_evidence(sealed.events), None),
            "scoring it again": (scored, None),
            "writing the scores": (lambda: score_lines(rederived), None),
            "hashing lines": (lambda: (root_of_lines(sealed.events), root_of_lines(sealed.scores)), None),
            "judging the policy": (lambda: checks.policy_obeyed(evidence, located, b""), None),
            "auditing imports": (lambda: checks.llm_boundary(None), None),
        },
        "backtest": {
            "whole": (lambda: run(pack.tape(fixtures), [agent], window), _BACKTEST_S),
            "reading the tape": (lambda: pack.tape(fixtures), None),
            "deciding": (lambda: agent.decide(tape), None),
        },
    }
    made = result.evidence.decisions.height
    return [
        Figure(f"{job}, {made:,} decisions", part, "s", _processor_s(work, answers), budget if decisions == _BUDGETED else None)
        for job, parts in jobs.items()
        for part, (work, budget) in parts.items()
    ]


def _processor_s(work: Callable[[], object], answers: int) -> Spread:
    """Processor time, all threads together, of so many answers after a few that warm up."""
    taken = []
    for number in range(_WARM + answers):
        started = time.process_time()
        work()
        if number >= _WARM:
            taken.append(time.process_time() - started)
    return spread(taken)


def _over_http(folder: Path, asked: argparse.Namespace) -> list[Figure]:
    """Time of an answer to one client and answers a second to several, of a service in a process of its own."""
    with serving(folder, {"small": (20, 300)}, CLVLAB_PUBLIC_QUEUE="1000") as served:
        owner = Owner(served.port, served.token)
        fixtures = owner.get("/replay-packs/small")["fixtures"]
        run_id, made = owner.run_of(_BUDGETED, "small", fixtures[0])
        figures = []
        for job, ask in _questions(run_id, fixtures[1]).items():
            burst(served.port, ask, 1, asked.seconds / 3)
            before_s = served.processor_s()
            alone = burst(served.port, ask, 1, asked.seconds)
            each_s = (served.processor_s() - before_s) / alone.answers
            together = burst(served.port, ask, asked.clients, asked.seconds)
            name = f"HTTP {job}, {made:,} decisions" if job == "verify" else f"HTTP {job}"
            rate = _VERIFIES_A_SECOND if job == "verify" else None
            figures += [
                Figure(name, "median, one client", "s", spread([alone.median_s]), _HTTP_S[job]),
                Figure(name, "processor, one client", "s", spread([each_s]), _PROCESSOR_S.get(job)),
                Figure(name, f"{asked.clients} clients", "requests/s", spread([together.per_second]), rate),
            ]
        return figures


def _questions(run_id: str, fixture_id: int) -> Mapping[str, Callable[[], Ask]]:
    windows = iter(range(10**9))

    def backtest() -> Ask:
        body: dict[str, Any] = {"pack_id": "small", "fixture_id": fixture_id, "market_allowlist": [""]}
        return "POST", "/backtests", body | {"window_id": f"w{next(windows)}"}

    return {
        "verify": lambda: ("POST", f"/runs/{run_id}/verify", None),
        "backtest, one fixture, each a new one": backtest,
        "proof card": lambda: ("GET", f"/runs/{run_id}", None),
    }


if __name__ == "__main__":
    sys.exit(main())
