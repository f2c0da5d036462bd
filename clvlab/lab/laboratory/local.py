"""Packs and runs on this machine: in memory, in a SQLite file with folders, or not stored."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import polars as pl

from clvlab.arena import packs
from clvlab.base.files import StagingPath, file_bytes_or_none, replace_file
from clvlab.base.progress import each
from clvlab.engine.agent import Agent
from clvlab.errors import PackError, PackFormatError, UnsupportedError
from clvlab.lab.laboratory.requests import AgentSpec, CaptureRequest, Folds, HoldOut, RunRequest
from clvlab.lab.results.pack import Pack
from clvlab.lab.results.result import Result
from clvlab.lab.results.run import VerificationResult, verification_of
from clvlab.packs import reader
from clvlab.packs.catalog import Catalog
from clvlab.packs.manifest import TICKS_FILE, pack_id_of
from clvlab.packs.rows import RESULTS
from clvlab.packs.views.view_file import finder, made_again, read_view, view_file
from clvlab.report.bars import display_progress
from clvlab.runs.execute import NOWHERE, Recorder, execute, execute_all
from clvlab.runs.run import Run, content_hash_of
from clvlab.runs.spec import ReplaySpec
from clvlab.runs.verdicts import VerdictRecord, VerdictRecords, digest_of, failed_checks
from clvlab.runs.versions import judge
from clvlab.store.folder import run_files
from clvlab.words import counted

if TYPE_CHECKING:  # imported where it is used, so that a first backtest waits for nothing else
    from clvlab.arena.run_store import KeptRuns  # needs the libraries of the store
    from clvlab.bets.record import BetsFormat
    from clvlab.lab.laboratory.lists import Listing
    from clvlab.lab.results.bets import GradedBets
    from clvlab.lab.results.plan import SearchPlan
    from clvlab.lab.results.sweep import GridWork, Trial
    from clvlab.lab.results.walk_forward import WalkForward
    from clvlab.runs.live.request import LiveRequest
    from clvlab.runs.live.view import LiveView
    from clvlab.runs.search.sums import KeptSums
    from clvlab.sources.capture.feed import Feed
    from clvlab.sql import Table  # loads a database


_VIEWS = ".views"  # folder of the view files of derived packs; no pack id begins with a dot


class LocalBackend:
    """Bundled and imported packs, and the store of runs if there is one."""

    def __init__(
        self,
        where: str = "this machine",
        kept: KeptRuns | None = None,
        imported: Catalog | None = None,
        live: Path | None = None,
        sums: KeptSums | None = None,
        verdicts: Path | None = None,
    ) -> None:
        self.where = where
        self._verdicts = VerdictRecords(verdicts)
        self._runs = kept
        self._live = live
        self._sums = sums
        self._catalogs = [*([imported] if imported else []), packs.bundled_catalog()]
        self._closed = False

    @property
    def _store(self) -> KeptRuns:
        if self._runs is None:
            raise UnsupportedError("no run is kept outside a laboratory: open one with clvlab.Lab(...)")
        return self._runs

    def close(self) -> None:
        self._store.close()
        self._closed = True

    def packs(self) -> Listing:
        from clvlab.lab.laboratory.lists import list_packs, pack_row

        return list_packs(map(pack_row, self._packs()), self.where)

    def _packs(self) -> Iterator[reader.Pack]:
        for catalog in self._catalogs:
            yield from map(self._without_held_out, catalog.packs())

    def pack(self, where: Pack | str | Path) -> Pack:
        """Open an imported or bundled pack, a folder, or a pack at a URL."""
        imported = self._catalogs[0]
        if isinstance(where, Pack):
            found = where.source
        elif isinstance(where, str) and where in imported.entries():
            found = imported.open(where)
        else:
            found = packs.open_pack(where)
        return Pack(found, self._without_held_out)

    def _without_held_out(self, pack: reader.Pack) -> reader.Pack:
        """Return a pack without the fixtures that plans hold out; unchanged once the laboratory is closed."""
        return pack if self._runs is None or self._closed else self._runs.searches.without_held_out(pack)

    def deploy(self, *_: Any) -> NoReturn:
        raise UnsupportedError(f"{self.where} deploys nothing: .backtest() replays the same agent")

    def import_odds(self, source: str | None, paths: Any, pack_id: str, options: Mapping[str, Any]) -> Pack:
        """Import into the laboratory's folder; the same files again give the same pack."""
        from clvlab.sources import importer

        imported, bundled = self._catalogs
        if pack_id in bundled.entries():
            raise PackFormatError(f"{pack_id!r} is a pack that comes with clvlab: give yours another name")
        if pack_id_of(Path(pack_id)) != pack_id:  # a path could lead out of the folder
            raise PackFormatError(f"{pack_id!r} can't be a pack id: give a plain name, as pack_id='mine'")
        imported.folder.mkdir(parents=True, exist_ok=True)
        with StagingPath(imported.folder) as scratch:
            made = scratch / pack_id
            chosen = importer.import_options(**options)
            with display_progress(f"Import of {pack_id}"):
                importer.import_from(source, paths, made, chosen)
                with self._store.alone():  # another process may be importing or admitting a pack of this name
                    _admit(imported, made, pack_id)
        return self.pack(pack_id)

    def capture(self, feed: str | Feed, out: Path, request: CaptureRequest) -> Pack:
        from clvlab.lab.laboratory.searches import capture_feed

        return capture_feed(self._open_feed(feed, request.fixtures), out, request)

    def backtest(self, request: RunRequest, agent: AgentSpec) -> Result:
        with display_progress(f"Backtest on {getattr(request.pack, 'pack_id', request.pack)}"):
            return Result.from_run(self._execute(self._spec(request, [agent])))

    def backtests(self, requests: Sequence[RunRequest], agent: AgentSpec, executor: Executor | None) -> tuple[Result, ...]:
        self._check_open()
        specs = (self._spec(request, [agent]) for request in requests)
        with display_progress(f"Backtest of {counted(len(requests), 'pack')}"):
            runs = each("backtesting packs", execute_all(specs, len(requests), self._recorder_of, executor), len(requests))
            return tuple(map(Result.from_run, runs))

    def grade_bets(self, request: RunRequest, bets: Any, how: BetsFormat, agent_id: str) -> GradedBets:
        from clvlab.bets.grades import plan_grading
        from clvlab.lab.results.bets import GradedBets

        self._check_open()
        with display_progress("Grading of bets"):
            grading = plan_grading(bets, self.pack(request.pack).source, how, request.window, agent_id)
            return GradedBets.from_grading(grading, self._execute(grading.spec))

    def compete(self, request: RunRequest, agents: Sequence[AgentSpec]) -> Result:
        with display_progress(f"Competition of {counted(len(agents), 'agent')}"):
            return Result.from_run(self._execute(self._spec(request, agents, "competition")))

    def _execute(self, spec: ReplaySpec) -> Run:
        return execute(spec, self._recorder_of(spec))

    def _recorder_of(self, spec: ReplaySpec) -> Recorder[ReplaySpec]:
        return NOWHERE if self._runs is None else self._runs.recorder_of(spec)

    def live(self, request: LiveRequest, agents: Sequence[AgentSpec], *, progress: Callable[[LiveView], None] | bool) -> Result:
        """Follow a fixture live, and admit the captured pack."""
        from clvlab.lab.laboratory.searches import follow_feed

        if self._live is None:
            raise UnsupportedError("no live run is kept outside a laboratory: open one with clvlab.Lab(...)")
        found = [agent.resolve(request.window) for agent in agents]
        feed = self._open_feed(request.feed, () if request.fixture is None else (request.fixture,))
        return Result.from_run(
            follow_feed(replace(request, feed=feed), found, self._store, self._live, self._stored_pack, progress=progress)
        )

    def _open_feed(self, feed: Feed | str | None, fixture_ids: Sequence[int]) -> Feed:
        """Return a feed; refuse to replay held-out fixtures, because their new digest would hide them."""
        from clvlab.runs.live.feed import feed_at
        from clvlab.sources.capture.replay import ReplayFeed

        made = feed_at(feed)
        if isinstance(made, ReplayFeed):
            self._without_held_out(made.pack).check_open(fixture_ids or made.pack.fixture_ids)
        return made

    def _stored_pack(self, captured: reader.Pack) -> reader.Pack:
        """Move a captured pack to the imported ones."""
        imported, made = self._catalogs[0], captured.folder
        imported.folder.mkdir(parents=True, exist_ok=True)
        with self._store.alone():
            _admit(imported, made, captured.pack_id)
        shutil.rmtree(made, ignore_errors=True)  # it remains if the pack was already there
        return imported.open(captured.pack_id)

    def _check_open(self) -> None:
        if self._closed:  # a sweep may outlive its laboratory, and still get a request to seal
            raise UnsupportedError("this laboratory was closed: open it again with clvlab.Lab(...)")

    def _spec(self, request: RunRequest, agents: Sequence[AgentSpec], kind: str = "backtest") -> ReplaySpec:
        self._check_open()
        found = [agent.resolve(request.window) for agent in agents]
        pack = self.pack(request.pack).source
        self._keep_view(pack)
        return ReplaySpec(
            agents=found,
            window=request.window,
            policy=request.policy,
            kind=kind,
            pack=pack,
            fixtures=request.fixtures,
            audit=request.audit,
        )

    @property
    def keeps(self) -> bool:
        """Whether the laboratory stores runs, in memory or in a file."""
        return self._runs is not None

    def sweep(
        self, request: RunRequest, agent: AgentSpec, grid: Mapping[str, Sequence[Any]], work: GridWork
    ) -> tuple[tuple[Trial, ...], int]:
        from clvlab.lab.results.sweep import sweep_grid

        pack = self.pack(request.pack)
        request = replace(request, pack=pack)

        recorded = self._record_trials(request, agent, grid)
        trials = sweep_grid(
            pack,
            agent.agent,
            grid,
            seal=_TrialSeal(self, request, agent.agent),
            kept=self._sums,
            fixture_ids=request.fixtures,
            window=request.window,
            executor=work.executor,
            progress=work.progress,
        )
        return trials, recorded

    def walk(
        self, request: RunRequest, agent: AgentSpec, grid: Mapping[str, Sequence[Any]], folds: Folds, work: GridWork
    ) -> WalkForward:
        from clvlab.lab.laboratory.searches import walk_grid

        pack = self.pack(request.pack)
        self._record_trials(replace(request, pack=pack), agent, grid)
        return walk_grid(pack.source, request, agent, grid, folds, work, self._sums)

    def _record_trials(self, request: RunRequest, agent: AgentSpec, grid: Mapping[str, Sequence[Any]]) -> int:
        """Record the points of a grid before the first trial, and return the number of other trials on record."""
        from clvlab.runs.search.search import at_point, grid_points

        if self._runs is None:
            return 0
        specs, pack = [], self.pack(request.pack).source
        for point in grid_points(grid):
            with at_point(point):
                made = replace(agent, params=point).resolve(request.window)
                specs.append(
                    ReplaySpec(
                        agents=[made], window=request.window, policy=request.policy, pack=pack, fixtures=request.fixtures
                    )
                )
        return self._runs.record_trials(specs)

    def plan(self, request: RunRequest, agent: AgentSpec, grid: Mapping[str, tuple[Any, ...]], hold: HoldOut) -> SearchPlan:
        from clvlab.lab.laboratory.searches import LabPacks, make_plan

        return make_plan(self, self._store, LabPacks(self.pack, self._packs), request, agent, grid, hold)

    def runs(self, limit: int | None = None) -> Listing:
        from clvlab.lab.laboratory.backend import pages
        from clvlab.lab.laboratory.lists import list_runs

        return list_runs(pages(self._store.runs.page, limit), self._store.runs.card, self._record, self.where)

    def _record(self, card: Mapping[str, Any]) -> VerdictRecord | None:
        """Return the reader's own record of a verification."""
        run_id = card["run"]["run_id"]
        return self._verdicts.get(run_id, lambda: self._digest(run_id))

    def _digest(self, run_id: str) -> str:
        return digest_of(run_files(self._store.runs.sealed_run(run_id), self._store.receipts(run_id)))

    def open_run(self, run_id: str) -> Result:
        from clvlab.proof.anchor import Anchor

        sealed, card = self._store.runs.sealed_run(run_id), self._store.runs.card(run_id)
        content_hash = str(content_hash_of(sealed))
        packs, anchor = chain(self._packs(), self._views(content_hash)), Anchor(**card["anchor"])
        return Result(Run(sealed, self._store.receipts(run_id), packs, anchor), self._view_file(content_hash))

    def _keep_view(self, pack: reader.Pack) -> None:
        """Store the view file of a derived pack, so that its runs can be read again."""
        content = view_file(pack)
        if content and self._runs is not None:
            path = self._view_path(pack.content_hash)
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, content)

    def _view_path(self, content_hash: str) -> Path:
        return self._catalogs[0].folder / _VIEWS / f"{content_hash.removeprefix('sha256:')}.json"

    def _view_file(self, content_hash: str) -> bytes:
        return file_bytes_or_none(self._view_path(content_hash)) or b""

    def _views(self, content_hash: str) -> Iterator[reader.Pack]:
        """Yield the derived pack of a content hash, if its view file and packs are here."""
        content = self._view_file(content_hash)
        if content:
            try:
                yield self._without_held_out(made_again(read_view(content, _VIEWS), finder(packs=self._packs())))
            except PackError:  # its packs are elsewhere, so it can't be opened
                return

    def verify(self, run_id: str) -> VerificationResult:
        found = verification_of(self._store.runs.verify(run_id))
        if found.source.evidence_hash:  # a run that is not sealed has no bytes
            self._verdicts.keep(run_id, self._digest(run_id), failed_checks(found.source.checks), judge(), passed=found.passed)
        return found

    def leaderboard(self) -> Listing:
        from clvlab.lab.laboratory.lists import list_standings

        return list_standings(self._store.leaderboard.rows()["rows"], self.where)

    def tables(self) -> dict[str, Callable[[], Table]]:
        from clvlab.lab.laboratory.backend import run_tables

        return (
            {"packs": lambda: self.packs().frame}
            | run_tables(self.runs, self.open_run)
            | {
                "fixtures": lambda: self._of_packs(lambda pack: pack.fixtures),
                "results": lambda: self._of_packs(lambda pack: pack.results),
                "ticks": self._ticks,
            }
        )

    def _ticks(self) -> Table:
        from clvlab.sql import PackTables

        found = list(self._packs())
        files = {pack.pack_id: pack.folder / TICKS_FILE for pack in found}
        return PackTables(files, {pack.pack_id: tuple(dict(pack.held_out)) for pack in found})

    def _of_packs(self, of: Callable[[reader.Pack], pl.DataFrame | None]) -> pl.DataFrame:
        found = [(pack.pack_id, frame) for pack in self._packs() if (frame := of(pack)) is not None]
        named = [frame.select(pl.lit(pack_id).alias("pack_id"), pl.all()) for pack_id, frame in found]
        return pl.concat(named or [pl.DataFrame(schema={"pack_id": pl.String, **RESULTS})])


