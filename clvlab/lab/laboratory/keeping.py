"""The verbs of a laboratory that need one which keeps: agents that are deployed, and searches that are planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clvlab.application.folds import KICKOFF
from clvlab.application.points.grid import grid_of
from clvlab.application.sheets.measures import measure_of
from clvlab.engine.agent import Agent
from clvlab.lab.laboratory.asked import HoldOut, entry, question
from clvlab.lab.laboratory.making import Verbs
from clvlab.lab.results.pack import Pack
from clvlab.lab.results.planning import SearchPlan
from clvlab.lab.results.result import Result
from clvlab.law.closing import Window
from clvlab.naming import names_checked


class Keeping(Verbs):
    """What can be done where runs and their log are kept."""

    @names_checked
    def deploy(
        self,
        pack: Pack | str,
        agent: str,
        *,
        fixture: int,
        params: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Result:
        """Deploy a template at a service: pinned as an instance of the caller, and run; returns when the run is sealed.

        Parameters
        ----------
        pack, agent, params
            As for ``backtest``; the agent is a template.
        fixture
            What is replayed.
        **settings
            Further fields of DeployConfig, such as ``max_orders``, ``sizing`` or ``agent_id``.

        Raises
        ------
        UnsupportedError
            Not at a service, or an agent of one's own.
        ArgumentError
            DeployConfig has no such field, or it follows from the other arguments.
        RunFailedError
            The run failed; it says why.
        ApiError
            The service refused: ``problem["checks"]`` names every failing check.

        Examples
        --------
        >>> import clvlab as cl
        >>> cl.Lab().deploy("starter", "baseline", fixture=90000000)
        Traceback (most recent call last):
        clvlab.errors.UnsupportedError: this laboratory deploys nothing: .backtest() replays the same agent
        """
        return self._place.deploy(question(pack, [fixture]), entry(agent, params), settings)

    @names_checked
    def plan(
        self,
        pack: Pack | str | Path,
        agent: str | Agent,
        grid: Mapping[str, Sequence[Any]],
        *,
        hold_out: float | Sequence[int] = 0.3,
        by: str = KICKOFF,
        folds: int = 5,
        objective: str = "clv",
        seed: int = 0,
        fixtures: Sequence[int] | None = None,
        window: Window | None = None,
    ) -> SearchPlan:
        """Plan a search, and shut what it holds out, before anything is searched.

        Grid, agent, objective, folds and the content of the hold-out are hashed into the laboratory's log. Until
        ``plan.open()`` no call here reads the fixtures that are held out, in whatever pack they come; a service over the same
        database does. The same plan again is the one that is there.

        Parameters
        ----------
        pack, agent, fixtures, window
            As for ``backtest``.
        grid
            Values of each parameter.
        hold_out
            Share of the fixtures, or the fixtures.
        by
            Which: ``kickoff``, the last ones; or ``random``.
        seed
            Of ``random``.
        folds
            Of ``plan.walk_forward()``.
        objective
            The measure by which points are chosen: ``clv``, ``edge`` or ``price_ratio``.

        Raises
        ------
        StatisticsError
            A grid, hold-out, number of folds, seed or measure that can't be; or a fixture that is held out has the ticks of
            one that would be searched.
        HeldOutError
            Another plan holds some of the fixtures out.
        UnknownPackError, UnknownFixtureError, UnknownAgentError, AgentError
            As for ``backtest``; a note names the point of the grid.
        UnsupportedError
            At a service, or outside a laboratory.

        Examples
        --------
        >>> import clvlab as cl
        >>> lab = cl.Lab()
        >>> plan = lab.plan("season", "cumulative-drift", {"warmup_ticks": [20, 40]}, hold_out=0.2)
        >>> len(plan.training), len(plan.held_out), plan.sweep(progress=False).trials
        (240, 60, 2)
        >>> result = plan.open()
        >>> result.report["n_fixtures"], plan.open().run_id == result.run_id
        (60, True)
        """
        asked, values = question(pack, fixtures, window), grid_of(grid)
        measure_of(objective)
        return self._place.plan(asked, entry(agent), values, HoldOut(hold_out, by, folds, objective, seed))
