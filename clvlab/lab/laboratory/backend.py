"""The interface of a laboratory's backend, and the tables for SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl

from clvlab.bets.record import BetsFormat
from clvlab.lab.laboratory.lists import Listing
from clvlab.lab.laboratory.requests import AgentSpec, CaptureRequest, Folds, HoldOut, RunRequest
from clvlab.lab.results.bets import GradedBets
from clvlab.lab.results.pack import Pack
from clvlab.lab.results.plan import SearchPlan
from clvlab.lab.results.result import Result
from clvlab.lab.results.run import VerificationResult
from clvlab.lab.results.sweep import GridWork, Trial
from clvlab.lab.results.walk_forward import WalkForward
from clvlab.law.schema import OUTCOMES, SCORES
from clvlab.proof.events import DECISION_EVENTS
from clvlab.proof.evidence import read_evidence
from clvlab.runs.live.request import LiveRequest
from clvlab.sources.capture.feed import Feed

if TYPE_CHECKING:
    from clvlab.runs.live.view import LiveView
    from clvlab.sql import Table  # loads a database

_PAGE = 200  # the largest page of a service


class Backend(Protocol):
    """The place where packs and runs are made and kept: this machine, or a service."""

    where: str

    def packs(self) -> Listing: ...
    def import_odds(self, source: str | None, paths: Any, pack_id: str, options: Mapping[str, Any]) -> Pack: ...
    def capture(self, feed: str | Feed, out: Path, request: CaptureRequest) -> Pack: ...
    def backtest(self, request: RunRequest, agent: AgentSpec) -> Result: ...

    def backtests(self, requests: Sequence[RunRequest], agent: AgentSpec, executor: Executor | None) -> tuple[Result, ...]:
        """Backtest an agent over several packs, in their order."""
        ...

    def grade_bets(self, request: RunRequest, bets: Any, how: BetsFormat, agent_id: str) -> GradedBets:
        """Grade bets that somebody placed."""
        ...

    def compete(self, request: RunRequest, agents: Sequence[AgentSpec]) -> Result: ...

    def live(self, request: LiveRequest, agents: Sequence[AgentSpec], *, progress: Callable[[LiveView], None] | bool) -> Result:
        """Follow a fixture live until it is sealed."""
        ...

    def deploy(self, request: RunRequest, agent: AgentSpec, settings: Mapping[str, Any]) -> Result:
        """Deploy an agent as an instance of the caller, and run it."""
        ...

    def sweep(
        self, request: RunRequest, agent: AgentSpec, grid: Mapping[str, Sequence[Any]], work: GridWork
    ) -> tuple[tuple[Trial, ...], int]:
        """Score a grid; return its trials, and the number of other trials on record over the pack."""
        ...

    def walk(
        self, request: RunRequest, agent: AgentSpec, grid: Mapping[str, Sequence[Any]], folds: Folds, work: GridWork
    ) -> WalkForward:
        """Walk a grid forward over folds of the fixtures."""
        ...

    def plan(self, request: RunRequest, agent: AgentSpec, grid: Mapping[str, tuple[Any, ...]], hold: HoldOut) -> SearchPlan:
        """Store a plan, and hold out its fixtures."""
        ...

    def runs(self, limit: int | None = None) -> Listing: ...
    def open_run(self, run_id: str) -> Result: ...
    def verify(self, run_id: str) -> VerificationResult: ...
    def leaderboard(self) -> Listing: ...
    def tables(self) -> Mapping[str, Callable[[], Table]]: ...
    def close(self) -> None: ...


def run_tables(runs: Callable[[], Listing], open_run: Callable[[str], Result]) -> dict[str, Callable[[], Table]]:
    """Return makers of the tables ``runs``, ``agents``, ``scores`` and ``decisions`` over all sealed runs."""

    def table_of(schema: Mapping[str, Any], of: Callable[[Result], pl.DataFrame]) -> Callable[[], Table]:
        def make() -> pl.DataFrame:
            sealed = runs().frame.filter(pl.col("status") == "sealed")["run_id"]
            named = [of(open_run(run_id)).insert_column(0, pl.lit(run_id).alias("run_id")) for run_id in sealed]
            return pl.concat([pl.DataFrame(schema={"run_id": pl.String, **schema}), *named])

        return make

    return {
        "runs": lambda: runs().frame,
        "agents": table_of(OUTCOMES, lambda one: pl.concat([own.outcomes for own in one.parts])),
        "scores": table_of(SCORES, lambda one: _score_rows(one.run.source.scores)),
        "decisions": table_of(DECISION_EVENTS, lambda one: read_evidence(one.run.source.events).decisions),
    }


def _score_rows(lines: bytes) -> pl.DataFrame:
    return pl.read_ndjson(BytesIO(lines), schema=SCORES) if lines else pl.DataFrame(schema=SCORES)


def pages(page: Callable[..., Mapping[str, Any]], limit: int | None) -> list[dict[str, Any]]:
    """Read a list of runs page by page, newest first."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while limit is None or len(found) < limit:
        some = page(cursor, _PAGE)
        found += some["runs"]
        cursor = some["next_cursor"]
        if cursor is None:
            break
    return found[:limit]
