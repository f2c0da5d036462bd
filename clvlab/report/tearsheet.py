"""The tear sheet: all figures of an agent in a backtest, with units and intervals."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from hashlib import sha256

import polars as pl

from clvlab.base.names import names_checked
from clvlab.law.tape import Tape
from clvlab.report import breakdowns
from clvlab.report.bankrolls import BankrollFan, bankroll_of
from clvlab.report.bars import display_progress
from clvlab.report.breakdowns import tables_of
from clvlab.report.cautions import cautions
from clvlab.report.executable import AGE_S, DELAY_S, STAKE, Executable
from clvlab.report.export import Exportable, check_settings
from clvlab.report.figures import Settlement, figures, line, settlement
from clvlab.report.html import Html, page, render
from clvlab.report.moved_lines import moved_lines
from clvlab.report.plots import Plots
from clvlab.report.power import PowerResult, mean_power
from clvlab.report.regression import RegressionResult, regression_of
from clvlab.report.selection import Selection
from clvlab.report.story import story
from clvlab.runs.run import Run
from clvlab.statistics import (
    BeatRate,
    BoundedClusters,
    Calibration,
    Concentration,
    Delay,
    Estimate,
    Median,
    Permutation,
    Staking,
    beat_close_rate,
    calibration,
    cluster_mean,
    cluster_median,
    concentration,
    delay,
    estimates,
    permute_fixtures,
    sign_flip_p_values,
)
from clvlab.statistics.clusters import side_by_side
from clvlab.statistics.means import finite
from clvlab.statistics.measures import measure_of, sums_of
from clvlab.statistics.staking import HALF_KELLY
from clvlab.words import CHECK_QUESTIONS


@dataclass(frozen=True)
class TearSheet(Exportable):
    """The statistics of an agent in a backtest; made by ``Result.tear_sheet()``.

    Attributes
    ----------
    source
        The backtest.
    level
        Level of all intervals.
    resamples, draws, seed
        Number of sign flips; number of moves of the decisions to other fixtures and later messages; seed of both.
    all_scored
        Whether entries at the closing message count too, as in the law.
    selection
        The selected decisions; see ``only``.
    """

    source: Run
    level: float = 0.95
    resamples: int = 5_000
    draws: int = 200
    seed: int = 0
    all_scored: bool = False
    selection: Selection = field(default_factory=Selection)

    def __post_init__(self) -> None:
        check_settings(self.level, self.seed, resamples=self.resamples, draws=self.draws)

    @property
    def agent_id(self) -> str:
        return str(self.source.outcomes["agent_id"][0])

    @cached_property
    def _all(self) -> pl.DataFrame:
        """The selected decisions that the law scored, including those at the closing message."""
        return breakdowns.scored_decisions(self.source).filter(self.selection.matching(self.source.pack))

    @cached_property
    def scored(self) -> pl.DataFrame:
        """The scored decisions that count; see ``breakdowns.scored_decisions``."""
        return self._all if self.all_scored else self._all.filter(~pl.col("at_close"))

    @property
    def clv(self) -> Estimate:
        """Mean CLV, in bps of probability."""
        return self.means["clv"]

    @property
    def price_ratio(self) -> Estimate:
        """Mean of closing probability divided by entry probability, minus one, in percent: the gain at a fair price."""
        return self.means["price_ratio"]

    @property
    def edge(self) -> Estimate:
        """Mean value of the price taken at the closing probability, in percent: "CLV %", after the margin."""
        return self.means["edge"]

    @cached_property
    def _sums(self) -> dict[str, BoundedClusters]:
        return sums_of(self.scored)

    @cached_property
    def means(self) -> dict[str, Estimate]:
        """The three means, by name."""
        return {name: estimates(sums, level=self.level)[0] for name, sums in self._sums.items()}

    @property
    def left_out(self) -> int:
        """Number of entries at the closing message, which are left out."""
        return self._all.height - self.scored.height

    @cached_property
    def sign_flips(self) -> dict[str, float | None]:
        """Two-sided p-value of each mean under sign flips by fixture; ``None`` with too few fixtures."""
        found = sign_flip_p_values(side_by_side(list(self._sums.values())), resamples=self.resamples, seed=self.seed)
        return {name: finite(float(p)) for name, p in zip(self._sums, found, strict=True)}

    @cached_property
    def with_at_close(self) -> Estimate:
        """Mean CLV in bps of probability, with entries at the closing message."""
        return cluster_mean(self._all["clv_bps"], self._all["fixture_id"], level=self.level)

    @cached_property
    def median(self) -> Median:
        """Median CLV, in bps of probability."""
        return cluster_median(self.scored["clv_bps"], self.scored["fixture_id"], self.level)

    @cached_property
    def beat(self) -> BeatRate:
        """Share of decisions that beat the close, without ties."""
        return beat_close_rate(self.scored["clv_bps"], self.scored["fixture_id"], self.level)

    @cached_property
    def concentration(self) -> Concentration:
        """The spread of the scored decisions over their fixtures."""
        return concentration(self.scored["fixture_id"])

    @cached_property
    def permutation(self) -> Permutation | None:
        """The same decisions in other fixtures of the run: a test of the choice of fixture and side."""
        return permute_fixtures(self._tape, self.scored, self.source.window, draws=self.draws, seed=self.seed)

    @cached_property
    def delay(self) -> Delay | None:
        """The same positions, each entered at a random later message: the value of acting now."""
        run, horizon_s = self.source.evidence, self.source.window.min_clv_horizon_s
        ends = run.closes.select("fixture_id", "end_seq", "close_ts_ms").unique()
        tape = self._tape.at_source(self.source.window.close_source)
        return delay(tape, self.scored, ends, horizon_s=horizon_s, draws=self.draws, seed=self.seed)

    @cached_property
    def _tape(self) -> Tape:
        own, pack = self.source.fixture_ids, self.source.pack
        return pack.tape(None if len(own) == len(pack.fixture_ids) else own)

    @cached_property
    def cautions(self) -> list[str]:
        """Warnings of the report, and about few fixtures, skewed means and impossible prices."""
        return [*self.source.report["warnings"], *cautions(self)]

    @cached_property
    def calibration(self) -> Calibration | None:
        """Confidence against the share that beat the close; ``None`` without confidences."""
        return calibration(self.scored["confidence"], self.scored["clv_bps"], self.scored["fixture_id"])

    @cached_property
    def settled(self) -> Settlement | None:
        """Settled profit of the decisions; ``None`` if the pack has no results."""
        return settlement(self.scored, self.source.pack.results, level=self.level)

    @names_checked
    def bankroll(
        self, edge: float | None = None, *, training: Collection[int] | None = None, staking: Staking = HALF_KELLY,
        open_s: int = 7_200, ruin_below: float = 0.5, paths: int = 1_000,
    ) -> BankrollFan:  # fmt: skip
        """Follow a bankroll through the settled decisions and resampled fixtures; it is not a score and does not rank.

        Parameters
        ----------
        edge
            Assumed profit of each bet, as a share of the stake; Kelly uses the probability ``(1 + edge) / odds``.
        training
            Fixtures whose mean edge at the close is used as the edge; bets are on the others, after these have closed.
        staking
            Rule of stakes; by default half Kelly, at most 5 % on a side.
        open_s
            Seconds from the close of a fixture to its result.
        ruin_below
            Share of the start below which a bankroll is ruined.
        paths
            Number of paths.

        Raises
        ------
        StatisticsError
            No decision is settled; Kelly stakes have no edge, or the edge of the fixtures bet on; or a value is out of range.

        Examples
        --------
        >>> import clvlab as cl
        >>> found = cl.backtest("starter", "cumulative-drift").tear_sheet().bankroll(edge=0.02)
        >>> found.line.partition(":")[0]
        '0.5 x Kelly, at most 5% on a side for an edge of +2.00 %, as stated'
        """
        return bankroll_of(
            self, self.agent_id, edge=edge, training=training, staking=staking, open_s=open_s, ruin_below=ruin_below,
            paths=paths, seed=self.seed,
        )  # fmt: skip

    @names_checked
    def executable(
        self, *, stake: float = STAKE, delay_s: float = DELAY_S, commission: float | str = 0.0, max_age_s: float = AGE_S
    ) -> Executable:  # fmt: skip
        """Return the profit of the selected decisions from taking offers; see ``Result.executable``.

        Raises
        ------
        StatisticsError
            A value is out of its range, or the venue is unknown.
        """
        return Executable(self.source, stake, delay_s, commission, max_age_s, self.level, selection=self.selection)

    @names_checked
    def power(self, edge: float | None = None, *, by: str = "clv") -> PowerResult:
        """Return how many more fixtures would show an edge, at the error of a mean of this sheet.

        Parameters
        ----------
        edge
            The smallest edge that matters to you, above 0, in the unit of the measure: 34 for 34 bps. It should not be the mean
            that was found. Without an edge there are a few round ones.
        by
            ``clv``, ``edge`` or ``price_ratio``.

        Raises
        ------
        StatisticsError
            The edge is not above 0, fewer than five fixtures have a decision, or ``by`` is no measure.

        Examples
        --------
        >>> import clvlab as cl
        >>> found = cl.backtest("starter", "cumulative-drift").tear_sheet().power(edge=34)
        >>> found.frame.select("fixtures", "needed", "more").row(0)
        (12, 1302, 1290)
        """
        measure = measure_of(by)
        return mean_power(self._sums[measure.name], measure, edge, self.level)

    @names_checked
    def regress(self, formula: str) -> RegressionResult:
        """Regress the scores of this sheet on facts known at the decisions; see ``Result.regress``."""
        return regression_of(self.scored, self.source.pack, formula, self.level)

    @cached_property
    def moved_lines(self) -> pl.DataFrame:
        """``MOVED_LINES``: selected decisions whose line was not quoted at the close, outside all other means."""
        return moved_lines(self.source).filter(self.selection.matching(self.source.pack))

    @cached_property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The breakdowns by name.

        They are by_time, by_league, by_market, by_side, by_probability, by_gap, fixtures, reasons, refusals and quality.
        Where there is a mean CLV, there is also the mean edge, and the return of a flat stake if the pack has results.
        With a pack that keeps its books, there are also ``closes``, the decisions by every close, and ``on_offer``, the prices
        of each book at the decisions; see ``CLOSES`` and ``ON_OFFER``.
        """
        own = breakdowns.tables(self.source, self.scored, self.level, whole=self.selection.is_whole)
        return own | dict(tables_of(self.source, self.scored, self.level))

    @cached_property
    def top_five(self) -> tuple[float | None, float | None]:
        """Percentage of the total CLV from the five best fixtures, and the mean CLV without them, in bps."""
        fixtures = breakdowns.fixture_totals(self.scored)
        total, n, top, best = (
            int(part[name].sum()) for part in (fixtures, fixtures.head(5)) for name in ("total_clv_bps", "n")
        )
        return 100 * top / total if total > 0 else None, (total - top) / (n - best) if n > best else None

    @property
    def plot(self) -> Plots:
        """Every picture of the sheet, such as ``sheet.plot.clv()``; each can also be drawn on your axes."""
        return Plots(self)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row per figure: (figure, value, low, high, unit)."""
        schema = {"figure": pl.String, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64, "unit": pl.String}
        return pl.DataFrame(figures(self, moved=True), schema=schema, orient="row")

    @property
    def line(self) -> str:
        """The sheet in one sentence."""
        return line(self)

    @names_checked
    def only(
        self, *, leagues: Iterable[str] = (), markets: Iterable[str] = (), sides: Iterable[str] = (),
        fixtures: Iterable[int] = (), since: date | str | None = None, until: date | str | None = None,
    ) -> TearSheet:  # fmt: skip
        """Return the sheet of some decisions of the run, which replaces any earlier selection.

        If you choose a part because it looks good, its interval is too optimistic.

        Parameters
        ----------
        leagues
            Names of the pack's source.
        markets
            Prefixes of market keys.
        sides
            Sides that were backed.
        fixtures
            Fixture ids.
        since, until
            First and last day, UTC, of the close: a date, or text as ``2026-01-31``.

        Raises
        ------
        StatisticsError
            The pack does not have a league, or a value is not a list or a day.
        UnknownFixtureError
            The pack does not have a fixture.

        Examples
        --------
        >>> import clvlab as cl
        >>> sheet = cl.backtest("starter", "cumulative-drift").tear_sheet()
        >>> totals = sheet.only(markets=["OVERUNDER_PARTICIPANT_GOALS"], sides=["over"])
        >>> 0 < totals.clv.n < sheet.clv.n, totals.selection.words
        (True, 'market OVERUNDER_PARTICIPANT_GOALS, side over')
        """
        chosen = Selection.of(leagues, markets, sides, fixtures, since, until)
        chosen.matching(self.source.pack)  # refuses a wrong value immediately
        return replace(self, selection=chosen)

    def __repr__(self) -> str:
        of = f", {self.selection.words}" if self.selection.words else ""
        return f"Tear sheet of {self.agent_id}{of}: {self.line}; next: .frame, .tables, .plot, .only(), .to_html(path)"

    def _repr_html_(self) -> Html:
        of = f"{self.source.run_id} {self.agent_id} {self.selection.words} {self.level}"
        with display_progress(f"Tear sheet of {self.agent_id}"):
            return story(self, prefix=f"s{sha256(of.encode()).hexdigest()[:8]}-")


# The tear sheet as a page.


def tear_sheet_page(performed: Run, executable: Executable | None = None) -> str:
    """Return the tear sheet of a backtest of one agent as one HTML page, without requests.

    ``executable`` is what taking offers would have paid, with other settings than the default ones.

    It works under the content security policy ``clvlab.report.html.page_policy``. Its only script adds the reader's own time.

    Examples
    --------
    >>> import clvlab as cl
    >>> page = tear_sheet_page(cl.backtest("starter", "cumulative-drift").source)
    >>> page[:15], page.count("<svg"), page.count("<script")
    ('<!DOCTYPE html>', 156, 1)
    """
    sheet, report = TearSheet(performed), performed.report
    run = {
        **({"backtest": report["backtest_id"]} if report["mode_label"] == "Backtest" else {}),
        "run": report["run_id"],
        "window": report["window_id"],
        "pack": report["content_hash"],
        "evidence": report["evidence_hash"],
        "manifest": report["manifest_hash"],
    }
    checks = [(CHECK_QUESTIONS.get(name, name), name, verdict) for name, verdict in report["checks"].items()]
    sealed = render("sealed.html", run=run, checks=checks)
    return page(f"Tear sheet of {sheet.agent_id} on {report['pack_id']}", story(sheet, executable, sealed=sealed))