@dataclass(frozen=True)
class _TrialSeal:
    """Backtests a point of a sweep in the laboratory of the sweep."""

    backend: LocalBackend | _Away
    request: RunRequest
    agent: str | Agent

    def __reduce__(self) -> tuple[type[_TrialSeal], tuple[LocalBackend | _Away, RunRequest, str | Agent]]:
        """Pickle for another process, without a backend that keeps runs."""
        is_kept = isinstance(self.backend, _Away) or self.backend.keeps
        return _TrialSeal, (_Away(self.backend.where) if is_kept else LocalBackend(), self.request, self.agent)

    def __call__(self, params: Mapping[str, Any]) -> Result:
        return self.backend.backtest(self.request, AgentSpec(self.agent, params))


@dataclass(frozen=True)
class _Away:
    """A laboratory that stayed in another process."""

    where: str

    def backtest(self, *_: Any) -> NoReturn:
        raise UnsupportedError(f"{self.where} stayed in another process: seal there, or .backtest() with the trial's params")


def _admit(catalog: Catalog, made: Path, pack_id: str) -> None:
    """Move an imported or captured pack into its catalog, unless it is already there."""
    target = catalog.folder / pack_id
    if target.exists():
        there, new = (reader.load_pack(folder).content_hash for folder in (target, made))
        if there != new:
            raise PackFormatError(f"pack {pack_id!r} is here as {there}, and this import gives {new}: name it otherwise")
    else:
        made.rename(target)
    catalog.admit(pack_id)


HERE = LocalBackend()
"""Backend of the verbs without a laboratory."""
