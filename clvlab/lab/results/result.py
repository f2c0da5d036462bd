"""The results of a sealed run, made here or read from a store or a service."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import polars as pl

from clvlab.base.names import did_you_mean, names_checked
from clvlab.errors import (
    ArgumentError,
    StatisticsError,
    UnknownAgentError,
    UnknownPackError,
    UnsupportedError,
)
from clvlab.lab.results.run import Run as SealedRunView
from clvlab.lab.results.run import VerificationResult
from clvlab.lab.validation import fixture_ids_argument
from clvlab.law.metrics import rank
from clvlab.packs import reader
from clvlab.packs.views.view_file import view_file
from clvlab.report.export import Exportable
from clvlab.report.html import Html
from clvlab.runs.run import Run
from clvlab.statistics.staking import HALF_KELLY, Staking

if TYPE_CHECKING:  # imported where it is used, so that a first backtest waits for nothing else
    from pathlib import Path

    from clvlab.lab.widgets.explorer import Explorer
    from clvlab.report.bankrolls import BankrollFan
    from clvlab.report.cards import AuditReport, Report, Scores
    from clvlab.report.comparison import Comparison, Leaderboard
    from clvlab.report.executable import Executable
    from clvlab.report.headline import Headline
    from clvlab.report.moved_lines import MovedLines
    from clvlab.report.plots import Plots
    from clvlab.report.power import PowerResult
    from clvlab.report.regression import RegressionResult
    from clvlab.report.selection import Selection
    from clvlab.report.tearsheet import TearSheet


class Result(Exportable):
    """The result of a sealed run: a backtest, a competition, or the run of a deployed agent.

    A run from elsewhere is read from its sealed bytes and verified.

    Parameters
    ----------
    source
        The run.
    view
        The view file of the pack, if the pack is derived.
    """

    def __init__(self, source: Run, view: bytes = b"") -> None:
        self.source = source
        self.run = SealedRunView(source.sealed, source.receipts, source.anchor, view)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.source, self.run.view)

    @classmethod
    def from_run(cls, run: Run) -> Self:
        """Return the result of a run made here."""
        return cls(run, view_file(run.pack))

    @property
    def pack(self) -> reader.Pack:
        """The pack that was replayed or captured, found by its content hash.

        Raises
        ------
        UnknownPackError
            The pack is not at hand.
        """
        return self.read.pack

    @cached_property
    def read(self) -> Run:
        """The run, as it was made here or read by its verification.

        Raises
        ------
        EvidenceError
            The bytes can't be read.
        """
        return self.source if self.source.is_made else self.source.verified()

    @cached_property
    def parts(self) -> list[Run]:
        """The run of each agent, for comparisons.

        Raises
        ------
        EvidenceError
            The bytes can't be read.
        """
        agent_ids = [agent["agent_id"] for agent in self.read.started["agents"]]
        return [self.read] if len(agent_ids) == 1 else [self.read.part(agent_id) for agent_id in agent_ids]

    @property
    def run_id(self) -> str:
        return self.run.run_id

    @cached_property
    def _headline(self) -> Headline:
        from clvlab.report.headline import headline_of

        return headline_of(self.parts[self.agent_ids.index(self._agent(None))])

    @property
    def verdict(self) -> str:
        """The verdict on line and price of the agent, in one sentence.

        Raises
        ------
        UnknownAgentError
            The run has several agents: see ``.leaderboard``. The same holds for the four figures.

        Examples
        --------
        >>> from clvlab.lab import backtest
        >>> backtest("season", "cumulative-drift").verdict.partition(":")[0]
        'Loses at its prices, and its CLV may be luck'
        """
        return self._headline.verdict.sentence

    @property
    def mean_clv(self) -> float | None:
        """Mean CLV of the agent in bps of probability, without decisions at the closing message; ``None`` without scores.

        Examples
        --------
        >>> from clvlab.lab import backtest
        >>> bt = backtest("season", "cumulative-drift")
        >>> round(bt.mean_clv, 1), [round(bound, 1) for bound in bt.interval], round(bt.edge, 1), round(bt.roi, 1)
        (26.7, [-6.5, 59.9], -3.6, 0.5)
        """
        return self._headline.clv.mean

    @property
    def interval(self) -> tuple[float, float] | None:
        """Interval of 95 % of the mean CLV over fixtures, in bps; ``None`` with too few fixtures."""
        clv = self._headline.clv
        return None if clv.low is None or clv.high is None else (clv.low, clv.high)

    @property
    def edge(self) -> float | None:
        """Mean edge at the prices taken, valued at the close, in percent; ``None`` without a price."""
        return self._headline.edge.mean

    @property
    def roi(self) -> float | None:
        """Return of a flat stake at the results of the pack, in percent; ``None`` without results. It is mostly luck.

        Raises
        ------
        UnknownPackError
            The pack is not at hand.
        """
        settled = self.tear_sheet().settled
        return None if settled is None else settled.roi.mean

    @property
    def agent_ids(self) -> list[str]:
        """The agents, in order of their ids."""
        return [one.agent_id for one in self.parts]

    @property
    def scores(self) -> Scores:
        """``SCORES``: one row per decision of all agents, including abstentions and invalid decisions.

        ``at_close`` says whether the entry is at the closing message of its market. ``in_gap`` says whether a gap of the
        pack's capture touches entry or close; it is ``None`` without the pack.
        """
        from clvlab.report.cards import Scores
        from clvlab.runs.reasons import lasting_gaps

        run = self.read
        try:
            gaps = lasting_gaps(run.pack)
        except UnknownPackError:
            in_gap: pl.Expr | pl.Series = pl.lit(None, dtype=pl.Boolean)
        else:
            in_gap = run.in_gap if gaps else pl.lit(value=False)
        return Scores(run.marked.with_columns(in_gap=in_gap))

    @cached_property
    def leaderboard(self) -> Leaderboard:
        """The agents by mean CLV, with intervals over fixtures."""
        from clvlab.report.comparison import Leaderboard

        return Leaderboard(tuple(self.parts))

    @property
    def frame(self) -> pl.DataFrame:
        """The leaderboard: one row per agent."""
        return self.leaderboard.frame

    @property
    def audits(self) -> dict[str, AuditReport]:
        """The look-ahead audits of your own agents, by agent id, for a run made here."""
        from clvlab.report.cards import AuditReport

        return {name: AuditReport(one) for name, one in self.source.audits.items()}

    @property
    def report(self) -> Report:
        """The report of a backtest, or of a live run of one agent.

        Raises
        ------
        UnsupportedError
            The run has several agents, or belongs to a deployed agent.
        UnknownPackError
            The pack is not at hand.
        """
        from clvlab.report.cards import Report

        if not self._is_reported:
            raise UnsupportedError(f"only a backtest has a report, and {self.run_id} is a {self._kind}: see .frame")
        return Report(self.read.report)

    @property
    def _is_reported(self) -> bool:
        return self._kind == "backtest" or (self._kind == "live" and len(self.parts) == 1)

    @names_checked
    def compare(self, by: str = "clv", *, level: float = 0.95) -> Comparison:
        """Compare the agents with the first of them, paired by fixture; see ``clvlab.compare``."""
        from clvlab.report.comparison import Comparison

        return Comparison(tuple(self.parts), by, level)

    @names_checked
    def tear_sheet(
        self, agent_id: str | None = None, *, level: float = 0.95, resamples: int = 5_000, draws: int = 200, seed: int = 0
    ) -> TearSheet:
        """Return the statistics of one agent: means with intervals over fixtures, null distributions, breakdowns, pictures.

        Parameters
        ----------
        agent_id
            Optional if there is one agent.
        level
            Level of the intervals, above 0 and below 1.
        resamples
            Number of sign flips by fixture.
        draws
            Number of times that decisions are moved to other fixtures, and to later messages.
        seed
            Seed of flips and moves.

        Raises
        ------
        UnknownAgentError
            The run does not have the agent, or it has several and no id was passed.
        UnknownPackError
            The pack of the run is not at hand.
        StatisticsError
            The level is outside 0..1, or there are no resamples or draws.

        Examples
        --------
        >>> from clvlab.lab import backtest
        >>> backtest("starter", "cumulative-drift").tear_sheet().clv.n_clusters
        12
        """
        from clvlab.report.tearsheet import TearSheet

        return TearSheet(self._part(agent_id), level, resamples, draws, seed)

    @names_checked
    def bankroll(
        self, edge: float | None = None, *, agent_id: str | None = None, training: Collection[int] | None = None,
        staking: Staking = HALF_KELLY,
    ) -> BankrollFan:  # fmt: skip
        """Follow a bankroll through the settled decisions of one agent; ``TearSheet.bankroll`` has more settings."""
        if training is not None:
            training = fixture_ids_argument(training)
        if not isinstance(staking, Staking):
            raise StatisticsError(f"a way to stake is a clvlab.statistics.Staking, not {staking!r:.80}")
        return self.tear_sheet(agent_id).bankroll(edge, training=training, staking=staking)

    @names_checked
    def power(
        self, edge: float | None = None, *, agent_id: str | None = None, by: str = "clv", level: float = 0.95
    ) -> PowerResult:
        """Return how many more fixtures would show an edge of one agent, at the error of its mean.

        Parameters
        ----------
        edge
            The smallest edge that matters to you, above 0, in the unit of the measure: 34 for 34 bps. It should not be the mean
            that was found. Without an edge there are a few round ones.
        agent_id
            Optional if there is one agent.
        by
            ``clv``, ``edge`` or ``price_ratio``.
        level
            Level of the interval that must lie above zero.

        Raises
        ------
        UnknownAgentError, UnknownPackError
            As for ``tear_sheet``.
        StatisticsError
            The edge is not above 0, few fixtures have a decision, the level is outside 0..1, or ``by`` is no measure.

        Examples
        --------
        >>> from clvlab.lab import backtest
        >>> backtest("season", "cumulative-drift").power(edge=34).frame.select("fixtures", "more").row(0)
        (299, 280)
        """
        return self.tear_sheet(agent_id, level=level).power(edge, by=by)

    @names_checked
    def regress(self, formula: str, *, agent_id: str | None = None, level: float = 0.95) -> RegressionResult:
        """Regress the scores of one agent on facts known at its decisions, by least squares with errors over fixtures.

        It is computed on this machine, also for a run that was read from a service. Decisions at the closing message are left
        out, as on a tear sheet.

        Parameters
        ----------
        formula
            As ``clv_bps ~ log(to_close_s) + league``. The response is ``clv_bps``, ``edge_pct`` or ``price_ratio_pct``. Terms
            are joined by ``+``, their factors by ``:``; a factor is a number (``to_close_s``, ``entry_prob_bps``, ``odds``,
            ``stake``, ``confidence``, ``closing_age_s``), its natural ``log()``, or a category (``league``, ``market``,
            ``side``, ``in_gap``). The text is never evaluated as code.
        agent_id
            Optional if there is one agent.
        level
            Level of the intervals.

        Raises
        ------
        UnknownAgentError, UnknownPackError
            As for ``tear_sheet``.
        StatisticsError
            The formula can't be read, has too many terms or levels, or fewer than five fixtures have all of its columns.

        Examples
        --------
        >>> from clvlab.lab import backtest
        >>> backtest("season", "cumulative-drift").regress("clv_bps ~ log(to_close_s) + side").frame["term"].to_list()
        ['intercept', 'log(to_close_s)', 'side[draw]', 'side[over]', 'side[part1]', 'side[part2]']
        """
        return self.tear_sheet(agent_id, level=level).regress(formula)

    @names_checked
    def moved_lines(self, agent_id: str | None = None, *, level: float = 0.95) -> MovedLines:
        """Price the decisions of one agent whose line was not quoted at the close; no score or mean CLV includes them.

        Parameters
        ----------
        agent_id
            Optional if there is one agent.
        level
            Level of the interval, above 0 and below 1.

        Raises
        ------
        UnknownAgentError, UnknownPackError
            As for ``tear_sheet``.
        StatisticsError
            The level is outside 0..1.

        Examples
        --------
        >>> from clvlab.lab import backtest
        >>> backtest("starter", "cumulative-drift").moved_lines().mean.n
        4
        """
        from clvlab.report.moved_lines import MovedLines

        return MovedLines(self._part(agent_id), level)

    @names_checked
    def executable(
        self, *, stake: float = 10.0, delay_s: float = 1.0, commission: float | str = 0.0, max_age_s: float = 900,
        agent_id: str | None = None, level: float = 0.95,
    ) -> Executable:  # fmt: skip
        """Return the profit of the scored decisions of one agent, if each had taken the offers of its market.

        Each decision is an order that takes offers level by level, up to their sizes. The rest is not filled, and an order does
        not wait in a queue. If the pack has no offers by level, the whole stake is filled at the best price quoted, and so
        labelled. A pack without prices has no result. The profit is not a score, and does not rank.

        Parameters
        ----------
        stake
            Stake of each order in the unit of the venue, 0.01 to 10,000,000.
        delay_s
            Seconds from decision to execution, 0 to 3,600.
        commission
            Rate on the net winnings of a market, such as 0.05; or ``betfair``, ``kalshi`` or ``polymarket`` for a formula of
            ``clvlab.statistics.commissions.VENUES``.
        max_age_s
            Seconds without ladders and ticks after which a market is unknown, and fills no order.
        agent_id
            Optional if there is one agent.
        level
            Level of the intervals, above 0 and below 1.

        Raises
        ------
        UnknownAgentError, UnknownPackError
            As for ``tear_sheet``.
        StatisticsError
            A value is out of its range, or the venue is unknown.

        Examples
        --------
        >>> from clvlab.lab import backtest
        >>> found = backtest("starter", "cumulative-drift").executable(stake=10, commission=0.05)
        >>> found.basis, found.summary["step"].unique(maintain_order=True).to_list()
        ('quoted price, size unknown', ['line', 'taken', 'delayed', 'commission', 'settled'])
        """
        from clvlab.report.executable import Executable

        return Executable(self._part(agent_id), stake, delay_s, commission, max_age_s, level)

    @names_checked
    def explore(
        self,
        fixture_id: int | None = None,
        market_key: str | None = None,
        *,
        agent_id: str | None = None,
        position: int | None = None,
        span_ms: tuple[int, int] | None = None,
        only: Selection | TearSheet | None = None,
    ) -> Explorer:
        """Explore one market at a time: its line, its decisions, and a replay; a widget in JupyterLab.

        Parameters
        ----------
        fixture_id, market_key
            The first market; by default the one with the most decisions.
        agent_id
            Optional if there is one agent.
        position
            Number of messages replayed; all by default.
        span_ms
            First and last time of the picture, UTC milliseconds; the whole market by default.
        only
            A tear sheet of some decisions, or its ``.selection``; it selects fixtures and markets.

        Raises
        ------
        UnknownAgentError, UnknownPackError
            As for ``tear_sheet``.
        StatisticsError
            The selection has no decision.
        UnknownFixtureError
            The fixture was not replayed.
        UnknownMarketError
            The fixture does not have the market.

        Examples
        --------
        >>> from clvlab.lab import backtest
        >>> backtest("starter", "cumulative-drift").explore(90000005).view.sides
        ('draw', 'part1', 'part2')
        >>> bt = backtest("starter", "cumulative-drift")
        >>> totals = bt.tear_sheet().only(markets=["OVERUNDER_PARTICIPANT_GOALS"], sides=["over"])
        >>> set(bt.explore(only=totals).frame["side"])
        {'over'}
        """
        from clvlab.lab.widgets.explorer import Explorer
        from clvlab.report.selection import Selection
        from clvlab.report.tearsheet import TearSheet

        if position is not None and (type(position) is not int or position < 0):
            raise ArgumentError(f"a position in a market is a whole number of messages, not {position!r:.80}")
        if only is not None and not isinstance(only, Selection | TearSheet):
            raise ArgumentError(f"only is a tear sheet or its selection, as sheet.only(markets=['1X2']), not {only!r:.80}")
        chosen = only.selection if isinstance(only, TearSheet) else only
        explorer = Explorer(self._part(agent_id), chosen or Selection())
        if fixture_id is None and market_key is None:
            return explorer.seek(position, span_ms)
        fixture = explorer.fixture_id if fixture_id is None else fixture_id
        return explorer.show(fixture, market_key, position=position, span_ms=span_ms)

    @cached_property
    def plot(self) -> Plots:
        """The pictures of the tear sheet, such as ``bt.plot.clv()``; each can also be drawn on your axes."""
        return self.tear_sheet().plot

    def verify(self) -> VerificationResult:
        """Recompute the proof from the sealed bytes."""
        return VerificationResult(self.source.verification)

    def share(self, path: str | Path, *, page: str | None = None, agent_id: str | None = None) -> Path:
        """Share the run; the same as ``Run.share``."""
        return self.run.share(path, page=page, agent_id=agent_id)

    def _agent(self, agent_id: str | None) -> str:
        """Return the id of an agent; it may be left out if there is only one agent."""
        own = self.agent_ids
        if agent_id is None and len(own) > 1:
            raise UnknownAgentError(
                f"run {self.run_id} has {len(own)} agents: name one of {', '.join(own)}, as .tear_sheet({own[0]!r})"
            )
        if agent_id is not None and agent_id not in own:
            meant = did_you_mean(agent_id, own)
            raise UnknownAgentError(f"run {self.run_id} has no agent {agent_id!r}: name one of {', '.join(own)}{meant}")
        return agent_id or own[0]

    def _part(self, agent_id: str | None) -> Run:
        meant = self.parts[self.agent_ids.index(self._agent(agent_id))]
        return meant.knowing(pack=self.pack)  # packs are searched once, and not for each agent

    @property
    def _title(self) -> str:
        own = self.parts
        whom = own[0].agent_id if len(own) == 1 else f"{len(own)} agents"
        what = own[0].started["mode_label"] if self._kind == "live" else self._kind.capitalize()
        return f"{what} of {whom} on {own[0].pack_id!r}"

    @property
    def _kind(self) -> str:
        return self.read.started["kind"]

    def __repr__(self) -> str:
        from clvlab.report.headline import headline_of

        first = rank(self.read.outcomes).row(0, named=True)["agent_id"]
        verdict = headline_of(self.parts[self.agent_ids.index(first)]).verdict
        summary = verdict.sentence.rstrip(".")
        if len(self.parts) > 1:
            steps = ".frame, .compare(), .tear_sheet(agent_id), .verify()"
            return f"{self._title}: {first} first, {summary[0].lower()}{summary[1:]}; next: {steps}"
        steps = (
            ".tear_sheet(), .report, .scores, .run.verify()"
            if self.source.is_made
            else ".frame, .scores, .tear_sheet(), .verify()"
        )
        if verdict.tone == "nothing" and self.source.is_made and self._is_reported:
            steps = ".report['warnings'] says why, .scores, .run.verify()"
        return f"{self._title}: {summary}; next: {steps}"

    def _repr_html_(self) -> Html:
        from clvlab.report.cards import agent_card
        from clvlab.runs.card import metrics

        identity = {"run": self.run_id, "evidence hash": self.run.evidence_hash}
        audits = [{f"look-ahead audit of {name}": repr(found)} for name, found in self.audits.items()]
        if len(self.parts) > 1:
            return self.leaderboard.card(self._title, checks=self.verify().checks, folded=[identity, *audits])
        run = self.read
        reported = self.report if run.is_made and self._is_reported else None
        return agent_card(
            self._title if reported is None else reported.title,
            run.marked,
            run.evidence.closes,
            metrics(run.outcomes),
            self.verify().checks,
            warnings=() if reported is None else reported["warnings"],
            folded=[identity if reported is None else reported.facts(), *audits],
        )
