"""``python -m tests.benchmarks.lists [--rows 250] [--json report.json]``: one page of each list, at 1, 4 and 16 times the rows.

Each list has rows that its page does not show. Steps of SQLite's virtual machine count what a read looks at, the same on every
machine; processor time has the rest.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from clvlab.api.leaderboard import LeaderboardResponse
from clvlab.arena.application import Application
from clvlab.arena.competitions.competitions import CompetitionFilter
from clvlab.arena.competitions.requests import CompetitionConfig, CompetitionStatus
from clvlab.arena.runs.runs import RunFilter
from clvlab.log.log import commit
from clvlab.store import standings
from clvlab.store.database import Database
from clvlab.store.runlog import StoredLogRows
from clvlab.store.standings import RowQuery
from clvlab.store.tables import SUMS, competitions, instances, reports, runs
from clvlab.store.tables import standings as board_rows
from tests.benchmarks.report import machine

TIMES = (1, 4, 16)
PAGE, OLD = 20, 30  # entries of a page; the oldest rows, which a filter finds
_OWNER, _OTHER, _RANKED, _PACK = "did:x:old", "did:x:other", "did:x:ranked", "sha256:" + "a" * 64
_BOARD = TypeAdapter(LeaderboardResponse)
_CONFIG = {"competition_type": "arena", "source_mode": "replay", "market_scope": "all", "roster_size": 3}

Reads = Mapping[str, Callable[[], object]]


def main() -> int:
    """Measure each read at each size; print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.lists", description="Measure pages of lists.")
    parser.add_argument("--rows", type=int, default=250, help="rows of each list at once the size")
    parser.add_argument("--json", type=Path, metavar="report.json")
    asked = parser.parse_args()
    measured: dict[str, list[tuple[int, float]]] = {}
    for times in TIMES:
        with filled(asked.rows * times) as application:
            for name, read in reads(application).items():
                taken = min(_processor_s(read) for _ in range(5))
                measured.setdefault(name, []).append((steps(application, read), taken * 1000))
    sys.stdout.write(_table(measured, [asked.rows * times for times in TIMES]))
    if asked.json:
        found = {"machine": machine(), "settings": {"rows": asked.rows, "times": TIMES}, "steps_and_ms": measured}
        asked.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0


def _table(measured: Mapping[str, list[tuple[int, float]]], sizes: list[int]) -> str:
    head = [f"steps, {size:,} rows" for size in sizes] + [f"ms, {size:,} rows" for size in sizes]
    lines = [f"| {' | '.join(('list', *head))} |", "| --- |" + " --: |" * len(head)]
    for name, found in measured.items():
        row = [f"{count:,}" for count, _ in found] + [f"{taken:.2f}" for _, taken in found]
        lines.append(f"| {' | '.join((name, *row))} |")
    return "\n".join(lines) + "\n"


def _processor_s(read: Callable[[], object], count: int = 20) -> float:
    read()
    begun = time.process_time()
    for _ in range(count):
        read()
    return (time.process_time() - begun) / count


def steps(application: Application, read: Callable[[], object]) -> int:
    """Count the steps that SQLite takes for a read."""
    read()  # compiles the statements
    database: Database = application._database
    with database.read() as connection:
        driver = connection.connection.driver_connection
    taken = 0

    def step() -> int:
        nonlocal taken
        taken += 1
        return 0

    driver.set_progress_handler(step, 1)
    try:
        read()
    finally:
        driver.set_progress_handler(None, 0)
    return taken


@contextmanager
def filled(rows: int) -> Iterator[Application]:
    """A store with so many rows of each kind; the oldest of them are of another owner, state and pack."""
    application = Application(None)
    config = CompetitionConfig.model_validate(_CONFIG).snapshot()
    with application._database.write() as connection:
        for table_of, made in (
            (competitions, lambda number, old: _competition(number, config, old=old)),
            (runs, lambda number, old: _run(number, old=old)),
            (instances, lambda number, old: _instance(number, old=old)),
            (reports, lambda number, old: _report(number, old=old)),
        ):
            connection.execute(table_of.insert(), [made(number, number < OLD) for number in range(rows)])
        standings.replace_all(connection, [result_of(number, old=number < OLD) for number in range(rows)], {})
        best = board_rows.c.total_clv_bps >= 2 * OLD  # the best rows decide like one that comes after the first page
        connection.execute(board_rows.update().where(best).values(first_alike="agent old"))
        log = StoredLogRows(connection, writing=True)
        for number in range(rows):
            index = commit(log, f"run_{number:08}", "anonymous", _PACK, _PACK, number)
            connection.execute(runs.update().where(runs.c.run_id == f"run_{number:08}").values(commit_index=index))
    try:
        yield application
    finally:
        application.close()


