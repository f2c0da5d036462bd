"""A laboratory on this machine: in memory, or a SQLite file with a folder of packs beside it."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import polars as pl

from clvlab.application import backtests, importing, packs
from clvlab.application.laboratory import Laboratory, trial_ids
from clvlab.application.runs.perform import PerformedRun
from clvlab.application.runs.plan import Plan
from clvlab.engine.agent import Agent
from clvlab.errors import PackFormatError, UnsupportedError
from clvlab.lab.drawing.progress import Progress
from clvlab.lab.laboratory.listing import Listing, pack_row, packs_listed, runs_listed, standings_listed
from clvlab.lab.laboratory.place import Asked, Entry, pages, run_tables
from clvlab.lab.results.outcome import Outcome, verification_of
from clvlab.lab.results.report import Backtest
from clvlab.lab.results.run import Pack, Run, VerificationResult
from clvlab.lab.results.sweeping import Trial, sweep_grid
from clvlab.packs import reader
from clvlab.packs.catalog import Catalog
from clvlab.packs.manifest import TICKS_FILE, pack_id_of
from clvlab.packs.results import RESULTS
from clvlab.proof.anchor import Anchor
from clvlab.sql import PackFiles, Table

__all__ = ["LocalBench"]


class LocalBench:
    """Runs are kept in a database, imported packs in a folder with an allowlist of its own, beside the bundled ones.

    Parameters
    ----------
    path
        SQLite file; packs are in the folder of its name that ends in ``.packs``. None is in memory, and gone at the end.
    """

    def __init__(self, path: Path | None) -> None:
        self.where = "this laboratory" if path is None else path.name
        self._open: Laboratory | None = Laboratory(None if path is None else f"sqlite:///{quote(str(path))}")
        if path is None:
            folder = Path(tempfile.mkdtemp(prefix="clvlab-"))
            atexit.register(shutil.rmtree, folder, ignore_errors=True)  # a pack may outlive the laboratory
        else:
            folder = path.with_name(f"{path.stem}.packs")
        self._own, self._bundled = Catalog(folder), packs.bundled_catalog()

    def here(self, otherwise: str) -> Self:  # noqa: ARG002
        return self

    @property
    def _laboratory(self) -> Laboratory:
        if self._open is None:  # a sweep may outlive the laboratory, and be asked to seal
            raise UnsupportedError("this laboratory was closed: open it again with clvlab.Lab(...)")
        return self._open

    def close(self) -> None:
        self._laboratory.close()
        self._open = None

    def packs(self) -> Listing:
        return packs_listed(map(pack_row, self._packs()), self.where)

    def _packs(self) -> Iterator[reader.Pack]:
        yield from self._own.packs()
        yield from self._bundled.packs()

    def pack(self, where: Pack | str | Path) -> Pack:
        """Open a pack: one of this laboratory, of the bundled ones, or a folder."""
        if isinstance(where, Pack):
            return where
        if isinstance(where, str) and where in self._own.entries():
            return Pack(self._own.open(where))
        return Pack(packs.open_pack(where))

    def import_odds(self, source: str, paths: Sequence[Path], pack_id: str, options: Mapping[str, Any]) -> Pack:
        """Import into the laboratory's folder; the same files again give the pack that is there."""
        if pack_id in self._bundled.entries():
            raise PackFormatError(f"{pack_id!r} is a pack that comes with clvlab: give yours another name")
        if pack_id_of(Path(pack_id)) != pack_id:  # a path would lead out of the folder
            raise PackFormatError(f"{pack_id!r} can't be a pack id: give a plain name, as pack_id='mine'")
        self._own.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=self._own.folder) as scratch:
            made = Path(scratch) / pack_id
            importing.import_source(source, paths, made, importing.import_options(**options))
            with self._laboratory.alone():  # another process may import a pack of this name, or admit one, right now
                self._placed(made, pack_id)
        return self.pack(pack_id)

    def _placed(self, made: Path, pack_id: str) -> None:
        target = self._own.folder / pack_id
        if target.exists():
            there, new = (reader.load_pack(folder).content_hash for folder in (target, made))
            if there != new:
                raise PackFormatError(f"pack {pack_id!r} is here as {there}, and this import gives {new}: name it otherwise")
        else:
            made.rename(target)
        self._own.admit(pack_id)

    def backtest(self, asked: Asked, entry: Entry) -> Backtest:
        return Backtest(self._performed(asked, [entry]))

    def compete(self, asked: Asked, entries: Sequence[Entry]) -> Outcome:
        done = self._performed(asked, entries, kind="competition")
        return Outcome(Run(done.run, done.receipts), [done.pack])

    def _performed(self, asked: Asked, entries: Sequence[Entry], kind: str = "backtest") -> PerformedRun:
        agents = [_named(entry, asked) for entry in entries]
        plan = Plan(
            self.pack(asked.pack).source, agents, asked.window, asked.policy, asked.fixtures, kind=kind, audit=asked.audit
        )
        return self._laboratory.perform(plan)

    def sweep(
        self, asked: Asked, agent: str | Agent, grid: Mapping[str, Sequence[Any]], *, progress: Progress | bool
    ) -> tuple[tuple[Trial, ...], int]:
        """Score a grid; gives its trials, and how many others are on record over the pack. They are recorded themselves."""
        pack = self.pack(asked.pack).source

        def seal(params: Mapping[str, Any]) -> Backtest:
            return self.backtest(replace(asked, pack=Pack(pack)), Entry(agent, params))

        trials = sweep_grid(pack, agent, grid, seal=seal, fixture_ids=asked.fixtures, window=asked.window, progress=progress)
        agents = [backtests.resolved(agent, one.params, asked.window) for one in trials]
        ids = [own for one in agents for own in trial_ids(Plan(pack, [one], asked.window, fixtures=asked.fixtures))]
        earlier = self._laboratory.trials(pack.content_hash, apart_from=ids)
        self._laboratory.record_trials(pack.content_hash, ids)
        return trials, earlier

    def runs(self, limit: int | None = None) -> Listing:
        return runs_listed(pages(self._laboratory.runs.page, limit), self._laboratory.runs.card, self.where)

    def open_run(self, run_id: str) -> Outcome:
        sealed, card = self._laboratory.runs.sealed(run_id), self._laboratory.runs.card(run_id)
        run_here = Run(sealed, self._laboratory.receipts(run_id), Anchor(**card["anchor"]))
        return Outcome(run_here, self._packs())

    def verify(self, run_id: str) -> VerificationResult:
        return verification_of(self._laboratory.runs.verify(run_id))

    def leaderboard(self) -> Listing:
        return standings_listed(self._laboratory.leaderboard.rows()["rows"], self.where)

    def tables(self) -> dict[str, Callable[[], Table]]:
        return (
            {"packs": lambda: self.packs().frame}
            | run_tables(self.runs, self.open_run)
            | {
                "fixtures": lambda: self._of_packs(lambda pack: pack.fixtures),
                "results": lambda: self._of_packs(lambda pack: pack.results),
                "ticks": lambda: PackFiles({pack.pack_id: pack.folder / TICKS_FILE for pack in self._packs()}),
            }
        )

    def _of_packs(self, of: Callable[[reader.Pack], pl.DataFrame | None]) -> pl.DataFrame:
        found = [(pack.pack_id, frame) for pack in self._packs() if (frame := of(pack)) is not None]
        named = [frame.select(pl.lit(pack_id).alias("pack_id"), pl.all()) for pack_id, frame in found]
        return pl.concat(named or [pl.DataFrame(schema={"pack_id": pl.String, **RESULTS})])


def _named(entry: Entry, asked: Asked) -> Agent:
    """Find the agent of an entry, under the entry's name if it has one."""
    agent = backtests.resolved(entry.agent, entry.params, asked.window)
    if entry.agent_id is None or entry.agent_id == agent.identity.agent_id:
        return agent
    return backtests.renamed(agent, entry.agent_id)
