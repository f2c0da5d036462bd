"""What a laboratory has: packs, runs, standings, and SQL over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from clvlab.base.naming import names_checked
from clvlab.drawing.showing import check_settings
from clvlab.engine.agent import Agent
from clvlab.errors import PageError, QueryError, UnknownRunError, UnsupportedError
from clvlab.lab.laboratory.listing import Listing
from clvlab.lab.laboratory.place import Backend
from clvlab.lab.laboratory.requests import Folds, agent_spec, run_request
from clvlab.lab.progress import Progress
from clvlab.lab.results.grid import GridWork
from clvlab.lab.results.pack import Pack
from clvlab.lab.results.result import Result
from clvlab.lab.results.run import Run, VerificationResult
from clvlab.lab.results.sweeping import Sweep, check_draws
from clvlab.lab.results.walking import WalkForward
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.runs.search.search import check_trials, grid_of
from clvlab.statistics.measures import measure_of


class Records:
    """Packs, runs and standings of a place, and the verbs that search a grid of parameters there."""

    def __init__(self, place: Backend) -> None:
        self._open: Backend | None = place

    @property
    def _place(self) -> Backend:
        if self._open is None:
            raise UnsupportedError("this laboratory was closed: open it again with clvlab.Lab(...)")
        return self._open

    def __reduce__(self) -> NoReturn:
        raise UnsupportedError("a laboratory stays in its process: open it there with clvlab.Lab(...), and send its results")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @names_checked
    def close(self) -> None:
        """Release the file or the connections; what was in memory is gone.

        Examples
        --------
        >>> import clvlab as cl
        >>> with cl.Lab() as lab:
        ...     lab.runs().frame.height
        0
        """
        if self._open is not None:
            self._open.close()
        self._open = None

    def __repr__(self) -> str:
        if self._open is None:
            return "<Lab: closed; next: clvlab.Lab(...)>"
        return f"<Lab: {self._place.where}; next: .packs(), .backtest(pack, agent), .runs(), .leaderboard()>"

    @names_checked
    def packs(self) -> Listing:
        """List the packs that can be named here: imported ones and those that come with clvlab, or those of the service.

        Examples
        --------
        >>> import clvlab as cl
        >>> cl.Lab().packs().frame.select("pack_id", "fixtures").rows()
        [('season', 300), ('starter', 12)]
        """
        return self._place.packs()

    @names_checked
    def runs(self, limit: int | None = 50) -> Listing:
        """List runs, newest first: at most ``limit`` of them, or all.

        Raises
        ------
        PageError
            A limit that is no number of runs.

        Examples
        --------
        >>> import clvlab as cl
        >>> lab = cl.Lab()
        >>> _ = lab.backtest("starter")
        >>> lab.runs().frame.select("kind", "status", "agents").rows()
        [('backtest', 'sealed', 'baseline')]
        """
        if limit is not None and (type(limit) is not int or limit < 0):
            raise PageError(f"a limit is a number of runs, or None for all, not {limit!r:.80}")
        return self._place.runs(limit)

    @names_checked
    def open_run(self, run_id: str) -> Result:
        """Read a sealed run: its bytes, and all that they say.

        Raises
        ------
        UnknownRunError
            Unknown, or not sealed.

        Examples
        --------
        >>> import clvlab as cl
        >>> lab = cl.Lab()
        >>> run_id = lab.backtest("starter", "cumulative-drift").run.run_id
        >>> lab.open_run(run_id).tear_sheet(resamples=100, draws=10).clv.n
        128
        """
        if not isinstance(run_id, str):
            raise UnknownRunError(f"a run is named by its id, not {run_id!r:.80}")
        return self._place.open_run(run_id)

    @names_checked
    def verify(self, run: str | Result | Run) -> VerificationResult:
        """Have the proof of a kept run recomputed from the stored bytes, here or by the service.

        A service also asks the chain about an anchor; to trust nobody, ``open_run(run_id).verify()`` recomputes here.

        Raises
        ------
        UnknownRunError

        Examples
        --------
        >>> import clvlab as cl
        >>> lab = cl.Lab()
        >>> lab.verify(lab.backtest("starter")).verified
        True
        """
        if isinstance(run, Run):
            run = run.run_id
        if not isinstance(run, str | Result):
            raise UnknownRunError(f"a run is named by its id, or is one of this laboratory, not {run!r:.80}")
        return self._place.verify(run if isinstance(run, str) else run.run.run_id)

    @names_checked
    def leaderboard(self) -> Listing:
        """Rank agents by mean CLV, in bps of probability, pooled over all their runs here.

        Those that can't hold the past come first, whatever their rank: see ``hindsight_possible``.

        Examples
        --------
        >>> import clvlab as cl
        >>> lab = cl.Lab()
        >>> _ = lab.compete("starter", ["baseline", "cumulative-drift"])
        >>> lab.leaderboard().frame.select("rank", "agent_id").rows()
        [(1, 'baseline'), (2, 'cumulative-drift')]
        """
        return self._place.leaderboard()

    @names_checked
    def sql(self, statement: str) -> Listing:
        """Answer a SQL statement, in DuckDB's dialect, over what is here.

        The tables are ``runs``; ``agents``, ``scores`` and ``decisions`` of all sealed runs, each with its ``run_id``, columns
        and units as in the documentation of the law; ``packs``; and, but at a service, ``fixtures``, ``ticks`` and
        ``results``, each with its ``pack_id``. Files and networks are out of reach.

        Raises
        ------
        QueryError
            Anything but one SELECT, or one that can't be answered.

        Examples
        --------
        >>> import clvlab as cl
        >>> lab = cl.Lab()
        >>> _ = lab.backtest("starter", "cumulative-drift")
        >>> lab.sql("select reason, count(*) as n from scores group by reason order by n desc").frame.rows()
        [('scored', 129), ('closing_suspended', 6), ('pending_horizon', 1)]
        """
        if not isinstance(statement, str):
            raise QueryError(f"a SQL statement is a text, not {statement!r:.80}")
        from clvlab.sql import query  # loads a database

        return Listing(f"Answer of {self._place.where}", query(statement, self._place.tables()), ".frame")

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
        asked, values = run_request(pack, fixtures, window, policy), grid_of(grid)
        check_draws(level, seed, resamples)
        measure_of(by)
        check_trials(earlier_trials)
        trials, recorded = self._place.sweep(asked, agent_spec(agent), values, GridWork(executor, progress))
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
        asked, values = run_request(pack, fixtures, window), grid_of(grid)
        check_settings(level)
        measure_of(objective)
        return self._place.walk(
            asked, agent_spec(agent), values, Folds(folds, by, objective, level), GridWork(executor, progress)
        )