def reads(application: Application) -> Reads:
    """The first page of each list, also by each filter, and the card of one run."""
    listed, kept, board = application.competitions, application.runs, application.leaderboard

    def page(wanted: RowQuery, cursor: str | None = None) -> bytes:
        return _BOARD.dump_json(_BOARD.validate_python(board.page(cursor, 0, PAGE, wanted)[0]))

    second, apart = board.page(None, 0, PAGE)[1], RowQuery(grouped=True, apart=True)
    return {
        "leaderboard": lambda: page(RowQuery()),
        "leaderboard, second page": lambda: page(RowQuery(), second),
        "leaderboard, grouped": lambda: page(RowQuery(grouped=True)),
        "leaderboard, grouped and apart": lambda: board.keyed_rows(0, PAGE, apart),
        "leaderboard by knowledge": lambda: page(RowQuery(knowledge="live")),
        "leaderboard by owner": lambda: page(RowQuery(owner=_RANKED)),
        "leaderboard by owner, grouped and apart": lambda: board.keyed_rows(0, PAGE, replace(apart, owner=_RANKED)),
        "competitions": lambda: listed.page(None, None, PAGE),
        "competitions by status": lambda: listed.page(CompetitionFilter(CompetitionStatus.FINALIZED), None, PAGE),
        "competitions by owner": lambda: listed.page(CompetitionFilter(owner=_OWNER), None, PAGE),
        "competitions by pack": lambda: listed.page(CompetitionFilter(pack_id="old"), None, PAGE),
        "runs": lambda: kept.page(None, PAGE),
        "runs by kind": lambda: kept.page(None, PAGE, RunFilter(kind="deploy")),
        "runs by status": lambda: kept.page(None, PAGE, RunFilter(status="failed")),
        "runs by owner": lambda: kept.page(None, PAGE, RunFilter(owner=_OWNER)),
        "runs by pack": lambda: kept.page(None, PAGE, RunFilter(pack_id="old")),
        "runs by a rare agent": lambda: kept.page(None, PAGE, RunFilter(agent_id="agent old")),
        "runs by a frequent agent": lambda: kept.page(None, PAGE, RunFilter(agent_id="agent")),
        "backtests": lambda: application.backtests.page(None, PAGE),
        "instances": lambda: application.deploys.page(_OWNER, None, None, PAGE),
        "instances by strategy": lambda: application.deploys.page(_OTHER, "old", None, PAGE),
        "log entries": lambda: application.log.page(0, PAGE),
        "proof card": lambda: kept.card_and_finality("run_00000000"),
        "standing in the log": lambda: kept.log_standing("run_00000000"),
    }


def _competition(number: int, config: Mapping[str, Any], *, old: bool) -> dict[str, Any]:
    return {
        "competition_id": f"comp_{number:08}",
        "owner": _OWNER if old else _OTHER,
        "status": "finalized" if old else "draft",
        "config": config,
        "roster_size": 3,
        "pack_id": "old" if old else "new",
        "next_seq": 0,
        "created_ts_ms": number,
        "updated_ts_ms": number,
    }


def _run(number: int, *, old: bool) -> dict[str, Any]:
    return {
        "run_id": f"run_{number:08}",
        "kind": "deploy" if old else "backtest",
        "status": "failed" if old else "queued",
        "source_mode": "replay",
        "mode_label": "Backtest",
        "lineage": {},
        "owner": _OWNER if old else _OTHER,
        "pack_id": "old" if old else "new",
        "created_ts_ms": number,
        "updated_ts_ms": number,
        "ranked": True,
    }


def _instance(number: int, *, old: bool) -> dict[str, Any]:
    record = {
        "instance_id": f"inst_{number:08}",
        "owner": _OWNER if old else _OTHER,
        "template": "old" if OLD <= number < 2 * OLD else "baseline",
        "run_id": f"run_{number:08}",
        "created_ts_ms": number,
    }
    return record | {"record": record | {"config_hash": _PACK, "replay_binding": None}, "next_event_id": 1}


def _report(number: int, *, old: bool) -> dict[str, Any]:
    names = {"backtest_id": f"bt_{number:08}", "run_id": f"run_{number:08}", "pack_id": "old" if old else "new"}
    return names | {"fixture_id": 1, "created_ts_ms": number, "report": {}}


def result_of(number: int, *, old: bool) -> dict[str, Any]:
    """A result of an agent of its own; the later, the better."""
    told = {"strategy": "baseline", "causality": "template", "config_hash": None}
    rest = {"proof_mode": "reproducible", "source_mode": "replay", "failing": False, "commit_index": None, "sketch": None}
    sums = dict.fromkeys(SUMS, 1) | {"invalid_count": 0, "total_clv_bps": number}
    agent = {"owner": _OWNER, "agent_id": "agent old"} if number == 0 else {"owner": f"did:x:{number}", "agent_id": "agent"}
    if 0 < number < OLD:
        agent |= {"owner": _RANKED, "agent_id": f"agent {number}"}
    own = {"run_id": f"run_{number:08}", "max_drawdown": -number, "fixtures": 1, "knowledge": "live" if old else "history"}
    own |= {"created_ts_ms": number}
    return agent | own | sums | told | rest


if __name__ == "__main__":
    sys.exit(main())
