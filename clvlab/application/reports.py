"""Backtests of the one offline agent, stored and verifiable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clvlab.agents.registry import template
from clvlab.application.backtests import backtest
from clvlab.application.execution import Bound, Execution, Plan, bound
from clvlab.application.jobs import Jobs
from clvlab.application.pages import page_of
from clvlab.application.requests import BacktestRunRequest
from clvlab.application.sealing import begin, enter, give_up, seal
from clvlab.application.slots import Slots
from clvlab.errors import PackReplayError, UnknownBacktestError
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.packs.catalog import Catalog
from clvlab.store import jobs as job_rows
from clvlab.store import reports
from clvlab.store.database import Connection, Database
from clvlab.store.jobs import Job, JobStatus
from clvlab.store.runs import RunStatus
from clvlab.store.tables import reports as report_table

__all__ = ["ANYBODY", "BacktestReports", "BacktestRuns"]

ANYBODY = "anonymous"
"""Who commits to a run that was asked for without a token."""
_AGENT = "baseline"


@dataclass(frozen=True)
class BacktestReports:
    """Use cases of backtests; asking twice gives the same report."""

    database: Database
    catalog: Catalog
    jobs: Jobs
    slots: Slots
    clock: Callable[[], int]

    def run(self, request: BacktestRunRequest) -> dict[str, Any]:
        """Replay, seal and store; gives BacktestRunResponse. Blocks.

        Raises
        ------
        UnknownPackError, UnknownFixtureError, WindowError
            In this order.
        PackReplayError
            The replay itself failed.
        BusyError
            The pool of public work is full.
        """
        own = bound(self.catalog, request.pack_id, request.fixture_id)
        started = _plan(own, request.window()).started()
        run_id = str(started["run_id"])
        backtest_id = run_id.replace("run_", "bt_", 1)
        with self.database.read() as connection:
            known = reports.report(connection, backtest_id) is not None
        if not known:
            with self.slots.taken():
                self._performed(started, request)
        return {"backtest_id": backtest_id, "mode_label": "Backtest", "run_id": run_id}

    def _performed(self, started: dict[str, Any], request: BacktestRunRequest) -> None:
        run_id, now = str(started["run_id"]), self.clock()
        with self.database.write() as connection:
            if enter(connection, started, ANYBODY, now):
                payload = {"origin_id": run_id, "request": request.model_dump(mode="json")}
                job_rows.add(connection, "backtest", run_id, payload, now)
        outcome = self.jobs.settle(run_id)
        if outcome["status"] == RunStatus.FAILED:
            raise PackReplayError(f"the replay failed: {outcome['cause']}")

    def report(self, backtest_id: str) -> dict[str, Any]:
        """Give BacktestReport.

        Raises
        ------
        UnknownBacktestError
        """
        with self.database.read() as connection:
            found = reports.report(connection, backtest_id)
        if found is None:
            raise UnknownBacktestError(f"unknown backtest {backtest_id!r}")
        return found

    def page(self, cursor: str | None = None, limit: int = 50) -> dict[str, Any]:
        """Give ``{backtests: [{backtest_id, run_id, pack_id, fixture_id, created_ts_ms}], next_cursor}``, newest first.

        Raises
        ------
        PageError
        """
        with self.database.read() as connection:
            rows, next_cursor = page_of(connection, report_table, "backtest_id", cursor, limit)
        return {"backtests": rows, "next_cursor": next_cursor}


@dataclass(frozen=True)
class BacktestRuns:
    """Performs the jobs of backtests."""

    database: Database
    catalog: Catalog
    clock: Callable[[], int]

    def perform(self, job: Job) -> None:
        """Replay, seal and store the report."""
        with self.database.write() as connection:
            job_rows.fence(connection, job)
            commit_index = begin(connection, job.run_id, self.clock())
        request = BacktestRunRequest.model_validate(job.payload["request"])
        pack = bound(self.catalog, request.pack_id, request.fixture_id).pack
        done = backtest(pack, _AGENT, fixture_ids=[request.fixture_id], window=request.window(), commit_index=commit_index)
        if done.run.run_id != job.run_id:
            raise PackReplayError(f"pack {request.pack_id!r} changed since the backtest was asked for")
        execution = Execution(done.result, done.receipts, done.verification)
        report = done.report
        with self.database.write() as connection:
            job_rows.fence(connection, job)
            now = self.clock()
            seal(connection, execution, None, now)  # anybody may ask for one, and the chain's fees are the operator's
            names = ("backtest_id", "run_id", "pack_id", "fixture_id")
            reports.add(connection, {name: report[name] for name in names} | {"created_ts_ms": now, "report": report})
            job_rows.finish(connection, job, JobStatus.DONE)

    def failed(self, connection: Connection, job: Job, cause: str) -> None:
        """Put the cause on the run's record; asking again tries again."""
        give_up(connection, job.run_id, cause, self.clock())


def _plan(own: Bound, window: Window) -> Plan:
    agent = template(_AGENT, {"markets": window.market_allowlist})
    return Plan(kind="backtest", origin_id=None, bound=own, agents=[agent], window=window, policy=PolicyEnvelope())
