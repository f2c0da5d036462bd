"""The tear sheet: all figures of an agent in a backtest, with units and intervals."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Any

import polars as pl

from clvlab.base import progress
from clvlab.base.names import names_checked
from clvlab.law.tape import Tape
from clvlab.report import breakdowns
from clvlab.report.bankrolls import BankrollFan, bankroll_of
from clvlab.report.bars import display_progress
from clvlab.report.breakdowns import dated_pictures, tables_of
from clvlab.report.cautions import cautions
from clvlab.report.executable import AGE_S, DELAY_S, STAKE, Executable, listed_values
from clvlab.report.export import Exportable, check_settings
from clvlab.report.figures import BPS, GLOSSARY, MEANINGS, Figure, Settlement, Sheet, figures, line, settlement
from clvlab.report.headline import edge_bar, key_figures
from clvlab.report.html import Html, card, page, render
from clvlab.report.moved_lines import APART, mean_rows, moved_lines
from clvlab.report.plots import Plots
from clvlab.report.power import PowerResult, mean_power, mean_ruler
from clvlab.report.regression import RegressionResult, regression_of
from clvlab.report.selection import Selection
from clvlab.report.svg import calendar_map, interval_bar, interval_cell, scale, sparkline
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
from clvlab.statistics.clusters import TOP, side_by_side
from clvlab.statistics.means import finite
from clvlab.statistics.measures import MEASURES, measure_of, stacked, summed
from clvlab.statistics.staking import HALF_KELLY
from clvlab.statistics.verdict import SEARCH, verdict
from clvlab.words import REASONS, counted, interval, market_names

# A tear sheet as HTML.


_PART = "chosen from a larger run"


def sheet_html(sheet: Sheet, pictures: list[Html], executable: Executable | None = None) -> Html:
    """Show a tear sheet with its pictures, and what taking offers would have paid."""
    clv, own, pack = sheet.clv, sheet.tables, sheet.source.pack
    progress.report("writing the sheet")
    ruler, ruled = mean_ruler(sheet.sums["clv"], MEASURES["clv"], sheet.level)
    scored, settled = sheet.scored, sheet.settled
    tables = {name: (title, own[name]) for name, title in breakdowns.TITLES.items() if own[name].height}
    calibrations = {
        "Calibration: confidence against beating the close": sheet.calibration,
        "Calibration: closing probability against results": settled.close if settled else None,
        "Calibration: entry probability against results": settled.entry if settled else None,
    }
    return card(
        "tear_sheet.html",
        f"Tear sheet of {sheet.agent_id} on {pack.pack_id} ({pack.provenance}, {pack.verified_grade})",
        verdict=verdict(clv, sheet.edge, caveat=SEARCH if sheet.selection.is_whole else f"{_PART}, and {SEARCH}"),
        selection=sheet.selection.words,
        cautions=sheet.cautions,
        interval=interval_bar(clv.mean, clv.low, clv.high),
        edge_interval=edge_bar(sheet.edge),
        ruler=ruler,
        ruled=ruled,
        key_figures=key_figures(clv, sheet.edge, sheet.beat, f"{sheet.level:.0%}") if clv.n else {},
        dated=dated_pictures(scored, sheet.level),
        calendar=calendar_map(_days(scored)),
        leagues=_with_pictures(own["by_league"]),
        markets=_markets(sheet) if clv.n else [],
        priced=sheet.edge.n > 0,
        pictures=pictures,
        line=sheet.line,
        figures=[(row[0], MEANINGS.get(row[0], ""), *_value(row), row[4]) for row in sheet.frame.iter_rows()],
        level=sheet.level,
        settled=settled is not None,
        glossary=GLOSSARY,
        means=[
            (title, found.columns[0], _named_rows(name, found)) for name, (title, found) in tables.items() if _is_mean(name)
        ],
        tables=[
            (name, title, _rows_of(name, found), found.columns) for name, (title, found) in tables.items() if not _is_mean(name)
        ],
        calibrations={title: found for title, found in calibrations.items() if found},
        moved=mean_rows(sheet.moved_lines, sheet.level),
        apart=APART,
        executable=_would_have_paid(executable or Executable(sheet.source, level=sheet.level, selection=sheet.selection)),
    )


def _would_have_paid(found: Executable) -> Html:
    return Html("") if found.why else render("executable.html", **listed_values(found))


def _is_mean(name: str) -> bool:
    return name.startswith("by_")


def _days(scored: pl.DataFrame) -> dict[date, tuple[float, int]]:
    day = pl.from_epoch("close_ts_ms", time_unit="ms").dt.date().alias("day")
    found = scored.drop_nulls("close_ts_ms").group_by(day).agg(mean=pl.mean("clv_bps"), n=pl.len()).sort("day")
    return {row[0]: (row[1], row[2]) for row in found.iter_rows()}


def _named_rows(name: str, table: pl.DataFrame) -> list[Mapping[str, object]]:
    """Return the rows of a breakdown with ``name`` and ``key`` of their group."""
    return [
        row | {"name": words, "key": key}
        for row, (words, key, *_) in zip(table.iter_rows(named=True), _in_words(name, table), strict=True)
    ]


def _markets(sheet: Sheet) -> list[Mapping[str, object]]:
    """Return a row for each market: mean, interval and a line of the sum."""
    rows, walks = sheet.tables["by_market"], breakdowns.market_walks(sheet.scored)
    names = market_names(rows["market"])
    return [
        {**row, "name": names[key], "walk": sparkline(walks[key])}
        for key, row in zip(rows["market"], _with_pictures(rows), strict=True)
    ]


def _with_pictures(table: pl.DataFrame) -> list[Mapping[str, object]]:
    """Return the rows of a breakdown with pictures of their intervals on one scale."""
    within = scale([*table["low"], *table["high"], *table["mean_clv_bps"]])
    return [
        row | {"picture": interval_cell(row["mean_clv_bps"], row["low"], row["high"], within)}
        for row in table.iter_rows(named=True)
    ]


def _value(row: Figure) -> tuple[str | None, str]:
    """Return a figure and its interval as text; `None` without a value."""
    _, value, low, high, unit = row
    digits = 4 if unit.endswith("probability") and unit != BPS else 2
    form = f"z,.{digits}f"
    return None if value is None else f"{value:{form}}", interval(low, high, form)


def _rows_of(name: str, table: pl.DataFrame) -> Sequence[object]:
    if name == "closes":
        return _with_pictures(table)
    return table.rows(named=True) if name == "on_offer" else _in_words(name, table)


def _in_words(name: str, table: pl.DataFrame) -> list[tuple[Any, ...]]:
    """Return the rows of a breakdown, with names in place of market keys and reasons."""
    words = market_names(table["market"]) if name == "by_market" else REASONS if name in ("reasons", "refusals") else {}
    return [(words.get(key, key), key, *rest) for key, *rest in table.iter_rows()]


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
    def sums(self) -> dict[str, BoundedClusters]:
        """Sums of the values per fixture, by the name of the measure."""
        found = [summed(self.scored)]
        return {name: stacked(found, one)[0] for name, one in MEASURES.items()}

    @cached_property
    def means(self) -> dict[str, Estimate]:
        """The three means, by name."""
        return {name: estimates(sums, level=self.level)[0] for name, sums in self.sums.items()}

    @property
    def left_out(self) -> int:
        """Number of entries at the closing message, which are left out."""
        return self._all.height - self.scored.height

    @cached_property
    def sign_flips(self) -> dict[str, float | None]:
        """Two-sided p-value of each mean under sign flips by fixture; ``None`` with too few fixtures."""
        found = sign_flip_p_values(side_by_side(list(self.sums.values())), resamples=self.resamples, seed=self.seed)
        return {name: finite(float(p)) for name, p in zip(self.sums, found, strict=True)}

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
        """Return what the selected decisions would have paid by taking offers; see ``Result.executable``.

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
        return mean_power(self.sums[measure.name], measure, edge, self.level)

    @names_checked
    def regress(self, formula: str) -> RegressionResult:
        """Regress the scores of this sheet on what was known at the decisions; see ``Result.regress``."""
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
        return pl.DataFrame(self.figures(), schema=schema, orient="row")

    def figures(self, *, moved: bool = True) -> list[Figure]:
        """Return the rows of ``.frame``; ``moved`` adds decisions on lines that moved, which reads the whole tape."""
        return figures(self, moved=moved)

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
        with display_progress(f"Tear sheet of {self.agent_id}"):
            return sheet_html(self, self.plot.svgs())


