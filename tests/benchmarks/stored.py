"""Jobs over a store in memory: what is read of a run or of all runs without reading them whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from clvlab.anchor.anchorer import NullAnchor
from clvlab.arena.anchors import RunAnchors
from clvlab.arena.leaderboard import GlobalLeaderboard, RowQuery
from clvlab.arena.log.public import PublicLog
from clvlab.arena.runs.runs import StoredRuns
from clvlab.store import runs, standings
from clvlab.store.database import Database
from clvlab.store.folder import read_run
from clvlab.store.tables import SUMS
from clvlab.store.tables import runs as run_table

__all__ = ["NAMES", "board", "board_page", "decision"]

NAMES = (100, 10_000)

_AGENTS = 500
_ROW = {"kind": "backtest", "origin_id": None, "source_mode": "replay", "mode_label": "Backtest", "lineage": {}, "ranked": True}


def decision(folder: Path) -> Callable[[], dict[str, Any]]:
    """Read one decision from the middle of a stored run."""
    (path,) = (folder / "runs").iterdir()
    run, database = read_run(path), Database()
    with database.write() as connection:
        runs.add(connection, _ROW | {"run_id": run.run_id, "created_ts_ms": 0})
        runs.seal(connection, run, b"", checks={}, metrics={}, ts_ms=0)
    seq = run.scores.count(b"\n") // 2
    stored = StoredRuns(database, RunAnchors(database, NullAnchor(), int), PublicLog(database), int)
    return lambda: {"seq": seq, "agent_id": stored.inspect(run.run_id, seq)["agent_id"]}


def board(_: Path, count: str) -> Callable[[], dict[str, Any]]:
    """Rank the agents of so many runs."""
    leaderboard = _leaderboard(int(count), _AGENTS)
    return lambda: {"runs": sum(row["runs"] for row in leaderboard.rows()["rows"])}


def board_page(_: Path, names: str) -> Callable[[], dict[str, Any]]:
    """Read the first ten of so many rows, and the first ten groups."""
    leaderboard = _leaderboard(int(names), int(names))
    grouped = RowQuery(grouped=True, apart=True)
    return lambda: {"rows": len(leaderboard.rows(0, 10)["rows"]) + len(leaderboard.rows(0, 10, grouped)["rows"])}


def _leaderboard(count: int, agents: int) -> GlobalLeaderboard:
    database = Database()
    with database.write() as connection:
        results = list(_results(count, agents))
        rows = [
            _ROW | {"run_id": result["run_id"], "status": "sealed", "created_ts_ms": 0, "updated_ts_ms": 0}
            for result in results
        ]
        connection.execute(run_table.insert(), rows)
        standings.replace_all(connection, results, {})
    return GlobalLeaderboard(database)


def _results(count: int, agents: int) -> Iterator[dict[str, Any]]:
    told = {"strategy": "baseline", "causality": "template", "config_hash": "sha256:1", "knowledge": "history"}
    rest = {"proof_mode": "reproducible", "source_mode": "replay", "failing": False, "commit_index": None, "sketch": None}
    for number in range(count):
        sums = {name: number % (7 + place) for place, name in enumerate(SUMS)}
        agent = {"owner": f"did:example:{number % agents % 7}", "agent_id": f"agent {number % agents}"}
        own = {"run_id": f"run_{number:032x}", "max_drawdown": -(number % 900), "fixtures": 1, "created_ts_ms": 0}
        yield agent | own | sums | told | rest
