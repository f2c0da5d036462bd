"""The verbs that make runs, and that set them beside each other: the same whether runs are kept or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from clvlab.base.naming import names_checked
from clvlab.bets.reading import BetsReading
from clvlab.engine.agent import Agent
from clvlab.errors import StatisticsError
from clvlab.lab.laboratory.records import Records
from clvlab.lab.laboratory.requests import agent_spec, agent_specs, asked_as, run_request, several
from clvlab.lab.results.bets import GradedBets
from clvlab.lab.results.comparison import Comparison
from clvlab.lab.results.grid import GridWork
from clvlab.lab.results.pack import Pack
from clvlab.lab.results.result import Result
from clvlab.lab.validation import shown
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.packs.importers.frames import Frame


class Verbs(Records):
    """What can be done with packs and agents: in a laboratory, which keeps the runs; by the package's verbs, which do not."""

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
        """Replay a pack through an agent, score it by the law, and seal it.

        A laboratory keeps the run; the same backtest again changes nothing. A service backtests its templates.

        Parameters
        ----------
        pack
            A pack, its id, or the path of its folder.
        agent
            Name of a template (``clvlab.agents()``); a function under ``@clvlab.strategy``, or a plain one whose first
            parameter is named ``ticks``; a ``clvlab.TickAgent``; or ``file.py:name`` of one of these.
        params
            Parameters of a template or strategy that differ from its defaults.
        fixtures
            Fixture ids; all by default.
        window
            End rule, horizon and markets; ``pre_match``, 60 s, all markets by default.
        close
            The book whose own states are entry and close, of a pack that keeps its books; the consensus by default. It is the
            window's ``close_source``, which may not name another one.
        policy
            Limits under which actions are executed on paper; scores do not depend on it.
        audit
            Whether an agent of one's own is audited for look-ahead before the run is sealed.
        stepped
            Whether a ``clvlab.TickAgent`` is asked step by step instead: its process, which the system must be able to lock in,
            gets each message after its answer to the one before. It needs no audit. Any other agent of one's own gets blocks of
            messages so, cut where nobody knew, and is compared with a process that knows no cut.

        Raises
        ------
        UnknownPackError, UnknownFixtureError, UnknownAgentError, AgentError, LookaheadError, WindowError, DecisionError
        PackFormatError, PolicyError
            No fixture; a policy that is not a ``clvlab.PolicyEnvelope``.
        ArgumentError
            ``audit=False`` where no audit would be made.
        UnsupportedError
            At a service, for an agent of one's own, a transcript, or ``audit=False``.

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
        asked = run_request(pack, fixtures, window, policy, audit=audit, close=close)
        return self._place.backtest(asked, agent_spec(asked_as(agent, stepped=stepped), params))

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
        r"""Grade bets that somebody placed: each is scored by the law at the last tick that is not later than it, and sealed.

        Bets on one side of a market at one tick are one decision, with their stakes summed in cents; ``.bets`` keeps the rows.
        Rows that are not on the tape stand in ``.unmatched``, each with its reason: they are told, and no evidence. The
        bettor's own price gives ``edge_own_price_bps`` there, on the bettor's word. Nothing is guessed but the meaning of
        columns, by their usual names; ``.columns`` shows it.

        Parameters
        ----------
        bets
            Path of a CSV file, or a frame of Polars, pandas or another library that hands out Arrow; a row a bet. Needed are
            the time, the fixture, the market and the side; price, stake, book and result are read where they are there. A
            fixture is named by its id, its source's id, or both teams, and then perhaps a kickoff.
        odds
            A pack, its id, or the path of its folder.
        columns
            Columns by meaning, as ``{"time": "placed_at"}``: ``time``, ``date``, ``fixture``, ``home``, ``away``, ``kickoff``,
            ``market``, ``side``, ``price``, ``stake``, ``book``, ``result``; None for what is not to be read.
        market
            The market of every row, in place of a column.
        odds_format
            Of prices that do not say which format they are in: ``decimal`` or ``american``; or of all, ``fractional`` or
            ``probability``.
        time_zone
            IANA zone of times that carry none.
        time_format
            How times are written, as ``strptime`` takes it; ISO 8601 and unix times by default.
        team_aliases
            A TOML file of names of teams beside the usual ones, ``teams = [["Wolves", "Wolverhampton Wanderers"]]``.
        window
            As for ``backtest``.
        agent_id
            Under which the bets are sealed.

        Raises
        ------
        SourceError
            No bets, columns that can't be told, a time without a zone, stakes in two currencies; the message names the value.
        OddsError
            A price that may be in two formats.
        UnknownPackError, AgentError, WindowError
        UnsupportedError
            At a service.

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
        how = BetsReading(columns, market, odds_format, time_zone, time_format, team_aliases)
        return self._place.grade_bets(run_request(odds, None, window), bets, how, agent_id)

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
        """Backtest an agent over several packs, a sealed run each, in their order.

        Parameters
        ----------
        packs
            Packs, their ids, or the paths of their folders.
        agent, params, window, policy, audit
            As for ``backtest``.
        executor
            Who computes: any ``concurrent.futures.Executor`` whose processes can import clvlab and read the packs' folders; by
            default this process, and, once a few seconds of work are left, all cores of this machine. The runs are the same.

        Raises
        ------
        ExecutorError
            What is no executor, or a broken one; or a process that died again and again.
        PackFormatError
            No list of packs.

        Examples
        --------
        >>> import clvlab as cl
        >>> runs = cl.Lab().backtests(["starter", "season"], "cumulative-drift")
        >>> [(run.pack.pack_id, run.run.verify().passed) for run in runs]
        [('starter', True), ('season', True)]
        """
        asked = [run_request(pack, None, window, policy, audit=audit) for pack in several(packs)]
        return self._place.backtests(asked, agent_spec(agent, params), GridWork(executor).executor)

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
        """Let several agents decide on the same tape, in one sealed run.

        Parameters
        ----------
        agents
            A list of agents, as for ``backtest``; or a mapping from names to agents, or to agents with their parameters.
        pack, fixtures, window, policy, audit
            As for ``backtest``.

        Raises
        ------
        DecisionError
            No agent, or two of one name.
        UnsupportedError
            At a service: an agent of one's own, more than one fixture, a window or policy, or ``audit=False``.

        Examples
        --------
        >>> import clvlab as cl
        >>> both = {"early": ("cumulative-drift", {"warmup_ticks": 10}), "late": ("cumulative-drift", {"warmup_ticks": 80})}
        >>> found = cl.Lab().compete("starter", both)
        >>> found.agent_ids, found.compare().differences["fixtures"].to_list()
        (['early', 'late'], [12])
        """
        return self._place.compete(run_request(pack, fixtures, window, policy, audit=audit), agent_specs(agents))

    @names_checked
    def compare(self, runs: Sequence[Result | str], by: str = "clv", *, level: float = 0.95) -> Comparison:
        """Compare agents over the same pack with the first one: settings, paired difference, positions in common.

        Parameters
        ----------
        runs
            Backtests and competitions, of which every agent takes part: at least two agents. In a laboratory also ids of runs.
        by
            The measure: ``clv``, ``edge`` or ``price_ratio``.
        level
            Of the intervals.

        Raises
        ------
        StatisticsError
            Fewer than two agents, or different packs; or no such measure.
        UnknownRunError

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
        if isinstance(runs, str) or not isinstance(runs, Iterable):
            raise StatisticsError(
                f"a list of backtests, competitions and ids of runs can be compared, not {shown(runs)}: write compare([a, b])"
            )
        found = [self.open_run(one) if isinstance(one, str) else one for one in runs]
        for one in found:
            if not isinstance(one, Result):
                raise StatisticsError(f"backtests, competitions and ids of runs can be compared, not {shown(one)}")
        return Comparison(tuple(agent for one in found for agent in one.parts), by, level)
