"""Backtests of the one offline agent, stored and verifiable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from clvlab.agents.registry import template
from clvlab.answers.answer import pick
from clvlab.answers.backtests import BacktestListResponse, BacktestReport, BacktestRunResponse, BacktestSummary
from clvlab.application.attempt import Tell
from clvlab.application.competitions.requests import BacktestRunRequest
from clvlab.application.jobs import Jobs
from clvlab.application.pages import page_of
from clvlab.application.runs.binding import Bound, bind
from clvlab.application.runs.counting import ANYBODY
from clvlab.application.runs.in_database import begin, enter, give_up, keep
from clvlab.application.runs.perform import backtest_id, perform
from clvlab.application.runs.plan import Plan
from clvlab.errors import PackReplayError, UnknownBacktestError
from clvlab.law.closing import Window
from clvlab.packs.catalog import Catalog
from clvlab.store import jobs as job_rows
from clvlab.store import reports
from clvlab.store.database import Connection, Database
from clvlab.store.jobs import Job, JobStatus
from clvlab.store.runs import RunStatus
from clvlab.store.tables import reports as report_table

_AGENT = "baseline"


@dataclass(frozen=True)
class BacktestReports:
    """Use cases of backtests; asking twice gives the same report."""

    database: Database
    catalog: Catalog
    jobs: Jobs
    clock: Callable[[], int]

    def run(self, request: BacktestRunRequest) -> BacktestRunResponse:
        """Replay, seal and store. Blocks.

        Raises
        ------
        UnknownPackError, UnknownFixtureError, WindowError
            In this order.
        PackReplayError
            The replay itself failed.
        """
        own = bind(self.catalog, request.pack_id, request.fixture_id)
        plan = _plan(own, request.window())
        own_id = backtest_id(plan.run_id)
        with self.database.read() as connection:
            known = reports.report(connection, own_id) is not None
        if not known:
            self._settle(plan, request)
        return {"backtest_id": own_id, "mode_label": "Backtest", "run_id": plan.run_id}

    def _settle(self, plan: Plan, request: BacktestRunRequest) -> None:
        now = self.clock()
        with self.database.write() as connection:
            if enter(connection, plan, ANYBODY, now):
                payload = {"origin_id": plan.run_id, "request": request.model_dump(mode="json")}
                job_rows.add(connection, "backtest", plan.run_id, payload, now)
        outcome = self.jobs.settle(plan.run_id)
        if outcome["status"] == RunStatus.FAILED:
            raise PackReplayError(f"the replay failed: {outcome['cause']}")

    def report(self, backtest_id: str) -> BacktestReport:
        """Return the stored report.

        Raises
        ------
        UnknownBacktestError
        """
        with self.database.read() as connection:
            found = reports.report(connection, backtest_id)
        if found is None:
            raise UnknownBacktestError(f"unknown backtest {backtest_id!r}")
        return cast("BacktestReport", found)

    def page(self, cursor: str | None = None, limit: int = 50) -> BacktestListResponse:
        """List backtests, newest first.

        Raises
        ------
        PageError
        """
        with self.database.read() as connection:
            rows, next_cursor = page_of(connection, report_table, "backtest_id", cursor, limit)
        return {"backtests": cast("list[BacktestSummary]", rows), "next_cursor": next_cursor}


@dataclass(frozen=True)
class BacktestRuns:
    """Performs the jobs of backtests."""

    database: Database
    catalog: Catalog
    clock: Callable[[], int]

    def perform(self, job: Job, tell: Tell) -> None:
        """Replay, seal and store the report."""
        with self.database.write() as connection:
            job_rows.fence(connection, job)
            commitment = begin(connection, job.run_id, self.clock())
        request = BacktestRunRequest.model_validate(job.payload["request"])
        own = bind(self.catalog, request.pack_id, request.fixture_id)
        done = perform(_plan(own, request.window()), commitment, tell)
        with self.database.write() as connection:
            job_rows.fence(connection, job)
            now = self.clock()
            keep(connection, done, None, now)  # anybody may ask for one, and the chain's fees are the operator's
            summary = pick(BacktestSummary, {**done.report, "created_ts_ms": now})
            reports.add(connection, {**summary, "report": done.report})
            job_rows.finish(connection, job, JobStatus.DONE)

    def failed(self, connection: Connection, job: Job, cause: str) -> None:
        """Put the cause on the run's record; asking again tries again."""
        give_up(connection, job.run_id, cause, self.clock())


def _plan(own: Bound, window: Window) -> Plan:
    return Plan(own.pack, [template(_AGENT, {"markets": window.market_allowlist})], window, fixtures=[own.fixture_id])
