"""Backtests of the templates, stored and verifiable; the same request returns the same report."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import cast

from clvlab.api.answer import pick
from clvlab.api.backtests import (
    BacktestListResponse,
    BacktestReport,
    BacktestRunResponse,
    BacktestStatistics,
    BacktestSummary,
    BeatCloseStatistics,
    FigureRow,
    MeanStatistics,
    MedianStatistics,
    StoredReport,
)
from clvlab.api.runs import ExecutableResponse, JobState
from clvlab.arena.caps import Budget, Caps
from clvlab.arena.jobs import CANCELLED, OVER, Jobs
from clvlab.arena.pages import page_of
from clvlab.arena.report_requests import BacktestRunRequest, PackBacktestRequest, stored_request
from clvlab.arena.run_jobs import Sealing
from clvlab.arena.runs.binding import open_catalogued
from clvlab.arena.runs.bundles import part_of
from clvlab.arena.runs.in_database import enter, give_up
from clvlab.arena.runs.runs import StoredRuns, require
from clvlab.base.cache import BoundedCache
from clvlab.errors import (
    IdempotencyConflictError,
    NotOwnerError,
    PackReplayError,
    RunFailedError,
    TransitionError,
    UnknownBacktestError,
    UnknownRunError,
)
from clvlab.packs.catalog import Catalog
from clvlab.proof.anchor import Anchor
from clvlab.proof.canonical import sha256
from clvlab.report.executable import Executable
from clvlab.report.figures import Figure, figures
from clvlab.report.tearsheet import TearSheet, tear_sheet_page
from clvlab.runs.run import Run, backtest_id, reopen, run_id_of
from clvlab.runs.spec import ReplaySpec
from clvlab.statistics.commissions import commission_of
from clvlab.store import jobs as job_rows
from clvlab.store import reports, runs
from clvlab.store.database import Connection, Database
from clvlab.store.jobs import Job, JobPayload
from clvlab.store.labels import ANYBODY
from clvlab.store.runs import RunStatus
from clvlab.store.tables import reports as report_table

# Statistics of a backtest as JSON values: the figures of its tear sheet.


def statistics_of(performed: Run, level: float = 0.95, resamples: int = 5_000, seed: int = 0) -> BacktestStatistics:
    """Return the statistics of a backtest of one agent as JSON values: the tear sheet's figures over all scored decisions.

    ``level`` is the level of the intervals, above 0 and below 1. ``resamples`` and ``seed`` set the sign flips by fixture; the
    same seed gives the same statistics.

    Raises
    ------
    StatisticsError
        The level is not between 0 and 1, or there is no resample.

    Examples
    --------
    >>> import clvlab as cl
    >>> found = statistics_of(cl.backtest("starter", "cumulative-drift").source)
    >>> found["clv_bps"]["n"], found["clv_bps"]["n_clusters"], round(found["effective_clusters"], 1)
    (129, 12, 10.6)
    """
    sheet = TearSheet(performed, level, resamples, seed=seed, all_scored=True)
    spread = sheet.concentration
    return {
        "clv_bps": _mean(sheet, "clv"),
        "price_ratio_pct": _mean(sheet, "price_ratio"),
        "edge_pct": _mean(sheet, "edge"),
        "median_clv_bps": pick(MedianStatistics, {**asdict(sheet.median), "level": level}),
        "beat_close": pick(BeatCloseStatistics, {**asdict(sheet.beat), "level": level}),
        "effective_clusters": spread.effective_clusters,
        "largest_fixture_share": spread.largest_share,
        "top_five_share": spread.top_share,
        "resamples": resamples,
        "seed": seed,
        "figures": [_row(figure) for figure in figures(sheet, moved=False)],
    }


def _mean(sheet: TearSheet, name: str) -> MeanStatistics:
    found = asdict(sheet.means[name])
    return pick(MeanStatistics, {**found, "level": sheet.level, "sign_flip_p": sheet.sign_flips[name]})


def _row(figure: Figure) -> FigureRow:
    name, value, low, high, unit = figure
    return {"figure": name, "value": _finite(value), "low": _finite(low), "high": _finite(high), "unit": unit}


def _finite(value: float | None) -> float | None:
    """Return a finite number, else ``None``, because JSON has no other numbers."""
    return value if value is not None and isfinite(value) else None


# The run of a requested backtest, performed by a job.


@dataclass(frozen=True)
class BacktestOrigin:
    catalog: Catalog

    def spec(self, job: Job) -> ReplaySpec:
        request = stored_request(job.payload["request"])
        return request.spec(open_catalogued(self.catalog, request.pack_id))

    def report_start(self, connection: Connection, job: Job, now_ms: int) -> None:
        """Do nothing, as backtests have no events."""

    def seal_report(self, job: Job, run: Run) -> Sealing:
        report = report_of(run)

        def sealed(connection: Connection, anchor: Anchor, now_ms: int) -> None:  # noqa: ARG001
            keep_report(connection, report, now_ms)
            reports.forget_tickets(connection, job.run_id)

        return sealed

    def record_failure(self, connection: Connection, job: Job, cause: str, now_ms: int) -> None:
        """Record the cause; a new request tries again."""
        give_up(connection, job.run_id, cause, now_ms)
        reports.forget_tickets(connection, job.run_id)


def keep_report(connection: Connection, report: BacktestReport, now_ms: int) -> None:
    summary = pick(StoredReport, {**report, "created_ts_ms": now_ms})
    reports.add(connection, {**summary, "report": report})


def report_of(done: Run) -> BacktestReport:
    """Return the report; over several fixtures it has statistics, as one fixture has no interval."""
    report = cast("BacktestReport", done.report)  # live runs are not performed here
    return report if len(done.fixture_ids) == 1 else {**report, "statistics": statistics_of(done)}


_SHEETS_BYTES = 16 << 20
_KIND = "backtest"


@dataclass(frozen=True)
class ReportRequest:
    """A requested backtest after all immediate checks.

    The holder of ``key`` may withdraw the request. ``chosen`` says that the caller chose the key, which then stays bound to
    this backtest. ``repeated`` says that the key had this backtest before, and ``known`` that the report exists.
    """

    request: BacktestRunRequest | PackBacktestRequest
    spec: ReplaySpec = field(repr=False)
    key: str
    chosen: bool
    known: bool
    owner: str = ANYBODY
    repeated: bool = False

    @property
    def run_id(self) -> str:
        return self.spec.run_id

    @property
    def answer(self) -> BacktestRunResponse:
        return {"backtest_id": backtest_id(self.run_id), "mode_label": "Backtest", "run_id": self.run_id}


@dataclass(frozen=True)
class BacktestReports:
    database: Database
    catalog: Catalog
    jobs: Jobs
    runs: StoredRuns
    clock: Callable[[], int]
    budget: Budget
    caps: Caps
    _sheets: BoundedCache[str] = field(default_factory=lambda: BoundedCache(_SHEETS_BYTES, len))

    def ask(
        self, request: BacktestRunRequest | PackBacktestRequest, key: str | None = None, owner: str | None = None
    ) -> ReportRequest:
        """Check a request, without storing it.

        ``key`` is an idempotency key for one backtest, by which the request can be withdrawn; by default a new key is made.
        ``owner`` is the principal of a verified token, ``None`` for anybody.

        Raises
        ------
        IdempotencyConflictError
            The key belongs to another backtest.
        """
        spec = request.spec(open_catalogued(self.catalog, request.pack_id))
        used = None
        if key is not None:
            with self.database.read() as connection:
                used = reports.run_of_key(connection, key)
            if used not in (None, spec.run_id):
                raise _key_conflict(key)
        known = self._stored_report(backtest_id(spec.run_id)) is not None
        key_of_request, chosen = key or secrets.token_urlsafe(24), key is not None
        return ReportRequest(request, spec, key_of_request, chosen, known, owner or ANYBODY, repeated=used is not None)

    def enter(self, wanted: ReportRequest, *, at_once: bool = False) -> bool:
        """Store a request; the first one for a backtest also stores its run and job, which belong to its owner.

        Return whether it is the first one, also after a failure.

        With ``at_once`` the run begins in the same transaction, and the caller settles it next.
        """
        now, body = self.clock(), wanted.request.model_dump(mode="json", exclude_unset=True)
        payload: JobPayload = {"origin_id": wanted.run_id, "request": body}
        with self.database.write() as connection:
            job_rows.hold_open(connection, wanted.run_id, [_KIND])  # no cancel can come before the key is stored
            own = None if wanted.owner == ANYBODY else wanted.owner
            taken = reports.take_key(
                connection, wanted.key, wanted.run_id, now, chosen=wanted.chosen, active=not wanted.known, owner=own
            )
            if taken != wanted.run_id:
                raise _key_conflict(wanted.key)
            before = None if own is None else runs.row(connection, wanted.run_id)
            if own is not None and (
                before is None or before["status"] == RunStatus.FAILED
            ):  # else it is not a run of this owner
                self.caps.require_names(connection, own, [agent["agent_id"] for agent in wanted.spec.started["agents"]])
            started, lease_ms = wanted.spec.started, self.jobs.lease(at_once=at_once)
            job = enter(connection, started, wanted.owner, now, budget=self.budget, payload=payload, lease_ms=lease_ms)
        self.jobs.expect(job)
        return job is not None

    def settle(self, wanted: ReportRequest) -> BacktestRunResponse:
        """Wait until a stored request is answered; perform its job here if no other worker does. Blocks."""
        try:
            self.jobs.require_sealed(wanted.run_id)
        except RunFailedError as error:
            raise PackReplayError(f"the replay failed: {error.cause}") from error
        return wanted.answer

    def run(self, request: BacktestRunRequest | PackBacktestRequest) -> BacktestRunResponse:
        wanted = self.ask(request)
        if not wanted.known:
            self.enter(wanted, at_once=True)
            self.settle(wanted)
        return wanted.answer

    def state(self, wanted: ReportRequest) -> JobState:
        """Return the progress of a request, with the key by which it can be withdrawn."""
        return {**self.jobs.state(wanted.run_id), "key": wanted.key}

    def withdraw(self, backtest_id: str, key: str | None, owner: str | None = None) -> JobState:
        """Withdraw a request by its key, or without one all requests of an owner; a backtest without others is cancelled.

        Raises
        ------
        TransitionError
            The backtest is over.
        NotOwnerError
            The key, or the owner, has no request for it.
        """
        run_id, _ = self._run(backtest_id)

        def others(connection: Connection) -> bool:
            row = require(runs.row(connection, run_id), run_id)  # its job is locked, so a finish is over or comes later
            if row["status"] in OVER:
                raise TransitionError(f"backtest {backtest_id} is {row['status']}: there is nothing to cancel")
            others = reports.withdraw(connection, run_id, key, owner)
            if others is None:
                raise NotOwnerError(f"backtest {backtest_id} was not asked for {'by you' if key is None else 'under that key'}")
            return others > 0

        self.jobs.cancel(run_id, CANCELLED, unless=others)
        return self.jobs.state(run_id)

    def report(self, backtest_id: str) -> BacktestReport:
        found = self._stored_report(backtest_id)
        if found is None:
            self._run(backtest_id)
            raise UnknownBacktestError(f"backtest {backtest_id!r} has no report yet: ask for it first")
        return found

    def look(self, backtest_id: str) -> BacktestReport | JobState:
        """Return the stored report, or the progress of the backtest; ``UnknownBacktestError`` with the cause if it failed."""
        found = self._stored_report(backtest_id)
        with self.database.read() as connection:
            created_ts_ms = reports.created_ts_ms(connection, backtest_id)
            life = runs.by_id(connection, runs.RunLife, [run_id_of(backtest_id)]).get(run_id_of(backtest_id))
        if found is not None and life is not None and created_ts_ms is not None:  # otherwise it was removed meanwhile
            dated = {"owner": life["owner"], "created_ts_ms": created_ts_ms, "updated_ts_ms": life["updated_ts_ms"]}
            return cast("BacktestReport", found | dated)
        run_id, status = self._run(backtest_id)
        state = self.jobs.state(run_id)
        if status == RunStatus.FAILED:
            raise UnknownBacktestError(f"backtest {backtest_id} has no report, it failed: {state['cause']}; ask for it again")
        return state

    def _stored_report(self, backtest_id: str) -> BacktestReport | None:
        """Return the report; for a run made without a request, the report is made from its sealed bytes."""
        with self.database.read() as connection:
            found = reports.report(connection, backtest_id)
            row = None if found is not None else runs.row(connection, run_id_of(backtest_id))
        if found is not None:
            return found
        if row is None or row["kind"] != _KIND or row["status"] != RunStatus.SEALED or row["sealed_ts_ms"] is None:
            return None
        made = report_of(self._sealed_run(row["run_id"], str(row["evidence_hash"]), str(row["pack_id"])))
        with self.database.write() as connection:
            keep_report(connection, made, row["sealed_ts_ms"])
        return made

    def _sealed_run(self, run_id: str, evidence_hash: str, pack_id: str) -> Run:
        run = self.runs.sealed_run(run_id)
        if sha256(run.events) != evidence_hash:
            raise UnknownRunError(f"run {run_id} is not stored as it was sealed: verify it")
        with self.database.read() as connection:
            receipts = runs.receipt_lines(connection, run_id)
        return reopen(open_catalogued(self.catalog, pack_id), run, receipts)

    def _run(self, backtest_id: str) -> tuple[str, str]:
        with self.database.read() as connection:
            row = runs.row(connection, run_id_of(backtest_id))
        if row is None or row["kind"] != "backtest" or not backtest_id.startswith("bt_"):
            raise UnknownBacktestError(f"unknown backtest {backtest_id!r}")
        require(row, row["run_id"])
        return row["run_id"], row["status"]

    def tear_sheet(self, backtest_id: str) -> str:
        """Return the tear sheet of a backtest as one page of HTML. Blocks.

        Raises
        ------
        UnknownRunError
            The stored run is damaged.
        UnknownPackError
            The pack, whose ticks the sheet reads, is no longer in the catalog.
        PackTamperedError
            The catalog has another pack under its name now.
        """
        report = self.report(backtest_id)
        named = report["run_id"], report["evidence_hash"], report["pack_id"]
        return self._sheets.get(named, lambda: tear_sheet_page(self._sealed_run(*named)))

    def executable(
        self, run_id: str, agent_id: str | None, *, stake: float, delay_s: float, commission: str, max_age_s: float
    ) -> ExecutableResponse:  # fmt: skip
        """Return what the decisions of one agent of a sealed run would have paid by taking offers. Blocks.

        Raises
        ------
        StatisticsError
            A value is out of its range, or the venue is unknown.
        UnknownAgentError
            The run does not have the agent, or it has several and none is named.
        UnknownRunError, UnknownPackError, PackTamperedError
            As for ``tear_sheet``.
        """
        commission_of(commission)  # refused before anything is read
        with self.database.read() as connection:
            row = require(runs.row(connection, run_id), run_id)
        if row["status"] != RunStatus.SEALED:
            raise UnknownRunError(f"run {run_id!r} is not sealed")
        performed = self._sealed_run(run_id, str(row["evidence_hash"]), str(row["pack_id"]))
        own = part_of(performed, agent_id)
        found = Executable(own, stake, delay_s, commission, max_age_s)
        return cast("ExecutableResponse", {"run_id": run_id, "agent_id": own.agent_id, **found.facts()})

    def page(self, cursor: str | None = None, limit: int = 50) -> BacktestListResponse:
        with self.database.read() as connection:
            found, next_cursor = page_of(connection, report_table, StoredReport, "backtest_id", cursor, limit)
            lives = runs.by_id(connection, runs.RunLife, [row["run_id"] for row in found])
        listed = [pick(BacktestSummary, {**lives[row["run_id"]], **row}) for row in found]
        return {"backtests": listed, "next_cursor": next_cursor}


def _key_conflict(key: str | None) -> IdempotencyConflictError:
    return IdempotencyConflictError("fingerprint", f"idempotency key {key!r:.80} belongs to another backtest: use a new key")
