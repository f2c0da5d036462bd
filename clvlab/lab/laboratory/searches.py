"""Captures, live runs and searches on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from clvlab.agents.isolation.agent import code_name
from clvlab.engine.agent import Agent, Identity, sealable
from clvlab.errors import PackTamperedError, StatisticsError
from clvlab.lab.laboratory.backend import Backend
from clvlab.lab.laboratory.requests import AgentSpec, CaptureRequest, Folds, HoldOut, RunRequest
from clvlab.lab.progress import state_display
from clvlab.lab.results.pack import Pack as LabPack
from clvlab.lab.results.pack import Pack as StoredPack
from clvlab.lab.results.plan import PlanVerbs, SearchPlan
from clvlab.lab.results.result import Result
from clvlab.lab.results.sweep import GridWork, Sweep
from clvlab.lab.results.walk_forward import WalkForward, walk
from clvlab.packs.reader import Pack
from clvlab.proof.canonical import canonical, sha256
from clvlab.report.html import Html, render
from clvlab.runs.folds import check_folds, folds_of, hold_out_of
from clvlab.runs.live.request import LiveRequest
from clvlab.runs.run import Run
from clvlab.runs.search.search import at_point, grid_points
from clvlab.runs.search.sums import KeptSums
from clvlab.runs.spec import resolve

if TYPE_CHECKING:
    from clvlab.arena.run_store import KeptRuns
    from clvlab.arena.searches import KeptPlan
    from clvlab.runs.live.view import LiveView
    from clvlab.sources.capture.feed import Feed


# Capture of a feed.


def capture_feed(feed: str | Feed, out: Path, request: CaptureRequest) -> StoredPack:
    """Capture a feed into a pack; see ``Lab.capture``."""
    from clvlab.arena.log import operations
    from clvlab.runs.live.capture import capture, stopped_by_signals
    from clvlab.runs.live.feed import feed_at
    from clvlab.sources.capture.feed import Stop

    made, stop = feed_at(feed), Stop()
    log = nullcontext() if request.log is None else operations.open_log(request.log, create=True)
    with (
        log as opened,
        stopped_by_signals(stop),
        state_display(f"Capture of {made.name}", "made into a pack", progress=request.progress) as tell,
    ):
        return StoredPack(
            capture(
                made,
                out,
                stop,
                fixture_ids=request.fixtures,
                until_ts_ms=request.until_ts_ms,
                log=opened,
                ladders=request.ladders,
                on_state=tell,
            )
        )


# Live runs.


_NEWEST = 5
_COLUMNS = ("agent_id", "action", "side", "prob_bps", "odds_milli", "market_key", "tick_seq")


def follow_feed(
    request: LiveRequest,
    agents: Sequence[Agent],
    kept: KeptRuns,
    folder: Path,
    store_pack: Callable[[Pack], Pack],
    *,
    progress: Callable[[LiveView], None] | bool,
) -> Run:
    """Follow a fixture live until the run is sealed, and keep it; see ``Lab.live``."""
    whom = agents[0].identity.agent_id if len(agents) == 1 else f"{len(agents)} agents"
    with state_display(f"Live run of {whom}", "sealed", progress=progress, more=_newest) as look:
        return kept.live(request, agents, folder, look, store_pack)


def _newest(view: LiveView) -> Html:
    """Return the newest decisions as a table, the last one first."""
    newest = view.decisions(view.count - _NEWEST).select(*_COLUMNS).select(pl.all().reverse())
    return render("newest.html", rows=newest)


PLAN_SCHEMA = "clvlab-plan/1"


@dataclass(frozen=True)
class LabPacks:
    """Access to the packs of a laboratory, without held-out fixtures."""

    open: Callable[[LabPack | str | Path], LabPack]
    packs: Callable[[], Iterable[Pack]]


def walk_grid(
    pack: Pack,
    request: RunRequest,
    entry: AgentSpec,
    grid: Mapping[str, Sequence[Any]],
    settings: Folds,
    work: GridWork,
    kept: KeptSums | None,
) -> WalkForward:
    """Walk a grid forward over a pack."""
    folds = folds_of(pack, settings.folds, settings.by, request.fixtures)
    return walk(
        pack,
        entry.agent,
        grid,
        folds,
        by=settings.objective,
        window=request.window,
        level=settings.level,
        kept=kept,
        executor=work.executor,
        progress=work.progress,
    )


def make_plan(
    backend: Backend,
    runs: KeptRuns,
    shelf: LabPacks,
    request: RunRequest,
    entry: AgentSpec,
    grid: Mapping[str, tuple[Any, ...]],
    hold: HoldOut,
) -> SearchPlan:
    """Store a plan in a laboratory; the same plan again returns the stored one."""
    check_folds(hold.folds)
    pack = shelf.open(request.pack).source
    fixture_ids = pack.fixture_ids if request.fixtures is None else tuple(sorted(set(request.fixtures)))
    held = hold_out_of(pack, hold.hold_out, hold.by, hold.seed, fixture_ids)
    out = set(held)
    digests = {one.fixture_id: str(one.digest) for one in pack.manifest.fixtures if one.fixture_id in out}
    payload = {
        "schema": PLAN_SCHEMA,
        "pack_id": pack.pack_id,
        "content_hash": pack.content_hash,
        "fixture_ids": list(fixture_ids),
        "agent": _agent_of(entry, grid, request),
        "grid": {name: list(values) for name, values in grid.items()},
        "window": request.window.payload(),
        "objective": hold.objective,
        "folds": hold.folds,
        "hold_out": {
            "by": hold.by,
            "seed": hold.seed,
            "fixture_ids": list(held),
            "content_hash": sha256(canonical(sorted(digests.values()))),
        },
    }

    kept = runs.searches.plan(payload, pack, held, shelf.packs())

    def request_for(fixtures: Sequence[int]) -> RunRequest:
        """Return a request over fixtures of the planned pack; refuse a pack with another content hash."""
        found = shelf.open(request.pack)
        if found.content_hash != pack.content_hash:
            raise PackTamperedError(f"pack {pack.pack_id!r} of {kept.plan_id}", pack.content_hash, found.content_hash)
        return RunRequest(found, fixtures, request.window, request.policy, request.audit)

    training = tuple(one for one in fixture_ids if one not in digests)
    folds = Folds(hold.folds, "kickoff", hold.objective)
    verbs = PlanVerbs(
        kept=lambda: runs.searches.plan_state(kept.plan_id),
        sweep=lambda work: _sweep(backend, request_for(training), entry, grid, hold.objective, work),
        walk=lambda work: backend.walk(request_for(training), entry, grid, folds, work),
        open=partial(_open, backend, runs, kept, lambda: request_for(held), entry),
        trials=lambda: runs.searches.count_trials(kept.plan_id, pack, shelf.packs()),
    )
    return SearchPlan(grid, training, held, verbs)


def _agent_of(entry: AgentSpec, grid: Mapping[str, Sequence[Any]], request: RunRequest) -> dict[str, Any]:
    """Return the description of the agent that all points of a grid share."""
    for point in grid_points(grid):
        with at_point(point):
            agent = resolve(entry.agent, point, request.window)
            identity: Identity = agent.identity
    named = {
        "strategy": identity.strategy,
        "strategy_version": identity.strategy_version,
        "source_sha256": code_name(agent),
    }
    if named["source_sha256"] is None:  # a template: its version and window complete the description
        return named
    config = {name: value for name, value in sealable(identity).items() if name not in grid}
    return named | {"config": config, "reads": [list(one) for one in identity.reads]}


def _sweep(
    backend: Backend,
    request: RunRequest,
    entry: AgentSpec,
    grid: Mapping[str, tuple[Any, ...]],
    objective: str,
    work: GridWork,
) -> Sweep:
    trials, recorded = backend.sweep(request, entry, grid, work)
    return Sweep(trials, grid, recorded, objective)


def _open(
    backend: Backend,
    runs: KeptRuns,
    plan: KeptPlan,
    request_of: Callable[[], RunRequest],
    entry: AgentSpec,
    params: Mapping[str, Any],
    *,
    again: bool,
) -> Result:
    request = request_of()
    grid = {name: (value,) for name, value in params.items()}
    if _agent_of(entry, grid, request) != plan.payload["agent"]:
        raise StatisticsError(f"the agent is another one than {plan.plan_id} was made for: it changed since")
    runs.searches.open_(plan.plan_id, params, again=again)
    return backend.backtest(request, AgentSpec(entry.agent, params))
