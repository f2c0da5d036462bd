"""The verbs that search a grid of parameters: the same whether runs are kept or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from clvlab.application.points.grid import check_trials, grid_of
from clvlab.application.sheets.measures import measure_of
from clvlab.drawing.showing import check_settings
from clvlab.engine.agent import Agent
from clvlab.lab.drawing.progress import Progress
from clvlab.lab.laboratory.asked import Folds, entry, question
from clvlab.lab.laboratory.records import Records
from clvlab.lab.results.grid import Work
from clvlab.lab.results.pack import Pack
from clvlab.lab.results.sweeping import Sweep, check_draws
from clvlab.lab.results.walking import WalkForward
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.naming import names_checked


class Searching(Records):
    """What is done with one agent at many points."""

    @names_checked
    def sweep(
        self,
        pack: Pack | str | Path,
        agent: str | Agent,
        grid: Mapping[str, Sequence[Any]],
        *,
        fixtures: Sequence[int] | None = None,
        window: Window | None = None,
        policy: PolicyEnvelope | None = None,
        executor: Executor | None = None,
        progress: Progress | bool = True,
        earlier_trials: int = 0,
        by: str = "clv",
        level: float = 0.95,
        resamples: int = 5_000,
        seed: int = 0,
    ) -> Sweep:
        """Score an agent at every point of a grid of parameters, and say what is left of the best when all trials count.

        Nothing is sealed until ``.best().seal()``. A laboratory has on record all points of all its sweeps and all its runs
        over the same pack, each once: they deflate the best of this sweep as well.

        Parameters
        ----------
        pack, fixtures, window, policy
            As for ``backtest``.
        agent
            As for ``backtest``.
        grid
            Values of each parameter.
        executor
            Any ``concurrent.futures.Executor`` whose processes can import clvlab and read the pack's folder, that of a Dask
            cluster for instance (``Client.get_executor()``). By default this process, and all cores of this machine once a few
            seconds of work are left. What comes out is the same.
        progress
            Whether a bar is shown, in a notebook or a terminal; or what is called after each point with how many are done and
            how many there are.
        earlier_trials
            Trials that were made elsewhere before this sweep: they deflate its best.
        by
            What the points are judged by: ``clv``, the law's measure; ``edge``, the value of the price taken at the closing
            probability; or ``price_ratio``.
        level
            Of the intervals.
        resamples, seed
            Of the highest that chance gives over all points; 1,000 resamples or more.

        Raises
        ------
        StatisticsError
            A grid without a parameter or a value, with a value twice, or with a parameter named as a column of the frame; a
            negative number of earlier trials; no such measure; too few resamples.
        UnknownPackError, UnknownFixtureError, UnknownAgentError, AgentError, DecisionError
            As for ``backtest``; a note names the point of the grid.
        UnsupportedError
            At a service.

        Examples
        --------
        >>> import clvlab as cl
        >>> found = cl.sweep("starter", "cumulative-drift", {"warmup_ticks": [10, 20], "cooldown_s": [0, 600]})
        >>> found.trials, found.best().seal().run.verify().passed
        (4, True)
        >>> lab = cl.Lab()
        >>> lab.sweep("starter", "cumulative-drift", {"warmup_ticks": [10, 20]}).trials
        2
        >>> lab.sweep("starter", "cumulative-drift", {"warmup_ticks": [20, 40, 80]}).trials
        4
        """
        asked, values = question(pack, fixtures, window, policy), grid_of(grid)
        check_draws(level, seed, resamples)
        measure_of(by)
        check_trials(earlier_trials)
        trials, recorded = self._place.sweep(asked, entry(agent), values, Work(executor, progress))
        return Sweep(trials, values, earlier_trials + recorded, by, level, resamples, seed)

    @names_checked
    def walk_forward(
        self,
        pack: Pack | str | Path,
        agent: str | Agent,
        grid: Mapping[str, Sequence[Any]],
        *,
        folds: int = 5,
        by: str | Mapping[int, object] = "kickoff",
        objective: str = "clv",
        fixtures: Sequence[int] | None = None,
        window: Window | None = None,
        level: float = 0.95,
        executor: Executor | None = None,
        progress: Progress | bool = True,
    ) -> WalkForward:
        """Choose the best point of a grid on the folds so far, let it decide on the next one, and go on.

        Parameters
        ----------
        pack, agent, fixtures, window
            As for ``backtest``.
        grid
            Values of each parameter.
        folds
            Of as many fixtures each as can be; the first one only trains.
        by
            ``kickoff``, or a mapping from fixture to the name of its fold, in whose order they follow each other.
        objective
            The measure by which points are chosen: ``clv``, ``edge`` or ``price_ratio``.
        level
            Of the intervals.
        executor, progress
            As for ``sweep``.

        Raises
        ------
        StatisticsError
            A grid or folds that can't be; no point with an interval in training; or no such measure.
        UnknownPackError, UnknownFixtureError, UnknownAgentError, AgentError, DecisionError
            As for ``sweep``.
        UnsupportedError
            At a service.

        Examples
        --------
        >>> import clvlab as cl
        >>> found = cl.walk_forward("season", "cumulative-drift", {"warmup_ticks": [20, 40]}, folds=3, progress=False)
        >>> found.frame["fold"].to_list(), found.frame["n"].sum() == found.sheet.with_at_close.n - found.sheet.left_out
        ([1, 2], True)
        """
        asked, values = question(pack, fixtures, window), grid_of(grid)
        check_settings(level)
        measure_of(objective)
        return self._place.walk(asked, entry(agent), values, Folds(folds, by, objective, level), Work(executor, progress))
