"""The functions over packs, agents and runs, in a laboratory or without one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from clvlab.base.names import names_checked
from clvlab.base.progress import report
from clvlab.engine.agent import Agent
from clvlab.errors import PageError, QueryError, StatisticsError, UnknownRunError, UnsupportedError
from clvlab.lab.laboratory.requests import Folds, agent_in_steps, agent_spec, agent_specs, run_request, several
from clvlab.lab.results.pack import Pack
from clvlab.lab.results.result import Result
from clvlab.lab.results.run import Run, VerificationResult
from clvlab.lab.validation import value_text
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.report.bars import display_progress

if TYPE_CHECKING:  # imported where it is used, so that a first backtest waits for nothing else
    from clvlab.lab.laboratory.backend import Backend
    from clvlab.lab.laboratory.lists import Listing
    from clvlab.lab.progress import Progress
    from clvlab.lab.results.bets import GradedBets
    from clvlab.lab.results.sweep import Sweep
    from clvlab.lab.results.walk_forward import WalkForward
    from clvlab.report.comparison import Comparison
    from clvlab.sources.tables.files import Frame


class Verbs:
    """Runs, comparisons, searches and lists of a backend."""

    def __init__(self, backend: Backend) -> None:
        self._open: Backend | None = backend

    @property
    def _backend(self) -> Backend:
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
        """Release the file or the connections; a laboratory in memory loses its contents.

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
        return f"<Lab: {self._backend.where}; next: .packs(), .backtest(pack, agent), .runs(), .leaderboard()>"

    @names_checked
    def packs(self) -> Listing:
        """List the imported and bundled packs, or the packs of the service.

        Examples
        --------
        >>> import clvlab as cl
        >>> cl.Lab().packs().frame.select("pack_id", "fixtures").rows()
        [('season', 300), ('starter', 12)]
        """
        return self._backend.packs()

    @names_checked
    def runs(self, limit: int | None = 50) -> Listing:
        """List runs, newest first: at most ``limit`` of them, or all if it is ``None``.

        Raises
        ------
        PageError
            The limit is not a number of runs.

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
        return self._backend.runs(limit)

    @names_checked
    def open_run(self, run_id: str) -> Result:
        """Read a sealed run.

        Raises
        ------
        UnknownRunError
            No sealed run has this id.

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
        return self._backend.open_run(run_id)

    @names_checked
    def verify(self, run: str | Result | Run) -> VerificationResult:
        """Recompute the proof of a kept run from the stored bytes, on this machine or at the service.

        A service also looks up the anchor on its chain. ``open_run(run_id).verify()`` always recomputes on this machine.

        Raises
        ------
        UnknownRunError
            No sealed run has this id.

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
        run_id = run if isinstance(run, str) else run.run.run_id
        with display_progress(f"Verification of {run_id}"):
            report("recomputing the proof")
            return self._backend.verify(run_id)

    @names_checked
    def leaderboard(self) -> Listing:
        """Rank agents by mean CLV, in bps of probability, pooled over all their runs.

        Agents that can't know past prices come first, whatever their rank: see ``hindsight_possible``.

        Examples
        --------
        >>> import clvlab as cl
        >>> lab = cl.Lab()
        >>> _ = lab.compete("starter", ["baseline", "cumulative-drift"])
        >>> lab.leaderboard().frame.select("rank", "agent_id").rows()
        [(1, 'baseline'), (2, 'cumulative-drift')]
        """
        return self._backend.leaderboard()

    @names_checked
    def sql(self, statement: str) -> Listing:
        """Answer a SQL statement in DuckDB's dialect.

        The tables ``runs`` and ``packs`` list runs and packs. ``agents``, ``scores`` and ``decisions`` have the columns and
        units of the law, for all sealed runs, with ``run_id``. Except at a service there are also ``fixtures``, ``ticks`` and
        ``results``, with ``pack_id``. A statement can't reach files or networks.

        Raises
        ------
        QueryError
            The statement is not one SELECT, or fails.

        Examples
        --------
        >>> import clvlab as cl
        >>> lab = cl.Lab()
        >>> _ = lab.backtest("starter", "cumulative-drift")
        >>> lab.sql("select reason, count(*) as n from scores group by reason order by n desc").frame.rows()
        [('scored', 129), ('closing_suspended', 6), ('pending_horizon', 1)]
        """
        from clvlab.lab.laboratory.lists import Listing

        if not isinstance(statement, str):
            raise QueryError(f"a SQL statement is a text, not {statement!r:.80}")
        from clvlab.sql import query  # loads a database

        return Listing(f"Answer of {self._backend.where}", query(statement, self._backend.tables()), ".frame")

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
        """Score an agent at every point of a grid of parameters, and judge the best among all trials.

        ``.best().seal()`` seals the best point. A laboratory counts every point of its sweeps and every run over the same pack,
        each once, as a trial.

        Parameters
        ----------
        pack, fixtures, window, policy
            As for ``backtest``.
        agent
            As for ``backtest``.
        grid
            Values of each parameter.
        executor
            Any ``concurrent.futures.Executor`` whose processes can import clvlab and read the pack's folder, such as that of a
            Dask cluster (``Client.get_executor()``). By default the work is done in this process, and on all cores if more than
            a few seconds of it are left. The results are the same.
        progress
            Whether to show a bar in a notebook or terminal; or a callback for the numbers of points done and of all points.
        earlier_trials
            Number of trials made elsewhere before, which count too.
        by
            Measure of the points: ``clv``, the law's; ``edge``, the value of the price taken at the closing probability; or
            ``price_ratio``.
        level
            Level of the intervals.
        resamples, seed
            Number of draws, at least 1,000, for the distribution of the highest t by chance, and their seed.

        Raises
        ------
        StatisticsError
            The grid has no parameter or value, a value twice, or a parameter with the name of a column of the frame; the number
            of earlier trials is negative; the measure is unknown; or there are too few resamples.
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
        from clvlab.lab.results.sweep import GridWork, Sweep, check_draws
        from clvlab.runs.search.search import check_trials, grid_of
        from clvlab.statistics.measures import measure_of

        request, values = run_request(pack, fixtures, window, policy), grid_of(grid)
        check_draws(level, seed, resamples)
        measure_of(by)
        check_trials(earlier_trials)
        trials, recorded = self._backend.sweep(request, agent_spec(agent), values, GridWork(executor, progress))
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
        """Choose the best point of a grid on the folds so far, score it on the next fold, and repeat.

        Parameters
        ----------
        pack, agent, fixtures, window
            As for ``backtest``.
        grid
            Values of each parameter.
        folds
            Number of folds of nearly equal size; the first fold is only used for training.
        by
            ``kickoff``, or a mapping from each fixture to the name of its fold; folds are used in the order of their names.
        objective
            Measure that chooses points: ``clv``, ``edge`` or ``price_ratio``.
        level
            Level of the intervals.
        executor, progress
            As for ``sweep``.

        Raises
        ------
        StatisticsError
            The grid or number of folds is not possible, no point has an interval in training, or the measure is unknown.
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
        from clvlab.lab.results.sweep import GridWork
        from clvlab.report.export import check_settings
        from clvlab.runs.search.search import grid_of
        from clvlab.statistics.measures import measure_of

        request, values = run_request(pack, fixtures, window), grid_of(grid)
        check_settings(level)
        measure_of(objective)
        return self._backend.walk(
            request, agent_spec(agent), values, Folds(folds, by, objective, level), GridWork(executor, progress)
        )

    @names_checked
    def backtest(
        self,
        pack: Pack | str | Path,
        agent: str | Agent = "baseline",
        *,
        params: Mapping[str, Any] | None = None,
        fixtures: Sequence[int] | None = None,
        window: Window | None = None,
        close: str | None = None,
        policy: PolicyEnvelope | None = None,
        audit: bool = True,
        stepped: bool = False,
    ) -> Result:
        """Replay a pack through an agent, score it by the law, and seal the run.

        A laboratory stores a repeated run only once. A service backtests its templates only.

        Parameters
        ----------
        pack
            A pack, its id, or the path of its folder.
        agent
            Name of a template (``clvlab.agents()``); a function with ``@clvlab.strategy``, or whose first parameter is named
            ``ticks``; a ``clvlab.TickAgent``; or ``file.py:name`` of one of these.
        params
            Parameters of a template or strategy that differ from its defaults.
        fixtures
            Fixture ids; all by default.
        window
            End rule, horizon and markets; by default ``pre_match``, 60 s and all markets.
        close
            The book whose prices are entry and close, in a pack that keeps its books; by default the consensus. It sets the
            window's ``close_source``, which may not name another book.
        policy
            Limits of paper execution; scores do not depend on them.
        audit
            Whether to audit your own agent for look-ahead before the seal.
        stepped
            Whether your own agent runs in steps, without an audit, in a process that the system must be able to isolate. A
            ``clvlab.TickAgent`` gets each message after its answer to the one before. Any other agent gets blocks of messages,
            cut at unpredictable places, and its decisions are compared with those of a process without cuts.

        Raises
        ------
        UnknownPackError, UnknownFixtureError, UnknownAgentError
            The pack, fixture or agent does not exist.
        AgentError, DecisionError
            The agent fails, or its answer is not a valid decision.
        LookaheadError
            The audit failed.
        WindowError, PackFormatError, PolicyError
            The window is not valid; there is no fixture; or the policy is not a ``clvlab.PolicyEnvelope``.
        ArgumentError
            ``audit=False`` was passed, although the agent is never audited.
        UnsupportedError
            A service got your own agent, a transcript, or ``audit=False``.

        Examples
        --------
        >>> import clvlab as cl
        >>> cl.backtest("starter", "baseline", fixtures=[90000000]).report["n_fixtures"]
        1
        >>> lab = cl.Lab()
        >>> bt = lab.backtest("starter", "cumulative-drift")
        >>> lab.verify(bt.run_id).passed
        True
        """
        request = run_request(pack, fixtures, window, policy, audit=audit, close=close)
        return self._backend.backtest(request, agent_spec(agent_in_steps(agent, stepped=stepped), params))

    @names_checked
    def grade_bets(
        self,
        bets: Frame | str | Path,
        odds: Pack | str | Path,
        *,
        columns: Mapping[str, str | None] | None = None,
        market: str | None = None,
        odds_format: str | None = None,
        time_zone: str | None = None,
        time_format: str | None = None,
        team_aliases: str | Path | None = None,
        window: Window | None = None,
        agent_id: str = "bets",
    ) -> GradedBets:
        r"""Score placed bets by the law, each at the last tick up to its time, and seal them.

        Bets on one side of a market at one tick are one decision, with stakes summed in cents; ``.bets`` has every row.
        Rows without a tick are in ``.unmatched`` with a reason, and are not in the evidence. ``edge_own_price_bps`` uses the
        bettor's own, unverified price. Usual names of columns show their meaning; ``.columns`` shows the result.

        Parameters
        ----------
        bets
            Path of a CSV file, or a frame of Polars, pandas or another Arrow library; one bet per row. Time, fixture, market
            and side are required; price, stake, book and result are optional. A fixture is an id, the source's id, or both
            teams, with or without a kickoff.
        odds
            A pack, its id, or the path of its folder.
        columns
            Columns by meaning, as ``{"time": "placed_at"}``: ``time``, ``date``, ``fixture``, ``home``, ``away``, ``kickoff``,
            ``market``, ``side``, ``price``, ``stake``, ``book``, ``result``; with None the meaning has no column.
        market
            The market of every row, in place of a column.
        odds_format
            ``decimal`` or ``american`` for ambiguous prices; or ``fractional`` or ``probability`` for all prices.
        time_zone
            IANA time zone of times without an offset.
        time_format
            Format of times, as for ``strptime``; ISO 8601 and unix times by default.
        team_aliases
            A TOML file of further team names, ``teams = [["Wolves", "Wolverhampton Wanderers"]]``.
        window
            As for ``backtest``.
        agent_id
            Name of the sealed agent.

        Raises
        ------
        SourceError
            There are no bets, columns are ambiguous, a time has no zone, or stakes are in two currencies.
        OddsError
            The format of a price is ambiguous.
        UnsupportedError
            The laboratory is at a service.

        Examples
        --------
        >>> import clvlab as cl, polars as pl
        >>> bets = pl.DataFrame(
        ...     {
        ...         "placed_at": ["2026-01-02T09:00Z", "2026-01-02T09:00Z"],
        ...         "match": ["Birch North - Glen North", "Nobody - Nowhere"],
        ...         "market": ["1X2", "1X2"],
        ...         "pick": ["home", "home"],
        ...         "odds": [2.1, 2.1],
        ...         "stake": ["£10", "£5"],
        ...     }
        ... )
        >>> graded = cl.grade_bets(bets, "starter")
        >>> graded.bets["clv_bps"].to_list(), graded.unmatched["reason"].to_list(), graded.verify().passed
        ([70, None], ['fixture_unknown'], True)
        """
        from clvlab.bets.record import BetsFormat

        how = BetsFormat(columns, market, odds_format, time_zone, time_format, team_aliases)
        return self._backend.grade_bets(run_request(odds, None, window), bets, how, agent_id)

    @names_checked
    def backtests(
        self,
        packs: Sequence[Pack | str | Path],
        agent: str | Agent = "baseline",
        *,
        params: Mapping[str, Any] | None = None,
        window: Window | None = None,
        policy: PolicyEnvelope | None = None,
        audit: bool = True,
        executor: Executor | None = None,
    ) -> tuple[Result, ...]:
        """Backtest an agent over several packs, one sealed run each, in their order.

        Parameters
        ----------
        packs
            Packs, their ids, or the paths of their folders.
        agent, params, window, policy, audit
            As for ``backtest``.
        executor
            As for ``sweep``.

        Raises
        ------
        ExecutorError
            The executor is not valid or is broken, or a process died repeatedly.
        PackFormatError
            The argument is not a list of packs.

        Examples
        --------
        >>> import clvlab as cl
        >>> runs = cl.Lab().backtests(["starter", "season"], "cumulative-drift")
        >>> [(run.pack.pack_id, run.run.verify().passed) for run in runs]
        [('starter', True), ('season', True)]
        """
        from clvlab.lab.results.sweep import GridWork

        requests = [run_request(pack, None, window, policy, audit=audit) for pack in several(packs)]
        return self._backend.backtests(requests, agent_spec(agent, params), GridWork(executor).executor)

    @names_checked
    def compete(
        self,
        pack: Pack | str | Path,
        agents: Sequence[str | Agent] | Mapping[str, str | Agent | tuple[str | Agent, Mapping[str, Any]]],
        *,
        fixtures: Sequence[int] | None = None,
        window: Window | None = None,
        policy: PolicyEnvelope | None = None,
        audit: bool = True,
    ) -> Result:
        """Run several agents on the same tape, in one sealed run.

        Parameters
        ----------
        agents
            A list of agents, as for ``backtest``; or a mapping from names to agents, or to agents with their parameters.
        pack, fixtures, window, policy, audit
            As for ``backtest``.

        Raises
        ------
        DecisionError
            There is no agent, or two agents have one name.
        UnsupportedError
            A service got your own agent, more than one fixture, a window, a policy, or ``audit=False``.

        Examples
        --------
        >>> import clvlab as cl
        >>> both = {"early": ("cumulative-drift", {"warmup_ticks": 10}), "late": ("cumulative-drift", {"warmup_ticks": 80})}
        >>> found = cl.Lab().compete("starter", both)
        >>> found.agent_ids, found.compare().differences["fixtures"].to_list()
        (['early', 'late'], [12])
        """
        return self._backend.compete(run_request(pack, fixtures, window, policy, audit=audit), agent_specs(agents))

    @names_checked
    def compare(self, runs: Sequence[Result | str], by: str = "clv", *, level: float = 0.95) -> Comparison:
        """Compare agents over one pack with the first agent: settings, paired differences, common positions.

        Parameters
        ----------
        runs
            Backtests and competitions with at least two agents in total; in a laboratory also ids of runs.
        by
            The measure: ``clv``, ``edge`` or ``price_ratio``.
        level
            Level of the intervals.

        Raises
        ------
        StatisticsError
            There are fewer than two agents, the packs differ, or the measure is unknown.
        UnknownRunError
            No sealed run has this id.

        Examples
        --------
        >>> import clvlab as cl
        >>> both = cl.compare([cl.backtest("starter", "baseline"), cl.backtest("starter", "cumulative-drift")])
        >>> both.differences["fixtures"].to_list()
        [12]
        >>> lab = cl.Lab()
        >>> first = lab.backtest("starter", "baseline").run_id
        >>> lab.compare([first, lab.backtest("starter", "cumulative-drift")]).names
        ['baseline', 'cumulative-drift']
        """
        from clvlab.report.comparison import Comparison

        if isinstance(runs, str) or not isinstance(runs, Iterable):
            raise StatisticsError(
                f"a list of backtests, competitions and ids of runs can be compared, not {value_text(runs)}: "
                "write compare([a, b])"
            )
        found = [self.open_run(one) if isinstance(one, str) else one for one in runs]
        for one in found:
            if not isinstance(one, Result):
                raise StatisticsError(f"backtests, competitions and ids of runs can be compared, not {value_text(one)}")
        return Comparison(tuple(agent for one in found for agent in one.parts), by, level)