# The tear sheet as a page.


def tear_sheet_page(performed: Run, executable: Executable | None = None) -> str:
    """Return the tear sheet of a backtest of one agent as one HTML page, without scripts and requests.

    ``executable`` is what taking offers would have paid, with other settings than the default ones.

    It works under ``Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; img-src data:``.

    Examples
    --------
    >>> import clvlab as cl
    >>> page = tear_sheet_page(cl.backtest("starter", "cumulative-drift").source)
    >>> page[:15], page.count("<svg"), "<script" in page
    ('<!DOCTYPE html>', 43, False)
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
    spread, sealed = card("spread.html", spread=_spread(sheet)), card("sealed.html", run=run, checks=report["checks"])
    return page(
        f"Tear sheet of {sheet.agent_id} on {report['pack_id']}",
        sheet_html(sheet, sheet.plot.svgs(), executable) + spread + sealed,
    )


def _spread(sheet: TearSheet) -> str:
    found = sheet.concentration
    if found.effective_clusters is None or found.largest_share is None or found.top_share is None:
        return "There is no scored decision."
    return (
        f"{counted(sheet.clv.n, 'scored decision')} in {counted(sheet.clv.n_clusters, 'fixture')} are spread as evenly as over "
        f"{found.effective_clusters:,.1f} fixtures of one size (Kish). The largest fixture has "
        f"{100 * found.largest_share:.1f} % of them, the {TOP} largest {100 * found.top_share:.1f} %."
    )
