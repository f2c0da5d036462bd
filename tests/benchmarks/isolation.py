"""``python -m tests.benchmarks.isolation [--ticks 10000000] [--rounds 3] [--json report.json]``: isolated agents.

A job is one question: a process that starts, one that is kept, one that is asked step by step, an audit, a sealed backtest.
The tapes are the pack ``starter``, the pack ``season``, and a feed of one, four and sixteen sixteenths of the ticks. Beside
each answer stands the time of the same agent called in this process. ``--only-backtests`` measures audited backtests of a feed
of 10,000 ticks alone, with processes that are forked and, in turn, with processes that are started.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import polars as pl

import clvlab as cl
from clvlab.agents.isolation import process
from clvlab.agents.isolation.agent import isolated
from clvlab.arena.packs import bundled_catalog
from clvlab.engine.lookahead import lookahead_audit
from clvlab.law.tape import Tape
from clvlab.packs.catalog import Catalog
from clvlab.packs.reader import Pack
from tests.benchmarks.agents import Average
from tests.benchmarks.data import PACK, write_feed
from tests.benchmarks.measure import Spread, spread
from tests.benchmarks.report import Budget, Equality, Figure, machine, table
from tests.factories import performed

_SEED = 7
_MOST_TICKS = 1_000_000
_FEW_TICKS = 10_000
_SUBREAPER = 36  # of prctl: processes whose parent has ended become this one's, so that their time is counted


@cl.strategy(agent_id="rising")
def rising(ticks, *, rise_bps=400):
    """Back what rose over twenty messages."""
    return ticks.filter(pl.col("prob_bps") - pl.col("prob_bps").shift(20).over("series") >= rise_bps)


_AGENTS = {"columnar": rising, "tick by tick": Average()}


def main() -> int:
    """Ask every question, print the table; 1 if an isolated agent decides otherwise than here."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.isolation", description="Measure isolated agents.")
    parser.add_argument("--ticks", type=int, default=10_000_000, help="of the largest tape")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="report.json")
    parser.add_argument("--only-backtests", action="store_true", help="audited, of 10,000 ticks")
    asked = parser.parse_args()
    if asked.only_backtests:
        return _backtests(asked.rounds)
    packs = {name: bundled_catalog().open(name) for name in ("starter", "season")}
    with tempfile.TemporaryDirectory(prefix="clvlab-isolation-") as name:
        for share in (16, 4, 1):
            folder = Path(name) / str(share)
            rows = write_feed(folder, max(2_000, asked.ticks // share), _SEED)
            packs[f"{rows:,} ticks"] = Catalog(folder).open(PACK)
        figures = [*_starts(asked.rounds)]
        same: list[bool] = []
        for name, pack in packs.items():
            tape = pack.tape()
            for kind, agent in _AGENTS.items():
                if kind != "columnar" and tape.rows.height > _MOST_TICKS:  # its time is that of its own Python
                    continue
                same.append(isolated(agent).decide(tape).equals(agent.decide(tape)))
                if kind != "columnar":
                    same.append(isolated(agent, stepped=True).decide(tape).equals(agent.decide(tape)))
                figures += _asked(name, pack, tape, kind, asked.rounds)
    equality = Equality("an isolated agent decides as it does here", all(same))
    sys.stdout.write(f"{table(figures)}\n\n{'equal' if equality.holds else 'DIFFERENT'}: {equality.name}\n")
    if asked.json:
        report = {
            "machine": machine(),
            "figures": [figure.payload() for figure in figures],
            "equalities": {equality.name: all(same)},
        }
        asked.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if equality.holds else 1


def _backtests(rounds: int) -> int:
    """Time audited backtests of a small feed, with forked and with started processes in turn, and print what audits took."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    own = isolated(rising, params={"rise_bps": 100})
    ways = {"forked": process._SERVERS.fork, "started": lambda *_, **__: None}
    seconds: dict[tuple[str, str], list[float]] = {}
    events = set[bytes]()
    with tempfile.TemporaryDirectory(prefix="clvlab-isolation-") as name:
        folder = Path(name) / "feed"
        write_feed(folder, _FEW_TICKS, _SEED)
        pack = Catalog(folder).open(PACK)
        tape = pack.tape()
        for number in range(rounds + 1):
            for way, fork in ways.items():
                with patch.object(process._SERVERS, "fork", fork):
                    spent, start = _processor(), time.perf_counter()
                    sealed = performed(pack, own)
                    wall = time.perf_counter() - start
                    if number:  # the first starts servers, and reads libraries into memory
                        seconds.setdefault((way, "wall"), []).append(wall)
                        seconds.setdefault((way, "processor"), []).append(_processor() - spent)
                    events.add(sealed.evidence.decisions.write_ndjson().encode())
        audit = lookahead_audit(own, tape, seed=_SEED)
    share = f"{len(audit.cuts)} of {tape.messages.height:,} prefixes, for {audit.decisions.height:,} decisions"
    figures = [
        Figure(f"audited backtest of {tape.rows.height:,} ticks", f"{way}, {kind}", "s", spread(values))
        for (way, kind), values in seconds.items()
    ]
    sys.stdout.write(f"{table(figures)}\n\nAn audit compares {share}: {audit.blind}\n")
    return 0 if len(events) == 1 else 1


def _processor() -> float:
    """Return the seconds of processor of this process and of all that it has started and that have ended."""
    time.sleep(0.2)
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _starts(rounds: int) -> Iterator[Figure]:
    """Time a new process up to its first answer: who the agent is."""

    def start() -> None:
        number = time.perf_counter_ns()  # other parameters, and so another process
        _ = isolated(rising, memory_mb=4096 + number % 4096, params={"rise_bps": number % 500}).identity

    yield Figure("a process", "started, locked in, and asked who it is", "s", _timed(start, rounds), Budget(0.3))


def _asked(name: str, pack: Pack, tape: Tape, kind: str, rounds: int) -> Iterator[Figure]:
    agent = _AGENTS[kind]
    own = isolated(agent)
    budgets = {("columnar", "season", "kept"): 0.02, ("columnar", "season", "audit"): 1}
    budgets |= {("columnar", name, "kept"): 0.15} if name.startswith(("9,9", "10,0")) else {}
    here = _timed(lambda: agent.decide(tape), rounds)
    yield Figure(f"{kind}, {name}", "called here, where none is isolated", "s", here)
    kept = _timed(lambda: own.decide(tape), rounds)
    added = spread([max(0.0, value - here.median) for value in (kept.min, kept.median, kept.max)])
    limit = budgets.get((kind, name, "kept"))
    yield Figure(f"{kind}, {name}", "asked in a process that is kept, beyond that", "s", added, limit and Budget(limit))
    yield Figure(
        f"{kind}, {name}", "ticks in a process that is kept", "ticks/s", _rate(kept, tape.rows.height), _speed(kind, name)
    )
    if kind != "columnar":
        walker = isolated(agent, stepped=True)
        step = _rate(_timed(lambda: walker.decide(tape), rounds), tape.messages.height)
        least = Budget(60_000, at="least") if name == "season" else None
        yield Figure(f"{kind}, {name}", "messages asked about step by step", "messages/s", step, least)
    handed = _timed(lambda: own.decide(_other(tape)), rounds)
    yield Figure(f"{kind}, {name}", "asked about a tape that is new to it", "s", handed)
    limit = budgets.get((kind, name, "audit"))
    audit = _timed(lambda: lookahead_audit(own, tape, seed=_SEED), rounds, warm=False)
    yield Figure(f"{kind}, {name}", "audited", "s", audit, limit and Budget(limit))
    if name in ("starter", "season"):
        sealed = _timed(lambda: performed(pack, own), rounds, warm=False)
        yield Figure(f"{kind}, {name}", "backtested: audited and sealed", "s", sealed)


def _speed(kind: str, name: str) -> Budget | None:
    return Budget(1e6, at="least") if kind == "tick by tick" and name == "season" else None


def _other(tape: Tape) -> Tape:
    """Return the same tape as an object of its own, which is written anew."""
    return Tape(tape.binding, tape.rows, tape.series, tape.fixtures, tape.closing_policy, tape.announced, tape.max_close_age_s)


def _timed(job: Callable[[], object], rounds: int, *, warm: bool = True) -> Spread:
    """Time a job some times, after once that does not count if it leaves a process behind that the next one uses."""
    if warm:
        job()
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        job()
        seconds.append(time.perf_counter() - start)
    return spread(seconds)


def _rate(seconds: Spread, count: int) -> Spread:
    return spread([count / value for value in (seconds.max, seconds.median, seconds.min)])


if __name__ == "__main__":
    sys.exit(main())
