"""The run of a backtest that was asked for: performed by a job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from clvlab.answers.answer import pick
from clvlab.answers.backtests import BacktestReport, BacktestSummary
from clvlab.application.progress import Tell
from clvlab.application.reports.requests import stored_request
from clvlab.application.runs.binding import open_catalogued
from clvlab.application.runs.in_database import begin, give_up, keep
from clvlab.application.runs.perform import PerformedRun, perform
from clvlab.application.sheets.statistics import statistics_of
from clvlab.packs.catalog import Catalog
from clvlab.store import jobs as job_rows
from clvlab.store import reports, usage
from clvlab.store.database import Connection, Database
from clvlab.store.jobs import Job, JobStatus


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
        request = stored_request(job.payload["request"])
        done = perform(request.plan(open_catalogued(self.catalog, request.pack_id)), commitment, tell)
        report = report_of(done)
        with self.database.write() as connection:
            job_rows.fence(connection, job)
            now = self.clock()
            keep(connection, done, None, now)  # anybody may ask for one, and the chain's fees are the operator's
            keep_report(connection, report, now)
            reports.forget_tickets(connection, job.run_id)
            usage.weigh(connection, job.run_id)
            job_rows.finish(connection, job, JobStatus.DONE)

    def failed(self, connection: Connection, job: Job, cause: str) -> None:
        """Put the cause on the run's record; asking again tries again."""
        give_up(connection, job.run_id, cause, self.clock())
        reports.forget_tickets(connection, job.run_id)


def keep_report(connection: Connection, report: BacktestReport, now_ms: int) -> None:
    """Store a report; the same again changes nothing."""
    summary = pick(BacktestSummary, {**report, "created_ts_ms": now_ms})
    reports.add(connection, {**summary, "report": report})


def report_of(done: PerformedRun) -> BacktestReport:
    """Return the report; over several fixtures it has statistics, as one fixture has no interval."""
    report = cast("BacktestReport", done.report)  # what is performed here is no live run
    return report if len(done.fixture_ids) == 1 else {**report, "statistics": statistics_of(done)}
