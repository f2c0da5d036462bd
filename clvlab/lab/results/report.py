"""A backtest in a notebook: its scores, its report, and the way to its statistics."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import orjson
import polars as pl

from clvlab.application.runs.perform import PerformedRun
from clvlab.lab.drawing import html
from clvlab.lab.drawing.html import escape
from clvlab.lab.drawing.showing import Shown, optional
from clvlab.lab.explorer import Explorer
from clvlab.lab.results.contender import Contender, of_backtest
from clvlab.lab.results.plots import Plots
from clvlab.lab.results.run import Run
from clvlab.lab.results.tearsheet import TearSheet

__all__ = ["Backtest", "Report", "Scores"]


class Scores(pl.DataFrame):
    """One row per decision: a polars frame that is taken elsewhere like every other result."""

    frame = property(lambda self: self)
    to_parquet, to_csv, to_html = Shown.to_parquet, Shown.to_csv, Shown.to_html

    def to_pandas(self, *arguments: Any, **options: Any) -> Any:
        """Return a pandas ``DataFrame``; arguments are those of polars.

        Raises
        ------
        MissingLibraryError
            pandas is not installed.
        """
        optional("pandas", "to_pandas()")
        return super().to_pandas(*arguments, **options)


class Report(dict[str, Any], Shown):
    """A backtest report: a dict that shows itself."""

    @property
    def frame(self) -> pl.DataFrame:
        """One row per entry, values as JSON text."""
        rows = [(name, orjson.dumps(value).decode()) for name, value in self.items()]
        return pl.DataFrame(rows, schema={"name": pl.String, "value": pl.String}, orient="row")

    def __repr__(self) -> str:
        return f"Report {self['backtest_id']} of {self['agent']['agent_id']} on {self['pack_id']!r}; next: .frame, .keys()"

    def _repr_html_(self) -> str:
        return self.shown()

    def shown(self, interval: str = "") -> str:
        """The report as HTML; an interval, which scores are needed for, stands beside the mean."""
        metrics = self["metrics"]
        age = self["closing_age_ms"]
        return html.block(
            f"{self['mode_label']} of {self['agent']['agent_id']} on {self['pack_id']}",
            html.facts(
                {
                    "mean CLV": _bps(metrics["avg_clv_bps"]) + interval,
                    "scored actions": metrics["action_count"],
                    "fixtures": self["n_fixtures"],
                    "markets": self["markets_matched"],
                    "confidence": f"{metrics['clv_confidence']}{' (small sample)' if metrics['low_sample'] else ''}",
                    "decisions by close": ", ".join(f"{kind} {count:,}" for kind, count in self["close_kinds"].items())
                    or "none",
                    "age of the close": _age(age["median"], age["max"]),
                    "source of the close": f"{self['closing_source']} ({self['provenance']})",
                    "run": self["run_id"],
                }
            ),
            html.table(["decisions by reason", "count"], list(self["reasons"].items())),
            html.table(["check", "verdict"], [(name, html.badge(verdict)) for name, verdict in self["checks"].items()]),
            *(f"<p>{escape(warning)}</p>" for warning in self["warnings"]),
        )


def _bps(value: float | None) -> str:
    return "no scored action" if value is None else f"{value:+.2f} bps of probability"


def _age(median_ms: float | None, max_ms: int | None) -> str:
    if median_ms is None or max_ms is None:
        return "no scored action"
    return f"median {median_ms / 1000:,.0f} s, at most {max_ms / 1000:,.0f} s"


class Backtest(Shown):
    """A sealed backtest: report, scores, run."""

    def __init__(self, backtest: PerformedRun) -> None:
        self.source = backtest

    @property
    def report(self) -> Report:
        return Report(self.source.report)

    @property
    def scores(self) -> Scores:
        """One row per decision, abstentions and invalid ones included."""
        return Scores(self.source.scores)

    @property
    def frame(self) -> pl.DataFrame:
        """The outcomes per agent."""
        return self.source.result.outcomes

    @property
    def run(self) -> Run:
        return Run(self.source.run, self.source.receipts)

    @cached_property
    def contenders(self) -> list[Contender]:
        """The agent with its scores, as comparisons take it."""
        return of_backtest(self.source)

    def tear_sheet(self, *, level: float = 0.95, resamples: int = 5_000, draws: int = 200, seed: int = 0) -> TearSheet:
        """Return the statistics of the backtest: means with intervals over fixtures, breakdowns, placebo, pictures.

        Parameters
        ----------
        level
            Of the intervals, above 0 and below 1.
        resamples
            Of the bootstrap over fixtures.
        draws
            Of the placebo.
        seed
            Of both; the same seed gives the same sheet.

        Raises
        ------
        StatisticsError
            A level outside 0..1, or fewer than one resample or draw.

        Examples
        --------
        >>> from clvlab.lab import backtest
        >>> backtest("starter", "cumulative-drift").tear_sheet().clv.n_clusters
        12
        """
        return TearSheet(self.source, level, resamples, draws, seed)

    def explore(
        self,
        fixture_id: int | None = None,
        market_key: str | None = None,
        *,
        position: int | None = None,
        span_ms: tuple[int, int] | None = None,
    ) -> Explorer:
        """Look at one market at a time: its line, the decisions on it, and what was known when; a widget in JupyterLab.

        Parameters
        ----------
        fixture_id, market_key
            What is seen first; by default where most was decided.
        position
            How many messages of the market the replay has come to; everything by default.
        span_ms
            First and last time of the picture, UTC milliseconds; the whole market by default.

        Raises
        ------
        UnknownFixtureError
            A fixture that was not replayed.
        UnknownMarketError
            A market that the fixture does not have.

        Examples
        --------
        >>> from clvlab.lab import backtest
        >>> backtest("starter", "cumulative-drift").explore(90000005).view.sides
        ('over', 'under')
        """
        explorer = Explorer(self.source)
        if fixture_id is None and market_key is None:
            return explorer.seek(position, span_ms)
        shown = explorer.fixture_id if fixture_id is None else fixture_id
        return explorer.show(shown, market_key, position=position, span_ms=span_ms)

    @cached_property
    def plot(self) -> Plots:
        """The pictures of the tear sheet: ``bt.plot.clv()``, also on axes of one's own."""
        return self.tear_sheet().plot

    def __repr__(self) -> str:
        row = self.frame.row(0, named=True)
        mean = _bps(row["mean_clv_bps"])
        return (
            f"Backtest of {row['agent_id']} on {self.source.pack.pack_id!r}: mean CLV {mean} over {row['action_count']:,} "
            "scored actions; next: .tear_sheet(), .report, .scores, .run.verify()"
        )

    def _repr_html_(self) -> str:
        clv = self.tear_sheet().clv
        if clv.low is None or clv.high is None:
            return self.report.shown()
        return self.report.shown(f" [{clv.low:+.2f}, {clv.high:+.2f}], 95 % over {clv.n_clusters:,} fixtures")
