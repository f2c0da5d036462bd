"""The headline of a run: its mean CLV and its edge at the prices taken, with intervals over fixtures, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import polars as pl

from clvlab.report.html import Html
from clvlab.report.svg import interval_bar, interval_cell, scale
from clvlab.runs.run import Run
from clvlab.statistics import BeatRate, Estimate, estimates
from clvlab.statistics.measures import MEASURES, Measure, fixture_sums, stacked
from clvlab.statistics.verdict import Verdict, verdict
from clvlab.words import counted, estimate, interval, share

# The means of one agent's scores, and their text.


LEVEL = 0.95
TOO_FEW = "too few fixtures for an interval"


def means_of(scores: pl.DataFrame, *names: str) -> dict[str, Estimate]:
    """Return the means of ``SCORES`` with ``at_close`` by the names of measures, which are all by default.

    Examples
    --------
    >>> import clvlab as cl
    >>> means_of(cl.backtest("starter", "cumulative-drift").scores)["clv"].n_clusters
    12
    """
    sums = [fixture_sums(scores)]
    return {name: estimates(stacked(sums, MEASURES[name])[0], level=LEVEL)[0] for name in names or MEASURES}


def spelt_mean(found: Estimate, unit: str) -> str:
    """Return a mean with its interval as text, with significant digits only.

    Examples
    --------
    >>> import polars as pl
    >>> from clvlab.statistics import cluster_mean
    >>> spelt_mean(cluster_mean(pl.Series([10, 20]), pl.Series([1, 2])), "bps")
    '+15 bps, too few fixtures for an interval'
    """
    if found.mean is None:
        return "none"
    return estimate(found.mean, found.low, found.high, unit) + _too_few(found)


def edge_bar(edge: Estimate) -> Html:
    """Draw the edge at the prices taken with its interval as an SVG element; empty without a price."""
    return interval_bar(edge.mean, edge.low, edge.high, unit="%", digits=2)


def key_figures(clv: Estimate, edge: Estimate, beat: BeatRate, level: str) -> dict[str, str]:
    """Return the key figures by name; ``level`` is the level of the intervals as text."""
    return {
        f"mean CLV, {level} interval": spelt_mean(clv, "bps"),
        "edge at the price taken": spelt_mean(edge, "%"),
        "beat the close, of those that moved": spelt_rate(beat),
        "scored decisions": f"{clv.n:,} in {counted(clv.n_clusters, 'fixture')}",
    }


def spelt_rate(found: BeatRate) -> str:
    """Return the share of decisions that beat the close, with its interval, as text.

    Examples
    --------
    >>> import polars as pl
    >>> from clvlab.statistics import beat_close_rate
    >>> spelt_rate(beat_close_rate(pl.Series([3, -1, 0]), pl.Series([1, 2, 3])))
    '50.0%, too few fixtures for an interval'
    """
    if found.rate is None:
        return "nothing moved"
    return f"{share(found.rate)}{interval(found.low, found.high, '.1%')}{_too_few(found)}"


def _too_few(found: Estimate | BeatRate) -> str:
    return f", {TOO_FEW}" if found.low is None or found.high is None else ""


@dataclass(frozen=True, slots=True)
class MeanRow:
    """A mean with its interval, and their picture on the scale of all rows."""

    agent: str
    picture: Html
    mean: float | None
    low: float | None
    high: float | None
    fixtures: int
    others: tuple[tuple[float | None, float | None, float | None], ...]  # mean, low and high of each further column


@dataclass(frozen=True, slots=True)
class Column:
    """A further mean in a forest: its title, and the columns of mean and bounds."""

    title: str
    mean: str
    low: str
    high: str


@dataclass(frozen=True, slots=True)
class MeanForest:
    """Means with their intervals, under a title; ``others`` are the titles of further means."""

    title: str
    rows: tuple[MeanRow, ...]
    others: tuple[str, ...]


def forest(rows: pl.DataFrame, measure: Measure, others: Sequence[Column] = ()) -> MeanForest:
    """Return the forest of rows with ``agent``, the mean under the measure's name, ``low``, ``high`` and ``fixtures``."""
    within = scale([*rows["low"], *rows["high"], *rows[measure.mean]])
    named = rows.select("agent", measure.mean, "low", "high", "fixtures").iter_rows()
    further = zip(*(rows.select(one.mean, one.low, one.high).rows() for one in others), strict=True) if others else repeat(())
    return MeanForest(
        f"mean {measure.title}, {measure.short}",
        tuple(
            MeanRow(agent, interval_cell(mean, low, high, within), mean, low, high, fixtures, rest)
            for (agent, mean, low, high, fixtures), rest in zip(named, further, strict=False)
        ),
        tuple(one.title for one in others),
    )


@dataclass(frozen=True, slots=True)
class Headline:
    """Two means with their intervals, and the sentence that they support; entries at the closing message are left out.

    Attributes
    ----------
    clv
        Mean CLV in bps of probability.
    edge
        Mean edge at the prices taken in percent, without a mean if nothing was priced.
    """

    clv: Estimate
    edge: Estimate

    @property
    def verdict(self) -> Verdict:
        """The sentence."""
        return verdict(self.clv, self.edge)

    @property
    def interval(self) -> str:
        """The mean with its interval, as ``+2.4 bps [+0.6, +4.3]``."""
        return "no scored action" if self.clv.mean is None else spelt_mean(self.clv, "bps")

    @property
    def price(self) -> str:
        """The edge with its interval, as ``-1.2 % [-2.9, +0.5]``."""
        return "no price" if self.edge.mean is None else spelt_mean(self.edge, "%")

    def facts(self) -> Mapping[str, object]:
        """Return the figures and the sentence as JSON values."""
        clv, edge, verdict = self.clv, self.edge, self.verdict
        return {
            "mean_clv_bps": clv.mean,
            "low": clv.low,
            "high": clv.high,
            "fixtures": clv.n_clusters,
            "mean_edge_pct": edge.mean,
            "edge_low": edge.low,
            "edge_high": edge.high,
            "verdict": verdict.sentence,
            "tone": verdict.tone.value,
        }


def headline(scores: pl.DataFrame) -> Headline:
    """Judge ``SCORES`` with ``at_close`` of one agent.

    Examples
    --------
    >>> import clvlab as cl
    >>> headline_of(cl.backtest("starter", "cumulative-drift").source).clv.n_clusters
    12
    """
    found = means_of(scores, "clv", "edge")
    return Headline(found["clv"], found["edge"])


def headline_of(done: Run) -> Headline:
    """Judge a run of one agent."""
    return headline(done.scores.with_columns(at_close=done.at_close))
